"""Decide what the driver computes in its own process.

For a few rows, the exchange and the transfer to Python workers take longer than the computation.
The driver collects the rows as Arrow, in one stage and without an exchange. For a large batch with
few groups it collects the partial sums. One task over all hashes applies them (`run_here`).
State files do not depend on the number of partitions, so the next batch may run on Spark again.

State files are memory-mapped, so that their size does not matter but what a batch reads of them. A
file is read completely only once per process, to verify it. If files of more than
`Driver.state_bytes` are not verified, a thread verifies them, while Spark computes the batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from threading import Thread

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.snapshot import OperatorState
from substrait_agg.commit.evolution.task import MigrationPlan
from substrait_agg.commit.tasks.consolidate import Consolidation
from substrait_agg.commit.tasks.difference import DifferencePlan
from substrait_agg.commit.tasks.task import sort_hashes
from substrait_agg.commit.tasks.task_plan import TaskPlan
from substrait_agg.operator.common.names import PORT
from substrait_agg.operator.common.protocol import StatefulOperator
from substrait_agg.runtime.job import OperatorJob, work_of
from substrait_agg.spark.session.errors import SPARK_ERRORS, batch_failed, texts_of
from substrait_agg.spark.session.session import DRIVER_BYTES_SETTING, own_setting
from substrait_agg.state.arrangement import Arrangement, ArrangementLayout
from substrait_agg.state.keys.rows import Hashes
from substrait_agg.state.run import RunFile, is_verified, verify_runs

DRIVER_BYTES = 1 << 18
"""Size limit of a batch on the driver, in bytes as Spark estimates them before reading."""
WITHOUT_JOB = 16
"""How many times as large a batch may be whose rows the driver has without a Spark job."""
GROUPED_WITHOUT_JOB = 64
"""The same for an operator of groups: it takes about a microsecond for a row of a few columns."""
IN_MEMORY = 512
"""The same for rows that a connector gives: to send them to Spark takes longer than to compute."""
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
        state_bytes: limit of what a batch reads of the state of an operator, in bytes: files that
            are not verified yet, and the rows that a join finds. In an object store, it is the
            limit of all files, because they are downloaded.
        rows: limit of the groups that are emitted without input, of the rows of an evolution, and
            of the changes that are consolidated. A Spark job costs more than that.
        change_bytes: size limit of the change files that are consolidated, in bytes.
    """

    batch_bytes: int = DRIVER_BYTES
    state_bytes: int = 1 << 30
    rows: int = 50_000
    change_bytes: int = 4 << 20

    def takes_sums(self, spark: SparkSession, state: OperatorState) -> bool:
        """Return whether the driver may compute batches from partial sums.

        Args:
            spark: session of the run.
            state: the files that have to be read completely (`unread`).
        """
        return bool(self._most(spark)) and self._reads(state)

    def takes_rows(
        self, spark: SparkSession, size: int, state: OperatorState, *, times: int = 1
    ) -> bool:
        """Return whether the driver computes a batch of `size` bytes from its rows.

        Args:
            spark: session of the run.
            size: bytes of the rows.
            state: the files that have to be read completely (`unread`).
            times: factor of the limit, as `limit_times`.
        """
        most = self._most(spark) * times
        return bool(most) and size <= most and self._reads(state)

    def unread(self, job: OperatorJob) -> OperatorState:
        """Return the state files of an operator that the driver has to read completely.

        If they are too large, verify them in a thread, so that later batches fit.
        """
        if self._reads(job.state):
            return job.state
        files = FolderFiles(f"{job.checkpoint}/state")
        if files.is_remote:
            return job.state
        trees = {
            name: tuple(run for run in runs if not is_verified(files, run))
            for name, runs in job.state.trees.items()
        }
        unread = OperatorState.of(trees)
        if not self._reads(unread):
            _VERIFIER.begin(files, unread.runs)
        return unread

    def takes_matches(self, job: OperatorJob, batches: Sequence[pa.RecordBatch]) -> bool:
        """Return whether the rows that a join finds for a batch are few enough.

        Args:
            job: the operator in the batch.
            batches: its rows with the hashes of their keys.

        Raises:
            StateRefused: STATE_DAMAGED.
        """
        if not batches or self._reads(job.state):
            return True
        layouts = job.operator.state_schema(final=job.final).items()
        arranged = {name: kind for name, kind in layouts if isinstance(kind, ArrangementLayout)}
        if job.spec.is_global:  # every row may match, or those of a range
            return (
                sum(run.bytes for name in arranged for run in job.state[name]) <= self.state_bytes
            )
        files = FolderFiles(f"{job.checkpoint}/state")
        hashes_by_port = _hashes_by_port(batches, job.operator.ports)
        read = 0
        for name, layout in arranged.items():
            probes = [h for port, h in hashes_by_port.items() if job.operator.looks_up(name, port)]
            if probes and read <= self.state_bytes:
                hashes = np.unique(np.concatenate(probes))
                read += Arrangement(files, job.state[name], layout).bytes_of(hashes)
        return read <= self.state_bytes

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


class _Verifier:
    """Verifies state files in a thread."""

    def __init__(self) -> None:
        self._thread: Thread | None = None

    def begin(self, files: FolderFiles, runs: Sequence[RunFile]) -> None:
        """Verify runs, unless the thread is still busy with others."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = Thread(target=verify_runs, args=(files, tuple(runs)), daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Wait until all runs are verified."""
        if self._thread is not None:
            self._thread.join()


def _hashes_by_port(batches: Sequence[pa.RecordBatch], ports: int) -> dict[int, Hashes]:
    """Return the sort hashes of the rows of each port; rows without ``__port`` are of port 0."""
    hashes = np.concatenate([sort_hashes(batch) for batch in batches])
    port = np.concatenate(
        [
            pc.fill_null(batch.column(PORT), 0).to_numpy()
            if PORT in batch.schema.names
            else np.zeros(batch.num_rows, np.int8)
            for batch in batches
        ]
    )
    return {number: hashes[port == number] for number in range(ports)}


_VERIFIER = _Verifier()


class RowAccess(IntEnum):
    """How the driver gets the rows of a batch; the worst is that of several parts."""

    MEMORY = 0
    FILES = 1
    JOB = 2


def limit_times(access: RowAccess, operators: Iterable[StatefulOperator]) -> int:
    """Return how many times as large as `Driver.batch_bytes` a batch on the driver may be.

    A batch without a job saves a whole job.

    Args:
        access: how the driver gets the rows.
        operators: the operators that read the rows.
    """
    if access is RowAccess.JOB:
        return 1
    if access is RowAccess.MEMORY:
        return IN_MEMORY
    grouped = all(operator.groups is not None for operator in operators)
    return GROUPED_WITHOUT_JOB if grouped else WITHOUT_JOB


def size_of(frame: DataFrame) -> int:
    """Return the bytes of a batch, as Spark estimates them before reading."""
    return int(str(frame._jdf.queryExecution().analyzed().stats().sizeInBytes()))
