"""Relations of Spark as relations of Substrait."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from substrait_agg.errors import UsageError
from substrait_agg.spark.dataframe.aggregates import is_measure, measure
from substrait_agg.spark.dataframe.analyzed import SparkTree, tree_of
from substrait_agg.spark.dataframe.expressions import EXPRESSIONS, literal
from substrait_agg.spark.dataframe.scope import PlanContext, Scope, field_reference, id_of, identity
from substrait_agg.spark.dataframe.subqueries import condition
from substrait_agg.spark.dataframe.types import ColumnOf, Relation, SparkType, Typed
from substrait_agg.spark.dataframe.windows import window_function


def plan_json(tree: SparkTree, types: Sequence[object], *, loses_precision: bool = True) -> str:
    """Return the Substrait plan of an analyzed plan of Spark, as JSON.

    Raises:
        UsageError: DATAFRAME_RELATION, DATAFRAME_EXPRESSION, DATAFRAME_TYPE.
    """
    context = PlanContext(EXPRESSIONS, _relation, loses_precision)
    root = _relation(tree, context)
    for column, type_ in zip(root.columns, types, strict=True):
        if column.type.name != type_:
            raise UsageError(
                "DATAFRAME_TYPE",
                f"column {column.name} of the DataFrame is of type {type_}, and {column.type.name} in a plan",
                help="cast it to a number, text, date or timestamp, or write the query in SQL",
            )
    plan = {
        "version": {"minorNumber": 106, "producer": "Spark plan of substrait-agg"},
        **context.declarations(),
        "relations": [
            {"root": {"input": root.message, "names": [column.name for column in root.columns]}}
        ],
    }
    return json.dumps(plan)


def _relation(tree: SparkTree, context: PlanContext) -> Relation:
    make = _RELATIONS.get(tree.kind)
    if make is None:
        raise _not_supported(tree)
    return make(tree, context)


def _not_supported(tree: SparkTree, reason: str = "") -> UsageError:
    return UsageError(
        "DATAFRAME_RELATION",
        f"the operation {tree.kind} of the DataFrame cannot be turned into a plan{reason and ': '}{reason}",
        help="read named tables (spark.table) and use the operations that docs/dataframes.md lists",
    )


def _scope(context: PlanContext, columns: Sequence[ColumnOf]) -> Scope:
    fields = {c.id: field_reference(i, c.type) for i, c in enumerate(columns)}
    return Scope(context, fields)


# --- tables -----------------------------------------------------------------------------------


def _alias(tree: SparkTree, context: PlanContext) -> Relation:
    """A name over a table is the name of the table; over anything else it does not matter."""
    (child,) = tree.children
    if child.kind != "View" and child.children:
        return _relation(child, context)
    name = tree.fields["identifier"]
    database = str(name.get("qualifier", "[]")).strip("[]").split(", ")[-1]
    names = [name["name"]] if database in ("", "default") else [database, name["name"]]
    columns = _table_columns(child)
    return Relation(_read(names, columns), columns)


def _read(names: Sequence[str], columns: Sequence[ColumnOf]) -> dict[str, Any]:
    struct = {
        "types": [column.type.message() for column in columns],
        "nullability": "NULLABILITY_REQUIRED",
    }
    schema = {"names": [column.name for column in columns], "struct": struct}
    return {"read": {"baseSchema": schema, "namedTable": {"names": list(names)}}}


def _table_columns(tree: SparkTree) -> tuple[ColumnOf, ...]:
    if tree.kind != "View":
        return _outputs(tree)
    fields = tree.fields["desc"]["schema"]["fields"]
    ids = [column.id for column in _outputs(tree.children[0])]
    if len(ids) != len(fields) or any(not isinstance(f["type"], str) for f in fields):
        raise _not_supported(tree, "its columns are not of simple types")
    return tuple(
        ColumnOf(i, f["name"], SparkType(f["type"])) for i, f in zip(ids, fields, strict=True)
    )


def _outputs(tree: SparkTree) -> tuple[ColumnOf, ...]:
    """Return the columns of the plan of a table. Types of computed columns are unknown."""
    for name in ("output", "projectList", "aggregateExpressions"):
        if name in tree.fields:
            return tuple(_output(found) for found in tree.expressions(name))
    if len(tree.children) != 1:
        raise _not_supported(tree, "it is not a named table")
    return _outputs(tree.children[0])


def _output(tree: SparkTree) -> ColumnOf:
    type_ = tree.fields.get("dataType", "")
    if not isinstance(type_, str):
        raise _not_supported(tree, f"column {tree.fields['name']} is not of a simple type")
    return ColumnOf(id_of(tree), tree.fields["name"], SparkType(type_))


# --- relations --------------------------------------------------------------------------------


def _filter(tree: SparkTree, context: PlanContext) -> Relation:
    below = _relation(tree.children[0], context)
    value = condition(_scope(context, below.columns), tree_of(tree.fields["condition"]))
    return Relation({"filter": {"input": below.message, "condition": value.message}}, below.columns)


def _project(tree: SparkTree, context: PlanContext) -> Relation:
    below = _relation(tree.children[0], context)
    return _projected(below, tree.expressions("projectList"), _scope(context, below.columns))


def _projected(below: Relation, expressions: Sequence[SparkTree], scope: Scope) -> Relation:
    """Compute expressions; the columns of the input are left out."""
    values = [scope.typed(tree) for tree in expressions]
    width = len(below.columns)
    emit = {"emit": {"outputMapping": list(range(width, width + len(values)))}}
    columns = tuple(
        ColumnOf(id_of(tree), tree.fields["name"], value.type)
        for tree, value in zip(expressions, values, strict=True)
    )
    body = {"common": emit, "input": below.message, "expressions": [v.message for v in values]}
    return Relation({"project": body}, columns)


def _aggregate(tree: SparkTree, context: PlanContext) -> Relation:
    """Aggregate, then compute the expressions over keys and measures."""
    below = _relation(tree.children[0], context)
    scope = _scope(context, below.columns)
    keys, results = (
        tree.expressions("groupingExpressions"),
        tree.expressions("aggregateExpressions"),
    )
    typed_keys = [scope.typed(key) for key in keys]
    measures = {identity(m): m for result in results for m in result.walk() if is_measure(m)}
    bound = [measure(scope, m) for m in measures.values()]
    message: dict[str, Any] = {"input": below.message, "measures": [m.message for m in bound]}
    if keys:
        message["groupingExpressions"] = [key.message for key in typed_keys]
        message["groupings"] = [{"expressionReferences": list(range(len(keys)))}]
    computed = {
        identity(key): field_reference(i, value.type)
        for i, (key, value) in enumerate(zip(keys, typed_keys, strict=True))
    }
    for i, (name, one) in enumerate(zip(measures, bound, strict=True)):
        computed[name] = one.result(field_reference(len(keys) + i, one.type))
    columns = tuple(
        ColumnOf(-1, "", t) for t in (*(v.type for v in typed_keys), *(m.type for m in bound))
    )
    return _projected(
        Relation({"aggregate": message}, columns), results, Scope(context, {}, computed)
    )


def _expand(tree: SparkTree, context: PlanContext) -> Relation:
    """Return every row once per projection, which is how Spark reads ROLLUP, CUBE and GROUPING SETS."""
    below = _relation(tree.children[0], context)
    scope = _scope(context, below.columns)
    rows = [[scope.typed(tree_of(nodes)) for nodes in row] for row in tree.fields["projections"]]
    width = len(below.columns)
    outputs = [_output(column) for column in tree.expressions("output")]
    nullable = [any(v.type.nullable for v in values) for values in zip(*rows, strict=True)]
    columns = tuple(
        replace(column, type=SparkType(column.type.name, found))
        for column, found in zip(outputs, nullable, strict=True)
    )
    emit = {"emit": {"outputMapping": list(range(width, width + len(columns)))}}
    inputs = [
        {
            "project": {
                "common": emit,
                "input": below.message,
                "expressions": [v.message for v in row],
            }
        }
        for row in rows
    ]
    return Relation({"set": {"inputs": inputs, "op": "SET_OP_UNION_ALL"}}, columns)


def _distinct(tree: SparkTree, context: PlanContext) -> Relation:
    below = _relation(tree.children[0], context)
    if tree.kind == "Deduplicate":
        key_ids = {id_of(key) for key in tree.expressions("keys")}
        if key_ids != {column.id for column in below.columns}:
            raise _not_supported(tree, "it keeps any row per key; group by the keys instead")
    keys = [field_reference(i, column.type).message for i, column in enumerate(below.columns)]
    grouping = {"expressionReferences": list(range(len(keys)))}
    body = {"input": below.message, "groupingExpressions": keys, "groupings": [grouping]}
    return Relation({"aggregate": body}, below.columns)


_JOINS = {
    "Inner": ("JOIN_TYPE_INNER", False, False),
    "Cross": ("JOIN_TYPE_INNER", False, False),
    "LeftOuter": ("JOIN_TYPE_LEFT", False, True),
    "RightOuter": ("JOIN_TYPE_RIGHT", True, False),
    "FullOuter": ("JOIN_TYPE_OUTER", True, True),
    "LeftSemi": ("JOIN_TYPE_LEFT_SEMI", False, False),
    "LeftAnti": ("JOIN_TYPE_LEFT_ANTI", False, False),
}
"""Class of a join -> its type, and whether it adds nulls to the left and to the right columns."""


def _join(tree: SparkTree, context: PlanContext) -> Relation:
    left, right = (_relation(child, context) for child in tree.children)
    kind = str(tree.fields["joinType"].get("object", "")).rpartition(".")[2].rstrip("$")
    if kind not in _JOINS:
        raise _not_supported(tree, f"of type {kind or 'unknown'}")
    word, fills_left, fills_right = _JOINS[kind]
    condition = tree.expression("condition")
    both = (*left.columns, *right.columns)
    on = (
        Typed({"literal": {"boolean": True}}, SparkType("boolean", nullable=False))
        if condition is None
        else _scope(context, both).typed(condition)
    )
    body = {"left": left.message, "right": right.message, "expression": on.message, "type": word}
    if kind in ("LeftSemi", "LeftAnti"):
        return Relation({"join": body}, left.columns)
    columns = (*_filled(left.columns, fills_left), *_filled(right.columns, fills_right))
    return Relation({"join": body}, columns)


def _filled(columns: Sequence[ColumnOf], nulls: bool) -> list[ColumnOf]:
    return [replace(c, type=SparkType(c.type.name, c.type.nullable or nulls)) for c in columns]


_DIRECTIONS = {
    ("Ascending", "NullsFirst"): "SORT_DIRECTION_ASC_NULLS_FIRST",
    ("Ascending", "NullsLast"): "SORT_DIRECTION_ASC_NULLS_LAST",
    ("Descending", "NullsFirst"): "SORT_DIRECTION_DESC_NULLS_FIRST",
    ("Descending", "NullsLast"): "SORT_DIRECTION_DESC_NULLS_LAST",
}


def _sort(tree: SparkTree, context: PlanContext) -> Relation:
    below = _relation(tree.children[0], context)
    sorts = _sorts(_scope(context, below.columns), tree.expressions("order"))
    return Relation({"sort": {"input": below.message, "sorts": sorts}}, below.columns)


def _sorts(scope: Scope, orders: Sequence[SparkTree]) -> list[dict[str, Any]]:
    return [
        {
            "expr": scope.typed(order.children[0]).message,
            "direction": _DIRECTIONS[_word(order, "direction"), _word(order, "nullOrdering")],
        }
        for order in orders
    ]


def _word(tree: SparkTree, field: str) -> str:
    return str(tree.fields[field]["object"]).rpartition(".")[2].rstrip("$")


def _limit(tree: SparkTree, context: PlanContext) -> Relation:
    """Spark limits each partition first, which does not change the result."""
    (child,) = tree.children
    if child.kind == "LocalLimit":
        (child,) = child.children
    below = _relation(child, context)
    count = tree.expression("limitExpr")
    if count is None or count.kind != "Literal":
        raise _not_supported(tree, "only with a constant")
    number = {"literal": {"i64": str(literal(count).message["literal"]["i32"])}}
    return Relation({"fetch": {"input": below.message, "countExpr": number}}, below.columns)


def _union(tree: SparkTree, context: PlanContext) -> Relation:
    inputs = [_relation(child, context) for child in tree.children]
    names = [[column.type.name for column in one.columns] for one in inputs]
    if any(types != names[0] for types in names):
        raise _not_supported(tree, "its inputs have different types")
    nullable = [
        any(c.type.nullable for c in column)
        for column in zip(*(i.columns for i in inputs), strict=True)
    ]
    columns = tuple(
        replace(column, type=SparkType(column.type.name, found))
        for column, found in zip(inputs[0].columns, nullable, strict=True)
    )
    body = {"inputs": [one.message for one in inputs], "op": "SET_OP_UNION_ALL"}
    return Relation({"set": body}, columns)


def _window(tree: SparkTree, context: PlanContext) -> Relation:
    """Return the rows with the values of window functions over one partitioning and order."""
    below = _relation(tree.children[0], context)
    scope = _scope(context, below.columns)
    partitions = [scope.typed(key).message for key in tree.expressions("partitionSpec")]
    sorts = _sorts(scope, tree.expressions("orderSpec"))
    aliases = tree.expressions("windowExpressions")
    values = [window_function(scope, a.children[0], partitions, sorts) for a in aliases]
    columns = tuple(
        ColumnOf(id_of(alias), alias.fields["name"], value.type)
        for alias, value in zip(aliases, values, strict=True)
    )
    body = {"input": below.message, "expressions": [value.message for value in values]}
    return Relation({"project": body}, (*below.columns, *columns))


_RELATIONS: Mapping[str, Callable[[SparkTree, PlanContext], Relation]] = {
    "Aggregate": _aggregate,
    "Deduplicate": _distinct,
    "Distinct": _distinct,
    "Expand": _expand,
    "Filter": _filter,
    "GlobalLimit": _limit,
    "Join": _join,
    "Project": _project,
    "ResolvedHint": lambda tree, context: _relation(tree.children[0], context),
    "Sort": _sort,
    "SubqueryAlias": _alias,
    "Union": _union,
    "Window": _window,
}
"""Class of a relation in Spark -> how it is translated."""
