"""Ours against DuckDB over the same rows: the speed of wrong answers is not measured."""

from __future__ import annotations

from pathlib import Path

import duckdb

import substrait_agg as sa
from benchmarks.data.data_sets import DataSet
from benchmarks.queries import QUERIES


class WrongView(Exception):
    """A view is not what DuckDB computes."""


def check(query: str, data: DataSet, names: list[str], checkpoint: Path, scratch: Path) -> None:
    """Compare a view with DuckDB's answer over some files of a data set, value by value.

    Raises:
        Wrong: a row is missing, or one too many is there.
    """
    asked = QUERIES[query]
    with duckdb.connect(str(scratch / "check.duckdb")) as connection:
        connection.execute(f"CREATE OR REPLACE VIEW {asked.table} AS {_alive(data, names)}")
        connection.register("view", sa.open_view(checkpoint).to_arrow())
        connection.execute(f"CREATE OR REPLACE TABLE shown AS {asked.shown}")
        connection.execute(f"CREATE OR REPLACE TABLE expected AS {asked.expected or asked.sql}")
        for left, right, what in (
            ("expected", "shown", "missing"),
            ("shown", "expected", "too many"),
        ):
            rows = connection.execute(f"FROM {left} EXCEPT ALL FROM {right} LIMIT 3").fetchall()
            if rows:
                raise WrongView(f"{query} over {data.folder.name}: {what}: {rows}")


def _alive(data: DataSet, names: list[str]) -> str:
    paths = [str(data.folder / name) for name in names]
    columns = ", ".join(data.table.names)
    if not data.changes:
        return f"SELECT {columns} FROM read_parquet({paths})"
    return (
        f"SELECT {columns} FROM (SELECT {columns}, id FROM read_parquet({paths}) GROUP BY ALL"
        " HAVING sum(CASE op WHEN 'insert' THEN 1 ELSE -1 END) > 0)"
    )
