"""A job: one operator in one batch, its tasks and their results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from substrait_agg.commit.documents.snapshot import ChangeFile, OperatorState
from substrait_agg.commit.hash_ranges import partition_range
from substrait_agg.commit.tasks.consolidate import Consolidated
from substrait_agg.commit.tasks.join_rows import JoinRows
from substrait_agg.commit.tasks.task_plan import TaskPlan, TaskResult
from substrait_agg.flow.graph.nodes import Node
from substrait_agg.operator.common.emission import Emission
from substrait_agg.operator.common.protocol import EstimatedWork, StatefulOperator
from substrait_agg.operator.common.spec import InputSpec

ALL_HASHES = partition_range(0, 1)


@dataclass(frozen=True, slots=True)
class OperatorJob:
    """One operator in one batch.

    Attributes:
        node: the operator in the flow.
        operator: what its tasks execute.
        checkpoint: folder of the checkpoint.
        partitions: number of state partitions.
        state: live runs before the batch.
        version: the version under construction.
        emission: which touched and pending groups are emitted.
        columns: columns of the change files, as (name in the operator, name in the file).
        final: whether the changes are those of the view.
        initial_groups: initial groups, which exist whatever the input: (sort hash, grouping set index).
        watermark_pass: whether this is the second pass of the version, over groups that its watermark has
            passed.
        earlier: results of the tasks of the first pass, if the changes are those of the view.
        join_rows: counts the rows of a join; None for other operators.
    """

    node: Node
    operator: StatefulOperator
    checkpoint: str
    partitions: int
    state: OperatorState
    version: int
    emission: Emission
    columns: tuple[tuple[str, str], ...]
    final: bool
    initial_groups: tuple[tuple[int, int], ...] = ()
    watermark_pass: bool = False
    earlier: tuple[TaskResult, ...] = ()
    join_rows: JoinRows | None = None

    @property
    def spec(self) -> InputSpec:
        """Return what the exchange needs to know about the operator."""
        return self.operator.spec

    def tasks(self, *, raw: bool) -> tuple[TaskPlan, ...]:
        """Return one plan per partition.

        A global aggregate has one partition. A second pass has as many as the first. `raw` says
        that the input is rows instead of partial sums.
        """
        one = self.spec.is_global or any((r.low, r.high) == ALL_HASHES for r in self.earlier)
        count = 1 if one else self.partitions
        return tuple(self._task(*partition_range(p, count), p, raw=raw) for p in range(count))

    def whole_task(self, *, raw: bool) -> TaskPlan:
        """Return one plan for all hashes."""
        return self._task(*ALL_HASHES, 0, raw=raw)

    def finish(self, results: Sequence[TaskResult]) -> JobResult:
        """Return the result of the job from the results of its tasks."""
        ranges = [(r.low, r.high) for r in results if r.low <= r.high]
        state = OperatorState.union([*(r.state for r in results), self.state.outside(ranges)])
        return JobResult(tuple(results), state)

    def _task(self, low: int, high: int, number: int, *, raw: bool) -> TaskPlan:
        return TaskPlan(
            checkpoint=self.checkpoint,
            node=self.node.id,
            operator=self.operator,
            low=low,
            high=high,
            state=self.state.within(low, high),
            initial_groups=tuple(
                (h, index) for h, index in self.initial_groups if low <= h <= high
            ),
            watermark_pass=self.watermark_pass,
            earlier=tuple(
                file for r in self.earlier if (r.low, r.high) == (low, high) for file in r.changes
            ),
            version=self.version,
            emission=self.emission,
            columns=self.columns,
            final=self.final,
            unaggregated=raw,
            join_rows=self.join_rows and replace(self.join_rows, task=number),
        )


@dataclass(frozen=True, slots=True)
class JobResult:
    """The results of all tasks of a job."""

    tasks: tuple[TaskResult, ...]
    state: OperatorState

    def then(self, second: JobResult) -> JobResult:
        """Combine the results of both passes of a version."""
        joined = {(task.low, task.high) for task in second.tasks if task.joined}
        first = (
            replace(task, changes=()) if (task.low, task.high) in joined else task
            for task in self.tasks
        )
        return replace(self, tasks=(*first, *second.tasks), state=second.state)

    def with_changes(self, done: Consolidated) -> JobResult:
        """Replace the change files of all tasks by consolidated ones.

        A last task without rows carries the new files and corrects the counters ``retracted`` and
        ``inserted``.
        """
        before = {
            name: sum(task.counters.get(name, 0) for task in self.tasks)
            for name in ("retracted", "inserted")
        }
        counters = {
            "retracted": done.retracted - before["retracted"],
            "inserted": done.inserted - before["inserted"],
        }
        tasks = (replace(task, changes=()) for task in self.tasks)
        last = TaskResult(1, 0, changes=done.changes, counters=counters)
        return replace(self, tasks=(*tasks, last))


def work_of(task: TaskPlan) -> EstimatedWork:
    """Estimate the work of a task that receives no rows."""
    return task.operator.expected(task.state.trees, task.emission, task.low, task.high)


def acts_alone(task: TaskPlan) -> bool:
    """Return whether a task has work without rows."""
    return bool(task.initial_groups or work_of(task))


def changes_of(results: Iterable[JobResult]) -> list[ChangeFile]:
    """Return the change files of some operators."""
    return [change for result in results for task in result.tasks for change in task.changes]


def counters_of(results: Iterable[JobResult]) -> Iterator[Mapping[str, int]]:
    """Return the counters of all tasks of some operators."""
    return (task.counters for result in results for task in result.tasks)
