"""The same folder of SQL gives the same tables in Spark's own pipelines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import substrait_agg as sa
from tests.views import brokerage, warehouse
from tests.views.spark_pipelines import BATCHES

ROOT = Path(__file__).parents[2]


def spark_tables(project: str, folder: Path) -> dict[str, list[str]]:
    """The tables that `spark-pipelines` makes of a project."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.views.spark_pipelines", project, str(folder), "7"],
        cwd=ROOT, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    tables: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return tables


@pytest.mark.soak
@pytest.mark.parametrize("project", ["brokerage", "warehouse"])
def test_spark_pipelines_make_the_same_tables(
    spark: SparkSession, tmp_path: Path, project: str
) -> None:
    tables = spark_tables(project, tmp_path / "spark")
    if project == "brokerage":
        world, given, path = brokerage.Brokerage(7), brokerage.sources(tmp_path), brokerage.PIPELINE
        for number in range(BATCHES):
            brokerage.write(tmp_path, number, world.batch(40))
    else:
        given, path = warehouse.sources(tmp_path), warehouse.PROJECT
        for number, batch in enumerate(warehouse.batches(7, BATCHES)):
            warehouse.write(tmp_path, number, batch)
    plans = sa.sql_views(path, given, spark=spark)
    sa.run(plans, given, checkpoint=tmp_path / "ckpt", outputs=["none"], spark=spark).wait()
    assert tables.keys() == plans.keys() - plans.temporary
    for name, rows in tables.items():
        view = sa.open_view(tmp_path / "ckpt", name).to_arrow()
        assert sorted(repr(tuple(row.values())) for row in view.to_pylist()) == rows, name
