"""Tables and rows of constants: the relations of Spark that read no other relation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from substrait_agg.spark.catalyst.analyzed.refusals import Refusal
from substrait_agg.spark.catalyst.analyzed.tree import OutputColumn, SparkTree
from substrait_agg.spark.catalyst.translation.generate import long_range
from substrait_agg.spark.catalyst.translation.own_sources import OwnSource, location_of, names_of
from substrait_agg.spark.catalyst.translation.scope import (
    PlanContext,
    Scope,
    emit_rows,
    write_literal,
)
from substrait_agg.spark.catalyst.translation.types import ColumnOf, Relation, SparkType, type_of

TABLE = "substrait_agg.table"
"""Key in the metadata of a column, with the name of the table that the column belongs to."""

MOST_ROWS = 10_000
"""Most rows of constants in a query."""

_STORED = (
    "DataSourceV2Relation", "HiveTableRelation", "LogicalRelation", "StreamingRelation", "StreamingRelationV2",
)  # fmt: skip
"""Classes of relations whose rows are not in the query."""

_LISTS = ("LocalRelation", "LogicalRDD")
"""Classes of relations of rows that Python gave: a table if a view names them."""


def table_of(tree: SparkTree, context: PlanContext) -> Relation | None:
    """Return the read of a table; None for any other relation."""
    if tree.kind == "LocalRelation" and tree.fields["output"]:
        metadata = tree.fields["output"][0].fields["metadata"]
        if TABLE in metadata:
            return read(str(metadata[TABLE]).split("."), tree.output, context)
    names, stored = _names_of(tree), _find_stored(tree)
    if not names or stored is None:
        return None
    source = _source_of(tree, stored, context)
    name = context.tables.name(names, source)
    return read(name, tree.output, context, by_position=source.by_position)


def _names_of(tree: SparkTree) -> list[tuple[str, ...]]:
    """Return the names that a relation may have as a table; none if it is not one."""
    stored = _find_stored(tree)
    if stored is None:
        return []
    if tree.kind == "View":
        names = [_short(tree.fields["desc"]["table"].split("."))]
        has_source = _files(stored) or stored.fields.get("catalogTable")
        return [] if has_source and not _same_columns(tree, stored) else names
    if tree is stored and tree.kind in _STORED:
        table = tree.fields.get("catalogTable") or tree.fields.get("tableMeta")
        if table:
            return [_short(table["table"].split("."))]
        return names_of(location_of(_files(tree))) if _files(tree) else []
    if tree.kind == "SubqueryAlias" and tree.children[0] is stored and stored.kind in _STORED:
        return [] if _names_of(stored) else [_short(tree.fields["identifier"])]
    return []


def _same_columns(tree: SparkTree, other: SparkTree) -> bool:
    columns, others = ([(c.name, c.type) for c in one.output] for one in (tree, other))
    return columns == others


def _short(parts: Sequence[str]) -> tuple[str, ...]:
    """Return the name of a table without the catalogue and the database that Spark adds."""
    *database, last = parts
    return (last,) if not database or database[-1] in ("", "default") else (database[-1], last)


def _files(tree: SparkTree) -> dict[str, Any]:
    """Return the files of a relation; empty if it has none, or is a table of the catalogue."""
    relation = tree.fields.get("relation")
    return relation if isinstance(relation, dict) and not tree.fields["catalogTable"] else {}


def _source_of(tree: SparkTree, stored: SparkTree, context: PlanContext) -> OwnSource:
    """Return where the rows of a relation come from."""
    if _files(stored):
        return context.tables.files(stored.fields["relation"])
    table = stored.fields.get("catalogTable")
    if table:
        name = ".".join(_short(table["table"].split(".")))
        return OwnSource(f"table:{name}", "", f"table {table['table']}")
    identifier = tree.fields.get("identifier") or []
    if stored.kind == "DataSourceV2Relation" and len(identifier) > 1:
        return OwnSource(f"table:{'.'.join(identifier)}", "", f"table {identifier}")
    if stored.kind in _LISTS:
        return OwnSource("", "its rows are in the memory of Python or Spark")
    return OwnSource("", "it is not read from files or from a table of the catalogue")


def _find_stored(tree: SparkTree) -> SparkTree | None:
    """Return the relation below views and renamed columns whose rows are not in the query."""
    named = tree.kind == "View"
    while tree.kind in ("View", "SubqueryAlias") or (
        tree.kind == "Project" and all(map(_is_renamed, tree.fields["projectList"]))
    ):
        (tree,) = tree.children
    return tree if tree.kind in _STORED or (named and _is_list(tree)) else None


def _is_list(tree: SparkTree) -> bool:
    """Return whether rows are those of a DataFrame that Python made, not constants of the query."""
    if tree.kind not in _LISTS:
        return False
    return not any(TABLE in column.fields["metadata"] for column in tree.fields["output"])


def _is_renamed(tree: SparkTree) -> bool:
    while tree.kind in ("Alias", "Cast", "UpCast"):
        (tree,) = tree.children
    return tree.kind == "AttributeReference"


def read(
    names: Sequence[str],
    output: Sequence[OutputColumn],
    context: PlanContext,
    *,
    by_position: bool = False,
) -> Relation:
    """Return the read of a table. Columns of types that a plan does not have are left out if unused.

    If the columns of the source are matched by position, such a column is a text instead.

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
            if not by_position:
                continue
            type_ = SparkType("string")
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
    if len(tree.fields["data"]) > MOST_ROWS:
        message = (
            f"a list of Python has {len(tree.fields['data'])} rows, and {MOST_ROWS} are possible"
        )
        raise Refusal("relation", message, "store the rows in a table")
    rows = [
        [write_literal(type_of(value.type), value.fields["value"]) for value in row]
        for row in tree.fields["data"]
    ]
    return _virtual(rows, _columns(tree))


def rows_of_python(tree: SparkTree, context: PlanContext) -> Relation:
    """Refuse rows that only Python or an RDD has."""
    raise Refusal(
        "relation",
        "rows of a list of Python or of an RDD have no name",
        "name them with frame.createOrReplaceTempView, and give the source of that table; or store them",
        tree.start,
        tree.stop,
    )


def inline_rows(tree: SparkTree, context: PlanContext) -> Relation:
    """Return the rows of VALUES."""
    scope = Scope(context, {})
    rows = [[scope.value(value) for value in row] for row in tree.fields["rows"]]
    if any("literal" not in value.message for row in rows for value in row):
        return emit_rows(_one_row(tree, context), tree.output, rows)
    return _virtual([[value.message["literal"] for value in row] for row in rows], _columns(tree))


def number_rows(tree: SparkTree, context: PlanContext) -> Relation:
    """Return the rows of ``range``."""
    numbers = range(tree.fields["start"], tree.fields["end"], tree.fields["step"])
    if len(numbers) > MOST_ROWS:
        one = _one_row(tree, context)
        return Relation(long_range(one, Scope(context, {}), numbers), _columns(tree))
    return _virtual([[{"i64": str(number)}] for number in numbers], _columns(tree))


def _one_row(tree: SparkTree, context: PlanContext) -> Relation:
    return constant_rows(replace(tree, kind="OneRowRelation"), context)


def _columns(tree: SparkTree) -> tuple[ColumnOf, ...]:
    return tuple(ColumnOf(c.id, c.name, type_of(c.type, nullable=c.nullable)) for c in tree.output)


def _virtual(rows: Sequence[Sequence[Any]], columns: tuple[ColumnOf, ...]) -> Relation:
    fields = [{"fields": [{"literal": value} for value in row]} for row in rows]
    body = {"baseSchema": _schema(columns), "virtualTable": {"expressions": fields}}
    return Relation({"read": body}, columns)
