"""Implement the command problems, which explains codes and shows examples. It starts no JVM."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

import substrait_agg
from substrait_agg.errors import UsageError
from substrait_agg.problem_kinds import KINDS, LEVELS, Level, ProblemKind
from substrait_agg.problems import Problem
from substrait_agg_cli.terminal import debug_option, terminal_width

if TYPE_CHECKING:
    from substrait_agg.error_codes import ErrorCode

ERRORS = "errors"
AREAS = (*dict.fromkeys(kind.area for kind in KINDS.values()), ERRORS)
FORMATS = ("text", "json", "markdown")

EPILOG = """\b
Examples:
  substrait-agg problems
  substrait-agg problems DISTINCT_ORDER_OUTSIDE
  substrait-agg problems --area aggregates --level warning
  substrait-agg problems --format json PHASE_UNSPECIFIED | jq -r '.problems[0].example'
"""


@click.command(epilog=EPILOG)
@click.argument("codes", nargs=-1, metavar="[CODE]...")
@click.option(
    "--format",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="text: a table, or one page per CODE; json: all details; markdown: the content of docs/problems.md.",
)
@click.option(
    "--level",
    type=click.Choice(LEVELS),
    help="Only problems with this level in lenient or in strict mode.",
)
@click.option(
    "--area",
    type=click.Choice(AREAS),
    help=f"Only problems of this area; {ERRORS}: errors that are not about plans.",
)
@debug_option
def problems(codes: tuple[str, ...], format: str, level: Level | None, area: str | None) -> None:
    """List all codes; with CODE, explain it and show the smallest plan that raises it.

    Exit status: 0 success; 2 unknown code.
    """
    if codes and (level or area):
        help = "remove --level and --area, or remove CODE"
        raise UsageError(
            "OPTION_CONFLICT", "--level and --area cannot be combined with CODE", help=help
        )
    kinds, errors = _choose(codes, level, area)
    if not kinds and not errors:
        click.echo("no code has this level in this area", err=True)
        return
    if format == "text":
        click.echo(_pages(kinds, errors) if codes else _overview(kinds, errors))
        return
    from substrait_agg.report import problem_pages

    if format == "markdown":
        click.echo(problem_pages.markdown(kinds, errors, _examine))
    else:
        import json

        document = problem_pages.document(kinds, errors, _examine)
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def _choose(
    codes: Sequence[str], level: Level | None, area: str | None
) -> tuple[list[ProblemKind], list[ErrorCode]]:
    """Return the requested rows of both tables.

    Raises:
        UsageError: CODE_UNKNOWN.
    """
    from substrait_agg.error_codes import ERROR_CODES

    upper_codes = {_normalise_code(given) for given in codes}
    kinds = [
        kind
        for kind in KINDS.values()
        if (not upper_codes or kind.code in upper_codes)
        and level in (None, kind.lenient, kind.strict)
        and area in (None, kind.area)
    ]
    errors = [
        error
        for error in ERROR_CODES.values()
        if (not upper_codes or error.code in upper_codes)
        and level in (None, "error")
        and area in (None, ERRORS)
    ]
    return kinds, errors


def _normalise_code(text: str) -> str:
    """Return the code in upper case.

    Raises:
        UsageError: CODE_UNKNOWN, with similar codes.
    """
    from difflib import get_close_matches

    from substrait_agg.error_codes import ERROR_CODES

    code = text.strip().upper().replace("-", "_")
    if code in KINDS or code in ERROR_CODES:
        return code
    near = get_close_matches(code, (*KINDS, *ERROR_CODES), n=5, cutoff=0.6)
    help = f"did you mean {', '.join(near)}?" if near else "substrait-agg problems lists all codes"
    raise UsageError("CODE_UNKNOWN", f"no problem or error has the code {text}", help=help)


def _examine(plan: str) -> Iterable[Problem]:
    return substrait_agg.validate(plan.encode()).problems


def _overview(kinds: Sequence[ProblemKind], errors: Sequence[ErrorCode]) -> str:
    from substrait_agg.report import problem_pages

    return problem_pages.overview(kinds, errors, terminal_width())


def _pages(kinds: Sequence[ProblemKind], errors: Sequence[ErrorCode]) -> str:
    from substrait_agg.report import problem_pages

    pages = [problem_pages.kind_page(kind, _examine, terminal_width()) for kind in kinds]
    pages += [problem_pages.error_page(error, terminal_width()) for error in errors]
    return "\n\n\n".join(pages)
