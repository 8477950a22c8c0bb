"""Implement the command validate, which reports all problems of plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

import substrait_agg
from substrait_agg.errors import PlanRefused, SqlRefused, UsageError
from substrait_agg.escape import printable
from substrait_agg.files.atomic_files import write_text
from substrait_agg.problem_kinds import LEVELS, Level, Mode
from substrait_agg.problems import Problem
from substrait_agg.report.report import Report, reports_json
from substrait_agg.report.select import Selection, fails
from substrait_agg_cli.plan_files import each_plan, is_folder
from substrait_agg_cli.plans import mode_option
from substrait_agg_cli.queries import (
    QUERY,
    check_one_given,
    is_spec_file,
    is_sql,
    read_plans,
    source_option,
    sql_options,
    tables_of,
)
from substrait_agg_cli.terminal import (
    COLORS,
    FAILURE,
    STDIO,
    SUCCESS,
    WRONG_CALL,
    Color,
    debug_option,
    discard_closed_stdout,
    flush_stdout,
    not_a_folder,
    show_error,
)

if TYPE_CHECKING:
    from substrait_agg_cli.findings import ProblemWriter

FORMATS = ("text", "json", "sarif", "html")
FORMAT_OF_SUFFIX = {".json": "json", ".sarif": "sarif", ".html": "html"}
MANY = 3
"""Number of plans from which on a summary is written."""

_EPILOG = """\b
Examples:
  substrait-agg validate q01.bin
  producer | substrait-agg validate - --format json
  substrait-agg validate plans --ignore 'PHASE_*' --error-on warning
  substrait-agg validate plans --to plans.sarif --to plans.html --to -
"""


@dataclass(slots=True)
class _ValidationRun:
    """The results of one call of validate."""

    threshold: Level
    reports: list[Report] = field(default_factory=list)
    unread: list[UsageError] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)

    @property
    def status(self) -> int:
        """The exit status.

        It is that of a wrong call if a file cannot be read, else that of the worst problem.
        """
        if self.unread:
            return WRONG_CALL
        failed = any(fails(report, self.threshold) for report in self.reports)
        return FAILURE if failed else SUCCESS


@click.command(epilog=_EPILOG)
@click.argument("plans", nargs=-1, metavar="[PLAN...]")
@sql_options
@source_option
@mode_option
@click.option(
    "--format",
    type=click.Choice(FORMATS),
    help="text: one line per plan on stdout, problems on stderr (see --verbose); json, sarif, html: one document "
    "with all results. Default: from the suffix of --to, else text.",
)
@click.option(
    "--to",
    "--output",
    "to",
    metavar="FILE",
    multiple=True,
    default=(STDIO,),
    callback=not_a_folder,
    help=(
        "Write to this file and replace its content; - is stdout. Repeatable: the suffix of each file sets its "
        "format."
    ),
)
@click.option(
    "--select",
    multiple=True,
    metavar="CODE",
    help="Report only problems with this code; repeatable; accepts lists with commas and the wildcards * and ?.",
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="CODE",
    help=(
        "Do not report problems with this code; same syntax as --select. run still refuses a plan with ignored "
        "errors."
    ),
)
@click.option(
    "--error-on",
    type=click.Choice(LEVELS),
    default="error",
    show_default=True,
    help="The lowest level that sets the exit status to 1.",
)
@click.option(
    "--verbose",
    "-v",
    is_flag=True,
    help="With text: list every problem. By default, one line per plan summarizes notes and known deviations of "
    "its producer, unless --select or --error-on selects them.",
)
@click.option(
    "--excerpt/--no-excerpt",
    default=True,
    show_default=True,
    help="With text: show the part of the plan around each problem.",
)
@click.option(
    "--color",
    type=click.Choice(COLORS),
    default="auto",
    show_default=True,
    help="With text: colours; auto: on terminals, unless NO_COLOR is set.",
)
@debug_option
def validate(
    plans: tuple[str, ...],
    sql: str | None,
    query: str | None,
    sources: tuple[str, ...],
    mode: Mode,
    format: str | None,
    to: tuple[str, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    error_on: Level,
    verbose: bool,
    excerpt: bool,
    color: Color,
) -> None:
    """Report all problems of plans and queries, without running them.

    PLAN is a file with protobuf or protobuf-JSON of any Substrait release, a folder with such files, a file of SQL
    that ends in .sql, or - for stdin. --sql or --query gives SQL instead.
    Exit status: 0 no plan has errors; 1 a plan has errors; 2 a file cannot be read, or wrong usage.
    """
    discard_closed_stdout()
    selection = Selection.of(select, ignore)
    targets = _targets(to, format)
    findings = None
    if "text" in targets.values():
        from substrait_agg_cli.findings import ProblemWriter, uses_color

        several = len(plans) > 1 or any(is_folder(name) for name in plans)
        list_all = verbose or bool(select)
        findings = ProblemWriter(uses_color(color), excerpt, several, list_all, error_on)
    run = _ValidationRun(error_on)
    tables = tables_of(sources)
    loaded = _given_plans(plans, sql, query, tables)
    check = partial(substrait_agg.validate, mode=mode, sources=tables)
    _check_all(run, loaded, check, selection, findings, aloud=targets.get(STDIO) == "text")
    _refuse_plans_as_targets(run, targets)
    for name, form in targets.items():
        if (name, form) != (STDIO, "text"):  # verdicts on stdout are already written
            _write(_DOCUMENTS[form](run), name)
    click.get_current_context().exit(run.status)


def _given_plans(
    plans: tuple[str, ...], sql: str | None, query: str | None, sources: dict[str, str]
) -> Iterator[substrait_agg.Plan | Report | UsageError]:
    """Yield every plan; the report of a query that cannot be planned; the error of an unreadable file.

    Raises:
        UsageError: no plan is given, or a query besides plans.
    """
    if not plans or sql is not None or query is not None:
        check_one_given(plans[0] if plans else None, sql, query)
        yield from _plan(None, sql, query, sources)
        return
    files = tuple(n for n in plans if not (is_sql(n) or is_spec_file(n)) or is_folder(n))
    yield from each_plan(files)
    for name in plans:
        if name not in files:
            try:
                yield from _plan(name, None, None, sources)
            except UsageError as error:
                yield error


def _plan(
    plan: str | None, sql: str | None, query: str | None, sources: dict[str, str]
) -> list[substrait_agg.Plan | Report]:
    """Return the plan of a query, those of a pipeline, or the report of SQL that cannot be planned."""
    name = plan or sql or QUERY
    try:
        loaded = read_plans(plan, sql, query, sources)
    except SqlRefused as error:
        problem = Problem(
            error.code, "error", error.path, error.message, error.help, excerpt=error.excerpt
        )
        return [Report(name, (problem,), b"")]
    except PlanRefused as error:
        return [Report(name, error.problems, b"")]
    plans = loaded.values() if isinstance(loaded, dict) else (loaded,)
    return [replace(one, name=one.name or name) for one in plans]


def _targets(to: Sequence[str], format: str | None) -> dict[str, str]:
    """Return the targets of reports and their formats.

    Raises:
        UsageError: one format is requested for several files.
    """
    if format and len(to) > 1:
        help = "remove --format; each file has the format of its suffix"
        raise UsageError("OPTION_CONFLICT", "--format is for a single --to", help=help)
    return {name: format or FORMAT_OF_SUFFIX.get(Path(name).suffix.lower(), "text") for name in to}


def _refuse_plans_as_targets(run: _ValidationRun, targets: Iterable[str]) -> None:
    """Keep reports from overwriting the plans that they describe.

    Raises:
        UsageError: a target is one of the plans.
    """
    plans = {Path(report.plan).resolve() for report in run.reports if report.plan != STDIO}
    for name in targets:
        if name != STDIO and Path(name).is_file() and Path(name).resolve() in plans:
            message = f"the report would overwrite the plan {name}"
            raise UsageError("OPTION_INVALID", message, help="give another file", path="--to")


def _check_all(
    run: _ValidationRun,
    plans: Iterable[substrait_agg.Plan | Report | UsageError],
    check: Callable[[substrait_agg.Plan], Report],
    selection: Selection,
    findings: ProblemWriter | None,
    *,
    aloud: bool,
) -> None:
    """Check the plans one by one with `check`.

    With `findings` the problems of each are shown immediately, and with `aloud` its verdict on
    stdout.
    """
    from substrait_agg_cli.findings import summary, verdict

    for plan in plans:
        if isinstance(plan, UsageError):
            run.unread.append(plan)
            show_error(plan)
            continue
        report = selection.of_report(plan if isinstance(plan, Report) else check(plan))
        run.reports.append(report)
        if findings is not None:
            findings.show(report)
            run.verdicts.append(printable(verdict(report)))
            if aloud:
                click.echo(run.verdicts[-1])
    if findings is not None:
        findings.finish()
        if len(run.reports) + len(run.unread) >= MANY:
            click.echo(summary(run.reports, len(run.unread)), err=True)


def _write(texts: Sequence[str], to: str) -> None:
    if to == STDIO:
        for text in texts:
            click.echo(text)
        flush_stdout()
        return
    write_text((f"{text}\n" for text in texts), Path(to))


def _sarif(run: _ValidationRun) -> Sequence[str]:
    from substrait_agg.report.sarif import reports_sarif

    return [reports_sarif(run.reports, run.status, run.unread)]


def _html(run: _ValidationRun) -> Sequence[str]:
    from substrait_agg.report.html.report import reports_html

    return [reports_html(run.reports, run.unread)]


_DOCUMENTS: dict[str, Callable[[_ValidationRun], Sequence[str]]] = {
    "text": lambda run: run.verdicts,
    "json": lambda run: [reports_json(run.reports, complete=not run.unread)],
    "sarif": _sarif,
    "html": _html,
}
