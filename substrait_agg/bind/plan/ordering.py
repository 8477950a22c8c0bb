"""Track the order that sorts give to the rows of relations, for fetches and for the view."""

from __future__ import annotations

from dataclasses import dataclass, replace

from substrait_agg.bind.bound import BoundProject, Column, Expr
from substrait_agg.bind.context import BindContext, Bound, Opaque, is_unknown
from substrait_agg.bind.rewrite import columns_in, renumber
from substrait_agg.plan import model


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
    return OrderKey(field, None, "SORT_KEY_NOT_A_COLUMN", bound)


def projected(ordered: Ordered, expressions: tuple[Expr, ...], path: str) -> Ordered:
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
    problem = "" if is_unknown(*expressions) else "SORT_KEY_NOT_IN_OUTPUT"
    keys = tuple(_moved(key, places, problem) for key in ordered.order.keys)
    return Ordered(project, replace(ordered.order, keys=keys), ordered)


def _moved(key: OrderKey, places: dict[int, int], problem: str) -> OrderKey:
    expression = key.expression
    if expression is not None:
        readable = all(c.ordinal in places for c in columns_in(expression))
        expression = renumber(expression, places) if readable else None
    if key.ordinal is None:
        return replace(key, expression=expression)
    ordinal = places.get(key.ordinal)
    return replace(key, ordinal=ordinal, problem=problem, expression=expression)


def used(order: RelationOrder | None) -> RelationOrder | None:
    """Return an order by which a fetch has chosen rows."""
    return None if order is None else replace(order, used=True)


def drop_order(ordered: Ordered, context: BindContext) -> Bound:
    """Return the relation without its order, and report an order that has no effect."""
    if ordered.order is not None and not ordered.order.used:
        context.report("SORT_NO_EFFECT", ordered.order.path)
    return ordered.relation
