"""Evaluates bound expressions over rows, for tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import Column as SparkColumn
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from substrait_agg.bind.bound import Call, Column, Constant, Expr
from substrait_agg.plan.types import Type
from substrait_agg.spark.expressions import to_column
from substrait_agg.spark.types.literals import literal
from substrait_agg.spark.types.schema import to_spark

BOOL = Type("bool")
I8, I16, I32, I64 = (Type(f"i{bits}") for bits in (8, 16, 32, 64))
FP32, FP64, STRING, DATE = Type("fp32"), Type("fp64"), Type("string"), Type("date")
BINARY = Type("binary")
TS = Type("precision_timestamp", params=(6,))
TSTZ = Type("precision_timestamp_tz", params=(6,))
MONTHS = Type("interval_year")
DAYS = Type("interval_day", params=(6,))


def call(
    function: str,
    type_: Type,
    *arguments: Expr | tuple[Type, Any],
    enums: tuple[str, ...] = (),
    **options: str,
) -> Call:
    """A call; arguments may be (type, value) pairs."""
    bound = tuple(Constant(*a) if isinstance(a, tuple) else a for a in arguments)
    words = tuple(enumerate(enums))
    return Call(type_, function, bound, words, tuple((k.upper(), v) for k, v in options.items()))


def column_calls(expr: Call, first: int) -> tuple[Call, list[Constant]]:
    """The call with its constants moved into columns from ordinal `first` on, so that nothing is folded."""
    constants = [a for a in expr.arguments if isinstance(a, Constant)]
    arguments = tuple(Column(c.type, first + i) for i, c in enumerate(constants))
    return Call(expr.type, expr.function, arguments, expr.enums, expr.options), constants


def constants(spark: SparkSession, *exprs: Expr) -> list[Any]:
    """Values of expressions that read no column; decimals as `Decimal`, checked to be of their type."""
    columns = [to_column(e, ()) for e in exprs]
    frame = spark.range(1, numPartitions=1).select(
        *[c.alias(f"v{i}") for i, c in enumerate(columns)]
    )
    for expr, field in zip(exprs, frame.schema.fields, strict=True):
        assert field.dataType == to_spark(expr.type), (expr, field.dataType)
    return [_plain(v) for v in frame.collect()[0]]


def _plain(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    return value


def over_rows(
    spark: SparkSession, exprs: Sequence[Expr], types: Sequence[Type], rows: Sequence[Sequence[Any]]
) -> list[tuple[Any, ...]]:
    """Values of expressions over rows of plan values (as in literals), in the order of the rows."""
    cells: dict[str, SparkColumn] = {}  # a call of the JVM takes longer than a cell is worth

    def cell(place: int, value: Any) -> SparkColumn:
        key = f"{place} {value!r}"
        if key not in cells:
            cells[key] = literal(value, types[place]).alias(f"c{place}")
        return cells[key]

    built = [
        F.struct(F.lit(n).alias("n"), *(cell(i, value) for i, value in enumerate(row)))
        for n, row in enumerate(rows)
    ]
    # An explode keeps the optimiser from folding the rows away.
    frame = spark.range(1, numPartitions=1).select(F.explode(F.array(*built)).alias("r"))
    columns = [F.col(f"r.c{i}") for i in range(len(types))]
    values = [to_column(e, columns).alias(f"v{i}") for i, e in enumerate(exprs)]
    found = frame.select(F.col("r.n"), *values).collect()
    return [tuple(map(_plain, row[1:])) for row in sorted(found, key=lambda r: int(r[0]))]


def fails(spark: SparkSession, expr: Expr, match: str) -> None:
    with pytest.raises(Exception, match=match):
        constants(spark, expr)


def same(found: Any, wanted: Any) -> bool:
    """Equality of values in which NaN equals NaN and -0.0 differs from 0.0."""
    if isinstance(wanted, float) and isinstance(found, float):
        if math.isnan(wanted):
            return math.isnan(found)
        return found == wanted and math.copysign(1, found) == math.copysign(1, wanted)
    return bool(found == wanted) and type(found) is type(wanted)


def check(spark: SparkSession, cases: list[tuple[Expr, Any]]) -> None:
    """All cases in one job; each is compared, so that a failure names it."""
    found = constants(spark, *(e for e, _ in cases))
    wrong = [(e, f, w) for (e, w), f in zip(cases, found, strict=True) if not same(f, w)]
    assert not wrong
