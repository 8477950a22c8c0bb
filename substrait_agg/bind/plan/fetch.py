"""Bind fetches: offset, count, and the order that sorts give to the rows of relations."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace

from substrait_agg.bind.aggregates.order import DIRECTIONS
from substrait_agg.bind.bound import (
    BoundFetch,
    BoundProject,
    BoundRelation,
    BoundWindowFunction,
    BoundWindowValues,
    Call,
    Column,
    Constant,
    Conversion,
    Expr,
    MeasureSort,
)
from substrait_agg.bind.context import (
    BindContext,
    Bound,
    Opaque,
    columns,
    is_unknown,
    schema_of,
)
from substrait_agg.bind.expressions.binder import bind_expression
from substrait_agg.bind.places import expression_place
from substrait_agg.bind.rewrite import columns_in, renumber
from substrait_agg.functions.aggregates.types import ORDERED
from substrait_agg.plan import model
from substrait_agg.plan.types import I64, INTEGER_BITS

NOT_IN_OUTPUT = "SORT_KEY_NOT_IN_OUTPUT"


@dataclass(frozen=True, slots=True)
class OrderKey:
    """A sort field and the column of the current relation that contains it.

    Attributes:
        ordinal: the column that contains the key; None if no column does.
        problem: if `ordinal` is None, the code of the reason, or empty if it has been reported.
        expression: the key over the columns of the current relation; None if it cannot be computed
            from them.
    """

    field: model.SortField
    ordinal: int | None
    problem: str = ""
    expression: Expr | None = None


@dataclass(frozen=True, slots=True)
class RelationOrder:
    """The order that a sort below gives to the rows of a relation.

    `used` is true if a fetch has chosen its rows by this order.
    """

    keys: tuple[OrderKey, ...]
    path: str
    used: bool = False


@dataclass(frozen=True, slots=True)
class Ordered:
    """A bound relation and the order of its rows, if a sort defines one.

    `below` is the input of the relation with its order, if the relation is a projection.
    """

    relation: Bound
    order: RelationOrder | None = None
    below: Ordered | None = None


def order_key(field: model.SortField, bound: Expr) -> OrderKey:
    """Return the key of a sort field whose expression is `bound`."""
    if isinstance(bound, Column):
        return OrderKey(field, bound.ordinal, expression=bound)
    if is_unknown(bound):
        return OrderKey(field, None)
    return OrderKey(field, None, NOT_IN_OUTPUT, bound)


def project_order(ordered: Ordered, expressions: tuple[Expr, ...], path: str) -> Ordered:
    """Project the relation to `expressions`, and update the ordinals of its sort keys."""
    if isinstance(ordered.relation, Opaque):
        return ordered
    types = tuple(e.type for e in expressions)
    project = BoundProject(ordered.relation, expressions, types, path)
    places = {
        e.ordinal: place
        for place, e in reversed(list(enumerate(expressions)))
        if isinstance(e, Column)
    }
    if ordered.order is None:
        return Ordered(project, below=ordered)
    # A column of unknown type may be the intended key.
    problem = "" if is_unknown(*expressions) else NOT_IN_OUTPUT
    keys = tuple(_move_key(key, places, problem) for key in ordered.order.keys)
    return Ordered(project, replace(ordered.order, keys=keys), ordered)


def _move_key(key: OrderKey, places: dict[int, int], problem: str) -> OrderKey:
    expression = key.expression
    if expression is not None:
        readable = all(c.ordinal in places for c in columns_in(expression))
        expression = renumber(expression, places) if readable else None
    if key.ordinal is None:
        return replace(key, expression=expression)
    ordinal = places.get(key.ordinal)
    return replace(key, ordinal=ordinal, problem=problem, expression=expression)


def with_hidden_keys(ordered: Ordered) -> Ordered:
    """Return the relation with a column more for each sort key that none of its columns contains.

    A projection that leaves the key out is replaced by one that also passes it on. Keys that cannot
    be computed stay as they are, and constant ones are left out.
    """
    relation, order, below = ordered.relation, ordered.order, ordered.below
    if order is None or isinstance(relation, Opaque):
        return ordered
    keys = [key for key in order.keys if not isinstance(key.expression, Constant)]
    order = replace(order, keys=tuple(keys))
    lost = [place for place, key in enumerate(keys) if key.ordinal is None and key.problem]
    values = [keys[place].expression for place in lost]
    source: Bound = relation
    output: tuple[Expr, ...] = columns(relation.types)
    if None in values and below is not None and isinstance(relation, BoundProject):
        inner = with_hidden_keys(below)
        source, output = inner.relation, relation.expressions
        values = [_hidden_value(inner, keys[place]) for place in lost]
    value_by_place = {p: v for p, v in zip(lost, values, strict=True) if v is not None}
    if not value_by_place or isinstance(source, Opaque):
        return Ordered(relation, order, below)
    for ordinal, (place, value) in enumerate(value_by_place.items(), len(output)):
        keys[place] = replace(keys[place], ordinal=ordinal, expression=Column(value.type, ordinal))
    expressions = (*output, *value_by_place.values())
    project = BoundProject(source, expressions, tuple(e.type for e in expressions), relation.path)
    return Ordered(project, replace(order, keys=tuple(keys)), below)


def _hidden_value(below: Ordered, key: OrderKey) -> Expr | None:
    """Return a sort key over the relation below a projection; None if it has no such column."""
    keys = () if below.order is None else below.order.keys
    return next((k.expression for k in keys if k.field is key.field), None)


def used_order(order: RelationOrder | None) -> RelationOrder | None:
    """Return an order by which a fetch has chosen rows."""
    return None if order is None else replace(order, used=True)


def drop_order(ordered: Ordered, context: BindContext) -> Bound:
    """Return the relation without its order, and report an order that has no effect."""
    if ordered.order is not None and not ordered.order.used:
        context.report("SORT_NO_EFFECT", ordered.order.path)
    return ordered.relation


COUNT_OPTIONAL_SINCE = 62
"""Minor version of Substrait before which a count that is not written was a count of 0."""

LARGEST = 2**63 - 1
"""Largest offset and count."""

_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
}


@dataclass(frozen=True, slots=True)
class _Window:
    """The rows that a fetch keeps.

    Attributes:
        offset: number of rows to skip.
        count: largest number of rows; None is all.
        with_ties: whether rows with the sort keys of the last row are kept, too.
    """

    offset: int
    count: int | None
    with_ties: bool


def bind_fetch(node: model.FetchRel, ordered: Ordered, context: BindContext) -> Ordered:
    """Bind a fetch; return its rows in the same order. A fetch that keeps all rows is left out."""
    _check_message(node, context)
    before = len(context.problems.errors)
    offset = _amount(node.offset, "offset", 0, ordered, context)
    count = _amount(node.count, "count", None, ordered, context)
    if isinstance(ordered.relation, Opaque):
        return ordered
    if len(context.problems.errors) > before:
        return Ordered(ordered.relation, used_order(ordered.order))
    if count is None and not offset:
        return ordered
    if not _sorts(ordered):
        _report_no_order(node, ordered, context)
    window = _Window(offset or 0, count, node.mode == "with_ties")
    return _fetch(ordered, window, node.path, context)


def _check_message(node: model.FetchRel, context: BindContext) -> None:
    """Report fields that the message leaves open."""
    old = context.release is not None and context.release < COUNT_OPTIONAL_SINCE
    if node.count_missing and old:
        context.report("FETCH_COUNT_UNCLEAR", node.path)
    if node.mode == "unspecified":
        context.report("FETCH_MODE_MISSING", f"{node.path}.mode")


def _report_no_order(node: model.FetchRel, ordered: Ordered, context: BindContext) -> None:
    keys = () if ordered.order is None else ordered.order.keys
    if all(isinstance(key.expression, Constant) for key in keys):
        context.report("FETCH_WITHOUT_SORT", node.path)


# --- order -------------------------------------------------------------------------------------


def _fetch(ordered: Ordered, window: _Window, path: str, context: BindContext) -> Ordered:
    """Return the rows of a window of the order."""
    relation, order, below = ordered.relation, ordered.order, ordered.below
    if isinstance(relation, Opaque):
        return ordered
    keys = () if order is None else order.keys
    lost = [key for key in keys if key.expression is None]
    if lost and below is not None and isinstance(relation, BoundProject):
        # A projection keeps rows and their order, so the fetch can read what is below it.
        return project_order(
            _fetch(below, window, path, context), relation.expressions, relation.path
        )
    for key in lost:
        if key.problem:
            context.report(NOT_IN_OUTPUT, key.field.path)
    for key in keys:
        _check_key(key, context)
    sorts, count = _sorts(ordered), window.count
    if count and window.with_ties:
        relation, count = _with_ties(relation, sorts, window.offset + count, path), None
    if window.offset or count is not None:
        relation = BoundFetch(relation, sorts, window.offset, count, relation.types, path)
    return Ordered(relation, used_order(order))


def _with_ties(
    relation: BoundRelation, sorts: tuple[MeasureSort, ...], last: int, path: str
) -> BoundRelation:
    """Return the rows whose rank is at most `last`; without sort keys all rows tie."""
    if not sorts:
        return relation
    type_ = I64.as_nullable(False)
    rank = BoundWindowFunction("rank", (), 0, None, None, type_, "rank", path)
    types = (*relation.types, type_)
    ranks = BoundWindowValues(relation, sorts, (), (rank,), types, path, last)
    return BoundProject(ranks, columns(relation.types), relation.types, path)


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
        value = _fold(bound)
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


def _fold(expression: Expr) -> int | None:
    """Compute a constant expression; None for null."""
    match expression:
        case Constant(value=value):
            return None if value is None else int(value)
        case Conversion(input=inner):
            return _check_range(_fold(inner), expression)
        case Call(function=function, arguments=(first, second)):
            left, right = _fold(first), _fold(second)
            if left is None or right is None:
                return None
            return _check_range(_ARITHMETIC[function](left, right), expression)
        case _:
            raise OverflowError


def _check_range(value: int | None, expression: Expr) -> int | None:
    kind = expression.type.kind
    signed = not kind.startswith("u")
    bits = INTEGER_BITS[kind]
    lowest = -(1 << (bits - 1)) if signed else 0
    if value is not None and not lowest <= value < lowest + (1 << bits):
        raise OverflowError
    return value
