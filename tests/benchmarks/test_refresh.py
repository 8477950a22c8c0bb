"""The data and the table of the benchmark of refresh pairs."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from benchmarks.data import refreshes, tpch
from benchmarks.refresh import QueryResult, table, tables_of


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
    assert tables_of(3) == ("customer", "orders", "lineitem")
    assert tables_of(18) == ("customer", "orders", "lineitem")
    assert tables_of(21) == ("nation", "supplier", "orders", "lineitem")
    assert len(tables_of(5)) == 6


def test_ratios_are_those_of_one_run() -> None:
    result = QueryResult(
        3, refresh=0.5, aggregate=0.25, duckdb=0.1, spark=2.0, written=8.0, state=1_500_000
    )
    assert table([result]).splitlines()[-1] == "| Q3 | 2.0 | 0.20 | 4.0 | 8.0 | 1.5 |"
