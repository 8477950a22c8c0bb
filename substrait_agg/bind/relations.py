"""Relations: schemas bottom-up, emit and projection masks resolved, orders carried to where they matter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from substrait_agg.bind.aggregates import bind_aggregate
from substrait_agg.bind.bound import (
    BoundFilter,
    BoundProject,
    BoundRead,
    BoundRows,
    BoundUnion,
    Column,
    Constant,
    Conversion,
    Expr,
)
from substrait_agg.bind.context import (
    Bound,
    Context,
    Opaque,
    Schema,
    columns,
    is_unknown,
    listed,
    names_width,
    unknown,
)
from substrait_agg.bind.convert import can_cast, convert
from substrait_agg.bind.expressions import bind_condition, bind_expression
from substrait_agg.bind.grouping import columns_read
from substrait_agg.plan import model
from substrait_agg.plan.types import Type


@dataclass(frozen=True, slots=True)
class OrderKey:
    """A sort field and the column of the current relation that holds it.

    `ordinal` is None where no column holds it; then `problem` is the code that says why, or empty where that has
    been reported already.
    """

    field: model.SortField
    ordinal: int | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Order:
    """The order that a sort below gives to the rows of a relation."""

    keys: tuple[OrderKey, ...]
    path: str


@dataclass(frozen=True, slots=True)
class Ordered:
    """A bound relation and the order of its rows, if a sort gave it one."""

    relation: Bound
    order: Order | None = None


def bind_relation(node: model.Relation, context: Context) -> Ordered:
    """The relation with all its inputs bound, inputs first, so that problems come in the order of the data."""
    if id(node) not in context.bound:
        context.bound[id(node)] = _BINDERS[type(node)](node, context)
    found: Ordered = context.bound[id(node)]
    return found


def _schema(relation: Bound) -> Schema | None:
    return None if isinstance(relation, Opaque) else relation.types


# --- output mapping ----------------------------------------------------------------------------


def _emit(ordered: Ordered, emit: tuple[int, ...] | None, path: str, context: Context) -> Ordered:
    """The relation with its output mapping applied."""
    types = _schema(ordered.relation)
    if emit is None or types is None:
        return ordered
    picked = _pick(columns(types), emit, path, context)
    return ordered if picked is None else projected(ordered, picked, path)


def _pick(
    expressions: tuple[Expr, ...], emit: tuple[int, ...], path: str, context: Context
) -> tuple[Expr, ...] | None:
    count = len(expressions)
    outside = [ordinal for ordinal in emit if not 0 <= ordinal < count]
    for ordinal in outside:
        context.report(
            "EMIT_OUT_OF_RANGE", path, ordinal=ordinal, count=count, last=max(count - 1, 0)
        )
    return None if outside else tuple(expressions[ordinal] for ordinal in emit)


def projected(ordered: Ordered, expressions: tuple[Expr, ...], path: str) -> Ordered:
    """The relation projected to `expressions`, with the order followed to the columns where its keys are now."""
    if isinstance(ordered.relation, Opaque):
        return ordered
    types = tuple(e.type for e in expressions)
    project = BoundProject(ordered.relation, expressions, types, path)
    places = {
        e.ordinal: place
        for place, e in reversed(list(enumerate(expressions)))
        if isinstance(e, Column)
    }
    if ordered.order is None:
        return Ordered(project)
    keys = tuple(_moved(key, places) for key in ordered.order.keys)
    return Ordered(project, replace(ordered.order, keys=keys))


def _moved(key: OrderKey, places: dict[int, int]) -> OrderKey:
    if key.ordinal is None:
        return key
    place = places.get(key.ordinal)
    return replace(key, ordinal=place, problem="SORT_KEY_NOT_IN_OUTPUT")


def drop_order(ordered: Ordered, context: Context) -> Bound:
    """The relation where its order makes no difference, which is reported."""
    if ordered.order is not None:
        context.report("SORT_NO_EFFECT", ordered.order.path)
    return ordered.relation


# --- reads -------------------------------------------------------------------------------------


def _read(node: model.Read, context: Context) -> Ordered:
    node = replace(node, types=_kept_types(node, context))
    if node.files:
        context.report("FILES_NOT_ALLOWED", node.path, files=", ".join(node.table) or "none named")
    if node.rows is None and len(node.names) != len(node.types):
        needed = sum(map(names_width, node.types))
        path = f"{node.path}.base_schema"
        context.report("NAMES_COUNT", path, count=len(node.names), needed=needed)
        return Ordered(Opaque(node.path))
    ordered = Ordered(
        BoundRead(node.table, node.names, node.types, node.path)
        if node.rows is None
        else _rows(node.rows, node, context)
    )
    if node.filter is not None:
        ordered = _filtered(ordered, node.filter, node.path, context)
    ordered = _emit(ordered, node.projection, f"{node.path}.projection", context)
    return _emit(ordered, node.emit, node.path, context)


def _kept_types(node: model.Read, context: Context) -> Schema:
    """The column types with the digits of a second that are kept; nothing is said of columns that are masked out."""
    used = range(len(node.types)) if node.projection is None else node.projection
    wanted = {*used, *columns_read(node.filter)}
    path = f"{node.path}.base_schema"
    return tuple(context.kept(t, path, said=o not in wanted) for o, t in enumerate(node.types))


def _rows(
    rows: tuple[tuple[model.Expression, ...], ...], node: model.Read, context: Context
) -> Bound:
    if not all(context.check_column(t, f"{node.path}.base_schema") for t in node.types):
        return Opaque(node.path)
    bound: list[tuple[Expr, ...]] = []
    for row in rows:
        if len(row) != len(node.types):
            context.report("ROW_WIDTH", node.path, count=len(row), columns=len(node.types))
            continue
        values = (_value(e, t, context) for e, t in zip(row, node.types, strict=True))
        bound.append(tuple(values))
    return BoundRows(node.types, tuple(bound), node.path)


def _value(node: model.Expression, type_: Type, context: Context) -> Expr:
    value = bind_expression(node, (), context)
    plain = value.input if isinstance(value, Conversion) else value
    if not isinstance(plain, Constant) or not can_cast(value.type, type_):
        context.report("ROW_NOT_CONSTANT", node.path)
        return unknown()
    return convert(value, type_)


# --- linear relations --------------------------------------------------------------------------


def _filter(node: model.Filter, context: Context) -> Ordered:
    source = bind_relation(node.input, context)
    ordered = _filtered(source, node.condition, node.path, context)
    return _emit(ordered, node.emit, node.path, context)


def _filtered(
    ordered: Ordered, condition: model.Expression, path: str, context: Context
) -> Ordered:
    source = ordered.relation
    bound = bind_condition(condition, _schema(source), context, "FILTER_NOT_BOOLEAN")
    if isinstance(source, Opaque):
        return ordered
    return replace(ordered, relation=BoundFilter(source, bound, source.types, path))


def _project(node: model.Project, context: Context) -> Ordered:
    source = bind_relation(node.input, context)
    types = _schema(source.relation)
    expressions = tuple(bind_expression(e, types, context) for e in node.expressions)
    if types is None:
        return source
    if node.emit is None:
        if context.profile.project_replaces:
            producer = context.profile.name
            context.report("PROJECT_REPLACES_COLUMNS", node.path, producer=producer)
            return projected(source, expressions, node.path)
        return projected(source, (*columns(types), *expressions), node.path)
    picked = _pick((*columns(types), *expressions), node.emit, node.path, context)
    if picked is None:
        return Ordered(Opaque(node.path))
    return projected(source, picked, node.path)


def _union(node: model.Union, context: Context) -> Ordered:
    inputs = tuple(drop_order(bind_relation(i, context), context) for i in node.inputs)
    known = [i for i in inputs if not isinstance(i, Opaque)]
    if len(known) < len(inputs) or not known:
        return Ordered(Opaque(node.path))
    first = known[0].types
    fits = True
    for position, relation in enumerate(known):
        if not _alike(first, relation.types):
            fits = False
            context.report(
                "UNION_TYPES_DIFFER", node.path,
                input=position, other=listed(relation.types), first=listed(first),
            )  # fmt: skip
    if not fits:
        return Ordered(Opaque(node.path))
    types = tuple(
        t.as_nullable(any(r.types[i].nullable for r in known)) for i, t in enumerate(first)
    )
    return _emit(Ordered(BoundUnion(tuple(known), types, node.path)), node.emit, node.path, context)


def _alike(left: Schema, right: Schema) -> bool:
    return len(left) == len(right) and all(a.same_kind(b) for a, b in zip(left, right, strict=True))


def _sort(node: model.Sort, context: Context) -> Ordered:
    source = drop_order(bind_relation(node.input, context), context)
    schema = _schema(source)
    keys = []
    for field in node.sorts:
        bound = bind_expression(field.expression, schema, context)
        keys.append(_order_key(field, bound))
    ordered = Ordered(source, Order(tuple(keys), node.path))
    return _emit(ordered, node.emit, node.path, context)


def _order_key(field: model.SortField, bound: Expr) -> OrderKey:
    if isinstance(bound, Column):
        return OrderKey(field, bound.ordinal)
    return OrderKey(field, None, "" if is_unknown(bound) else "SORT_KEY_NOT_A_COLUMN")


def _aggregate(node: model.Aggregate, context: Context) -> Ordered:
    source = drop_order(bind_relation(node.input, context), context)
    ordered = Ordered(bind_aggregate(node, source, context))
    return _emit(ordered, node.emit, node.path, context)


def _unsupported(node: model.Unsupported, _context: Context) -> Ordered:
    return Ordered(Opaque(node.path))


_BINDERS: dict[type, Callable[[Any, Context], Ordered]] = {
    model.Read: _read,
    model.Filter: _filter,
    model.Project: _project,
    model.Union: _union,
    model.Sort: _sort,
    model.Aggregate: _aggregate,
    model.Unsupported: _unsupported,
}
