"""Tables and rows of constants: the relations of Spark that read no other relation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from substrait_agg.spark.catalyst.analyzed.refusals import Refusal
from substrait_agg.spark.catalyst.analyzed.tree import OutputColumn, SparkTree
from substrait_agg.spark.catalyst.translation.expressions import literal
from substrait_agg.spark.catalyst.translation.scope import PlanContext, Scope
from substrait_agg.spark.catalyst.translation.types import ColumnOf, Relation, SparkType, type_of

TABLE = "substrait_agg.table"
"""Key in the metadata of a column, with the name of the table that the column belongs to."""

MOST_ROWS = 10_000
"""Most rows of constants in a query."""

_STORED = ("LogicalRDD", "LogicalRelation", "StreamingRelation", "StreamingRelationV2", "HiveTableRelation", "DataSourceV2Relation")  # fmt: skip
"""Classes of relations whose rows are not in the query."""


def table_of(tree: SparkTree, context: PlanContext) -> Relation | None:
    """Return the read of a table; None for any other relation."""
    named = _name_of(tree)
    if named is None:
        return None
    name, columns = named
    return read(name, columns, context)


def _name_of(tree: SparkTree) -> tuple[Sequence[str], Sequence[OutputColumn]] | None:
    """Return the name of a table and its columns."""
    if tree.kind == "LocalRelation" and tree.fields["output"]:
        metadata = tree.fields["output"][0].fields["metadata"]
        if TABLE in metadata:
            return str(metadata[TABLE]).split("."), tree.output
    if tree.kind != "SubqueryAlias":
        return None
    (child,) = tree.children
    stored = _stored(child)
    if stored is None or (child.kind != "View" and stored.kind == "LocalRelation"):
        return None
    *database, last = tree.fields["identifier"]
    names = [last] if not database or database[-1] in ("", "default") else [database[-1], last]
    return names, child.output


def _stored(tree: SparkTree) -> SparkTree | None:
    """Return the relation below views and renamed columns whose rows are not in the query."""
    while tree.kind in ("View", "SubqueryAlias") or (
        tree.kind == "Project" and all(map(_is_renamed, tree.fields["projectList"]))
    ):
        (tree,) = tree.children
    empty = tree.kind == "LocalRelation" and not tree.fields["data"]
    is_named = empty and any(TABLE in c.fields["metadata"] for c in tree.fields["output"])
    return tree if tree.kind in _STORED or (empty and not is_named) else None


def _is_renamed(tree: SparkTree) -> bool:
    while tree.kind in ("Alias", "Cast", "UpCast"):
        (tree,) = tree.children
    return tree.kind == "AttributeReference"


def read(names: Sequence[str], output: Sequence[OutputColumn], context: PlanContext) -> Relation:
    """Return the read of a table. Columns of types that a plan does not have are left out if unused.

    Raises:
        Refusal: the query uses a column of such a type.
    """
    columns = []
    for column in output:
        type_ = type_of(column.type, nullable=column.nullable)
        try:
            type_.message()
        except Refusal as refusal:
            if column.id in context.read_ids:
                message = f"column {column.name} of {'.'.join(names)}: {refusal.message}"
                raise Refusal("type", message, refusal.help) from None
            continue
        columns.append(ColumnOf(column.id, column.name, type_))
    body = {"baseSchema": _schema(columns), "namedTable": {"names": list(names)}}
    return Relation({"read": body}, tuple(columns))


def _schema(columns: Sequence[ColumnOf]) -> dict[str, Any]:
    types = [column.type.message() for column in columns]
    struct = {"types": types, "nullability": "NULLABILITY_REQUIRED"}
    names = [n for c in columns for n in (c.name, *c.type.field_names())]
    return {"names": names, "struct": struct}


def constant_rows(tree: SparkTree, context: PlanContext) -> Relation:
    """Return the rows of constants of a DataFrame, or the one row of a query without a table."""
    if tree.kind == "OneRowRelation":
        number = ColumnOf(-1, "one", SparkType("integer", nullable=False))
        return _virtual([[{"i32": 1}]], (number,))
    rows = [[literal(value).message["literal"] for value in row] for row in tree.fields["data"]]
    return _virtual(rows, _columns(tree))


def inline_rows(tree: SparkTree, context: PlanContext) -> Relation:
    """Return the rows of VALUES."""
    scope = Scope(context, {})
    rows = [[scope.value(value).message for value in row] for row in tree.fields["rows"]]
    for row in rows:
        if any("literal" not in value for value in row):
            raise Refusal("expression", "VALUES with other values than constants", "write constants, or UNION ALL of SELECTs")  # fmt: skip
    return _virtual([[value["literal"] for value in row] for row in rows], _columns(tree))


def number_rows(tree: SparkTree, context: PlanContext) -> Relation:
    """Return the rows of ``range``."""
    numbers = range(tree.fields["start"], tree.fields["end"], tree.fields["step"])
    if len(numbers) > MOST_ROWS:
        raise Refusal("relation", f"range has {len(numbers)} rows, and {MOST_ROWS} are possible", "store the numbers in a table")  # fmt: skip
    return _virtual([[{"i64": str(number)}] for number in numbers], _columns(tree))


def _columns(tree: SparkTree) -> tuple[ColumnOf, ...]:
    return tuple(ColumnOf(c.id, c.name, type_of(c.type, nullable=c.nullable)) for c in tree.output)


def _virtual(rows: Sequence[Sequence[Any]], columns: tuple[ColumnOf, ...]) -> Relation:
    fields = [{"fields": [{"literal": value} for value in row]} for row in rows]
    body = {"baseSchema": _schema(columns), "virtualTable": {"expressions": fields}}
    return Relation({"read": body}, columns)
