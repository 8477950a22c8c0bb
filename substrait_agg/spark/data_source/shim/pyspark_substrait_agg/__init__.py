"""The entry point by which Spark finds the data source ``substrait_agg``.

Spark imports every package whose name begins with ``pyspark_`` and registers its `DefaultSource`.
"""

from __future__ import annotations

from substrait_agg.spark.data_source.source import DefaultSource

__all__ = ["DefaultSource"]
