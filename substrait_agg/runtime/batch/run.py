"""Run the operators of one batch, in order, and consolidate the changes of its views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic

from substrait_agg.commit.documents.snapshot import ChangeFile, OperatorState, Snapshot
from substrait_agg.commit.tasks.consolidate import Consolidation
from substrait_agg.flow.graph.aggregate import Recursion
from substrait_agg.flow.graph.graph import Branch, FeedbackOrigin, OperatorOrigin
from substrait_agg.flow.graph.nodes import Node
from substrait_agg.metrics.batch_stats import BatchStats
from substrait_agg.operator.common.emission import Emission
from substrait_agg.recompute.rebuild import Rebuild
from substrait_agg.refresh.chooser import Choice
from substrait_agg.required import require
from substrait_agg.runtime.batch.settings import BatchSettings
from substrait_agg.runtime.event_state import EventState
from substrait_agg.runtime.executor import BranchInput, Rows
from substrait_agg.runtime.job import JobResult, OperatorJob, changes_of
from substrait_agg.runtime.left_out import LeftOut
from substrait_agg.runtime.recursions import check_levels, check_rows

BranchFiles = Sequence[tuple[Branch, Sequence[ChangeFile]]]
"""Per branch of an operator, the change files that it reads."""


@dataclass(frozen=True, slots=True)
class BatchPlan(Generic[Rows]):
    """What a batch computes.

    Attributes:
        rows: prepared rows by operator id.
        tables: rows of tables by operator id that the executor prepares.
        choice: which operators are computed again, and why.
        rebuild: computes them; None if there are none.
    """

    rows: Mapping[int, Rows] = field(default_factory=dict)
    tables: Mapping[int, BranchInput[Rows]] = field(default_factory=dict)
    choice: Choice = Choice()  # noqa: RUF009 - frozen
    rebuild: Rebuild[Rows] | None = None


class BatchRun(Generic[Rows]):
    """Runs the operators of one batch.

    Args:
        settings: what all batches have in common.
        last: the version before; None before the first one.
        plan: what the batch computes.

    Attributes:
        plan: what the batch computes.
        version: the version that the batch makes.
        tally: the statistics of the batch.
        left_out: what the last pass has read, of which rows may be late.
    """

    def __init__(
        self, settings: BatchSettings[Rows], last: Snapshot | None, plan: BatchPlan[Rows]
    ) -> None:
        self._settings, self._last, self.plan = settings, last, plan
        self._lateness = EventState.at(settings.events, last).lateness(settings.flow)
        self.version = 0 if last is None else last.version + 1
        self.tally = BatchStats()
        self.left_out: list[LeftOut[Rows]] = []

    def run(
        self, rules: Sequence[Emission], passed: Sequence[JobResult] | None = None
    ) -> list[JobResult]:
        """Run all operators.

        Args:
            rules: the emission of each operator.
            passed: results of the first pass by operator, after which no rows come; None in the first
                pass.

        Raises:
            RunFailed: a value does not fit, or Spark could not compute the batch.
        """
        results: list[JobResult] = []
        self.left_out = []
        for node in self._settings.flow.operators:
            job = self._job(node, rules[node.id], passed)
            files = [(b, self._files_of(b, node, results)) for b in node.branches]
            results.append(self._run_operator(job, files, has_rows=passed is None))
            for recursion in self._settings.recursions.get(node.id, ()):
                self._run_rounds(recursion, rules, passed, results)
        return results

    def _run_rounds(
        self,
        recursion: Recursion,
        rules: Sequence[Emission],
        passed: Sequence[JobResult] | None,
        results: list[JobResult],
    ) -> None:
        """Run the operators of a recursion on each other's changes until none changes any more.

        Their results so far are those of the rows of the batch. Those of the rounds are added to them.

        Raises:
            RunFailed: RECURSION_LEVELS_EXCEEDED, RECURSION_ROWS_EXCEEDED.
        """
        operators = self._settings.flow.operators[recursion.id : require(recursion.loop_end) + 1]
        before = {node.id: results[node.id] for node in operators}
        while before:
            check_rows(recursion, results[recursion.id])
            now: dict[int, JobResult] = {}
            for node in operators:
                files = [(b, _round_files(b, before, now)) for b in node.branches]
                if any(changes for _, changes in files):
                    job = self._job(node, rules[node.id], passed)
                    job = replace(job, state=results[node.id].state)
                    now[node.id] = self._run_operator(job, files, has_rows=False)
                    results[node.id] = results[node.id].then(now[node.id])
            before = now
        check_levels(recursion, results[recursion.id])

    def _run_operator(self, job: OperatorJob, files: BranchFiles, *, has_rows: bool) -> JobResult:
        """Run an operator on the changes of other operators, and on the rows of tables if there are any."""
        node = job.node
        with self.tally.job(node.id), self._settings.joins.watch(job) as watched:
            result = self._execute(watched, files, has_rows=has_rows)
            self._settings.joins.check(watched, result)
        self.tally.ran(node.id, (task.counters for task in result.tasks))
        return result

    def _execute(self, job: OperatorJob, files: BranchFiles, *, has_rows: bool) -> JobResult:
        node, executor, plan = job.node, self._settings.executor, self.plan
        inputs = [plan.rows[node.id]] if has_rows and node.id in plan.rows else []
        branches = [plan.tables[node.id]] if has_rows and node.id in plan.tables else []
        for branch, changes in files:
            paths = [self._settings.checkpoint.changes.path(f.name) for f in changes]
            if paths and isinstance(branch.origin, OperatorOrigin | FeedbackOrigin):
                below = self._settings.flow.operators[branch.origin.operator]
                part = executor.changes(below, node, branch, paths, self._lateness[node.id])
                self.left_out.append(part)
                branches.append(part)
        rebuild = plan.rebuild
        if rebuild is not None and node.id in rebuild:
            job = rebuild.job(job)
            return rebuild.finish(job, executor.run(job, inputs, branches))
        if job.version == 0 and has_rows:
            job = replace(job, initial_groups=executor.initial_groups(job.spec))
        return executor.run(job, inputs, branches)

    def _files_of(
        self, branch: Branch, node: Node, results: Sequence[JobResult]
    ) -> Sequence[ChangeFile]:
        """Return the changes of an operator in this batch, or all its rows for `node`."""
        if not isinstance(branch.origin, OperatorOrigin):
            return ()
        below, rebuild = branch.origin.operator, self.plan.rebuild
        if rebuild is not None and node.id in rebuild:
            return rebuild.input_files(below, results)
        return changes_of([results[below]])

    def _job(
        self, node: Node, emission: Emission, passed: Sequence[JobResult] | None
    ) -> OperatorJob:
        settings = self._settings
        before = self._last.operators[node.id] if self._last is not None else OperatorState()
        final = settings.flow.shows(node.id)
        ordinals = settings.flow.change_columns(node.id)
        return OperatorJob(
            node=node,
            operator=settings.operators[node.id],
            checkpoint=str(settings.checkpoint.folder),
            partitions=settings.partitions,
            state=before if passed is None else passed[node.id].state,
            version=self.version,
            emission=emission,
            columns=tuple((node.columns[o], f"c{i}") for i, o in enumerate(ordinals)),
            final=final,
            watermark_pass=passed is not None,
            earlier=passed[node.id].tasks if passed is not None and final else (),
        )

    def consolidate_views(
        self, results: list[JobResult]
    ) -> tuple[list[JobResult], list[ChangeFile]]:
        """Consolidate the changes of the views in which rows of different groups can be equal.

        Returns:
            The results of the operators, and the change files that are not read after the commit.
        """
        flow, rebuild = self._settings.flow, self.plan.rebuild
        served = [] if rebuild is None else list(rebuild.served)
        done, consolidated = list(results), self._settings.consolidated
        for operator, result in enumerate(results):
            changes = changes_of([result])
            if not flow.shows(operator):
                served += changes
            elif operator in consolidated:
                done[operator] = self._consolidate(operator, result, changes)
                served += changes if done[operator] is not result else []
        return done, served

    def _consolidate(
        self, operator: int, result: JobResult, changes: Sequence[ChangeFile]
    ) -> JobResult:
        """Return the result of an operator with consolidated changes; the same if no rows are equal."""
        settings = self._settings
        folder = settings.checkpoint.changes.root
        work = Consolidation(folder, operator, self.version, tuple(changes))
        with self.tally.job(operator):
            done = settings.executor.consolidate(work, settings.partitions)
        if done is None:
            return result
        consolidated = result.with_changes(done)
        self.tally.ran(operator, [consolidated.tasks[-1].counters])
        return consolidated


def _round_files(
    branch: Branch, before: Mapping[int, JobResult], now: Mapping[int, JobResult]
) -> Sequence[ChangeFile]:
    """Return the changes that a round reads: those of the round before as feedback, else its own."""
    match branch.origin:
        case FeedbackOrigin(operator=operator):
            results = before
        case OperatorOrigin(operator=operator):
            results = now
        case _:
            return ()
    return changes_of([results[operator]]) if operator in results else ()
