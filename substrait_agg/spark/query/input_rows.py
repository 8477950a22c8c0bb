"""Add rows that the driver read without Spark to the progress of Spark's query."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pyspark.sql import SparkSession

from substrait_agg.spark.session.errors import SPARK_ERRORS

_METRIC = "numOutputRows"


def add_input_rows(spark: SparkSession, query: str, rows: Sequence[int]) -> None:
    """Add rows to ``numInputRows`` of the batch in progress.

    Spark adds up the rows that the scans of a batch return. It has a scan for each source with rows.

    Args:
        spark: the session that started the query.
        query: id of the query.
        rows: the number of rows of each source that has any, in the order of the sources.
    """
    if not rows:
        return
    # The number is only shown: a Spark with other classes shows zero.
    with suppress(*SPARK_ERRORS, TypeError):
        session: Any = spark._jsparkSession
        plan = session.streams().get(query).streamingQuery().lastExecution().executedPlan()
        scans = plan.collectLeaves()
        if scans.size() != len(rows):
            return
        for place, count in enumerate(rows):
            scans.apply(place).metrics().apply(_METRIC).add(count)
