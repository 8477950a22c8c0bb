"""The facts of trades."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


@dp.table
def fact_trades() -> DataFrame:
    """The trades that were executed, with their amounts."""
    trades = spark.readStream.table("trades").where("status = 'CMPT'")
    signed = F.when(F.col("kind") == "SELL", -F.col("quantity")).otherwise(F.col("quantity"))
    return trades.select(
        "trade_id",
        "account_id",
        "symbol",
        F.to_date("traded_at").alias("day"),
        signed.alias("quantity"),
        (signed * F.col("price")).alias("amount"),
        "fee",
    )


@dp.materialized_view
def fact_holdings() -> DataFrame:
    """The number of securities that each account has."""
    return (
        spark.table("fact_trades")
        .groupBy("account_id", "symbol")
        .agg(
            F.sum("quantity").alias("quantity"),
            F.sum("amount").alias("cost"),
            F.max("day").alias("last_day"),
        )
        .where("quantity <> 0")
    )
