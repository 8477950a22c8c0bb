"""Positions of rows and aggregates of partitions are those of DuckDB, at every version."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import substrait_agg as sa
from tests.sampling import seeds
from tests.sql.results import changed, chosen, of_duckdb, ordered, started

ROWS = 24
SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("id", pa.int64())])
# Rows with equal sort keys have no defined order, so queries of row_number sort by all columns.
ORDER = "ORDER BY x DESC NULLS LAST, id"
NUMBERED = f"SELECT *, row_number() OVER (PARTITION BY k {ORDER}) AS n FROM t"
RANKED = "SELECT *, rank() OVER (PARTITION BY k ORDER BY x NULLS FIRST) AS n FROM t"
DENSE = "SELECT *, dense_rank() OVER (PARTITION BY k ORDER BY x NULLS LAST) AS n FROM t"
QUERIES = [
    # First rows of each partition.
    f"SELECT k, x, id FROM ({NUMBERED}) q WHERE n <= 2",
    f"SELECT k, x, id FROM t QUALIFY row_number() OVER (PARTITION BY k {ORDER}) = 1",
    f"SELECT * FROM ({NUMBERED}) q WHERE n = 1",
    f"SELECT * FROM ({NUMBERED}) q WHERE 3 >= n AND x > 0",
    f"SELECT k, n FROM ({NUMBERED}) q WHERE n BETWEEN 2 AND 3",
    f"SELECT id FROM ({NUMBERED}) q WHERE n > 2",
    f"SELECT id, n FROM ({NUMBERED}) q WHERE n < 2.5 AND k = 1",
    f"SELECT id, n FROM ({NUMBERED}) q WHERE n IN (1, 3)",
    f"SELECT id, n FROM ({NUMBERED}) q WHERE n = 2.5 OR n IS NULL",
    f"SELECT k, count(*) AS c, max(n) AS last FROM ({NUMBERED}) q WHERE n < 4 GROUP BY k",
    f"SELECT id FROM (SELECT * FROM ({NUMBERED}) a WHERE n < 4) q WHERE n > 1 AND id > 3",
    f"SELECT id FROM ({NUMBERED}) q WHERE n - 1 <= 1",
    f"SELECT id, n FROM ({NUMBERED}) q WHERE 2 + n BETWEEN 4 AND 5",
    f"SELECT id, n FROM ({NUMBERED}) q WHERE n - 1 IN (0, 2) AND n - 0.5 < 2",
    f"SELECT id FROM ({RANKED}) q WHERE n + 2 < 5",
    # Positions of all rows.
    NUMBERED,
    f"SELECT id, row_number() OVER ({ORDER}) + 10 AS n FROM t",
    f"SELECT id, row_number() OVER (PARTITION BY k % 2, x > 0 {ORDER}) AS n FROM t",
    "SELECT k, x, row_number() OVER (PARTITION BY k ORDER BY x NULLS LAST) AS n FROM t",
    # Ranks.
    RANKED,
    DENSE,
    f"SELECT id, n FROM ({RANKED}) q WHERE n <= 2",
    f"SELECT id FROM ({RANKED}) q WHERE n = 1",
    f"SELECT id FROM ({DENSE}) q WHERE n = 2",
    "SELECT id, rank() OVER (ORDER BY k NULLS LAST) AS r, dense_rank() OVER (ORDER BY k) AS d FROM t",
    "SELECT id, rank() OVER (PARTITION BY k) AS r FROM t",
    # Aggregates of partitions.
    "SELECT id, x - avg(x) OVER (PARTITION BY k) AS off, count(*) OVER () AS c FROM t",
    "SELECT id, sum(x) OVER (PARTITION BY k) AS s, max(x) OVER (PARTITION BY k % 2) AS m FROM t",
    "SELECT id FROM t QUALIFY x = max(x) OVER (PARTITION BY k)",
    "SELECT id, first_value(x) OVER (PARTITION BY k ORDER BY id) AS f FROM t",
    (
        "SELECT id, last_value(x) OVER (PARTITION BY k ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING"
        " AND UNBOUNDED FOLLOWING) AS l FROM t"
    ),
    # Several functions at once.
    (
        f"SELECT id, row_number() OVER (PARTITION BY k {ORDER}) AS n, rank() OVER (ORDER BY x) AS r,"
        f" sum(x) OVER (PARTITION BY k) AS s, row_number() OVER ({ORDER}) AS m, count(x) OVER"
        f" (PARTITION BY k) AS c, min(x) OVER () AS low, x + (SELECT max(x) FROM t) AS high FROM t"
    ),
    # Below, above and beside other relations.
    (
        "SELECT * FROM (SELECT k, sum(x) AS s, row_number() OVER (ORDER BY sum(x) DESC NULLS LAST, k)"
        " AS n FROM t GROUP BY k) q WHERE n <= 2"
    ),
    (
        f"SELECT a.id, b.id AS other FROM ({NUMBERED}) a JOIN ({RANKED}) b ON a.k = b.k"
        " WHERE a.n = 1 AND b.n = 1"
    ),
    f"SELECT t.id, q.id AS first FROM t LEFT JOIN ({NUMBERED}) q ON t.k = q.k AND q.n = 1",
    f"SELECT id FROM ({NUMBERED}) q WHERE n = 1 UNION ALL SELECT id FROM ({DENSE}) p WHERE n = 3",
    (
        "SELECT id, n, row_number() OVER (PARTITION BY n ORDER BY id) AS m FROM"
        f" (SELECT id, n FROM ({NUMBERED}) q WHERE n <= 3) p"
    ),
]


@pytest.mark.parametrize("seed", seeds(1, 20))
@pytest.mark.parametrize("query", QUERIES)
def test_every_version_is_that_of_duckdb(query: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    rows = pa.table(
        {
            "k": pa.array(rng.choices((1, 2, 3, None), k=ROWS), pa.int64()),
            "x": pa.array(rng.choices((-1, 0, 1, 5, 7, None), k=ROWS), pa.int64()),
            "id": pa.array(range(ROWS), pa.int64()),
        }
    )
    schemas = {"t": rows.schema}
    run = started(sa.sql(query, schemas), schemas, tmp_path)
    before: set[int] = set()
    for _ in range(4):
        after = {i for i in range(ROWS) if rng.random() < 0.6}
        run.batch({"t": changed(rows, before, after)})
        before = after
        assert ordered(list(run.view.elements())) == of_duckdb(query, {"t": chosen(rows, after)})


@pytest.mark.parametrize(
    ("call", "word"),
    [
        ("sum(x) FILTER (WHERE x > (1 + 2)) OVER (PARTITION BY k)", "FILTER"),
        ("count(DISTINCT x) OVER ()", "DISTINCT"),
        ("array_agg(x ORDER BY (id)) OVER w", "ORDER"),
    ],
)
def test_parts_that_the_planner_loses_are_refused(call: str, word: str) -> None:
    query = f"SELECT id, {call} AS v FROM (SELECT id, k, max(x) FILTER (WHERE x > 1) AS x FROM t GROUP BY ALL) q WINDOW w AS ()"
    with pytest.raises(sa.SqlRefused, match=f"{word} of a window function") as refused:
        sa.sql(query, {"t": SCHEMA})
    assert refused.value.code == "SQL_NOT_PLANNED"
    assert f"SQL:1:{query.index(word, query.index(call)) + 1}" in str(refused.value)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("sum(x) OVER (PARTITION BY k ORDER BY id)", "WINDOW_FRAME_NOT_SUPPORTED"),
        ("last_value(x) OVER (ORDER BY id)", "WINDOW_FRAME_NOT_SUPPORTED"),
        ("count(*) OVER (ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)", "WINDOW_FRAME_NOT_SUPPORTED"),
        ("first_value(x) OVER (ORDER BY id ROWS 1 PRECEDING)", "WINDOW_FRAME_NOT_SUPPORTED"),
        ("lag(x) OVER (ORDER BY id)", "WINDOW_FUNCTION_NOT_SUPPORTED"),
        ("ntile(3) OVER (ORDER BY id)", "WINDOW_FUNCTION_NOT_SUPPORTED"),
    ],
)
def test_functions_of_other_rows_are_refused_at_their_place(call: str, code: str) -> None:
    with pytest.raises(sa.PlanRefused) as refused:
        sa.explain(sa.sql(f"SELECT id, {call} AS v FROM t", {"t": SCHEMA}))
    assert refused.value.code == code
    assert "SQL:1:12" in str(refused.value)


def test_positions_without_an_order_are_warned_of() -> None:
    plan = sa.sql("SELECT row_number() OVER (PARTITION BY k) AS n FROM t", {"t": SCHEMA})
    assert "WINDOW_WITHOUT_SORT" in [problem.code for problem in sa.validate(plan).problems]


def test_only_the_rows_that_a_condition_asks_for_are_numbered() -> None:
    text = sa.explain(sa.sql(f"SELECT id FROM ({NUMBERED}) q WHERE n > 1 AND n < 4", {"t": SCHEMA}))
    assert "only ranks up to 3 are stored" in str(text)
    assert "filter CAST" not in str(text)


@pytest.mark.parametrize(
    ("condition", "last"),
    [
        ("n - 1 <= 2", 3),
        ("2 > n - 1", 2),
        ("1 + n = 4", 3),
        ("n + 1 - 3 BETWEEN 0 AND 2", 4),
        ("n - 1 IN (0, 1)", 2),
        ("n - 3000000000 < 1", None),
        ("n - 0.5 < 2", None),
        ("5 - n > 2", None),
        ("n + id < 3", None),
        ("CAST(n AS TINYINT) + CAST(1 AS TINYINT) < 5", None),
    ],
)
def test_a_number_with_a_constant_added_is_limited_as_well(
    condition: str, last: int | None
) -> None:
    """ibis numbers rows from 0."""
    query = f"SELECT id FROM ({NUMBERED}) q WHERE {condition}"
    text = str(sa.explain(sa.sql(query, {"t": SCHEMA})))
    assert (f"only ranks up to {last} are stored" if last else "to the last") in text


def test_a_number_that_becomes_null_limits_nothing() -> None:
    """A number above 127 is null as TINYINT, so the condition is not one on the number."""
    query = f"SELECT id FROM ({NUMBERED}) q WHERE try_cast(n AS TINYINT) <= 200"
    text = str(sa.explain(sa.sql(query, {"t": SCHEMA})))
    assert "ranks 1 to the last" in text
    assert "filter" in text.replace("input.filter", "")


def test_the_size_of_a_plan_grows_with_the_number_of_functions() -> None:
    """Each function reads the rows once: with 24 functions a plan that doubles would be refused."""
    calls = [f"sum(x) OVER (PARTITION BY k + {i}) AS s{i}" for i in range(12)]
    calls += [f"rank() OVER (PARTITION BY k + {i} ORDER BY x) AS r{i}" for i in range(12)]
    plan = sa.sql(f"SELECT id, {', '.join(calls)} FROM t", {"t": SCHEMA})
    assert [p for p in sa.validate(plan).problems if p.level == "error"] == []
    assert str(sa.explain(plan)).count(": join ") == 24


def test_functions_of_one_partition_are_one_aggregate() -> None:
    calls = [f"{f}(x) OVER (PARTITION BY k) AS {f}" for f in ("sum", "min", "max", "avg")]
    text = str(sa.explain(sa.sql(f"SELECT id, {', '.join(calls)} FROM t", {"t": SCHEMA})))
    assert (text.count(": aggregate "), text.count(": join ")) == (1, 1)
