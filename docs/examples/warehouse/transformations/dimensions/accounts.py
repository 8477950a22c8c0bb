"""Dimensions of accounts and securities."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


@dp.materialized_view(comment="Open accounts")
def dim_accounts() -> DataFrame:
    """Each open account with its customer."""
    accounts = spark.read.table("open_accounts")
    customers = spark.read.table("dim_customers").select("customer_id", "tier", "country")
    return accounts.join(customers, "customer_id", "left")


@dp.materialized_view(name="dim_securities")
def securities_by_sector() -> DataFrame:
    """The securities that are traded."""
    return spark.table("securities").where(F.col("active")).drop("active")
