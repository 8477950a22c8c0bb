"""The plan and the result of a task."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from substrait_agg.commit.documents.snapshot import ChangeFile, OperatorState
from substrait_agg.commit.tasks.join_rows import JoinRows
from substrait_agg.operator.common.emission import ALL, Emission
from substrait_agg.operator.common.protocol import StatefulOperator


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The plan of a task.

    Attributes:
        checkpoint: folder of the checkpoint.
        node: id of the operator in the flow.
        operator: what the task executes.
        low: least sort hash of the range.
        high: greatest sort hash of the range.
        state: its trees in the range.
        initial_groups: initial groups, which exist from the first version on: sort hash and set index (0
            without grouping sets).
        watermark_pass: whether this is the second pass of a version, over groups that its watermark has
            passed.
        earlier: change files of the first pass over the range, if the changes are those of the
            view.
        version: the version being made.
        emission: which of the touched and pending groups are emitted.
        columns: per column of a change file its operator column and its name (``c0``, ``c1``, ...
            of the view).
        final: whether the changes are those of the view, which include the version.
        unaggregated: whether the rows are raw input instead of sums per key.
        flushes: whether the task flushes its files to disk. Otherwise the commit does, in the same
            process.
        join_rows: counts the rows of a join; None for other operators.
    """

    checkpoint: str
    node: int
    operator: StatefulOperator
    low: int
    high: int
    state: OperatorState
    version: int
    columns: tuple[tuple[str, str], ...]
    final: bool
    unaggregated: bool = False
    emission: Emission = ALL
    initial_groups: tuple[tuple[int, int], ...] = ()
    watermark_pass: bool = False
    earlier: tuple[ChangeFile, ...] = ()
    flushes: bool = True
    join_rows: JoinRows | None = None


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of a task.

    Attributes:
        low: least sort hash of the range.
        high: greatest sort hash of the range.
        state: the trees of the range after the task.
        changes: change files.
        misplaced: whether rows were outside the range. The driver must sum the batch again with an
            explicit repartitioning.
        decimal_overflow: whether a partial sum of decimals overflowed. The driver must sum the
            batch again with split decimals.
        large_weights: whether there were weights that only halves bear (`operator.numeric.delta`).
            Unless the batch was summed in halves, the driver must sum it again.
        joined: whether the change files include those of the first pass over the range.
        received: bytes of the input rows.
    """

    low: int
    high: int
    state: OperatorState = field(default_factory=OperatorState)
    changes: tuple[ChangeFile, ...] = ()
    counters: dict[str, int] = field(default_factory=dict)
    misplaced: bool = False
    decimal_overflow: bool = False
    large_weights: bool = False
    joined: bool = False
    received: int = 0


def task_of(tasks: tuple[TaskPlan, ...], partition: int) -> TaskPlan:
    """Return the task of a partition.

    If the exchange has more partitions than tasks, return a task with an empty range. Its rows are
    then outside the range, and the task reports them as misplaced.
    """
    if partition < len(tasks):
        return tasks[partition]
    return replace(tasks[0], low=1, high=0, state=OperatorState(), initial_groups=())
