"""Consolidate the changes of a version: few on the driver, many with an exchange on Spark.

The arithmetic is in `commit.tasks.consolidate`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from substrait_agg.commit.documents.json_codec import from_line, to_line
from substrait_agg.commit.tasks.consolidate import (
    Consolidated,
    Consolidation,
    consolidate_partition,
    exchanged_rows,
)
from substrait_agg.runtime.in_process import consolidate_here
from substrait_agg.spark.execution.driver import Driver
from substrait_agg.spark.execution.task_runner import run_on_partitions


def consolidate(
    spark: SparkSession, work: Consolidation, partitions: int, driver: Driver
) -> Consolidated | None:
    """Consolidate the changes of a version; None if no two rows are equal and the files can stay.

    Args:
        spark: session in which the job runs.
        work: the changes.
        partitions: state partitions, a power of two.
        driver: what the driver computes itself.

    Raises:
        RunFailed: nothing was committed.
    """
    if driver.takes_changes(work):
        return consolidate_here(work)
    if work.rows < 2:
        return None

    def add_up(partition: int, batches: Iterator[pa.RecordBatch]) -> str:
        """Consolidate the rows of a partition."""
        streams = (bytes(s.as_buffer()) for batch in batches for s in batch.column("rows"))
        return to_line(consolidate_partition(work, partition, partitions, streams))

    done = run_on_partitions(_exchange(spark, work, partitions), add_up)
    return Consolidated.combine([from_line(Consolidated, result) for result in done])


def _exchange(spark: SparkSession, work: Consolidation, partitions: int) -> DataFrame:
    """Return the changes as Arrow streams, each in its partition."""

    def cut(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Cut change files into one Arrow stream per partition."""
        for batch in batches:
            for number in batch.column("id").to_pylist():
                for part, rows in exchanged_rows(work, work.changes[number], partitions):
                    yield pa.RecordBatch.from_pydict(
                        {
                            "part": pa.array([part], pa.int32()),
                            "rows": pa.array([rows], pa.binary()),
                        }
                    )

    files = len(work.changes)
    numbers = spark.range(0, files, 1, min(files, partitions))
    cuts = numbers.mapInArrow(cut, "part int, rows binary")
    return cuts.repartitionById(partitions, F.col("part"))
