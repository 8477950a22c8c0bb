"""A table that an Auto CDC flow of a declarative pipeline keeps equal to a view."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
CHECKPOINT = spark.conf.get("goals.checkpoint")


@dp.temporary_view
def changes() -> DataFrame:
    """The changes of the view. An update is a retraction and an insertion, in this order."""
    return (
        spark.readStream.format("substrait_agg")
        .option("changes", "rows")
        .load(CHECKPOINT)
        .selectExpr(
            "team",
            "CAST(w AS STRING) AS window",
            "c",
            "s",
            "__weight",
            "struct(__version, __weight) AS position",
        )
    )


dp.create_streaming_table("latest")  # for example format="iceberg"
dp.create_auto_cdc_flow(
    target="latest",
    source="changes",
    keys=["team", "window"],
    sequence_by="position",
    apply_as_deletes="__weight < 0",
    except_column_list=["__weight", "position"],
)
