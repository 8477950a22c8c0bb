"""The handle of a started run."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from typing import NoReturn

from pyspark.sql import DataFrame

from substrait_agg.changes.delivery.output_worker import STOP_SECONDS, OutputWorkers
from substrait_agg.changes.outputs.view_outputs import ViewOutputs
from substrait_agg.commit.documents.plan_document import PlanDocument
from substrait_agg.commit.documents.positions import Positions, ReadFile
from substrait_agg.commit.documents.snapshot import InputPlace
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.read_files import read_files
from substrait_agg.errors import CommitConflict, RunFailed, StateRefused
from substrait_agg.explanation.failures import with_place
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.metrics import Progress
from substrait_agg.metrics.observers import Observers
from substrait_agg.metrics.startup import StartTimer
from substrait_agg.notices import notice
from substrait_agg.recompute.whole_input import (
    RowsByOperator,
    WholeInput,
    input_size,
)
from substrait_agg.redaction import safe_cause
from substrait_agg.refresh.chooser import RefreshChooser
from substrait_agg.run_options import RunOptions
from substrait_agg.runtime.batch.microbatch import MicroBatches
from substrait_agg.runtime.batch.settings import BatchSettings
from substrait_agg.runtime.event_state import EventOptions
from substrait_agg.runtime.join_watch import JoinWatch
from substrait_agg.spark.admission.read_limits import AdmissionControl
from substrait_agg.spark.execution.task_runner import ARROW_ROWS, HANDED_OVER
from substrait_agg.spark.inputs.inputs import Inputs, Source, table_origins
from substrait_agg.spark.positions.file_source import missing_file
from substrait_agg.spark.positions.sources import BatchRead, Sources
from substrait_agg.spark.query.loop import Loop
from substrait_agg.spark.query.spark_executor import SparkExecutor
from substrait_agg.spark.query.static_tables import difference, stored_inputs
from substrait_agg.spark.query.unreadable_rows import explain
from substrait_agg.spark.refresh.files_so_far import with_sizes
from substrait_agg.spark.session.errors import SPARK_ERRORS, batch_failed
from substrait_agg.spark.session.session import SqlSettings
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
        output_workers: OutputWorkers,
        observers: Observers,
        settings: SqlSettings,
        closing: ExitStack,
        timer: StartTimer,
    ) -> None:
        self._executor, self._spark = executor, executor.session
        self._checked, self._options = checked, checked.options
        self._inputs, self._output_workers = inputs, output_workers
        self._observers, self._settings = observers, settings
        self._closing, self._timer = closing, timer
        self._error: Exception | None = None
        output_workers.begin(self._unread)
        report = None if self._options.progress is None else self._report_join
        self._joins = JoinWatch(self._options.most_join_rows, report)
        self._working = threading.Lock()
        batch_settings: BatchSettings[DataFrame] = BatchSettings(
            checked.flow, checked.store, executor, partitions, self._options.emit_policy, checked.events,
            retention=self._options.retention, refresh=checked.refresh, joins=self._joins,
            checksum=self._options.checksum,
        )  # fmt: skip
        self._batches = MicroBatches(batch_settings, self._note_commit)
        self._batches.inputs = checked.source_locations
        try:
            self._sources = Sources(
                self._spark, inputs, checked.sources, self._batches.positions, checked.store.state, checked.store.identity, closing
            )  # fmt: skip
        except StateRefused as error:
            # Another run may have deleted lists of files.
            self._fail(error)
        self._admission = AdmissionControl(
            self._options.target_seconds, self._sources.bounds, self._batches.admission
        )
        observers.begin(lambda: self.progress, self._working.locked)
        self._loop = Loop(
            self._spark, self._sources, self._admission, self._options.interval_seconds, self._compute,
            self._emit_due, self._emit_rest, self._batches.clock, self._check_owner,
        )  # fmt: skip
        self._begin()

    def _begin(self) -> None:
        """Commit the first version if there is none, then start the loop.

        If static tables have changed, a version takes in the difference.
        """
        self._settings.put(ARROW_ROWS, str(HANDED_OVER))
        last = self._batches.last
        if last is None:
            self._run_first()
        elif self._checked.changed:
            checked = self._checked
            stored = stored_inputs(checked.flow, last, str(checked.store.folder), checked.changed)
            rows = difference(self._inputs, self._spark, stored)
            self._batches.run(rows)
        else:
            self._output_workers.wake(self.progress)
        # Groups that an earlier run left pending may be overdue.
        self._loop.begin(self._batches.due() if self._is_endless else None)

    def _run_first(self) -> None:
        """Commit the first version, with the rows of static tables."""
        try:
            self._batches.run(self._inputs.first)
        except (RunFailed, *SPARK_ERRORS) as error:
            failed = self._explain(error)
            if failed is error:
                raise
            raise failed from error

    @property
    def _is_endless(self) -> bool:
        return self._options.interval_seconds is not None

    @property
    def progress(self) -> Progress:
        """Return the current progress of the run."""
        return self._with_outputs(self._batches.progress)

    @property
    def page(self) -> str | None:
        """Return the address of the web page; None without one, and after the end of the run."""
        page = self._observers.page
        return None if page is None else page.address

    @property
    def busy_outputs(self) -> tuple[str, ...]:
        """Return the outputs that `stop` did not wait for because they took too long.

        They are still writing.
        """
        return self._output_workers.busy

    def _explain(self, error: Exception) -> Exception:
        """Add the unreadable row, or the place in the plan, to the error of a batch."""
        failed = batch_failed(error) if isinstance(error, SPARK_ERRORS) else error
        if not isinstance(failed, RunFailed):
            return error
        executor, flow = self._executor, self._checked.flow
        placed = with_place(flow, executor.running, failed, executor.failed)
        return explain(self._spark, placed, self._checked.sources, table_origins(flow))

    def _compute(self, read: BatchRead) -> None:
        """Compute a batch and commit it."""
        self._timer.end("query")
        try:
            with self._working:
                self._run_batch(read)
        except (CommitConflict, StateRefused):
            raise
        except Exception as error:
            failed = missing_file(self._spark, read.files) or self._explain(error)
            if failed is error:
                raise
            raise failed from error

    def _run_batch(self, read: BatchRead) -> None:
        batches, state = self._batches, self._batches.event_state
        instant, before = batches.clock(), batches.positions
        batches.admission = self._admission.record
        with self._inputs.batch(
            read.files, read.frames, read.connected.rows, state, instant, batches.next_version
        ) as inputs:
            positions = self._sources.positions(before, read, batches.next_version)
            whole = self._whole_input(before, read)
            batches.run(inputs.frames, inputs.times, inputs.tables, whole, positions)
        self._sources.commit(read)
        if self._is_endless:
            policy = self._options.emit_policy
            self._loop.emit_at(policy.due(instant, instant) if batches.waits else None)
            self._loop.emit_at(batches.event_state.due(instant))

    def _whole_input(self, before: Positions, read: BatchRead) -> WholeInput[DataFrame] | None:
        """Return all rows up to and including a batch; None if no policy may need them."""
        if self._checked.refresh is None:
            return None
        storage = self._checked.store.state
        files = {
            table: (
                *read_files(storage, before.of(table)),
                *(ReadFile(file.uri, file.modified) for file in read.files.get(table, ())),
            )
            for table in self._inputs.tables
        }
        of_batch = frozenset(file.uri for found in read.files.values() for file in found)
        size, lost = input_size(of_batch, chain(*files.values()))

        def rows(operators: Collection[int]) -> RowsByOperator[DataFrame]:
            """Read the files again, as the operators receive them."""
            sized = {table: with_sizes(each) for table, each in files.items()}
            return self._inputs.rows_of_files(sized, operators)

        return WholeInput(size, lost, rows)

    def _emit_due(self) -> int | None:
        """Emit the groups that become due while no rows come; return the next instant."""
        with self._working:
            self._batches.advance()
            self._batches.emit_waiting(all=False)
        return self._batches.due()

    def _with_outputs(self, progress: Progress) -> Progress:
        return replace(
            progress,
            sinks=self._output_workers.progress(progress.version),
            start_phases=self._timer.phases,
            target_seconds=self._admission.target,
            limit_bytes=self._admission.limit,
            join=self._joins.progress,
        )

    def _report_join(self) -> None:
        if self._options.progress is not None:
            self._options.progress(self.progress)

    def _note_commit(self, progress: Progress) -> None:
        if self._working.locked() or not self._sources:
            # The first version has no rows of sources that stream.
            self._timer.end("batch")
        self._batches.progress = progress = replace(progress, sources=self._sources.lag)
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
        self._loop.wait()
        error = self._error or self._loop.error
        if error is not None:
            self._let_go(with_view=False, patience=STOP_SECONDS, error=error)
            self._fail(error)
        self._let_go(with_view=True, patience=STOP_SECONDS if self._loop.is_stopped else None)
        if not self._loop.is_stopped:
            self._check_delivered()

    def _emit_rest(self) -> None:
        """Emit all pending groups at the end of the input."""
        with self._working:
            self._batches.end()
        self._output_workers.wake(self.progress)

    def _check_delivered(self) -> None:
        """Raise the error of the first failed output, with those of the others as notes."""
        if self._output_workers.broken is not None:
            raise self._output_workers.broken
        first, *others = self._output_workers.list_undelivered() or (None,)
        if first is None:
            return
        for other in others:
            first.add_note(str(other))
        raise first

    def _unread(self, error: BaseException) -> None:
        """End the run because the reader of an output is gone."""
        self._error = self._error or _as_exception(error)
        self._loop.stop()

    def _fail(self, error: Exception) -> NoReturn:
        conflict = self._batches.conflict(error)
        if conflict is not None:
            raise conflict from error
        if isinstance(error, SPARK_ERRORS):
            raise self._explain(error) from safe_cause(error)
        raise error from safe_cause(error)

    def _check_owner(self) -> None:
        """Raise if another run has taken over the checkpoint."""
        conflict = self._batches.conflict(RunFailed("RUN_STOPPED", "the run was stopped"))
        if conflict is not None:
            raise conflict

    def stop(self) -> None:
        """Stop the run and discard the batch in progress; the next run computes it again.

        Outputs have ten seconds to take committed versions. The next run delivers the rest.
        """
        self._loop.stop()
        self._let_go(with_view=True, patience=STOP_SECONDS)
        for error in self._output_workers.list_undelivered():
            notice(error.code, error.message, help=error.help)

    def _let_go(
        self, *, with_view: bool, patience: float | None, error: BaseException | None = None
    ) -> None:
        self._output_workers.end(with_view=with_view, patience=patience)
        self._closing.close()
        self._settings.restore()
        failed = (
            error
            or self._output_workers.broken
            or next(iter(self._output_workers.list_undelivered()), None)
        )
        self._observers.end(failed)


def _as_exception(error: BaseException) -> Exception:
    return error if isinstance(error, Exception) else RuntimeError(repr(error))
