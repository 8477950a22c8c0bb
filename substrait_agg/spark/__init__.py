"""Spark: sources, expressions, the exchange and the streaming query. The only folder that imports pyspark."""

from __future__ import annotations

from substrait_agg.spark.run import run
from substrait_agg.spark.running import Run

__all__ = ["Run", "run"]
