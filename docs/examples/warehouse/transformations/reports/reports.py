"""Reports over the facts."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


@dp.temporary_view
def valued_holdings() -> DataFrame:
    """The holdings at the latest prices."""
    return spark.sql(
        "SELECT h.account_id, h.symbol, e.sector, h.cost, h.quantity * e.latest AS worth "
        "FROM fact_holdings h JOIN market_extremes e ON h.symbol = e.symbol"
    )


@dp.materialized_view
def broker_report() -> DataFrame:
    """What the customers of each broker have."""
    accounts = spark.table("dim_accounts")
    return (
        spark.table("valued_holdings")
        .join(accounts, "account_id")
        .groupBy("broker", "tier")
        .agg(
            F.sum("worth").alias("worth"),
            F.sum("cost").alias("cost"),
            F.countDistinct("account_id").alias("accounts"),
        )
    )
