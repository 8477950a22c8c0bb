"""Bind calls of the functions that plans from SQL and DataFrames name beside those of the standard."""

from __future__ import annotations

from substrait_agg.bind.bound import Argument, Call, Constant, Expr, value_arguments
from substrait_agg.bind.context import BindContext, is_unknown, unknown
from substrait_agg.functions.spark_sql import SPARK_SQL, UNNEST
from substrait_agg.plan.model import ScalarCall


def spark_call(call: ScalarCall, arguments: tuple[Argument, ...], context: BindContext) -> Expr:
    """Bind an expression that Spark computes from its text, or the elements of a list."""
    if call.function.name == UNNEST:
        return _elements(call, arguments, context)
    text, *values = arguments or (unknown(),)
    if is_unknown(*value_arguments(arguments)):
        return unknown()
    if not isinstance(text, Constant) or not isinstance(text.value, str):
        context.report(
            "SPARK_EXPRESSION_INVALID",
            call.path,
            reason="its first argument is not a constant text",
        )
        return unknown()
    if call.function.name != SPARK_SQL or len(value_arguments(arguments)) != len(arguments):
        reason = (
            f"{call.function.name} with these arguments is not {SPARK_SQL} of a text and values"
        )
        context.report("SPARK_EXPRESSION_INVALID", call.path, reason=reason)
        return unknown()
    if call.output_type is None:
        context.report(
            "SPARK_EXPRESSION_INVALID", call.path, reason="the plan does not declare its type"
        )
        return unknown()
    if not context.check_type(call.output_type, f"{call.path}.scalar_function.output_type"):
        return unknown()
    return Call(call.output_type, SPARK_SQL, (text, *value_arguments(tuple(values))), (), ())


def _elements(call: ScalarCall, arguments: tuple[Argument, ...], context: BindContext) -> Expr:
    """Bind the elements of a list, which a projection makes rows of."""
    lists = value_arguments(arguments)
    if is_unknown(*lists):
        return unknown()
    if len(lists) != 1 or len(arguments) != 1 or lists[0].type.kind != "list":
        context.report("SPARK_EXPRESSION_INVALID", call.path, reason=f"{UNNEST} takes one list")
        return unknown()
    return Call(lists[0].type.children[0], UNNEST, lists, (), ())


def is_unnest(expression: Expr) -> bool:
    """Return whether an expression has the elements of a list as its values, one per row."""
    return isinstance(expression, Call) and expression.function == UNNEST
