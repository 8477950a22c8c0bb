"""Plans of Spark's analyzed queries: what is kept of a query, and what is refused, where."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

import substrait_agg as sa
from substrait_agg.bind.rewrite import table_reads

pytestmark = pytest.mark.spark

TABLES = """
CREATE TABLE sales (region STRING, amount INT, price DECIMAL(12,2), at TIMESTAMP, tags ARRAY<STRING>);
CREATE TABLE shop.other (k STRING, v DOUBLE, n INT);
"""


def plan_of(query: str, spark: SparkSession) -> Any:
    plan = sa.sql(TABLES + query, spark=spark)
    assert not [p for p in plan.check().problems if p.level == "error"], plan.check().problems
    return plan


def refusal(query: str, spark: SparkSession) -> sa.SqlRefused:
    with pytest.raises(sa.SqlRefused) as raised:
        sa.sql(TABLES + query, spark=spark)
    return raised.value


def tables_read(plan: Any) -> list[str]:
    return sorted(".".join(read.table) for read in table_reads(plan.bind().root))


def functions(plan: Any) -> set[str]:
    declared = json.loads(plan.content)["extensions"]
    return {d["extensionFunction"]["name"].partition(":")[0] for d in declared}


def test_a_scalar_subquery_over_a_table_is_not_computed_away(spark: SparkSession) -> None:
    """To Spark, the tables of a plan have no rows; its constant folding knew the answer."""
    query = "SELECT amount FROM sales WHERE amount = (SELECT n FROM shop.other WHERE k = 'a')"
    assert tables_read(plan_of(query, spark)) == ["sales", "shop.other"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM sales WHERE region IN (SELECT k FROM shop.other)",
        "SELECT EXISTS (SELECT 1 FROM shop.other) FROM sales",
        "SELECT region FROM sales EXCEPT SELECT k FROM shop.other",
        "SELECT * FROM sales LEFT JOIN shop.other ON region = k",
        "SELECT (SELECT count(*) FROM shop.other) FROM sales",
    ],
)
def test_no_table_is_taken_for_empty(query: str, spark: SparkSession) -> None:
    assert tables_read(plan_of(query, spark)) == ["sales", "shop.other"]


def test_a_name_of_with_is_not_the_table_of_that_name(spark: SparkSession) -> None:
    query = "WITH sales AS (SELECT k AS region FROM shop.other) SELECT region FROM sales"
    assert tables_read(plan_of(query, spark)) == ["shop.other"]


def test_all_that_cannot_be_kept_is_named_with_its_place(spark: SparkSession) -> None:
    error = refusal("SELECT region,\n  localtimestamp(),\n  amount + rand()\nFROM sales", spark)
    assert (error.code, error.line, error.column) == ("SQL_NOT_DETERMINISTIC", 5, 3)
    assert "also at SQL:6:12: rand changes" in error.excerpt


def test_an_error_of_spark_has_the_place_in_the_script(spark: SparkSession) -> None:
    error = refusal("SELECT region\nFROM sales\nWHERE amont > 3", spark)
    assert (error.code, error.line, error.column) == ("SQL_COLUMN_UNKNOWN", 6, 7)
    assert error.excerpt == "WHERE amont > 3\n      ^^^^^"


def test_an_unknown_table_is_named_beside_those_that_exist(spark: SparkSession) -> None:
    error = refusal("SELECT 1 FROM sale", spark)
    assert error.code == "SQL_TABLE_UNKNOWN"
    assert "the tables are: sales, shop.other" in error.help


@pytest.mark.parametrize(
    ("key", "function"),
    [
        ("window(at, '10 minutes')", "tumble"),
        ("window(at, '10 minutes', '5 minutes')", "hop"),
        ("window(at, '10 minutes', '10 minutes', '1 minute')", "tumble"),
        ("session_window(at, '10 minutes')", "session"),
    ],
)
def test_windows_over_time_are_functions_of_windows(
    key: str, function: str, spark: SparkSession
) -> None:
    plan = plan_of(f"SELECT {key}, count(*) FROM sales GROUP BY {key}", spark)
    assert function in functions(plan)
    assert "spark_sql" not in functions(plan)
    named = plan_of(
        f"SELECT w.start, n FROM (SELECT {key} AS w, count(*) AS n FROM sales GROUP BY {key}) q",
        spark,
    )
    assert named.bind().names == ("start", "n")


def test_an_expression_without_a_function_is_one_text(spark: SparkSession) -> None:
    plan = plan_of("SELECT upper(md5(concat(region, 'x'))) AS h FROM sales", spark)
    assert functions(plan) == {"spark_sql"}


def test_parts_with_functions_stay_beside_a_measure(spark: SparkSession) -> None:
    plan = plan_of("SELECT md5(max(region)), sum(amount) + 1 FROM sales", spark)
    assert {"max", "sum", "add", "spark_sql"} <= functions(plan)


def test_conditions_of_one_input_of_an_outer_join_are_computed_below_it(
    spark: SparkSession,
) -> None:
    query = (
        "SELECT * FROM sales FULL JOIN shop.other ON lower(region) = md5(k) AND length(k) > amount"
    )
    plan = plan_of(query, spark)
    assert plan.bind().names == ("region", "amount", "price", "at", "tags", "k", "v", "n")


def test_equal_floats_are_the_key_of_a_join(spark: SparkSession) -> None:
    query = "SELECT a.k FROM shop.other a JOIN shop.other b ON a.v = b.v AND a.n < b.n"
    assert "is_nan" not in functions(plan_of(query, spark))
    inner = "SELECT k FROM shop.other WHERE v IN (SELECT v + 1 FROM shop.other)"
    assert plan_of(inner, spark).bind().names == ("k",)


def test_constants_with_a_name_are_no_table(spark: SparkSession) -> None:
    query = "SELECT s.id FROM range(3) AS sales JOIN (VALUES (1), (2)) AS s(id) ON s.id = sales.id"
    assert tables_read(plan_of(query, spark)) == []


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("SELECT * FROM sales TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
        ("SELECT histogram_numeric(amount, 2) FROM sales", "the order of the rows"),
        ("SELECT kll_sketch_agg_double(1D) FROM sales", "the order of the rows"),
        ("SELECT try_parse_json(region) AS v FROM sales GROUP BY v", "orderable"),
        ("SELECT DISTINCT try_parse_json(region) FROM sales", "VARIANT"),
        ("SELECT count(DISTINCT try_parse_json(region)) FROM sales", "variants"),
        ("SELECT try_parse_json(region) AS v FROM sales ORDER BY v", "ordering"),
        ("SELECT max(try_parse_json(region)) FROM sales", "ordering"),
        ("SELECT 1 FROM sales a JOIN sales b ON try_parse_json(a.region) = try_parse_json(b.region)", "VARIANT"),
        ("SELECT row_number() OVER (PARTITION BY try_parse_json(region) ORDER BY amount) FROM sales", "VARIANT"),
        ("SELECT tuple_union_agg_integer(X'00') FROM sales", "the order of the rows"),
        ("SELECT java_method('java.lang.Math', 'random') FROM sales", "java_method"),
        ("SELECT amount LIMIT amount FROM sales", ""),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused_with_a_remedy(
    query: str, word: str, spark: SparkSession
) -> None:
    error = refusal(query, spark)
    assert word in error.message
    assert error.help
    assert error.line
