"""Look at the plan of Spark's batch in progress, and add rows to its progress."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pyspark.sql import SparkSession

from substrait_agg.spark.session.errors import SPARK_ERRORS

_METRIC = "numOutputRows"


def input_scans(spark: SparkSession, query: str) -> list[Any]:
    """Return the metric of Spark for the rows of each scan of the batch in progress.

    Spark has a scan for each source with rows, in the order of the sources.

    Args:
        spark: the session that started the query.
        query: id of the query.
    """
    # The number is only shown: a Spark with other classes shows zero.
    with suppress(*SPARK_ERRORS, TypeError):
        return [scan.metrics().apply(_METRIC) for scan in _scans(spark, query)]
    return []


def listed_files(spark: SparkSession, query: str) -> frozenset[str]:
    """Return the files that Spark has listed to read the batch in progress, as in its log.

    Args:
        spark: the session that started the query.
        query: id of the query.

    Returns:
        Nothing if Spark has no batch, or other classes.
    """
    files: list[str] = []
    with suppress(*SPARK_ERRORS, TypeError):
        for scan in _scans(spark, query):
            with suppress(*SPARK_ERRORS, TypeError):  # rows of a source without files
                files.extend(scan.relation().location().inputFiles())
    return frozenset(files)


def _scans(spark: SparkSession, query: str) -> list[Any]:
    session: Any = spark._jsparkSession
    plan = session.streams().get(query).streamingQuery().lastExecution().executedPlan()
    scans = plan.collectLeaves()
    return [scans.apply(i) for i in range(scans.size())]


def add_input_rows(scans: Sequence[Any], rows: Sequence[int]) -> None:
    """Add rows to ``numInputRows`` of the batch in progress, which adds up the rows of its scans.

    Args:
        scans: the metrics of the scans, as `input_scans`.
        rows: the number of rows of each source that has any, in the order of the sources.
    """
    if len(scans) == len(rows):
        with suppress(*SPARK_ERRORS):
            for scan, count in zip(scans, rows, strict=True):
                scan.add(count)
