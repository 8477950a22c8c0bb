"""Bind fetches: their order, offset and count."""

from __future__ import annotations

import operator
from collections.abc import Callable

from substrait_agg.bind.aggregates.order import DIRECTIONS
from substrait_agg.bind.bound import (
    BoundFetch,
    BoundProject,
    Call,
    Constant,
    Conversion,
    Expr,
    MeasureSort,
)
from substrait_agg.bind.context import BindContext, Opaque, is_unknown, schema_of
from substrait_agg.bind.expressions.binder import bind_expression
from substrait_agg.bind.places import expression_place
from substrait_agg.bind.plan.ordering import Ordered, OrderKey, projected, used
from substrait_agg.functions.aggregates.types import ORDERED
from substrait_agg.plan import model
from substrait_agg.plan.types import INTEGER_BITS

COUNT_OPTIONAL_SINCE = 62
"""Minor version of Substrait before which a count that is not written was a count of 0."""

LARGEST = 2**63 - 1
"""Largest offset and count."""

_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
}

Window = tuple[int, int | None]
"""Number of rows to skip, and the largest number of rows (None: all)."""


def bind_fetch(node: model.FetchRel, ordered: Ordered, context: BindContext) -> Ordered:
    """Bind a fetch.

    Returns:
        The rows of the fetch, in the same order. A fetch that keeps all rows is left out.
    """
    _check_message(node, context)
    before = len(context.problems.errors)
    offset = _amount(node.offset, "offset", 0, ordered, context)
    count = _amount(node.count, "count", None, ordered, context)
    if isinstance(ordered.relation, Opaque):
        return ordered
    if len(context.problems.errors) > before:
        return Ordered(ordered.relation, used(ordered.order))
    if count is None and not offset:
        return ordered
    if not _sorts(ordered):
        _report_no_order(node, ordered, context)
    return _fetched(ordered, (offset or 0, count), node.path, context)


def _check_message(node: model.FetchRel, context: BindContext) -> None:
    """Report fields that the message leaves open, and the unsupported option to keep ties."""
    old = context.release is not None and context.release < COUNT_OPTIONAL_SINCE
    if node.count_missing and old:
        context.report("FETCH_COUNT_UNCLEAR", node.path)
    if node.mode == "unspecified":
        context.report("FETCH_MODE_MISSING", f"{node.path}.mode")
    elif node.mode == "with_ties":
        context.report("FETCH_TIES_NOT_SUPPORTED", f"{node.path}.mode")


def _report_no_order(node: model.FetchRel, ordered: Ordered, context: BindContext) -> None:
    keys = () if ordered.order is None else ordered.order.keys
    if all(isinstance(key.expression, Constant) for key in keys):
        context.report("FETCH_WITHOUT_SORT", node.path)


# --- order -------------------------------------------------------------------------------------


def _fetched(ordered: Ordered, window: Window, path: str, context: BindContext) -> Ordered:
    """Return the rows of a window of the order."""
    relation, order, below = ordered.relation, ordered.order, ordered.below
    if isinstance(relation, Opaque):
        return ordered
    keys = () if order is None else order.keys
    lost = [key for key in keys if key.expression is None]
    if lost and below is not None and isinstance(relation, BoundProject):
        # A projection keeps rows and their order, so the fetch can read what is below it.
        return projected(
            _fetched(below, window, path, context), relation.expressions, relation.path
        )
    for key in lost:
        if key.problem:
            context.report("SORT_KEY_NOT_IN_OUTPUT", key.field.path)
    for key in keys:
        _check_key(key, context)
    fetch = BoundFetch(relation, _sorts(ordered), *window, relation.types, path)
    return Ordered(fetch, used(order))


def _check_key(key: OrderKey, context: BindContext) -> None:
    type_ = None if key.expression is None else key.expression.type
    if type_ is not None and type_.kind not in (*ORDERED, "map", "unknown"):
        place = f"{key.field.path}.expr"
        context.report("ORDER_KEY_NOT_SUPPORTED", place, name="the fetch", type=type_)


def _sorts(ordered: Ordered) -> tuple[MeasureSort, ...]:
    """Return the sort keys of a fetch; constant and repeated ones are left out."""
    sorts: dict[Expr, MeasureSort] = {}
    for key in () if ordered.order is None else ordered.order.keys:
        direction = DIRECTIONS.get(key.field.direction)
        expression = key.expression
        if direction is None or expression is None or isinstance(expression, Constant):
            continue
        sorts.setdefault(expression, MeasureSort(expression, *direction))
    return tuple(sorts.values())


# --- offset and count --------------------------------------------------------------------------


def _amount(
    node: model.Expression | None,
    name: str,
    default: int | None,
    ordered: Ordered,
    context: BindContext,
) -> int | None:
    """Return the value of an offset or count. Report a value that it cannot have.

    A missing value and null mean `default`.
    """
    if node is None:
        return default
    bound = bind_expression(node, schema_of(ordered.relation), context)
    if is_unknown(bound):
        return default
    place = expression_place(node)
    if bound.type.kind not in INTEGER_BITS:
        context.report("FETCH_NOT_INTEGER", place, name=name, type=bound.type)
        return default
    if not _is_constant(bound):
        context.report("FETCH_NOT_CONSTANT", place, name=name)
        return default
    try:
        value = _folded(bound)
    except OverflowError:
        context.report("FETCH_NOT_CONSTANT", place, name=name)
        return default
    if value is None:
        meaning = "0" if name == "offset" else "all rows"
        context.report("FETCH_NULL", place, name=name, meaning=meaning)
        return default
    if not 0 <= value <= LARGEST:
        context.report("FETCH_OUT_OF_RANGE", place, name=name, value=value, largest=LARGEST)
        return default
    return value


def _is_constant(expression: Expr) -> bool:
    """Return whether an expression is made of integers, their conversions and arithmetic."""
    match expression:
        case Constant(type=type_, value=value):
            return value is None or type_.kind in INTEGER_BITS
        case Conversion(type=type_, input=inner, null_on_failure=False):
            return type_.kind in INTEGER_BITS and _is_constant(inner)
        case Call(function=function, arguments=arguments):
            return function in _ARITHMETIC and all(map(_is_constant, arguments))
        case _:
            return False


def _folded(expression: Expr) -> int | None:
    """Compute a constant expression; None for null."""
    match expression:
        case Constant(value=value):
            return None if value is None else int(value)
        case Conversion(input=inner):
            return _fitting(_folded(inner), expression)
        case Call(function=function, arguments=(first, second)):
            left, right = _folded(first), _folded(second)
            if left is None or right is None:
                return None
            return _fitting(_ARITHMETIC[function](left, right), expression)
        case _:
            raise OverflowError


def _fitting(value: int | None, expression: Expr) -> int | None:
    kind = expression.type.kind
    signed = not kind.startswith("u")
    bits = INTEGER_BITS[kind]
    lowest = -(1 << (bits - 1)) if signed else 0
    if value is not None and not lowest <= value < lowest + (1 << bits):
        raise OverflowError
    return value
