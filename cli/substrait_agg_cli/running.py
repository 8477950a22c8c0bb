"""Implement the command run: maintain a plan over its sources with Spark."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import Field, fields
from typing import Any, NoReturn

import click

import substrait_agg
import substrait_agg_cli
from substrait_agg.arguments import microseconds
from substrait_agg.errors import UsageError
from substrait_agg.problem_kinds import Mode
from substrait_agg.run_options import RunOptions
from substrait_agg_cli.notices import notices_shown
from substrait_agg_cli.plans import mode_option
from substrait_agg_cli.progress import ProgressMeter
from substrait_agg_cli.queries import (
    QUERY,
    check_one_given,
    checkpoint_of,
    each_plan_of,
    pairs,
    read_plans,
    sql_options,
    tables_of,
)
from substrait_agg_cli.sparklog import spark_log
from substrait_agg_cli.terminal import (
    SigtermReceived,
    debug_option,
    debug_wanted,
    discard_closed_stdout,
    show,
    show_warnings,
    stopped_by,
)

Command = Callable[..., None]

LIVE_OUTPUTS = ("live-table", "live-csv")

EPILOG = """\b
Examples:
  substrait-agg run --query 'SELECT region, sum(amount) FROM sales GROUP BY region' \\
      --source sales=csv:sales/ --checkpoint ckpt
  substrait-agg run q01.bin --source lineitem=parquet:data/lineitem --checkpoint ckpt
  substrait-agg run sales.json --source 'sales=csv:in/?op=kind&batch-files=1' \\
      --checkpoint ckpt --output stream-json
"""


PAIRS = {
    option.name: option.metadata["metavar"]
    for option in fields(RunOptions)
    if str(option.type).startswith("Mapping")
}
"""Options that are repeated, each time with a name and a value, and how these are written."""

ONLY_HERE: dict[str, tuple[Callable[[Command], Command], ...]] = {
    "until": (
        click.option(
            "--until",
            type=click.Choice(["done"]),
            help="done (default): process the available data, then stop.",
        ),
        click.option(
            "--every",
            metavar="INTERVAL",
            help=(
                "Run until stopped, with a batch every 500ms, 5s, 1m or 1h; 0: a batch as soon as a source has something."
            ),
        ),
    ),
    "mode": (mode_option,),
    "progress": (
        click.option(
            "--progress/--no-progress",
            default=True,
            help=(
                "Print rows, touched groups, speed and watermark of each batch on stderr, after the first batch the "
                "duration of each phase of the start, and during a batch how many rows a large join has produced."
            ),
        ),
    ),
}
"""Fields of `RunOptions` that the command line words in its own way."""


def _option(row: Field[Any]) -> Callable[[Command], Command]:
    """Return the option of the command line for a field of `RunOptions`."""
    form = row.metadata
    kind: click.ParamType[Any] | None = None
    if str(row.type).startswith("int"):
        kind = click.IntRange(min=form.get("least", 1))
    elif "choices" in form:
        kind = click.Choice(form["choices"])
    shown: dict[str, Any] = (
        {"default": row.default, "show_default": True} if type(row.default) in (str, int) else {}
    )
    return click.option(
        f"--{form.get('name', row.name).replace('_', '-')}",
        row.name,
        is_flag=row.default is False,
        multiple=row.name in (*PAIRS, "outputs"),
        type=kind,
        metavar=form["metavar"] or None,
        help=form["help"],
        **shown,
    )


def run_options(command: Command) -> Command:
    """Add the options of `RunOptions` to a command, in the order of its fields."""
    for row in reversed(fields(RunOptions)):
        own = (_option(row),) if row.metadata else ()
        for option in reversed(ONLY_HERE.get(row.name, own)):
            command = option(command)
    return command


def _exit_terminated(*_: Any) -> NoReturn:
    raise SigtermReceived


@contextmanager
def sigterm_like_ctrl_c() -> Iterator[None]:
    """Let SIGTERM end a block like Ctrl-C, with its own exit status."""
    before = signal.signal(signal.SIGTERM, _exit_terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@click.command(epilog=EPILOG)
@click.argument("plan", metavar="[PLAN]", required=False)
@sql_options
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="NAME=SPEC",
    help="The source of a table of the plan; once per table. SPEC is [FORMAT:]LOCATION[?key=value&...]. If the "
    "plan has no column types, those of the source are used. weight=COLUMN, op=COLUMN or cdc=debezium: how "
    "rows distinguish inserts from deletes. key=COLUMN[,COLUMN]: the primary key of a table whose rows "
    "replace earlier rows of the key; order=COLUMN: which row is newer. batch-files=N: the most files per "
    "batch. static=true: read the table once. bad-rows=quarantine: move unreadable rows to the quarantine (view --bad-rows). Other keys are "
    "options of Spark, such as sep or dateFormat.",
)
@run_options
@debug_option
@sigterm_like_ctrl_c()
def run(
    *,
    plan: str | None,
    sql: str | None,
    query: str | None,
    sources: tuple[str, ...],
    every: str | None,
    until: str | None,
    progress: bool,
    mode: Mode,
    outputs: tuple[str, ...],
    **options: Any,
) -> None:
    """Maintain the result of a plan or a SQL query while its inputs change.

    PLAN is a file with protobuf or protobuf-JSON of any Substrait release; - is stdin. --sql or --query gives SQL
    instead; the columns of its tables are those of CREATE TABLE or of the sources. A batch is committed
    as a whole or not at all. A file or folder of SQL with several views is a pipeline: all its views are maintained
    together. To continue a run that was killed, start it again with the same arguments.
    """
    from substrait_agg.changes import parse_output

    discard_closed_stdout()
    check_one_given(plan, sql, query)
    options["until"] = _until(until, every)
    options["checkpoint"] = options["checkpoint"] or checkpoint_of(sql or plan or "")
    tables = tables_of(sources)
    for name, form in PAIRS.items():
        options[name] = pairs(options[name], f"--{name}", form)
    sinks = [parse_output(text) for text in outputs or ("batch-table",)]
    session = {"conf": options["conf"], "master": options["master"]}
    loaded = read_plans(plan, sql, query, tables, **session)
    untyped = []
    for one in each_plan_of(loaded, mode):
        checked = one.check(mode)
        if checked.bound is None:
            untyped.append(one)
        else:
            show_warnings(checked.problems, one.name or QUERY)
    meter = ProgressMeter(
        sys.stderr, live=sys.stderr.isatty(), loading=time.monotonic() - substrait_agg_cli.STARTED
    )
    drawn = any(map(draws, sinks))
    shown = meter.show if progress and not drawn else None
    with spark_log(debug=debug_wanted()) as log, notices_shown(meter, later=drawn):
        options |= {"outputs": sinks, "mode": mode, "progress": shown, "spark_log": log}
        started = substrait_agg.run(loaded, tables, **options)
        if started.page is not None:
            meter.end()
            click.echo(f"page: {started.page}", err=True)
        for one in untyped:
            # The sources have the column types, so the plan is fully checked only now.
            show_warnings(one.check_to_run(mode).problems, one.name or QUERY)
        wait(started, meter)


def _until(until: str | None, every: str | None) -> str:
    if until is not None and every is not None:
        message = "--until and --every cannot be combined"
        help = "give one of them"
        raise UsageError("OPTION_INVALID", message, help=help, path="--every")
    if every not in (None, "0") and microseconds(every) is None:
        message = f"{every!r} is not an interval"
        help = (
            "write an interval as 500ms, 5s, 1m or 1h, or 0 for a batch as soon as there are rows"
        )
        raise UsageError("OPTION_INVALID", message, help=help, path="--every")
    return every or "done"


def draws(output: Any) -> bool:
    """Return whether an output draws on the terminal. It then shows the progress itself."""
    from substrait_agg.changes.outputs.outputs import can_draw

    return output.kind in LIVE_OUTPUTS and output.location is None and can_draw(sys.stdout)


def leave(status: int) -> NoReturn:
    """End the process although a thread blocks in an output.

    That output may be stdout, and flushing it could block forever.
    """
    sys.stderr.flush()
    os._exit(status)


def wait(started: Any, meter: ProgressMeter) -> None:
    """Wait for a run to end. Ctrl-C and SIGTERM stop it; committed versions remain."""
    # Spark's own handler, set when a session is created, would make the current batch fail first.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        started.wait()
    except KeyboardInterrupt as interrupt:
        meter.end()
        started.stop()
        version = started.progress.version
        state = f"version {version} is committed" if version >= 0 else "nothing is committed yet"
        message = f"stopped by the user; {state}"
        show(
            "error", "INTERRUPTED", "", message, "run the same command again to continue from there"
        )
        status = stopped_by(interrupt)
        if started.busy_outputs:
            leave(status)
        click.get_current_context().exit(status)
    finally:
        meter.end()
