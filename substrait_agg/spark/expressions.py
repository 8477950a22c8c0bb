"""Bound expressions as Spark Columns; no Python runs for a row.

The columns are to be used in a session prepared with `session.SESSION_CONF`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from substrait_agg.bind.bound import (
    Call,
    Column,
    Conditional,
    Constant,
    Conversion,
    Expr,
    InList,
    Nested,
)
from substrait_agg.errors import UsageError
from substrait_agg.plan.types import Type
from substrait_agg.spark.casts import convert
from substrait_agg.spark.columns import all_nullable
from substrait_agg.spark.functions import BUILDERS
from substrait_agg.spark.keys import hashable, normalised
from substrait_agg.spark.literals import literal
from substrait_agg.spark.parts import Arguments
from substrait_agg.spark.schema import to_spark

Columns = Sequence[SparkColumn]


def to_column(expr: Expr, columns: Columns) -> SparkColumn:
    """The expression over the input row `columns`, in the Spark type of its type.

    Args:
        expr: a bound expression.
        columns: the columns that its ordinals count.

    Raises:
        UsageError: ``TYPE_NOT_SUPPORTED``, ``FUNCTION_NOT_SUPPORTED``, ``ARGUMENT_NOT_CONSTANT``.
    """
    return _BUILD[type(expr)](expr, columns)


def _nested(expr: Nested, columns: Columns) -> SparkColumn:
    whole = to_column(expr.input, columns)
    kind = expr.input.type.kind
    if kind == "struct":
        return whole.getField(f"f{expr.step}")
    if kind == "list":
        return F.get(whole, F.lit(expr.step))
    return F.try_element_at(whole, to_column(expr.step, columns))


def _call(expr: Call, columns: Columns) -> SparkColumn:
    build = BUILDERS.get(expr.function)
    if build is None:
        raise UsageError(
            "FUNCTION_NOT_SUPPORTED",
            f"the function {expr.function} has no implementation on Spark",
            help="see the list of functions",
        )
    operand = comparable if expr.function in COMPARISONS else to_column
    arguments = tuple(operand(a, columns) for a in expr.arguments)
    result = build(Arguments(expr, arguments))
    if expr.type.kind == "bool":
        return result
    return result.cast(to_spark(all_nullable(expr.type)))


def _conversion(expr: Conversion, columns: Columns) -> SparkColumn:
    column = to_column(expr.input, columns)
    return convert(column, expr.input.type, expr.type, null_on_failure=expr.null_on_failure)


def _conditional(expr: Conditional, columns: Columns) -> SparkColumn:
    otherwise = to_column(expr.otherwise, columns)
    if not expr.clauses:
        return otherwise
    chain: Any = F
    for condition, value in expr.clauses:
        chain = chain.when(to_column(condition, columns), to_column(value, columns))
    result: SparkColumn = chain.otherwise(otherwise)
    return result


def _in_list(expr: InList, columns: Columns) -> SparkColumn:
    if not expr.options:
        return F.lit(False)
    return comparable(expr.value, columns).isin([comparable(o, columns) for o in expr.options])


def comparable(expr: Expr, columns: Columns) -> SparkColumn:
    """The expression in a form that Spark compares: it has no comparison of maps."""
    column = to_column(expr, columns)
    if not _holds_map(expr.type):
        return column
    type_ = to_spark(expr.type)
    return hashable(normalised(column, type_), type_)


def _holds_map(type_: Type) -> bool:
    return type_.kind == "map" or any(map(_holds_map, type_.children))


COMPARISONS = frozenset(
    {
        "equal", "not_equal", "lt", "lte", "gt", "gte", "between", "is_distinct_from",
        "is_not_distinct_from",
    }
)  # fmt: skip
"""Functions that compare their arguments, and do nothing else with them."""


_BUILD: dict[type, Callable[[Any, Columns], SparkColumn]] = {
    Constant: lambda expr, _columns: literal(expr.value, expr.type),
    Column: lambda expr, columns: columns[expr.ordinal],
    Nested: _nested,
    Call: _call,
    Conversion: _conversion,
    Conditional: _conditional,
    InList: _in_list,
}
