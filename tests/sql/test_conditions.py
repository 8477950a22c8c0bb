"""Conditions that rules of DataFusion's optimizer change: the rows are those of DuckDB at every version."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

import substrait_agg as sa
from tests.sql.results import changed, chosen, of_duckdb, ordered, started

NEW_YEAR, FEBRUARY = date(2024, 1, 1), date(2024, 2, 1)
TABLES = {
    "t": pa.table(
        {
            "a": pa.array([1, 2, None, 1, 2, 3], pa.int64()),
            "s": ["x", None, "y", None, "x", ""],
            "d": pa.array([NEW_YEAR, NEW_YEAR, FEBRUARY, None, FEBRUARY, NEW_YEAR]),
        }
    ),
    "u": pa.table({"b": pa.array([1, 2, 3, None], pa.int64()), "s": ["x", None, "y", ""]}),
}
VERSIONS = [{0, 1, 2, 3}, {1, 3, 4, 5}, set[int](), {0, 2, 3, 5}]
QUERIES = [
    "SELECT t.a, x.s FROM t LEFT JOIN t x ON t.d = x.d AND DATE '2024-01-01' = t.d",
    "SELECT t.a, x.s FROM t JOIN t x ON t.a = x.a AND 1 = t.a WHERE x.a = 1",
    "SELECT t.a, x.s FROM t JOIN t x ON t.d = x.d WHERE DATE '2024-01-01' = x.d AND t.d = DATE '2024-01-01'",
    "SELECT t.a, u.b, x.b AS c FROM t JOIN u ON t.s IS NOT DISTINCT FROM u.s JOIN u x ON u.b = x.b",
    "SELECT t.a, u.b FROM t, u WHERE t.s IS NOT DISTINCT FROM u.s AND u.s IS NULL",
    "SELECT q.n, u.s FROM (SELECT count(*) AS n FROM t) q LEFT JOIN u ON u.b = q.n AND u.b > 5 WHERE u.b BETWEEN 1 AND 1",
    "SELECT q.n, q.n > 2 AS v FROM (SELECT count(*) AS n FROM t) q WHERE CAST(NULL AS bigint) <= q.n AND q.n BETWEEN 0 AND 1",
    "SELECT q.a, q.n FROM (SELECT a, count(*) AS n FROM t GROUP BY ROLLUP (a)) q WHERE q.n IS NULL AND q.a = 1",
    "SELECT u.s FROM (SELECT a, count(*) AS n FROM t GROUP BY CUBE (a)) q LEFT JOIN u ON u.b = q.n AND q.n IS NULL WHERE u.s IN ('x')",
    "SELECT u.b FROM u WHERE EXISTS (SELECT 1 FROM (SELECT a, max(s) AS m FROM t GROUP BY CUBE (a)) q WHERE q.a = u.b AND q.m IS DISTINCT FROM q.m)",
    "SELECT q.a, q.n FROM (SELECT a, count(*) AS n FROM t GROUP BY a) q WHERE 2 = q.a AND q.a = 2",
    "SELECT q.a FROM (SELECT a, s FROM t UNION ALL SELECT b, s FROM u) q WHERE 1 = q.a AND q.s = 'x' AND 'x' = q.s",
    "SELECT t.a, u.b FROM t, u WHERE t.a = u.b AND t.s = 'x' OR t.a = u.b AND u.s = ''",
]


@pytest.mark.parametrize("query", QUERIES)
def test_conditions_have_the_rows_of_duckdb(query: str, tmp_path: Path) -> None:
    plan = sa.sql(query, {name: rows.schema for name, rows in TABLES.items()})
    assert "JOIN_CONDITION_MISSING" not in {problem.code for problem in sa.validate(plan).problems}
    run = started(plan, {name: rows.schema for name, rows in TABLES.items()}, tmp_path)
    before: set[int] = set()
    for after in VERSIONS:
        kept = {n: (before & {*range(len(t))}, after & {*range(len(t))}) for n, t in TABLES.items()}
        run.batch({name: changed(TABLES[name], *places) for name, places in kept.items()})
        before = after
        tables = {name: chosen(TABLES[name], now) for name, (_, now) in kept.items()}
        assert ordered(list(run.view.elements())) == of_duckdb(query, tables)
