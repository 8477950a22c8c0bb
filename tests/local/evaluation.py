"""Values of expressions over Arrow columns: those that plans of semantics tests have between their operators.

Values that neither this module nor the package computes on Arrow are computed by the shared Spark, if there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from substrait_agg.bind.bound import (
    Call,
    Column,
    Conditional,
    Constant,
    Conversion,
    Expr,
    InList,
)
from substrait_agg.bind.rewrite import call_durations
from substrait_agg.evaluation import expressions as constants
from substrait_agg.evaluation.comparisons import equal, in_order
from substrait_agg.operator.common.completeness import instants
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.plan.types import Type
from substrait_agg.spark.expressions import to_column
from substrait_agg.spark.inputs.linear_steps import columns_of

COMPARED = {
    "gt": pc.greater, "gte": pc.greater_equal, "lt": pc.less, "lte": pc.less_equal, "equal": pc.equal, "not_equal": pc.not_equal,
}  # fmt: skip


def _compared(compare: Callable[..., Any], left: pa.Array, right: pa.Array) -> pa.Array:
    return compare(in_order(left), in_order(right))


CALLS: Mapping[str, Callable[..., Any]] = {
    **{name: partial(_compared, compare) for name, compare in COMPARED.items()}, "and": lambda *values: reduce(pc.and_kleene, values), "or": lambda *values: reduce(pc.or_kleene, values), "not": pc.invert,
    "is_null": pc.is_null, "is_not_null": pc.is_valid, "add": pc.add_checked, "subtract": pc.subtract_checked,
    "multiply": pc.multiply_checked,
    "is_not_false": lambda values: pc.fill_null(values, True),
    "coalesce": lambda *values: pc.coalesce(*(v.cast(values[0].type) for v in values)),
}  # fmt: skip


def evaluate(expression: Expr, rows: pa.Table) -> pa.Array:
    """Return the value of an expression for every row.

    Args:
        expression: of the kinds in this module, or one that needs a Spark.
        rows: the columns ``c0``, ``c1``, ...

    Raises:
        TypeError: the expression is of another kind, and there is no Spark.
    """
    match expression:
        case Column(ordinal=ordinal):
            return whole(rows, f"c{ordinal}")
        case Constant():
            return constants.evaluate(expression, [], rows.num_rows)
        case Conversion(input=input_, type=type_) if not constants.supports(expression):
            return evaluate(input_, rows).cast(to_arrow(type_))
        case InList():
            return _in_list(expression, rows)
        case Conditional():
            return _conditional(expression, rows)
        case Call(function=("tumble" | "tumble_start" | "tumble_end") as name):
            return _tumbling(name, expression, rows)
        case Call(function=name, arguments=arguments) if (
            name in CALLS and not _nested(arguments) and not constants.supports(expression)
        ):
            return CALLS[name](*(evaluate(a, rows) for a in arguments))
    return _by_kernel_or_spark(expression, rows)


def _by_kernel_or_spark(expression: Expr, rows: pa.Table) -> pa.Array:
    names = [f"c{i}" for i in range(sum(name[0] == "c" for name in rows.column_names))]
    if constants.supports(expression):
        try:
            return constants.evaluate(expression, [whole(rows, n) for n in names], rows.num_rows)
        except constants.ExpressionFailed as failed:
            check_left_to_spark(failed)
    return _on_spark(expression, rows.select(names))


def check_left_to_spark(failed: constants.ExpressionFailed) -> None:
    """Raise a failure, unless it is one of a text that a run leaves to Spark."""
    if "other characters than those of ASCII" not in failed.message:
        raise failed


def _nested(arguments: Sequence[Expr]) -> bool:
    return any(argument.type.children for argument in arguments)


def _on_spark(expression: Expr, rows: pa.Table) -> pa.Array:
    if not rows.num_rows:  # Spark makes no frame of a table without chunks
        return pa.array([], to_arrow(expression.type))
    spark = SparkSession.getActiveSession()
    if spark is not None:
        schema = from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
        frame = spark.createDataFrame(rows, schema)
        values = frame.select(to_column(expression, columns_of(frame)).alias("value")).toArrow()
        return whole(values, "value").cast(to_arrow(expression.type))
    message = f"{expression} is not evaluated without Spark"
    raise TypeError(message)


def _in_list(expression: InList, rows: pa.Table) -> pa.Array:
    column = evaluate(expression.value, rows)
    same = (equal(column, evaluate(option, rows)) for option in expression.options)
    return reduce(pc.or_kleene, same)


def _conditional(expression: Conditional, rows: pa.Table) -> pa.Array:
    """Return the value of the first condition that is true, computed for the rows that it is for."""
    type_, left = to_arrow(expression.type), np.arange(rows.num_rows)
    parts, places = [pa.array([], type_)], [left[:0]]
    for condition, value in expression.clauses:
        true = pc.fill_null(evaluate(condition, rows.take(left)), False)
        chosen = left[true.to_numpy(zero_copy_only=False)]
        if chosen.size:
            parts.append(evaluate(value, rows.take(chosen)).cast(type_))
            places.append(chosen)
            left = np.setdiff1d(left, chosen, assume_unique=True)
    if left.size:
        parts.append(evaluate(expression.otherwise, rows.take(left)).cast(type_))
        places.append(left)
    return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(places))))


def whole(rows: pa.Table, name: str) -> pa.Array:
    """Return a column in one piece."""
    return rows.column(name).combine_chunks()


def _tumbling(name: str, call: Call, rows: pa.Table) -> pa.Array:
    size, offset = (*call_durations(call.arguments), 0)[:2]
    times, valid = instants(evaluate(call.arguments[0], rows))
    starts = times - (times - offset) % size
    if name == "tumble":
        return windows(starts, size, valid, call.type)
    edges = starts if name == "tumble_start" else starts + size
    return pa.array(edges, mask=~valid).cast(to_arrow(call.type))


def windows(starts: Any, size: int, valid: Any, type_: Type) -> pa.Array:
    """Return windows as structs, null where `valid` is not true."""
    arrow = to_arrow(type_)
    edges = [pa.array(e).cast(arrow.field(i).type) for i, e in enumerate((starts, starts + size))]
    return pa.StructArray.from_arrays(edges, fields=list(arrow), mask=pa.array(~valid))


def hop_windows(call: Call, rows: pa.Table) -> tuple[Any, pa.Array]:
    """Return the windows of all rows: the row of each window, and the window.

    A row without a time is in one window, which is null.
    """
    size, slide, offset = (*call_durations(call.arguments), 0)[:3]
    times, valid = instants(evaluate(call.arguments[0], rows))
    first = times - (times - offset) % slide
    steps = np.arange(-(-size // slide)) * slide
    starts = first[:, None] - steps[None, :]
    inside = (starts + size > times[:, None]) & valid[:, None]
    inside[~valid, 0] = True
    row, step = np.nonzero(inside)
    return row, windows(starts[row, step], size, valid[row], call.type)
