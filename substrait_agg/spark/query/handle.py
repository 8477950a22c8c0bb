"""A run that has been started: the handle that its caller holds, and the streaming query that feeds batches to the operators."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import NoReturn

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from substrait_agg.changes.delivery.output_worker import STOP_SECONDS, OutputWorkers
from substrait_agg.commit.documents.snapshot import InputPlace
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.retention import Retention
from substrait_agg.errors import RunFailed
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.metrics import Progress
from substrait_agg.metrics.observers import Observers
from substrait_agg.metrics.startup import StartTimer
from substrait_agg.notices import notice
from substrait_agg.operator.common.policy import EmitPolicy
from substrait_agg.redaction import safe_cause
from substrait_agg.spark.execution.task_runner import ARROW_ROWS, HANDED_OVER
from substrait_agg.spark.inputs.event_state import EventOptions
from substrait_agg.spark.inputs.inputs import Source, table_origins
from substrait_agg.spark.inputs.stream import Feed
from substrait_agg.spark.offsets.planned_files import check_planned_files, planned_at
from substrait_agg.spark.offsets.query_checkpoint import QueryCheckpoint
from substrait_agg.spark.query.microbatch import FIRST_BATCH, Batches
from substrait_agg.spark.query.timer import Timer
from substrait_agg.spark.query.unreadable_rows import explained
from substrait_agg.spark.session.errors import (
    GONE_ERRORS,
    SPARK_ERRORS,
    batch_failed,
)
from substrait_agg.spark.session.session import SESSION_CONF, prepare
from substrait_agg.spark.session.sql_settings import PARTITIONS, SqlSettings
from substrait_agg.spark.sources.specs import Table


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Options of a run.

    Attributes:
        partitions: of the state.
        until: ``done`` or an interval.
        emit: when values are emitted.
        events: the sources with a watermark, and for how long groups are remembered.
        progress: who is told of it.
        observers: the metrics file and the listener.
        retention: which versions keep their state.
        work: where Spark keeps its logs.
        closing: lets go of the checkpoint.
        places: where the tables are read from.
        timer: measures the start.
        sources: what they are read from.
    """

    partitions: int
    until: str
    emit: EmitPolicy
    events: EventOptions
    progress: Callable[[Progress], None] | None
    observers: Observers
    retention: Retention
    work: QueryCheckpoint
    closing: ExitStack
    places: tuple[InputPlace, ...] = ()
    timer: StartTimer = field(default_factory=StartTimer)
    sources: Mapping[Table, Source] = field(default_factory=dict)


class Run:
    """A run that has been started.

    Its first version (what the plan shows over no input, rows written in the plan, static inputs) is committed
    when this is returned; the rest follows in the background.
    """

    def __init__(
        self,
        spark: SparkSession,
        flow: Flow,
        feed: Feed,
        store: Checkpoint,
        couriers: OutputWorkers,
        options: RunSettings,
        settings: SqlSettings,
    ) -> None:
        self._spark = spark
        self._store = store
        self._feed = feed
        self._endless = options.until != "done"
        self._emit = options.emit
        self._progress = options.progress
        self._observers = options.observers
        self._settings = settings
        self._conf = {
            **SESSION_CONF,
            PARTITIONS: str(options.partitions),
            ARROW_ROWS: str(HANDED_OVER),
        }
        self._error: Exception | None = None
        self._finished = False
        self._stopped = False
        self._first = True
        self._timer = options.timer
        self._query: StreamingQuery | None = None
        self._couriers = couriers
        couriers.begin(self._unread)
        # A batch goes on in a thread of its own for a moment after its query was stopped.
        self._working = threading.RLock()
        self._logs, self._closing = options.work, options.closing
        self._batches = Batches(
            flow, store, options.partitions, self._committed, options.emit, options.events,
            retention=options.retention,
        )  # fmt: skip
        self._batches.inputs = options.places
        self._sources, self._origins = options.sources, table_origins(flow)
        self._observers.begin(lambda: self.progress, self._is_busy)
        if self._batches.last is None:
            self._batches.run(spark, feed.first, None, FIRST_BATCH)
        else:
            self._couriers.wake(self.progress)
        self._alarm = Timer(self._emit_due, self._batches.clock)
        # What an earlier run left waiting may be due long since; a batch that it had planned comes before that.
        due = self._batches.due() if self._endless and not self._is_planned() else None
        if feed.stream is not None:
            self._query = self._start(options.until)
        self._alarm.set(due)

    def _is_planned(self) -> bool:
        """Whether Spark has planned a batch that is not committed."""
        last = self._batches.last
        following = last.batch + 1 if last is not None and last.query is not None else 0
        return planned_at(self._logs.folder, following) is not None

    @property
    def progress(self) -> Progress:
        """How far the run is."""
        return self._with_outputs(self._batches.progress)

    @property
    def busy_outputs(self) -> tuple[str, ...]:
        """After `stop`: the outputs that took too long to be waited for, and are still being written."""
        return self._couriers.busy

    @property
    def query(self) -> StreamingQuery | None:
        """Spark's streaming query, None where nothing streams."""
        return self._query

    def _start(self, until: str) -> StreamingQuery:
        if self._feed.stream is None:
            raise TypeError("nothing streams")
        self._logs.prepare(self._batches.last)
        writer = self._feed.stream.writeStream.option(
            "checkpointLocation", self._logs.told
        ).foreachBatch(self._batch)
        trigger = {"processingTime": until} if self._endless else {"availableNow": True}
        return writer.trigger(**trigger).start()

    def _batch(self, frame: DataFrame, batch: int) -> None:
        with self._working:
            if self._finished or self._error is not None:
                # Returning would tell Spark that the batch is done.
                raise RunFailed("RUN_STOPPED", "the run was stopped")
            try:
                self._work(frame, batch)
            except Exception as error:
                self._error = self._explained(frame.sparkSession, error)
                if self._error is error:
                    raise
                raise self._error from error

    def _explained(self, spark: SparkSession, error: Exception) -> Exception:
        """The error of a batch, with the row that could not be read where that is why."""
        failed = batch_failed(error) if isinstance(error, SPARK_ERRORS) else error
        if not isinstance(failed, RunFailed):
            return error
        return explained(spark, failed, self._sources, self._origins)

    def _work(self, frame: DataFrame, batch: int) -> None:
        session = frame.sparkSession
        query = session.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
        if self._batches.seen(query, batch):
            return
        first, self._first = self._first, False
        self._timer.end("query")
        if first:  # all batches of a stream have one session, which is its own
            prepare(session, self._conf)
            check_planned_files(session, self._logs.folder, batch)
        since = self._batches.clock()
        self._batches.logs = self._logs.noted(batch)
        planned = planned_at(self._logs.folder, batch)
        instant = since if planned is None else planned
        with self._feed.batch(frame, self._batches.event_state, instant) as rows:
            self._batches.run(session, rows.frames, query, batch, rows.times)
        if self._endless and first:
            self._alarm.set(self._batches.due())
        elif self._endless:
            self._alarm.set(self._emit.due(since, since) if self._batches.waits else None)
            self._alarm.set(self._batches.event_state.due(since))

    def _emit_due(self) -> None:
        """Emit the groups whose time has come while no rows came."""
        with self._working:
            if self._stopped or self._finished or self._error is not None:
                return
            try:
                prepare(self._spark, self._conf)
                self._batches.advance(self._spark)
                self._batches.emit_waiting(self._spark, all=False)
                self._alarm.set(self._batches.due())
            except Exception as error:  # noqa: BLE001 - it is raised by `wait`
                self._error = error
        # Stopping waits for the batch in flight, and that for the lock.
        if self._error is not None:
            self._halt()

    def _emit_rest(self) -> None:
        """The input has come to its end, and so has all waiting."""
        with self._working:
            if not self._stopped:
                prepare(self._spark, self._conf)
                self._batches.end(self._spark)
                self._couriers.wake(self.progress)

    def _with_outputs(self, progress: Progress) -> Progress:
        return replace(
            progress,
            sinks=self._couriers.progress(progress.version),
            start_phases=self._timer.phases,
        )

    def _committed(self, progress: Progress) -> None:
        if not self._first or self._feed.stream is None:
            self._timer.end("batch")
        told = self._with_outputs(progress)
        if self._progress is not None:
            self._progress(told)
        self._couriers.wake(told)
        self._observers.committed(told)

    def wait(self) -> None:
        """Wait until the run ends, and deliver the view.

        Raises:
            RunFailed, CommitConflict, StateRefused: why it ended early; committed versions stay.
            KeyboardInterrupt: on SIGINT; the run goes on until `stop`.
        """
        failure: list[BaseException] = []
        # A signal in the middle of a call would leave the main thread's connection to the JVM unusable.
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
        """Leave everything as it is, but for committed versions that outputs have not had yet."""
        self._stopped = True
        self._alarm.stop()
        with self._working:
            self._finished = True
        self._let_go(with_view=False, patience=STOP_SECONDS, error=error)

    def _check_delivered(self) -> None:
        """Raise what an output failed with; the others are notes of it."""
        if self._couriers.broken is not None:
            raise self._couriers.broken
        first, *others = self._couriers.undelivered() or (None,)
        if first is None:
            return
        for other in others:
            first.add_note(str(other))
        raise first

    def _unread(self, error: BaseException) -> None:
        """Nobody reads an output any more: that is the end of the run."""
        self._error = self._error or _as_exception(error)
        # Nothing runs yet, or nothing any more.
        if not self._finished:
            self._halt()

    def _is_busy(self) -> bool:
        """Whether a batch is under way."""
        free = self._working.acquire(blocking=False)
        if free:
            self._working.release()
        return not free

    def _fail(self, failure: BaseException) -> NoReturn:
        # Spark tells of a failed batch in its own words; the batch itself knows better.
        error = self._error or failure
        conflict = self._batches.conflict(error)
        if conflict is not None:
            # Spark's logs are another run's as well: that is what it stumbled on.
            raise conflict from failure
        if isinstance(error, SPARK_ERRORS):
            raise batch_failed(error) from safe_cause(failure)
        raise error from safe_cause(failure)

    def _await(self, failure: list[BaseException]) -> None:
        try:
            if self._query is not None:
                self._query.awaitTermination()
            if self._error is not None:
                failure.append(self._error)
            elif not self._endless:
                self._emit_rest()
        except BaseException as error:  # noqa: BLE001 - it is raised again by the thread that waits
            failure.append(error)

    def stop(self) -> None:
        """Stop: a batch that is not committed yet is given up; running again continues with it.

        Outputs have ten seconds to take what is committed. What they have not taken by then is delivered by the next run.
        """
        self._stopped = True
        self._alarm.stop()
        self._halt()
        self._finish(STOP_SECONDS)
        for error in self._couriers.undelivered():
            notice(error.code, error.message, help=error.help)

    def _halt(self) -> None:
        if self._query is not None:
            # A Spark that is gone has stopped.
            with suppress(*GONE_ERRORS):
                self._query.stop()

    def _finish(self, patience: float | None) -> None:
        self._alarm.stop()
        with self._working:
            self._finished = True
        self._let_go(with_view=True, patience=patience)

    def _let_go(
        self, *, with_view: bool, patience: float | None, error: BaseException | None = None
    ) -> None:
        self._couriers.end(with_view=with_view, patience=patience)
        self._closing.close()
        self._settings.restore()
        failed = error or self._couriers.broken or next(iter(self._couriers.undelivered()), None)
        self._observers.end(failed)


def _as_exception(error: BaseException) -> Exception:
    return error if isinstance(error, Exception) else RuntimeError(repr(error))
