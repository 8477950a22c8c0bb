"""Expressions that Spark computes from their text: values, and texts of untrusted plans."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from substrait_agg.bind.bound import Call, Constant
from substrait_agg.bind.bound import Column as BoundColumn
from substrait_agg.errors import UsageError
from substrait_agg.functions.spark_sql import SPARK_SQL
from substrait_agg.plan.types import FP64, STRING, Type
from substrait_agg.spark.expressions import to_column

I64 = Type("i64")
LIST = Type("list", children=(I64,))


def computed(text: str, type_: Type, *columns: Type) -> Column:
    arguments = [BoundColumn(t, i) for i, t in enumerate(columns)]
    call = Call(type_, SPARK_SQL, (Constant(STRING, text), *arguments), (), ())
    return to_column(call, [F.col(f"x{i}") for i in range(len(columns))])


@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("hex(c0)", STRING, "FF"),
        ("transform(c1, x -> x + c0)", LIST, [256, None]),
        ("filter(c1, (x, i) -> i > 0)", LIST, [None]),
        ("aggregate(c1, 0L, (a, x) -> a + coalesce(x, 1L), a -> a * c0)", I64, 510),
        ("get_json_object('{\"a\": 1}', '$.a')", STRING, "1"),
        ("CASE WHEN c0 > 1 THEN NULL ELSE c0 END", I64, None),
    ],
)
def test_a_text_has_the_values_of_spark(
    text: str, type_: Type, value: Any, spark: SparkSession
) -> None:
    rows = spark.sql("SELECT 255L AS x0, array(1L, NULL) AS x1")
    assert rows.select(computed(text, type_, I64, LIST)).collect()[0][0] == value


@pytest.mark.spark
def test_a_text_is_computed_over_expressions(spark: SparkSession) -> None:
    inner = Call(STRING, SPARK_SQL, (Constant(STRING, "hex(c0)"), BoundColumn(I64, 0)), (), ())
    outer = Call(STRING, SPARK_SQL, (Constant(STRING, "lower(c0)"), inner), (), ())
    rows = spark.sql("SELECT 255L AS x0")
    assert rows.select(to_column(outer, [F.col("x0")])).collect()[0][0] == "ff"


@pytest.mark.spark
@pytest.mark.parametrize(
    "text",
    [
        "java_method('java.lang.System', 'getenv', 'PATH')",
        "reflect('java.lang.System', 'getenv', 'PATH')",
        "(SELECT max(id) FROM range(3))",
        "EXISTS (SELECT 1)",
        "rand()",
        "uuid()",
        "CAST(current_date() AS STRING)",
        "current_user()",
        "input_file_name()",
        "sum(c0)",
        "row_number() OVER (ORDER BY c0)",
        "explode(array(c0))",
        "no_such_function(c0)",
        "x0",
        "c7",
        "c0 FROM t",
        "",
    ],
)
def test_a_text_of_more_than_a_row_is_refused(text: str, spark: SparkSession) -> None:
    with pytest.raises(UsageError) as raised:
        computed(text, STRING, I64)
    assert raised.value.code == "SPARK_EXPRESSION_REFUSED"


@pytest.mark.spark
def test_a_text_of_another_type_is_refused(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match="the plan declares fp64"):
        computed("c0 + 1", FP64, I64)


@pytest.mark.spark
def test_a_text_that_another_release_planned_is_refused(spark: SparkSession) -> None:
    call = Call(STRING, SPARK_SQL, (Constant(STRING, "'a'"),), (), (("SPARK_VERSION", "3.9"),))
    with pytest.raises(UsageError, match=r"Spark 3\.9 planned it"):
        to_column(call, ())


@pytest.mark.spark
def test_a_function_of_the_session_is_refused(spark: SparkSession) -> None:
    spark.udf.register("own_function", lambda x: x, "bigint")
    try:
        with pytest.raises(UsageError, match="a user wrote"):
            computed("own_function(c0)", I64, I64)
    finally:
        spark.sql("DROP TEMPORARY FUNCTION own_function")
