"""Bind relations: derive schemas bottom-up, apply emit and projection masks, track sort orders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

from substrait_agg.bind.aggregates.binder import bind_aggregate
from substrait_agg.bind.aggregates.grouping_sets import columns_read, with_repeated_keys
from substrait_agg.bind.bound import (
    BoundRead,
    BoundRecursiveRows,
    BoundRelation,
    BoundRows,
    BoundSetOperation,
    BoundUnion,
    BoundUnnest,
    Call,
    Column,
    Expr,
)
from substrait_agg.bind.context import (
    BindContext,
    Bound,
    Opaque,
    Schema,
    columns,
    is_keyable,
    list_types,
    schema_of,
    unknown,
)
from substrait_agg.bind.expressions.binder import (
    bind_condition,
    bind_expression,
    bind_projected,
    constant_in,
)
from substrait_agg.bind.expressions.function_names import check_declared, check_field_names
from substrait_agg.bind.expressions.spark_calls import is_recursion, is_unnest
from substrait_agg.bind.plan.fetch import (
    Ordered,
    RelationOrder,
    bind_fetch,
    drop_order,
    order_key,
    project_order,
)
from substrait_agg.bind.plan.fingerprint import canonical, digest
from substrait_agg.bind.plan.grouping_index import keys_by_column
from substrait_agg.bind.plan.joins import bind_join, check_post_filter
from substrait_agg.bind.plan.virtual_tables import bind_rows
from substrait_agg.bind.plan.window_relations import BoundWindow, with_values
from substrait_agg.bind.plan_size import MAX_SETS, check_width, too_large
from substrait_agg.bind.profiles import STANDARD
from substrait_agg.bind.readings import repeats_key
from substrait_agg.bind.recursion import RecursionNotSupportedError, make_recursion
from substrait_agg.bind.rewrite import renumber
from substrait_agg.bind.subqueries.decorrelate import NotDecorrelatedError
from substrait_agg.bind.subqueries.joins import BoundSubquery, filter_by, with_subqueries
from substrait_agg.functions.signatures.derive import widen
from substrait_agg.functions.spark_sql import RECURSION_TABLE
from substrait_agg.plan import model
from substrait_agg.plan.types import Type, names_by_column, names_width
from substrait_agg.problems import Problems

_WIDE = (
    "expressions",
    "functions",
    "measures",
    "grouping_expressions",
    "emit",
    "projection",
    "sorts",
    "keys",
)
"""Attributes of decoded relations that define, name or compare columns."""


def bind_relation(node: model.Relation, context: BindContext) -> Ordered:
    """Bind a relation after its inputs, so that problems come in the order of the data."""
    if id(node) not in context.bound:
        _check_size(node)
        bound = _BINDERS[type(node)](node, context)
        if not isinstance(bound.relation, Opaque):
            context.size_limiter.add(bound.relation)
        context.bound[id(node)] = bound
    ordered: Ordered = context.bound[id(node)]
    return ordered


def _check_size(node: Any) -> None:
    """Refuse a decoded relation that is too wide, before it is bound."""
    widest = max(len(getattr(node, name, None) or ()) for name in _WIDE)
    check_width(max(widest, sum(map(names_width, getattr(node, "types", ())))), node.path)
    if len(getattr(node, "groupings", ())) > MAX_SETS:
        raise too_large(node.path, f"{MAX_SETS} grouping sets of one aggregate")


# --- output mapping ----------------------------------------------------------------------------


def _emit(
    ordered: Ordered, emit: tuple[int, ...] | None, path: str, context: BindContext
) -> Ordered:
    """Apply the output mapping of the relation at `path`."""
    types = schema_of(ordered.relation)
    if emit is None or types is None:
        return ordered
    return project_order(ordered, _map_output(columns(types), emit, path, context), path)


def _map_output(
    expressions: tuple[Expr, ...], emit: tuple[int, ...], path: str, context: BindContext
) -> tuple[Expr, ...]:
    """Return the expressions that the output mapping of the relation at `path` selects."""
    place = f"{path}.common.emit.output_mapping"
    return _pick(expressions, emit, "the output mapping", place, context)


def _pick(
    expressions: tuple[Expr, ...],
    ordinals: tuple[int, ...],
    what: str,
    path: str,
    context: BindContext,
) -> tuple[Expr, ...]:
    """Return the expressions at the ordinals; report an invalid one and use one of unknown type."""
    selected: list[Expr] = []
    count = len(expressions)
    for place, ordinal in enumerate(ordinals):
        inside = 0 <= ordinal < count
        selected.append(expressions[ordinal] if inside else unknown())
        if not inside:
            context.report(
                "EMIT_OUT_OF_RANGE", f"{path}[{place}]",
                what=what, ordinal=ordinal, count=count, last=max(count - 1, 0),
            )  # fmt: skip
    return tuple(selected)


# --- reads -------------------------------------------------------------------------------------


def _read(node: model.ReadRel, context: BindContext) -> Ordered:
    if node.table and node.names and not node.types and node.rows is None:
        schema = context.source_schemas.get((node.table, node.names))
        if schema is None:
            table, path = ".".join(node.table), f"{node.path}.base_schema"
            context.report("SCHEMA_TYPES_MISSING", path, table=table, count=len(node.names))
            return Ordered(Opaque(node.path))
        fields = tuple(c[1:] for c in names_by_column(node.names, schema[1]))
        node = replace(node, names=schema[0], types=schema[1], fields=fields)
    node = replace(node, types=_limited_types(node, context))
    if node.files:
        files = ", ".join(file.uri for file in node.files)
        context.report("FILES_NEED_SOURCE", node.path, table=".".join(node.table), files=files)
    if not node.types and context.reported_at(node.path):
        return Ordered(Opaque(node.path))  # the read has no schema
    nameless = node.rows is None and not node.files and not all(node.table or ("",))
    if nameless and not context.reported_at(f"{node.path}.local_files"):
        context.report("TABLE_NAME_MISSING", f"{node.path}.named_table.names")
    check_field_names(node.names, f"{node.path}.base_schema.names", context)
    ordered = Ordered(_source(node, context))
    _check_best_effort(node, ordered.relation, context)
    if node.filter is not None:
        ordered = _filter_rows(ordered, node.filter, node.path, context)
    return _emit(_mask(ordered, node, context), node.emit, node.path, context)


def _check_best_effort(node: model.ReadRel, source: Bound, context: BindContext) -> None:
    """Report invalid references in the best effort filter. Other problems in it do not matter."""
    if node.best_effort_filter is None:
        return
    separate = BindContext(Problems(context.problems.mode), context.profile)
    bind_condition(node.best_effort_filter, schema_of(source), separate)
    for problem in separate.problems.items:
        if problem.code in _INVALID_ANYWHERE:
            context.problems.copy(problem)


_INVALID_ANYWHERE = frozenset(
    {"FIELD_OUT_OF_RANGE", "NESTED_STEP_INVALID", "FILTER_NOT_BOOLEAN", "FUNCTION_UNDECLARED"}
)
"""Problems that matter in an expression that is not computed: invalid references and types."""


def _source(node: model.ReadRel, context: BindContext) -> Bound:
    """Return the table or the rows, before filter, mask and output mapping."""
    if node.rows is not None:
        return bind_rows(node.rows, node, context)
    if len(node.names) == len(node.types) and node.table[:-1] == RECURSION_TABLE:
        return BoundRecursiveRows(node.table[-1], node.types, node.path)
    if len(node.names) == len(node.types):
        return BoundRead(
            node.table, node.names, node.types, node.path, node.fields, files=node.files
        )
    needed = sum(map(names_width, node.types))
    path = f"{node.path}.base_schema"
    context.report("NAMES_COUNT", path, count=len(node.names), needed=needed)
    return BoundRows(node.types, (), node.path)


def _mask(ordered: Ordered, node: model.ReadRel, context: BindContext) -> Ordered:
    """Apply the projection mask of the read."""
    types = schema_of(ordered.relation)
    if node.projection is None or types is None:
        return ordered
    path = f"{node.path}.projection.select.struct_items"
    selected = _pick(columns(types), node.projection, "the projection mask", path, context)
    return project_order(ordered, selected, f"{node.path}.projection")


def _limited_types(node: model.ReadRel, context: BindContext) -> Schema:
    """Return the column types with at most `MAX_TIME_DIGITS` digits of a second.

    Lost digits of columns that are masked out are not reported.
    """
    used = range(len(node.types)) if node.projection is None else node.projection
    read = {*used, *columns_read(node.filter)}
    path = f"{node.path}.base_schema"
    return tuple(
        context.limit_time_digits(t, path, said=o not in read) for o, t in enumerate(node.types)
    )


# --- linear relations --------------------------------------------------------------------------


def _filter(node: model.FilterRel, context: BindContext) -> Ordered:
    source = bind_relation(node.input, context)
    ordered = _filter_rows(source, node.condition, node.path, context)
    return _emit(ordered, node.emit, node.path, context)


def _filter_rows(
    ordered: Ordered, condition: model.Expression, path: str, context: BindContext
) -> Ordered:
    source = ordered.relation
    added: list[BoundSubquery] = []
    bound = bind_condition(condition, schema_of(source), context.adding(added))
    constant = constant_in(bound)
    if constant is not None:
        effect = "every row passes" if constant.value else "no row passes"
        value = "null" if constant.value is None else str(constant.value).lower()
        context.report("FILTER_CONSTANT", condition.path, value=value, effect=effect)
    if isinstance(source, Opaque):
        return ordered
    return Ordered(filter_by(source, bound, added, (path, condition.path), context), ordered.order)


def _project(node: model.ProjectRel, context: BindContext) -> Ordered:
    source = bind_relation(node.input, context)
    types = schema_of(source.relation)
    if not node.expressions:
        context.report("PROJECT_EXPRESSIONS_MISSING", node.path)
    bound = _bind_expressions(node.expressions, source, node.path, context)
    if types is None or bound is None:
        return source if types is None else Ordered(Opaque(node.path))
    source, expressions = bound
    if node.emit is None and context.reading.project_replaces:
        producer = context.profile.name
        context.report("PROJECT_REPLACES_COLUMNS", node.path, producer=producer)
        return project_order(source, expressions, node.path)
    return _extend(source, types, expressions, node, context)


def _window(node: model.WindowRel, context: BindContext) -> Ordered:
    source = bind_relation(node.input, context)
    types = schema_of(source.relation)
    bound = _bind_expressions(node.functions, source, node.path, context)
    if types is None or bound is None:
        return source if types is None else Ordered(Opaque(node.path))
    source, values = bound
    return _extend(source, types, values, node, context)


def _extend(
    source: Ordered,
    types: Schema,
    expressions: tuple[Expr, ...],
    node: model.ProjectRel | model.WindowRel,
    context: BindContext,
) -> Ordered:
    """Return the columns of the input, then those of the expressions, or those that are emitted."""
    output = (*columns(types), *expressions)
    if node.emit is not None:
        output = _map_output(output, node.emit, node.path, context)
    return project_order(source, output, node.path)


def _bind_expressions(
    written: tuple[model.Expression, ...], source: Ordered, path: str, context: BindContext
) -> tuple[Ordered, tuple[Expr, ...]] | None:
    """Bind expressions over a relation.

    Returns:
        The relation with the values of their subqueries and window functions as further columns,
        and the expressions over it; None if a subquery cannot be computed.
    """
    types = schema_of(source.relation)
    added: list[BoundSubquery | BoundWindow] = []
    inside = context.adding(added, windows=True)
    expressions = tuple(bind_projected(e, types, inside) for e in written)
    if any(map(is_recursion, expressions)):
        return _with_levels(source, expressions, path, context)
    if added and not isinstance(source.relation, Opaque):
        try:
            relation, places = with_values(source.relation, added, context.same_rows)
        except NotDecorrelatedError as error:
            context.report("SUBQUERY_NOT_SUPPORTED", path, place=str(error))
            return None
        # What was below a projection is not below the joins.
        source = Ordered(relation, source.order)
        expressions = tuple(renumber(e, places) for e in expressions)
    if any(map(is_unnest, expressions)):
        return _with_elements(source, expressions, path, context)
    return source, expressions


def _with_elements(
    source: Ordered, expressions: tuple[Expr, ...], path: str, context: BindContext
) -> tuple[Ordered, tuple[Expr, ...]] | None:
    """Return a row per element of the list of which a projection has the elements as a column."""
    lists = [e for e in expressions if isinstance(e, Call) and is_unnest(e)]
    if len(lists) > 1 or isinstance(source.relation, Opaque):
        reason = "a projection has one list that becomes rows"
        context.report("SPARK_EXPRESSION_INVALID", path, reason=reason)
        return None
    (call,) = lists
    relation, element = source.relation, call.type
    types = (*relation.types, element)
    unnested = BoundUnnest(relation, call.arguments[0], types, path)
    column = Column(element, len(relation.types))
    return Ordered(unnested), tuple(column if e is call else e for e in expressions)


def _with_levels(
    source: Ordered, expressions: tuple[Expr, ...], path: str, context: BindContext
) -> tuple[Ordered, tuple[Expr, ...]] | None:
    """Return the rows of the recursion that a projection makes of a union."""
    if isinstance(source.relation, Opaque):
        return source, expressions
    call = next(e for e in expressions if isinstance(e, Call) and is_recursion(e))
    try:
        identity = digest([canonical(source.relation), canonical(call)])
        recursion = make_recursion(source.relation, call, identity)
    except RecursionNotSupportedError as error:
        context.report("RECURSION_NOT_SUPPORTED", path, reason=str(error))
        return None
    level = columns(recursion.types)[-1]
    return Ordered(recursion), tuple(level if is_recursion(e) else e for e in expressions)


def _set_operation(node: model.SetRel, context: BindContext) -> Ordered:
    if len(node.inputs) == 1:
        united = node.operation in ("union_all", "union_distinct")
        code = "SET_ONE_INPUT" if united else "SET_SECONDARY_MISSING"
        context.report(code, node.path, operation=node.operation.replace("_", " "))
    if node.operation == "minus_multiset":
        context.report("SET_COPIES_UNCLEAR", f"{node.path}.op")
    inputs = tuple(drop_order(bind_relation(i, context), context) for i in node.inputs)
    relations = tuple(i for i in inputs if not isinstance(i, Opaque))
    if len(relations) < len(inputs) or not relations or not _same_columns(node, relations, context):
        return Ordered(Opaque(node.path))
    output = _OUTPUT_TYPES[node.operation]
    types = tuple(output(column) for column in zip(*(r.types for r in relations), strict=True))
    operation: Bound
    if node.operation == "union_all":
        operation = BoundUnion(relations, types, node.path)
    else:
        for type_ in types:
            if not is_keyable(type_):
                context.report("KEY_TYPE_NOT_SUPPORTED", node.path, type=type_)
        operation = BoundSetOperation(node.operation, relations, types, node.path)
    return _emit(Ordered(operation), node.emit, node.path, context)


def _same_columns(
    node: model.SetRel, inputs: Sequence[BoundRelation], context: BindContext
) -> bool:
    """Report the inputs whose column types differ from those of the first one."""
    first = inputs[0].types
    differ = [i for i, relation in enumerate(inputs) if not _alike(first, relation.types)]
    for position in differ:
        context.report(
            "UNION_TYPES_DIFFER", f"{node.path}.inputs[{position}]",
            input=position, other=list_types(inputs[position].types), first=list_types(first),
        )  # fmt: skip
    return not differ


_Column = tuple[Type, ...]
"""The types that a column has in the inputs of a set operation, the primary one first."""


def _of_primary(column: _Column) -> Type:
    return column[0]


def _of_all(column: _Column) -> Type:
    return column[0].as_nullable(all(t.nullable for t in column))


_OUTPUT_TYPES: Mapping[model.SetOperationKind, Callable[[_Column], Type]] = {
    "union_all": partial(reduce, widen),
    "union_distinct": partial(reduce, widen),
    "minus_primary": _of_primary,
    "minus_primary_all": _of_primary,
    "minus_multiset": _of_primary,
    "intersection_primary": lambda column: column[0].as_nullable(
        column[0].nullable and any(t.nullable for t in column[1:])
    ),
    "intersection_multiset": _of_all,
    "intersection_multiset_all": _of_all,
}
"""The type of an output column (specification, Set Operation Types, Output Nullability)."""


def _alike(left: Schema, right: Schema) -> bool:
    return left == right or (len(left) == len(right) and all(map(_same, left, right)))


def _same(left: Type, right: Type) -> bool:
    return left.same_kind(right) or "unknown" in (left.kind, right.kind)


def _sort(node: model.SortRel, context: BindContext) -> Ordered:
    source = drop_order(bind_relation(node.input, context), context)
    ordered = _sort_rows(source, node.sorts, node.path, context)
    return _emit(ordered, node.emit, node.path, context)


def _sort_rows(
    source: Bound, sorts: tuple[model.SortField, ...], path: str, context: BindContext
) -> Ordered:
    """Return the relation in the order of the sort fields of the message at `path`."""
    if not sorts:
        context.report("SORT_KEYS_MISSING", path)
        return Ordered(source)
    keys, types = [], schema_of(source)
    added: list[BoundSubquery] = []
    for field in sorts:
        _check_direction(field, context)
        bound = bind_expression(field.expression, types, context.adding(added))
        keys.append(order_key(field, bound))
    with_keys = with_subqueries(source, added, path, context)
    ordered = Ordered(with_keys, RelationOrder(tuple(keys), path))
    return project_order(ordered, columns(types), path) if added and types is not None else ordered


def _check_direction(field: model.SortField, context: BindContext) -> None:
    """Report a missing direction or a comparison function, also for a sort without effect."""
    if field.direction == "unspecified":
        context.report("SORT_DIRECTION_MISSING", f"{field.path}.direction")
    comparison = field.comparison
    if comparison is None:
        return
    path = f"{field.path}.comparison_function_reference"
    if check_declared(comparison, path, context):
        context.report(
            "COMPARISON_FUNCTION_NOT_SUPPORTED", path, name="the plan", function=comparison.declared
        )


def _join(node: model.JoinRel, context: BindContext) -> Ordered:
    inputs = (bind_relation(side, context) for side in (node.left, node.right))
    if node.form == "merge_join":
        # The algorithm needs sorted inputs; the result does not depend on their order.
        left, right = (ordered.relation for ordered in inputs)
        context.report("MERGE_JOIN_ORDER", node.path)
    else:
        left, right = (drop_order(ordered, context) for ordered in inputs)
    ordered = Ordered(bind_join(node, left, right, context))
    if node.post_filter is not None:
        check_post_filter(node, context)
        ordered = _filter_rows(ordered, node.post_filter, node.path, context)
    return _emit(ordered, node.emit, node.path, context)


def _fetch(node: model.FetchRel, context: BindContext) -> Ordered:
    ordered = bind_relation(node.input, context)
    if node.form == "top_n":
        ordered = _sort_rows(drop_order(ordered, context), node.sorts, node.path, context)
    ordered = bind_fetch(node, ordered, context)
    return _emit(ordered, node.emit, node.path, context)


def _aggregate(node: model.AggregateRel, context: BindContext) -> Ordered:
    source = drop_order(bind_relation(node.input, context), context)
    if context.reading.keys_repeated and repeats_key(node):
        node = with_repeated_keys(node, context)
    ordered = _renumber(node, Ordered(bind_aggregate(node, source, context)), context)
    return _emit(ordered, node.emit, node.path, context)


def _renumber(node: model.AggregateRel, ordered: Ordered, context: BindContext) -> Ordered:
    """Reorder the columns of the aggregate if the plan numbers them against the specification."""
    types = schema_of(ordered.relation)
    if types is None or len(node.groupings) < 2:
        return ordered
    output, count = list(columns(types)), len(node.grouping_expressions)
    width = count + len(node.measures)
    uncounted = id(node) in context.uncounted
    order = None
    # A plan without a producer that does not count the index is treated as a plan of Isthmus.
    by_column = context.profile.keys_by_column or (uncounted and context.profile is STANDARD)
    if by_column and node.emit in (None, tuple(range(width))):
        order = keys_by_column(node)
    if order is not None:
        output[:count] = [output[ordinal] for ordinal in order]
        context.report("GROUPING_KEY_ORDER", node.path, order=", ".join(map(str, order)))
    if uncounted:
        del output[width:]
        context.report("GROUPING_INDEX_NOT_COUNTED", node.path, count=width)
    return project_order(ordered, tuple(output), node.path) if uncounted or order else ordered


def _refuse(node: model.Unsupported, context: BindContext) -> Ordered:
    for inner in node.inputs:
        bind_relation(inner, context)
    for expression in node.expressions:
        bind_expression(expression, None, context)  # the columns of the input are unknown
    return Ordered(Opaque(node.path))


def bind_input(node: model.Relation, context: BindContext) -> Bound:
    """Bind a relation whose order has no effect, such as that of a subquery."""
    return drop_order(bind_relation(node, context), context)


_BINDERS: dict[type, Callable[[Any, BindContext], Ordered]] = {
    model.ReadRel: _read,
    model.FilterRel: _filter,
    model.ProjectRel: _project,
    model.SetRel: _set_operation,
    model.SortRel: _sort,
    model.AggregateRel: _aggregate,
    model.JoinRel: _join,
    model.FetchRel: _fetch,
    model.WindowRel: _window,
    model.Unsupported: _refuse,
}
