"""Run batches against a checkpoint: plan each one, run it, commit its version."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Generic

from substrait_agg.commit.documents.positions import Positions
from substrait_agg.commit.documents.snapshot import (
    AdmissionRecord,
    ChangeFile,
    InputPlace,
    RefreshRecord,
    SideFile,
    Snapshot,
    ViewVersion,
)
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.publishing import committed_by_another
from substrait_agg.commit.log.sweep import tidy
from substrait_agg.commit.view.version_checksums import with_checksums
from substrait_agg.errors import CommitConflict, RunFailed
from substrait_agg.flow.graph.nodes import Flow, FlowView, shown_operators
from substrait_agg.metrics import Progress
from substrait_agg.metrics.batch_stats import at_start, count_tasks
from substrait_agg.metrics.progress import END_OF_INPUT
from substrait_agg.operator.aggregate.pending import oldest
from substrait_agg.operator.common.emission import ALL, Emission
from substrait_agg.operator.common.names import PENDING
from substrait_agg.operator.common.policy import EVERY_BATCH
from substrait_agg.recompute.rebuild import Rebuild
from substrait_agg.recompute.whole_input import WholeInput
from substrait_agg.refresh.chooser import Choice
from substrait_agg.refresh.cost_model import BatchCost, CostHistory
from substrait_agg.runtime.batch.run import BatchPlan, BatchRun
from substrait_agg.runtime.batch.settings import BatchSettings
from substrait_agg.runtime.conflicts import alone, conflict_behind
from substrait_agg.runtime.event_state import AdvancedEventState, BatchTimes, EventState
from substrait_agg.runtime.executor import BranchInput, Rows
from substrait_agg.runtime.job import JobResult, changes_of, counters_of
from substrait_agg.runtime.left_out import LeftOut
from substrait_agg.state.tree import tree_of


class MicroBatches(Generic[Rows]):
    """Runs batches against a checkpoint, one at a time.

    Args:
        settings: what all batches have in common.
        committed: called with the progress after every commit.

    Attributes:
        clock: returns the current instant, in microseconds since 1970.
        inputs: locations of the tables.
        admission: the limit of the batch; set before every batch that has one.
        progress: the progress of the newest version.
    """

    def __init__(
        self, settings: BatchSettings[Rows], committed: Callable[[Progress], None]
    ) -> None:
        flow, checkpoint = settings.flow, settings.checkpoint
        self._settings, self._committed, self.clock = settings, committed, settings.clock
        self._shown = shown_operators(flow)
        self._last = last = _newest_of_plan(checkpoint, flow)
        self._whole, self._ended, self._cold = True, False, True
        self.inputs: tuple[InputPlace, ...] = () if last is None else last.inputs
        self.admission = AdmissionRecord() if last is None else last.admission
        self.progress = at_start(last, flow.fingerprint, str(checkpoint.folder))
        if last is not None:
            tidy(checkpoint, last, sweeps=True, whole=True, retention=settings.retention)

    @property
    def last(self) -> Snapshot | None:
        """Return the newest version."""
        return self._last

    @property
    def positions(self) -> Positions:
        """Return how far the newest version has read the sources."""
        return Positions() if self._last is None else self._last.positions

    @property
    def next_version(self) -> int:
        """Return the number of the next version."""
        return self._last.version + 1 if self._last is not None else 0

    def conflict(self, error: BaseException) -> CommitConflict | None:
        """Return the conflict that caused an error.

        None if no other run has committed, or if the error already says so.
        """
        return conflict_behind(self._settings.checkpoint, self.next_version, error)

    @property
    def waits(self) -> bool:
        """Return whether any group is pending."""
        return self._last is not None and any(o[PENDING] for o in self._last.operators)

    @property
    def event_state(self) -> EventState:
        """Return the state of event time at the newest version."""
        return EventState.at(self._settings.events, self._last)

    @alone
    def run(
        self,
        rows: Mapping[int, Rows],
        times: BatchTimes[Rows] | None = None,
        tables: Mapping[int, BranchInput[Rows]] = MappingProxyType({}),
        whole: WholeInput[Rows] | None = None,
        positions: Positions | None = None,
    ) -> None:
        """Compute a batch and commit it.

        Args:
            rows: prepared rows by operator id.
            times: the event times observed, available once the batch has been read; None for the
                first version.
            tables: rows of tables by operator id that the executor prepares.
            whole: all rows of the tables up to and including this batch; None if they are not
                known.
            positions: how far the sources have been read then; None if nothing of them was read.

        Raises:
            RunFailed: nothing was committed.
            CommitConflict: another run committed this version.
        """
        # The first version is complete before the stream begins, so all groups are emitted.
        now = self.clock()
        instant = self.event_state.instant(now if times is None else times.instant)
        emission = ALL if self._last is None else self._settings.policy.at(now)
        rules = self._rules(replace(emission, instant=instant))
        batch = BatchRun(self._settings, self._last, self._plan(rows, tables, whole))
        results = batch.run(rules)
        before = self.event_state
        after = before if times is None else before.after(times.observed(), instant)
        parts = [p for p in (*(times.late_rows if times else ()), *batch.left_out) if p.count()]
        bad = [b for b in times.bad if b.count()] if times else []
        results = self._settle(batch, results, before, after, now)
        self._commit(batch, results, self._with_side_files(after, parts, bad), positions)

    def _plan(
        self,
        rows: Mapping[int, Rows],
        tables: Mapping[int, BranchInput[Rows]],
        whole: WholeInput[Rows] | None,
    ) -> BatchPlan[Rows]:
        """Choose which operators a batch computes again, and return the rows of all operators."""
        settings, last = self._settings, self._last
        if settings.refresh is None or last is None or whole is None:
            return BatchPlan(rows, tables)
        history = CostHistory(last.refresh.costs)
        choice = settings.refresh.choose(history, whole.size, whole.lost)
        again = choice.operators
        if not again:
            return BatchPlan(rows, tables, choice)
        if whole.lost is not None:
            raise RunFailed(
                "REFRESH_INPUT_GONE",
                f"a file of the input {whole.lost.change}, so the view cannot be computed again from all rows",
                help="restore the file with its time of modification, or give --refresh incremental",
                path=whole.lost.uri,
            )
        whole_rows, whole_tables = whole.read(again)
        return BatchPlan(
            {**{o: part for o, part in rows.items() if o not in again}, **whole_rows},
            {**{o: part for o, part in tables.items() if o not in again}, **whole_tables},
            choice,
            Rebuild(
                settings.flow,
                settings.checkpoint,
                settings.executor,
                settings.partitions,
                last,
                again,
            ),
        )

    def _with_side_files(
        self, state: EventState, parts: Sequence[LeftOut[Rows]], bad: Sequence[LeftOut[Rows]]
    ) -> AdvancedEventState:
        """Return the event time after a batch, and the files of the rows that it left out."""
        files: tuple[SideFile, ...] = ()
        if self._settings.events.keep_late and parts:
            files = self._settings.executor.write_left_out(
                "late", parts, self._settings.checkpoint.changes, self.next_version
            )
        late = sum(part.count() for part in parts)
        bad_files = self._settings.executor.write_left_out(
            "bad", bad, self._settings.checkpoint.changes, self.next_version
        )
        # Count the rows in the files: a task that is computed twice counts its rows twice.
        return AdvancedEventState(
            state, late, files, sum(f.file.rows for f in bad_files), bad_files
        )

    @alone
    def advance(self) -> None:
        """Advance time without rows: sources become idle and groups are evicted.

        It commits a version only if something changes.

        Raises:
            RunFailed: nothing was committed.
            CommitConflict: another run committed this version.
        """
        last, before, now = self._last, self.event_state, self.clock()
        if last is None:
            return
        after = before.after((), now)
        # Record a clock that was set back, so that time continues from there.
        noted = bool(before.sources) and after.sources != before.sources
        if (after.watermark, after.idle) == (before.watermark, before.idle) and not noted:
            return
        batch = BatchRun(self._settings, last, BatchPlan())
        none = [JobResult((), state) for state in last.operators]
        results = self._settle(batch, none, before, after, now)
        changed = tuple(result.state for result in results) != last.operators
        # A bound that passes no group can be computed again at any time, so an idle run makes no
        # versions.
        if changed or noted or after.watermark != before.watermark:
            self._commit(batch, results, AdvancedEventState(after))

    def _settle(
        self,
        batch: BatchRun[Rows],
        results: list[JobResult],
        before: EventState,
        after: EventState,
        now: int,
    ) -> list[JobResult]:
        """Run the second pass without rows if an operator needs it; return the combined results."""
        whole, self._whole = self._whole and after.watermark is not None, False
        rules = [
            after.settle(
                before,
                node,
                self._settings.policy if node.id in self._shown else EVERY_BATCH,
                now,
                whole=whole,
            )
            for node in self._settings.flow.operators
        ]
        for view in self._settings.flow.views if not self._settings.policy.finishes else ():
            # The groups below are pending and retract these rows when they are emitted, so the
            # operator of the view keeps them.
            if view.operator not in self._shown:
                rules[view.operator] = replace(rules[view.operator], limits=())
        if not any(rule.needs_final_pass for rule in rules):
            return results
        passed = batch.run(rules, results)
        return [first.then(second) for first, second in zip(results, passed, strict=True)]

    def _rules(self, emission: Emission) -> list[Emission]:
        """Return the emission of each operator: operators below the shown ones emit all changes."""
        all_ = replace(ALL, now=emission.now, instant=emission.instant)
        return [
            emission if node.id in self._shown else all_ for node in self._settings.flow.operators
        ]

    @alone
    def emit_waiting(self, *, all: bool) -> None:
        """Emit pending groups without new rows: all of them, or those that are due.

        It commits a version only if there are any.

        Raises:
            RunFailed: nothing was committed.
            CommitConflict: another run committed this version.
        """
        last = self._last
        if last is None or not self.waits:
            return
        now = self.clock()
        emission = replace(ALL, now=now) if all else self._settings.policy.at(now)
        batch = BatchRun(self._settings, last, BatchPlan())
        results = batch.run(self._rules(emission))
        if any(task.counters.get("touched") for result in results for task in result.tasks):
            self._commit(batch, results, AdvancedEventState(self.event_state))

    def end(self) -> None:
        """Emit all pending groups at the end of the input, when no more rows are expected.

        The committed watermark does not move, so a later run does not treat new rows as late.

        Raises:
            RunFailed: nothing was committed.
            CommitConflict: another run committed this version.
        """
        self._ended = bool(self._settings.events.sources)
        self.emit_waiting(all=True)
        self.progress = self._at_end(self.progress)

    def _at_end(self, progress: Progress) -> Progress:
        return replace(progress, watermark=END_OF_INPUT) if self._ended else progress

    def due(self) -> int | None:
        """Return the instant at which groups become due or time has to advance; None without one.

        The instant is in microseconds since 1970.
        """
        moves = self.event_state.due(self.clock())
        emits = self._emission_due()
        return min((at for at in (moves, emits) if at is not None), default=None)

    def _emission_due(self) -> int | None:
        last = self._last
        if last is None or self._settings.policy.due(0, 0) is None:
            return None
        storage = self._settings.checkpoint.state
        instants = (
            oldest(tree_of(storage, state[PENDING])) for state in last.operators if state[PENDING]
        )
        since = min((instant for instant in instants if instant is not None), default=None)
        return None if since is None else self._settings.policy.due(since, self.clock())

    def _commit(
        self,
        batch: BatchRun[Rows],
        results: list[JobResult],
        moved: AdvancedEventState,
        positions: Positions | None = None,
    ) -> None:
        settings, last, tally = self._settings, self._last, batch.tally
        results, served = batch.consolidate_views(results)
        choice = batch.plan.choice
        refresh = _refresh_record(last, choice, tally.microseconds, cold=self._cold)
        self._cold = self._cold and not choice.measured
        reached = self.positions if positions is None else positions
        parts = VersionParts(moved, reached, self.inputs, self.admission, refresh)
        snapshot = _make_snapshot(settings.flow, last, results, parts)
        with tally.phase("commit"):
            if settings.checksum:
                snapshot = with_checksums(settings.checkpoint, snapshot, last)
            settings.checkpoint.publish(snapshot)
        self._last = snapshot
        with tally.phase("sweep"):
            self._tidy(served, snapshot)
        views = frozenset(view.operator for view in settings.flow.views)
        self.progress = self._at_end(tally.after(self.progress, snapshot, views))
        self._committed(self.progress)

    def _tidy(self, served: Sequence[ChangeFile], snapshot: Snapshot) -> None:
        # Other files that no retained version names are deleted by sweeps at intervals.
        names, retention = (change.name for change in served), self._settings.retention
        due = retention.due(snapshot.version)
        tidy(self._settings.checkpoint, snapshot, names, sweeps=due, retention=retention)


def _newest_of_plan(checkpoint: Checkpoint, flow: Flow) -> Snapshot | None:
    """Return the newest version, None without one."""
    last = checkpoint.newest_snapshot()
    if last is not None and last.plan != flow.fingerprint:
        raise committed_by_another(checkpoint.folder, last.version)
    return last


@dataclass(frozen=True, slots=True)
class VersionParts:
    """What a version has besides the results of its operators.

    Attributes:
        moved: the event time after the batch, and the rows that it left out.
        positions: how far the sources have been read.
        inputs: locations of the tables.
        admission: the limit of the batch.
        refresh: how the batch was computed.
    """

    moved: AdvancedEventState
    positions: Positions
    inputs: tuple[InputPlace, ...]
    admission: AdmissionRecord
    refresh: RefreshRecord


def _make_snapshot(
    flow: Flow, last: Snapshot | None, results: Sequence[JobResult], parts: VersionParts
) -> Snapshot:
    """Return the snapshot of the version after `last`."""
    changes = {view.name: _of_view(view, last, results) for view in flow.views}
    moved = parts.moved
    return Snapshot(
        version=0 if last is None else last.version + 1,
        plan=flow.fingerprint,
        operators=tuple(result.state for result in results),
        changes=changes.pop("", ViewVersion()).changes,
        views=changes,
        counters={
            **count_tasks(counters_of(results), last),
            "late": moved.late,
            "bad": moved.bad,
        },
        created=datetime.now(UTC).isoformat(timespec="milliseconds"),
        watermark=moved.state.watermark,
        sources=moved.state.sources,
        idle=moved.state.idle,
        late=moved.files,
        bad=moved.bad_files,
        inputs=parts.inputs,
        positions=parts.positions,
        begun=0 if last is None else last.begun,
        refresh=parts.refresh,
        admission=parts.admission,
    )


def _of_view(view: FlowView, last: Snapshot | None, results: Sequence[JobResult]) -> ViewVersion:
    """Return what the version that is being made has of a view."""
    begun = 0 if last is None else last.of_view(view.name).begun
    return ViewVersion(tuple(changes_of([results[view.operator]])), begun)


def _refresh_record(
    last: Snapshot | None, choice: Choice, microseconds: int, *, cold: bool
) -> RefreshRecord:
    """Return how a batch was computed, with its cost and those of past batches.

    Args:
        last: the version before.
        choice: which operators were computed again.
        microseconds: the time of the batch.
        cold: whether no batch of this process was measured before.
    """
    history = CostHistory(() if last is None else last.refresh.costs)
    for full, size in choice.measured:
        history = history.add(BatchCost(full, size, microseconds, cold=cold))
        cold = False
    estimate = choice.estimate
    return RefreshRecord(
        tuple(sorted(choice.operators)),
        choice.reason,
        history.costs,
        None if estimate is None else int(estimate.incremental),
        None if estimate is None else int(estimate.full),
    )
