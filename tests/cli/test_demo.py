"""The demo: a small run from another folder, and a test that its check can fail."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from substrait_agg_cli import demo
from substrait_agg_cli.demo_check import QUERIES, changes_add_up, compare, rounded_quotient
from substrait_agg_cli.demo_data import KEYS, create_tables, generate, write_stream

Columns = dict[str, list[Any]]
ROOT = Path(__file__).parents[2]


@pytest.mark.spark
def test_the_demo_passes_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """The demo kills its run halfway and removes the temporary folders that Spark left."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}",
        "TMPDIR": str(tmp_path),
    }
    result = subprocess.run(
        [sys.executable, "-m", "substrait_agg_cli.demo", "--scale", "0.001", "--files", "4"],
        cwd=tempfile.gettempdir(),
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    assert "Killed with SIGKILL after version " in result.stdout
    for query in ("q01", "q03"):
        assert f"{query}: 5 of 5 versions equal: PASS" in result.stdout
        assert f"{query}: changes of all versions add up to the view: PASS" in result.stdout
    assert "FAIL" not in result.stdout
    assert result.stdout.splitlines()[-1].startswith("PASS in ")
    assert not list(tmp_path.iterdir())


def test_the_files_of_every_table_add_up_to_the_table_of_duckdb(tmp_path: Path) -> None:
    """Every step changes every table, and deletes and corrections find rows."""
    with duckdb.connect() as connection:
        create_tables(connection, generate(tmp_path, 0.002))
        steps = list(write_stream(connection, tmp_path / "in", 6))
        assert [step.partition(" ")[0] for step in steps] == [
            *["inserts"] * 3,
            "deletes",
            "corrections",
            "deletes",
        ]
        for table in KEYS:
            columns = ", ".join(
                f'"{c[0]}"' for c in connection.execute(f"DESCRIBE {table}").fetchall()
            )
            summed = (
                f"SELECT {columns} FROM '{tmp_path}/in/{table}/*.parquet' GROUP BY ALL"
                " HAVING sum(CASE WHEN op IN ('insert', 'update_postimage') THEN 1 ELSE -1 END) > 0"
            )
            for left, right in ((summed, f"FROM {table}"), (f"FROM {table}", summed)):
                found = connection.execute(f"({left}) EXCEPT ALL ({right})").fetchall()
                assert not found, table
            for file in sorted((tmp_path / "in" / table).iterdir()):
                (count,) = connection.execute(f"SELECT count(*) FROM '{file}'").fetchall()[0]
                assert count > 0, file


def test_a_version_that_differs_fails_the_check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An equal last version does not hide a wrong one before it."""
    versions = [pa.table({"l_orderkey": keys}) for keys in ([], [7], [7, 8])]
    by_duckdb: list[Columns] = [{"l_orderkey": keys} for keys in ([], [6], [7, 8])]

    class View:
        version = 2

        def to_arrow(self, version: int = 2) -> pa.Table:
            return versions[version]

        def changes(self) -> pa.Table:
            return pa.table({"l_orderkey": [7, 8], "__version": [1, 2], "__weight": [1, 1]})

    monkeypatch.setattr(demo, "open_view", lambda _: View())
    run = demo.DemoRun(query=QUERIES[1], checkpoint=Path("q03"), arguments=(), by_duckdb=by_duckdb)
    assert not demo.check_run(run)
    printed = capsys.readouterr().out
    assert "q03: version 1, l_orderkey, row 0: 7 in the view, 6 by DuckDB" in printed
    assert "q03: 2 of 3 versions equal: FAIL" in printed
    by_duckdb[1]["l_orderkey"] = [7]
    assert demo.check_run(run)


def test_a_value_that_differs_in_the_last_digit_is_found() -> None:
    found: Columns = {"a": [1, 2], "b": [Decimal("1.50"), Decimal("2.51")]}
    wanted: Columns = {"a": [1, 2], "b": [Decimal("1.50"), Decimal("2.50")]}
    first, second = compare(found, wanted)
    assert first.ok
    assert second.different == ((1, Decimal("2.51"), Decimal("2.50")),)


def test_a_missing_row_an_extra_row_and_another_type_are_found() -> None:
    for found in ([1], [1, 2, 3], [1, Decimal(2)], [1, None]):
        (column,) = compare({"a": found}, {"a": [1, 2]})
        assert not column.ok, found


@pytest.mark.parametrize(
    ("total", "count", "average"),
    [("1.00", 8, "0.13"), ("-1.00", 8, "-0.13"), ("2.00", 3, "0.67"), ("1.00", 3, "0.33")],
)
def test_averages_are_rounded_once_half_away_from_zero(
    total: str, count: int, average: str
) -> None:
    found = rounded_quotient(Decimal(total), count, 2)
    assert (found, str(found)) == (Decimal(average), average)


def test_changes_that_do_not_add_up_are_found() -> None:
    columns = {"k": [1, 1, 2], "__version": [0, 1, 1], "__weight": [1, -1, 1]}
    changes = pa.table(columns)
    assert changes_add_up(changes, [(2,)])
    assert not changes_add_up(changes, [(1,), (2,)])
    assert not changes_add_up(changes, [])
