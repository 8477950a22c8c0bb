"""Tasks in Python workers, one per partition: each tells the driver one line of JSON, its result or the error that it failed with."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.conf import RuntimeConfig
from pyspark.sql.types import StringType, StructField, StructType

from substrait_agg.errors import RunFailed, SubstraitAggError
from substrait_agg.spark.session.errors import SPARK_ERRORS, batch_failed

BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What Spark runs in a worker over the rows of a partition."""

_ANSWER = StructType([StructField("result", StringType())])


ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
HANDED_OVER = 1 << 16
"""Rows per Arrow batch between Spark and the tasks; Spark's own 10,000 costs more calls than it saves memory."""
_ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_NO_LIMIT = str((1 << 31) - 1)


def run_on_partitions(
    frame: DataFrame,
    work: Callable[[int, Iterator[pa.RecordBatch]], str],
    *,
    rows: int | None = None,
) -> list[str]:
    """Do some work in every partition of a DataFrame.

    Args:
        frame: whose partitions.
        work: is given the number of a partition and its rows, and tells its result as JSON; it runs on executors.
        rows: how many rows Spark hands over at once, however long they are; None where it weighs them.

    Raises:
        RunFailed: what a task failed with, or Spark could not run them.
    """
    try:
        with nullcontext() if rows is None else _unweighed(frame.sparkSession.conf, rows):
            told = frame.mapInArrow(_worker(work), _ANSWER).collect()
    except SPARK_ERRORS as error:
        raise batch_failed(error) from error
    return [_checked(row.result) for row in told]


@contextmanager
def _unweighed(conf: RuntimeConfig, rows: int) -> Iterator[None]:
    """Let Spark cut what it hands over by rows alone.

    To cut by bytes as well it adds up the sizes of all columns after every row, which takes longer than all the rest of
    handing it over.
    """
    chosen = {ARROW_ROWS: str(rows), _ARROW_BYTES: _NO_LIMIT}
    before = {name: conf.get(name) for name in chosen}
    _put(conf, chosen)
    try:
        yield
    finally:
        with suppress(*SPARK_ERRORS):  # a Spark that is gone has no settings any more
            _put(conf, before)


def _put(conf: RuntimeConfig, settings: Mapping[str, str | None]) -> None:
    for name, value in settings.items():
        if value is not None:
            conf.set(name, value)


def _worker(work: Callable[[int, Iterator[pa.RecordBatch]], str]) -> BatchFunction:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _keep_memory()
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        yield pa.RecordBatch.from_pydict({"result": [_answer(lambda: work(partition, batches))]})

    return run


def _answer(work: Callable[[], str]) -> str:
    try:
        return work()
    except SubstraitAggError as error:
        told = {"code": error.code, "message": error.message, "help": error.help}
        return json.dumps({"error": {**told, "path": error.path}})


def _checked(text: str) -> str:
    body: dict[str, Any] = json.loads(text)
    if "error" in body:
        error = body["error"]
        raise RunFailed(error["code"], error["message"], help=error["help"], path=error["path"])
    return text


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h


@cache
def _keep_memory() -> None:
    """Let this worker process keep the memory it frees: every batch needs as much again.

    Otherwise glibc gives every large array back to the system, and a third of a task's time goes into page faults.
    """
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return  # another C library
    mallopt(_MMAP_THRESHOLD, 32 << 20)
    mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)
