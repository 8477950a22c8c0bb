"""The handle of a started run, and the streaming query that feeds batches to the operators."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, NoReturn

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from substrait_agg.changes.delivery.output_worker import STOP_SECONDS, OutputWorkers
from substrait_agg.changes.outputs.view_outputs import ViewOutputs
from substrait_agg.commit.documents.plan_document import PlanDocument
from substrait_agg.commit.documents.snapshot import InputPlace
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.query_logs import query_id
from substrait_agg.errors import RunFailed
from substrait_agg.explanation.failures import with_place
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.metrics import Progress
from substrait_agg.metrics.observers import Observers
from substrait_agg.metrics.startup import StartTimer
from substrait_agg.notices import notice
from substrait_agg.redaction import safe_cause
from substrait_agg.refresh.chooser import RefreshChooser
from substrait_agg.run_options import RunOptions
from substrait_agg.spark.admission.read_limits import AdmissionControl, has_own_limit
from substrait_agg.spark.execution.join_watch import JoinWatch
from substrait_agg.spark.execution.task_runner import ARROW_ROWS, HANDED_OVER
from substrait_agg.spark.executors.spark_executor import SparkExecutor
from substrait_agg.spark.inputs.event_state import EventOptions
from substrait_agg.spark.inputs.inputs import Inputs, Source, table_origins
from substrait_agg.spark.offsets.planned_files import (
    PlannedSource,
    check_folders,
    check_planned_files,
    logged_files,
    planned_at,
    planned_batch,
    sources_of,
)
from substrait_agg.spark.offsets.query_checkpoint import QueryCheckpoint
from substrait_agg.spark.query.input_rows import add_input_rows, input_scans, listed_files
from substrait_agg.spark.query.microbatch import FIRST_BATCH, MicroBatches
from substrait_agg.spark.query.planned_batches import NeedsSpark, PlannedBatches, SettingsOnly
from substrait_agg.spark.query.static_tables import difference, stored_inputs
from substrait_agg.spark.query.timer import Timer
from substrait_agg.spark.query.unreadable_rows import explained
from substrait_agg.spark.refresh.whole_input import RowsByOperator, WholeInput, input_size
from substrait_agg.spark.session.errors import (
    GONE_ERRORS,
    SPARK_ERRORS,
    batch_failed,
)
from substrait_agg.spark.session.session import PARTITIONS, SESSION_CONF, SqlSettings, prepare
from substrait_agg.spark.sources.readers import stream_folders
from substrait_agg.spark.sources.specs import Table


@dataclass(frozen=True, slots=True)
class CheckedRun:
    """A run that has passed all checks that do not need Spark. Nothing is written yet.

    Attributes:
        options: the options of the run.
        flow: the lowered plan.
        sources: the sources of the tables.
        events: the sources with a watermark, and the TTL of idle groups.
        store: the checkpoint.
        document: the plan document.
        source_locations: locations of the tables.
        evolves: whether the checkpoint has to evolve to this plan first.
        outputs: the outputs of each view.
        changed: the static tables whose new rows have to be taken in first.
        refresh: chooses which operators a batch computes again; None: no batch does.
    """

    options: RunOptions
    flow: Flow
    sources: Mapping[Table, Source]
    events: EventOptions
    store: Checkpoint
    document: PlanDocument
    source_locations: tuple[InputPlace, ...]
    evolves: bool
    outputs: tuple[ViewOutputs, ...]
    changed: frozenset[str] = frozenset()
    refresh: RefreshChooser | None = None


class Run:
    """The handle of a started run.

    Its first version is committed before the constructor returns. It contains what the plan shows
    over no input, rows written in the plan, and static inputs. The following versions are computed
    in the background.
    """

    def __init__(
        self,
        executor: SparkExecutor,
        checked: CheckedRun,
        partitions: int,
        inputs: Inputs,
        work: QueryCheckpoint,
        output_workers: OutputWorkers,
        observers: Observers,
        settings: SqlSettings,
        closing: ExitStack,
        timer: StartTimer,
    ) -> None:
        self._executor, self._spark = executor, executor.session
        self._checked, self._options = checked, checked.options
        self._inputs, self._logs, self._output_workers = inputs, work, output_workers
        self._observers, self._settings = observers, settings
        self._closing, self._timer = closing, timer
        self._endless = self._options.until != "done"
        self._conf = {**SESSION_CONF, PARTITIONS: str(partitions), ARROW_ROWS: str(HANDED_OVER)}
        self._error: Exception | None = None
        self._finished = False
        self._stopped = False
        self._first = True
        self._started = self._prepared = False
        self._query: StreamingQuery | None = None
        target = self._options.target_seconds
        bounded = [has_own_limit(source) for source in inputs.streams]
        output_workers.begin(self._unread)
        report = None if self._options.progress is None else self._report_join
        self._joins = JoinWatch(self._options.most_join_rows, report)
        # A batch continues in its own thread for a moment after its query stops.
        self._working = threading.RLock()
        self._batches: MicroBatches[DataFrame] = MicroBatches(
            checked.flow, checked.store, executor, partitions, self._committed, self._options.emit_policy,
            checked.events, retention=self._options.retention, refresh=checked.refresh, joins=self._joins,
        )  # fmt: skip
        stored = self._batches.admission
        self._admission = (
            None if target is None else AdmissionControl(self._spark, target, bounded, stored)
        )
        self._folders = stream_folders(checked.sources.values())
        self._batches.inputs = checked.source_locations
        observers.begin(lambda: self.progress, self._is_busy)
        self._batch_timer = Timer(self._emit_due, self._batches.clock)
        self._planned_batches = PlannedBatches(self._compute_planned)
        self._query_id = ""
        self._stand_in: Any = SettingsOnly(self._spark)
        self._input_rows: Sequence[int] = ()
        self._begin()

    def _begin(self) -> None:
        """Commit the first version if there is none, then start the query and the timer.

        If static tables have changed, a version takes in the difference.
        """
        last = self._batches.last
        if last is None:
            self._run_first()
        elif self._checked.changed:
            checked = self._checked
            stored = stored_inputs(checked.flow, last, str(checked.store.folder), checked.changed)
            rows = difference(self._inputs, self._spark, stored)
            self._batches.run(rows, last.query, last.batch)
        else:
            self._output_workers.wake(self.progress)
        # Groups that an earlier run left pending may be overdue. A batch that it planned comes
        # first.
        due = self._batches.due() if self._endless and not self._is_planned() else None
        if self._inputs.stream is not None:
            self._query = self._start(self._options.trigger)
        self._batch_timer.set(due)

    def _run_first(self) -> None:
        """Commit the first version, with the rows of static tables."""
        try:
            self._batches.run(self._inputs.first, None, FIRST_BATCH)
        except (RunFailed, *SPARK_ERRORS) as error:
            failed = self._explained(self._spark, error)
            if failed is error:
                raise
            raise failed from error

    def _is_planned(self) -> bool:
        """Return whether Spark has planned a batch that is not committed."""
        last = self._batches.last
        following = last.batch + 1 if last is not None and last.query is not None else 0
        return planned_at(self._logs.folder, following) is not None

    @property
    def progress(self) -> Progress:
        """Return the current progress of the run."""
        return self._with_outputs(self._batches.progress)

    @property
    def busy_outputs(self) -> tuple[str, ...]:
        """Return the outputs that `stop` did not wait for because they took too long.

        They are still writing.
        """
        return self._output_workers.busy

    @property
    def query(self) -> StreamingQuery | None:
        """Return Spark's streaming query; None if nothing streams."""
        return self._query

    def _start(self, until: str) -> StreamingQuery:
        if self._inputs.stream is None:
            raise TypeError("nothing streams")
        self._logs.prepare(self._batches.last)
        self._query_id = query_id(self._logs.folder) or ""
        writer = self._inputs.stream.writeStream.option(
            "checkpointLocation", self._logs.uri
        ).foreachBatch(self._batch)
        trigger = {"processingTime": until} if self._endless else {"availableNow": True}
        self._started = True
        if self._inputs.has_readers and self._admission is None:
            self._planned_batches.begin(self._logs.folder / "offsets")
        try:
            return writer.trigger(**trigger).start()
        except BaseException:
            self._planned_batches.end()
            raise

    def _batch(self, frame: DataFrame, batch: int) -> None:
        # While the batch is computed, there is time for these calls of the JVM.
        scans = self._input_scans() if self._planned_batches.is_busy else []
        self._planned_batches.wait(batch)
        with self._working:
            self._check_running()
            try:
                if self._planned_batches.has_computed(batch):
                    if self._input_rows:
                        add_input_rows(scans or self._input_scans(), self._input_rows)
                else:
                    self._work(frame, batch)
            except Exception as error:
                if self._stopped:
                    raise  # `stop` discards the batch in progress, and interrupts it
                self._error = self._explained(frame.sparkSession, error)
                if self._error is error:
                    raise
                raise self._error from error

    def _check_running(self) -> None:
        if self._finished or self._error is not None:
            # Returning would tell Spark that the batch is done.
            raise RunFailed("RUN_STOPPED", "the run was stopped")

    def _compute_planned(self, batch: int) -> None:
        """Compute a batch while Spark plans it.

        Raises:
            NeedsSpark: the batch needs what Spark plans.
        """
        with self._working:
            self._check_running()
            if self._stopped:
                raise NeedsSpark
            self._input_rows = ()
            if self._batches.seen(self._query_id, batch):
                return
            try:
                self._compute(self._stand_in, batch)
            except NeedsSpark:
                self._batches.discard()
                raise

    def _explained(self, spark: SparkSession, error: Exception) -> Exception:
        """Add the unreadable row, or the place in the plan, to the error of a batch."""
        failed = batch_failed(error) if isinstance(error, SPARK_ERRORS) else error
        if not isinstance(failed, RunFailed):
            return error
        placed = self._with_place(failed)
        return explained(spark, placed, self._checked.sources, table_origins(self._checked.flow))

    def _with_place(self, error: RunFailed) -> RunFailed:
        executor = self._executor
        return with_place(self._checked.flow, executor.running, error, executor.failed)

    def _work(self, frame: DataFrame, batch: int) -> None:
        if self._batches.seen(self._query_id, batch):
            return
        if not self._prepared:  # a stream has its own session for all batches
            prepare(frame.sparkSession, self._conf)
            self._prepared = True
        self._compute(frame, batch)
        if self._input_rows:
            add_input_rows(self._input_scans(), self._input_rows)

    def _input_scans(self) -> list[Any]:
        return input_scans(self._spark, self._query_id)

    def _compute(self, frame: DataFrame, batch: int) -> None:
        """Compute a batch and commit it.

        Args:
            frame: the batch of the stream; `SettingsOnly` while Spark plans it.
            batch: id of the batch.
        """
        first = self._first
        self._timer.end("query")
        planned = planned_batch(self._logs.folder, batch)
        check_planned_files(self._spark, planned.sources, partial(self._listed_files, frame))
        since = self._batches.clock()
        self._batches.logs = self._logs.record_logs(batch)
        instant = since if planned.instant is None else planned.instant
        sources = planned.sources
        check_folders(sources, self._folders)
        self._input_rows = ()
        count = partial(setattr, self, "_input_rows")
        state = self._batches.event_state
        began = time.monotonic()
        if self._admission is not None:
            self._admission.begin()
            self._batches.admission = self._admission.record
        with self._inputs.batch(frame, state, instant, sources, count) as inputs:
            self._executor.session = frame.sparkSession
            whole = self._whole_input(batch, sources)
            self._batches.run(
                inputs.frames, self._query_id, batch, inputs.times, inputs.tables, whole
            )
        if self._admission is not None:
            # A restarted run computes a batch that was planned long ago.
            waited = 0.0 if first else max(since - instant, 0) / 1e6
            files = [len(source.files or ()) for source in sources]
            self._admission.end(self._query_id, time.monotonic() - began + waited, files)
        if self._endless and first:
            self._batch_timer.set(self._batches.due())
        elif self._endless:
            self._batch_timer.set(
                self._options.emit_policy.due(since, since) if self._batches.waits else None
            )
            self._batch_timer.set(self._batches.event_state.due(since))
        self._first = False

    def _listed_files(self, frame: DataFrame) -> Collection[str]:
        """Return the files that Spark has listed for a batch.

        Raises:
            NeedsSpark: Spark still plans it.
        """
        if isinstance(frame, SettingsOnly):
            raise NeedsSpark
        return listed_files(self._spark, self._query_id)

    def _whole_input(
        self, batch: int, planned: Sequence[PlannedSource]
    ) -> WholeInput[DataFrame] | None:
        """Return all rows up to and including a batch; None if no policy may need them."""
        if self._checked.refresh is None:
            return None
        logged = logged_files(self._logs.folder, batch) or ()
        of_batch = frozenset(uri for source in planned for uri in source.files or ())
        size, lost = input_size(of_batch, chain(*logged)) if any(logged) else (None, None)

        def read(operators: Collection[int]) -> RowsByOperator[DataFrame]:
            if isinstance(self._executor.session, SettingsOnly):
                raise NeedsSpark
            # The rows written in the plan are of this session.
            self._prepare()
            return self._inputs.rows_of_files(sources_of(logged), operators)

        return WholeInput(size, lost, read)

    def _prepare(self) -> None:
        """Prepare the session of the run for jobs outside a micro-batch."""
        prepare(self._spark, self._conf)
        self._executor.session = self._spark

    def _emit_due(self) -> None:
        """Emit the groups that become due while no rows come."""
        with self._working:
            if self._stopped or self._finished or self._error is not None:
                return
            try:
                self._prepare()
                self._batches.advance()
                self._batches.emit_waiting(all=False)
                self._batch_timer.set(self._batches.due())
            except Exception as error:  # noqa: BLE001 - it is raised by `wait`
                self._error = error
        # Stopping waits for the batch in flight, and that batch waits for the lock.
        if self._error is not None:
            self._halt()

    def _emit_rest(self) -> None:
        """Emit all pending groups at the end of the input."""
        with self._working:
            if not self._stopped:
                self._prepare()
                self._batches.end()
                self._output_workers.wake(self.progress)

    def _with_outputs(self, progress: Progress) -> Progress:
        return replace(
            progress,
            sinks=self._output_workers.progress(progress.version),
            start_phases=self._timer.phases,
            target_seconds=None if self._admission is None else self._admission.target,
            limit_bytes=None if self._admission is None else self._admission.limit,
            join=self._joins.progress,
        )

    def _report_join(self) -> None:
        if self._options.progress is not None:
            self._options.progress(self.progress)

    def _committed(self, progress: Progress) -> None:
        if self._started or self._inputs.stream is None:
            self._timer.end("batch")
        reported = self._with_outputs(progress)
        if self._options.progress is not None:
            self._options.progress(reported)
        self._output_workers.wake(reported)
        self._observers.committed(reported)

    def wait(self) -> None:
        """Wait until the run ends, and deliver the view.

        Raises:
            RunFailed, CommitConflict, StateRefused: the reason why the run ended early; committed
                versions stay.
            KeyboardInterrupt: on SIGINT; the run continues until `stop`.
        """
        failure: list[BaseException] = []
        # A signal during a call makes the main thread's connection to the JVM unusable, so another
        # thread waits.
        waiting = threading.Thread(target=self._await, args=(failure,), daemon=True)
        waiting.start()
        waiting.join()
        if failure:
            self._end(failure[0])
            self._fail(failure[0])
        if self._stopped:
            self._finish(STOP_SECONDS)
            return
        self._finish(None)
        self._check_delivered()

    def _end(self, error: BaseException) -> None:
        """End the run after an error.

        Outputs still get the committed versions that they have not received.
        """
        self._stopped = True
        self._batch_timer.stop()
        with self._working:
            self._finished = True
        self._let_go(with_view=False, patience=STOP_SECONDS, error=error)

    def _check_delivered(self) -> None:
        """Raise the error of the first failed output, with those of the others as notes."""
        if self._output_workers.broken is not None:
            raise self._output_workers.broken
        first, *others = self._output_workers.undelivered() or (None,)
        if first is None:
            return
        for other in others:
            first.add_note(str(other))
        raise first

    def _unread(self, error: BaseException) -> None:
        """End the run because the reader of an output is gone."""
        self._error = self._error or _as_exception(error)
        # There is no query to stop once the run has finished.
        if not self._finished:
            self._halt()

    def _is_busy(self) -> bool:
        """Return whether a batch is in progress."""
        free = self._working.acquire(blocking=False)
        if free:
            self._working.release()
        return not free

    def _fail(self, failure: BaseException) -> NoReturn:
        # The error of the batch is more precise than the one that Spark derives from it.
        error = self._error or failure
        conflict = self._batches.conflict(error)
        if conflict is not None:
            # Both runs share Spark's logs, so the other run caused the error.
            raise conflict from failure
        if isinstance(error, SPARK_ERRORS):
            raise self._with_place(batch_failed(error)) from safe_cause(failure)
        raise error from safe_cause(failure)

    def _await(self, failure: list[BaseException]) -> None:
        try:
            if self._query is not None:
                self._query.awaitTermination()
            if self._error is not None:
                failure.append(self._error)
                return
            if not self._stopped:
                self._check_owner()
            if not self._endless:
                self._emit_rest()
        except BaseException as error:  # noqa: BLE001 - it is raised again by the thread that waits
            if self._error is not None or not self._stopped:
                failure.append(error)

    def _check_owner(self) -> None:
        """Raise if a run that took over has stopped the query, which Spark does within a session."""
        conflict = self._batches.conflict(RunFailed("RUN_STOPPED", "the query was stopped"))
        if conflict is not None:
            raise conflict

    def stop(self) -> None:
        """Stop the run and discard the batch in progress; the next run computes it again.

        Outputs have ten seconds to take committed versions. The next run delivers the rest.
        """
        self._stopped = True
        self._batch_timer.stop()
        self._halt()
        self._finish(STOP_SECONDS)
        for error in self._output_workers.undelivered():
            notice(error.code, error.message, help=error.help)

    def _halt(self) -> None:
        if self._query is not None:
            # A Spark that is gone has stopped the query too.
            with suppress(*GONE_ERRORS):
                self._query.stop()

    def _finish(self, patience: float | None) -> None:
        self._batch_timer.stop()
        with self._working:
            self._finished = True
        self._let_go(with_view=True, patience=patience)

    def _let_go(
        self, *, with_view: bool, patience: float | None, error: BaseException | None = None
    ) -> None:
        self._planned_batches.end()
        self._output_workers.end(with_view=with_view, patience=patience)
        self._closing.close()
        self._settings.restore()
        failed = (
            error
            or self._output_workers.broken
            or next(iter(self._output_workers.undelivered()), None)
        )
        self._observers.end(failed)


def _as_exception(error: BaseException) -> Exception:
    return error if isinstance(error, Exception) else RuntimeError(repr(error))
