"""The models: 49 views of SQL over the raw tables, in Spark's dialect, and in DuckDB's where that differs."""

from __future__ import annotations

import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

FOLDER = Path(__file__).parent
_TABLE = re.compile(r"^CREATE TABLE (\w+) \(\n(.*?)\n\);$", re.DOTALL | re.MULTILINE)
_VIEW = re.compile(r"^CREATE MATERIALIZED VIEW (\w+) AS\n(.*?);$", re.DOTALL | re.MULTILINE)
_LAST = re.compile(r"last_value\((\w+)\) IGNORE NULLS")


def script() -> str:
    """Return the raw tables and the models as one script."""
    files = [FOLDER.parent / "tables.sql", *sorted(FOLDER.rglob("*.sql"))]
    return "\n".join(file.read_text() for file in files)


@cache
def tables() -> dict[str, str]:
    """Return the columns of each raw table, with their types."""
    return dict(_TABLE.findall(script()))


@cache
def queries() -> dict[str, str]:
    """Return the query of each model by its name, each after those that it reads."""
    texts: dict[str, str] = dict(_VIEW.findall(script()))
    reads = {
        name: {other for other in re.findall(r"\b(?:FROM|JOIN)\s+(\w+)", text) if other in texts}
        for name, text in texts.items()
    }
    return {name: texts[name] for name in TopologicalSorter(reads).static_order()}


def for_duckdb(text: str) -> str:
    """Return a query in the dialect of DuckDB."""
    return _LAST.sub(r"last_value(\1 IGNORE NULLS)", text).replace("startswith(", "starts_with(")
