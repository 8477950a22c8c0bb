"""The models of TPC-DI as views: each table after each batch, by changes and computed again by others."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import substrait_agg as sa
from benchmarks.tpcdi import run
from benchmarks.tpcdi.generate import tables as generated
from benchmarks.tpcdi.models.texts import for_duckdb, queries, script, tables
from benchmarks.tpcdi.schema import SCHEMAS
from benchmarks.tpcdi.sizes import BATCHES as COUNT
from tests.local.run import LocalRun
from tests.spark_plans import plan_views

SCALE = 0.01
BATCHES = range(1, COUNT + 1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the raw tables: a folder per table, and in it a file per batch."""
    folder = tmp_path_factory.mktemp("tpcdi")
    for name in tables():
        (folder / name).mkdir()
        for batch in BATCHES:
            pq.write_table(SCHEMAS[name].empty_table(), folder / name / f"{batch}.parquet")
    for batch, name, rows in generated(SCALE):
        pq.write_table(rows, folder / name / f"{batch}.parquet")
    return folder


def test_every_model_equals_duckdb_after_every_batch(
    data: Path, spark: SparkSession, tmp_path: Path
) -> None:
    assert spark is not None
    plans = plan_views({"models.sql": script()}, {})
    assert len(plans) == len(queries()) == 49
    sources = {name: f"parquet:{data / name}?batch-files=1" for name in tables()}
    LocalRun(plans, sources, checkpoint=tmp_path / "c", partitions=1, keep_versions=10).wait()
    for batch in BATCHES:
        with duckdb.connect() as connection:
            _fill(connection, data, batch)
            for name, text in queries().items():
                connection.execute(f"CREATE TABLE {name} AS {for_duckdb(text)}")
                kept = sa.open_view(tmp_path / "c", name).to_arrow(batch)
                assert kept.num_rows or batch < COUNT, name
                connection.register("kept", kept)
                for sides in (("kept", name), (name, "kept")):
                    rows = connection.sql("FROM {} EXCEPT ALL FROM {} LIMIT 3".format(*sides))
                    assert not rows.fetchall(), f"{name} after batch {batch}: {sides}"


def test_the_figures_of_scales_are_kept_and_drawn(tmp_path: Path) -> None:
    for scale, seconds in ((1, 9.0), (0.3, 4.0)):
        data = tmp_path / str(scale)
        data.mkdir()
        (data / "made.json").write_text(json.dumps({"scale": scale, "seed": 1}))
        done = [run.BatchResult(batch, seconds, 1.0, 20.0, 0.5, {"v": 1}) for batch in BATCHES]
        run.keep(data, done, tmp_path / "tpcdi.json")
    scales = json.loads((tmp_path / "tpcdi.json").read_text())["scales"]
    assert [(one["scale"], one["batches"][1]["ours"]) for one in scales] == [(0.3, 4.0), (1, 9.0)]
    drawn = (tmp_path / "tpcdi.svg").read_text()
    assert drawn.count("<polyline") == 9
    assert all(text in drawn for text in ("batch 3, s", "SF 0.3", "ours", "DuckDB again"))
    assert "stream-stream" not in drawn


def _fill(connection: duckdb.DuckDBPyConnection, data: Path, batch: int) -> None:
    """Make the raw tables with the rows of the batches so far."""
    connection.execute("SET TimeZone = 'UTC'")
    for name, columns in tables().items():
        files = [str(data / name / f"{number}.parquet") for number in range(1, batch + 1)]
        connection.execute(f"CREATE TABLE {name} ({columns})")
        connection.execute(f"INSERT INTO {name} FROM read_parquet({files})")
