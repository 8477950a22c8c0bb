"""Start a run. All checks precede the first write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from pyspark.sql import DataFrame, SparkSession

from substrait_agg.bind.bound import BoundPlan
from substrait_agg.bind.context import SourceSchemas, UntypedTable
from substrait_agg.bind.rewrite import table_reads
from substrait_agg.changes import Delivery, check_outputs, keeps_late
from substrait_agg.changes.delivery.evolved import check_outputs_go_on
from substrait_agg.changes.delivery.output_worker import STOP_SECONDS, OutputWorkers, check_free
from substrait_agg.commit.documents.plan_document import PlanDocument
from substrait_agg.commit.documents.snapshot import InputPlace
from substrait_agg.commit.hash_ranges import check_partitions
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.locking import lock_for_run
from substrait_agg.commit.log.retention import DEFAULT, Retention
from substrait_agg.commit.view.view import View
from substrait_agg.errors import RunFailed
from substrait_agg.files.locations import Location
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.flow.passes.lower import lower
from substrait_agg.functions.aggregates.accumulators import EarlyRetraction
from substrait_agg.metrics import Progress
from substrait_agg.metrics.observers import Observers
from substrait_agg.metrics.startup import StartTimer
from substrait_agg.operator.common.policy import EVERY_BATCH, EmitPolicy
from substrait_agg.operator.common.watermarks import Ttl
from substrait_agg.redaction import remember, safe_cause
from substrait_agg.spark.execution.worker_python import check_worker_python
from substrait_agg.spark.inputs.column_positions import with_positions
from substrait_agg.spark.inputs.event_state import EventOptions
from substrait_agg.spark.inputs.event_time_setup import (
    check_times,
    event_columns,
    event_options,
    forgetting,
    with_times,
)
from substrait_agg.spark.inputs.inputs import Source
from substrait_agg.spark.inputs.stream import open_feed
from substrait_agg.spark.offsets.logs import check_logs
from substrait_agg.spark.offsets.query_checkpoint import open_query_checkpoint
from substrait_agg.spark.query.document import plan_document
from substrait_agg.spark.query.evolve import evolutions, evolve_to
from substrait_agg.spark.query.handle import Run, RunSettings
from substrait_agg.spark.query.sinks import SparkWriter, check_writers, frame_of, open_writer
from substrait_agg.spark.query.warm_up import first_bytes, warm_driver, warm_workers
from substrait_agg.spark.session.errors import (
    SPARK_ERRORS,
    reason_of,
    spark_gone,
    spark_lost,
)
from substrait_agg.spark.session.session import get_session
from substrait_agg.spark.session.sql_settings import PARTITIONS, SqlSettings
from substrait_agg.spark.sources.open import check_sources, weight_kind
from substrait_agg.spark.sources.source_identity import check_places, input_places
from substrait_agg.spark.sources.source_types import source_schemas
from substrait_agg.spark.sources.specs import Table
from substrait_agg.spark.sources.upserts import upserts_in


def run(
    plan: BoundPlan,
    sources: Mapping[str, Source],
    *,
    checkpoint: str | Location,
    spark: SparkSession | None = None,
    on_changes: Callable[[Any, int], None] | None = None,
    until: str = "done",
    partitions: int | None = None,
    outputs: Iterable[Any] = (),
    conf: Mapping[str, str] | None = None,
    master: str | None = None,
    early_retraction: EarlyRetraction = "carry",
    emit: EmitPolicy = EVERY_BATCH,
    watermark: Mapping[str, str] | None = None,
    ttl: Ttl | None = None,
    progress: Callable[[Progress], None] | None = None,
    metrics: str | Path | None = None,
    listener: Any = None,
    spark_log: IO[bytes] | None = None,
    retention: Retention = DEFAULT,
    accept_source_change: bool = False,
    evolve: bool = False,
    timer: StartTimer | None = None,
) -> Run:
    """Start or continue a run of a bound plan, with the options of `substrait_agg.run`.

    `until` is ``done`` or the interval between batches as Spark reads it. `timer` measures the
    start.

    Raises:
        InputRefused, StateRefused, UsageError: before anything is written.
        RunFailed: Spark could not start, or the first version could not be computed.
    """
    if partitions is not None:
        check_partitions(partitions)
    remember((conf or {}).items())
    sinks = tuple(outputs)
    asked = RunRequest(
        early_retraction, emit, watermark or {}, ttl, metrics, accept_source_change, evolve
    )
    ready = _checked(plan, sources, checkpoint, sinks, asked)
    timer = timer or StartTimer()
    timer.end("check")
    observers = Observers(metrics, listener)
    given = next((s for s in ready.sources.values() if isinstance(s, DataFrame)), None)
    session = given.sparkSession if given else get_session(master, conf, spark, spark_log)
    timer.end("spark")
    warm_driver(session)
    settings = SqlSettings(session, conf)
    with ExitStack() as undone:
        undone.callback(settings.restore)
        undone.enter_context(observers)
        try:
            # Outputs use the caller's session, with its catalogs and registrations, if there is
            # one.
            outer = spark or session
            check_writers(outer, sinks)
            check_worker_python(session)
            feed = open_feed(session, ready.flow, ready.sources, ready.events.sources)
            timer.end("sources")
            ready.store.create(ready.document, evolve=evolve)
            closing = undone.enter_context(ExitStack())
            closing.enter_context(lock_for_run(ready.store.folder))
            ready.store.check_runnable()
            ready.store.claim()
            count = partitions or ready.store.settings().partitions or _cores(session)
            settings.put(PARTITIONS, str(count))
            warm_workers(session, count, first_bytes(ready.sources.values()))
            since = _version(ready.store)
            if ready.evolves:
                evolve_to(
                    ready.document, session, ready.flow, ready.store, count,
                    inputs=ready.places, retention=retention,
                )  # fmt: skip
            delivery = Delivery(
                sinks,
                checkpoint=ready.store.folder,
                since=since,
                on_changes=on_changes,
                frame=partial(frame_of, outer),
                writer=open_writer,
                fence=ready.store.fence,
            )
            work = closing.enter_context(open_query_checkpoint(ready.store))
            couriers = OutputWorkers(delivery, lambda: View(ready.store), show=until != "done")
            undone.callback(couriers.end, with_view=False, patience=STOP_SECONDS)
            options = RunSettings(
                count, until, emit, ready.events, progress, observers, retention, work, closing, ready.places,
                timer, ready.sources,
            )  # fmt: skip
            started = Run(session, ready.flow, feed, ready.store, couriers, options, settings)
        except SPARK_ERRORS as error:
            raise _not_started(error) from safe_cause(error)
        undone.pop_all()
    return started


def schemas_of_sources(
    tables: Sequence[UntypedTable],
    sources: Mapping[str, Source],
    *,
    spark: SparkSession | None,
    conf: Mapping[str, str] | None,
    master: str | None,
    spark_log: IO[bytes] | None,
) -> SourceSchemas:
    """Read the columns of tables that a plan reads without types; the options are those of `run`.

    Raises:
        InputRefused, UsageError: a source is missing, has no types or cannot be opened.
        RunFailed: Spark could not start.
    """
    remember((conf or {}).items())
    try:
        return source_schemas(tables, sources, lambda: get_session(master, conf, spark, spark_log))
    except SPARK_ERRORS as error:
        raise _not_started(error) from safe_cause(error)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Options that affect the result, or that must match those of the checkpoint."""

    early_retraction: EarlyRetraction
    emit: EmitPolicy
    watermark: Mapping[str, str]
    ttl: Ttl | None
    metrics: str | Path | None
    accept_source_change: bool
    evolve: bool


@dataclass(frozen=True, slots=True)
class CheckedRun:
    """A run that has passed all checks that do not need Spark. Nothing is written yet.

    Attributes:
        flow: the lowered plan.
        sources: the sources of the tables.
        events: the sources with a watermark, and the TTL of idle groups.
        store: the checkpoint.
        document: the plan document.
        places: locations of the tables.
        evolves: whether the checkpoint has to evolve to this plan first.
    """

    flow: Flow
    sources: Mapping[Table, Source]
    events: EventOptions
    store: Checkpoint
    document: PlanDocument
    places: tuple[InputPlace, ...]
    evolves: bool


def _checked(
    plan: BoundPlan,
    sources: Mapping[str, Source],
    checkpoint: str | Location,
    sinks: tuple[Any, ...],
    asked: RunRequest,
) -> CheckedRun:
    """Make all checks that do not need Spark.

    Raises:
        InputRefused, StateRefused, UsageError: as `run`.
    """
    chosen = with_positions(check_sources(sources, tuple(table_reads(plan.root))), plan)
    weights = {table: weight_kind(source) for table, source in chosen.items()}
    keep_late = any(map(keeps_late, sinks))
    events = event_options(plan, asked.watermark, asked.ttl, keep_late=keep_late)
    upserts = with_times(upserts_in(chosen), events)
    columns = event_columns(chosen, events)
    flow = lower(plan, weights, asked.early_retraction, upserts, columns, forget=forgetting(events))
    check_times(flow, events, asked.emit)
    store = Checkpoint(checkpoint)
    document = plan_document(flow, events)
    found = store.check(document, evolve=asked.evolve)
    check_logs(store)
    places = input_places(chosen)
    check_places(store, places, accept=asked.accept_source_change)
    check_outputs(sinks, store.folder, asked.metrics)
    check_outputs_go_on(sinks, store.folder, evolutions(store, document, found), SparkWriter)
    check_free(store.folder)
    return CheckedRun(flow, chosen, events, store, document, places, found is not None)


def _not_started(error: Exception) -> RunFailed:
    if spark_gone():
        return spark_lost()
    return RunFailed(
        "RUN_NOT_STARTED",
        f"Spark could not start the run: {reason_of(error)}",
        help="check the sources, their options and --conf",
    )


def _version(store: Checkpoint) -> int | None:
    versions = store.versions()
    return versions[-1] if versions else None


def _cores(session: SparkSession) -> int:
    cores = max(1, session.sparkContext.defaultParallelism)
    return 1 << (cores - 1).bit_length()
