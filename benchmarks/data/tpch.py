"""TPC-H: its tables by tpchgen-cli, its queries, and the plans that DataFusion writes for them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[2] / "tests" / "data" / "tpch"
"""Folder of the texts of the queries and of their plans."""

RELEASES = (55, 50, 45)
"""Releases of DataFusion, the newest first."""

KEYS = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "supplier": ("s_suppkey",),
    "customer": ("c_custkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
"""Table -> its primary key."""


def plan_path(query: int, release: int = RELEASES[0]) -> Path:
    """Return the plan of a query by a release of DataFusion."""
    return DATA / "plans" / f"datafusion-{release}" / f"q{query:02}.bin"


def sql(query: int) -> str:
    """Return the text of a query."""
    return (DATA / "queries" / f"q{query:02}.sql").read_text()


def tables_of(query: int) -> tuple[str, ...]:
    """Return the tables that a query reads."""
    text = sql(query).lower()
    words = set(text.replace(",", " ").replace(";", " ").split())
    return tuple(table for table in KEYS if table in words)


def generate(folder: Path, scale: float, tables: Iterable[str] = KEYS) -> None:
    """Write tables of a scale factor as Parquet files into a folder."""
    program = Path(sys.executable).with_name("tpchgen-cli")
    options = ["--scale-factor", str(scale), "--output-dir", str(folder)]
    command = [str(program), "parquet", *options, "--tables", ",".join(tables), "--quiet"]
    subprocess.run(command, check=True, capture_output=True)


Row = tuple[Any, ...]


def same_rows(ours: Sequence[Row], theirs: Sequence[Row]) -> bool:
    """Return whether two results are equal, up to the digits of averages and ratios."""
    if len(ours) != len(theirs):
        return False
    pairs = zip(sorted(ours, key=_sort_key), sorted(theirs, key=_sort_key), strict=True)
    return all(len(a) == len(b) and all(map(_same, a, b)) for a, b in pairs)


def _is_number(kind: type) -> bool:
    return issubclass(kind, int | float | Decimal)


def _sort_key(row: tuple[Any, ...]) -> tuple[list[str], list[float], list[float]]:
    """Order rows by what is exact first: texts, dates, whole numbers.

    Rows whose other numbers are equal when rounded are ordered by all of their digits.
    """
    exact = [str(value) for value in row if not isinstance(value, float | Decimal)]
    others = [float(value) for value in row if isinstance(value, float | Decimal)]
    return exact, [round(value, 1) for value in others], others


def _same(a: Any, b: Any) -> bool:
    if a is None or b is None or not (_is_number(type(a)) and _is_number(type(b))):
        return bool(a == b)
    return abs(float(a) - float(b)) <= 1e-4 * max(1.0, abs(float(a)))
