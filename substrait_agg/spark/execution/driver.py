"""Small batches, which the driver computes itself: exchanging a few rows and handing them to Python workers takes longer than all else.

Rows come to the driver as Arrow, in one stage and without an exchange; of large batches of few groups, their partial sums.
One task takes them up, over all hashes: state is the same files for any number of partitions, so the next batch may be computed
on Spark again.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from substrait_agg.commit.documents.snapshot import OperatorState
from substrait_agg.spark.session.errors import SPARK_ERRORS, batch_failed, texts_of
from substrait_agg.spark.session.session import DRIVER_BYTES_SETTING, own_setting

DRIVER_BYTES = 1 << 18
"""Bytes that a batch has, as far as Spark knows before it reads it, up to which the driver computes it."""
STATE_BYTES = 1 << 30
"""Bytes of state up to which the driver looks groups up: it reads each file once to check it."""
_TOO_MUCH = "spark.driver.maxResultSize"


def holds(spark: SparkSession, state: OperatorState) -> bool:
    """Whether the driver computes anything: ``spark.substraitAgg.driverBytes`` is not 0, and the state is not too large."""
    return bool(_most(spark)) and sum(run.bytes for run in state.runs) <= STATE_BYTES


def is_small(spark: SparkSession, size: int, state: OperatorState) -> bool:
    """Whether the driver computes a batch of this size row by row; ``spark.substraitAgg.driverBytes`` says up to which."""
    return holds(spark, state) and size <= _most(spark)


def size_of(frame: DataFrame) -> int:
    """Bytes of a batch, as far as Spark knows before it reads it."""
    return int(str(frame._jdf.queryExecution().analyzed().stats().sizeInBytes()))


def _most(spark: SparkSession) -> int:
    told = spark.conf.get(DRIVER_BYTES_SETTING, None)
    return DRIVER_BYTES if told is None else own_setting(DRIVER_BYTES_SETTING, told)


def on_driver(frame: DataFrame) -> list[pa.RecordBatch] | None:
    """The rows of a DataFrame; None where they are more than Spark hands to a driver.

    Raises:
        RunFailed: Spark could not compute them.
    """
    try:
        rows: pa.Table = frame.toArrow()
    except SPARK_ERRORS as error:
        if any(_TOO_MUCH in text for text in texts_of(error)):
            return None
        raise batch_failed(error) from error
    return list(rows.to_batches())
