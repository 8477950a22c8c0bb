"""Prepare Spark for the first batch in the background, while the run is still being prepared.

A new JVM loads and compiles the code of a batch when it is first used, and Spark starts Python
workers when the first task needs one. Both take longer than the batch itself. Both can run beside
the opening of sources and the planning of the query, which use one core.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any
from weakref import WeakSet

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.operator.registry import operator_of
from substrait_agg.spark.execution.driver import DRIVER_BYTES, limit_without_job
from substrait_agg.spark.execution.operator_job import rows_per_input_row
from substrait_agg.spark.execution.task_runner import run_on_partitions
from substrait_agg.spark.inputs.inputs import Inputs, Source
from substrait_agg.spark.sources.files import any_file, local_sizes
from substrait_agg.spark.sources.specs import as_spec

TASK_MODULES = ("substrait_agg.commit.runtime.task", "substrait_agg.operator.registry")
"""Modules that a task of a batch loads."""

UNPACKED = 2
"""Bytes in memory of a byte of a Parquet file, about."""

_warm: dict[str, WeakSet[SparkContext]] = {
    "driver": WeakSet(),
    "scan": WeakSet(),
    "workers": WeakSet(),
}


def warm_driver(spark: SparkSession) -> None:
    """Load the classes of a batch on the driver: a scan, a projection, rows handed over as Arrow."""
    _once("driver", spark, _rows)


def warm_scan(spark: SparkSession, inputs: Inputs) -> None:
    """Plan a batch of one file and generate its code, as Spark does for each batch of a stream.

    Spark keeps compiled code by its text, so the first batch finds it. Does nothing unless the
    stream reads Parquet files of one table.
    """
    if len(inputs.streams) != 1:
        return
    source = inputs.streams[0]
    if isinstance(source, DataFrame):
        return
    path = any_file(as_spec(source).location)
    if path is not None:
        _once("scan", spark, lambda _: _generate(inputs.batch_of_file(path)))


def _generate(rows: DataFrame | None) -> None:
    """Have Spark plan a DataFrame and compile its code, without a job."""
    if rows is not None:
        rows._jdf.queryExecution().toRdd()


def warm_workers(
    spark: SparkSession, tasks: int, size: int | None, limit: int = DRIVER_BYTES
) -> None:
    """Start Python workers and load the modules of tasks in them.

    Does nothing if the driver will compute the first batch.

    Args:
        spark: the session of the run.
        tasks: the number of tasks of a batch.
        size: bytes of the first batch, None if unknown.
        limit: bytes up to which the driver computes it.
    """
    if size is None or size > limit:
        _once("workers", spark, lambda session: _workers(session, tasks))


def driver_limit(flow: Flow, *, has_readers: bool) -> int:
    """Return the bytes of files up to which the driver probably computes the first batch.

    Args:
        flow: the plan.
        has_readers: whether the driver reads the files itself.
    """
    if not has_readers:
        return DRIVER_BYTES
    operators = [operator_of(node) for node in flow.operators]
    repeated = max((rows_per_input_row(operator.spec) for operator in operators), default=1)
    return DRIVER_BYTES * limit_without_job(operators) // (UNPACKED * repeated)


def first_bytes(sources: Iterable[Source]) -> int | None:
    """Return the bytes of the files of the first batch, None if only a remote system knows them."""
    sizes = [_first_bytes(source) for source in sources]
    local_sizes = [size for size in sizes if size is not None]
    return sum(local_sizes) if len(local_sizes) == len(sizes) else None


def _first_bytes(source: Source) -> int | None:
    if isinstance(source, DataFrame):
        return None
    spec = as_spec(source)
    here = local_sizes(spec.location) if spec.is_files else None
    return None if here is None else sum(here[: spec.batch_files])


def _once(what: str, spark: SparkSession, work: Callable[[SparkSession], Any]) -> None:
    context = spark.sparkContext
    if context in _warm[what]:
        return
    _warm[what].add(context)

    def run() -> None:
        # Nothing depends on this work. An error here occurs again, and is reported, in the batch.
        with suppress(Exception):
            context.setLocalProperty("spark.job.description", "substrait-agg: warm up")
            work(spark.newSession())

    threading.Thread(target=run, name=f"warm-up-{what}", daemon=True).start()


def _rows(spark: SparkSession) -> None:
    number = F.col("id")
    frame = spark.range(0, 1, 1, 1).select(
        number, F.xxhash64(number).alias("h"), number.cast("double")
    )
    frame.toArrow()


def _workers(spark: SparkSession, tasks: int) -> None:
    modules = TASK_MODULES

    def load(_partition: int, batches: Iterator[pa.RecordBatch]) -> str:
        # Spark sends the code of this function, so a worker does not import this module.
        loaded = [import_module(name).__name__ for name in modules]
        return json.dumps({"modules": loaded, "batches": sum(1 for _ in batches)})

    beside = max(1, min(tasks, spark.sparkContext.defaultParallelism))
    run_on_partitions(spark.range(0, beside, 1, beside), load)
