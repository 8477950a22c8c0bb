"""The engines of the benchmarks run the requested workloads on one Spark and report every batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.check import check
from benchmarks.data.bids import bids
from benchmarks.data.churn import churn
from benchmarks.data.data_sets import DataSet, Generator, make
from benchmarks.data.lineitem import lineitem
from benchmarks.data.rows import lists, wide, with_key
from benchmarks.engines.job import Engine, EngineJob
from benchmarks.phases import PHASES
from benchmarks.queries import QUERIES, plan_of
from tests.sampling import sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DRAWN = [["rows", 40]] * 2
LISTS = {"groups": 3, "values": 10, "touched": 2, "each": 2, "kinds": ["rows"]}
DATA: dict[str, tuple[Generator, Mapping[str, Any]]] = {
    "t": (with_key, {"keys": 7, "held": 0, "batches": DRAWN}),
    "churn": (churn, {"rows": 60, "groups": 10, "batch": 4, "pairs": 1}),
    "wide": (wide, {"keys": 7, "batches": DRAWN}),
    "lists": (lists, LISTS),
    "bids": (bids, {"batches": DRAWN}),
    "lineitem": (lineitem, {"scale": 0.001, "refreshes": 1, "share": 0.02}),
}
"""A small data set per table."""

NATIVE = [n for n, q in QUERIES.items() if not q.native and q.table not in ("churn", "lineitem")]


def _data(query: str, folder: Path) -> DataSet:
    generator, parameters = DATA[QUERIES[query].table]
    return make(query, generator, parameters, folder / "data")


def _job(query: str, data: DataSet, folder: Path, *, spark: bool) -> EngineJob:
    """All files at once, a batch each, from a folder of their own as engines get it."""
    inputs = folder / "in"
    inputs.mkdir()
    for file in data.files:
        (inputs / file.name).hardlink_to(data.folder / file.name)
    asked = QUERIES[query]
    return EngineJob(
        lane="lane",
        table=asked.table,
        sql=asked.for_spark() if spark else asked.sql,
        plan=str(plan_of(query)),
        folder=str(inputs),
        files=tuple(file.name for file in data.files),
        batch_files=1,
        changes=data.changes,
        columns={field.name: str(field.type) for field in data.table},
        checkpoint=str(folder / "checkpoint"),
        samples=2,
    )


@pytest.mark.usefixtures("on_spark")
@pytest.mark.parametrize("query", sample(QUERIES, "count_sum_avg", "churn"))
def test_ours_is_right_and_its_phases_are_those_of_its_batches(
    spark: SparkSession, tmp_path: Path, query: str
) -> None:
    """The results of a measured run are compared with the expected rows, and its phases are
    complete and add up.
    """
    from benchmarks.engines.ours import Ours

    data = _data(query, tmp_path)
    job = _job(query, data, tmp_path, spark=False)
    taken = Ours().run(job)
    assert [batch.file for batch in taken] == list(job.files)
    for batch in taken:
        assert batch.written is not None
        assert batch.written > 1000
        assert list(batch.parts) == list(PHASES)
        assert sum(batch.parts.values()) == pytest.approx(batch.seconds, abs=0.05)
        for phase in ("read", "kernel", "write", "commit", "hand-over", "driver"):
            assert batch.parts[phase] > 0, phase
    check(query, data, list(job.files), Path(job.checkpoint), tmp_path)


def _others() -> dict[str, Callable[[], Engine]]:
    from benchmarks.engines import native, recompute

    return {
        "rocksdb": native.rocksdb,
        "default": native.default,
        "floor": native.Floor,
        "batch": recompute.SparkBatch,
        "spark": recompute.Spark,
        "duckdb": recompute.DuckDB,
    }


@pytest.mark.parametrize("engine", ["rocksdb", "default", "floor", "batch", "spark", "duckdb"])
def test_others_tell_of_their_batches(spark: SparkSession, tmp_path: Path, engine: str) -> None:
    data = _data("count_sum_avg", tmp_path)
    job = _job("count_sum_avg", data, tmp_path, spark=engine != "duckdb")
    taken = _others()[engine]().run(job)
    wanted = job.files[-2:] if engine in ("spark", "duckdb") else job.files
    assert [batch.file for batch in taken] == list(wanted)
    assert all(batch.seconds > 0 for batch in taken)


@pytest.mark.parametrize("query", sample(NATIVE, "wide_one"))
def test_spark_streams_what_is_compared_with_it(
    spark: SparkSession, tmp_path: Path, query: str
) -> None:
    """Spark's streaming aggregation accepts each query; the other queries state why it does not."""
    data = _data(query, tmp_path)
    job = _job(query, data, tmp_path, spark=True)
    assert len(_others()["default"]().run(job)) == len(data.files)


@pytest.mark.parametrize("engine", ["floor", "spark", "duckdb"])
def test_others_that_can_take_rows_that_leave(
    spark: SparkSession, tmp_path: Path, engine: str
) -> None:
    data = _data("churn", tmp_path)
    job = _job("churn", data, tmp_path, spark=engine != "duckdb")
    assert len(_others()[engine]().run(job)) == (3 if engine == "floor" else 2)
