"""Aggregate relations: grouping sets, keys, measures."""

from __future__ import annotations

from dataclasses import replace

from substrait_agg.bind.bound import BoundAggregate, BoundMeasure, BoundRelation, Expr
from substrait_agg.bind.context import (
    Bound,
    Context,
    GroupingInfo,
    Opaque,
    Schema,
    is_keyable,
    is_unknown,
)
from substrait_agg.bind.expressions import bind_expression
from substrait_agg.bind.grouping import (
    INDEX_TYPE,
    Sets,
    check_sets,
    key_types,
    merged_keys,
    with_bitmask,
)
from substrait_agg.bind.rules import bind_measure
from substrait_agg.plan import model


def bind_aggregate(node: model.Aggregate, source: Bound, context: Context) -> Bound:
    """The aggregate over its bound input, or an opaque relation once its problems have been reported.

    Output columns: all grouping expressions in declaration order, the measures, and with more than one grouping set the
    index of the set (Substrait specification, logical relations, "Aggregate Operation"). Plans of a producer that
    addresses another layout get a projection to that one.
    """
    schema = None if isinstance(source, Opaque) else source.types
    sets = check_sets(node, context)
    keys = tuple(_key(e, schema, context) for e in node.grouping_expressions)
    bitmask = context.profile.grouping_bitmask and not is_unknown(*keys)
    if bitmask and sets is not None:
        keys, sets = merged_keys(keys, sets)
    info = GroupingInfo(keys, sets or ())
    measures = tuple(_measure(m, schema, info, context) for m in node.measures)
    kept = tuple(m for m in measures if m is not None)
    if isinstance(source, Opaque) or sets is None or len(kept) < len(measures):
        return Opaque(node.path)
    made = _aggregate(source, keys, kept, sets, node.path)
    if bitmask and (made.sets or id(node) in context.wider):
        return with_bitmask(made)
    return made


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
    node: model.Measure, schema: Schema | None, grouping: GroupingInfo, context: Context
) -> BoundMeasure | None:
    if node.output_type is not None:
        node = replace(node, output_type=context.kept(node.output_type, node.path))
    return bind_measure(node, schema, context, grouping)


def _key(node: model.Expression, schema: Schema | None, context: Context) -> Expr:
    key = bind_expression(node, schema, context)
    if not is_keyable(key.type):
        context.report("KEY_TYPE_NOT_SUPPORTED", node.path, type=key.type)
    return key
