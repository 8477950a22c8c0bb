"""Run Python tasks on Spark, one per partition.

Each task returns one JSON text to the driver: its result or its error.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from itertools import count, islice
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.conf import RuntimeConfig
from pyspark.sql.types import StringType, StructField, StructType

from substrait_agg.errors import RunFailed, SubstraitAggError
from substrait_agg.runtime.left_out import BatchFunction
from substrait_agg.spark.session.errors import SPARK_ERRORS, batch_failed

_ANSWER = StructType([StructField("result", StringType())])


ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
HANDED_OVER = 1 << 16
"""Rows per Arrow batch between Spark and the tasks. Spark's default of 10,000 costs more calls than
it saves memory."""
_ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_NO_LIMIT = str((1 << 31) - 1)


def run_on_partitions(
    frame: DataFrame,
    work: Callable[[int, Iterator[pa.RecordBatch]], str],
    *,
    rows: int | None = None,
) -> list[str]:
    """Run a function in every partition of a DataFrame and return the results as JSON texts.

    Args:
        frame: its partitions are processed.
        work: takes the number of a partition and its rows, and returns its result as JSON; it runs
            on executors.
        rows: rows per Arrow batch, whatever their size; None lets Spark measure their size.

    Raises:
        RunFailed: a task failed, or Spark could not run the tasks.
    """
    try:
        with nullcontext() if rows is None else _cut_by_rows(frame.sparkSession.conf, rows):
            answers = frame.mapInArrow(_worker(work), _ANSWER).collect()
    except SPARK_ERRORS as error:
        raise batch_failed(error) from error
    return [_check(row.result) for row in answers]


@contextmanager
def _cut_by_rows(conf: RuntimeConfig, rows: int) -> Iterator[None]:
    """Make Spark cut Arrow batches by number of rows alone.

    To cut by bytes too, Spark sums the sizes of all columns after every row. This takes longer than
    the rest of the transfer.
    """
    settings = {ARROW_ROWS: str(rows), _ARROW_BYTES: _NO_LIMIT}
    before = {name: conf.get(name) for name in settings}
    _put(conf, settings)
    try:
        yield
    finally:
        with suppress(*SPARK_ERRORS):  # a stopped Spark has no settings
            _put(conf, before)


def _put(conf: RuntimeConfig, settings: Mapping[str, str | None]) -> None:
    for name, value in settings.items():
        if value is not None:
            conf.set(name, value)


def _worker(work: Callable[[int, Iterator[pa.RecordBatch]], str]) -> BatchFunction:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Do the work of this partition; return its answer as a row."""
        keep_memory()
        _exempt_modules()
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        answer = _answer(lambda: work(partition, batches))
        _read_rest(batches)
        yield pa.RecordBatch.from_pydict({"result": [answer]})

    return run


_REST = 4
"""How many Arrow batches a worker reads without using them. More take longer than a new worker."""


def _read_rest(batches: Iterator[pa.RecordBatch]) -> None:
    """Read the rest of the input of a task that has not read all of it.

    Spark ends a worker whose input has a rest, and the next task waits for the start of a new one.
    """
    for _ in islice(batches, _REST):
        pass


def _answer(work: Callable[[], str]) -> str:
    try:
        return work()
    except SubstraitAggError as error:
        fields = {"code": error.code, "message": error.message, "help": error.help}
        return json.dumps({"error": {**fields, "path": error.path}})


def _check(text: str) -> str:
    body: dict[str, Any] = json.loads(text)
    if "error" in body:
        error = body["error"]
        raise RunFailed(error["code"], error["message"], help=error["help"], path=error["path"])
    return text


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h


_POOL = "ARROW_DEFAULT_MEMORY_POOL"


@cache
def keep_memory() -> None:
    """Make this process, a worker or the driver, keep freed memory: every batch needs as much again.

    Otherwise glibc returns every large array to the system, as Arrow's own allocator does after
    every batch, and page faults take up to a third of its time. A choice in `_POOL` stays.
    """
    if os.environ.get(_POOL):
        return
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return  # another C library
    mallopt(_MMAP_THRESHOLD, 32 << 20)
    mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)
    pa.set_memory_pool(pa.system_memory_pool())


_tasks = count()
"""Counts the tasks of this worker process."""


def _exempt_modules() -> None:
    """Exempt what this worker process has loaded from garbage collection, once.

    PySpark collects garbage after every task, and would visit the objects of all modules each
    time. When the second task begins, it has just done so.
    """
    if next(_tasks) == 1:
        gc.freeze()
