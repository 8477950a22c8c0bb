"""Answers against DuckDB over the same rows: the speed of wrong answers is not measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb

import substrait_agg as sa
from benchmarks.data.data_sets import DataSet
from benchmarks.queries import QUERIES


class WrongView(Exception):
    """A view is not what DuckDB computes."""


def check(query: str, data: DataSet, names: list[str], checkpoint: Path, scratch: Path) -> None:
    """Compare a view of ours with DuckDB's answer over some files of a data set, value by value.

    Raises:
        WrongView: a row is missing, or one too many is there.
    """
    with duckdb.connect(str(scratch / "check.duckdb")) as connection:
        connection.register("view", sa.open_view(checkpoint).to_arrow())
        _compare(connection, query, data, names, "our view")


def check_answer(query: str, data: DataSet, names: list[str], answer: Path, scratch: Path) -> None:
    """Compare the answer of another engine with DuckDB's.

    Args:
        query: name of the query.
        data: the data set.
        names: of its files that the engine has read.
        answer: folder of what the engine wrote; see `answered_rows`.
        scratch: folder for a database.

    Raises:
        WrongView: a row is missing, or one too many is there.
    """
    with duckdb.connect(str(scratch / "check.duckdb")) as connection:
        asked = QUERIES[query]
        connection.execute(f"CREATE OR REPLACE VIEW {asked.table} AS {_alive(data, names)}")
        described = connection.execute(f"DESCRIBE {asked.sql}").fetchall()
        types = {name: kind for name, kind, *_ in described}
        connection.execute(f"CREATE OR REPLACE TEMP VIEW view AS {answered_rows(answer, types)}")
        _compare(connection, query, data, names, str(answer))


def answered_rows(answer: Path, types: dict[str, str]) -> str:
    """Return the query of the rows that an engine has answered with.

    A folder of Parquet files has the rows themselves. CSV files have changes: rows with a last
    column ``diff`` (1 or -1), or with a column ``op`` (``INSERT``, ``UPDATE_BEFORE``,
    ``UPDATE_AFTER`` or ``DELETE``), whose names are in the header or in ``_columns.json``.

    Args:
        answer: the folder.
        types: column -> type, as DuckDB has them.
    """
    wanted = ", ".join(f'CAST("{name}" AS {kind}) AS "{name}"' for name, kind in types.items())
    if list(answer.glob("*.parquet")):
        return f"SELECT {wanted} FROM '{answer}/*.parquet'"
    names = answer / "_columns.json"
    given = f", header = false, names = {json.loads(names.read_text())}" if names.exists() else ""
    files = [str(p) for p in sorted(answer.rglob("*")) if p.is_file() and not _is_hidden(p)]
    weight = (
        "CASE WHEN op IN ('INSERT', 'UPDATE_AFTER') THEN 1 ELSE -1 END" if given else "diff::INT"
    )
    columns = ", ".join(f'"{name}"' for name in types)
    return (
        f"SELECT {wanted} FROM (SELECT {columns}, sum({weight}) AS times FROM read_csv({files},"
        f" all_varchar = true{given}) GROUP BY ALL), range(CASE WHEN times < 0"
        " THEN CAST(error('a row left more often than it came') AS BIGINT) ELSE times::BIGINT END)"
    )


def _is_hidden(path: Path) -> bool:
    return path.name.startswith(("_", "."))


def _compare(connection: Any, query: str, data: DataSet, names: list[str], what: str) -> None:
    """Compare the rows of ``view`` with the answer over some files of a data set."""
    asked = QUERIES[query]
    connection.execute(f"CREATE OR REPLACE VIEW {asked.table} AS {_alive(data, names)}")
    try:
        connection.execute(f"CREATE OR REPLACE TABLE shown AS {asked.shown}")
    except duckdb.InvalidInputException as error:  # a row left more often than it came
        raise WrongView(f"{query} over {data.folder.name}, {what}: {error}") from error
    connection.execute(f"CREATE OR REPLACE TABLE expected AS {asked.expected or asked.sql}")
    for left, right, how in (("expected", "shown", "missing"), ("shown", "expected", "too many")):
        rows = connection.execute(f"FROM {left} EXCEPT ALL FROM {right} LIMIT 3").fetchall()
        if rows:
            raise WrongView(f"{query} over {data.folder.name}, {what}: {how}: {rows}")


def _alive(data: DataSet, names: list[str]) -> str:
    paths = [str(data.folder / name) for name in names]
    columns = ", ".join(data.table.names)
    if not data.changes:
        return f"SELECT {columns} FROM read_parquet({paths})"
    return (
        f"SELECT {columns} FROM (SELECT {columns}, id FROM read_parquet({paths}) GROUP BY ALL"
        " HAVING sum(CASE op WHEN 'insert' THEN 1 ELSE -1 END) > 0)"
    )
