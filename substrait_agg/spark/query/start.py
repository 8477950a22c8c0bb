"""Start a run. All checks precede the first write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from substrait_agg.bind.context import SourceSchemas
from substrait_agg.bind.plan.binder import untyped_tables
from substrait_agg.bind.plan.table_sources import check_sources
from substrait_agg.bind.plan.views import BoundViews
from substrait_agg.bind.readings import reads_of
from substrait_agg.changes import Delivery, check_outputs, keeps_late
from substrait_agg.changes.delivery.evolved import check_outputs_go_on
from substrait_agg.changes.delivery.output_worker import STOP_SECONDS, OutputWorkers, check_free
from substrait_agg.changes.outputs.view_outputs import ViewOutputs, outputs_by_view
from substrait_agg.commit.documents.plan_document import PlanDocument
from substrait_agg.commit.evolution.planner import Evolution
from substrait_agg.commit.hash_ranges import check_partitions
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.locking import check_unlocked
from substrait_agg.commit.view.view import View
from substrait_agg.errors import RunFailed
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.flow.passes.event_time import EventColumns
from substrait_agg.flow.passes.lower import lower
from substrait_agg.metrics.observers import Observers
from substrait_agg.metrics.startup import StartTimer
from substrait_agg.page.server import WebPage
from substrait_agg.plan.model import DecodedPlan
from substrait_agg.recompute.evolve import evolutions, evolve_to
from substrait_agg.redaction import remember, safe_cause
from substrait_agg.run_options import RunOptions
from substrait_agg.runtime.event_state import EventOptions
from substrait_agg.runtime.executor import Executor
from substrait_agg.spark.admission.read_limits import check_limited
from substrait_agg.spark.execution.task_runner import keep_memory
from substrait_agg.spark.execution.worker_python import check_worker_python
from substrait_agg.spark.inputs.event_time_setup import (
    check_times,
    event_columns,
    event_options,
    read_forget,
    with_times,
)
from substrait_agg.spark.inputs.inputs import Inputs, Source
from substrait_agg.spark.inputs.plan_files import with_plan_files
from substrait_agg.spark.inputs.source_identity import (
    check_locations,
    input_locations,
    source_folders,
)
from substrait_agg.spark.query.document import plan_document
from substrait_agg.spark.query.handle import CheckedRun, Run
from substrait_agg.spark.query.sinks import SparkWriter, check_writers, frame_of, open_writer
from substrait_agg.spark.query.spark_executor import SparkExecutor
from substrait_agg.spark.query.static_tables import changed_tables, with_contents
from substrait_agg.spark.refresh.conditions import refresh_chooser
from substrait_agg.spark.refresh.files_so_far import FilesSoFar, SparkTables
from substrait_agg.spark.session.errors import (
    SPARK_ERRORS,
    reason_of,
    spark_gone,
    spark_lost,
)
from substrait_agg.spark.session.session import (
    PARTITIONS,
    SqlSettings,
    default_partitions,
    get_session,
    prepare,
    require_classic,
)
from substrait_agg.spark.sources.connected import with_connected
from substrait_agg.spark.sources.open import is_static, weight_kind
from substrait_agg.spark.sources.readers import with_absolute_location
from substrait_agg.spark.sources.source_types import source_schemas, with_names
from substrait_agg.spark.sources.specs import Table
from substrait_agg.spark.sources.upserts import upserts_in


def run(
    plan: BoundViews, sources: Mapping[str, Source], options: RunOptions, timer: StartTimer
) -> Run:
    """Start or continue a run of bound plans.

    Raises:
        InputRefused, StateRefused, UsageError: before anything is written.
        RunFailed: Spark could not start, or the first version could not be computed.
    """
    require_classic((options.spark, *sources.values()))
    remember((options.conf or {}).items())
    keep_memory()
    checked = checked_run(plan, sources, options)
    timer.end("check")
    observers = Observers(options.metrics, options.listener)
    with ExitStack() as undone:
        undone.enter_context(observers)
        if options.page_port is not None:
            views = [outputs.view for outputs in checked.outputs]
            observers.page = WebPage(options.page_port, checked.store, views)
        frame = next((s for s in checked.sources.values() if isinstance(s, DataFrame)), None)
        session = frame.sparkSession if frame else _session(options)
        timer.end("spark")
        settings = SqlSettings(session, options.conf)
        undone.callback(settings.restore)
        try:
            started = _start(checked, session, settings, observers, timer, undone)
        except SPARK_ERRORS as error:
            raise _not_started(error) from safe_cause(error)
        undone.pop_all()
    return started


def _start(
    checked: CheckedRun,
    session: SparkSession,
    settings: SqlSettings,
    observers: Observers,
    timer: StartTimer,
    undone: ExitStack,
) -> Run:
    """Open the inputs, take the checkpoint, and start the run.

    `undone` gets what has to be released if this fails.
    """
    store, options = checked.store, checked.options
    absolute = {t: with_absolute_location(session, s) for t, s in checked.sources.items()}
    checked = replace(checked, sources=absolute)
    # Outputs use the caller's session, with its catalogs and registrations, if there is one.
    outer = options.spark or session
    check_writers(outer, [o for of_view in checked.outputs for o in of_view.outputs])
    check_worker_python(session)
    inputs = Inputs(
        session, checked.flow, checked.sources, checked.store.changes, checked.events.sources
    )
    checked = _with_static_tables(checked, session)
    if checked.changed or checked.evolves or _version(store) is None:
        inputs.check_static_files()
    timer.end("sources")
    files = FilesSoFar(store, checked.flow, checked.sources)
    store.create(checked.document, evolve=options.evolve, unreadable=files.unreadable)
    closing = undone.enter_context(ExitStack())
    closing.enter_context(store.hold())
    store.check_runnable()
    store.claim()
    files.warn_of_modified()
    partitions = options.partitions or store.settings().partitions or default_partitions(session)
    settings.put(PARTITIONS, str(partitions))
    since = _version(store)
    if checked.evolves:
        executor: Executor[DataFrame] = SparkExecutor(session)
        evolve_to(
            checked.document, executor, checked.flow, store, partitions,
            inputs=checked.source_locations, retention=options.retention,
            tables=SparkTables(files, inputs, partial(prepare, session, options.conf)),
        )  # fmt: skip
    output_workers = _output_workers(checked, outer, since)
    undone.callback(output_workers.end, with_view=False, patience=STOP_SECONDS)
    return Run(
        SparkExecutor(session), checked, partitions, inputs, output_workers, observers, settings, closing,
        timer,
    )  # fmt: skip


def _with_static_tables(checked: CheckedRun, session: SparkSession) -> CheckedRun:
    """Check that static tables have the rows that the first version read."""
    store, options, flow = checked.store, checked.options, checked.flow
    places = with_contents(checked.source_locations, checked.sources, flow, store, session)
    changed = changed_tables(
        store, places, flow, accept=options.accept_source_change, evolves=checked.evolves
    )
    return replace(checked, source_locations=places, changed=changed)


def _output_workers(checked: CheckedRun, outer: SparkSession, since: int | None) -> OutputWorkers:
    store, options = checked.store, checked.options
    deliveries = []
    with ExitStack() as opened:
        for outputs in checked.outputs:
            delivery = Delivery(
                outputs.outputs,
                checkpoint=store.folder,
                since=since,
                on_changes=outputs.on_changes,
                frame=partial(frame_of, outer),
                writer=partial(open_writer, outer),
                fence=store.fence,
                view=outputs.view,
            )
            opened.callback(delivery.close)
            deliveries.append((delivery, partial(View, store, outputs.view)))
        opened.pop_all()
    return OutputWorkers(deliveries, show=options.until != "done")


def schemas_of_sources(
    plan: DecodedPlan,
    sources: Mapping[str, Source],
    options: RunOptions,
) -> SourceSchemas:
    """Read the columns of tables that a plan reads without types.

    Raises:
        InputRefused, UsageError: a source is missing, has no types or cannot be opened.
        RunFailed: Spark could not start.
    """
    require_classic((options.spark, *sources.values()))
    remember((options.conf or {}).items())
    named = with_plan_files(sources, reads_of(plan), options.allowed_folder)
    try:
        return source_schemas(untyped_tables(plan), named, partial(_session, options))
    except SPARK_ERRORS as error:
        raise _not_started(error) from safe_cause(error)


def _session(options: RunOptions) -> SparkSession:
    return get_session(options.master, options.conf, options.spark, options.spark_log)


def checked_run(plan: BoundViews, sources: Mapping[str, Source], options: RunOptions) -> CheckedRun:
    """Make all checks that do not need Spark.

    Raises:
        InputRefused, StateRefused, UsageError: as `run`.
    """
    if options.partitions is not None:
        check_partitions(options.partitions)
    named = with_plan_files(sources, plan.reads, options.allowed_folder)
    by_table = with_connected(with_names(check_sources(named, plan.reads), plan.reads))
    stored = [view.name for view in plan.views if view.stored]
    outputs = outputs_by_view(options.sinks, options.on_changes, stored)
    keep_late = any(keeps_late(output) for of_view in outputs for output in of_view.outputs)
    events = event_options(plan, options.watermark or {}, options.state_ttl, keep_late=keep_late)
    store = Checkpoint(options.checkpoint)
    store.check_usable()
    check_unlocked(store.folder)
    if options.target_seconds is not None:
        check_limited(by_table)
    columns = event_columns(by_table, events)
    flow = _flow_of(plan, by_table, options, events, columns)
    check_times(flow, events, options.emit_policy, columns)
    refresh = refresh_chooser(flow, by_table, events, options)
    document = plan_document(flow, events)
    files = FilesSoFar(store, flow, by_table)
    evolution = store.check(document, evolve=options.evolve, unreadable=files.unreadable)
    places = input_locations(by_table)
    check_locations(store, places, accept=options.accept_source_change)
    _check_outputs(outputs, options, store, document, evolution, source_folders(by_table))
    return CheckedRun(
        options,
        flow,
        by_table,
        events,
        store,
        document,
        places,
        evolution is not None,
        outputs,
        refresh=refresh,
    )


def _flow_of(
    plan: BoundViews,
    sources: Mapping[Table, Source],
    options: RunOptions,
    events: EventOptions,
    columns: EventColumns,
) -> Flow:
    """Return the lowered plan over the sources of a run."""
    weights = {table: weight_kind(source) for table, source in sources.items()}
    upserts = with_times(upserts_in(sources), events)
    static = frozenset(table for table, source in sources.items() if is_static(source))
    return lower(
        plan, weights, options.early, upserts, columns, forget=read_forget(events), static=static
    )


def _check_outputs(
    outputs: Sequence[ViewOutputs],
    options: RunOptions,
    store: Checkpoint,
    document: PlanDocument,
    evolution: Evolution | None,
    tables: Mapping[Path, str],
) -> None:
    """Check that outputs can be opened and continue the versions that they have received."""
    sinks = [output for of_view in outputs for output in of_view.outputs]
    check_outputs(sinks, store.folder, options.metrics, tables)
    for of_view in outputs:
        changes = evolutions(store, document, evolution, of_view.view)
        check_outputs_go_on(of_view.outputs, store.folder, changes, SparkWriter, of_view.view)
    check_free(store.folder)


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
