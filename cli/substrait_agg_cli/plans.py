"""The commands about plans: validate and explain. Neither starts a JVM."""

from __future__ import annotations

import sys
from collections import Counter

import click

import substrait_agg
from substrait_agg.problems import MODES, Mode
from substrait_agg.report.report import reports_json
from substrait_agg_cli.terminal import FAILURE, STDIO, debug_option, show_problems, show_warnings

mode_option = click.option(
    "--mode",
    type=click.Choice(MODES),
    default="lenient",
    show_default=True,
    help="lenient warns of what producers are known to write; strict makes it an error.",
)


def read_plan(name: str) -> substrait_agg.Plan:
    """The plan in a file or on stdin, not decoded yet.

    Raises:
        UsageError: the file is not there or cannot be read.
    """
    if name == STDIO:
        return substrait_agg.Plan(STDIO, sys.stdin.buffer.read())
    return substrait_agg.Plan.from_file(name)


@click.command(
    epilog="Examples: substrait-agg validate q01.bin; producer | substrait-agg validate - --format json"
)
@click.argument("plans", nargs=-1, required=True, metavar="PLAN...")
@mode_option
@click.option(
    "--format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="text: a line per plan, its problems on stderr; json: one document with everything.",
)
@debug_option
def validate(plans: tuple[str, ...], mode: Mode, format: str) -> None:
    """Say everything that is wrong in plans, before anything is run.

    PLAN is a file with protobuf or protobuf-JSON of any Substrait release; - is stdin. The exit status is 1 if
    a plan has errors.
    """
    loaded = [read_plan(name) for name in plans]
    reports = [substrait_agg.validate(plan, mode) for plan in loaded]
    if format == "json":
        click.echo(reports_json(reports))
    else:
        for report in reports:
            show_problems(report.problems, report.plan if len(reports) > 1 else "")
            click.echo(_verdict(report))
    if not all(report.ok for report in reports):
        click.get_current_context().exit(FAILURE)


def _verdict(report: substrait_agg.Report) -> str:
    counts = Counter(p.level for p in report.problems)
    found = ", ".join(
        f"{counts[level]} {level}{'s' if counts[level] > 1 else ''}"
        for level in ("error", "warning")
        if counts[level]
    )
    verdict = "valid" if report.ok else "refused"
    return f"{report.plan}: {verdict}{f' ({found})' if found else ''}"


@click.command(epilog="Example: substrait-agg explain plans/tpch/q01.bin")
@click.argument("plan", metavar="PLAN")
@mode_option
@click.option(
    "--format",
    type=click.Choice(substrait_agg.api.EXPLAIN_FORMATS),
    default="text",
    show_default=True,
    help="The form of the description.",
)
@debug_option
def explain(plan: str, mode: Mode, format: str) -> None:
    """Describe how a plan is run: its operators, and what each keeps per group.

    PLAN is a file with protobuf or protobuf-JSON of any Substrait release; - is stdin.
    """
    loaded = read_plan(plan)
    text = substrait_agg.explain(loaded, format, mode)
    show_warnings(substrait_agg.validate(loaded, mode).problems, plan)
    click.echo(text.rstrip("\n"))
