"""Implement the command run: maintain a plan over its sources with Spark."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable
from typing import Any, NoReturn

import click

import substrait_agg
import substrait_agg_cli
from substrait_agg.errors import UsageError
from substrait_agg.problems import Mode
from substrait_agg_cli.notices import notices_shown
from substrait_agg_cli.plan_files import read_plan
from substrait_agg_cli.plans import mode_option
from substrait_agg_cli.progress import ProgressMeter
from substrait_agg_cli.sparklog import spark_log
from substrait_agg_cli.terminal import (
    INTERRUPTED,
    TERMINATED,
    debug_option,
    debug_wanted,
    show,
    show_warnings,
)

LIVE_OUTPUTS = ("live-table", "live-csv")

EPILOG = """\b
Examples:
  substrait-agg run q01.bin --source lineitem=parquet:data/lineitem --checkpoint ckpt
  substrait-agg run sales.json --source 'sales=csv:in/?op=kind&batch-files=1' \\
      --checkpoint ckpt --output stream-json
"""


@click.command(epilog=EPILOG)
@click.argument("plan", metavar="PLAN")
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="NAME=SPEC",
    help="One per table of the plan. SPEC is [FORMAT:]LOCATION[?key=value&...]. A plan that gives no column types takes"
    " those of the source. Keys weight=COLUMN,"
    " op=COLUMN or cdc=debezium say how changes are marked; key=COLUMN[,COLUMN] is the primary key of a table whose"
    " rows replace one another, order=COLUMN what tells the newer one; batch-files=N limits the files of one batch; bad-rows=quarantine sets rows aside that cannot be read (view --bad-rows). Others are options of Spark, such as sep or dateFormat.",
)
@click.option(
    "--checkpoint",
    required=True,
    metavar="DIR",
    help="State, offsets and versions: a folder, or a URL such as s3://bucket/prefix. Running again continues.",
)
@click.option(
    "--until", type=click.Choice(["done"]), help="done (default): process what is there, then stop."
)
@click.option("--every", metavar="INTERVAL", help="Keep going, a batch every 500ms, 5s, 1m or 1h.")
@click.option(
    "--emit",
    default="batch",
    show_default=True,
    metavar="SPEC",
    help="When a group's changes are emitted. batch: after every batch that touches it; watermark: when the watermark has passed"
    " its event time; count:N: after N rows of it; delay:5s: so long after its last row; end: at the end of the input."
    " Several joined by commas: whichever is first.",
)
@click.option(
    "--watermark",
    "watermarks",
    multiple=True,
    metavar="NAME.COLUMN=SPEC",
    help="The event time of a table. SPEC is max-diff:5s or percentile:P:EVENTS:FREQUENCY, and behind it ,idle:1m or"
    " ,by:COLUMN. Rows of groups that the watermark has passed are late: dropped and counted.",
)
@click.option(
    "--ttl",
    metavar="INTERVAL",
    help="Forget groups without rows for so long in event time (without --watermark by the clock); 1h retracts their"
    " rows, 1h:keep leaves them in the view.",
)
@click.option(
    "--output",
    "outputs",
    multiple=True,
    metavar="KIND[=LOCATION]",
    help="May be repeated; default batch-table. At the end batch-table, batch-csv; after every version live-table,"
    " live-csv, stream-json, debezium-json (stdout or a file), changes-parquet=DIR, late-parquet=DIR"
    " (rows that the watermark left out), view-parquet=DIR, spark=FORMAT:LOCATION[?key=value] (changes, appended by Spark); none. A slow or failing output holds up nothing"
    " else and is tried again; what it has not had when the run ends, the next run delivers.",
)
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    metavar="N",
    help="Of the state: a power of two; default what state rescale has set, else one per core.",
)
@click.option(
    "--keep-versions",
    type=click.IntRange(min=1),
    metavar="N",
    help="The newest N versions keep their state, to be read (view --version) and gone back to (state rollback); default 10.",
)
@click.option(
    "--keep-for",
    metavar="INTERVAL",
    help="Versions younger than this keep their state as well, such as 12h or 7d.",
)
@click.option(
    "--early-retraction",
    type=click.Choice(["carry", "refuse", "quarantine"]),
    default="carry",
    show_default=True,
    help="What a retraction before its insertion does. carry: count below zero, unseen; refuse: fail the batch;"
    " quarantine: wait aside (view --quarantined). A checkpoint keeps its policy.",
)
@click.option(
    "--metrics",
    metavar="FILE",
    help="Metrics after every version: Prometheus text that is replaced where FILE ends in .prom, else JSON lines"
    " that are appended; - is stdout.",
)
@click.option(
    "--accept-source-change",
    is_flag=True,
    help="Go on though a table is read from another place than before; all that is there counts as new rows.",
)
@click.option(
    "--evolve",
    is_flag=True,
    help="Go on with a plan that has other measures or names than the one the checkpoint was made for. New measures are"
    " computed from what is kept, or refused with the reason.",
)
@mode_option
@click.option("--master", metavar="URL", help="Spark master; default: all cores of this machine.")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="Spark configuration.")
@click.option(
    "--progress/--no-progress",
    default=True,
    help="Rows, groups touched, speed and watermark on stderr; after the first batch, how long the start took by phase.",
)
@debug_option
def run(
    *,
    plan: str,
    sources: tuple[str, ...],
    conf: tuple[str, ...],
    outputs: tuple[str, ...],
    until: str | None,
    every: str | None,
    watermarks: tuple[str, ...],
    progress: bool,
    mode: Mode,
    **options: Any,
) -> None:
    """Keep the result of a plan up to date while its inputs change.

    PLAN is a file with protobuf or protobuf-JSON of any Substrait release; - is stdin. Every batch is committed
    whole or not at all: a run that was killed continues when it is started again with the same arguments.
    """
    from substrait_agg.changes import parse_output

    if until is not None and every is not None:
        message = "a run either stops when it is done or goes on"
        help = "give --until or --every, not both"
        raise UsageError("OPTION_INVALID", message, help=help, path="--every")
    tables = pairs(sources, "--source", "NAME=SPEC")
    settings = pairs(conf, "--conf", "KEY=VALUE")
    times = pairs(watermarks, "--watermark", "NAME.COLUMN=SPEC")
    sinks = [parse_output(text) for text in outputs or ("batch-table",)]
    loaded = read_plan(plan)
    checked = loaded.check(mode)
    if checked.bound is not None:
        show_warnings(checked.problems, plan)
    meter = ProgressMeter(
        sys.stderr, live=sys.stderr.isatty(), loading=time.monotonic() - substrait_agg_cli.STARTED
    )
    drawn = any(map(draws, sinks))
    with spark_log(debug=debug_wanted()) as log, notices_shown(meter, later=drawn):
        started = substrait_agg.run(
            loaded,
            tables,
            outputs=sinks,
            conf=settings,
            watermark=times,
            until=every or "done",
            mode=mode,
            progress=meter.show if progress and not drawn else None,
            spark_log=log,
            **options,
        )
        if (
            checked.bound is None
        ):  # the sources have the column types, so the plan is fully checked only now
            show_warnings(loaded.check_to_run(mode).problems, plan)
        wait(started, meter)


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


class SigtermReceived(KeyboardInterrupt):
    """SIGTERM, which service managers send instead of Ctrl-C."""


def _terminated(*_: Any) -> NoReturn:
    raise SigtermReceived


def wait(started: Any, meter: ProgressMeter) -> None:
    """Wait for a run to end. Ctrl-C and SIGTERM stop it; committed versions remain."""
    # Spark's own handler, set when a session is created, would make the current batch fail first.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    before = signal.signal(signal.SIGTERM, _terminated)
    try:
        started.wait()
    except KeyboardInterrupt as interrupt:
        meter.end()
        started.stop()
        version = started.progress.version
        told = f"version {version} is committed" if version >= 0 else "nothing is committed yet"
        message = f"stopped by the user; {told}"
        show("error", "INTERRUPTED", "", message, "the same command continues from there")
        status = TERMINATED if isinstance(interrupt, SigtermReceived) else INTERRUPTED
        if started.busy_outputs:
            leave(status)
        click.get_current_context().exit(status)
    finally:
        meter.end()
        signal.signal(signal.SIGTERM, before)


def pairs(texts: Iterable[str], option: str, form: str) -> dict[str, str]:
    """Return the values of a repeated option ``NAME=VALUE`` by name.

    Raises:
        UsageError: a text has another form, or a name is repeated.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            message = f"{text!r} has not the form {form}"
            raise UsageError("OPTION_INVALID", message, help=f"write {option} {form}", path=option)
        if name in found:
            message = f"{name} is given twice"
            raise UsageError("OPTION_INVALID", message, help="give it once", path=option)
        found[name] = value
    return found
