"""Conditions of filters and joins: the rows are those of DuckDB at every version."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import substrait_agg as sa
from tests.e2e.plans import COMPARISON, Builder, cast, column, joined, literal, read
from tests.spark_plans import plan_query
from tests.sql.results import changed, chosen, kept, of_duckdb, ordered, started

pytestmark = pytest.mark.usefixtures("spark")

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
    "SELECT t.a, t.d, s, u.b FROM t JOIN u USING (s)",
    "SELECT a, d, s, b FROM t NATURAL JOIN u WHERE t.a = 1 OR u.b > 2",
    "SELECT s, count(*) AS n, sum(u.b) AS b FROM t JOIN u USING (s) GROUP BY s",
    "SELECT s, t.a, u.b FROM t LEFT JOIN u USING (s)",
    "SELECT s, t.a, u.b FROM t FULL JOIN u USING (s) WHERE t.a IS DISTINCT FROM u.b",
    "SELECT a FROM t WHERE a = (SELECT min(b) + (SELECT 0) FROM u HAVING min(b) < 3)",
    "SELECT a FROM t WHERE a = (SELECT b FROM u ORDER BY b DESC NULLS LAST LIMIT 1)",
]


@pytest.mark.parametrize("query", QUERIES)
def test_conditions_have_the_rows_of_duckdb(query: str, tmp_path: Path) -> None:
    plan = plan_query(query, {name: rows.schema for name, rows in TABLES.items()})
    assert "JOIN_CONDITION_MISSING" not in {problem.code for problem in sa.validate(plan).problems}
    run = started(plan, {name: rows.schema for name, rows in TABLES.items()}, tmp_path)
    before: set[int] = set()
    for after in VERSIONS:
        kept = {n: (before & {*range(len(t))}, after & {*range(len(t))}) for n, t in TABLES.items()}
        run.batch({name: changed(TABLES[name], *places) for name, places in kept.items()})
        before = after
        tables = {name: chosen(TABLES[name], now) for name, (_, now) in kept.items()}
        assert ordered(list(run.view.elements())) == of_duckdb(query, tables)


FLOATS = {
    "t": pa.schema(
        [("f", pa.float64()), ("g", pa.float32()), ("d", pa.decimal128(38, 0)), ("x", pa.int64())]
    )
}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT f FROM t WHERE f IN (0.3, 1)",
        "SELECT f FROM t WHERE f IN (0.3, d)",
        "SELECT f FROM t WHERE f BETWEEN 0.5 AND 12345678901234567890123",
        "SELECT f FROM t WHERE f = d",
        "SELECT g FROM t WHERE g = d",
        "SELECT f FROM t WHERE f = CAST(x AS DECIMAL(38, 18))",
        "SELECT CASE f WHEN 0.3 THEN 1 WHEN 0 THEN 2 END AS c FROM t",
        "SELECT CASE WHEN x > 0 THEN f ELSE d END AS c FROM t",
        "SELECT coalesce(f, d) AS c FROM t",
        "SELECT f FROM t UNION ALL SELECT d FROM t",
        "SELECT a.f FROM t a JOIN t b ON a.f = b.d",
        "SELECT a.x, b.x AS y FROM t a JOIN t b ON a.f = b.f AND a.g = b.g",
        "SELECT a.x, b.x AS y FROM t a LEFT JOIN t b ON a.g = b.g",
        "SELECT a.x FROM t a, t b, t c WHERE a.f = b.f AND b.x = c.x AND c.f = a.f",
    ],
)
def test_a_float_beside_a_decimal_is_not_rounded(query: str, tmp_path: Path) -> None:
    """The decimal becomes a float, as in Spark and in DuckDB."""
    rows = pa.table(
        {
            "f": [0.3, 1e300, 0.1 + 0.2, 2.0, float("nan")],
            "g": [0.5, 2.0, 0.0, -0.0, float("nan")],
            "d": [Decimal(2), Decimal(1), None, Decimal(10**22), Decimal(3)],
            "x": [1, 0, 5, None, 2],
        },
        FLOATS["t"],
    )
    assert kept(query, [{"t": rows}], tmp_path) == of_duckdb(query, {"t": rows})


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        ("f = 0.3", "f = 0.3"),
        ("CAST(f AS DECIMAL(30, 15)) = 0.3", "CAST(f AS decimal<30,15>) = 0.300000000000000"),
        ("CAST(f AS DECIMAL(12, 2)) = d", "CAST(f AS decimal<12,2>)"),
        ("f = CAST(d AS DOUBLE)", "f = CAST(d AS fp64)"),
    ],
)
def test_floats_and_decimals_are_compared_as_written(condition: str, shown: str) -> None:
    plan = plan_query(f"SELECT x FROM t WHERE {condition}", FLOATS)
    text = str(sa.explain(plan))
    assert shown in text, text


@pytest.mark.parametrize("kind", ["left", "outer", "left_anti"])
def test_a_pattern_that_is_cast_to_a_text_besides_the_key(tmp_path: Path, kind: str) -> None:
    """Isthmus writes constant texts of a fixed length, and casts them."""
    b = Builder()
    left, right = {"k": "i64", "v": "i64"}, {"m": "i64", "s": "string"}
    pattern = cast(literal("fixedChar", "a%"), "string!")
    like = b.call("like:str_str", "functions_string", column(3), pattern, output="bool")
    equal = b.call("equal:any_any", COMPARISON, column(0), column(2), output="bool")
    condition = b.call("and:bool", "functions_boolean", equal, like, output="bool")
    relation = joined(kind, read("l", left), read("r", right), condition)
    names = [*left] if kind == "left_anti" else [*left, *right]
    plan = sa.load(b.plan(relation, *names).encode())
    tables = {
        "l": pa.table({"k": [1, 2, 3, None], "v": [1, 2, 3, 4]}),
        "r": pa.table({"m": [1, 1, 2, None], "s": ["ab", "ba", None, "a"]}),
    }
    on = "k = m AND s LIKE 'a%'"
    wanted = {
        "left": f"SELECT * FROM l LEFT JOIN r ON {on}",
        "outer": f"SELECT * FROM l FULL JOIN r ON {on}",
        "left_anti": f"SELECT * FROM l WHERE NOT EXISTS (FROM r WHERE {on})",
    }
    assert kept(plan, [tables], tmp_path) == of_duckdb(wanted[kind], tables)
