"""Run the example pipeline with Spark's own pipelines, and write its tables as JSON to stdout.

Arguments: a folder for the warehouse and the storage of the pipeline, and a seed.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
from pyspark.pipelines import cli
from pyspark.sql import SparkSession

from tests.views.brokerage import PIPELINE, TABLES, Brokerage, views

BATCHES = 3


def world(seed: int) -> Brokerage:
    """The tables after some batches."""
    made = Brokerage(seed)
    for _ in range(BATCHES):
        made.batch(40)
    return made


def main(folder: Path, seed: int) -> None:
    """Create the tables, run the pipeline, and write the rows of each stored view to stdout."""
    shutil.copytree(PIPELINE, folder / "transformations")
    spec = folder / "spark-pipeline.yml"
    spec.write_text(
        f"name: brokerage\nstorage: file://{folder}/storage\n"
        "libraries:\n  - glob:\n      include: transformations/**\n"
    )
    settings = {"spark.sql.warehouse.dir": f"{folder}/warehouse", "spark.ui.enabled": "false"}
    builder = SparkSession.builder.remote("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for name, schema in TABLES.items():
        rows = [dict(zip(schema.names, row, strict=True)) for row in world(seed).rows[name]]
        spark.createDataFrame(pa.Table.from_pylist(rows, schema)).write.saveAsTable(name)
    # The command stops its session, and with it the catalog in memory.
    with patch.object(type(spark), "stop", lambda _self: None):
        cli.run(spec, [], full_refresh_all=False, refresh=[], dry=False)
    found = {}
    for name in views():
        if spark.catalog.tableExists(name):
            found[name] = sorted(repr(tuple(row)) for row in spark.table(name).collect())
    sys.stdout.write(json.dumps(found) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
