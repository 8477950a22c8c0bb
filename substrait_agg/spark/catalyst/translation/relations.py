"""Relations of Spark as relations of Substrait."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from substrait_agg.spark.catalyst.analyzed.refusals import Refusal
from substrait_agg.spark.catalyst.analyzed.tree import SparkTree
from substrait_agg.spark.catalyst.translation.aggregates import is_measure, measure
from substrait_agg.spark.catalyst.translation.generate import unnest
from substrait_agg.spark.catalyst.translation.scope import (
    PlanContext,
    Scope,
    cast,
    field_reference,
    null,
    sorts,
)
from substrait_agg.spark.catalyst.translation.subqueries import condition
from substrait_agg.spark.catalyst.translation.tables import (
    constant_rows,
    inline_rows,
    number_rows,
    table_of,
)
from substrait_agg.spark.catalyst.translation.types import (
    ColumnOf,
    Relation,
    SparkType,
    Typed,
    type_of,
)
from substrait_agg.spark.catalyst.translation.windows import window_function

_TRUE = Typed({"literal": {"boolean": True}}, SparkType("boolean", nullable=False))


def relation(tree: SparkTree, context: PlanContext) -> Relation:
    """Return a relation of Spark as one of Substrait.

    Raises:
        Refusal: it cannot be translated.
    """
    try:
        table = table_of(tree, context)
        if table is not None:
            return table
        make = _RELATIONS.get(tree.kind)
        if make is None:
            raise refused_relation(tree)
        made = make(tree, context)
    except Refusal as refusal:
        raise refusal.at(tree) from None
    context.place(made.message, tree)
    return made


def refused_relation(tree: SparkTree, reason: str = "") -> Refusal:
    """Return the error for a relation that cannot be translated."""
    return Refusal(
        "relation",
        f"the operation {tree.kind} cannot be maintained{reason and ': '}{reason}",
        "docs/sql.md lists the supported operations",
        tree.start,
        tree.stop,
    )


def _scope(context: PlanContext, columns: Sequence[ColumnOf]) -> Scope:
    fields = {c.id: field_reference(i, c.type) for i, c in enumerate(columns)}
    return Scope(context, fields)


def _named(tree: SparkTree, type_: SparkType) -> ColumnOf:
    return ColumnOf(tree.id, tree.fields["name"], type_)


def _child(tree: SparkTree, context: PlanContext) -> Relation:
    return relation(tree.children[0], context)


# --- rows one by one ---------------------------------------------------------------------------


def _filter(tree: SparkTree, context: PlanContext) -> Relation:
    below = _child(tree, context)
    kept = condition(_scope(context, below.columns), tree.fields["condition"])
    return Relation({"filter": {"input": below.message, "condition": kept.message}}, below.columns)


def _project(tree: SparkTree, context: PlanContext) -> Relation:
    below = _child(tree, context)
    return _compute(below, tree.fields["projectList"], _scope(context, below.columns))


def _compute(below: Relation, expressions: Sequence[SparkTree], scope: Scope) -> Relation:
    """Compute expressions; the columns of the input are left out."""
    values = [scope.value(tree) for tree in expressions]
    columns = tuple(
        _named(tree, value.type) for tree, value in zip(expressions, values, strict=True)
    )
    return Relation(_emit_only(below, values), columns)


def _emit_only(below: Relation, values: Sequence[Typed]) -> dict[str, Any]:
    width = len(below.columns)
    emit = {"emit": {"outputMapping": list(range(width, width + len(values)))}}
    body = {"common": emit, "input": below.message, "expressions": [v.message for v in values]}
    return {"project": body}


def _pass(tree: SparkTree, context: PlanContext) -> Relation:
    """Return the rows of the child: the operation changes none of them."""
    return _child(tree, context)


def _generate(tree: SparkTree, context: PlanContext) -> Relation:
    below = _child(tree, context)
    return unnest(tree, below, _scope(context, below.columns))


# --- aggregates --------------------------------------------------------------------------------


def _aggregate(tree: SparkTree, context: PlanContext) -> Relation:
    """Aggregate, then compute the expressions over keys and measures."""
    below = _child(tree, context)
    scope = _scope(context, below.columns)
    keys, results = tree.fields["groupingExpressions"], tree.fields["aggregateExpressions"]
    typed_keys = [scope.value(key) for key in keys]
    found = {m.same: m for result in results for m in result.walk() if is_measure(m)}
    bound = []
    for name, one in found.items():
        try:
            bound.append((name, measure(scope, one)))
        except Refusal as refusal:
            context.refusals.append(refusal.at(one))
    if len(bound) < len(found):
        columns = tuple(_named(r, type_of(r.type)) for r in results)
        return Relation({}, columns)
    message: dict[str, Any] = {"input": below.message, "measures": [m.message for _, m in bound]}
    if keys:
        message["groupingExpressions"] = [key.message for key in typed_keys]
        message["groupings"] = [{"expressionReferences": list(range(len(keys)))}]
    computed = {
        key.same: field_reference(i, value.type)
        for i, (key, value) in enumerate(zip(keys, typed_keys, strict=True))
    }
    for i, (name, one) in enumerate(bound):
        computed[name] = one.result(field_reference(len(keys) + i, one.type))
    columns = tuple(
        ColumnOf(-1, "", t) for t in (*(v.type for v in typed_keys), *(m.type for _, m in bound))
    )
    aggregated = Relation({"aggregate": message}, columns)
    return _compute(aggregated, results, Scope(context, {}, computed))


def _expand(tree: SparkTree, context: PlanContext) -> Relation:
    """Return every row once per projection, which is how Spark reads ROLLUP, CUBE and GROUPING SETS."""
    below = _child(tree, context)
    scope = _scope(context, below.columns)
    rows = [[scope.value(value) for value in row] for row in tree.fields["projections"]]
    nullable = [any(v.type.nullable for v in values) for values in zip(*rows, strict=True)]
    columns = tuple(
        ColumnOf(column.id, column.name, type_of(column.type, nullable=found))
        for column, found in zip(tree.output, nullable, strict=True)
    )
    inputs = [_emit_only(below, row) for row in rows]
    if len(inputs) == 1:
        return Relation(inputs[0], columns)
    return Relation({"set": {"inputs": inputs, "op": "SET_OP_UNION_ALL"}}, columns)


def _distinct(tree: SparkTree, context: PlanContext) -> Relation:
    return _group_all(_child(tree, context))


def _group_all(below: Relation) -> Relation:
    keys = [field_reference(i, column.type).message for i, column in enumerate(below.columns)]
    grouping = {"expressionReferences": list(range(len(keys)))}
    body = {"input": below.message, "groupingExpressions": keys, "groupings": [grouping]}
    return Relation({"aggregate": body}, below.columns)


def _deduplicate(tree: SparkTree, context: PlanContext) -> Relation:
    """Return one row per key: the least one, where Spark keeps the one that it meets first."""
    below = _child(tree, context)
    scope = _scope(context, below.columns)
    keys = [key.id for key in tree.fields["keys"]]
    if {column.id for column in below.columns} <= set(keys):
        return _group_all(below)
    rest = [c for c in below.columns if c.id not in keys]
    order = [
        {"expr": scope.columns[c.id].message, "direction": "SORT_DIRECTION_ASC_NULLS_FIRST"}
        for c in rest
    ]
    long = SparkType("long", nullable=False)
    number = {
        "functionReference": context.reference("arithmetic", "row_number", ()),
        "outputType": long.message(),
        "partitions": [scope.columns[key].message for key in keys],
        "sorts": order,
        "lowerBound": {"unbounded": {}},
        "upperBound": {"currentRow": {}},
        "boundsType": "BOUNDS_TYPE_ROWS",
        "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
        "invocation": "AGGREGATION_INVOCATION_ALL",
    }
    numbered = {"project": {"input": below.message, "expressions": [{"windowFunction": number}]}}
    width = len(below.columns)
    place = field_reference(width, long)
    one = Typed({"literal": {"i64": "1"}}, long)
    first = scope.call("comparison", "equal", (place, one), SparkType("boolean", nullable=False))
    filtered = {"filter": {"input": numbered, "condition": first.message}}
    values = [field_reference(i, c.type) for i, c in enumerate(below.columns)]
    with_number = Relation(filtered, (*below.columns, ColumnOf(-1, "", long)))
    return Relation(_emit_only(with_number, values), below.columns)


# --- joins -------------------------------------------------------------------------------------

_JOINS = {
    "Inner": ("JOIN_TYPE_INNER", False, False),
    "Cross": ("JOIN_TYPE_INNER", False, False),
    "LeftOuter": ("JOIN_TYPE_LEFT", False, True),
    "RightOuter": ("JOIN_TYPE_RIGHT", True, False),
    "FullOuter": ("JOIN_TYPE_OUTER", True, True),
    "LeftSemi": ("JOIN_TYPE_LEFT_SEMI", False, False),
    "LeftAnti": ("JOIN_TYPE_LEFT_ANTI", False, False),
    "LeftSingle": ("JOIN_TYPE_LEFT_SINGLE", False, True),
}
"""Class of a join -> its type, and whether it adds nulls to the left and to the right columns."""


def _join(tree: SparkTree, context: PlanContext) -> Relation:
    left, right = (relation(child, context) for child in tree.children)
    kind, on = tree.fields["joinType"], tree.fields["condition"]
    if isinstance(kind, SparkTree):
        return _mark(left, right, on, kind, context)
    if kind not in _JOINS:
        raise refused_relation(tree, f"a join of type {kind}")
    if kind in ("LeftSemi", "LeftAnti"):
        return _existence(left, right, on, context, anti=kind == "LeftAnti")
    word, fills_left, fills_right = _JOINS[kind]
    scope = _scope(context, (*left.columns, *right.columns))
    expression = _TRUE if on is None else condition(scope, on)
    body = {
        "left": left.message, "right": right.message, "expression": expression.message, "type": word,
    }  # fmt: skip
    columns = (*_filled(left.columns, fills_left), *_filled(right.columns, fills_right))
    return Relation({"join": body}, columns)


def _existence(
    left: Relation, right: Relation, on: SparkTree | None, context: PlanContext, *, anti: bool
) -> Relation:
    """Return the rows of the left side that have a match, or that have none."""
    if on is None:
        query = {"predicateOp": "PREDICATE_OP_EXISTS", "tuples": right.message}
        exists = Typed({"subquery": {"setPredicate": query}}, SparkType("boolean", nullable=False))
        return _filter_by(left, exists, context, negated=anti)
    pair = _null_aware(on, left, right) if anti else None
    if pair is not None:
        return _not_in(left, right, pair, context)
    scope = _scope(context, (*left.columns, *right.columns))
    body = {
        "left": left.message,
        "right": right.message,
        "expression": condition(scope, on).message,
        "type": _JOINS["LeftAnti" if anti else "LeftSemi"][0],
    }
    return Relation({"join": body}, left.columns)


def _filter_by(below: Relation, kept: Typed, context: PlanContext, *, negated: bool) -> Relation:
    if negated:
        kept = Scope(context, {}).call("boolean", "not", (kept,), kept.type)
    return Relation({"filter": {"input": below.message, "condition": kept.message}}, below.columns)


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
        if _reads_only(value, left) and _reads_only(other, right):
            pairs.append((value, other))
        else:
            return None
    return pairs


def _conjuncts(tree: SparkTree) -> list[SparkTree]:
    if tree.kind != "And":
        return [tree]
    return [part for child in tree.children for part in _conjuncts(child)]


def _reads_only(tree: SparkTree, side: Relation) -> bool:
    ids = {column.id for column in side.columns}
    return all(node.id in ids for node in tree.walk() if node.kind == "AttributeReference")


def _not_in(
    left: Relation,
    right: Relation,
    pairs: Sequence[tuple[SparkTree, SparkTree]],
    context: PlanContext,
) -> Relation:
    needles = [_scope(context, left.columns).value(value) for value, _ in pairs]
    scope = _scope(context, right.columns)
    haystack = _emit_only(right, [scope.value(other) for _, other in pairs])
    body = {"needles": [needle.message for needle in needles], "haystack": haystack}
    is_in = Typed({"subquery": {"inPredicate": body}}, SparkType("boolean"))
    return _filter_by(left, is_in, context, negated=True)


def _mark(
    left: Relation, right: Relation, on: SparkTree | None, mark: SparkTree, context: PlanContext
) -> Relation:
    """Return the rows of the left side with a column that says whether they have a match."""
    scope = _scope(context, (*left.columns, *right.columns))
    expression = _TRUE if on is None else condition(scope, on)
    body = {
        "left": left.message,
        "right": right.message,
        "expression": expression.message,
        "type": "JOIN_TYPE_LEFT_MARK",
    }
    width, found = len(left.columns), SparkType("boolean")
    marked = Relation({"join": body}, (*left.columns, ColumnOf(-1, "", found)))
    known = SparkType("boolean", nullable=False)
    never = Typed({"literal": {"boolean": False}}, known)
    exists = scope.call("comparison", "coalesce", (field_reference(width, found), never), known)
    values = [*(field_reference(i, c.type) for i, c in enumerate(left.columns)), exists]
    return Relation(_emit_only(marked, values), (*left.columns, _named(mark, known)))


def _filled(columns: Sequence[ColumnOf], nulls: bool) -> list[ColumnOf]:
    return [replace(c, type=SparkType(c.type.name, c.type.nullable or nulls)) for c in columns]


# --- order and number of rows ------------------------------------------------------------------


def _sort(tree: SparkTree, context: PlanContext) -> Relation:
    below = _child(tree, context)
    order = sorts(_scope(context, below.columns), tree.fields["order"])
    return Relation({"sort": {"input": below.message, "sorts": order}}, below.columns)


def _limit(tree: SparkTree, context: PlanContext) -> Relation:
    """Spark limits each partition first, which does not change the result."""
    (child,) = tree.children
    if child.kind == "LocalLimit":
        (child,) = child.children
    offset = None
    if child.kind == "Offset":
        offset, child = child.fields["offsetExpr"], child.children[0]
    return _fetch(tree, relation(child, context), tree.fields["limitExpr"], offset)


def _offset(tree: SparkTree, context: PlanContext) -> Relation:
    return _fetch(tree, _child(tree, context), None, tree.fields["offsetExpr"])


def _fetch(
    tree: SparkTree, below: Relation, count: SparkTree | None, offset: SparkTree | None
) -> Relation:
    body: dict[str, Any] = {"input": below.message}
    for name, number in (("countExpr", count), ("offsetExpr", offset)):
        if number is None:
            continue
        if number.kind != "Literal" or number.fields["value"] is None:
            raise refused_relation(tree, "only with a constant")
        body[name] = {"literal": {"i64": str(number.fields["value"])}}
    return Relation({"fetch": body}, below.columns)


# --- sets --------------------------------------------------------------------------------------


def _union(tree: SparkTree, context: PlanContext) -> Relation:
    return _set_operation(tree, context, "SET_OP_UNION_ALL")


_SETS = {
    ("Intersect", False): "SET_OP_INTERSECTION_MULTISET",
    ("Intersect", True): "SET_OP_INTERSECTION_MULTISET_ALL",
    ("Except", False): "SET_OP_MINUS_PRIMARY",
    ("Except", True): "SET_OP_MINUS_PRIMARY_ALL",
}
"""Class of a set operation in Spark, and whether it keeps rows more than once."""


def _difference(tree: SparkTree, context: PlanContext) -> Relation:
    return _set_operation(tree, context, _SETS[tree.kind, bool(tree.fields["isAll"])])


def _set_operation(tree: SparkTree, context: PlanContext, op: str) -> Relation:
    inputs = [relation(child, context) for child in tree.children]
    wanted = [type_of(column.type) for column in tree.output]
    same = [_as_types(one, wanted, context) for one in inputs]
    columns = tuple(
        ColumnOf(column.id, column.name, SparkType(wanted[i].name, _is_nullable(same, i)))
        for i, column in enumerate(tree.output)
    )
    return Relation({"set": {"inputs": [one.message for one in same], "op": op}}, columns)


def _is_nullable(inputs: Sequence[Relation], place: int) -> bool:
    return any(one.columns[place].type.nullable for one in inputs)


def _as_types(below: Relation, wanted: Sequence[SparkType], context: PlanContext) -> Relation:
    """Return a relation with columns of these types; only a column of nulls has another one."""
    if all(c.type.name == w.name for c, w in zip(below.columns, wanted, strict=True)):
        return below
    values = [
        cast(field_reference(i, c.type), w.name) if c.type.name != "void" else null(w.name)
        for i, (c, w) in enumerate(zip(below.columns, wanted, strict=True))
    ]
    columns = tuple(replace(c, type=v.type) for c, v in zip(below.columns, values, strict=True))
    return Relation(_emit_only(below, values), columns)


# --- windows -----------------------------------------------------------------------------------


def _window(tree: SparkTree, context: PlanContext) -> Relation:
    """Return the rows with the values of window functions over one partitioning and order."""
    below = _child(tree, context)
    scope = _scope(context, below.columns)
    partitions = [scope.value(key).message for key in tree.fields["partitionSpec"]]
    order = sorts(scope, tree.fields["orderSpec"])
    values = []
    for alias in tree.fields["windowExpressions"]:
        try:
            values.append(window_function(scope, alias.children[0], partitions, order))
        except Refusal as refusal:
            context.refusals.append(refusal.at(alias))
            values.append(null("string"))
    columns = tuple(
        _named(alias, value.type)
        for alias, value in zip(tree.fields["windowExpressions"], values, strict=True)
    )
    body = {"input": below.message, "expressions": [value.message for value in values]}
    return Relation({"project": body}, (*below.columns, *columns))


_RELATIONS: Mapping[str, Callable[[SparkTree, PlanContext], Relation]] = {
    "Aggregate": _aggregate,
    "Deduplicate": _deduplicate,
    "Distinct": _distinct,
    "Except": _difference,
    "Expand": _expand,
    "Filter": _filter,
    "Generate": _generate,
    "GlobalLimit": _limit,
    "Intersect": _difference,
    "Join": _join,
    "LocalRelation": constant_rows,
    "Offset": _offset,
    "OneRowRelation": constant_rows,
    "Project": _project,
    "Range": number_rows,
    "RebalancePartitions": _pass,
    "Repartition": _pass,
    "RepartitionByExpression": _pass,
    "ResolvedHint": _pass,
    "ResolvedInlineTable": inline_rows,
    "Sort": _sort,
    "SubqueryAlias": _pass,
    "Union": _union,
    "View": _pass,
    "Window": _window,
}
"""Class of a relation in Spark -> how it is translated."""
