"""Bind the sort order of a measure, and check whether the measure can follow it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from substrait_agg.bind.aggregates.arguments import Matched, without_widening
from substrait_agg.bind.bound import Constant, Expr, MeasureSort
from substrait_agg.bind.context import BindContext, Schema, is_keyable, is_unknown
from substrait_agg.bind.expressions.binder import bind_expression
from substrait_agg.functions.aggregates.row import AggregateFunction
from substrait_agg.functions.aggregates.types import ORDERED
from substrait_agg.plan import model
from substrait_agg.plan.types import Type

DIRECTIONS: dict[str, tuple[bool, bool]] = {
    "asc_nulls_first": (False, True),
    "asc_nulls_last": (False, False),
    "desc_nulls_first": (True, True),
    "desc_nulls_last": (True, False),
    # Any order with equal values next to each other is correct.
    "clustered": (False, True),
}
"""Direction of a sort field -> (descending, nulls first)."""


@dataclass(frozen=True, slots=True)
class MeasureOrder:
    """The sorts of a measure.

    Attributes:
        keys: the sort keys that are not constant.
        places: paths of their expressions in the plan message.
        known: whether all sorts could be bound.
    """

    keys: tuple[MeasureSort, ...]
    places: tuple[str, ...]
    expressions: tuple[Expr, ...]
    known: bool


def bind_order(
    measure: model.MeasureCall, schema: Schema | None, context: BindContext
) -> MeasureOrder:
    """Bind the sort keys of a measure, and report invalid directions."""
    keys: list[tuple[MeasureSort, str]] = []
    for sort in measure.sorts:
        expression = bind_expression(sort.expression, schema, context)
        direction = DIRECTIONS.get(sort.direction)
        if direction is None:
            _report_direction(sort, measure.function.name, context)
        elif not is_unknown(expression):
            keys.append((MeasureSort(expression, *direction), f"{sort.path}.expr"))
    # A constant does not order rows.
    ordering = tuple(k for k in keys if not isinstance(k[0].expression, Constant))
    return MeasureOrder(
        tuple(key for key, _ in ordering),
        tuple(place for _, place in ordering),
        tuple(key.expression for key, _ in keys),
        len(keys) == len(measure.sorts),
    )


def _report_direction(sort: model.SortField, name: str, context: BindContext) -> None:
    if sort.direction == "invalid":
        return
    if sort.comparison is None:
        context.report(
            "ORDER_DIRECTION_NOT_SUPPORTED", f"{sort.path}.direction",
            name=name, direction=sort.direction.upper(),
        )  # fmt: skip
        return
    path, function = f"{sort.path}.comparison_function_reference", sort.comparison
    if function.known:
        context.report(
            "COMPARISON_FUNCTION_NOT_SUPPORTED", path, name=name, function=function.declared
        )
    elif function != model.NO_FUNCTION:
        context.report("FUNCTION_UNDECLARED", path, name=function.declared)


def check_order(
    row: AggregateFunction,
    order: MeasureOrder,
    matched: Matched | None,
    measure: model.MeasureCall,
    distinct: bool,
    context: BindContext,
) -> bool:
    """Report why the measure cannot follow its order. Return True if it can."""
    if not measure.sorts or not order.known:
        return order.known
    name, first = measure.function.name, measure.sorts[0].path
    part = row.order_by
    if part.handling == "refused":
        context.report("ORDER_BY_NOT_SUPPORTED", first, name=name, reason=part.reason)
        return False
    if part.handling == "no-op":
        context.report("ORDER_BY_NO_EFFECT", first, name=name, reason=part.reason)
        return True
    code, place, type_ = _misplaced_key(row, order, matched, distinct)
    if code:
        context.report(code, place, name=name, **({"type": type_} if type_ else {}))
    return not code


def _misplaced_key(
    row: AggregateFunction, order: MeasureOrder, matched: Matched | None, distinct: bool
) -> tuple[str, str, Type | None]:
    """Find the first sort key that the measure cannot follow.

    Returns:
        Code, path and type of the key; the code is empty if there is none.
    """
    keys = tuple(zip(order.keys, order.places, strict=True))
    for key, place in keys:
        type_ = key.expression.type
        if type_.kind not in ORDERED or not is_keyable(type_):
            return "ORDER_KEY_NOT_SUPPORTED", place, type_
    if matched is None:
        return "", "", None
    if row.order_on_argument:
        value = {without_widening(v) for v in matched.values[:1]}
        other = (place for k, place in keys if without_widening(k.expression) not in value)
        place = next(other, "")
        return ("ORDER_NOT_BY_ARGUMENT" if place else "", place, None)
    outside = (place for k, place in keys if distinct and k.expression not in matched.values)
    place = next(outside, "")
    return ("DISTINCT_ORDER_OUTSIDE" if place else "", place, None)


def resolve_order(
    row: AggregateFunction, order: MeasureOrder, matched: Matched
) -> tuple[tuple[MeasureSort, ...], tuple[Any, ...]]:
    """Return the order that the measure depends on, and its constants in that order.

    If the argument is its own sort key, ascending is the order of the values themselves. A
    continuous percentile in descending order equals the one of the complementary fraction in
    ascending order. A position from the end equals a position from the start in the reversed order.
    """
    constants = matched.constants
    if row.order_by.handling != "honoured":
        return (), constants
    if row.kind == "nth_value" and constants[0] < 0:
        return tuple(map(_reverse, _full_order(order, matched.values[0]))), (-constants[0],)
    if not row.order_on_argument:
        return order.keys, constants
    if not order.keys or not order.keys[0].descending:
        return (), constants
    if row.kind == "percentile_cont":
        # Use the decimal number that the plan writes, not its binary approximation.
        return (), (float(1 - Fraction(repr(constants[0]))),)
    return order.keys[:1], constants


def _full_order(order: MeasureOrder, value: Expr) -> tuple[MeasureSort, ...]:
    """Append the value to the keys, because it orders rows with equal keys."""
    if any(key.expression == value for key in order.keys):
        return order.keys
    return (*order.keys, MeasureSort(value, False, True))


def _reverse(key: MeasureSort) -> MeasureSort:
    return MeasureSort(key.expression, not key.descending, not key.nulls_first)
