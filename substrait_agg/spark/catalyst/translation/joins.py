"""Joins of Spark as joins of Substrait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from substrait_agg.spark.catalyst.analyzed.refusals import Refusal
from substrait_agg.spark.catalyst.analyzed.tree import SparkTree, type_names, without_definitions
from substrait_agg.spark.catalyst.translation.scope import (
    PlanContext,
    Scope,
    any_nullable,
    emit_only,
    field_reference,
    null,
    scope_of,
)
from substrait_agg.spark.catalyst.translation.subqueries import condition
from substrait_agg.spark.catalyst.translation.types import (
    ColumnOf,
    Relation,
    SparkType,
    Typed,
    type_of,
)

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
    parts = [] if on is None else _conjuncts(without_definitions(on))
    if isinstance(kind, SparkTree):
        exists = _mark_of_query(left, right, parts, context)
        if exists is not None:
            return _with_mark(left, left.columns, exists, kind)
        return _mark(_sides(left, right, parts, context), kind, context)
    if kind in _EXISTENCE:
        return _existence(left, right, parts, context, kind)
    if kind not in _JOINS:
        message = f"a join of type {kind} cannot be maintained"
        raise Refusal("relation", message, "write it as another join", tree.start, tree.stop)
    word, fills_left, fills_right = _JOINS[kind]
    # Pairs of an inner join are filtered: its condition alone may have any expression.
    tested = _links(parts, left, right) if word == "JOIN_TYPE_INNER" else parts
    sides = _sides(left, right, tested, context)
    columns = (
        *_with_nulls(sides.left.columns, fills_left),
        *_with_nulls(sides.right.columns, fills_right),
    )
    joined = _without_extra_columns(Relation(_message(sides, word), columns), sides)
    scope = scope_of(context, joined.columns)
    for part in (part for part in parts if part not in tested):
        holds = condition(scope, part).message
        joined = replace(joined, message={"filter": {"input": joined.message, "condition": holds}})
    return joined


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


def _sides(
    left: Relation, right: Relation, on: Sequence[SparkTree], context: PlanContext
) -> _Sides:
    """Return the inputs of a join. Values by which its rows find each other are columns of them."""
    widths = len(left.columns), len(right.columns)
    parts = list(_computed_parts(on, left, right))
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
    holds = _matches(scope, on, left, right) if on else _TRUE
    return _Sides(new_left, new_right, holds, widths)


def _matches(scope: Scope, on: Sequence[SparkTree], left: Relation, right: Relation) -> Typed:
    """Return the condition of a join. In keys NaN equals NaN, as everywhere in Spark."""
    parts = []
    for part in on:
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


def _links(parts: Sequence[SparkTree], left: Relation, right: Relation) -> list[SparkTree]:
    """Return the comparisons by which rows of both inputs find each other.

    These are all equalities, or else the ranges that no other part comes before.
    """
    links = [p for p in parts if p.kind in _KEYS and _joins_sides(p, left, right)]
    ranges = takewhile(lambda p: p.kind in _INCLUSIVE and _joins_sides(p, left, right), parts)
    return links or list(ranges)


def _computed_parts(
    on: Sequence[SparkTree], left: Relation, right: Relation
) -> Iterator[SparkTree]:
    """Yield the values of one input that rows find each other by and a join cannot compute.

    Other parts of a condition may fail for rows that do not find each other.
    """
    links = _links(on, left, right)
    values = [value for part in links for value in part.children]
    values += [value for part in on if part not in links for value in _values_of_maps(part)]
    seen: set[int] = set()
    for value in values:
        one_sided = _reads_only(value, left) or _reads_only(value, right)
        reads = any(node.kind == "AttributeReference" for node in value.walk())
        simple = all(node.kind in _SIMPLE for node in value.walk())
        if one_sided and reads and not simple and value.same not in seen:
            seen.add(value.same)
            yield value


def _values_of_maps(part: SparkTree) -> Iterator[SparkTree]:
    """Yield the values that are computed from maps: a column with a map identifies no row."""
    if not _has_map(part.type) and any(_has_map(child.type) for child in part.children):
        yield part
    elif part.kind != "LambdaFunction":
        for child in part.children:
            yield from _values_of_maps(child)


def _has_map(type_: Any) -> bool:
    return "map" in type_names(type_)


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
    left: Relation, right: Relation, on: Sequence[SparkTree], context: PlanContext, kind: str
) -> Relation:
    """Return the rows of the left side that have a match, or that have none."""
    anti = kind == "LeftAnti"
    if not on:
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
    on: Sequence[SparkTree], left: Relation, right: Relation
) -> list[tuple[SparkTree, SparkTree]] | None:
    """Return the pairs of values of NOT IN, which Spark writes as ``a = b OR isnull(a = b)``."""
    pairs: list[tuple[SparkTree, SparkTree]] = []
    for part in on:
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
    needles = [scope_of(context, left.columns).key(value) for value, _ in pairs]
    scope = scope_of(context, right.columns)
    haystack = emit_only(right, [scope.key(other) for _, other in pairs])
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
    left: Relation, right: Relation, on: Sequence[SparkTree], context: PlanContext
) -> Typed | None:
    """Return whether a row has a match, as a subquery, where no equality of columns says it."""
    boolean = SparkType("boolean", nullable=False)
    if not on:
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


# --- ASOF joins --------------------------------------------------------------------------------

_INCLUSIVE = {
    "GreaterThanOrEqual": True, "GreaterThan": False, "LessThanOrEqual": True, "LessThan": False,
}  # fmt: skip
"""Class of a comparison of times in an ASOF join -> whether equal times match."""
_BOOLEAN = SparkType("boolean", nullable=False)


@dataclass(frozen=True)
class _Times:
    """The times of an ASOF join.

    Attributes:
        left: the time of a left row.
        right: the time of a right row.
        orders: per search, the direction in which times are read; the last right row is the match.
        inclusive: whether equal times match.
        limits: further conditions on the match.
        distance: the distance of two times; of two matches the nearer one counts.
    """

    left: SparkTree
    right: SparkTree
    orders: tuple[str, ...]
    inclusive: bool
    limits: tuple[SparkTree, ...]
    distance: SparkTree


def asof_join(tree: SparkTree, left: Relation, right: Relation, context: PlanContext) -> Relation:
    """Return each left row with the right row that is nearest in time.

    Both sides become one list in the order of time, in which a left row takes the last right row
    before it. Of right rows at one time this is the greatest in the order of their columns.

    Raises:
        Refusal: a condition on both sides that is no equality.
    """
    times = _times_of(tree, left)
    searched = [c for c in right.columns if c.id in context.read_ids]
    listed, keys = _list_of_both(tree, times, left, right, searched, context)
    with_matches, matches = _last_rows(listed, keys, times, left, searched, context)
    is_outer = tree.fields["joinType"] == "LeftOuter"
    scope = Scope(context, {})
    holds = field_reference(keys + 1, _BOOLEAN)
    if not is_outer:
        is_match = matches[0][0]
        for other, _ in matches[1:]:
            is_match = scope.call("boolean", "or", (is_match, other), _BOOLEAN)
        holds = _all(scope, (holds, is_match))
    rows = Relation(
        {"filter": {"input": with_matches.message, "condition": holds.message}},
        with_matches.columns,
    )
    values = [field_reference(keys + 2 + i, c.type) for i, c in enumerate(left.columns)]
    for column in right.columns:
        type_ = SparkType(column.type.name)
        parts = [(is_match, row[column.id]) for is_match, row in matches if column.id in row]
        clauses = [{"if": is_match.message, "then": part.message} for is_match, part in parts]
        empty = null(type_.name)
        values.append(
            Typed({"ifThen": {"ifs": clauses, "else": empty.message}}, type_) if clauses else empty
        )
    return Relation(emit_only(rows, values), (*left.columns, *_with_nulls(right.columns, True)))


def _times_of(tree: SparkTree, left: Relation) -> _Times:
    distance = tree.fields["orderExpression"]
    first, *limits = _conjuncts(tree.fields["asOfCondition"])
    if first.kind in _INCLUSIVE and _reads_only(first.children[0], left):
        one, other = first.children
        order = "DESC" if first.kind.startswith("Less") else "ASC"
        return _Times(one, other, (order,), _INCLUSIVE[first.kind], tuple(limits), distance)
    # The nearest one: the distance is `if (left > right) left - right else right - left`.
    one, other = distance.children[0].children
    conditions = [part for part in (first, *limits) if part.kind not in ("Literal", "Not")]
    return _Times(one, other, ("ASC", "DESC"), first.kind != "Not", tuple(conditions), distance)


def _list_of_both(
    tree: SparkTree,
    times: _Times,
    left: Relation,
    right: Relation,
    searched: Sequence[ColumnOf],
    context: PlanContext,
) -> tuple[Relation, int]:
    """Return the rows of both sides with columns of both, and the number of their keys.

    The columns are the keys, the time, whether it is a left row, the columns of left rows, and a
    struct of those of right rows.
    """
    scopes = scope_of(context, left.columns), scope_of(context, right.columns)
    pairs, filters = _keys_of(tree, left, right, scopes)
    pairs.append((scopes[0].value(times.left), scopes[1].value(times.right)))
    filters.append(_is_not_null(scopes[1], pairs[-1][1]))
    holds = _all(scopes[1], filters)
    right = Relation(
        {"filter": {"input": right.message, "condition": holds.message}}, right.columns
    )
    places = {c.id: i for i, c in enumerate(right.columns)}
    fields = [field_reference(places[c.id], c.type).message for c in searched]
    struct = _struct_of(searched)
    row = Typed({"nested": {"nullable": True, "struct": {"fields": fields}}}, struct)
    lefts = [field_reference(i, c.type) for i, c in enumerate(left.columns)]
    rows = (
        [*(one for one, _ in pairs), _truth(True), *lefts, null(struct.name)],
        [*(other for _, other in pairs), _truth(False), *(null(v.type.name) for v in lefts), row],
    )
    inputs = [emit_only(side, values) for side, values in zip((left, right), rows, strict=True)]
    columns = [
        ColumnOf(-1, "", SparkType(one.type.name, any_nullable((one, other))))
        for one, other in zip(*rows, strict=True)
    ]
    union = {"set": {"inputs": inputs, "op": "SET_OP_UNION_ALL"}}
    return Relation(union, tuple(columns)), len(pairs) - 1


def _keys_of(
    tree: SparkTree, left: Relation, right: Relation, scopes: tuple[Scope, Scope]
) -> tuple[list[tuple[Typed, Typed]], list[Typed]]:
    """Return the equal values of both sides, and the conditions on right rows."""
    pairs: list[tuple[Typed, Typed]] = []
    filters: list[Typed] = []
    on = tree.fields["condition"]
    for part in [] if on is None else _conjuncts(without_definitions(on)):
        if _reads_only(part, right):
            filters.append(condition(scopes[1], part))
        elif _reads_only(part, left):
            # A left row without it is in no group of right rows.
            is_true = (condition(scopes[0], part), _truth(False))
            pairs.append(
                (scopes[0].call("comparison", "coalesce", is_true, _BOOLEAN), _truth(True))
            )
        elif part.kind in ("EqualTo", "EqualNullSafe") and _joins_sides(part, left, right):
            one, other = part.children[:: 1 if _reads_only(part.children[0], left) else -1]
            pairs.append((scopes[0].key(one), scopes[1].key(other)))
            if part.kind == "EqualTo":
                filters.append(_is_not_null(scopes[1], pairs[-1][1]))
        else:
            raise Refusal(
                "relation",
                "an ASOF join with another condition on both sides than equality cannot be maintained",
                "write an inner join, and row_number() = 1 over its rows by the time",
                part.start,
                part.stop,
            )
    return pairs, filters


def _last_rows(
    listed: Relation,
    keys: int,
    times: _Times,
    left: Relation,
    searched: Sequence[ColumnOf],
    context: PlanContext,
) -> tuple[Relation, list[tuple[Typed, dict[int, Typed]]]]:
    """Return the listed rows with the last right row of each order.

    With them come, per order, whether it is the match, and its columns by their ids.
    """
    scope = Scope(context, {})
    struct = SparkType(listed.columns[-1].type.name)
    windows = [_last_row(listed, keys, order, times, context) for order in times.orders]
    with_matches = Relation(
        {"project": {"input": listed.message, "expressions": windows}},
        (*listed.columns, *(ColumnOf(-1, "", struct) for _ in windows)),
    )
    matches, distances = [], []
    lefts = {c.id: field_reference(keys + 2 + i, c.type) for i, c in enumerate(left.columns)}
    for place in range(len(listed.columns), len(with_matches.columns)):
        row = {c.id: _field_of(place, i, c.type) for i, c in enumerate(searched)}
        of_match = Scope(context, {**lefts, **row})
        parts = [_is_not_null(scope, field_reference(place, struct))]
        parts += [condition(of_match, part) for part in times.limits]
        matches.append((_all(scope, parts), row))
        if len(times.orders) > 1:
            distances.append(of_match.value(times.distance))
    if distances:
        # The first is the match unless the second is nearer.
        (first, row), (second, _) = matches
        is_nearer = scope.call("comparison", "lt", distances[::-1], SparkType("boolean"))
        is_less = scope.call("comparison", "coalesce", (is_nearer, _truth(False)), _BOOLEAN)
        is_first = _all(
            scope,
            (first, scope.call("boolean", "not", (_all(scope, (second, is_less)),), _BOOLEAN)),
        )
        matches[0] = (is_first, row)
    return with_matches, matches


def _last_row(
    listed: Relation, keys: int, order: str, times: _Times, context: PlanContext
) -> dict[str, Any]:
    """Return the struct of the last right row up to a row, in an order of time."""
    columns = [field_reference(i, c.type) for i, c in enumerate(listed.columns)]
    struct = columns[-1]
    # At one time, left rows come last if equal times match: false is less than true.
    directions = (order, "ASC" if times.inclusive else "DESC")
    sorts = [
        {"expr": columns[keys + i].message, "direction": f"SORT_DIRECTION_{word}_NULLS_FIRST"}
        for i, word in enumerate(directions)
    ]
    return {
        "windowFunction": {
            "functionReference": context.reference("arithmetic", "last_value", (struct,)),
            "arguments": [{"value": struct.message}],
            "options": [{"name": "IGNORE_NULLS", "preference": ["TRUE"]}],
            "outputType": struct.type.message(),
            "partitions": [key.message for key in columns[:keys]],
            "sorts": sorts,
            "lowerBound": {"unbounded": {}},
            "upperBound": {"currentRow": {}},
            "boundsType": "BOUNDS_TYPE_ROWS",
            "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
        }
    }


def _field_of(place: int, part: int, type_: SparkType) -> Typed:
    """Return a field of a column that is a struct or null."""
    step = {"field": place, "child": {"structField": {"field": part}}}
    reference = {"directReference": {"structField": step}, "rootReference": {}}
    return Typed({"selection": reference}, SparkType(type_.name))


def _struct_of(columns: Sequence[ColumnOf]) -> SparkType:
    fields = [
        {"name": c.name, "type": c.type.nested or c.type.name, "nullable": c.type.nullable}
        for c in columns
    ]
    return type_of({"type": "struct", "fields": fields})


def _truth(value: bool) -> Typed:
    return Typed({"literal": {"boolean": value}}, _BOOLEAN)


def _is_not_null(scope: Scope, value: Typed) -> Typed:
    return scope.call("comparison", "is_not_null", (value,), _BOOLEAN)


def _all(scope: Scope, parts: Sequence[Typed]) -> Typed:
    """Return whether all conditions are true; false if one is null."""
    if len(parts) > 1 or parts[0].type.nullable:
        both = scope.call("boolean", "and", parts, SparkType("boolean", any_nullable(parts)))
        return scope.call("comparison", "coalesce", (both, _truth(False)), _BOOLEAN)
    return parts[0]
