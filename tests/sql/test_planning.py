"""Queries become plans with the names of the query; errors have a code, a line and a column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import substrait_agg as sa
from substrait_agg.bind.bound import BoundRead
from substrait_agg.bind.rewrite import table_reads
from substrait_agg.scripts.clauses import check_script
from substrait_agg.scripts.script import statements
from tests.spark_plans import plan_query, planner
from tests.sql.results import started, weighted

pytestmark = pytest.mark.usefixtures("spark")

COLUMNS = pa.schema(
    [
        ("a", pa.int64()),
        ("Region", pa.string()),
        ("c", pa.float64()),
        ("d", pa.decimal128(10, 2)),
        ("ts", pa.timestamp("us")),
        pa.field("must", pa.int64(), nullable=False),
    ]
)
TABLES = {"t": COLUMNS, "Other": COLUMNS, "db.sales": COLUMNS}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("SELECT region, sum(a) FROM t GROUP BY region", ("region", "sum(a)")),
        ("SELECT Region R, count( * ) AS N FROM T GROUP BY 1", ("R", "N")),
        ("SELECT `Region`, max(c) AS `Top C` FROM t GROUP BY 1", ("Region", "Top C")),
        ("SELECT * FROM other", ("a", "Region", "c", "d", "ts", "must")),
        ("WITH q AS (SELECT a + 1 AS b FROM t) SELECT b, b * 2 FROM q", ("b", "(b * 2)")),
        ("SELECT CASE WHEN a > 1 THEN 2 END FROM db.sales", ("CASE WHEN (a > 1) THEN 2 END",)),
        ("SELECT DISTINCT a FROM t UNION SELECT must FROM t", ("a",)),
        ("(SELECT a AS X FROM t) UNION ALL SELECT must AS y FROM t", ("X",)),
        ("((SELECT a AS X FROM t LIMIT 1) UNION ALL SELECT 1 AS y) LIMIT 2", ("X",)),
        (
            "WITH q(B) AS (SELECT a FROM t), p AS (SELECT 1) (SELECT b AS X FROM q) EXCEPT SELECT 2 AS y",
            ("X",),
        ),
        ("(WITH q AS (SELECT a FROM t) SELECT a AS X FROM q) UNION SELECT 1 AS y", ("X",)),
        (
            "SELECT a IS DISTINCT FROM must AS Other, a IS NOT DISTINCT FROM 1 same FROM t",
            ("Other", "same"),
        ),
    ],
)
def test_columns_of_the_result_have_the_names_of_the_query(
    query: str, names: tuple[str, ...]
) -> None:
    assert plan_query(query, TABLES).bind().names == names


def test_tables_and_columns_keep_their_own_names() -> None:
    plan = plan_query("SELECT region FROM OTHER WHERE region > 'x'", TABLES)
    (table,) = {read.table for read in _reads(plan)}
    assert table == ("Other",)
    assert _reads(plan)[0].names[1] == "Region"


def test_other_tables_do_not_cost_calls_of_the_jvm(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables are given to the JVM once, not for every view of a pipeline."""
    commands: list[str] = []
    client = spark._jvm._gateway_client  # type: ignore[union-attr]
    send = client.send_command

    def record(command: str, *options: Any, **named: Any) -> Any:
        if not command.startswith("m"):  # py4j gives objects back when it likes to
            commands.append(command)
        return send(command, *options, **named)

    monkeypatch.setattr(client, "send_command", record)
    counts = []
    for number in (1, 50):
        tables = TABLES | {f"other{i}": COLUMNS for i in range(number)}
        plan_query("SELECT a FROM t", tables)
        commands.clear()
        plan_query("SELECT a FROM t", tables)
        counts.append(len(commands))
    assert counts[0] == counts[1]


def test_a_planner_takes_the_tables_that_it_is_given_last() -> None:
    """It keeps those of the last query."""
    other = pa.schema([("a", pa.string()), ("z", pa.int64())])
    assert plan_query("SELECT * FROM t", {"t": COLUMNS}).bind().names == tuple(COLUMNS.names)
    assert plan_query("SELECT * FROM t", {"t": other, "u": other}).bind().names == ("a", "z")
    with pytest.raises(sa.SqlRefused) as raised:
        plan_query("SELECT * FROM u", {"t": other})
    assert raised.value.code == "SQL_TABLE_UNKNOWN"


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("written", "table"),
    [
        ("t", ("t",)),
        ("T", ("t",)),
        ("s.t", ("S", "t")),
        ("c.s.t", ("c", "s", "t")),
    ],
)
def test_tables_of_different_schemas_are_told_apart(
    written: str, table: tuple[str, ...], reverse: bool
) -> None:
    names = ["t", "S.t", "c.s.t"]
    tables = dict.fromkeys(reversed(names) if reverse else names, COLUMNS)
    assert _reads(plan_query(f"SELECT a FROM {written}", tables))[0].table == table


def _reads(plan: sa.Plan) -> list[BoundRead]:
    return list(table_reads(plan.bind().root))


def test_names_of_a_view_name_its_columns() -> None:
    (view,) = statements("CREATE VIEW v (x, y) AS SELECT a, sum(c) FROM t GROUP BY a")
    assert planner().plan(view, TABLES).bind().names == ("x", "y")


@pytest.mark.parametrize(
    ("query", "code", "place", "words"),
    [
        ("SELECT a,\n  FROM t WHERE", "SQL_SYNTAX", (2, 15), "end of input"),
        ("SELECT a FROM\n  nosuch", "SQL_TABLE_UNKNOWN", (2, 3), "nosuch"),
        ("SELECT a FROM db2.sales", "SQL_TABLE_UNKNOWN", (1, 15), "`db2`.`sales`"),
        ("SELECT a, nosuch FROM t", "SQL_COLUMN_UNKNOWN", (1, 11), "nosuch"),
        ("SELECT t.nosuch FROM t", "SQL_COLUMN_UNKNOWN", (1, 8), "nosuch"),
        ("SELECT nosuch(a) FROM t", "SQL_FUNCTION_UNKNOWN", (1, 8), "nosuch"),
        ("SELECT 1 +\n sum(ts) FROM t", "SQL_TYPES", (2, 2), "sum(ts)"),
        ("SELECT 1,\n d + ts FROM t", "SQL_TYPES", (2, 2), "DECIMAL"),
        ("WITH RECURSIVE r(a) AS (SELECT 1 UNION ALL SELECT d FROM t, r) TABLE r", "SQL_TYPES", (1, 1), "DECIMAL"),
        ("SELECT a, sum(c) FROM t GROUP BY region", "SQL_NOT_PLANNED", (1, 1), "GROUP BY"),
        ("SELECT a FROM t, other", "SQL_NOT_PLANNED", (1, 8), "ambiguous"),
        ("SELECT first_value(a ORDER BY c) FROM t", "SQL_SYNTAX", (1, 22), "ORDER"),
        ("SELECT a FROM t SAMPLE 0.1", "SQL_SYNTAX", (1, 24), "0.1"),
        ("SELECT a FROM t PREWHERE c > 1", "SQL_SYNTAX", (1, 26), "'c'"),
        ("SELECT length(region) FILTER (WHERE a > 1) FROM t", "SQL_TYPES", (1, 8), "FILTER"),
        ("SELECT sum(length(DISTINCT region)) FROM t", "SQL_TYPES", (1, 12), "DISTINCT"),
        ("SELECT a FROM t ORDER BY (SELECT max(x.c) FROM other x WHERE x.a = t.a) LIMIT 1", "SQL_NOT_PLANNED", (1, 17), "Correlated scalar subqueries"),
        ("SELECT sum(a) OVER (ORDER BY c GROUPS 1 PRECEDING) FROM t", "SQL_SYNTAX", (1, 32), "GROUPS"),
        ("SELECT ts AT TIME ZONE 'Europe/Paris' FROM t", "SQL_SYNTAX", (1, 14), "TIME"),
        ("SELECT CAST(-a AS bigint unsigned) FROM t", "SQL_SYNTAX", (1, 26), "unsigned"),
        ("SELECT CAST(a AS varchar) FROM t", "SQL_SYNTAX", (1, 18), "VARCHAR"),
        ("SELECT a FROM t ORDER BY a LIMIT 9223372036854775807", "SQL_TYPES", (1, 34), "integer"),
        ("SELECT a FROM t WHERE ts > localtimestamp()", "SQL_NOT_DETERMINISTIC", (1, 28), "localtimestamp"),
        ("DROP TABLE t", "SQL_STATEMENTS", (1, 1), "DROP"),
        ("SELECT a FROM t; SELECT 1", "SQL_STATEMENTS", (1, 18), "second query"),
    ],
)  # fmt: skip
def test_an_error_has_its_code_and_place(
    query: str, code: str, place: tuple[int, int], words: str
) -> None:
    with pytest.raises(sa.SqlRefused) as caught:
        plan_query(query, TABLES, "q.sql")
    error = caught.value
    assert (error.code, (error.line, error.column)) == (code, place)
    assert words in error.message
    assert error.help


def test_an_error_in_a_script_has_the_place_in_the_script() -> None:
    script = "CREATE TABLE t (a int);\nCREATE VIEW v AS\n  SELECT nosuch FROM t"
    with pytest.raises(sa.SqlRefused) as caught:
        planner().plan(statements(script, "s.sql")[1], TABLES)
    assert caught.value.path == "s.sql:3:10"


@pytest.mark.parametrize(
    ("clause", "column"),
    [
        ("(CONSTRAINT positive EXPECT (a > 0) ON VIOLATION DROP ROW)", 16),
        ("SCHEDULE EVERY 1 HOUR", 15),
        ("REFRESH POLICY FULL", 23),
        ("TBLPROPERTIES ('substrait_agg.refresh_policy' = 'full')", 30),
    ],
)
def test_a_script_of_one_view_ignores_no_clause_that_a_pipeline_honours_or_refuses(
    clause: str, column: int
) -> None:
    script = f"CREATE TABLE t (a int);\nCREATE VIEW v {clause} AS SELECT a FROM t"
    with pytest.raises(sa.SqlRefused) as caught:
        check_script(script, "s.sql")
    assert caught.value.code == "SQL_NOT_MAINTAINED"
    assert caught.value.path == f"s.sql:2:{column}"
    assert caught.value.help


def test_clauses_that_say_how_spark_stores_a_view_have_no_effect_in_a_script() -> None:
    check_script(
        "CREATE TABLE t (a int);\nCREATE VIEW v COMMENT 'x' USING parquet AS SELECT a FROM t"
    )


def test_a_script_with_an_expectation_is_refused_as_a_whole() -> None:
    script = (
        "CREATE TABLE t (a int); CREATE VIEW v (CONSTRAINT c EXPECT (a > 0)) AS SELECT a FROM t"
    )
    with pytest.raises(sa.SqlRefused) as caught:
        sa.sql(script)
    assert caught.value.code == "SQL_NOT_MAINTAINED"


def test_plans_are_valid_in_strict_mode_and_the_same_each_time() -> None:
    query = "SELECT region, sum(d) * 0.5, count(DISTINCT a) FROM t WHERE c > 1.5 GROUP BY region"
    plan = plan_query(query, TABLES)
    assert sa.validate(plan, "strict").ok
    assert not sa.validate(plan).problems
    assert plan.content == plan_query(query, TABLES).content


@pytest.mark.parametrize(
    ("type_", "shown"),
    [
        (pa.uint8(), "i16?"), (pa.uint64(), "decimal?<20,0>"), (pa.large_string(), "string?"), (pa.time32("s"), "precision_time?<6>"),
        (pa.duration("us"), "interval_day?<6>"), (pa.dictionary(pa.int8(), pa.string()), "string?"), (pa.date64(), "date?"),
        (pa.timestamp("ns", "Europe/Oslo"), "precision_timestamp_tz?<6>"), (pa.list_(pa.uint16(), 2), "list?<i32?>"),
    ],
)  # fmt: skip
def test_columns_of_any_arrow_type(type_: pa.DataType, shown: str) -> None:
    plan = plan_query("SELECT c, a FROM t", {"t": pa.schema([("a", pa.int64()), ("c", type_)])})
    assert not [p for p in sa.validate(plan, "strict").problems if p.level == "error"]
    assert str(plan.bind().root.types[0]) == shown


def test_grouping_tells_which_keys_a_row_has() -> None:
    query = "SELECT region, a, grouping(region) AS g, grouping(a) AS h, sum(c) FROM t GROUP BY ROLLUP (region, a)"
    plan = plan_query(query, TABLES)
    assert not [p for p in sa.validate(plan).problems if p.level == "error"]
    assert [str(type_) for type_ in plan.bind().root.types][2:4] == ["i8", "i8"]


DATED = {"t": pa.schema([("d", pa.date32()), ("at", pa.timestamp("us"))])}


@pytest.mark.parametrize(
    "expression",
    ["d + INTERVAL '3 days'", "DATE '2024-01-31' - INTERVAL '1 month'", "at + INTERVAL '2 hours'",
     "CAST(d AS timestamp) - INTERVAL '2 hours'", "TIMESTAMP '2024-01-31 00:00:00' + INTERVAL '2 hours'"],
)  # fmt: skip
def test_times_are_moved(expression: str) -> None:
    assert plan_query(f"SELECT {expression} AS v FROM t", DATED).bind().names == ("v",)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT sample, partition, prewhere FROM (SELECT a AS sample, c AS partition, d prewhere FROM t) q",
        "SELECT a, sum(c) AS sample FROM t AS partition GROUP BY a ORDER BY a",
        "SELECT a FROM t EXCEPT SELECT must FROM other UNION ALL SELECT a FROM t",
        "SELECT a AS ignore, count(*) AS nulls FROM t GROUP BY a ORDER BY a NULLS FIRST",
        "SELECT extract(hour FROM from_utc_timestamp(ts, 'Europe/Paris')) AS hour FROM t",
        "SELECT t.a FROM t LEFT JOIN other USING (a)",
        "SELECT a FROM t WHERE a = (SELECT a FROM other)",
        "SELECT (SELECT x.c FROM other x WHERE x.a = t.a) FROM t",
        "SELECT t.a FROM t SEMI JOIN other ON t.a = other.a",
        "SELECT a, sum(c) FROM t GROUP BY a WITH ROLLUP",
        "SELECT a FROM t\nEXCEPT ALL SELECT a FROM other INTERSECT SELECT must FROM t",
    ],
)
def test_names_and_other_clauses_are_planned(query: str) -> None:
    assert plan_query(query, TABLES).bind().names


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("9223372036854775807", 2**63 - 1), ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", 2**63), ("18446744073709551615", 2**64 - 1), ("99999999999999999999999", 10**23 - 1),
    ],
)  # fmt: skip
def test_a_large_integer_keeps_its_value(literal: str, value: int, tmp_path: Path) -> None:
    """It is a decimal, also beside floats."""
    rows = pa.table({"a": pa.array([1], pa.int64()), "c": [0.5]})
    run = started(f"SELECT {literal} AS v FROM t", {"t": rows.schema}, tmp_path)
    run.batch({"t": weighted(rows, 1)})
    assert list(run.view.elements()) == [(value,)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT sum(abs(a)) FILTER (WHERE abs(c) > 1) FROM t",
        "SELECT abs((SELECT count(DISTINCT a) FROM other)) FROM t",
        "SELECT string_agg(upper(region), ',') WITHIN GROUP (ORDER BY upper(region)) FILTER (WHERE a > 1) FROM t",
        "SELECT count(DISTINCT abs(a)) FROM t WHERE length(region) IN (SELECT a FROM other) ORDER BY 1",
    ],
)
def test_clauses_of_aggregates_over_scalar_calls(query: str) -> None:
    """DISTINCT, ORDER BY and FILTER of an aggregate are not those of the calls in its arguments."""
    assert plan_query(query, TABLES).bind()
