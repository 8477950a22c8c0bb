"""The data and the table of the benchmark of refresh pairs."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

import substrait_agg as sa
from benchmarks import plot, refresh_scales, stream_joins
from benchmarks.data import refreshes, tpch
from benchmarks.refresh import QueryResult, table
from benchmarks.stream_joins import JoinResult, JoinRun
from tests.local.run import run

pytestmark = pytest.mark.usefixtures("spark")


@pytest.mark.parametrize("pairs", [3])
def test_the_change_files_add_up_to_the_last_rows(pairs: int, tmp_path: Path) -> None:
    data = refreshes.make(0.002, pairs, 0.05, tmp_path)
    for name in tpch.KEYS:
        files = sorted(data.changes(name).iterdir())
        assert len(files) == (1 + pairs if name in refreshes.REFRESHED else 1)
        changes = f"FROM '{data.changes(name)}/*.parquet'"
        inserts = f"SELECT * EXCLUDE (op) {changes} WHERE op = 'insert'"
        deletes = f"SELECT * EXCLUDE (op) {changes} WHERE op = 'delete'"
        final = f"FROM '{data.final(name)}'"
        with duckdb.connect() as connection:
            left = f"({inserts}) EXCEPT ALL ({deletes})"
            assert not connection.execute(f"({left}) EXCEPT ALL ({final})").fetchall()
            assert not connection.execute(f"({final}) EXCEPT ALL ({left})").fetchall()
            for file in files[1:]:
                ops = connection.execute(f"SELECT DISTINCT op FROM '{file}' ORDER BY op").fetchall()
                assert ops == [("delete",), ("insert",)]
    assert refreshes.make(0.002, pairs, 0.05, tmp_path) == data


def test_the_tables_of_a_query_are_those_of_its_text() -> None:
    assert tpch.tables_of(3) == ("customer", "orders", "lineitem")
    assert tpch.tables_of(18) == ("customer", "orders", "lineitem")
    assert tpch.tables_of(21) == ("nation", "supplier", "orders", "lineitem")
    assert len(tpch.tables_of(5)) == 6


def test_ratios_are_those_of_one_run() -> None:
    result = QueryResult(
        3, refresh=0.5, aggregate=0.25, duckdb=0.1, spark=2.0, written=8.0, state=1_500_000
    )
    assert table([result]).splitlines()[-1] == "| Q3 | 2.0 | 0.20 | 4.0 | 8.0 | 1.5 |"


def test_refreshes_without_deletions_only_insert(tmp_path: Path) -> None:
    data = refreshes.make(0.002, 2, 0.05, tmp_path, deletes=False)
    for name in tpch.KEYS:
        files = sorted(data.changes(name).iterdir())
        with duckdb.connect() as connection:
            sizes = [
                connection.execute(f"SELECT count(*) FROM '{file}'").fetchall() for file in files
            ]
            ops = connection.execute(
                f"SELECT DISTINCT op FROM '{data.changes(name)}/*.parquet'"
            ).fetchall()
            final = connection.execute(f"SELECT count(*) FROM '{data.final(name)}'").fetchall()
        assert ops == [("insert",)]
        assert sum(rows for ((rows,),) in sizes) == final[0][0]
        assert all(rows for ((rows,),) in sizes)


def measured(scale: float, seconds: float) -> dict[str, Any]:
    result = QueryResult(3, seconds, 0.1, 0.2, 2.0, written=1.0, state=1)
    run = JoinRun(seconds, cpu=0.2, state=2_000_000, rows=9)
    return {
        "scale": scale, "load": [1.5, 1, 1], "queries": [asdict(result)],
        "joins": [asdict(JoinResult(3, run, replace(run, seconds=4 * seconds)))],
    }  # fmt: skip


def test_scales_are_stored_in_one_file_and_drawn(tmp_path: Path) -> None:
    """A scale that is measured again replaces its earlier figures."""
    file = tmp_path / "refresh.json"
    for scale, seconds in ((1.0, 3.0), (0.1, 0.5), (1.0, 2.0)):
        refresh_scales.store(file, measured(scale, seconds))
    scales = json.loads(file.read_text())["scales"]
    assert [(one["scale"], one["queries"][0]["refresh"]) for one in scales] == [
        (0.1, 0.5),
        (1.0, 2.0),
    ]
    assert refresh_scales.main(["--plots", str(file)]) == 0
    drawn = file.with_suffix(".svg").read_text()
    assert drawn == plot.picture({"scales": scales})
    for text in ("Q3: a refresh pair", "join of Q3", "SF 0.1", "SF 1", "Spark stream-stream"):
        assert text in drawn
    assert drawn.count("<polyline") == 5
    lines = refresh_scales.table(scales[1]).splitlines()
    assert lines[-1].startswith("| the join of Q3, inserts | 2.000 (0.20 s of processors, 2.0 MB)")
    assert "stream-stream join 8.000" in lines[-1]


@pytest.mark.parametrize("query", stream_joins.QUERIES)
def test_the_joins_have_the_rows_that_the_query_aggregates(query: int, tmp_path: Path) -> None:
    """On the local executor, over a load and two refreshes."""
    data = refreshes.make(0.002, 2, 0.05, tmp_path, deletes=False)
    tables, text = stream_joins.QUERIES[query]
    assert tables == tuple(sorted(tpch.tables_of(query), key=tables.index))
    sources = {name: f"parquet:{data.changes(name)}?batch-files=1" for name in tables}
    run(sa.sql(text, sources), sources, checkpoint=tmp_path / "c", outputs=["none"]).wait()
    view = sa.open_view(tmp_path / "c").to_arrow()
    with duckdb.connect() as connection:
        for name in tables:
            connection.execute(f"CREATE VIEW {name} AS FROM '{data.final(name)}'")
        expected = connection.execute(text).fetchall()
    rows = list(zip(*(column.to_pylist() for column in view.columns), strict=True))
    assert tpch.same_rows(rows, expected)


def test_rows_that_are_equal_when_rounded_are_compared_in_one_order() -> None:
    """Otherwise two results of the same rows in another order would differ."""
    rows = [(1, 1.04, 0.02), (1, 1.01, 0.05)]
    assert tpch.same_rows(rows, rows[::-1])
    assert not tpch.same_rows(rows, [(1, 1.04, 0.05), (1, 1.01, 0.02)])
