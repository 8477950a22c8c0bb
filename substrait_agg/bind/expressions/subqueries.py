"""Bind subqueries, and columns of the query around them."""

from __future__ import annotations

from dataclasses import replace

from substrait_agg.bind.bound import (
    BoundFetch,
    BoundProject,
    BoundRelation,
    Call,
    Column,
    Expr,
    OuterColumn,
)
from substrait_agg.bind.context import BindContext, Bound, Opaque, Schema, is_unknown, unknown
from substrait_agg.bind.conversions import unify
from substrait_agg.bind.joins.conjunctions import TRUE, conjunction
from substrait_agg.bind.joins.keys import is_comparable
from substrait_agg.bind.subqueries.decorrelate import (
    Decorrelated,
    NotDecorrelatedError,
    decorrelate,
    has_outer,
)
from substrait_agg.bind.subqueries.joins import BoundSubquery
from substrait_agg.plan import model
from substrait_agg.plan.types import BOOL

NO_RELATION = "in a lambda, a number of rows or a key of a hash or merge join"
"""Where expressions are that no relation below computes."""


def bind_outer_column(node: model.OuterRef, context: BindContext) -> Expr:
    """Return the column of the enclosing query that a reference in a subquery has."""
    depth = len(context.outer)
    if not 1 <= node.steps_out <= depth:
        reason = f"refers to a query {node.steps_out} levels out, and is within {depth}"
        if not node.steps_out:
            reason = "refers to no query around it: its number is 0, or no relation has its anchor"
        context.report("SUBQUERY_REFERENCE_INVALID", node.path, reason=reason)
        return unknown()
    if node.steps_out > 1:
        place = f"from a subquery {node.steps_out} levels further in"
        context.report("SUBQUERY_NOT_SUPPORTED", node.path, place=place)
        return unknown()
    type_ = context.column_type(context.outer[-1], node.steps[0], node.path)
    return unknown() if type_ is None else OuterColumn(type_, node.steps[0])


def bind_subquery(
    node: model.Subquery, values: tuple[Expr, ...], schema: Schema | None, context: BindContext
) -> Expr:
    """Return the value of a subquery: a column that a join below the relation adds."""
    relation = _bound_within(node.relation, schema, context)
    if isinstance(relation, Opaque) or schema is None or is_unknown(*values):
        return unknown()
    if context.added is None or context.parameters:
        context.report("SUBQUERY_NOT_SUPPORTED", node.path, place=NO_RELATION)
        return unknown()
    width = {"scalar": 1, "exists": len(relation.types)}.get(node.kind, len(values))
    if len(relation.types) != width:
        context.report("SUBQUERY_COLUMNS", node.path, count=len(relation.types), wanted=width)
        return unknown()
    try:
        query = decorrelate(_without_limit(relation) if node.kind == "exists" else relation)
    except NotDecorrelatedError as error:
        context.report("SUBQUERY_NOT_SUPPORTED", node.path, place=str(error))
        return unknown()
    if values:
        unified = _unify(node, values, query, context)
        if unified is None:
            return unknown()
        values, query = unified
    if query.for_none is not None and node.kind == "exists":
        # It is always true.
        place = "below an aggregate without grouping in EXISTS"
        context.report("SUBQUERY_NOT_SUPPORTED", node.path, place=place)
        return unknown()
    if query.for_none is not None and values:
        return _of_one_row(node, values, query, len(schema), context.added)
    return add_column(
        BoundSubquery(node.kind, values, query, node.path), len(schema), context.added
    )


def add_column(subquery: BoundSubquery, width: int, added: list[BoundSubquery]) -> Expr:
    """Return the column of a subquery, which is added to those of a relation of `width` columns."""
    if subquery not in added:
        added.append(subquery)
    return Column(subquery.type, width + added.index(subquery))


def _of_one_row(
    node: model.Subquery,
    values: tuple[Expr, ...],
    query: Decorrelated,
    width: int,
    added: list[BoundSubquery],
) -> Expr:
    """Return IN or NOT IN of a correlated aggregate without grouping, which always has one row."""
    compared: list[Expr] = []
    for value, output in zip(values, query.outputs, strict=False):
        one = BoundSubquery("scalar", (), replace(query, outputs=(output,)), node.path)
        compared.append(Call(BOOL, "equal", (value, add_column(one, width, added))))
    equal = conjunction(compared) or TRUE
    return equal if node.kind == "in" else Call(BOOL, "not", (equal,))


def _bound_within(node: model.Relation, schema: Schema | None, context: BindContext) -> Bound:
    """Bind the relation of a subquery, whose outer columns are those of `schema`."""
    if context.bind_input is None:
        return Opaque(node.path)
    return context.bind_input(node, replace(context.adding(None), outer=(*context.outer, schema)))


def _without_limit(relation: BoundRelation) -> BoundRelation:
    """Return a relation that has rows exactly if `relation` has: a limit makes no difference."""
    while isinstance(relation, BoundProject) and not has_outer(*relation.expressions):
        relation = relation.input
    if isinstance(relation, BoundFetch) and not relation.offset and relation.count != 0:
        return relation.input
    return relation


def _unify(
    node: model.Subquery, values: tuple[Expr, ...], query: Decorrelated, context: BindContext
) -> tuple[tuple[Expr, ...], Decorrelated] | None:
    """Convert the values and the columns that they are compared with to common types."""
    pairs = [unify(pair) for pair in zip(values, query.outputs, strict=True)]
    for pair, value, output in zip(pairs, values, query.outputs, strict=True):
        if pair is None or not is_comparable(pair[0].type):
            context.report("JOIN_KEY_TYPES", node.path, left=value.type, right=output.type)
            return None
    unified = [pair for pair in pairs if pair is not None]
    outputs = tuple(output for _, output in unified)
    compared = Decorrelated(query.relation, outputs, query.conditions, query.for_none)
    return tuple(value for value, _ in unified), compared
