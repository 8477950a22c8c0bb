"""Bind aggregate relations: grouping sets, keys and measures."""

from __future__ import annotations

from dataclasses import replace

from substrait_agg.bind.aggregates.grouping_sets import (
    INDEX_TYPE,
    Sets,
    check_sets,
    key_types,
    merged_keys,
    report_repeated,
    with_bitmask,
)
from substrait_agg.bind.aggregates.rules import bind_measure
from substrait_agg.bind.aggregates.states import compose_states
from substrait_agg.bind.bound import BoundAggregate, BoundMeasure, BoundRelation, BoundRows, Expr
from substrait_agg.bind.context import (
    UNKNOWN,
    BindContext,
    Bound,
    GroupingInfo,
    Opaque,
    Schema,
    is_keyable,
    is_unknown,
    unknown,
)
from substrait_agg.bind.expressions.binder import bind_expression
from substrait_agg.bind.expressions.windows import is_window_key, move_windows_up
from substrait_agg.bind.places import expression_place
from substrait_agg.bind.subqueries.joins import BoundSubquery, with_subqueries
from substrait_agg.functions.signatures.derive import FLOATS
from substrait_agg.plan import model


def bind_aggregate(node: model.AggregateRel, source: Bound, context: BindContext) -> Bound:
    """Bind an aggregate over its bound input.

    Problems are reported, and their columns have unknown type.

    Output columns: all grouping expressions in declaration order, the measures, and with more than
    one grouping set the index of the set (Substrait specification, logical relations, "Aggregate
    Operation"). If the producer addresses another layout, a projection to that layout is added.
    """
    schema = None if isinstance(source, Opaque) else source.types
    sets = check_sets(node, context)
    added: list[BoundSubquery] = []
    inside = context.adding(added)
    keys = tuple(_key(e, schema, inside) for e in node.grouping_expressions)
    bitmask = context.profile.grouping_bitmask and not is_unknown(*keys)
    if not context.profile.grouping_bitmask:
        report_repeated(node, keys, sets, context)
    _advise(node, keys, source, context)
    if bitmask and sets is not None:
        keys, sets = merged_keys(keys, sets)
    info = GroupingInfo(keys, sets or ())
    measures = tuple(_measure(m, schema, info, inside) for m in node.measures)
    _report_equal(measures, context)
    read = frozenset(o for subquery in added for o in subquery.reads)
    source, keys = move_windows_up(node, source, keys, (measures, read), context)
    source = with_subqueries(source, added, node.path, context)
    if sets is None or _layout_unknown(node, keys, sets, context):
        return Opaque(node.path)
    # Keep the columns of parts with reported problems, so that their readers can be checked.
    below = BoundRows((), (), node.path) if isinstance(source, Opaque) else source
    bound_measures = tuple(m or _stand_in(n) for m, n in zip(measures, node.measures, strict=True))
    aggregate = _aggregate(below, keys, bound_measures, sets, node.path)
    composed = compose_states(aggregate)
    if bitmask and (aggregate.sets or id(node) in context.wider):
        context.report(
            "GROUPING_LAYOUT", node.path,
            producer=context.profile.name, keys=len(keys), measures=len(bound_measures),
        )  # fmt: skip
        return replace(with_bitmask(aggregate), input=composed)
    return composed


def _layout_unknown(
    node: model.AggregateRel, keys: tuple[Expr, ...], sets: Sets, context: BindContext
) -> bool:
    """Return whether the columns depend on which keys are equal while some key is unknown."""
    distinct = context.profile.grouping_bitmask and (len(sets) > 1 or id(node) in context.wider)
    return distinct and is_unknown(*keys)


def _stand_in(node: model.MeasureCall) -> BoundMeasure:
    """Return a column of unknown type for a measure with a reported problem."""
    return BoundMeasure("count", (), None, UNKNOWN, node.function.name, node.path)


def _aggregate(
    source: BoundRelation,
    keys: tuple[Expr, ...],
    measures: tuple[BoundMeasure, ...],
    sets: Sets,
    path: str,
) -> BoundAggregate:
    several = len(sets) > 1
    types: Schema = (*key_types(keys, sets), *(m.type for m in measures))
    index = (INDEX_TYPE,) if several else ()
    return BoundAggregate(source, keys, measures, (*types, *index), path, sets if several else ())


def _measure(
    node: model.MeasureCall, schema: Schema | None, grouping: GroupingInfo, context: BindContext
) -> BoundMeasure | None:
    if node.output_type is not None:
        path = f"{node.path}.output_type"
        node = replace(node, output_type=context.limit_time_digits(node.output_type, path))
    return bind_measure(node, schema, context, grouping)


def _key(node: model.Expression, schema: Schema | None, context: BindContext) -> Expr:
    key = bind_expression(node, schema, context)
    if not is_keyable(key.type):
        context.report("KEY_TYPE_NOT_SUPPORTED", expression_place(node), type=key.type)
        return unknown()
    return key


def _advise(
    node: model.AggregateRel, keys: tuple[Expr, ...], source: Bound, context: BindContext
) -> None:
    """Report keys whose equality may surprise, each key once."""
    seen: set[Expr] = set()
    for written, key in zip(node.grouping_expressions, keys, strict=True):
        if is_window_key(key, source):
            continue  # no part of a window is null
        code = _SURPRISING.get(key.type.kind)
        if code is not None and key not in seen and is_keyable(key.type):
            seen.add(key)
            context.report(code, expression_place(written), type=key.type)


def _report_equal(measures: tuple[BoundMeasure | None, ...], context: BindContext) -> None:
    """Report measures that compute the same as an earlier measure."""
    first: dict[BoundMeasure, int] = {}
    for ordinal, measure in enumerate(measures):
        if measure is None:
            continue
        other = first.setdefault(replace(measure, path="", name=""), ordinal)
        if other != ordinal:
            path = measure.path.removesuffix(".measure")
            context.report("MEASURE_DUPLICATE", path, name=measure.name, other=other)


_SURPRISING = {
    **dict.fromkeys(FLOATS, "KEY_TYPE_FLOAT"),
    **dict.fromkeys(("list", "struct", "map"), "KEY_TYPE_NESTED"),
}
"""Type kind of a key -> code of the problem to report."""
