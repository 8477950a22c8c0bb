"""Tables of a declarative pipeline that follow a view: its rows, its changes, and sums over its changes."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
CHECKPOINT = spark.conf.get("goals.checkpoint")


@dp.materialized_view
def goals() -> DataFrame:
    """The rows of the newest version."""
    return spark.read.format("substrait_agg").load(CHECKPOINT).select("team", "c", "s")


@dp.table
def goal_changes() -> DataFrame:
    """The rows of the view when the pipeline began, then its changes."""
    changes = spark.readStream.format("substrait_agg").option("changes", "rows").load(CHECKPOINT)
    return changes.select("team", "c", "s", "__version", "__weight")


@dp.materialized_view
def weights() -> DataFrame:
    """The number of rows of the view per version."""
    return (
        spark.table("goal_changes")
        .groupBy("__version")
        .agg({"__weight": "sum"})
        .toDF("version", "rows")
    )
