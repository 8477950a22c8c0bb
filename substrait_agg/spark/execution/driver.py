"""Compute small batches on the driver.

For a few rows, the exchange and the transfer to Python workers take longer than the computation.
The driver collects the rows as Arrow, in one stage and without an exchange. For a large batch with
few groups it collects the partial sums. One task over all hashes applies them. State files do not
depend on the number of partitions, so the next batch may run on Spark again.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from substrait_agg.commit.documents.snapshot import OperatorState
from substrait_agg.spark.session.errors import SPARK_ERRORS, batch_failed, texts_of
from substrait_agg.spark.session.session import DRIVER_BYTES_SETTING, own_setting

DRIVER_BYTES = 1 << 18
"""Size limit of a batch on the driver, in bytes as Spark estimates them before reading."""
STATE_BYTES = 1 << 30
"""Size limit of the state for lookups on the driver, in bytes: the driver reads each file once to
verify it."""
_TOO_MUCH = "spark.driver.maxResultSize"


def holds(spark: SparkSession, state: OperatorState) -> bool:
    """Return whether the driver may compute batches over this state.

    It may unless ``spark.substraitAgg.driverBytes`` is 0 or the state exceeds `STATE_BYTES`.
    """
    return bool(_most(spark)) and sum(run.bytes for run in state.runs) <= STATE_BYTES


def is_small(spark: SparkSession, size: int, state: OperatorState) -> bool:
    """Return whether the driver computes a batch of `size` bytes from its rows.

    The limit is ``spark.substraitAgg.driverBytes``, by default `DRIVER_BYTES`.
    """
    return holds(spark, state) and size <= _most(spark)


def size_of(frame: DataFrame) -> int:
    """Return the bytes of a batch, as Spark estimates them before reading."""
    return int(str(frame._jdf.queryExecution().analyzed().stats().sizeInBytes()))


def _most(spark: SparkSession) -> int:
    told = spark.conf.get(DRIVER_BYTES_SETTING, None)
    return DRIVER_BYTES if told is None else own_setting(DRIVER_BYTES_SETTING, told)


def on_driver(frame: DataFrame) -> list[pa.RecordBatch] | None:
    """Collect the rows of a DataFrame; None if they exceed ``spark.driver.maxResultSize``.

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
