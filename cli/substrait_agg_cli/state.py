"""Implement the commands that inspect, check, roll back and clean up state. None starts a JVM."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

import substrait_agg
from substrait_agg.escape import printable
from substrait_agg_cli.terminal import FAILURE, debug_option, existing_folder, show

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
    help="table: for people; json: everything, for programs.",
)

no_run_option = click.option(
    "--no-run",
    is_flag=True,
    help="You have seen to it that no run is going on, anywhere: to be said where no lock tells (object stores).",
)

dry_run_option = click.option("--dry-run", is_flag=True, help="Only tell what would be done.")


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
    "cut text": "its lines of later versions are cut off",
    "delete files": "its files of later versions are deleted",
    "deliver again": "it keeps what it has had, and gets the versions that are made then on top",
    "stuck": "it takes no version twice",
}


@click.group(epilog=EPILOG)
@debug_option
def state() -> None:
    """Look at the state in a checkpoint DIR, check it, go back to a version, set what is kept.

    ls, show and verify may be used while a run goes on. rollback and vacuum are refused then; rescale counts from the next run on.
    """


def _opened(directory: str) -> State:
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
@_limit_option("The newest N versions; 0 for all.")
@format_option
@debug_option
def ls(directory: str, limit: int, format: str) -> None:
    """List the versions, and what each tree of each operator holds at the newest."""
    from substrait_agg_cli.state_tables import listed

    found = _opened(directory).ls(limit or None)
    if format == "json":
        _json(found.to_json())
    else:
        _lines(listed(found))


@state.command(
    name="show",
    epilog="""Examples: substrait-agg state show ckpt --key '{"k": 7}'; substrait-agg state show ckpt --tree tree0 --limit 5""",
)
@click.argument("directory", metavar="DIR")
@click.option(
    "--key",
    metavar="JSON",
    help='Groups with this key, and everything there is of them: {"column": value, ...}, or [value, ...] in order, or the'
    " value of a single column; values as json outputs write them. Columns that are left out may have any value.",
)
@click.option("--operator", type=click.IntRange(min=0), metavar="N", help="Default: the last.")
@click.option(
    "--tree",
    metavar="NAME",
    help="group, pending, closed, tree0, tree1, ...; default: group, with --key all.",
)
@click.option(
    "--version", type=click.IntRange(min=0), metavar="N", help="As it was at this version."
)
@_limit_option("Rows of a tree at most; 0 for all.")
@format_option
@debug_option
def show_(
    directory: str,
    key: str | None,
    operator: int | None,
    tree: str | None,
    version: int | None,
    limit: int,
    format: str,
) -> None:
    """Show what is kept of groups: weight, exact totals, the row last emitted, what waits, entries of ordered trees.

    Totals are exact; one that would take more than 60 digits is rounded and begins with ~.
    """
    from substrait_agg.tools.showing import parse_key
    from substrait_agg.tools.state import ANY

    wanted = ANY if key is None else parse_key(key)
    opened = _opened(directory)
    found = opened.show(tree, key=wanted, operator=operator, version=version, limit=limit or None)
    if format == "json":
        _show_json(found)
    else:
        _show_tables(found, one=key is not None)


def _show_json(found: dict[str, Any]) -> None:
    from substrait_agg.changes import row_lines

    trees = {
        name: [json.loads(r) for r in "".join(row_lines(t)).splitlines()]
        for name, t in found.items()
    }
    _json(trees)


def _show_tables(found: dict[str, Any], *, one: bool) -> None:
    from substrait_agg.changes import table_lines

    for number, (name, table) in enumerate(found.items()):
        if len(found) > 1:
            click.echo(f"{'' if not number else chr(10)}{name}:")
        if one and name == "group":
            _upright(table)
        else:
            sys.stdout.write("".join(table_lines(table)))


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
    epilog="Examples: substrait-agg state verify ckpt; substrait-agg state verify ckpt --format json"
)
@click.argument("directory", metavar="DIR")
@format_option
@debug_option
def verify(directory: str, format: str) -> None:
    """Look through everything that is kept: checksums, order, counters, and the view against the sum of its changes.

    Exit status: 0 all is right; 1 something is not, and every fault is named with its file and what to do.
    """
    verdict = _opened(directory).verify()
    if format == "json":
        _json(verdict.to_json())
    else:
        for finding in verdict.findings:
            level = "error" if finding.level == "error" else "note"
            show(level, finding.code, finding.path, finding.message, finding.help)
        checked = ", ".join(f"{count} {what}" for what, count in verdict.checked.items())
        faults = len(verdict.errors)
        result = f"{faults} fault{'' if faults == 1 else 's'}" if faults else "all right"
        click.echo(f"{result}: looked at {checked}")
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
    help="The newest version afterwards.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Also where outputs have had later versions: text and files of changes are cut back to N; other outputs keep what"
    " they have had, and get the versions that are made then on top.",
)
@dry_run_option
@no_run_option
@format_option
@debug_option
def rollback(
    directory: str, to: int, *, force: bool, dry_run: bool, no_run: bool, format: str
) -> None:
    """Go back to version N: everything behind it goes, and the next run reads its input again.

    N is a version whose state is kept (state ls). Refused while a run is going on. One that was killed is finished by running
    it again; no run begins before.
    """
    done = _opened(directory).rollback(to, force=force, dry_run=dry_run, no_run=no_run)
    if format == "json":
        _json({**done.to_json(), "dry_run": dry_run})
        return
    would = "would go" if dry_run else "went"
    click.echo(
        f"{would} back from version {done.newest} to {done.to}; Spark goes on behind batch {done.batch}"
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
    help="A power of two; 0: one per core, as it is without a setting.",
)
@format_option
@debug_option
def rescale(directory: str, partitions: int, format: str) -> None:
    """Set the number of state partitions for runs that are not given --partitions.

    Only the number is written: any number of partitions reads the same files. A run that is going on keeps its own.
    """
    before = _opened(directory).rescale(partitions or None)
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
    help="The newest N versions keep their state; default 10.",
)
@click.option(
    "--older-than",
    metavar="INTERVAL",
    help="Only state of versions that are older than this goes, such as 12h or 7d.",
)
@click.option(
    "--changes",
    is_flag=True,
    help="Also delete the changes of versions that do not keep their state, as far as all outputs have had them.",
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
    """Delete state of old versions, and what killed runs left behind; never a file that a kept version needs.

    Refused while a run is going on. Runs do the same by themselves, with --keep-versions and --keep-for; changes they keep.
    """
    from substrait_agg_cli.state_tables import size

    done = _opened(directory).vacuum(
        keep=keep, older_than=older_than, changes=changes, dry_run=dry_run, no_run=no_run
    )
    if format == "json":
        _json(done.to_json())
        return
    would = "would delete" if dry_run else "deleted"
    parts = (f"{name} {count} files {size(done.bytes[name])}" for name, count in done.files.items())
    click.echo(f"{would}: {', '.join(parts)}")
    click.echo(
        f"state is kept from version {done.state_from}, changes from version {done.changes_from}"
    )
    if done.held_by:
        click.echo(
            f"changes are held by output {printable(done.held_by)}, which has not had them yet"
        )
