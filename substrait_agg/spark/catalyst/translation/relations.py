"""Relations of Spark as relations of Substrait."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from substrait_agg.functions.spark_sql import RECURSION, RECURSION_TABLE, SPARK_URN
from substrait_agg.spark.catalyst.analyzed.refusals import Refusal
from substrait_agg.spark.catalyst.analyzed.tree import OutputColumn, SparkTree
from substrait_agg.spark.catalyst.translation.aggregates import (
    TranslatedMeasure,
    is_measure,
    measure,
)
from substrait_agg.spark.catalyst.translation.generate import unnest
from substrait_agg.spark.catalyst.translation.joins import asof_join, join
from substrait_agg.spark.catalyst.translation.scope import (
    PlanContext,
    Scope,
    cast,
    check_measure,
    constant,
    emit_only,
    emit_rows,
    field_reference,
    not_supported,
    null,
    placeholder,
    refuse_collation,
    scope_of,
    sorts,
)
from substrait_agg.spark.catalyst.translation.subqueries import condition
from substrait_agg.spark.catalyst.translation.tables import (
    constant_rows,
    inline_rows,
    number_rows,
    read,
    rows_of_python,
    table_of,
)
from substrait_agg.spark.catalyst.translation.times import is_window, window, with_clock
from substrait_agg.spark.catalyst.translation.types import (
    ColumnOf,
    Relation,
    SparkType,
    Typed,
    is_collated,
    type_of,
)
from substrait_agg.spark.catalyst.translation.windows import window_function


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
        translated = make(tree, context)
    except Refusal as refusal:
        raise refusal.at(tree) from None
    context.place(translated.message, tree)
    return translated


_REFUSED: Mapping[str, tuple[str, str]] = {
    "CollectMetrics": ("observe", "leave it out; run --metrics counts rows"),
    "MapInArrow": ("mapInArrow", "write it with functions of Spark"),
    "MapInPandas": ("mapInPandas", "write it with functions of Spark"),
    "FlatMapGroupsInPandas": ("applyInPandas", "write it with aggregate functions of Spark"),
    "Sample": (
        "TABLESAMPLE",
        "filter by a hash of a key, such as WHERE pmod(xxhash64(id), 10) = 0",
    ),
}
"""Class of a relation in Spark -> what users call it, and what to do."""


def refused_relation(tree: SparkTree, reason: str = "") -> Refusal:
    """Return the error for a relation that cannot be translated."""
    name, help = _REFUSED.get(tree.kind, (tree.kind, "docs/sql.md lists what is supported"))
    return Refusal(
        "relation",
        f"{name} cannot be maintained{reason and ': '}{reason}",
        help,
        tree.start,
        tree.stop,
    )


def _column_of(tree: SparkTree, type_: SparkType) -> ColumnOf:
    return ColumnOf(tree.id, tree.fields["name"], type_)


def _child(tree: SparkTree, context: PlanContext) -> Relation:
    return relation(tree.children[0], context)


# --- rows one by one ---------------------------------------------------------------------------


def _filter(tree: SparkTree, context: PlanContext) -> Relation:
    below = _child(tree, context)
    written = tree.fields["condition"]
    if tree.children[0].kind == "Expand" and _window_of(tree.children[0]) is not None:
        # The function of windows has only those that a time is in.
        return below
    holds = condition(scope_of(context, below.columns), written)
    return Relation({"filter": {"input": below.message, "condition": holds.message}}, below.columns)


def _project(tree: SparkTree, context: PlanContext) -> Relation:
    below = _child(tree, context)
    return _compute(below, tree.fields["projectList"], scope_of(context, below.columns))


def _compute(below: Relation, expressions: Sequence[SparkTree], scope: Scope) -> Relation:
    """Compute expressions; the columns of the input are left out."""
    values = [_value(scope, tree) for tree in expressions]
    columns = tuple(
        _column_of(tree, value.type) for tree, value in zip(expressions, values, strict=True)
    )
    return Relation(emit_only(below, values), columns)


def _value(scope: Scope, tree: SparkTree) -> Typed:
    # Another name of the column of a window has its mark as well.
    if tree.kind != "Alias" or tree.children[0].kind == "AttributeReference":
        return scope.value(tree)
    return window(scope, tree) if is_window(tree) else scope.value(tree)


def _pass(tree: SparkTree, context: PlanContext) -> Relation:
    """Return the rows of the child: the operation changes none of them."""
    return _child(tree, context)


def _generate(tree: SparkTree, context: PlanContext) -> Relation:
    below = _child(tree, context)
    return unnest(tree, below, scope_of(context, below.columns))


# --- aggregates --------------------------------------------------------------------------------


def _aggregate(tree: SparkTree, context: PlanContext) -> Relation:
    """Aggregate, then compute the expressions over keys and measures."""
    keys, results = tree.fields["groupingExpressions"], tree.fields["aggregateExpressions"]
    below = with_clock(_child(tree, context), [*keys, *results], context)
    scope = scope_of(context, below.columns)
    typed_keys = [scope.key(key) for key in keys]
    measures = {m.same: m for result in results for m in result.walk() if is_measure(m)}
    if any(_is_pivot(one) for one in measures.values()):
        for one in measures.values():
            check_measure(one)
        return _pivot(below, keys, results, scope)
    bound = []
    for name, one in measures.items():
        try:
            check_measure(one)
            bound.append((name, measure(scope, one)))
        except Refusal as refusal:
            context.refusals.append(refusal.at(one))
    if len(bound) < len(measures):
        columns = tuple(_column_of(r, type_of(r.type)) for r in results)
        return Relation({}, columns)
    aggregated, computed = _group(below, keys, typed_keys, [m for _, m in bound])
    values = iter(_measures_of(aggregated, len(keys)))
    for name, one in bound:
        computed[name] = one.result([next(values) for _ in one.types])
    return _compute(aggregated, results, Scope(context, {}, computed))


def _group(
    below: Relation,
    keys: Sequence[SparkTree],
    typed_keys: Sequence[Typed],
    measures: Sequence[TranslatedMeasure],
) -> tuple[Relation, dict[int, Typed]]:
    """Return an aggregate with its keys and measures as columns, and the keys by their expressions."""
    messages = [message for one in measures for message in one.messages]
    message: dict[str, Any] = {"input": below.message, "measures": messages}
    if keys:
        message["groupingExpressions"] = [key.message for key in typed_keys]
        message["groupings"] = [{"expressionReferences": list(range(len(keys)))}]
    types = [
        *(value.type for value in typed_keys),
        *(type_ for one in measures for type_ in one.types),
    ]
    columns = tuple(ColumnOf(-1, "", type_) for type_ in types)
    of_keys = {
        key.same: field_reference(i, value.type)
        for i, (key, value) in enumerate(zip(keys, typed_keys, strict=True))
    }
    return Relation({"aggregate": message}, columns), of_keys


def _measures_of(aggregated: Relation, keys: int) -> list[Typed]:
    """Return the columns behind the keys."""
    return [field_reference(i, c.type) for i, c in enumerate(aggregated.columns)][keys:]


def _pivot(
    below: Relation, keys: Sequence[SparkTree], results: Sequence[SparkTree], scope: Scope
) -> Relation:
    """Return a row per group with lists of the values of a pivot, one measure per value."""
    typed_keys = [scope.key(key) for key in keys]
    lists = [
        (result, _pivot_values(scope, result.children[0]))
        for result in results
        if result.kind == "Alias" and _is_pivot(result.children[0])
    ]
    others = {
        m.same: measure(scope, m)
        for result in results
        for m in result.walk()
        if is_measure(m) and not _is_pivot(m)
    }
    measures = [*(one for _, values in lists for one in values), *others.values()]
    aggregated, computed = _group(below, keys, typed_keys, measures)
    columns = iter(_measures_of(aggregated, len(keys)))
    for result, values in lists:
        nested = {"nested": {"list": {"values": [next(columns).message for _ in values]}}}
        computed[result.children[0].same] = Typed(nested, type_of(result.type, nullable=False))
        scope.context.pivots.add(result.id)
    for name, one in others.items():
        computed[name] = one.result([next(columns) for _ in one.types])
    return _compute(aggregated, results, Scope(scope.context, {}, computed))


def _is_pivot(tree: SparkTree) -> bool:
    """Return whether a measure has a list with a value per column of a pivot."""
    return is_measure(tree) and tree.children[0].kind == "PivotFirst"


def _pivot_values(scope: Scope, tree: SparkTree) -> list[TranslatedMeasure]:
    """Return a measure per column of a pivot: the value of the only row of the group with its key."""
    (function,) = tree.children
    key, value = (scope.translate(function.fields[name]) for name in ("pivotColumn", "valueColumn"))
    boolean = SparkType("boolean", nullable=False)
    type_ = SparkType(value.type.name)
    measures = []
    for text in function.fields["pivotColumnValues"]:
        searched = constant(key.type, text)
        if searched is None:
            raise not_supported(function, f"of keys of type {key.type.name}")
        same = scope.call("comparison", "is_not_distinct_from", (key, searched), boolean)
        body = {
            "functionReference": scope.context.reference(
                "aggregate_generic", "any_value", (value,)
            ),
            "arguments": [{"value": value.message}],
            "outputType": type_.message(),
            "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
            "invocation": "AGGREGATION_INVOCATION_ALL",
        }
        message = {"measure": body, "filter": same.message}
        measures.append(TranslatedMeasure((message,), (type_,), lambda values: values[0]))
    return measures


def _expand(tree: SparkTree, context: PlanContext) -> Relation:
    """Return every row once per projection, which is how Spark reads ROLLUP, CUBE and GROUPING SETS."""
    below = _child(tree, context)
    scope = scope_of(context, below.columns)
    if _window_of(tree) is not None:
        return _windows(tree, below, scope)
    rows = [[scope.value(value) for value in row] for row in tree.fields["projections"]]
    return emit_rows(below, tree.output, rows)


def _window_of(tree: SparkTree) -> int | None:
    """Return the place of the column of windows in which each row is once per window."""
    columns = tree.fields["output"]
    return next((i for i, c in enumerate(columns) if is_window(c)), None)


def _windows(tree: SparkTree, below: Relation, scope: Scope) -> Relation:
    place = _window_of(tree)
    rows, outputs = tree.fields["projections"], tree.fields["output"]
    values = [
        window(scope, replace(value, metadata=column.metadata), len(rows)) if i == place else scope.value(value)
        for i, (value, column) in enumerate(zip(rows[0], outputs, strict=True))
    ]  # fmt: skip
    columns = tuple(_column_of(c, v.type) for c, v in zip(outputs, values, strict=True))
    return Relation(emit_only(below, values), columns)


def _distinct(tree: SparkTree, context: PlanContext) -> Relation:
    _check_collations(tree, tree.output)
    return _group_all(_child(tree, context))


def _group_all(below: Relation) -> Relation:
    keys = [field_reference(i, column.type).message for i, column in enumerate(below.columns)]
    grouping = {"expressionReferences": list(range(len(keys)))}
    body = {"input": below.message, "groupingExpressions": keys, "groupings": [grouping]}
    return Relation({"aggregate": body}, below.columns)


def _deduplicate(tree: SparkTree, context: PlanContext) -> Relation:
    """Return one row per key: the least one, where Spark keeps the one that it meets first."""
    below = _child(tree, context)
    _check_collations(tree, tree.fields["keys"])
    scope = scope_of(context, below.columns)
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
    return Relation(emit_only(with_number, values), below.columns)


def _check_collations(tree: SparkTree, columns: Sequence[SparkTree | OutputColumn]) -> None:
    """Check that no column has texts with a collation: rows are compared by bytes here."""
    if any(is_collated(column.type) for column in columns):
        raise refuse_collation(tree)


def _join(tree: SparkTree, context: PlanContext) -> Relation:
    left, right = (relation(child, context) for child in tree.children)
    make = asof_join if tree.kind == "AsOfJoin" else join
    return make(tree, left, right, context)


# --- order and number of rows ------------------------------------------------------------------


def _sort(tree: SparkTree, context: PlanContext) -> Relation:
    below = _child(tree, context)
    order = sorts(scope_of(context, below.columns), tree.fields["order"])
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
    _check_order(tree)
    body: dict[str, Any] = {"input": below.message}
    for name, number in (("countExpr", count), ("offsetExpr", offset)):
        if number is None:
            continue
        if number.kind != "Literal" or number.fields["value"] is None:
            raise refused_relation(tree, "only with a constant")
        body[name] = {"literal": {"i64": str(number.fields["value"])}}
    return Relation({"fetch": body}, below.columns)


_LIMITS = ("GlobalLimit", "LocalLimit", "Offset")
_IN_ORDER = (
    "Filter", "PipeOperator", "Project", "ResolvedHint", "SubqueryAlias", "View", *_LIMITS,
)  # fmt: skip
"""Classes of relations that keep the order of their rows in Substrait."""


def _check_order(tree: SparkTree) -> None:
    """Refuse a number of rows in an order that Spark keeps and a relation of Substrait does not.

    Raises:
        Refusal: it is in such an order.
    """
    of_groups = tree.kind == "Window"
    waiting = [(child, of_groups) for child in tree.children]
    while waiting:
        below, lost = waiting.pop()
        is_order = below.kind == "Sort" or (below.kind == "Window" and of_groups)
        if is_order and lost:
            raise Refusal(
                "relation",
                "LIMIT or OFFSET cannot be maintained: a query below it has the order of its rows",
                "write ORDER BY in front of LIMIT in the same query",
                tree.start,
                tree.stop,
            )
        keeps_order = below.kind in _IN_ORDER
        if below.kind in _LIMITS and lost and not of_groups:
            continue
        if keeps_order or below.kind in ("Generate", "Join", "Union"):
            waiting += [(child, lost or not keeps_order) for child in below.children]


# --- sets --------------------------------------------------------------------------------------


def _union(tree: SparkTree, context: PlanContext) -> Relation:
    return _set_operation(tree, context, "SET_OP_UNION_ALL")


def _recursion(tree: SparkTree, context: PlanContext) -> Relation:
    """Return the rows of WITH RECURSIVE: a union that a projection makes a recursion of."""
    level, rows = context.recursion_limits
    level = level if tree.fields["maxDepth"] is None else int(tree.fields["maxDepth"])
    union = _set_operation(tree, context, "SET_OP_UNION_ALL")
    limits = (
        Typed({"literal": {"string": context.recursion(tree.fields["id"])}}, SparkType("string")),
        Typed({"literal": {"i32": level}}, SparkType("integer")),
        Typed({"literal": {"i64": str(rows)}}, SparkType("long")),
    )
    number = SparkType("integer", nullable=False)
    call = scope_of(context, union.columns).call(SPARK_URN, RECURSION, limits, number)
    emit = {"emit": {"outputMapping": list(range(len(union.columns)))}}
    body = {"common": emit, "input": union.message, "expressions": [call.message]}
    return Relation({"project": body}, union.columns)


def _last_level(tree: SparkTree, context: PlanContext) -> Relation:
    """Return the rows of the last level of a recursion, which its step reads."""
    columns = [OutputColumn(c.id, c.name, c.type, True) for c in tree.output]
    table = (*RECURSION_TABLE, context.recursion(tree.fields["loopId"]))
    return read(table, columns, replace(context, read_ids=frozenset(c.id for c in columns)))


_SETS = {
    ("Intersect", False): "SET_OP_INTERSECTION_MULTISET",
    ("Intersect", True): "SET_OP_INTERSECTION_MULTISET_ALL",
    ("Except", False): "SET_OP_MINUS_PRIMARY",
    ("Except", True): "SET_OP_MINUS_PRIMARY_ALL",
}
"""Class of a set operation in Spark, and whether it keeps rows more than once."""


def _difference(tree: SparkTree, context: PlanContext) -> Relation:
    _check_collations(tree, tree.output)
    return _set_operation(tree, context, _SETS[tree.kind, bool(tree.fields["isAll"])])


def _set_operation(tree: SparkTree, context: PlanContext, op: str) -> Relation:
    inputs = [relation(child, context) for child in tree.children]
    types = [type_of(column.type) for column in tree.output]
    same = [_as_types(one, types, context) for one in inputs]
    columns = tuple(
        ColumnOf(column.id, column.name, SparkType(types[i].name, _is_nullable(same, i)))
        for i, column in enumerate(tree.output)
    )
    return Relation({"set": {"inputs": [one.message for one in same], "op": op}}, columns)


def _is_nullable(inputs: Sequence[Relation], place: int) -> bool:
    return any(one.columns[place].type.nullable for one in inputs)


def _as_types(below: Relation, types: Sequence[SparkType], context: PlanContext) -> Relation:
    """Return a relation with columns of these types; only a column of nulls has another one."""
    if all(c.type.name == w.name for c, w in zip(below.columns, types, strict=True)):
        return below
    values = [
        cast(field_reference(i, c.type), w.name) if c.type.name != "void" else null(w.name)
        for i, (c, w) in enumerate(zip(below.columns, types, strict=True))
    ]
    columns = tuple(replace(c, type=v.type) for c, v in zip(below.columns, values, strict=True))
    return Relation(emit_only(below, values), columns)


# --- windows -----------------------------------------------------------------------------------


def _window(tree: SparkTree, context: PlanContext) -> Relation:
    """Return the rows with the values of window functions over one partitioning and order."""
    below = _child(tree, context)
    scope = scope_of(context, below.columns)
    partitions = [scope.key(key).message for key in tree.fields["partitionSpec"]]
    order = sorts(scope, tree.fields["orderSpec"])
    if not order and any(o.kind == "RowNumber" for o in tree.fields["windowExpressions"][0].walk()):
        # Rules of Spark number the rows of a LIMIT that has no ORDER BY.
        _check_order(tree)
    values = []
    for alias in tree.fields["windowExpressions"]:
        try:
            values.append(_window_value(scope, alias, partitions, order))
        except Refusal as refusal:
            context.refusals.append(refusal.at(alias))
            values.append(placeholder(alias))
    columns = tuple(
        _column_of(alias, value.type)
        for alias, value in zip(tree.fields["windowExpressions"], values, strict=True)
    )
    body = {"input": below.message, "expressions": [value.message for value in values]}
    return Relation({"project": body}, (*below.columns, *columns))


def _window_value(
    scope: Scope, tree: SparkTree, partitions: list[Any], order: list[dict[str, Any]]
) -> Typed:
    """Return a value of a window; one of a subquery may be a column of the outer query."""
    if tree.kind == "AttributeReference":
        return scope.value(tree)
    value = window_function(scope, tree.children[0], partitions, order)
    scope.context.place(value.message, tree.children[0])
    return value


_RELATIONS: Mapping[str, Callable[[SparkTree, PlanContext], Relation]] = {
    "Aggregate": _aggregate,
    "AsOfJoin": _join,
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
    "LogicalRDD": rows_of_python,
    "Offset": _offset,
    "OneRowRelation": constant_rows,
    "PipeOperator": _pass,
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
    "UnionLoop": _recursion,
    "UnionLoopRef": _last_level,
    "View": _pass,
    "Window": _window,
}
"""Class of a relation in Spark -> how it is translated."""
