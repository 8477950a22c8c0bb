"""The texts of the queries: Spark's SQL, which views have, and DuckDB's and Flink's where that differs."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parent
NAMES = tuple(f"q{number}" for number in range(23))


def query(name: str) -> str:
    """Return the text of a query for Spark."""
    return (FOLDER / "queries" / f"{name}.sql").read_text()


def for_duckdb(name: str) -> str:
    """Return the text of a query for DuckDB."""
    return _in_dialect("duckdb", name)


def for_flink(name: str) -> str:
    """Return the text of a query for Flink, in which ``dateTime`` is a reserved word."""
    return re.sub(r"\bdateTime\b", "`dateTime`", _in_dialect("flink", name))


def _in_dialect(dialect: str, name: str) -> str:
    other = FOLDER / dialect / f"{name}.sql"
    return other.read_text() if other.exists() else query(name)


def tables_of(name: str) -> tuple[str, ...]:
    """Return the tables that a query reads."""
    return tuple(sorted(set(re.findall(r"\b(?:FROM|JOIN)\s+(\w+)", query(name))) - {"counts"}))
