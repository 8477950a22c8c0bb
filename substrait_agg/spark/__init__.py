"""Spark: sources, expressions, the exchange and the loop of batches. The only folder that imports pyspark.

Nothing is imported here: workers import single modules of it. A run begins in `spark.query.start`.
"""
