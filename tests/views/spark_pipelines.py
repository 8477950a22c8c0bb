"""Run an example pipeline with Spark's own pipelines, and write its tables as JSON to stdout.

Arguments: ``brokerage`` or ``warehouse``, a folder for the tables and the storage of the pipeline, and
a seed.
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

from tests.views import warehouse
from tests.views.brokerage import PIPELINE, TABLES, Brokerage, views

BATCHES = 3


def world(seed: int) -> Brokerage:
    """The tables after some batches."""
    made = Brokerage(seed)
    for _ in range(BATCHES):
        made.batch(40)
    return made


def tables(project: str, seed: int) -> dict[str, pa.Table]:
    """The tables that a project reads."""
    if project == "warehouse":
        return warehouse.whole(warehouse.batches(seed, BATCHES))
    rows = world(seed).rows
    return {
        name: pa.Table.from_pylist([dict(zip(schema.names, r, strict=True)) for r in rows[name]], schema)
        for name, schema in TABLES.items()
    }  # fmt: skip


def main(project: str, folder: Path, seed: int) -> None:
    """Create the tables, run the pipeline, and write the rows of each stored view to stdout."""
    definitions = PIPELINE if project == "brokerage" else warehouse.PROJECT / "transformations"
    shutil.copytree(definitions, folder / "transformations")
    spec = folder / "spark-pipeline.yml"
    spec.write_text(
        f"name: {project}\nstorage: file://{folder}/storage\n"
        "libraries:\n  - glob:\n      include: transformations/**\n"
    )
    settings = {"spark.sql.warehouse.dir": f"{folder}/warehouse", "spark.ui.enabled": "false"}
    builder = SparkSession.builder.remote("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for name, table in tables(project, seed).items():
        spark.createDataFrame(table).write.saveAsTable(name)
    # The command stops its session, and with it the catalog in memory.
    with patch.object(type(spark), "stop", lambda _self: None):
        cli.run(spec, [], full_refresh_all=False, refresh=[], dry=False)
    found = {}
    for name in views() if project == "brokerage" else warehouse.VIEWS:
        if spark.catalog.tableExists(name):
            found[name] = sorted(repr(tuple(row)) for row in spark.table(name).collect())
    sys.stdout.write(json.dumps(found) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
