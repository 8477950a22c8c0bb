"""Read views over Spark Connect in a separate server and print the result as JSON: CHECKPOINT
FOLDER.
"""

from __future__ import annotations

import json
import sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def main(checkpoint: str, folder: str) -> None:
    """Read rows, changes in SQL, an absent version, and a stream."""
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    reader = spark.read.format("substrait_agg")
    rows = reader.load(checkpoint)
    spark.sql(
        f"CREATE TEMPORARY VIEW changes USING substrait_agg OPTIONS (path '{checkpoint}', changes 'all')"
    )
    changes = spark.sql("SELECT count(*), sum(__weight) FROM changes").collect()[0]
    try:
        refused = str(reader.option("version", 99).load(checkpoint).schema)
    except PySparkException as error:
        refused = str(error)
    stream = spark.readStream.format("substrait_agg").option("changes", "rows").load(checkpoint)
    written = stream.writeStream.trigger(availableNow=True).format("parquet")
    written.start(f"{folder}/out", checkpointLocation=f"{folder}/stream").awaitTermination()
    found = {
        "client": type(spark).__module__,
        "columns": rows.columns,
        "rows": rows.select("team", "s").toArrow().to_pylist(),
        "changes": list(changes),
        "refused": refused,
        "streamed": spark.read.parquet(f"{folder}/out").count(),
    }
    spark.stop()
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
