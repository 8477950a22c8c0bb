"""Run a batch: all operators in order, then the commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Generic

from substrait_agg.commit.documents.positions import Positions
from substrait_agg.commit.documents.snapshot import (
    AdmissionRecord,
    ChangeFile,
    InputPlace,
    OperatorState,
    RefreshRecord,
    SideFile,
    Snapshot,
    ViewVersion,
)
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.publishing import committed_by_another
from substrait_agg.commit.log.retention import DEFAULT, Retention
from substrait_agg.commit.log.sweep import tidy
from substrait_agg.commit.tasks.consolidate import Consolidation
from substrait_agg.errors import CommitConflict, RunFailed
from substrait_agg.flow.graph.graph import OperatorOrigin
from substrait_agg.flow.graph.nodes import Flow, FlowView, Node, keyless_views, shown_operators
from substrait_agg.metrics import Progress
from substrait_agg.metrics.batch_stats import BatchStats, at_start, count_tasks
from substrait_agg.metrics.progress import END_OF_INPUT
from substrait_agg.operator.aggregate.pending import oldest
from substrait_agg.operator.common.emission import ALL, Emission
from substrait_agg.operator.common.names import PENDING
from substrait_agg.operator.common.policy import EVERY_BATCH, EmitPolicy
from substrait_agg.operator.registry import operator_of
from substrait_agg.refresh.chooser import Choice, RefreshChooser
from substrait_agg.refresh.cost_model import BatchCost, CostHistory
from substrait_agg.runtime.conflicts import alone, conflict_behind
from substrait_agg.runtime.event_state import (
    AdvancedEventState,
    BatchTimes,
    EventOptions,
    EventState,
)
from substrait_agg.runtime.executor import BranchInput, Executor, Rows
from substrait_agg.runtime.job import JobResult, OperatorJob, changes_of, counters_of
from substrait_agg.runtime.join_watch import JoinWatch
from substrait_agg.runtime.left_out import Lateness, LeftOut
from substrait_agg.runtime.rebuild import Rebuild
from substrait_agg.runtime.whole_input import RowsByOperator, WholeInput
from substrait_agg.state.tree import tree_of


class MicroBatches(Generic[Rows]):
    """Runs batches against a checkpoint, one at a time.

    Args:
        flow: the lowered plan.
        checkpoint: an existing checkpoint with a plan document.
        executor: computes the operators.
        partitions: number of state partitions, a power of two.
        committed: called with the progress after every commit.
        policy: when the groups that the view shows are emitted.
        events: the sources with a watermark, and the TTL of idle groups.
        clock: returns the current instant, in microseconds since 1970.
        retention: which versions keep their state.
        refresh: chooses which operators a batch computes again; None: no batch does.
        joins: watches the joins; None: nobody does.

    Attributes:
        inputs: locations of the tables.
        admission: the limit of the batch; set before every batch that has one.
    """

    def __init__(
        self,
        flow: Flow,
        checkpoint: Checkpoint,
        executor: Executor[Rows],
        partitions: int,
        committed: Callable[[Progress], None],
        policy: EmitPolicy = EVERY_BATCH,
        events: EventOptions = EventOptions(),  # noqa: B008 - frozen
        clock: Callable[[], int] = lambda: time.time_ns() // 1000,
        retention: Retention = DEFAULT,
        refresh: RefreshChooser | None = None,
        joins: JoinWatch | None = None,
    ) -> None:
        self._flow, self._checkpoint = flow, checkpoint
        self._executor, self._partitions = executor, partitions
        self._committed, self._joins = committed, joins or JoinWatch()
        self._policy, self._events, self._refresh = policy, events, refresh
        self._retention, self._choice = retention, Choice()
        self._rebuild: Rebuild[Rows] | None = None
        self.clock = clock
        self._shown = shown_operators(flow)
        self._view_operators = frozenset(view.operator for view in flow.views)
        self._consolidated_operators = keyless_views(flow)
        self._operators = [operator_of(node) for node in flow.operators]
        self._last = _newest_of_plan(checkpoint, flow)
        self._lateness: list[Lateness] = []
        self._parts: list[LeftOut[Rows]] = []
        self._whole, self._ended, self._warm = True, False, False
        self._tally = BatchStats()
        self.inputs: tuple[InputPlace, ...] = () if self._last is None else self._last.inputs
        self.admission = AdmissionRecord() if self._last is None else self._last.admission
        self.progress = at_start(self._last, flow.fingerprint, str(checkpoint.folder))
        if self._last is not None:
            tidy(checkpoint, self._last, sweeps=True, whole=True, retention=retention)

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
        return conflict_behind(self._checkpoint, self.next_version, error)

    @property
    def waits(self) -> bool:
        """Return whether any group is pending."""
        return self._last is not None and any(o[PENDING] for o in self._last.operators)

    @property
    def event_state(self) -> EventState:
        """Return the state of event time at the newest version."""
        return EventState.at(self._events, self._last)

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
        emission = ALL if self._last is None else self._policy.at(now)
        self._begin_version()
        rules = self._rules(replace(emission, instant=instant))
        rows, tables = self._chosen_inputs(rows, tables, whole)
        results = self._run_operators(rows, rules, tables=tables)
        before = self.event_state
        after = before if times is None else before.after(times.observed(), instant)
        parts = [p for p in (*(times.late_rows if times else ()), *self._parts) if p.count()]
        bad = [b for b in times.bad if b.count()] if times else []
        results = self._settle(results, before, after, now)
        self._commit(results, self._with_side_files(after, parts, bad), positions)

    def _begin_version(self) -> None:
        self._tally = BatchStats()
        self._choice, self._rebuild = Choice(), None

    def _chosen_inputs(
        self,
        rows: Mapping[int, Rows],
        tables: Mapping[int, BranchInput[Rows]],
        whole: WholeInput[Rows] | None,
    ) -> RowsByOperator[Rows]:
        """Choose which operators the batch computes again, and return the rows of all operators."""
        if self._refresh is None or self._last is None or whole is None:
            return rows, tables
        self._choice = self._refresh.choose(
            CostHistory(self._last.refresh.costs), whole.size, whole.lost
        )
        again = self._choice.operators
        if not again:
            return rows, tables
        if whole.lost is not None:
            raise RunFailed(
                "REFRESH_INPUT_GONE",
                f"a file of the input {whole.lost.change}, so the view cannot be computed again from all rows",
                help="restore the file with its time of modification, or give --refresh incremental",
                path=whole.lost.uri,
            )
        self._rebuild = Rebuild(
            self._flow, self._checkpoint, self._executor, self._partitions, self._last, again
        )
        whole_rows, whole_tables = whole.read(again)
        return (
            {**{o: part for o, part in rows.items() if o not in again}, **whole_rows},
            {**{o: part for o, part in tables.items() if o not in again}, **whole_tables},
        )

    def _with_side_files(
        self, state: EventState, parts: Sequence[LeftOut[Rows]], bad: Sequence[LeftOut[Rows]]
    ) -> AdvancedEventState:
        """Return the event time after a batch, and the files of the rows that it left out."""
        files: tuple[SideFile, ...] = ()
        if self._events.keep_late and parts:
            files = self._executor.write_left_out(
                "late", parts, self._checkpoint.changes, self.next_version
            )
        late = sum(part.count() for part in parts)
        bad_files = self._executor.write_left_out(
            "bad", bad, self._checkpoint.changes, self.next_version
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
        self._begin_version()
        none = [JobResult((), state) for state in last.operators]
        results = self._settle(none, before, after, now)
        changed = tuple(result.state for result in results) != last.operators
        # A bound that passes no group can be computed again at any time, so an idle run makes no
        # versions.
        if changed or noted or after.watermark != before.watermark:
            self._commit(results, AdvancedEventState(after))

    def _settle(
        self,
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
                self._policy if node.id in self._shown else EVERY_BATCH,
                now,
                whole=whole,
            )
            for node in self._flow.operators
        ]
        for view in self._flow.views if not self._policy.finishes else ():
            # The groups below are pending and retract these rows when they are emitted, so the
            # operator of the view keeps them.
            if view.operator not in self._shown:
                rules[view.operator] = replace(rules[view.operator], limits=())
        if not any(rule.needs_final_pass for rule in rules):
            return results
        passed = self._run_operators({}, rules, results)
        return [first.then(second) for first, second in zip(results, passed, strict=True)]

    def _rules(self, emission: Emission) -> list[Emission]:
        """Return the emission of each operator: operators below the shown ones emit all changes."""
        all_ = replace(ALL, now=emission.now, instant=emission.instant)
        return [emission if node.id in self._shown else all_ for node in self._flow.operators]

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
        emission = replace(ALL, now=now) if all else self._policy.at(now)
        self._begin_version()
        results = self._run_operators({}, self._rules(emission))
        if any(task.counters.get("touched") for result in results for task in result.tasks):
            self._commit(results, AdvancedEventState(self.event_state))

    def end(self) -> None:
        """Emit all pending groups at the end of the input, when no more rows are expected.

        The committed watermark does not move, so a later run does not treat new rows as late.

        Raises:
            RunFailed: nothing was committed.
            CommitConflict: another run committed this version.
        """
        self._ended = bool(self._events.sources)
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
        if last is None or self._policy.due(0, 0) is None:
            return None
        storage = self._checkpoint.state
        instants = (
            oldest(tree_of(storage, state[PENDING])) for state in last.operators if state[PENDING]
        )
        since = min((instant for instant in instants if instant is not None), default=None)
        return None if since is None else self._policy.due(since, self.clock())

    def _run_operators(
        self,
        rows: Mapping[int, Rows],
        rules: Sequence[Emission],
        passed: Sequence[JobResult] | None = None,
        tables: Mapping[int, BranchInput[Rows]] = MappingProxyType({}),
    ) -> list[JobResult]:
        """Run all operators.

        Args:
            rows: prepared rows by operator id.
            rules: the emission of each operator.
            passed: results of the first pass by operator; None in the first pass.
            tables: rows of tables by operator id that the executor prepares.
        """
        results: list[JobResult] = []
        self._lateness = self.event_state.lateness(self._flow)
        self._parts = []
        for node in self._flow.operators:
            job = self._job(node, rules[node.id], passed)
            table = [tables[node.id]] if node.id in tables else []
            with self._tally.job(node.id), self._joins.watch(job) as watched:
                result = self._run_operator(watched, rows, table, results)
                self._joins.check(watched, result)
            self._tally.ran(node.id, (task.counters for task in result.tasks))
            results.append(result)
        return results

    def _commit(
        self,
        results: list[JobResult],
        moved: AdvancedEventState,
        positions: Positions | None = None,
    ) -> None:
        results, served = self._consolidate_views(results)
        snapshot = self._snapshot(results, self.next_version, moved, positions or self.positions)
        with self._tally.phase("commit"):
            self._checkpoint.publish(snapshot)
        self._last = snapshot
        with self._tally.phase("sweep"):
            self._tidy(served, snapshot)
        self._note(snapshot)

    def _consolidate_views(
        self, results: list[JobResult]
    ) -> tuple[list[JobResult], list[ChangeFile]]:
        """Consolidate the changes of the views in which rows of different groups can be equal.

        Returns:
            The results of the operators, and the change files that are not read after the commit.
        """
        served = [] if self._rebuild is None else list(self._rebuild.served)
        done = list(results)
        for operator, result in enumerate(results):
            changes = changes_of([result])
            if not self._flow.shows(operator):
                served += changes
            elif operator in self._consolidated_operators:
                done[operator] = self._consolidate(operator, result, changes)
                served += changes if done[operator] is not result else []
        return done, served

    def _consolidate(
        self, operator: int, result: JobResult, changes: Sequence[ChangeFile]
    ) -> JobResult:
        """Return the result of an operator with consolidated changes; the same if no rows are equal."""
        work = Consolidation(
            self._checkpoint.changes.root, operator, self.next_version, tuple(changes)
        )
        with self._tally.job(operator):
            done = self._executor.consolidate(work, self._partitions)
        if done is None:
            return result
        consolidated = result.with_changes(done)
        self._tally.ran(operator, [consolidated.tasks[-1].counters])
        return consolidated

    def _run_operator(
        self,
        job: OperatorJob,
        rows: Mapping[int, Rows],
        branches: list[BranchInput[Rows]],
        results: list[JobResult],
    ) -> JobResult:
        node = job.node
        inputs = [rows[node.id]] if node.id in rows else []
        for branch in node.branches:
            if isinstance(branch.origin, OperatorOrigin):
                files = self._files_of(branch.origin.operator, node, results)
                paths = [self._checkpoint.changes.path(f.name) for f in files]
                if paths:
                    below = self._flow.operators[branch.origin.operator]
                    late = self._lateness[node.id]
                    part = self._executor.changes(below, node, branch, paths, late)
                    self._parts.append(part)
                    branches.append(part)
        if self._rebuild is not None and node.id in self._rebuild:
            job = self._rebuild.job(job)
            return self._rebuild.finish(job, self._executor.run(job, inputs, branches))
        if job.version == 0 and not job.watermark_pass:
            job = replace(job, initial_groups=self._executor.initial_groups(job.spec))
        return self._executor.run(job, inputs, branches)

    def _files_of(
        self, below: int, node: Node, results: Sequence[JobResult]
    ) -> Sequence[ChangeFile]:
        """Return the changes of an operator in this batch, or all its rows for `node`."""
        if self._rebuild is not None and node.id in self._rebuild:
            return self._rebuild.input_files(below, results)
        return changes_of([results[below]])

    def _job(
        self, node: Node, emission: Emission, passed: Sequence[JobResult] | None
    ) -> OperatorJob:
        before = self._last.operators[node.id] if self._last is not None else OperatorState()
        final = self._flow.shows(node.id)
        ordinals = self._flow.change_columns(node.id)
        columns = tuple((node.columns[o], f"c{i}") for i, o in enumerate(ordinals))
        return OperatorJob(
            node=node,
            operator=self._operators[node.id],
            checkpoint=str(self._checkpoint.folder),
            partitions=self._partitions,
            state=before if passed is None else passed[node.id].state,
            version=self.next_version,
            emission=emission,
            columns=columns,
            final=final,
            watermark_pass=passed is not None,
            earlier=passed[node.id].tasks if passed is not None and final else (),
        )

    def _snapshot(
        self,
        results: list[JobResult],
        version: int,
        moved: AdvancedEventState,
        positions: Positions,
    ) -> Snapshot:
        changes = {view.name: self._of_view(view, results) for view in self._flow.views}
        return Snapshot(
            version=version,
            plan=self._flow.fingerprint,
            operators=tuple(result.state for result in results),
            changes=changes.pop("", ViewVersion()).changes,
            views=changes,
            counters={
                **count_tasks(counters_of(results), self._last),
                "late": moved.late,
                "bad": moved.bad,
            },
            created=datetime.now(UTC).isoformat(timespec="milliseconds"),
            watermark=moved.state.watermark,
            sources=moved.state.sources,
            idle=moved.state.idle,
            late=moved.files,
            bad=moved.bad_files,
            inputs=self.inputs,
            positions=positions,
            begun=0 if self._last is None else self._last.begun,
            refresh=self._refresh_record(),
            admission=self.admission,
        )

    def _refresh_record(self) -> RefreshRecord:
        """Return how the batch was computed, with its cost and those of past batches."""
        last = RefreshRecord() if self._last is None else self._last.refresh
        choice = self._choice
        estimate = choice.estimate
        return RefreshRecord(
            tuple(sorted(choice.operators)),
            choice.reason,
            self._costs(last.costs),
            None if estimate is None else int(estimate.incremental),
            None if estimate is None else int(estimate.full),
        )

    def _costs(self, past_costs: tuple[BatchCost, ...]) -> tuple[BatchCost, ...]:
        history = CostHistory(past_costs)
        for full, size in self._choice.measured:
            history = history.add(
                BatchCost(full, size, self._tally.microseconds, cold=not self._warm)
            )
            self._warm = True
        return history.costs

    def _of_view(self, view: FlowView, results: Sequence[JobResult]) -> ViewVersion:
        """Return what the version that is being made has of a view."""
        begun = 0 if self._last is None else self._last.of_view(view.name).begun
        return ViewVersion(tuple(changes_of([results[view.operator]])), begun)

    def _tidy(self, served: Sequence[ChangeFile], snapshot: Snapshot) -> None:
        # Other files that no retained version names are deleted by sweeps at intervals.
        names = (change.name for change in served)
        due = self._retention.due(snapshot.version)
        tidy(self._checkpoint, snapshot, names, sweeps=due, retention=self._retention)

    def _note(self, snapshot: Snapshot) -> None:
        self.progress = self._at_end(
            self._tally.after(self.progress, snapshot, self._view_operators)
        )
        self._committed(self.progress)


def _newest_of_plan(checkpoint: Checkpoint, flow: Flow) -> Snapshot | None:
    """Return the newest version, None without one."""
    last = checkpoint.newest_snapshot()
    if last is not None and last.plan != flow.fingerprint:
        raise committed_by_another(checkpoint.folder, last.version)
    return last
