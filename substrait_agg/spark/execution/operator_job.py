"""Run the Spark job of one operator in one batch: partial sums, exchange, a task per hash range."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from substrait_agg.bind.bound import Expr
from substrait_agg.commit.documents.json_codec import from_line, to_line
from substrait_agg.commit.tasks.change_writer import Keep
from substrait_agg.commit.tasks.task import run_task
from substrait_agg.commit.tasks.task_plan import TaskPlan, TaskResult, task_of
from substrait_agg.errors import RunFailed
from substrait_agg.operator.common.spec import InputSpec
from substrait_agg.runtime.in_process import run_here
from substrait_agg.runtime.job import JobResult, OperatorJob, acts_alone
from substrait_agg.spark.execution.driver import Driver, RowAccess, limit_times, size_of
from substrait_agg.spark.execution.partial_aggregation import (
    Summing,
    partial_sums,
    raw_rows,
    unplaced_rows,
)
from substrait_agg.spark.execution.strategy import (
    BatchStrategy,
    next_strategy,
    repeat_strategy,
    rows_per_arrow_batch,
    sample_cardinality,
)
from substrait_agg.spark.execution.task_runner import run_on_partitions
from substrait_agg.spark.types.cached_transform import RecordedTransform, TransformCache
from substrait_agg.spark.types.decimals import Params

_TOO_LONG = re.compile(
    "OversizedAllocation|Memory required for vector|OutOfMemory|OutOfDirectMemory"
)
"""Spark's messages when an Arrow batch exceeds memory."""
_OVERFLOW = re.compile("ARITHMETIC_OVERFLOW")
"""Spark's message when a sum or a product passes int64."""


Tasks = tuple[TaskPlan, ...]


def run_job(
    spark: SparkSession,
    job: OperatorJob,
    frame: DataFrame | None,
    strategy: BatchStrategy,
    cache: TransformCache,
    driver: Driver,
    *,
    rows_fit: bool = True,
) -> tuple[JobResult, BatchStrategy]:
    """Run the operator over the prepared rows of a batch.

    Args:
        spark: session in which the job runs.
        job: the operator in the batch.
        frame: the rows; None if there are none.
        strategy: the batch strategy that earlier batches have led to.
        cache: the operator's cached transforms.
        driver: what the driver computes itself.
        rows_fit: whether the driver may compute the batch from its rows.

    Returns:
        The result, and the batch strategy for the next batch.

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
        tasks, results, strategy = _with_rows(
            job, frame, tasks, strategy, cache, driver, rows_fit=rows_fit
        )
    done = {result.low for result in results}
    left = tuple(t for t in tasks if t.low not in done and acts_alone(t))
    results += _without_rows(spark, left, driver)
    return job.finish(results), next_strategy(job.spec, results, strategy)


def takes_rows(
    spark: SparkSession, job: OperatorJob, size: int, driver: Driver, access: RowAccess
) -> bool:
    """Return whether the driver computes the operator from its rows.

    Args:
        spark: session of the run.
        job: the operator in the batch.
        size: bytes of the rows, before they are repeated for grouping sets.
        driver: what the driver computes itself.
        access: how the driver gets the rows.
    """
    several = job.watermark_pass and len(job.tasks(raw=True)) > 1  # as in `_with_rows`
    times = limit_times(access, [job.operator])
    return not several and driver.takes_rows(
        spark, size * rows_per_input_row(job.spec), driver.unread(job), times=times
    )


def rows_per_input_row(spec: InputSpec) -> int:
    """Return how many rows an input row becomes: one for every grouping set."""
    return max(1, len(spec.sets))


def run_rows(
    job: OperatorJob,
    size: int,
    rows: Callable[[], list[pa.RecordBatch] | None],
    strategy: BatchStrategy,
    driver: Driver,
    keep: Keep | None = None,
) -> tuple[JobResult, BatchStrategy] | None:
    """Run the operator over rows that the driver computes or collects, as `run_job` does on the driver.

    Args:
        job: the operator in the batch.
        size: bytes of the rows.
        rows: returns the rows with the hashes of their keys, or None if Spark has to compute them.
        strategy: the batch strategy that earlier batches have led to.
        driver: what the driver computes itself.
        keep: takes the changes instead of a file, if they are few and not those of a view.

    Returns:
        As `run_job`; None if Spark has to compute the batch.

    Raises:
        RunFailed: a value does not fit.
    """
    strategy = replace(
        strategy, skip_preaggregation=strategy.skip_preaggregation or job.spec.row_wise
    ).of_size(size)
    batches = rows()
    if batches is None or not driver.takes_matches(job, batches):
        return None
    results = [run_here(job.whole_task(raw=True), batches, keep)]
    return job.finish(results), next_strategy(job.spec, results, strategy)


def _with_rows(
    job: OperatorJob,
    frame: DataFrame,
    tasks: Tasks,
    strategy: BatchStrategy,
    cache: TransformCache,
    driver: Driver,
    *,
    rows_fit: bool,
) -> tuple[Tasks, list[TaskResult], BatchStrategy]:
    """Run tasks over rows; return all tasks, the results of those with rows, and the strategy."""
    # The changes of a second pass are joined with those of the first, range by range, so the ranges
    # must be the same.
    if not (job.watermark_pass and len(tasks) > 1):
        alone = _on_driver(job, frame, strategy, cache, driver, rows_fit=rows_fit)
        if alone is not None:
            return alone
    if 1 == len(tasks) < job.partitions and not job.spec.is_global:
        strategy = replace(strategy, repartition=True)  # summing exchanges into all partitions
    results, strategy = _until_exact(
        job, strategy, lambda chosen: _collect(job, frame, tasks, chosen, cache)
    )
    return tasks, results or [], strategy


def _until_exact(
    job: OperatorJob,
    strategy: BatchStrategy,
    run: Callable[[BatchStrategy], list[TaskResult] | None],
) -> tuple[list[TaskResult] | None, BatchStrategy]:
    """Run tasks with a strategy, and again as long as they report that they need another one.

    Args:
        job: the operator in the batch.
        strategy: the first strategy.
        run: runs the tasks with a strategy; None if they cannot run that way at all.

    Returns:
        The results, and the strategy that led to them.
    """
    while True:
        try:
            results = run(strategy)
            if results is None:
                return None, strategy
            more = repeat_strategy(strategy, results)
        except RunFailed as error:
            # Sums of many rows with small weights may pass int64 unless they are split.
            sums = job.spec.weight == "weighted" and not strategy.skip_preaggregation
            if not sums or strategy.split_weights or not _OVERFLOW.search(error.message):
                raise
            results, more = None, replace(strategy, split_weights=True)
        if results is not None and more == strategy:
            return results, strategy
        strategy = more


def _on_driver(
    job: OperatorJob,
    frame: DataFrame,
    strategy: BatchStrategy,
    cache: TransformCache,
    driver: Driver,
    *,
    rows_fit: bool,
) -> tuple[Tasks, list[TaskResult], BatchStrategy] | None:
    """Compute a batch on the driver as `_with_rows` does; None if the driver should not compute it."""
    spark, few = frame.sparkSession, strategy.on_driver or job.spec.is_global
    size = strategy.size * rows_per_input_row(job.spec)
    unread = driver.unread(job)
    if rows_fit and driver.takes_rows(spark, size, unread):
        task = job.whole_task(raw=True)
        rows = driver.collect(cache.over(frame, "rows", lambda r: unplaced_rows(r, job.spec)))
        if rows is None or not driver.takes_matches(job, rows):
            return None
        return (task,), [run_here(task, rows)], strategy
    if strategy.skip_preaggregation or not few or not driver.takes_sums(spark, unread):
        return None
    task = job.whole_task(raw=False)

    def run(selected: BatchStrategy) -> list[TaskResult] | None:
        """Collect the partial sums and run the task here."""
        delta = _delta(job, frame, 1, replace(selected, repartition=False), cache)
        sums = driver.collect(delta)
        return None if sums is None else [run_here(task, sums)]

    results, strategy = _until_exact(job, strategy, run)
    return None if results is None else ((task,), results, strategy)


def _collect(
    job: OperatorJob, frame: DataFrame, tasks: Tasks, strategy: BatchStrategy, cache: TransformCache
) -> list[TaskResult]:
    """Run tasks in Python workers over the batch.

    If rows are unlikely to be long, Spark cuts Arrow batches by number of rows alone. If such a
    batch exceeds memory, the tasks run again, and Spark cuts by size too.
    """
    delta = _delta(job, frame, len(tasks), strategy, cache)
    rows = rows_per_arrow_batch(job.node, strategy)
    _forget_rows(job)
    try:
        return _on_spark(delta, tasks, at_once=rows)
    except RunFailed as error:
        if rows is None or not _TOO_LONG.search(error.message):
            raise
    # The rows are much longer than those of the previous batch.
    _forget_rows(job)
    return _on_spark(delta, tasks)


def _forget_rows(job: OperatorJob) -> None:
    """Forget the rows that an earlier attempt has counted."""
    if job.join_rows is not None:
        job.join_rows.reset()


def _without_rows(spark: SparkSession, tasks: Tasks, driver: Driver) -> list[TaskResult]:
    """Run tasks that receive no rows: on the driver, or on Spark if many groups are pending."""
    if driver.takes_tasks(tasks):
        return [run_here(task) for task in tasks]
    # One partition per task, in order.
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    return _on_spark(numbers, tasks, rows=False)


def _delta(
    job: OperatorJob, frame: DataFrame, tasks: int, strategy: BatchStrategy, cache: TransformCache
) -> DataFrame:
    def make(rows: RecordedTransform) -> RecordedTransform:
        """Return delta rows: raw, or summed per group."""
        if strategy.skip_preaggregation:
            return raw_rows(rows, job.spec, tasks)
        decimals = [_decimal_params(value) for value, _ in job.node.arguments]
        return partial_sums(
            rows,
            job.spec,
            tasks,
            decimals=decimals,
            summing=summing,
        )

    summing = Summing(
        strategy.repartition,
        strategy.split_decimals,
        strategy.split_weights,
        strategy.sum_before_sets,
    )
    return cache.over(frame, (summing, strategy.skip_preaggregation, tasks), make)


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
        """Run the task of a partition; return its result as a line."""
        # Workers import what this function refers to, so it uses nothing of this module.
        return to_line(run_task(task_of(tasks, partition), batches if rows else ()))

    return [from_line(TaskResult, r) for r in run_on_partitions(frame, work, rows=at_once)]


def _decimal_params(value: Expr | None) -> Params | None:
    if value is None:
        return None
    if value.type.kind == "u64":
        return (20, 0)
    return (value.type.params[0], value.type.params[1]) if value.type.kind == "decimal" else None
