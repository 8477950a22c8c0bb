"""Window functions have the values of DuckDB, at every version."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from tests.local.run import run
from tests.sampling import seeds
from tests.spark_plans import plan_query
from tests.sql.results import changed, chosen, of_duckdb, ordered, started

pytestmark = pytest.mark.usefixtures("spark")

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
    f"SELECT id, n FROM ({DENSE}) q WHERE n BETWEEN 2 AND 3",
    f"SELECT id, n FROM ({RANKED}) q WHERE n > 3 AND n < 7 AND x > 0",
    "SELECT id, rank() OVER (PARTITION BY k ORDER BY x NULLS LAST) AS r, lead(x) OVER (PARTITION BY k ORDER BY x NULLS LAST, id) AS l FROM t",
    "SELECT id, rank() OVER (ORDER BY k NULLS LAST) AS r, dense_rank() OVER (ORDER BY k NULLS FIRST) AS d FROM t",
    # Aggregates of partitions.
    "SELECT id, x - avg(x) OVER (PARTITION BY k) AS off, count(*) OVER () AS c FROM t",
    "SELECT id, sum(x) OVER (PARTITION BY k) AS s, max(x) OVER (PARTITION BY k % 2) AS m FROM t",
    "SELECT id FROM t QUALIFY x = max(x) OVER (PARTITION BY k)",
    "SELECT id, first_value(x) OVER (PARTITION BY k ORDER BY id) AS f FROM t",
    (
        "SELECT id, last_value(x) OVER (PARTITION BY k ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING"
        " AND UNBOUNDED FOLLOWING) AS l FROM t"
    ),
    # Values of other rows.
    f"SELECT id, lag(x) OVER (PARTITION BY k {ORDER}) AS p, lead(x, 2, -9) OVER ({ORDER}) AS n FROM t",
    f"SELECT id, lag(x, -1) OVER (PARTITION BY k {ORDER}) AS p, lead(x, 0) OVER ({ORDER}) AS n FROM t",
    f"SELECT id, ntile(3) OVER (PARTITION BY k {ORDER}) AS a, ntile(5) OVER ({ORDER}) AS b FROM t",
    (
        "SELECT id, percent_rank() OVER (PARTITION BY k ORDER BY x NULLS FIRST) AS p,"
        " cume_dist() OVER (PARTITION BY k ORDER BY x NULLS LAST) AS c FROM t"
    ),
    f"SELECT id FROM (SELECT id, x, lag(x) OVER (PARTITION BY k {ORDER}) AS p FROM t) q WHERE x < p",
    (
        f"SELECT id, lag(x / 2.0, 1, 0) OVER ({ORDER}) AS d, lag(CAST(x AS DOUBLE), 1, 0) OVER ({ORDER}) AS f,"
        f" lag(CAST(x AS STRING), 1, 'none') OVER ({ORDER}) AS s, lag(x, 1, NULL) OVER ({ORDER}) AS n FROM t"
    ),
    # Values of the rows that have one.
    (
        f"SELECT id, lag(x) IGNORE NULLS OVER (PARTITION BY k {ORDER}) AS p, lead(x, 2, -9) IGNORE NULLS OVER"
        " (PARTITION BY k ORDER BY id) AS n, lag(x, -2) IGNORE NULLS OVER (ORDER BY id) AS m,"
        " first_value(x) IGNORE NULLS OVER (PARTITION BY k ORDER BY id) AS f,"
        " last_value(x) IGNORE NULLS OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS l,"
        " first_value(x) IGNORE NULLS OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING) AS t"
        " FROM t"
    ),
    (
        "SELECT id, nth_value(x, 2) IGNORE NULLS OVER (PARTITION BY k ORDER BY id) AS n, last_value(x) IGNORE NULLS"
        " OVER (PARTITION BY k ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS l FROM t"
    ),
    # Running values, by rows with equal sort keys and by rows.
    (
        "SELECT id, sum(x) OVER w AS s, count(x) OVER w AS c, count(*) OVER w AS n, avg(x) OVER w AS a,"
        " min(id) OVER w AS low, max(id) OVER w AS high FROM t"
        " WINDOW w AS (PARTITION BY k ORDER BY x NULLS LAST)"
    ),
    (
        f"SELECT id, first_value(x) OVER w AS f, last_value(x) OVER w AS l, nth_value(x, 2) OVER w AS n"
        f" FROM t WINDOW w AS (PARTITION BY k {ORDER})"
    ),
    "SELECT id, sum(x) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS s FROM t",
    "SELECT k, sum(x) AS s, sum(sum(x)) OVER (ORDER BY k NULLS LAST) AS r FROM t GROUP BY k",
    # Frames.
    *(
        f"SELECT id, {call} OVER ({ORDER} {frame}) AS v FROM t"
        for frame, calls in (
            ("ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING", ("sum(x)", "max(x)", "nth_value(x, 2)")),
            ("ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING", ("sum(x)", "count(*)", "first_value(x)")),
            ("ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING", ("min(x)", "last_value(x)")),
            (
                "ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING",
                ("sum(x / 8.0)", "bool_or(x > 3)"),
            ),
            ("ROWS 2 PRECEDING", ("sum(CAST(x AS DECIMAL(10, 2)))", "stddev_samp(x)")),
        )
        for call in calls
    ),
    (
        "SELECT id, sum(id) OVER (PARTITION BY k ORDER BY x NULLS FIRST RANGE BETWEEN CURRENT ROW AND"
        " CURRENT ROW) AS a, count(*) OVER (ORDER BY x NULLS LAST RANGE BETWEEN CURRENT ROW AND"
        " UNBOUNDED FOLLOWING) AS b FROM t"
    ),
    # Functions that need every value of their frame, and those of some rows.
    *(
        f"SELECT id, {call} OVER (PARTITION BY k ORDER BY id {frame}) AS v FROM t"
        for call, frame in (
            ("sum(x) FILTER (WHERE id > 5)", ""),
            ("count(*) FILTER (WHERE x > 0)", "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING"),
            ("max_by(x, id) FILTER (WHERE x < 6 AND id % 3 > 0)", ""),
            ("percentile(x, 0.5)", "ROWS BETWEEN 3 PRECEDING AND 1 FOLLOWING"),
            ("percentile(x, 0.25)", "RANGE BETWEEN 6 PRECEDING AND CURRENT ROW"),
            ("bit_xor(x)", "ROWS BETWEEN 1 FOLLOWING AND 4 FOLLOWING"),
        )
    ),
    # Frames by distances between values.
    *(
        f"SELECT id, {call} OVER (PARTITION BY k ORDER BY {key} {frame}) AS v FROM t"
        for call, key, frame in (
            ("sum(id)", "x NULLS LAST", "RANGE 2 PRECEDING"),
            ("count(*)", "x DESC NULLS FIRST", "RANGE BETWEEN 1 PRECEDING AND 4 FOLLOWING"),
            ("min(id)", "x NULLS FIRST", "RANGE BETWEEN 2 FOLLOWING AND 5 FOLLOWING"),
            ("max(id)", "x DESC NULLS LAST", "RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"),
            ("avg(id)", "x NULLS LAST", "RANGE BETWEEN 3 PRECEDING AND UNBOUNDED FOLLOWING"),
            ("first_value(x)", "x NULLS LAST", "RANGE BETWEEN 6 PRECEDING AND 1 PRECEDING"),
            ("count(x)", "x NULLS FIRST", "RANGE BETWEEN CURRENT ROW AND 5 FOLLOWING"),
            (
                "sum(x)",
                "CAST(x AS SMALLINT) NULLS LAST",
                "RANGE BETWEEN 0 PRECEDING AND 1 FOLLOWING",
            ),
        )
    ),
    # Several functions at once.
    (
        f"SELECT id, lag(x) OVER (PARTITION BY k {ORDER}) AS p, row_number() OVER (PARTITION BY k {ORDER})"
        f" AS n, rank() OVER (ORDER BY x NULLS LAST) AS r, sum(x) OVER (PARTITION BY k) AS s, avg(x) OVER ({ORDER}"
        " ROWS 2 PRECEDING) AS m FROM t"
    ),
    f"SELECT id, p FROM (SELECT *, lag(id) OVER (PARTITION BY k {ORDER}) AS p FROM ({NUMBERED}) a WHERE n <= 3) q",
    (
        f"SELECT id, row_number() OVER (PARTITION BY k {ORDER}) AS n, rank() OVER (ORDER BY x NULLS LAST) AS r,"
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
    theirs = query.replace(") IGNORE NULLS", " IGNORE NULLS)").replace(
        "percentile", "quantile_cont"
    )
    check_versions(plan_query(query, {"t": rows.schema}), theirs, rows, rng, tmp_path)


def check_versions(
    plan: sa.Plan, query: str, rows: pa.Table, rng: random.Random, folder: Path
) -> None:
    """Run a plan over random changes of the table, and compare every version with DuckDB."""
    run = started(plan, {"t": rows.schema}, folder)
    before: set[int] = set()
    for _ in range(4):
        after = {i for i in range(ROWS) if rng.random() < 0.6}
        run.batch({"t": changed(rows, before, after)})
        before = after
        assert ordered(list(run.view.elements())) == of_duckdb(query, {"t": chosen(rows, after)})


@pytest.mark.parametrize(
    ("call", "code", "place", "words"),
    [
        ("collect_list(DISTINCT x) OVER (PARTITION BY k)", "SQL_NOT_PLANNED", 12, "DISTINCT"),
        ("count(DISTINCT x) OVER ()", "SQL_NOT_PLANNED", 12, "Distinct window functions"),
        ("sum(x) OVER (w ROWS UNBOUNDED PRECEDING)", "SQL_SYNTAX", 24, "ROWS"),
        ("abs(x) OVER (PARTITION BY k)", "SQL_NOT_PLANNED", 12, "not supported within a window function"),
        ("row_number() OVER (PARTITION BY k)", "SQL_NOT_PLANNED", 1, "requires the window to be ordered"),
        ("lag(x, id) OVER (ORDER BY id)", "SQL_NOT_PLANNED", 1, "Cannot specify window frame for lag"),
        ("median(x) OVER (ORDER BY id)", "SQL_TYPES", 12, "Cannot specify ORDER BY"),
        ("ntile(0) OVER (ORDER BY id)", "SQL_TYPES", 12, "buckets"),
    ],
)  # fmt: skip
def test_what_is_no_window_function_is_refused(
    call: str, code: str, place: int, words: str
) -> None:
    query = f"SELECT id, {call} AS v FROM t WINDOW w AS (PARTITION BY k)"
    with pytest.raises(sa.SqlRefused, match=words) as refused:
        plan_query(query, {"t": SCHEMA})
    assert (refused.value.code, refused.value.column) == (code, place)
    assert "also at" not in str(refused.value)


def test_what_cannot_be_computed_is_refused_at_its_place() -> None:
    call = "first_value(x) OVER (PARTITION BY k ROWS 1 PRECEDING)"
    with pytest.raises(sa.PlanRefused) as refused:
        sa.explain(plan_query(f"SELECT id, {call} AS v FROM t", {"t": SCHEMA}))
    assert refused.value.code == "WINDOW_FUNCTION_NOT_SUPPORTED"
    assert "SQL:1:12" in str(refused.value)


TIMES = [
    datetime(2024, 2, 28, 22) + timedelta(hours=h)
    for h in (0, 1, 2, 3, 25, 26, 49, 72, 24 * 29, 24 * 31, 24 * 33, 24 * 366)
]
FRAMES_OF_VALUES = [
    ("ts", "RANGE INTERVAL '3' HOURS PRECEDING"),
    (
        "ts DESC",
        "range between INTERVAL '1440' MINUTES preceding and interval '90' minutes following",
    ),
    ("ts", "RANGE BETWEEN INTERVAL '1 1' DAY TO HOUR FOLLOWING AND UNBOUNDED FOLLOWING"),
    ("day", "RANGE BETWEEN CURRENT ROW AND INTERVAL '1' DAY FOLLOWING"),
    ("day DESC", "RANGE BETWEEN UNBOUNDED PRECEDING AND INTERVAL '2' DAYS PRECEDING"),
    ("price", "RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING"),
    ("price DESC", "RANGE BETWEEN 1.5 PRECEDING AND .25 PRECEDING"),
    ("price", "RANGE 1e1 PRECEDING"),
    ("day", "RANGE INTERVAL '1' MONTH PRECEDING"),
    ("day DESC", "RANGE BETWEEN INTERVAL '1' MONTH PRECEDING AND INTERVAL '2' MONTH FOLLOWING"),
    ("day", "RANGE BETWEEN UNBOUNDED PRECEDING AND INTERVAL '1' YEAR PRECEDING"),
    ("share", "RANGE BETWEEN 0.1 PRECEDING AND 0.2 FOLLOWING"),
    ("share DESC", "RANGE BETWEEN UNBOUNDED PRECEDING AND 0.1 PRECEDING"),
]


@pytest.mark.parametrize(("key", "frame"), FRAMES_OF_VALUES)
def test_distances_between_times_and_decimals(key: str, frame: str, tmp_path: Path) -> None:
    """Frames of rows and of integers are beside them."""
    rng = random.Random(5)
    times = rng.choices([*TIMES, None], k=ROWS)
    rows = pa.table(
        {
            "k": pa.array(rng.choices((1, 2), k=ROWS), pa.int64()),
            "ts": pa.array(times, pa.timestamp("us")),
            "day": pa.array([t and t.date() for t in times], pa.date32()),
            "share": pa.array([rng.randrange(8) / 10 for _ in times], pa.float64()),
            "price": pa.array([Decimal(rng.randrange(-300, 300)) / 100 for _ in times], pa.decimal128(9, 2)),
            "id": pa.array(range(ROWS), pa.int64()),
        }
    )  # fmt: skip
    query = (
        f"SELECT *, sum(id) OVER (PARTITION BY k ORDER BY {key} NULLS LAST {frame}) AS s, count(*) OVER w AS c,"
        " max(id) OVER (ORDER BY id ROWS 2 PRECEDING) AS m, min(id) OVER (ORDER BY id RANGE 3 PRECEDING) AS n"
        f" FROM t WINDOW w AS (ORDER BY {key} NULLS FIRST {frame})"
    )
    plan = plan_query(query, {"t": rows.schema})
    theirs = query.replace("'1 1' DAY TO HOUR", "'25' HOURS")
    check_versions(plan, theirs, rows, rng, tmp_path)


@pytest.mark.parametrize(
    ("key", "frame", "reason"),
    [
        ("k", "RANGE '2 days' PRECEDING", "The value '2 days' .* cannot be cast"),
        ("k, day", "RANGE INTERVAL '1' DAY PRECEDING", "multiple order by expressions"),
        ("price", "RANGE 1e30 PRECEDING", "cannot be represented"),
        ("day", "RANGE INTERVAL 'soon' PRECEDING", "'soon'"),
        ("day", "RANGE INTERVAL '1 day' * 2 PRECEDING", "must be a literal"),
        ("CAST(k AS DOUBLE)", f"RANGE BETWEEN 0.{'0' * 38}1 PRECEDING AND CURRENT ROW", "38"),
    ],
)
def test_distances_that_no_frame_can_have_are_refused(key: str, frame: str, reason: str) -> None:
    columns = [("k", pa.int64()), ("day", pa.date32()), ("price", pa.decimal128(9, 2))]
    query = f"SELECT sum(k) OVER (ORDER BY {key} {frame}) AS v FROM t"
    with pytest.raises(sa.SqlRefused, match=reason) as refused:
        plan_query(query, {"t": pa.schema(columns)})
    assert "also at" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"emit": "end"}, "EMIT_TOGETHER"),
        ({"watermark": {"t.at": "max-diff:10s"}, "emit": "watermark"}, "EMIT_TOGETHER"),
        ({"watermark": {"t.at": "max-diff:10s"}, "ttl": "100s"}, "TTL_MEANINGLESS"),
    ],
)
def test_rows_neither_wait_nor_expire(options: dict[str, Any], code: str, tmp_path: Path) -> None:
    """A row that comes or goes changes the values of others, so a version has all of them."""
    times = pa.array([0, 1], pa.timestamp("us"))
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"at": times, "x": [1, 2]}), tmp_path / "t" / "0.parquet")
    source = {"t": f"parquet:{tmp_path / 't'}"}
    schema = pa.schema([("at", pa.timestamp("us")), ("x", pa.int64())])
    plan = plan_query("SELECT at, lag(x) OVER (ORDER BY at) AS p FROM t", {"t": schema})
    with pytest.raises(sa.UsageError) as refused:
        run(plan, source, checkpoint=tmp_path / "checkpoint", **options)
    assert refused.value.code == code


def test_functions_of_one_order_are_one_operator() -> None:
    calls = [
        f"{f}(x) OVER (PARTITION BY k ORDER BY id) AS {f}" for f in ("lag", "sum", "last_value")
    ]
    calls += ["max(x) OVER (PARTITION BY k ORDER BY id ROWS 3 PRECEDING) AS m"]
    text = str(sa.explain(plan_query(f"SELECT id, {', '.join(calls)} FROM t", {"t": SCHEMA})))
    assert text.count(": window functions ") == 1
    assert "max over rows 3 preceding to current row" in text


def test_only_the_rows_that_a_condition_asks_for_are_numbered() -> None:
    text = sa.explain(
        plan_query(f"SELECT id FROM ({NUMBERED}) q WHERE n > 1 AND n < 4", {"t": SCHEMA})
    )
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
    text = str(sa.explain(plan_query(query, {"t": SCHEMA})))
    assert (f"only ranks up to {last} are stored" if last else "to the last") in text


def test_a_number_that_becomes_null_limits_nothing() -> None:
    """A number above 127 is null as TINYINT, so the condition is not one on the number."""
    query = f"SELECT id FROM ({NUMBERED}) q WHERE try_cast(n AS TINYINT) <= 200"
    text = str(sa.explain(plan_query(query, {"t": SCHEMA})))
    assert "ranks 1 to the last" in text
    assert "filter" in text.replace("input.filter", "")


def test_the_size_of_a_plan_grows_with_the_number_of_functions() -> None:
    """Each function reads the rows once: with 24 functions a plan that doubles would be refused."""
    calls = [f"sum(x) OVER (PARTITION BY k + {i}) AS s{i}" for i in range(12)]
    calls += [f"rank() OVER (PARTITION BY k + {i} ORDER BY x) AS r{i}" for i in range(12)]
    plan = plan_query(f"SELECT id, {', '.join(calls)} FROM t", {"t": SCHEMA})
    assert [p for p in sa.validate(plan).problems if p.level == "error"] == []
    text = str(sa.explain(plan))
    assert (text.count(": join "), text.count(": window functions ")) == (12, 12)


@pytest.mark.parametrize(
    ("condition", "last"),
    [
        ("n <= 3", 3),
        ("n = 0", 1),
        ("n + 1 < 5", 3),
        ("n IN (1, 2, 3, 4)", 4),
        ("n > 2", None),
        ("n <= 2 OR x > 1", None),
    ],
)
@pytest.mark.parametrize("query", [RANKED, DENSE])
def test_rows_are_read_up_to_the_last_rank(query: str, condition: str, last: int | None) -> None:
    text = str(
        sa.explain(plan_query(f"SELECT id FROM ({query}) q WHERE {condition}", {"t": SCHEMA}))
    )
    assert text.count(": window functions ") == 1
    assert ": join " not in text
    assert (f"rank up to {last}" in text) if last else ("up to" not in text)


def test_functions_of_one_partition_are_one_aggregate() -> None:
    calls = [f"{f}(x) OVER (PARTITION BY k) AS {f}" for f in ("sum", "min", "max", "avg")]
    text = str(sa.explain(plan_query(f"SELECT id, {', '.join(calls)} FROM t", {"t": SCHEMA})))
    assert (text.count(": aggregate "), text.count(": join ")) == (1, 1)
