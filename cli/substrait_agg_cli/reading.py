"""Implement the commands view and changes, which read a checkpoint. Neither starts a JVM."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import click

import substrait_agg
from substrait_agg.errors import UsageError
from substrait_agg.files.atomic_files import write_text
from substrait_agg_cli.terminal import STDIO, debug_option, existing_folder, not_a_folder

VIEW_FORMATS = ("table", "csv", "json", "parquet")
CHANGE_FORMATS = ("json", "csv", "parquet", "debezium", "spark-cdc")
FORMAT_OF_SUFFIX = {".csv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet"}

to_option = click.option(
    "--to",
    metavar="FILE",
    default=STDIO,
    callback=not_a_folder,
    help="Write to this file and replace its content; - is stdout.",
)


name_option = click.option(
    "--name",
    metavar="NAME",
    help="The view to show. It can be left out if the checkpoint has one view.",
)


@click.command(
    epilog="Examples: substrait-agg view ckpt; substrait-agg view ckpt --version 3 --to totals.parquet"
)
@click.argument("directory", metavar="DIR")
@name_option
@click.option(
    "--version", type=click.IntRange(min=0), metavar="N", help="Show the view at this version."
)
@click.option(
    "--format",
    type=click.Choice(VIEW_FORMATS),
    help="Default: from the suffix of --to, else table. json has one object per line.",
)
@click.option(
    "--quarantined",
    is_flag=True,
    help="Show the quarantined retractions, which wait for their insertion, with their weights instead of the view.",
)
@click.option(
    "--bad-rows",
    is_flag=True,
    help="Show the rows that sources with bad-rows=quarantine could not read, with file, reason and version, "
    "instead of the view; with --version, those of the versions up to it.",
)
@to_option
@debug_option
def view(
    directory: str,
    name: str | None,
    version: int | None,
    format: str | None,
    quarantined: bool,
    bad_rows: bool,
    to: str,
) -> None:
    """Show a view of a checkpoint DIR, in the order of its plan."""
    output_format = format or FORMAT_OF_SUFFIX.get(Path(to).suffix.lower(), "table")
    if output_format == "parquet":
        _no_binary_on_terminal(to)
    _check_apart(to, directory)
    if quarantined and bad_rows:
        message = "--quarantined and --bad-rows show different rows"
        raise UsageError("OPTION_CONFLICT", message, help="give one of them", path="--bad-rows")
    opened = substrait_agg.open_view(existing_folder(directory), name)
    if output_format == "parquet" and version is None:
        newest = opened.version  # a run may commit another one while the rows are read
        version = newest if newest >= 0 else None
    if bad_rows:
        rows = opened.bad_rows(until=version)
    else:
        rows = opened.quarantined(version) if quarantined else opened.to_arrow(version=version)
    if output_format == "parquet":
        _write_parquet(rows, -1 if version is None else version, to)
    else:
        _write_text(_view_encoders()[output_format](rows), to)


@click.command(
    epilog="Examples: substrait-agg changes ckpt --since 12; substrait-agg changes ckpt --to all.csv"
)
@click.argument("directory", metavar="DIR")
@name_option
@click.option(
    "--since", type=click.IntRange(min=0), metavar="N", help="Only changes after version N."
)
@click.option(
    "--until",
    type=click.IntRange(min=0),
    metavar="N",
    help="Only changes up to and including version N.",
)
@click.option(
    "--format",
    type=click.Choice(CHANGE_FORMATS),
    help='One row or line per change. json: {"version", "weight", "row"}; csv and parquet: columns __version and __weight; '
    "debezium: a change event, with both rows of an update; spark-cdc: a row with _change_type. Default: csv or "
    "parquet if the file of --to ends so, else json.",
)
@to_option
@debug_option
def changes(
    directory: str,
    name: str | None,
    since: int | None,
    until: int | None,
    format: str | None,
    to: str,
) -> None:
    """Show the changes of a view: rows with weights, retractions before insertions in each version."""
    if since is not None and until is not None and until < since:
        message = f"no version is after {since} and up to {until}"
        help = f"write --since {until} --until {since}"
        raise UsageError("OPTION_INVALID", message, help=help, path="--until")
    _check_apart(to, directory)
    opened = substrait_agg.open_view(existing_folder(directory), name)
    output_format = format or FORMAT_OF_SUFFIX.get(Path(to).suffix.lower(), "json")
    if output_format != "parquet":
        _write_text(_change_encoders()[output_format](opened.changes(since=since, until=until)), to)
        return
    _no_binary_on_terminal(to)
    until = opened.version if until is None else until
    _write_parquet(opened.changes(since=since, until=until), until, to)


Encoder = Callable[[Any], Iterator[str]]


def _view_encoders() -> dict[str, Encoder]:
    from substrait_agg.changes import csv_lines, row_lines, table_lines

    return {"table": table_lines, "csv": csv_lines, "json": row_lines}


def _change_encoders() -> dict[str, Encoder]:
    from substrait_agg.changes import change_lines, csv_lines, debezium_lines, spark_cdc_lines

    return {
        "json": change_lines,
        "csv": csv_lines,
        "debezium": debezium_lines,
        "spark-cdc": spark_cdc_lines,
    }


def _write_text(texts: Iterator[str], to: str) -> None:
    target: TextIO | Path = sys.stdout if to == STDIO else Path(to)
    write_text(texts, target)


def _write_parquet(rows: Any, version: int, to: str) -> None:
    from substrait_agg.changes import write_parquet, write_parquet_to

    if to == STDIO:
        write_parquet_to(rows, sys.stdout.buffer, version)
        sys.stdout.buffer.flush()
    else:
        write_parquet(rows, Path(to), version)


def _check_apart(to: str, directory: str) -> None:
    """Refuse a file in the folder of the checkpoint that is read."""
    if to != STDIO and Path(to).resolve().is_relative_to(Path(directory).resolve()):
        raise UsageError(
            "OPTION_CONFLICT",
            "this file would be in the folder of the checkpoint",
            help="give a file beside the checkpoint",
            path=f"--to {to}",
        )


def _no_binary_on_terminal(to: str) -> None:
    if to == STDIO and sys.stdout.isatty():
        message = "Parquet is not written to a terminal"
        raise UsageError("OPTION_INVALID", message, help="give --to FILE", path="--format")
