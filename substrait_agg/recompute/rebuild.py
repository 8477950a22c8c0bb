"""Make the changes of operators that a batch computes again from all rows of their inputs.

Such an operator starts from an empty state. Its new state replaces the stored one, and its output
is all rows that it now shows. The difference to the rows that the previous version showed, which
its old state has, is what views and operators with incremental batches get.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Generic

from substrait_agg.commit.documents.snapshot import ChangeFile, OperatorState, Snapshot
from substrait_agg.commit.evolution.task import Columns, MigrationPlan
from substrait_agg.commit.hash_ranges import partition_range
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.tasks.consolidate import Consolidated
from substrait_agg.commit.tasks.difference import DifferencePlan
from substrait_agg.flow.graph.nodes import Flow, operators_below
from substrait_agg.runtime.executor import Executor, Rows
from substrait_agg.runtime.job import JobResult, OperatorJob, changes_of


class Rebuild(Generic[Rows]):
    """The operators that one batch computes again.

    Args:
        flow: the flow.
        checkpoint: the checkpoint.
        executor: computes the operators.
        partitions: number of state partitions.
        before: the version before the batch.
        operators: ids of the operators that are computed again.

    Attributes:
        served: change files that are not needed after the commit.
    """

    def __init__(
        self,
        flow: Flow,
        checkpoint: Checkpoint,
        executor: Executor[Rows],
        partitions: int,
        before: Snapshot,
        operators: frozenset[int],
    ) -> None:
        self._flow, self._checkpoint, self._executor = flow, checkpoint, executor
        self._partitions, self._before = partitions, before
        self._operators = operators
        self._rows: dict[int, tuple[ChangeFile, ...]] = {}
        self._differing = frozenset(self._with_difference())
        self.served: list[ChangeFile] = []

    def __contains__(self, operator: int) -> bool:
        return operator in self._operators

    def _with_difference(self) -> Iterator[int]:
        """Yield the operators whose difference a view or an incremental operator reads."""
        yield from (view.operator for view in self._flow.views)
        for node in self._flow.operators:
            if node.id not in self._operators:
                yield from operators_below(node)

    def job(self, job: OperatorJob) -> OperatorJob:
        """Return the job of an operator that begins with an empty state."""
        groups = self._executor.initial_groups(job.spec)
        return replace(job, state=OperatorState(), initial_groups=groups)

    def input_files(self, below: int, results: Sequence[JobResult]) -> tuple[ChangeFile, ...]:
        """Return files with all rows of an operator after the batch.

        Args:
            below: id of the operator.
            results: results of the operators so far.
        """
        if below not in self._rows:
            self._rows[below] = self._write_listed(below, results[below].state)
            self.served += self._rows[below]
        return self._rows[below]

    def finish(self, job: OperatorJob, result: JobResult) -> JobResult:
        """Return the result of an operator with the difference to the previous version as changes."""
        operator = job.node.id
        rows = tuple(changes_of([result]))
        self._rows[operator] = rows
        self.served += rows
        if operator not in self._differing:
            return result.with_changes(Consolidated((), 0, 0))
        return result.with_changes(self._difference(job, result.state))

    def _difference(self, job: OperatorJob, after: OperatorState) -> Consolidated:
        """Return the changes from the rows of the previous version to those of this one."""
        before = self._before.operators[job.node.id]
        plans = [
            DifferencePlan(
                job.checkpoint, job.node.id, job.version, low, high, before.within(low, high),
                after.within(low, high), job.columns, job.final,
            )
            for low, high in self._ranges()
        ]  # fmt: skip
        return Consolidated.combine(self._executor.difference([p for p in plans if p.rows]))

    def _ranges(self) -> Iterator[tuple[int, int]]:
        return (partition_range(p, self._partitions) for p in range(self._partitions))

    def _columns(self, operator: int, ordinals: Sequence[int]) -> Columns:
        names = self._flow.operators[operator].columns
        return tuple((names[o], f"c{i}") for i, o in enumerate(ordinals))

    def _write_listed(self, operator: int, state: OperatorState) -> tuple[ChangeFile, ...]:
        """Write the rows that a state shows as insertions."""
        columns = self._columns(operator, range(len(self._flow.operators[operator].types)))
        plans = [
            MigrationPlan(
                checkpoint=str(self._checkpoint.folder),
                operator=operator,
                version=self._before.version + 1,
                low=low,
                high=high,
                state=state.within(low, high),
                columns=columns,
            )
            for low, high in self._ranges()
        ]
        done = self._executor.migrate([plan for plan in plans if not plan.idle])
        return tuple(file for result in done for file in result.inserted)
