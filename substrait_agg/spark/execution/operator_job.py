"""Run the Spark job of one operator in one batch: partial sums, exchange, a task per hash range."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from substrait_agg.bind.bound import Expr
from substrait_agg.commit.documents.snapshot import ChangeFile, OperatorState
from substrait_agg.commit.hash_ranges import partition_range
from substrait_agg.commit.runtime.consolidate import Consolidated
from substrait_agg.commit.runtime.task import run_task
from substrait_agg.commit.runtime.task_plan import TaskPlan, TaskResult, task_of
from substrait_agg.errors import RunFailed
from substrait_agg.flow.graph.nodes import Node
from substrait_agg.operator.common.emission import Emission
from substrait_agg.operator.common.protocol import EstimatedWork, StatefulOperator
from substrait_agg.operator.common.spec import InputSpec
from substrait_agg.spark.execution.driver import holds, is_small, on_driver, size_of
from substrait_agg.spark.execution.partial_aggregation import partial_sums, raw_rows, unplaced_rows
from substrait_agg.spark.execution.strategy import (
    BatchStrategy,
    next_strategy,
    repeat_strategy,
    rows_per_arrow_batch,
    sample_cardinality,
)
from substrait_agg.spark.execution.task_runner import run_on_partitions
from substrait_agg.spark.session.errors import batch_failed
from substrait_agg.spark.types.cached_transform import RecordedTransform, TransformCache
from substrait_agg.spark.types.decimals import Params

DRIVER_ROWS = 50_000
"""Rows of the pending tree up to which the driver emits groups: a Spark job costs more than that.
"""

LOOKED_AT_ONCE = 16
"""Groups that can be checked for eviction in the time that it takes to emit one group."""

ALL_HASHES = partition_range(0, 1)

_TOO_LONG = re.compile(
    "OversizedAllocation|Memory required for vector|OutOfMemory|OutOfDirectMemory"
)
"""Spark's messages when an Arrow batch exceeds memory."""


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

    @property
    def spec(self) -> InputSpec:
        """Return what the exchange needs to know about the operator."""
        return self.operator.spec

    def tasks(self, *, raw: bool) -> tuple[TaskPlan, ...]:
        """Return one plan per partition.

        A global aggregate has one partition. A second pass has as many as the first. `unaggregated` says
        that the input is rows instead of partial sums.
        """
        one = self.spec.is_global or any((r.low, r.high) == ALL_HASHES for r in self.earlier)
        count = 1 if one else self.partitions
        return tuple(self._task(*partition_range(p, count), raw=raw) for p in range(count))

    def whole_task(self, *, raw: bool) -> TaskPlan:
        """Return one plan for all hashes."""
        return self._task(*ALL_HASHES, raw=raw)

    def _task(self, low: int, high: int, *, raw: bool) -> TaskPlan:
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
        )


Tasks = tuple[TaskPlan, ...]


@dataclass(frozen=True, slots=True)
class JobResult:
    """The results of all tasks of a job.

    Attributes:
        tasks: the results by task.
        state: the operator's state after them.
        next_strategy: the batch strategy for the next batch.
    """

    tasks: tuple[TaskResult, ...]
    state: OperatorState
    next_strategy: BatchStrategy

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


def run_job(
    spark: SparkSession,
    job: OperatorJob,
    frame: DataFrame | None,
    strategy: BatchStrategy,
    cache: TransformCache,
) -> JobResult:
    """Run the operator over the prepared rows of a batch.

    Args:
        spark: session in which the job runs.
        job: the operator in the batch.
        frame: the rows; None if there are none.
        strategy: the batch strategy that earlier batches have led to.
        cache: the operator's cached transforms.

    Raises:
        RunFailed: a value does not fit, or Spark could not compute the batch.
    """
    strategy = replace(
        strategy, skip_preaggregation=strategy.skip_preaggregation or job.spec.row_wise
    )
    if frame is not None:
        strategy = sample_cardinality(job.spec, frame, strategy.of_size(size_of(frame)))
    tasks = job.tasks(raw=strategy.skip_preaggregation)
    results: list[TaskResult] = []
    if frame is not None:
        tasks, results, strategy = _with_rows(job, frame, tasks, strategy, cache)
    done = {result.low for result in results}
    left = tuple(t for t in tasks if t.low not in done and (t.initial_groups or _work(t)))
    results += _without_rows(spark, left)
    taken = [(r.low, r.high) for r in results if r.low <= r.high]
    state = OperatorState.union([*(r.state for r in results), job.state.outside(taken)])
    return JobResult(tuple(results), state, next_strategy(job.spec, results, strategy))


def _with_rows(
    job: OperatorJob, frame: DataFrame, tasks: Tasks, strategy: BatchStrategy, cache: TransformCache
) -> tuple[Tasks, list[TaskResult], BatchStrategy]:
    """Run tasks over rows.

    Returns:
        All tasks of the batch, the results of those that received rows, and the batch strategy
        used.
    """
    # The changes of a second pass are joined with those of the first, range by range, so the ranges
    # must be the same.
    if not (job.watermark_pass and len(tasks) > 1):
        alone = _on_driver(job, frame, strategy, cache)
        if alone is not None:
            return alone
    if 1 == len(tasks) < job.partitions and not job.spec.is_global:
        strategy = replace(strategy, repartition=True)  # summing exchanges into all partitions
    while True:
        results = _collect(job, frame, tasks, strategy, cache)
        more = repeat_strategy(strategy, results)
        if more == strategy:
            return tasks, results, strategy
        strategy = more


def _on_driver(
    job: OperatorJob, frame: DataFrame, strategy: BatchStrategy, cache: TransformCache
) -> tuple[Tasks, list[TaskResult], BatchStrategy] | None:
    """Compute a batch on the driver as `_with_rows` does; None if it is not one for the driver."""
    spark, few = frame.sparkSession, strategy.on_driver or job.spec.is_global
    if is_small(spark, strategy.size, job.state):
        task = job.whole_task(raw=True)
        rows = on_driver(cache.over(frame, "rows", lambda r: unplaced_rows(r, job.spec)))
        return None if rows is None else ((task,), [_here(task, rows)], strategy)
    if strategy.skip_preaggregation or not few or not holds(spark, job.state):
        return None
    task = job.whole_task(raw=False)
    while True:
        rows = on_driver(_delta(job, frame, 1, replace(strategy, repartition=False), cache))
        if rows is None:
            return None
        results = [_here(task, rows)]
        more = repeat_strategy(strategy, results)
        if more == strategy:
            return (task,), results, strategy
        strategy = more


def _collect(
    job: OperatorJob, frame: DataFrame, tasks: Tasks, strategy: BatchStrategy, cache: TransformCache
) -> list[TaskResult]:
    """Run tasks in Python workers over the batch.

    If rows are unlikely to be long, Spark cuts Arrow batches by number of rows alone. If such a
    batch exceeds memory, the tasks run again, and Spark cuts by size too.
    """
    delta = _delta(job, frame, len(tasks), strategy, cache)
    rows = rows_per_arrow_batch(job.node, strategy)
    try:
        return _on_spark(delta, tasks, at_once=rows)
    except RunFailed as error:
        if rows is None or not _TOO_LONG.search(error.message):
            raise
    # The rows are much longer than those of the previous batch.
    return _on_spark(delta, tasks)


def _without_rows(spark: SparkSession, tasks: tuple[TaskPlan, ...]) -> list[TaskResult]:
    """Run tasks that receive no rows: on the driver, or on Spark if many groups are pending."""
    works = [_work(task) for task in tasks]
    if sum(work.rows + work.visited / LOOKED_AT_ONCE for work in works) <= DRIVER_ROWS:
        return [_here(task) for task in tasks]
    # One partition per task, in order.
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    return _on_spark(numbers, tasks, rows=False)


def _here(task: TaskPlan, rows: Iterable[pa.RecordBatch] = ()) -> TaskResult:
    """Run a task on the driver; report system errors as those of a task on Spark."""
    try:
        return run_task(task, rows)
    except OSError as error:
        raise batch_failed(error) from error


def _work(task: TaskPlan) -> EstimatedWork:
    return task.operator.expected(task.state.trees, task.emission, task.low, task.high)


def _delta(
    job: OperatorJob, frame: DataFrame, tasks: int, strategy: BatchStrategy, cache: TransformCache
) -> DataFrame:
    def make(rows: RecordedTransform) -> RecordedTransform:
        if strategy.skip_preaggregation:
            return raw_rows(rows, job.spec, tasks)
        decimals = [_decimal_params(value) for value, _ in job.node.arguments]
        return partial_sums(
            rows,
            job.spec,
            tasks,
            decimals=decimals,
            place=strategy.repartition,
            parts=strategy.split_decimals,
        )

    return cache.over(
        frame,
        (strategy.repartition, strategy.split_decimals, strategy.skip_preaggregation, tasks),
        make,
    )


def _on_spark(
    frame: DataFrame,
    tasks: tuple[TaskPlan, ...],
    *,
    rows: bool = True,
    at_once: int | None = None,
) -> list[TaskResult]:
    """Run a task in every partition of `frame`.

    Args:
        frame: the rows of the tasks.
        tasks: one per partition.
        rows: whether the rows are input; otherwise they only number the partitions.
        at_once: rows per Arrow batch, as `rows` of `run_on_partitions`.
    """

    def work(partition: int, batches: Iterator[pa.RecordBatch]) -> str:
        # Workers import what this function refers to, so it uses nothing of this module.
        return run_task(task_of(tasks, partition), batches if rows else ()).to_json()

    return [TaskResult.from_json(told) for told in run_on_partitions(frame, work, rows=at_once)]


def _decimal_params(value: Expr | None) -> Params | None:
    if value is None:
        return None
    if value.type.kind == "u64":
        return (20, 0)
    return (value.type.params[0], value.type.params[1]) if value.type.kind == "decimal" else None


def changes_of(results: Iterable[JobResult]) -> list[ChangeFile]:
    """Return the change files of some operators."""
    return [change for result in results for task in result.tasks for change in task.changes]


def counters_of(results: Iterable[JobResult]) -> Iterator[Mapping[str, int]]:
    """Return the counters of all tasks of some operators."""
    return (task.counters for result in results for task in result.tasks)
