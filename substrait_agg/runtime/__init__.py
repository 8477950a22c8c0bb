"""What a run does with rows that have come: batches, jobs, event time, recomputation.

Nothing here imports PySpark. An `executor.Executor` computes the operators:
`spark.query.spark_executor.SparkExecutor` on Spark.
"""
