"""Implement the command explain, and options that commands about plans share."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

import substrait_agg
from substrait_agg.files.atomic_files import write_text
from substrait_agg.functions.aggregates.accumulators import EARLY_RETRACTIONS
from substrait_agg.problem_kinds import MODES, Mode
from substrait_agg_cli.queries import (
    QUERY,
    read_plans,
    source_option,
    sql_options,
    static_option,
    static_tables,
    tables_of,
)
from substrait_agg_cli.reading import to_option
from substrait_agg_cli.terminal import STDIO, debug_option, show_warnings

NARROWEST = 40
"""Minimum width in columns to which text is folded."""

EXPLAIN_FORMAT_OF_SUFFIX = {".json": "json", ".mmd": "mermaid", ".html": "html"}

mode_option = click.option(
    "--mode",
    type=click.Choice(MODES),
    default="lenient",
    show_default=True,
    help="lenient accepts known deviations of producers with a warning; strict reports them as errors.",
)


@click.command(
    epilog="Examples: substrait-agg explain q01.bin; substrait-agg explain q01.bin --to q01.html"
)
@click.argument("plan", metavar="[PLAN]", required=False)
@sql_options
@source_option
@mode_option
@click.option(
    "--format",
    type=click.Choice(substrait_agg.api.EXPLAIN_FORMATS),
    help="Default: from the suffix of --to (.json, .mmd, .html), else text.",
)
@click.option(
    "--early-retraction",
    type=click.Choice(EARLY_RETRACTIONS),
    default="carry",
    show_default=True,
    help="As in run. With refuse and quarantine, tables without --source are assumed to have retractions.",
)
@static_option
@click.option(
    "--refresh",
    metavar="POLICY[,VIEW=POLICY]",
    help="As in run: show what follows each policy, and what is in its way.",
)
@click.option(
    "--checkpoint",
    metavar="DIR",
    help="A checkpoint of the plan: show which of its versions were incremental or full, and why.",
)
@to_option
@debug_option
def explain(
    *,
    plan: str | None,
    sql: str | None,
    query: str | None,
    sources: tuple[str, ...],
    mode: Mode,
    format: str | None,
    early_retraction: str,
    static: tuple[str, ...],
    refresh: str | None,
    checkpoint: str | None,
    to: str,
) -> None:
    """Describe how a plan or query runs: its operators, their state per group, and the steps on Spark.

    PLAN is a file with protobuf or protobuf-JSON of any Substrait release; - is stdin. --sql or --query gives SQL
    instead.
    """
    tables = tables_of(sources)
    static = static_tables(static, tables)
    loaded = read_plans(plan, sql, query, tables)
    output_format = format or EXPLAIN_FORMAT_OF_SUFFIX.get(Path(to).suffix.lower(), "text")
    text = substrait_agg.explain(
        loaded, output_format, mode, early_retraction, static, refresh, checkpoint, tables
    )
    for one in loaded.values() if isinstance(loaded, dict) else (loaded,):
        show_warnings(substrait_agg.validate(one, mode, tables).problems, one.name or QUERY)
    if to == STDIO:
        click.echo(_on_screen(text) if output_format == "text" else text, nl=False)
        return
    write_text((text,), Path(to))


def _on_screen(text: str) -> str:
    """Fold the lines of the text at the width of the terminal, if stdout is one."""
    if not sys.stdout.isatty():
        return text
    from substrait_agg.explanation.text import wrap

    return wrap(text, max(NARROWEST, shutil.get_terminal_size((80, 24)).columns))
