"""Convert bound expressions to Spark columns. No Python code runs per row.

Use the columns in a session prepared with `spark.session.session.SESSION_CONF`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from substrait_agg.bind.bound import (
    BoundLambda,
    BoundNestedValue,
    Call,
    Column,
    Conditional,
    Constant,
    Conversion,
    Expr,
    InList,
    LambdaParameter,
    NestedPart,
)
from substrait_agg.errors import UsageError
from substrait_agg.functions.scalars.catalogue import SCALARS
from substrait_agg.functions.spark_sql import SPARK_SQL
from substrait_agg.plan.types import field_name
from substrait_agg.spark.catalyst.spark_sql import spark_expression
from substrait_agg.spark.functions.parts import Arguments
from substrait_agg.spark.functions.table import BUILDERS, HIGHER_ORDER
from substrait_agg.spark.types.casts import convert
from substrait_agg.spark.types.keys import hashable, normalise
from substrait_agg.spark.types.literals import literal
from substrait_agg.spark.types.schema import cast_target, to_spark
from substrait_agg.spark.types.source_columns import all_nullable
from substrait_agg.spark.types.struct_fields import struct_of

Columns = Sequence[SparkColumn]


def to_column(expr: Expr, columns: Columns) -> SparkColumn:
    """Return an expression over the input row `columns`, in the Spark type of its own type.

    Raises:
        UsageError: ``TYPE_NOT_SUPPORTED``, ``FUNCTION_NOT_SUPPORTED``, ``ARGUMENT_NOT_CONSTANT``.
    """
    return _BUILD[type(expr)](expr, columns)


def _to_nested(expr: NestedPart, columns: Columns) -> SparkColumn:
    whole = to_column(expr.input, columns)
    kind = expr.input.type.kind
    if kind == "struct":
        return whole.getField(field_name(expr.step))
    if kind == "list":
        return F.get(whole, F.lit(expr.step))
    return F.try_element_at(whole, to_column(expr.step, columns))


@dataclass(frozen=True, slots=True)
class _InLambda(Sequence[SparkColumn]):
    """The columns of a row, with the parameters of the enclosing lambdas, the innermost last."""

    columns: Columns
    parameters: tuple[tuple[SparkColumn, ...], ...]

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, ordinal: Any) -> Any:
        return self.columns[ordinal]


def _parameter(expr: LambdaParameter, columns: Columns) -> SparkColumn:
    scopes = columns.parameters if isinstance(columns, _InLambda) else ()
    return scopes[-1 - expr.steps_out][expr.ordinal]


def _function_of(expr: BoundLambda, columns: Columns) -> Callable[[SparkColumn], SparkColumn]:
    """Return the lambda as a Python function from a parameter column to a result column.

    Spark's list functions call it once, to build the expression.
    """
    around = columns.parameters if isinstance(columns, _InLambda) else ()

    def body(element: SparkColumn) -> SparkColumn:
        return to_column(expr.body, _InLambda(columns, (*around, (element,))))

    return body


def _call(expr: Call, columns: Columns) -> SparkColumn:
    if expr.function in HIGHER_ORDER:
        values, function = expr.arguments
        if isinstance(function, BoundLambda):
            called = HIGHER_ORDER[expr.function](
                to_column(values, columns), _function_of(function, columns)
            )
            return called.cast(cast_target(all_nullable(expr.type)))
    if expr.function == SPARK_SQL:
        inputs = [to_column(a, columns) for a in expr.arguments[1:]]
        return spark_expression(expr, inputs).cast(cast_target(all_nullable(expr.type)))
    build = BUILDERS.get(expr.function)
    if build is None:
        raise UsageError(
            "FUNCTION_NOT_SUPPORTED",
            f"the function {expr.function} has no implementation on Spark",
            help="substrait-agg functions lists the supported functions",
        )
    operand = comparable if SCALARS[expr.function].compares else to_column
    arguments = tuple(operand(a, columns) for a in expr.arguments)
    result = build(Arguments(expr, arguments))
    if expr.type.kind == "bool":
        return result
    return result.cast(cast_target(all_nullable(expr.type)))


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


def _nested_value(expr: BoundNestedValue, columns: Columns) -> SparkColumn:
    parts = [to_column(part, columns) for part in expr.parts]
    if expr.type.kind == "struct":
        value = struct_of(parts)
    else:
        value = (F.array if expr.type.kind == "list" else F.create_map)(*parts)
    return value.cast(cast_target(all_nullable(expr.type)))


def comparable(expr: Expr, columns: Columns) -> SparkColumn:
    """Return an expression in a form that Spark can compare. Spark cannot compare maps."""
    column = to_column(expr, columns)
    if not expr.type.has_map():
        return column
    type_ = to_spark(expr.type)
    return hashable(normalise(column, type_), type_)


_BUILD: dict[type, Callable[[Any, Columns], SparkColumn]] = {
    Constant: lambda expr, _columns: literal(expr.value, expr.type),
    Column: lambda expr, columns: columns[expr.ordinal],
    NestedPart: _to_nested,
    Call: _call,
    Conversion: _conversion,
    Conditional: _conditional,
    InList: _in_list,
    BoundNestedValue: _nested_value,
    LambdaParameter: _parameter,
}
