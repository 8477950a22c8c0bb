"""Implement the commands that inspect, check, roll back and clean up state. Only `state verify --deep` starts a JVM."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

import substrait_agg
from substrait_agg.escape import printable
from substrait_agg_cli.queries import pairs
from substrait_agg_cli.sparklog import spark_log
from substrait_agg_cli.terminal import (
    FAILURE,
    debug_option,
    debug_wanted,
    existing_folder,
    show,
)

if TYPE_CHECKING:
    from substrait_agg.tools.state import State

Command = Callable[..., Any]
FORMATS = ("table", "json")

EPILOG = """\b
Examples:
  substrait-agg state ls ckpt
  substrait-agg state show ckpt --key '{"region": "north"}'
  substrait-agg state verify ckpt
  substrait-agg state rollback ckpt --to 41
"""

format_option = click.option(
    "--format",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="table: for the terminal; json: all details.",
)

no_run_option = click.option(
    "--no-run",
    is_flag=True,
    help="Confirm that no run is in progress on any machine. Needed where locks are not supported (object stores).",
)

dry_run_option = click.option("--dry-run", is_flag=True, help="Only print what would be done.")


def _limit_option(help: str) -> Callable[[Command], Command]:
    return click.option(
        "--limit",
        type=click.IntRange(min=0),
        default=20,
        show_default=True,
        metavar="N",
        help=help,
    )


OUTPUT_WAYS = {
    "cut text": "its lines of later versions are removed",
    "delete files": "its files of later versions are deleted",
    "deliver again": "it keeps its later versions, and new versions are appended",
    "write again": "the next run empties the table and writes it from the first version on",
    "stuck": "it cannot take a version twice",
}


@click.group(epilog=EPILOG)
@debug_option
def state() -> None:
    """Inspect, verify, roll back, rescale and vacuum the state of a checkpoint DIR.

    ls, show and verify can be used during a run. rollback and vacuum are refused during a run; rescale applies to the next run.
    """


def _open(directory: str) -> State:
    return substrait_agg.open_state(existing_folder(directory))


def _lines(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)


def _json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


@state.command(
    epilog="Examples: substrait-agg state ls ckpt; substrait-agg state ls ckpt --limit 0 --format json"
)
@click.argument("directory", metavar="DIR")
@_limit_option("Number of newest versions to list; 0 for all.")
@format_option
@debug_option
def ls(directory: str, limit: int, format: str) -> None:
    """List the versions, the views, and the trees of each operator at the newest version."""
    from substrait_agg_cli.state_tables import list_lines

    listing = _open(directory).ls(limit or None)
    if format == "json":
        _json(listing.to_json())
    else:
        _lines(list_lines(listing))


@state.command(
    name="show",
    epilog="""Examples: substrait-agg state show ckpt --key '{"k": 7}'; substrait-agg state show ckpt --tree tree0 --limit 5""",
)
@click.argument("directory", metavar="DIR")
@click.option(
    "--key",
    metavar="JSON",
    help='Show the groups with this key, with all their trees. {"column": value, ...}, or [value, ...] in order, '
    "or the value of a single column; values as in json outputs. Omitted columns match any value.",
)
@click.option(
    "--operator",
    type=click.IntRange(min=0),
    metavar="N",
    help="Number of the operator; default: the last.",
)
@click.option(
    "--name",
    metavar="VIEW",
    help="Show the operator that has the rows of this view, where a run maintains several views.",
)
@click.option(
    "--tree",
    metavar="NAME",
    help="Tree to show: group, pending, closed, tree0, tree1, ...; default: group, or all trees with --key.",
)
@click.option(
    "--version", type=click.IntRange(min=0), metavar="N", help="Show the state at this version."
)
@_limit_option("The most rows per tree; 0 for all.")
@format_option
@debug_option
def show_(
    directory: str,
    key: str | None,
    operator: int | None,
    name: str | None,
    tree: str | None,
    version: int | None,
    limit: int,
    format: str,
) -> None:
    """Show the state of groups: weight, exact totals, the row last emitted, pending rows, tree entries.

    Totals are exact. A total of more than 60 digits is rounded and starts with ~.
    """
    from substrait_agg.tools.showing import parse_key
    from substrait_agg.tools.state import ANY

    parsed_key = ANY if key is None else parse_key(key)
    opened = _open(directory)
    tables = opened.show(
        tree, key=parsed_key, operator=operator, name=name, version=version, limit=limit or None
    )
    if format == "json":
        _show_json(tables)
    else:
        _show_tables(tables, one=key is not None)


def _show_json(tables: dict[str, Any]) -> None:
    from substrait_agg.changes import row_lines

    trees = {
        name: [json.loads(r) for r in "".join(row_lines(t)).splitlines()]
        for name, t in tables.items()
    }
    _json(trees)


def _show_tables(tables: dict[str, Any], *, one: bool) -> None:
    from substrait_agg.changes import table_lines

    for number, (name, table) in enumerate(tables.items()):
        if len(tables) > 1:
            click.echo(f"{'' if not number else chr(10)}{name}:")
        if one and name == "group":
            _upright(table)
        elif table.num_columns:
            sys.stdout.write("".join(table_lines(table)))
        else:
            click.echo("(0 rows)")


def _upright(table: Any) -> None:
    """Print one line per column, because a group has too many columns for one line."""
    from substrait_agg.changes.formats.encode import cell_texts

    columns = [column.to_pylist() for column in cell_texts(table)]
    width = max((len(name) for name in table.column_names), default=0)
    for row in range(table.num_rows):
        for name, cells in zip(table.column_names, columns, strict=True):
            click.echo(f"{printable(name).ljust(width)} | {cells[row]}")
        click.echo("")
    click.echo(f"({table.num_rows} group{'' if table.num_rows == 1 else 's'})")


@state.command(
    epilog="Examples: substrait-agg state verify ckpt; substrait-agg state verify ckpt --deep --source t=parquet:t; substrait-agg state verify ckpt --format json"
)
@click.argument("directory", metavar="DIR")
@click.option(
    "--deep",
    is_flag=True,
    help="Also compute the views of the newest version again from all rows of their sources, with Spark, and "
    "compare them and the state of their operators.",
)
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="NAME=SPEC",
    help="With --deep or --against: the source of a table, as it was given to the run. Local Parquet files only. May be "
    "repeated.",
)
@click.option(
    "--against",
    type=click.Choice(("duckdb", "spark")),
    help="Compute --query over the sources with this engine, and compare a sample of the rows of the view with it.",
)
@click.option(
    "--query",
    metavar="TEXT",
    help="With --against: the query of the view, as the engine reads it.",
)
@click.option(
    "--name",
    metavar="VIEW",
    help="With --against: the name of the view, where a run maintains several views.",
)
@format_option
@debug_option
def verify(
    directory: str,
    deep: bool,
    sources: tuple[str, ...],
    against: str | None,
    query: str | None,
    name: str | None,
    format: str,
) -> None:
    """Verify the checkpoint: checksums, sort order, counters, and the view against the sum of its changes.

    Exit status: 0 no faults; 1 faults, each listed with its file and a remedy.
    """
    source_specs = pairs(sources, "--source", "NAME=SPEC")
    with spark_log(debug=debug_wanted()) as log:
        verdict = _open(directory).verify(
            deep=deep, sources=source_specs, against=against, query=query, name=name, spark_log=log
        )
    if format == "json":
        _json(verdict.to_json())
    else:
        for finding in verdict.findings:
            level = "error" if finding.level == "error" else "note"
            show(level, finding.code, finding.path, finding.message, finding.help)
        checked = ", ".join(f"{count} {what}" for what, count in verdict.checked.items())
        faults = len(verdict.errors)
        result = f"{faults} fault{'' if faults == 1 else 's'}" if faults else "no faults"
        click.echo(f"{result}: checked {checked}")
    if not verdict.ok:
        click.get_current_context().exit(FAILURE)


@state.command(
    epilog="Examples: substrait-agg state rollback ckpt --to 41 --dry-run; substrait-agg state rollback ckpt --to 41 --force"
)
@click.argument("directory", metavar="DIR")
@click.option(
    "--to",
    "to",
    type=click.IntRange(min=0),
    required=True,
    metavar="N",
    help="The version to roll back to.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Roll back although outputs have later versions. These versions are removed from text outputs and files "
    "of changes; other outputs keep them, and later runs append to them.",
)
@dry_run_option
@no_run_option
@format_option
@debug_option
def rollback(
    directory: str, to: int, *, force: bool, dry_run: bool, no_run: bool, format: str
) -> None:
    """Roll back to version N: delete all later versions. The next run reads their input again.

    N is a version whose state is kept (state ls). Refused during a run. To finish a rollback that was killed, start it
    again; no run starts before it is finished.
    """
    done = _open(directory).rollback(to, force=force, dry_run=dry_run, no_run=no_run)
    if format == "json":
        _json({**done.to_json(), "dry_run": dry_run})
        return
    would = "would roll" if dry_run else "rolled"
    click.echo(
        f"{would} back from version {done.newest} to {done.to}; the next run reads the input after it"
    )
    for output in done.outputs:
        click.echo(f"output {printable(output.output)}: {OUTPUT_WAYS[output.way]}")


@state.command(epilog="Examples: substrait-agg state rescale ckpt --partitions 16")
@click.argument("directory", metavar="DIR")
@click.option(
    "--partitions",
    type=click.IntRange(min=0),
    required=True,
    metavar="N",
    help="A power of two; 0 removes the setting, so that runs use one partition per core.",
)
@format_option
@debug_option
def rescale(directory: str, partitions: int, format: str) -> None:
    """Set the number of state partitions for runs without --partitions.

    Only the number is written: any number of partitions can read the same files. A run in progress keeps its number.
    """
    before = _open(directory).rescale(partitions or None)
    if format == "json":
        _json({"partitions": partitions or None, "before": before})
        return
    after, earlier = (str(number or "one per core") for number in (partitions, before))
    click.echo(f"partitions of the next runs: {after} (before: {earlier})")


@state.command(
    epilog="Examples: substrait-agg state vacuum ckpt --dry-run; substrait-agg state vacuum ckpt --keep 3 --older-than 7d"
)
@click.argument("directory", metavar="DIR")
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    metavar="N",
    help="Keep the state of the newest N versions; default 10.",
)
@click.option(
    "--older-than",
    metavar="INTERVAL",
    help="Delete only the state of versions that are older than this, such as 12h or 7d.",
)
@click.option(
    "--changes",
    is_flag=True,
    help="Also delete the changes of versions without state, if all outputs have them.",
)
@dry_run_option
@no_run_option
@format_option
@debug_option
def vacuum(
    directory: str,
    keep: int | None,
    older_than: str | None,
    *,
    changes: bool,
    dry_run: bool,
    no_run: bool,
    format: str,
) -> None:
    """Delete the state of old versions and files that killed runs left. Files of kept versions stay.

    Refused during a run. Runs delete old state themselves, by --keep-versions and --keep-for, but they keep all changes.
    """
    from substrait_agg_cli.state_tables import size

    done = _open(directory).vacuum(
        keep=keep, older_than=older_than, changes=changes, dry_run=dry_run, no_run=no_run
    )
    if format == "json":
        _json(done.to_json())
        return
    would = "would delete" if dry_run else "deleted"
    parts = (f"{name} {count} files {size(done.bytes[name])}" for name, count in done.files.items())
    click.echo(f"{would}: {', '.join(parts)}")
    click.echo(
        f"state is kept from version {done.state_from} on, changes from version {done.changes_from} on"
    )
    if done.held_by:
        click.echo(
            f"changes are kept for output {printable(done.held_by)}, which does not have them yet"
        )
