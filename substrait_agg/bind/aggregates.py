"""Aggregate relations: the one grouping set, its keys, its measures."""

from __future__ import annotations

from substrait_agg.bind.bound import BoundAggregate, BoundMeasure, Expr
from substrait_agg.bind.context import Bound, Context, Opaque, Schema, is_keyable
from substrait_agg.bind.expressions import bind_expression
from substrait_agg.bind.rules import bind_measure
from substrait_agg.plan import model


def bind_aggregate(node: model.Aggregate, source: Bound, context: Context) -> Bound:
    """The aggregate over its bound input, or an opaque relation once its problems have been reported.

    Output columns: all grouping expressions in declaration order, then the measures
    (Substrait specification, logical relations, "Aggregate Operation").
    """
    schema = None if isinstance(source, Opaque) else source.types
    sets_fit = _check_groupings(node, context)
    keys = tuple(_key(e, schema, context) for e in node.grouping_expressions)
    measures = tuple(bind_measure(m, schema, context) for m in node.measures)
    kept = tuple(m for m in measures if m is not None)
    if isinstance(source, Opaque) or not sets_fit or len(kept) < len(measures):
        return Opaque(node.path)
    return BoundAggregate(source, keys, kept, _types(keys, kept), node.path)


def _types(keys: tuple[Expr, ...], measures: tuple[BoundMeasure, ...]) -> Schema:
    return (*(k.type for k in keys), *(m.type for m in measures))


def _key(node: model.Expression, schema: Schema | None, context: Context) -> Expr:
    key = bind_expression(node, schema, context)
    if not is_keyable(key.type):
        context.report("KEY_TYPE_NOT_SUPPORTED", node.path, type=key.type)
    return key


def _check_groupings(node: model.Aggregate, context: Context) -> bool:
    """Whether there is one grouping set (or none: a global aggregate) that uses every grouping expression."""
    count = len(node.grouping_expressions)
    if not node.measures and not count:
        context.report("AGGREGATE_EMPTY", node.path)
        return False
    if len(node.groupings) > 1:
        context.report(
            "GROUPING_SETS_NOT_SUPPORTED", f"{node.path}.groupings", count=len(node.groupings)
        )
        return False
    used = set(node.groupings[0]) if node.groupings else set()
    outside = sorted(ordinal for ordinal in used if not 0 <= ordinal < count)
    for ordinal in outside:
        context.report(
            "GROUPING_REFERENCE_OUT_OF_RANGE", f"{node.path}.groupings[0]",
            ordinal=ordinal, count=count, last=max(count - 1, 0),
        )  # fmt: skip
    unused = [o for o in range(count) if o not in used]
    for ordinal in unused:
        path = node.grouping_expressions[ordinal].path
        context.report("GROUPING_EXPRESSION_UNUSED", path, ordinal=ordinal)
    return not outside and not unused
