"""Decide what the driver computes in its own process.

For a few rows, the exchange and the transfer to Python workers take longer than the computation.
The driver collects the rows as Arrow, in one stage and without an exchange. For a large batch with
few groups it collects the partial sums. One task over all hashes applies them (`run_here`).
State files do not depend on the number of partitions, so the next batch may run on Spark again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from substrait_agg.commit.documents.snapshot import OperatorState
from substrait_agg.commit.evolution.task import MigrationPlan
from substrait_agg.commit.runtime.consolidate import Consolidation
from substrait_agg.commit.runtime.difference import DifferencePlan, DifferenceResult, difference
from substrait_agg.commit.runtime.task import run_task
from substrait_agg.commit.runtime.task_plan import TaskPlan, TaskResult
from substrait_agg.spark.execution.job import work_of
from substrait_agg.spark.session.errors import SPARK_ERRORS, batch_failed, texts_of
from substrait_agg.spark.session.session import DRIVER_BYTES_SETTING, own_setting

DRIVER_BYTES = 1 << 18
"""Size limit of a batch on the driver, in bytes as Spark estimates them before reading."""
WITHOUT_JOB = 16
"""How many times as large a batch may be whose rows the driver has without a Spark job."""
CHECKED_AT_ONCE = 16
"""Groups that can be checked for eviction in the time that it takes to emit one group."""
COMPARED_AT_ONCE = 6
"""Rows of states that can be compared in the time that it takes to emit one group."""
_TOO_MUCH = "spark.driver.maxResultSize"


@dataclass(frozen=True, slots=True)
class Driver:
    """The limits up to which the driver computes something itself, and its way to collect rows.

    Attributes:
        batch_bytes: size limit of a batch unless ``spark.substraitAgg.driverBytes`` is set, in
            bytes as Spark estimates them before reading; 0 for none.
        state_bytes: size limit of the state for lookups, in bytes. The driver reads each file once
            to verify it.
        rows: limit of the groups that are emitted without input, of the rows of an evolution, and
            of the changes that are consolidated. A Spark job costs more than that.
        change_bytes: size limit of the change files that are consolidated, in bytes.
    """

    batch_bytes: int = DRIVER_BYTES
    state_bytes: int = 1 << 30
    rows: int = 50_000
    change_bytes: int = 4 << 20

    def takes_sums(self, spark: SparkSession, state: OperatorState) -> bool:
        """Return whether the driver may compute batches over this state from partial sums."""
        return bool(self._most(spark)) and self._reads(state)

    def takes_rows(
        self, spark: SparkSession, size: int, state: OperatorState, *, needs_job: bool = True
    ) -> bool:
        """Return whether the driver computes a batch of `size` bytes from its rows.

        The limit is higher for rows that the driver has without a Spark job: it saves a whole one.
        """
        most = self._most(spark) * (1 if needs_job else WITHOUT_JOB)
        return bool(most) and size <= most and self._reads(state)

    def takes_tasks(self, tasks: Sequence[TaskPlan]) -> bool:
        """Return whether the driver runs tasks that receive no rows."""
        works = map(work_of, tasks)
        return sum(work.rows + work.visited / CHECKED_AT_ONCE for work in works) <= self.rows

    def takes_changes(self, work: Consolidation) -> bool:
        """Return whether the driver consolidates the changes of a version."""
        return work.rows <= self.rows and work.bytes <= self.change_bytes

    def takes_migration(self, plans: Sequence[MigrationPlan]) -> bool:
        """Return whether the driver derives the state of an operator from stored state."""
        return sum(run.rows for plan in plans for run in plan.state.runs) <= self.rows

    def takes_difference(self, plans: Sequence[DifferencePlan]) -> bool:
        """Return whether the driver compares two states of an operator."""
        return sum(plan.rows for plan in plans) <= self.rows * COMPARED_AT_ONCE

    def collect(self, frame: DataFrame) -> list[pa.RecordBatch] | None:
        """Collect the rows of a frame; None if they exceed ``spark.driver.maxResultSize``.

        Raises:
            RunFailed: Spark could not compute them.
        """
        table = self.collect_table(frame)
        return None if table is None else list(table.to_batches())

    def collect_table(self, frame: DataFrame) -> pa.Table | None:
        """Collect the rows of a frame as `collect`, as one table."""
        try:
            rows: pa.Table = frame.toArrow()
        except SPARK_ERRORS as error:
            if any(_TOO_MUCH in text for text in texts_of(error)):
                return None
            raise batch_failed(error) from error
        return rows

    def _reads(self, state: OperatorState) -> bool:
        return sum(run.bytes for run in state.runs) <= self.state_bytes

    def _most(self, spark: SparkSession) -> int:
        setting = spark.conf.get(DRIVER_BYTES_SETTING, None)
        return self.batch_bytes if setting is None else own_setting(DRIVER_BYTES_SETTING, setting)


def size_of(frame: DataFrame) -> int:
    """Return the bytes of a batch, as Spark estimates them before reading."""
    return int(str(frame._jdf.queryExecution().analyzed().stats().sizeInBytes()))


def difference_here(plan: DifferencePlan) -> DifferenceResult:
    """Compare two states of an operator in this process.

    Raises:
        RunFailed: a file cannot be read or written.
    """
    try:
        return difference(plan)
    except OSError as error:
        raise batch_failed(error) from error


def run_here(task: TaskPlan, rows: Iterable[pa.RecordBatch] = ()) -> TaskResult:
    """Run a task in this process; report system errors as those of a task on Spark.

    The commit flushes the files of all such tasks together.

    Raises:
        RunFailed: a value does not fit, or a file cannot be read or written.
    """
    try:
        return run_task(replace(task, flushes=False), rows)
    except OSError as error:
        raise batch_failed(error) from error
