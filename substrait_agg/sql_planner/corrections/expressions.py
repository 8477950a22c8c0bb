"""Correct the expressions of DataFusion's plans: literals, comparisons, CASE and positions of rows."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from substrait import algebra_pb2

from substrait_agg.functions.aggregates.catalogue import RANKINGS
from substrait_agg.sql_planner.corrections.column_types import Tables
from substrait_agg.sql_planner.corrections.functions import Functions, declare_windows
from substrait_agg.sql_planner.corrections.messages import messages
from substrait_agg.sql_planner.corrections.struct_fields import read_fields

COMPARISONS = frozenset({"equal", "not_equal", "lt", "lte", "gt", "gte", "is_not_distinct_from", "is_distinct_from"})  # fmt: skip

BITWISE = frozenset({"bitwise_and", "bitwise_or", "shift_left", "shift_right"})

UNSIGNED = 1
"""Variation of an integer literal that DataFusion writes for an unsigned integer."""

FLOAT_AS_DECIMAL = {(14, 7), (30, 15)}
"""Precision and scale of the decimals in which DataFusion compares a float with a decimal."""

_NULLABLE, _REQUIRED = 1, 2


def correct_expressions(
    plan: Any, tables: Tables, written: Container[tuple[int, int]] = ()
) -> None:
    """Correct all expressions of a plan.

    Args:
        plan: the plan; it is changed. Unsigned integers become signed: no table has any, and positions
            of rows are written as such.
        tables: name of a table in the plan -> its columns.
        written: digits of the decimal types that the query writes. Casts to them are its own.
    """
    functions = Functions(plan)
    for literal in messages(plan, "substrait.Expression.Literal"):
        _keep_large_number(literal)
    read_fields(plan, tables, functions)
    # Inner expressions come last, so they are corrected first.
    for expression in reversed(list(messages(plan, "substrait.Expression"))):
        if expression.HasField("if_then"):
            _compare_base(expression.if_then, functions)
        name = functions.scalar(expression)
        if name in BITWISE:
            _read_grouping_bits(expression.scalar_function)
        elif name in COMPARISONS:
            sides = [argument.value for argument in expression.scalar_function.arguments]
            _compare_floats(sides, written)
        elif expression.HasField("singular_or_list"):
            in_list = expression.singular_or_list
            _compare_floats([in_list.value, *in_list.options], written)
    _sign_positions(plan, functions)
    declare_windows(plan)


def _sign_positions(plan: Any, functions: Functions) -> None:
    """Make positions of rows, and what they are compared with, signed integers."""
    for literal in messages(plan, "substrait.Expression.Literal"):
        if literal.HasField("i64"):
            literal.type_variation_reference = 0
    for call in messages(plan, "substrait.Expression.WindowFunction"):
        if functions.name(call) in (*RANKINGS, "ntile"):
            call.output_type.i64.nullability = _REQUIRED


def _keep_large_number(literal: Any) -> None:
    """Write an unsigned integer that is too large for a signed one as a decimal."""
    if literal.type_variation_reference == UNSIGNED and literal.HasField("i64") and literal.i64 < 0:
        value = literal.i64 + 2**64
        literal.type_variation_reference = 0
        literal.decimal.value = value.to_bytes(16, "little")
        literal.decimal.precision, literal.decimal.scale = 20, 0


def _compare_base(case: Any, functions: Functions) -> None:
    """Write ``CASE base WHEN value`` as comparisons; its base is a condition without result."""
    first = case.ifs[0]
    if first.HasField("then"):
        return
    base = algebra_pb2.Expression()
    base.CopyFrom(getattr(first, "if"))
    del case.ifs[0]
    for clause in case.ifs:
        condition = getattr(clause, "if")
        condition.CopyFrom(functions.call("equal", base, condition))


def _read_grouping_bits(call: Any) -> None:
    """Compute the bits of grouping() with integers of 32 bits, not with unsigned ones of 8."""
    sides = [argument.value for argument in call.arguments]
    masks = [s.literal for s in sides if s.HasField("literal") and s.literal.type_variation_reference == UNSIGNED]  # fmt: skip
    if not masks:
        return
    for literal in masks:
        value = getattr(literal, literal.WhichOneof("literal_type"))
        literal.type_variation_reference = 0
        literal.i32 = value
    call.output_type.i32.nullability = _NULLABLE
    for side in sides:
        if side.HasField("selection"):
            column = algebra_pb2.Expression()
            column.CopyFrom(side)
            side.cast.input.CopyFrom(column)
            side.cast.type.i32.nullability = _NULLABLE


def _compare_floats(sides: Sequence[Any], written: Container[tuple[int, int]]) -> None:
    """Compare a float with decimals as floats.

    DataFusion casts the float to a decimal, which fails for large numbers, infinity and NaN.
    """
    floats = [side for side in sides if _is_float_as_decimal(side, written)]
    others = [side for side in sides if not _is_float_as_decimal(side, written)]
    if len(floats) != 1 or not all(side.literal.HasField("decimal") for side in others):
        return
    inner = algebra_pb2.Expression()
    inner.CopyFrom(floats[0].cast.input)
    floats[0].CopyFrom(inner)
    for side in others:
        side.literal.fp64 = _decimal_value(side.literal.decimal)


def _is_float_as_decimal(expression: Any, written: Container[tuple[int, int]]) -> bool:
    type_ = expression.cast.type
    if not expression.HasField("cast") or not type_.HasField("decimal"):
        return False
    digits = (type_.decimal.precision, type_.decimal.scale)
    return digits in FLOAT_AS_DECIMAL and digits not in written


def _decimal_value(decimal: Any) -> float:
    whole = int.from_bytes(decimal.value, "little", signed=True)
    return float(f"{whole}e-{decimal.scale}")
