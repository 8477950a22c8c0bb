"""Rows that a plan holds itself (virtual tables): their width, and every value against the type of its column."""

from __future__ import annotations

from substrait_agg.bind.bound import BoundRows, Conversion, Expr
from substrait_agg.bind.context import BindContext, Bound, Opaque, is_unknown, unknown
from substrait_agg.bind.expressions.binder import bind_expression
from substrait_agg.bind.expressions.conversions import can_cast, convert, is_null
from substrait_agg.plan import model
from substrait_agg.plan.types import Type

Row = tuple[model.Expression, ...]


def bind_rows(rows: tuple[Row, ...], node: model.Read, context: BindContext) -> Bound:
    """The rows as constants of the column types, or an opaque relation where a column has a type that is not kept.

    Args:
        rows: of the virtual table, as decoded.
        node: the read; its names and types are those of the columns.
        context: takes the problems. That values of a column are converted is reported once per column.
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


def _report_width(row: Row, node: model.Read, context: BindContext) -> None:
    # The row itself is no expression; the place of its first value begins with its own.
    path = row[0].path.rpartition(".fields[")[0] if row else ""
    context.report(
        "ROW_WIDTH", path or f"{node.path}.virtual_table", count=len(row), columns=len(node.types)
    )


def _value(
    item: model.Expression,
    ordinal: int,
    node: model.Read,
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
    """Whether it is a literal, converted once at most, or has been reported already."""
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
