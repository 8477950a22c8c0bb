"""INTERSECT ALL and EXCEPT ALL count the copies of a row, as in DuckDB, at every version."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from tests.sampling import seeds
from tests.spark_plans import plan_query
from tests.sql.results import changed, chosen, of_duckdb, ordered, started

pytestmark = pytest.mark.usefixtures("spark")

ROWS = 14
T, U = "SELECT a, s FROM t", "SELECT b, s FROM u"
QUERIES = [
    f"{T} INTERSECT ALL {U}",
    f"{T} EXCEPT ALL {U}",
    f"{U} EXCEPT ALL {T}",
    f"{T} EXCEPT ALL {U} EXCEPT ALL SELECT a, s FROM t WHERE a = 1",
    f"{T} UNION ALL {U} INTERSECT ALL {T}",
    f"SELECT a, count(*) AS n FROM ({T} EXCEPT ALL {U}) x WHERE a > 0 GROUP BY a",
    f"SELECT x.s FROM ({T} INTERSECT ALL {U}) x LEFT JOIN u ON u.b = x.a",
    "SELECT 1 AS one, a FROM t EXCEPT ALL SELECT 1, b FROM u",
    "SELECT a FROM t EXCEPT ALL SELECT b + 1 FROM u WHERE s IS NOT NULL",
    "SELECT a FROM t WHERE a > (SELECT min(b) FROM u) INTERSECT ALL SELECT b FROM u",
    f"{T} INTERSECT ALL {U} EXCEPT {U}",
    "SELECT a FROM t INTERSECT ALL SELECT CAST(b AS int) FROM u",
    f"{T} EXCEPT ALL SELECT b, s FROM u WHERE false",
    f"{T} EXCEPT ALL SELECT b, s FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.a = u.b)",
    f"{T} WHERE a NOT IN (SELECT b FROM u) EXCEPT ALL {U}",
]


@pytest.mark.parametrize("seed", seeds(1, 20))
@pytest.mark.parametrize("query", QUERIES)
def test_copies_are_counted(query: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    tables = {name: _rows(rng, column) for name, column in (("t", "a"), ("u", "b"))}
    schemas = {name: rows.schema for name, rows in tables.items()}
    run = started(plan_query(query, schemas), schemas, tmp_path)
    before: dict[str, set[int]] = {name: set() for name in tables}
    for _ in range(4):
        after = {name: {i for i in range(ROWS) if rng.random() < 0.6} for name in tables}
        run.batch({n: changed(rows, before[n], after[n]) for n, rows in tables.items()})
        before = after
        now = {name: chosen(rows, after[name]) for name, rows in tables.items()}
        assert ordered(list(run.view.elements())) == of_duckdb(query, now)


def _rows(rng: random.Random, column: str) -> pa.Table:
    numbers = pa.array(rng.choices((0, 1, 2, None), k=ROWS), pa.int64())
    return pa.table({column: numbers, "s": pa.array(rng.choices(("x", None), k=ROWS), pa.string())})
