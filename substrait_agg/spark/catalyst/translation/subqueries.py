"""Subqueries of Spark as those of Substrait."""

from __future__ import annotations

from dataclasses import replace

from substrait_agg.spark.catalyst.analyzed.tree import SparkTree
from substrait_agg.spark.catalyst.translation.scope import Scope, any_nullable, not_supported
from substrait_agg.spark.catalyst.translation.types import Relation, SparkType, Typed


def _relation(scope: Scope, tree: SparkTree) -> Relation:
    """Return the query of a subquery, which may read the columns in scope as outer columns."""
    inner = replace(scope.context, outer=scope.columns)
    return inner.relation(tree.fields["plan"], inner)


def outer_reference(scope: Scope, tree: SparkTree) -> Typed:
    """Translate a reference to a column of the query around a subquery."""
    column = tree.fields["e"]
    outer = scope.context.outer.get(column.id)
    if outer is None:
        raise not_supported(
            tree, f"column {column.fields['name']} is not one of the query around it"
        )
    selection = {**outer.message["selection"], "outerReference": {"stepsOut": 1}}
    selection.pop("rootReference")
    return Typed({"selection": selection}, outer.type)


def scalar(scope: Scope, tree: SparkTree) -> Typed:
    """Translate a scalar subquery: its value, or null if it has no row."""
    query = _relation(scope, tree)
    (column,) = query.columns
    body = {"scalar": {"input": query.message}}
    return Typed({"subquery": body}, SparkType(column.type.name))


def _exists(scope: Scope, tree: SparkTree) -> Typed:
    body = {"predicateOp": "PREDICATE_OP_EXISTS", "tuples": _relation(scope, tree).message}
    return Typed({"subquery": {"setPredicate": body}}, SparkType("boolean"))


def _is_in(scope: Scope, tree: SparkTree) -> Typed:
    *children, subquery = tree.children
    values = [scope.key(child) for child in children]
    query = _relation(scope, subquery)
    types = [column.type.without_nulls() for column in query.columns]
    if [value.type.without_nulls() for value in values] != types or not {
        "float",
        "double",
    }.isdisjoint(types):
        raise not_supported(tree, "of other types than those of its query, or of floats")
    body = {"needles": [value.message for value in values], "haystack": query.message}
    return Typed({"subquery": {"inPredicate": body}}, SparkType("boolean"))


_PREDICATES = {"Exists": _exists, "InSubquery": _is_in}


def predicate(scope: Scope, tree: SparkTree) -> Typed:
    """Translate EXISTS, IN or NOT within an expression: in Spark, EXISTS, IN and NOT IN are never null."""
    if tree.kind == "Not" and tree.children[0].kind != "InSubquery":
        values = scope.arguments(tree)
        return scope.call("boolean", "not", values, SparkType("boolean", any_nullable(values)))
    value = _plain(scope, tree)
    type_ = SparkType("boolean", nullable=False)
    false = Typed({"literal": {"boolean": False}}, type_)
    return scope.call("comparison", "coalesce", (value, false), type_)


def _plain(scope: Scope, tree: SparkTree) -> Typed:
    """Return EXISTS, IN or the negation of one as in the standard, where they may be null."""
    if tree.kind == "Not":
        inner = _plain(scope, tree.children[0])
        return scope.call("boolean", "not", (inner,), inner.type)
    return _PREDICATES[tree.kind](scope, tree)


def condition(scope: Scope, tree: SparkTree) -> Typed:
    """Translate the condition of a filter. A null has the effect of false there."""
    if tree.kind == "And":
        parts = [condition(scope, child) for child in tree.children]
        return scope.call("boolean", "and", parts, SparkType("boolean", any_nullable(parts)))
    inner = tree.children[0] if tree.kind == "Not" else tree
    return (_plain if inner.kind in _PREDICATES else Scope.translate)(scope, tree)
