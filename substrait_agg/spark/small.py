"""Small batches, which the driver computes itself: exchanging a few rows and handing them to Python workers takes longer than all else.

Rows come to the driver as Arrow, in one stage and without an exchange. One task takes them up, over all hashes: state is the
same files for any number of partitions, so the next batch may be computed on Spark again.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame

from substrait_agg.commit.snapshot import OperatorState
from substrait_agg.operator.spec import OperatorSpec
from substrait_agg.spark.partial import unplaced_rows
from substrait_agg.spark.reasons import SPARK_ERRORS, batch_failed
from substrait_agg.spark.recipes import Recipes
from substrait_agg.spark.session import DRIVER_BYTES_SETTING, own_setting

DRIVER_BYTES = 1 << 18
"""Bytes that a batch has, as far as Spark knows before it reads it, up to which the driver computes it."""
STATE_BYTES = 1 << 30
"""Bytes of state up to which the driver looks groups up: it reads each file once to check it."""
_TOO_MUCH = "spark.driver.maxResultSize"


def is_small(frame: DataFrame, state: OperatorState) -> bool:
    """Whether the driver computes this batch; ``spark.substraitAgg.driverBytes`` says up to which size, 0 for never."""
    if sum(run.bytes for run in state.runs) > STATE_BYTES:
        return False
    told = frame.sparkSession.conf.get(DRIVER_BYTES_SETTING, None)
    most = DRIVER_BYTES if told is None else own_setting(DRIVER_BYTES_SETTING, told)
    if not most:
        return False
    size = frame._jdf.queryExecution().analyzed().stats().sizeInBytes()
    return int(str(size)) <= most


def rows_on_driver(
    frame: DataFrame, spec: OperatorSpec, recipes: Recipes
) -> list[pa.RecordBatch] | None:
    """The rows of a batch with the hashes of their keys; None where they are more than Spark hands to a driver.

    Raises:
        RunFailed: Spark could not compute them.
    """
    try:
        told = recipes.over(frame, "unplaced", lambda rows: unplaced_rows(rows, spec))
        rows: pa.Table = told.toArrow()
    except SPARK_ERRORS as error:
        if _TOO_MUCH in str(error):
            return None
        raise batch_failed(error) from error
    return list(rows.to_batches())
