"""Bind the rows of virtual tables: constants of the types of their columns."""

from __future__ import annotations

from substrait_agg.bind.bound import BoundRows, Conversion, Expr
from substrait_agg.bind.context import BindContext, Bound, Opaque, is_unknown, unknown
from substrait_agg.bind.conversions import can_cast, convert, is_null
from substrait_agg.bind.expressions.binder import bind_expression
from substrait_agg.plan import model
from substrait_agg.plan.types import Type

Row = tuple[model.Expression, ...]


def bind_rows(rows: tuple[Row, ...], node: model.ReadRel, context: BindContext) -> Bound:
    """Return the rows as constants of the column types.

    Args:
        rows: rows of the virtual table, as decoded.
        node: the read; it has the names and types of the columns.
        context: collects the problems. Conversion of values is reported once per column.

    Returns:
        The rows, or an opaque relation if the type of a column is not supported.
    """
    if not all(context.check_column(t, f"{node.path}.base_schema") for t in node.types):
        return Opaque(node.path)
    bound: list[tuple[Expr, ...]] = []
    converted: set[str] = set()
    for row in rows:
        if len(row) != len(node.types):
            _report_width(row, node, context)
            continue
        values = tuple(
            _value(item, ordinal, node, converted, context) for ordinal, item in enumerate(row)
        )
        bound.append(values)
    return BoundRows(node.types, tuple(bound), node.path)


def _report_width(row: Row, node: model.ReadRel, context: BindContext) -> None:
    # The row has no path of its own. The path of its first value begins with it.
    path = row[0].path.rpartition(".fields[")[0] if row else ""
    context.report(
        "ROW_WIDTH", path or f"{node.path}.virtual_table", count=len(row), columns=len(node.types)
    )


def _value(
    item: model.Expression,
    ordinal: int,
    node: model.ReadRel,
    converted: set[str],
    context: BindContext,
) -> Expr:
    if not _is_constant(item):
        context.report("ROW_NOT_CONSTANT", item.path)
        return unknown()
    value, type_ = bind_expression(item, (), context), node.types[ordinal]
    if is_unknown(value):
        return value
    plain = value.input if isinstance(value, Conversion) else value
    name = node.names[ordinal] if ordinal < len(node.names) else str(ordinal)
    if is_null(plain) and not type_.nullable:
        context.report("ROW_NULL", item.path, name=name, type=type_)
        return unknown()
    if not _fits(value, type_, name, item.path, converted, context):
        return unknown()
    return convert(value, type_)


def _is_constant(item: model.Expression) -> bool:
    """Return whether it is a literal, converted at most once, or has already been reported."""
    plain = item.input if isinstance(item, model.Cast) else item
    return isinstance(plain, model.Literal | model.Unsupported)


def _fits(
    value: Expr, type_: Type, name: str, path: str, converted: set[str], context: BindContext
) -> bool:
    possible = can_cast(value.type, type_)
    if (
        not value.type.same_kind(type_)
        and not is_null(value)
        and (not possible or name not in converted)
    ):
        converted.add(name)
        code = "ROW_TYPE_DIFFERS" if possible else "ROW_TYPE_NOT_SUPPORTED"
        context.report(code, path, name=name, type=value.type, declared=type_)
    return possible
