"""The order of rows that a measure asks for: its keys, and whether the measure can obey them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from substrait_agg.bind.bound import Constant, Expr, MeasureSort
from substrait_agg.bind.context import Context, Schema, is_keyable, is_unknown
from substrait_agg.bind.expressions import bind_expression
from substrait_agg.bind.measure_arguments import Matched, without_widening
from substrait_agg.functions.aggregate_row import AggregateFunction
from substrait_agg.functions.aggregate_types import ORDERED
from substrait_agg.plan import model

DIRECTIONS: dict[str, tuple[bool, bool]] = {
    "asc_nulls_first": (False, True),
    "asc_nulls_last": (False, False),
    "desc_nulls_first": (True, True),
    "desc_nulls_last": (True, False),
    # Any order that keeps equal values together will do.
    "clustered": (False, False),
}
"""Direction of a sort field -> (descending, nulls first)."""


@dataclass(frozen=True, slots=True)
class Order:
    """The sorts of a measure: the keys that order something, and whether all of them were understood."""

    keys: tuple[MeasureSort, ...]
    expressions: tuple[Expr, ...]
    known: bool


def bind_order(measure: model.Measure, schema: Schema | None, context: Context) -> Order:
    """The sort keys of a measure; directions that do not say an order are reported."""
    name = measure.function.name
    keys: list[MeasureSort] = []
    known = True
    for sort in measure.sorts:
        expression = bind_expression(sort.expression, schema, context)
        direction = DIRECTIONS.get(sort.direction)
        if direction is None:
            context.report(
                "ORDER_DIRECTION_NOT_SUPPORTED", sort.path, name=name, direction=sort.direction
            )
            known = False
        elif is_unknown(expression):
            known = False
        else:
            keys.append(MeasureSort(expression, *direction))
    # A constant orders nothing.
    ordering = tuple(k for k in keys if not isinstance(k.expression, Constant))
    return Order(ordering, tuple(k.expression for k in keys), known)


def check_order(
    row: AggregateFunction,
    order: Order,
    matched: Matched | None,
    measure: model.Measure,
    distinct: bool,
    context: Context,
) -> bool:
    """Report what keeps the measure from obeying its order; True where nothing does."""
    if not measure.sorts or not order.known:
        return order.known
    name, first = measure.function.name, measure.sorts[0].path
    part = row.order_by
    if part.handling == "refused":
        for sort in measure.sorts:
            context.report("ORDER_BY_NOT_SUPPORTED", sort.path, name=name, reason=part.reason)
        return False
    if part.handling == "no-op":
        context.report("ORDER_BY_NO_EFFECT", first, name=name, reason=part.reason)
        return True
    types = [k.expression.type for k in order.keys]
    unordered = [t for t in types if t.kind not in ORDERED or not is_keyable(t)]
    if unordered:
        context.report("ORDER_KEY_NOT_SUPPORTED", first, name=name, type=unordered[0])
        return False
    if matched is None:
        return True
    if row.order_on_argument and not on_argument(order, matched):
        context.report("ORDER_NOT_BY_ARGUMENT", first, name=name)
        return False
    outside = [k for k in order.keys if k.expression not in matched.values]
    if distinct and outside and not row.order_on_argument:
        context.report("DISTINCT_ORDER_OUTSIDE", first, name=name)
        return False
    return True


def on_argument(order: Order, matched: Matched) -> bool:
    """Whether the aggregated value itself is the one sort key."""
    keys = {without_widening(k.expression) for k in order.keys}
    return keys <= {without_widening(v) for v in matched.values[:1]}


def settle_order(
    row: AggregateFunction, order: Order, matched: Matched
) -> tuple[tuple[MeasureSort, ...], tuple[Any, ...]]:
    """The order that the measure depends on, and its constants in that order.

    Where the argument is its own sort key, ascending is the order of the values themselves; a continuous percentile
    in descending order is the one of the complementary fraction, and a position from the end is one from the start
    in the opposite order.
    """
    constants = matched.constants
    if row.order_by.handling != "honoured":
        return (), constants
    if row.kind == "nth_value" and constants[0] < 0:
        return tuple(map(_reversed, _full_order(order, matched.values[0]))), (-constants[0],)
    if not row.order_on_argument:
        return order.keys, constants
    if not order.keys or not order.keys[0].descending:
        return (), constants
    if row.kind == "percentile_cont":
        # The fraction means the decimal number that it is written as.
        return (), (float(1 - Fraction(repr(constants[0]))),)
    return order.keys[:1], constants


def _full_order(order: Order, value: Expr) -> tuple[MeasureSort, ...]:
    """The keys and behind them the value, in whose order rows with equal keys stand."""
    if any(key.expression == value for key in order.keys):
        return order.keys
    return (*order.keys, MeasureSort(value, False, False))


def _reversed(key: MeasureSort) -> MeasureSort:
    return MeasureSort(key.expression, not key.descending, not key.nulls_first)
