"""Implement the command functions, which lists functions and their support. It starts no JVM."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Literal as OneOf

import click

import substrait_agg
from substrait_agg.errors import UsageError
from substrait_agg_cli.terminal import debug_option, terminal_width

Kind = OneOf["aggregate", "scalar", "all"]
KINDS: tuple[Kind, ...] = ("aggregate", "scalar", "all")
FORMATS = ("text", "json", "markdown", "dialect", "yaml")
OF_ALL = ("dialect", "yaml")
"""Formats that always list everything."""

EPILOG = """\b
Examples:
  substrait-agg functions
  substrait-agg functions --kind scalar
  substrait-agg functions string_agg
  substrait-agg functions --format json | jq '.aggregate_functions[].name'
  substrait-agg functions --format dialect > substrait-agg.dialect.yaml
  substrait-agg functions --format yaml > functions_windows.yaml
"""


@click.command(epilog=EPILOG)
@click.argument("name", required=False)
@click.option(
    "--format",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="text: tables for the terminal; json: all details; markdown: the tables of docs/functions.md; dialect: a "
    "Substrait dialect file (YAML); yaml: the Substrait extension file of the functions of this program, "
    "windows over time.",
)
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    default="all",
    show_default=True,
    help="Which functions to list.",
)
@debug_option
def functions(name: str | None, format: str, kind: Kind) -> None:
    """List the supported functions; with NAME, describe one of them.

    NAME is a function, or another name that producers write for it. For DISTINCT, ORDER BY, FILTER, phases and
    options the list says whether they are applied, have no effect (no-op), or are refused, and why.

    Exit status: 0 success; 2 unknown function, or wrong usage.
    """
    _check(name, format, kind)
    if format == "dialect":
        click.echo(_dialect(), nl=False)
    elif format == "yaml":
        click.echo(_extension(), nl=False)
    elif format == "json":
        click.echo(_json(name, kind))
    elif name is not None:
        click.echo(_function_help(name))
    else:
        click.echo(_tables(format, kind))


def _check(name: str | None, format: str, kind: Kind) -> None:
    """Refuse combinations of options without a meaning.

    Raises:
        UsageError: OPTION_CONFLICT.
    """
    whole = format in OF_ALL and (name is not None or kind != "all")
    if whole or (name is not None and (format == "markdown" or kind != "all")):
        options = " and ".join(
            text
            for text, here in (
                ("NAME", name is not None),
                (f"--kind {kind}", kind != "all"),
                (f"--format {format}", format in ("markdown", *OF_ALL)),
            )
            if here
        )
        help = "NAME is allowed with --format text or json only, without --kind; dialect and yaml always list everything"
        raise UsageError("OPTION_CONFLICT", f"{options} cannot be combined", help=help)


def _json(name: str | None, kind: Kind) -> str:
    from substrait_agg.functions.listing import catalogue_help, catalogue_json

    if name is not None:
        function = catalogue_help.lookup(name)
        entry = (
            catalogue_json.aggregate(function[0])
            if isinstance(function, tuple)
            else catalogue_json.scalar(function)
        )
        return _document(entry)
    aggregates = catalogue_json.aggregate_document() if kind != "scalar" else {}
    scalars = catalogue_json.scalar_document() if kind != "aggregate" else {}
    return _document({**aggregates, **scalars})


def _document(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


def _function_help(name: str) -> str:
    from substrait_agg.bind.plan.dialect import support_of
    from substrait_agg.functions.listing.catalogue_help import declarations, function_help, lookup

    function = lookup(name)
    supports = (
        support_of(s, aggregate=isinstance(function, tuple)) for s in declarations(function)
    )
    refusals = {
        (s.signature.urn, s.signature.signature): s.problems[0].message
        for s in supports
        if not s.supported
    }
    return function_help(function, refusals, terminal_width())


def _tables(format: str, kind: Kind) -> str:
    from substrait_agg.functions.listing import catalogue_tables, markdown

    listed = (
        *(catalogue_tables.aggregate_tables() if kind != "scalar" else ()),
        *(catalogue_tables.scalar_tables() if kind != "aggregate" else ()),
    )
    return (
        markdown.markdown(listed)
        if format == "markdown"
        else markdown.text(listed, terminal_width())
    )


def _extension() -> str:
    from substrait_agg.functions.windows import windows_text

    return windows_text()


def _dialect() -> str:
    from substrait_agg.bind.plan.dialect import dialect

    content = dialect(substrait_agg.__version__)
    written = import_module("yaml").safe_dump(
        content, sort_keys=False, allow_unicode=True, width=100
    )
    return str(written)
