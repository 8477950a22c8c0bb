"""Bind calls of the functions that plans from SQL and DataFrames name beside those of the standard."""

from __future__ import annotations

from substrait_agg.bind.bound import Argument, Call, Constant, Expr, value_arguments
from substrait_agg.bind.context import BindContext, is_unknown, unknown
from substrait_agg.functions.spark_sql import RECURSION, SPARK_SQL, SPARK_VERSION, UNNEST
from substrait_agg.plan.model import ScalarCall
from substrait_agg.plan.types import I32


def spark_call(call: ScalarCall, arguments: tuple[Argument, ...], context: BindContext) -> Expr:
    """Bind an expression that Spark computes from its text, or the elements of a list."""
    values = value_arguments(arguments)
    if is_unknown(*values):
        return unknown()
    fault = _fault(call, values, only_values=len(values) == len(arguments))
    if fault:
        context.report("SPARK_EXPRESSION_INVALID", call.path, reason=fault)
        return unknown()
    if call.function.name == UNNEST:
        return Call(values[0].type.children[0], UNNEST, values, (), ())
    if call.function.name == RECURSION:
        return Call(I32.as_nullable(False), RECURSION, values, (), ())
    type_ = call.output_type
    path = f"{call.path}.scalar_function.output_type"
    if type_ is None or not context.check_type(type_, path):
        return unknown()
    options = tuple((o.name.upper(), o.preferences[0]) for o in call.options)
    return Call(type_, SPARK_SQL, values, (), options)


def _fault(call: ScalarCall, values: tuple[Expr, ...], *, only_values: bool) -> str:
    """Return what is wrong with a call; nothing for a valid one."""
    name = call.function.name
    if name == UNNEST:
        is_list = only_values and len(values) == 1 and values[0].type.kind == "list"
        return "" if is_list and not call.options else f"{UNNEST} takes one list"
    if name == RECURSION:
        constants = [v.value for v in values if isinstance(v, Constant)]
        valid = only_values and [type(c) for c in constants] == [str, int, int] and not call.options
        return "" if valid else f"{RECURSION} takes a constant name and two constant integers"
    if name != SPARK_SQL or not only_values:
        return f"{name} with these arguments is not {SPARK_SQL} of a text and values"
    text = values[0] if values else None
    if not isinstance(text, Constant) or not isinstance(text.value, str):
        return "its first argument is not a constant text"
    if call.output_type is None:
        return "the plan does not declare its type"
    other = (
        o.name for o in call.options if o.name.upper() != SPARK_VERSION or len(o.preferences) != 1
    )
    unknown_option = next(other, None)
    return (
        ""
        if unknown_option is None
        else f"its option {unknown_option} is not {SPARK_VERSION} with one value"
    )


def is_unnest(expression: Expr) -> bool:
    """Return whether an expression has the elements of a list as its values, one per row."""
    return isinstance(expression, Call) and expression.function == UNNEST


def is_recursion(expression: Expr) -> bool:
    """Return whether an expression makes a recursion of the union that its projection reads."""
    return isinstance(expression, Call) and expression.function == RECURSION
