"""Functions and operators of SQL: results equal those of Spark."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import substrait_agg as sa
from tests.spark_plans import plan_query
from tests.sql.results import Row, kept, of_duckdb, of_spark, ordered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark")

D, T = dt.date, dt.datetime
ROWS = pa.table(
    {
        "n": pa.array(range(6), pa.int64()),
        "k": ["a", "b", "a", None, "b", "a"],
        "i": pa.array([1, -2, None, 4, 5, 3], pa.int64()),
        "j": pa.array([2, 3, 4, None, 5, -7], pa.int32()),
        "x": [1.5, -2.25, None, 0.0, 9.0, 2.5],
        "p": pa.array([Decimal(v) if v else None for v in ("1.25", "", "-3.50", "10.00", "0.01", "2.75")], pa.decimal128(10, 2)),
        "s": ["Hello world", " pad ", None, "", "ÄÖ", "abc,def"],
        "f": [True, False, None, True, False, True],
        "dt": [D(2024, 1, 31), D(2023, 12, 1), None, D(2000, 2, 29), D(1999, 12, 31), D(2024, 2, 1)],
        "ts": pa.array([T(2024, 1, 31, 12, 30, 15, 250000), T(2023, 12, 1), None, T(2000, 2, 29, 23, 59, 59), T(1999, 12, 31, 1), T(2024, 2, 1, 0, 0, 1)], pa.timestamp("us")),
    }
)  # fmt: skip

MEASURES = """
count(*); count(i); sum(i); sum(j); sum(x); sum(p); avg(i); avg(x); min(i); min(dt); max(s); max(ts); max(p)
bool_and(f); bool_or(f); bit_and(i); bit_or(i); bit_xor(i); stddev(x); stddev_pop(x); stddev_samp(x)
var_pop(x); var_samp(x); covar_pop(x, i); covar_samp(x, i); median(x); string_agg(k, ',')
listagg(k, ',') WITHIN GROUP (ORDER BY k); sum(i) FILTER (WHERE x > 1); sum(x) FILTER (WHERE x > 1.5)
count(*) FILTER (WHERE f); sum(CASE WHEN i > 1 THEN p ELSE 0 END); min(i + 1) * 2; max(x) - min(x)
percentile_cont(0.5) WITHIN GROUP (ORDER BY x); percentile(x, 0.25); count_if(f); any(f); every(f)
"""
DISTINCT = """
count(DISTINCT k); count(DISTINCT i); sum(DISTINCT i); avg(DISTINCT j)
"""
SCALARS = """
i + j; i - j; i * j; i % j; x / i; p * 2; p + p; -i; abs(i); abs(x); nullif(i, 1); coalesce(i, j, 0)
ifnull(i, 0); i = j; i <> j; i < j; i >= j; x > 1.5; i > 1.5; x BETWEEN 0 AND 2; i IN (1, 2); i NOT IN (1, 2)
i IS NULL; i IS NOT NULL; f AND x > 0; f OR x > 0; NOT f; f IS TRUE; f IS NOT FALSE; i IS DISTINCT FROM j
i IS NOT DISTINCT FROM j; CASE WHEN i > 1 THEN 'a' ELSE 'b' END; CASE i WHEN 1 THEN 10 WHEN 4 THEN 40 END
CASE k WHEN 'a' THEN i ELSE 0 END; length(s); char_length(s); substr(s, 2, 3); substring(s FROM 2 FOR 3)
left(s, 2); s || 'x'; concat(s, 'x'); startswith(s, 'He'); endswith(s, 'd'); contains(s, 'lo'); s LIKE '%lo%'
s NOT LIKE 'H_llo%'; extract(year FROM dt); extract(month FROM ts); extract(day FROM ts)
date_part('year', dt); dt > DATE '2020-01-01'; ts >= TIMESTAMP '2020-01-01 00:00:00'; make_date(2024, 1, 2)
CAST(i AS double); CAST(p AS double); CAST(p AS decimal(5, 1)); CAST(dt AS timestamp_ntz); CAST(ts AS date)
CAST('1' AS int); CAST(i AS string); i::string; CAST(i AS boolean); CAST(f AS int); i::double; 0.1 + 0.2
5 % 3; 7 / 2; 7 DIV 2; CAST(-2.5e0 AS int); 1.0 / 3; i / j; 2 * 0.5; pi(); isnan(x)
greatest(i, j); least(i, j); greatest(nullif(i, 1), j, 2); least(s, k); hour(ts); minute(ts); second(ts)
"""
ONLY_ON_SPARK = """
ceil(x); floor(x); sqrt(abs(x)); trim(s); ltrim(s); rtrim(s); right(s, 2)
replace(s, 'l', 'L'); extract(hour FROM ts); extract(minute FROM ts); i DIV j
round(x, 1); power(x, 2); exp(x); ln(abs(x) + 1); log10(abs(x) + 1); sin(x); atan2(x, 1.0); radians(x); upper(s); lower(s)
concat_ws('-', s, k); reverse(s); repeat(s, 2); lpad(s, 8, '*'); instr(s, 'l'); locate('l', s); position('l' IN s); s ILIKE 'hello%'; initcap(s)
regexp_replace(s, 'l', 'L'); date_trunc('month', ts); dt + INTERVAL '1' DAY; dt - INTERVAL '1 month'; ts + INTERVAL '1 hour'; ts + INTERVAL '1' HOUR; date_add(dt, 1); md5(s); levenshtein(s, 'a')
TRY_CAST(s AS int); i & j; i << 1; i ^ j; approx_count_distinct(k); approx_percentile(x, 0.5); CAST(x AS string)
array(i, 2); array(s, k); size(array(i)); array_contains(array(i), 2); array(i, 2)[1]; array_max(array(i)); array_sort(array(i, 2)); sequence(1, 3); date_format(dt, 'yyyy'); split_part(s, ',', 1); struct(i, s); named_struct('a', i, 'b', array(s)); array_agg(struct(i AS a, s AS b)); filter(array(i, 2), e -> e > 1)
"""
FLOATS = pa.table(
    {"n": range(6), "i": range(6), "x": [1.5, float("inf"), float("nan"), 1e300, None, 2.5e-20]}
)
OVER_FLOATS = """
x > 1.25; 1.5 = x; x IN (1.5, 2.5); x NOT IN (1.5, 2.5); x BETWEEN 0.5 AND 2.5; x + 0.5; coalesce(x, 0.5)
CASE WHEN n > 2 THEN x ELSE 0.5 END; nullif(x, 1.5); x IS DISTINCT FROM 1.5; x > 1e3; i * 0.5
"""


def texts(table: str) -> list[str]:
    """Give the expressions of a table."""
    return [text.strip() for line in table.split("\n") for text in line.split(";") if text.strip()]


def columns(rows: list[Row], names: list[str]) -> dict[str, list[object]]:
    """Give the values of each expression, by the order of the rows."""
    return {name: [row[place] for row in rows] for place, name in enumerate(["", *names])}


@pytest.mark.parametrize(
    ("key", "table", "tail"),
    [("k", MEASURES, "GROUP BY k"), ("k", DISTINCT, "GROUP BY k"), ("n", SCALARS, "")],
)
def test_values_equal_spark(
    key: str, table: str, tail: str, spark: SparkSession, tmp_path: Path
) -> None:
    names = texts(table)
    items = ", ".join(f"{text} AS c{number}" for number, text in enumerate(names))
    query = f"SELECT {key}, {items} FROM t {tail}"
    ours = columns(kept(query, [{"t": ROWS.slice(0, 3)}, {"t": ROWS.slice(3)}], tmp_path), names)
    theirs = columns(of_spark(spark, query, {"t": ROWS}), names)
    assert ours == theirs


@pytest.mark.parametrize("text", texts(ONLY_ON_SPARK))
def test_functions_that_spark_computes_are_accepted(text: str) -> None:
    assert sa.validate(plan_query(f"SELECT {text} FROM t", {"t": ROWS.schema})).ok


@pytest.mark.parametrize("text", texts(OVER_FLOATS))
def test_literals_beside_floats_are_floats(text: str, tmp_path: Path) -> None:
    query = f"SELECT n, {text} AS v FROM t"
    assert kept(query, [{"t": FLOATS}], tmp_path) == of_duckdb(query, {"t": FLOATS})


STRUCTS = pa.table(
    {"n": [0, 1], "k": [1, 2], "v": [10, 20], "s": [{"a": 5, "b": 6}, {"a": 7, "b": 8}]}
)
FIELDS = (
    "named_struct('b', k, 'a', v).a",
    "struct(k AS b, v AS a).b",
    "struct(struct(k AS a) AS b, v AS a).b.a",
    "s['b']",
    "s.b",
    "(CASE WHEN n = 1 THEN s END).b",
)

OF_TABLES: dict[str, list[Row]] = {
    "SELECT t.s.b, u.s.b FROM t JOIN u ON t.n = u.n": [("6", "50"), ("8", "70")],
    "SELECT t.s.b, u.s.b FROM t LEFT JOIN u ON t.n = u.n + 1": [("6", None), ("8", "50")],
    "SELECT t.s.b FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.s.b = t.k * 50)": [("6",)],
    "SELECT u.s.b AS b FROM u UNION ALL SELECT s.b FROM t": [
        ("50",),
        ("6",),
        ("70",),
        ("8",),
    ],
    "SELECT w.b, m.b FROM (SELECT max_by(s, k) AS w, min_by(s, k) AS m FROM t) JOIN u ON u.n = 0": [
        ("8", "6")
    ],
    "SELECT l.b, s.b FROM (SELECT lag(t.s) OVER (ORDER BY t.n) AS l, u.s FROM t JOIN u ON t.n = u.n)": [
        (None, "50"),
        ("6", "70"),
    ],
    "SELECT x.b, sum(y.b) FROM (SELECT u.s AS x, t.s AS y FROM u JOIN t ON t.n = u.n) GROUP BY x.b": [
        ("50", "6"),
        ("70", "8"),
    ],
}
OTHER_STRUCTS = pa.table({"n": [0, 1], "s": [{"b": 50, "z": 60}, {"b": 70, "z": 80}]})
"""The field b is the first here, the second in `STRUCTS`."""


@pytest.mark.parametrize("text", FIELDS)
def test_fields_of_structs_are_accepted(text: str) -> None:
    assert sa.validate(plan_query(f"SELECT {text} FROM t", {"t": STRUCTS.schema})).ok


@pytest.mark.parametrize("query", OF_TABLES)
def test_fields_of_one_name_are_told_apart_by_their_structs(query: str, tmp_path: Path) -> None:
    tables = {"t": STRUCTS, "u": OTHER_STRUCTS}
    used = {name: rows for name, rows in tables.items() if f" {name}" in query}
    assert kept(query, [used], tmp_path) == ordered(OF_TABLES[query])


def test_keys_of_maps_may_be_named_like_fields() -> None:
    schema = STRUCTS.schema.append(pa.field("m", pa.map_(pa.string(), pa.int64())))
    assert sa.validate(plan_query("SELECT m['b'], s.b FROM t", {"t": schema})).ok


@pytest.mark.parametrize(
    "others",
    [
        "lag(k) OVER w",
        "rank() OVER w, lead(x, 2) OVER w, sum(x) OVER (PARTITION BY g ORDER BY k, x ROWS UNBOUNDED PRECEDING)",
    ],
)
def test_functions_of_one_window_see_equal_rows_in_one_order(others: str, tmp_path: Path) -> None:
    """The position of a row decides between equal rows, also for the functions beside it."""
    rows = pa.table({"g": [1, 1, 1, 1, 2, 2], "k": [5, 5, 5, 7, 1, 1], "x": [1, 1, 1, 2, 3, 3]})
    query = f"SELECT g, k, x, row_number() OVER w, {others} FROM t WINDOW w AS (PARTITION BY g ORDER BY k, x)"
    batches = [{"t": rows.slice(0, 2)}, {"t": rows.slice(2)}]
    assert kept(query, batches, tmp_path) == of_duckdb(query, {"t": rows})
