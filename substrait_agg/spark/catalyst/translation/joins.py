"""Joins of Spark as joins of Substrait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from substrait_agg.spark.catalyst.analyzed.refusals import Refusal
from substrait_agg.spark.catalyst.analyzed.tree import SparkTree, without_definitions
from substrait_agg.spark.catalyst.translation.scope import (
    PlanContext,
    Scope,
    any_nullable,
    emit_only,
    field_reference,
    scope_of,
)
from substrait_agg.spark.catalyst.translation.subqueries import condition
from substrait_agg.spark.catalyst.translation.types import ColumnOf, Relation, SparkType, Typed

_TRUE = Typed({"literal": {"boolean": True}}, SparkType("boolean", nullable=False))

_JOINS = {
    "Inner": ("JOIN_TYPE_INNER", False, False),
    "Cross": ("JOIN_TYPE_INNER", False, False),
    "LeftOuter": ("JOIN_TYPE_LEFT", False, True),
    "RightOuter": ("JOIN_TYPE_RIGHT", True, False),
    "FullOuter": ("JOIN_TYPE_OUTER", True, True),
    "LeftSingle": ("JOIN_TYPE_LEFT_SINGLE", False, True),
}
"""Class of a join -> its type, and whether it adds nulls to the left and to the right columns."""

_EXISTENCE = {"LeftSemi": "JOIN_TYPE_LEFT_SEMI", "LeftAnti": "JOIN_TYPE_LEFT_ANTI"}

_SIMPLE = frozenset(
    {
        "Add", "And", "AttributeReference", "Cast", "EqualNullSafe", "EqualTo", "GreaterThan",
        "GreaterThanOrEqual", "In", "IsNotNull", "IsNull", "LessThan", "LessThanOrEqual", "Literal",
        "Not", "Or", "Subtract",
    }
)  # fmt: skip
"""Classes of expressions that a join computes itself, for pairs of rows."""


@dataclass(frozen=True)
class _Sides:
    """The two inputs of a join, with further columns that its condition reads.

    Attributes:
        left: the left input, its further columns last.
        right: the right input.
        on: the condition over the columns of both.
        widths: numbers of the columns that the result has, of the left and of the right input.
    """

    left: Relation
    right: Relation
    on: Typed
    widths: tuple[int, int]


def join(tree: SparkTree, left: Relation, right: Relation, context: PlanContext) -> Relation:
    """Return the join of two relations.

    Raises:
        Refusal: a kind of join that a plan does not have.
    """
    kind, on = tree.fields["joinType"], tree.fields["condition"]
    on = None if on is None else without_definitions(on)
    if isinstance(kind, SparkTree):
        exists = _mark_of_query(left, right, on, context)
        if exists is not None:
            return _with_mark(left, left.columns, exists, kind)
        return _mark(_sides(left, right, on, context), kind, context)
    if kind in _EXISTENCE:
        return _existence(left, right, on, context, kind)
    if kind not in _JOINS:
        message = f"a join of type {kind} cannot be maintained"
        raise Refusal("relation", message, "write it as another join", tree.start, tree.stop)
    word, fills_left, fills_right = _JOINS[kind]
    sides = _sides(left, right, on, context)
    columns = (
        *_with_nulls(sides.left.columns, fills_left),
        *_with_nulls(sides.right.columns, fills_right),
    )
    return _without_extra_columns(Relation(_message(sides, word), columns), sides)


def _message(sides: _Sides, word: str) -> dict[str, object]:
    return {
        "join": {
            "left": sides.left.message,
            "right": sides.right.message,
            "expression": sides.on.message,
            "type": word,
        }
    }


def _without_extra_columns(joined: Relation, sides: _Sides) -> Relation:
    """Return a join without the columns that only its condition reads."""
    (left, right), start = sides.widths, len(sides.left.columns)
    places = [*range(left), *range(start, start + right)]
    if len(places) == len(joined.columns):
        return joined
    values = [field_reference(i, joined.columns[i].type) for i in places]
    return Relation(emit_only(joined, values), tuple(joined.columns[i] for i in places))


# --- conditions --------------------------------------------------------------------------------


def _sides(left: Relation, right: Relation, on: SparkTree | None, context: PlanContext) -> _Sides:
    """Return the inputs of a join. What of its condition one input decides is a column of it."""
    widths = len(left.columns), len(right.columns)
    parts = [] if on is None else list(_computed_parts(on, left, right))
    new_left = _with_columns(left, [p for p in parts if _reads_only(p, left)], context)
    new_right = _with_columns(right, [p for p in parts if not _reads_only(p, left)], context)
    columns = (*new_left.columns, *new_right.columns)
    computed = {}
    for part in parts:
        side, start, width = (
            (new_left, 0, widths[0])
            if _reads_only(part, left)
            else (new_right, len(new_left.columns), widths[1])
        )
        same = [p for p in parts if _reads_only(p, left) == (side is new_left)]
        place = width + next(i for i, p in enumerate(same) if p.same == part.same)
        computed[part.same] = field_reference(start + place, side.columns[place].type)
    scope = replace(scope_of(context, columns), computed=computed)
    return _Sides(
        new_left, new_right, _TRUE if on is None else _matches(scope, on, left, right), widths
    )


def _matches(scope: Scope, on: SparkTree, left: Relation, right: Relation) -> Typed:
    """Return the condition of a join. In keys NaN equals NaN, as everywhere in Spark."""
    parts = []
    for part in _conjuncts(on):
        name = _KEYS.get(part.kind)
        is_float = bool(part.children) and part.children[0].type in ("float", "double")
        if name and is_float and _joins_sides(part, left, right):
            values = scope.arguments(part)
            type_ = SparkType("boolean", name == "equal" and any_nullable(values))
            parts.append(scope.call("comparison", name, values, type_))
        else:
            parts.append(condition(scope, part))
    if len(parts) == 1:
        return parts[0]
    return scope.call("boolean", "and", parts, SparkType("boolean", any_nullable(parts)))


_KEYS = {"EqualTo": "equal", "EqualNullSafe": "is_not_distinct_from"}
"""Class of an equality in Spark -> the function that makes keys of its values."""


def _joins_sides(equal: SparkTree, left: Relation, right: Relation) -> bool:
    one, other = equal.children
    return (_reads_only(one, left) and _reads_only(other, right)) or (
        _reads_only(one, right) and _reads_only(other, left)
    )


def _computed_parts(on: SparkTree, left: Relation, right: Relation) -> Iterator[SparkTree]:
    """Yield the largest parts of a condition that one input decides and a join cannot compute."""
    seen: set[int] = set()
    waiting = [on]
    while waiting:
        part = waiting.pop()
        one_sided = _reads_only(part, left) or _reads_only(part, right)
        reads = any(node.kind == "AttributeReference" for node in part.walk())
        simple = all(node.kind in _SIMPLE for node in part.walk())
        if simple or not reads:
            continue
        if one_sided and part.kind not in ("And", "Or", "Not"):
            if part.same not in seen:
                seen.add(part.same)
                yield part
            continue
        waiting.extend(part.children)


def _with_columns(side: Relation, parts: Sequence[SparkTree], context: PlanContext) -> Relation:
    if not parts:
        return side
    scope = scope_of(context, side.columns)
    values = [scope.value(part) for part in parts]
    body = {"input": side.message, "expressions": [value.message for value in values]}
    added = (ColumnOf(-1, "", value.type) for value in values)
    return Relation({"project": body}, (*side.columns, *added))


def _reads_only(tree: SparkTree, side: Relation) -> bool:
    ids = {column.id for column in side.columns}
    return all(node.id in ids for node in tree.walk() if node.kind == "AttributeReference")


# --- existence ---------------------------------------------------------------------------------


def _existence(
    left: Relation, right: Relation, on: SparkTree | None, context: PlanContext, kind: str
) -> Relation:
    """Return the rows of the left side that have a match, or that have none."""
    anti = kind == "LeftAnti"
    if on is None:
        query = {"predicateOp": "PREDICATE_OP_EXISTS", "tuples": right.message}
        exists = Typed({"subquery": {"setPredicate": query}}, SparkType("boolean", nullable=False))
        return _filter_by(left, exists, context, negated=anti)
    pairs = _null_aware(on, left, right) if anti else None
    if pairs is not None:
        return _filter_by(left, _is_in(left, right, pairs, context), context, negated=True)
    sides = _sides(left, right, on, context)
    joined = Relation(_message(sides, _EXISTENCE[kind]), sides.left.columns)
    return _without_extra_columns(joined, replace(sides, widths=(sides.widths[0], 0)))


def _filter_by(below: Relation, holds: Typed, context: PlanContext, *, negated: bool) -> Relation:
    if negated:
        holds = Scope(context, {}).call("boolean", "not", (holds,), holds.type)
    return Relation({"filter": {"input": below.message, "condition": holds.message}}, below.columns)


def _null_aware(
    on: SparkTree, left: Relation, right: Relation
) -> list[tuple[SparkTree, SparkTree]] | None:
    """Return the pairs of values of NOT IN, which Spark writes as ``a = b OR isnull(a = b)``."""
    pairs: list[tuple[SparkTree, SparkTree]] = []
    for part in _conjuncts(on):
        if part.kind != "Or" or part.children[1].kind != "IsNull":
            return None
        equal, null_test = part.children
        if equal.kind != "EqualTo" or null_test.children[0].same != equal.same:
            return None
        value, other = equal.children
        if not (_reads_only(value, left) and _reads_only(other, right)):
            return None
        pairs.append((value, other))
    return pairs


def _conjuncts(tree: SparkTree) -> list[SparkTree]:
    if tree.kind != "And":
        return [tree]
    return [part for child in tree.children for part in _conjuncts(child)]


def _is_in(
    left: Relation,
    right: Relation,
    pairs: Sequence[tuple[SparkTree, SparkTree]],
    context: PlanContext,
) -> Typed:
    """Return whether values of a row are those of a row of a query; null as in the standard."""
    needles = [scope_of(context, left.columns).value(value) for value, _ in pairs]
    scope = scope_of(context, right.columns)
    haystack = emit_only(right, [scope.value(other) for _, other in pairs])
    body = {"needles": [needle.message for needle in needles], "haystack": haystack}
    return Typed({"subquery": {"inPredicate": body}}, SparkType("boolean"))


def _mark(sides: _Sides, mark: SparkTree, context: PlanContext) -> Relation:
    """Return the rows of the left side with a column that says whether they have a match."""
    width, mark_type = len(sides.left.columns), SparkType("boolean")
    marked = Relation(
        _message(sides, "JOIN_TYPE_LEFT_MARK"), (*sides.left.columns, ColumnOf(-1, "", mark_type))
    )
    boolean = SparkType("boolean", nullable=False)
    never = Typed({"literal": {"boolean": False}}, boolean)
    flag = field_reference(width, mark_type)
    exists = Scope(context, {}).call("comparison", "coalesce", (flag, never), boolean)
    return _with_mark(marked, sides.left.columns[: sides.widths[0]], exists, mark)


def _with_mark(
    below: Relation, shown: Sequence[ColumnOf], exists: Typed, mark: SparkTree
) -> Relation:
    """Return the first columns of a relation, then whether a row has a match."""
    values = [*(field_reference(i, c.type) for i, c in enumerate(shown)), exists]
    column = ColumnOf(mark.id, mark.fields["name"], exists.type)
    return Relation(emit_only(below, values), (*shown, column))


def _mark_of_query(
    left: Relation, right: Relation, on: SparkTree | None, context: PlanContext
) -> Typed | None:
    """Return whether a row has a match, as a subquery, where no equality of columns says it."""
    boolean = SparkType("boolean", nullable=False)
    if on is None:
        query = {"predicateOp": "PREDICATE_OP_EXISTS", "tuples": right.message}
        return Typed({"subquery": {"setPredicate": query}}, boolean)
    pairs = _null_aware(on, left, right)
    if pairs is None:
        return None
    # A null of IN counts as a match: Spark marks for NOT IN, which is then not true.
    true = Typed({"literal": {"boolean": True}}, boolean)
    is_in = _is_in(left, right, pairs, context)
    return Scope(context, {}).call("comparison", "coalesce", (is_in, true), boolean)


def _with_nulls(columns: Sequence[ColumnOf], nulls: bool) -> list[ColumnOf]:
    return [replace(c, type=SparkType(c.type.name, c.type.nullable or nulls)) for c in columns]
