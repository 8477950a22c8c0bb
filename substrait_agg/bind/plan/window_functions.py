"""Bind window functions: values of a row that are computed from the rows of its partition."""

from __future__ import annotations

from dataclasses import replace

from substrait_agg.bind.aggregates.order import bind_order
from substrait_agg.bind.aggregates.rules import PARTIAL, bind_measure
from substrait_agg.bind.bound import Column, Expr
from substrait_agg.bind.context import BindContext, Schema, is_keyable, is_unknown, unknown
from substrait_agg.bind.expressions.binder import bind_expression
from substrait_agg.bind.expressions.function_names import check_declared
from substrait_agg.bind.expressions.options import choose_options
from substrait_agg.bind.expressions.signatures import check_declaration
from substrait_agg.bind.joins.keys import is_comparable
from substrait_agg.bind.places import expression_place
from substrait_agg.bind.plan.window_relations import BoundWindow
from substrait_agg.functions.aggregates.catalogue import (
    RANKINGS,
    STANDARD_URNS,
    WINDOW_FUNCTIONS,
    find,
)
from substrait_agg.functions.aggregates.parts import ARITHMETIC
from substrait_agg.functions.aggregates.types import ORDERED
from substrait_agg.functions.signatures.declarations import Section, declarations
from substrait_agg.plan import model
from substrait_agg.plan.types import Type


def bind_window(node: model.WindowCall, schema: Schema | None, context: BindContext) -> Expr:
    """Return the value of a window function: a column that a relation below adds."""
    added, context.added = context.added, None  # there is no window function within another
    window = _bound(node, schema, context)
    context.added = added
    if added is None or context.parameters:
        context.report("WINDOW_FUNCTION_MISPLACED", node.path, name=_name(node))
        return unknown()
    if window is None or schema is None:
        return unknown()
    added.append(window)
    return Column(window.type, len(schema) + len(added) - 1)


def _bound(
    node: model.WindowCall, schema: Schema | None, context: BindContext
) -> BoundWindow | None:
    partitions = tuple(_partition(e, schema, context) for e in node.partitions)
    order = bind_order(node.call, schema, context)
    for sort, place in zip(order.keys, order.places, strict=True):
        kind = sort.expression.type.kind
        if kind not in (*ORDERED, "unknown"):
            context.report(
                "ORDER_KEY_NOT_SUPPORTED", place, name=_name(node), type=sort.expression.type
            )
    window = (_ranking if _is_ranking(node, context) else _measure)(node, schema, context)
    if window is None or not order.known or is_unknown(*partitions):
        return None
    if window.function and not order.keys:
        context.report("WINDOW_WITHOUT_SORT", node.call.path, name=_name(node))
    return replace(window, partitions=tuple(dict.fromkeys(partitions)), sorts=order.keys)


def _name(node: model.WindowCall) -> str:
    return node.call.function.name or node.call.function.declared


def _partition(node: model.Expression, schema: Schema | None, context: BindContext) -> Expr:
    key = bind_expression(node, schema, context)
    if not is_unknown(key) and not (is_keyable(key.type) and is_comparable(key.type)):
        context.report("KEY_TYPE_NOT_SUPPORTED", expression_place(node), type=key.type)
        return unknown()
    return key


def _is_ranking(node: model.WindowCall, context: BindContext) -> bool:
    """Return whether a function is a window function only, and report one that is not supported."""
    name = node.call.function.name
    if name in WINDOW_FUNCTIONS and name not in RANKINGS:
        context.report(
            "WINDOW_FUNCTION_NOT_SUPPORTED", node.call.path,
            name=name, supported=", ".join(RANKINGS),
        )  # fmt: skip
    return name in WINDOW_FUNCTIONS


def _ranking(
    node: model.WindowCall, _schema: Schema | None, context: BindContext
) -> BoundWindow | None:
    """Bind a function of the position of a row, for which the frame has no meaning."""
    call, name, path = node.call, _name(node), node.call.path
    if name not in RANKINGS or not check_declared(call.function, path, context):
        return None
    urn = call.function.urn
    if urn in STANDARD_URNS and urn != ARITHMETIC:
        place = call.function.path or path
        context.report("FUNCTION_URN_DIFFERS", place, name=name, urn=urn, expected=ARITHMETIC)
    else:
        check_declaration(call.function, "window_functions", path, context)
    if call.arguments:
        context.report(
            "ARGUMENT_COUNT", f"{path}.arguments",
            function=name, needed="no arguments", takes="no arguments", count=len(call.arguments),
        )  # fmt: skip
    choose_options(name, call.options, {}, context, path)
    if call.phase in PARTIAL:
        context.report("PHASE_NOT_SUPPORTED", f"{path}.phase", name=name, phase=call.phase.upper())
    if call.invocation == "distinct":
        reason = "it has no argument whose equal values could count once"
        context.report("DISTINCT_NOT_SUPPORTED", f"{path}.invocation", name=name, reason=reason)
    return BoundWindow((), (), _number_type(node, context), node.path, name)


def _number_type(node: model.WindowCall, context: BindContext) -> Type:
    """Return the type of positions: the declared one, or that of the producer."""
    declared, path = node.call.output_type, f"{node.call.path}.output_type"
    kind = "u64" if context.profile.derivation == "arrow" else "i64"
    derived = Type(kind, nullable=False)
    if declared is None:
        context.report("OUTPUT_TYPE_MISSING", path, name=_name(node), type=derived)
        return derived
    if declared.kind not in ("i64", "u64"):
        context.report(
            "OUTPUT_TYPE_NOT_SUPPORTED", path,
            name=_name(node), argument="rows", declared=declared, derived=derived,
        )  # fmt: skip
    return declared


def _measure(
    node: model.WindowCall, schema: Schema | None, context: BindContext
) -> BoundWindow | None:
    """Bind an aggregate function over all rows of a partition."""
    if not _whole_partition(node) and not node.has_distance:
        context.report(
            "WINDOW_FRAME_NOT_SUPPORTED", node.call.path, name=_name(node), frame=node.frame
        )
    entry = find(node.call.function.name)
    ordered = entry is not None and entry[0].order_by.handling == "honoured"
    call = node.call if ordered else replace(node.call, sorts=())
    declared = node.call.function.name in declarations(ARITHMETIC, "window_functions")
    section: Section = "window_functions" if declared else "aggregate_functions"
    measure = bind_measure(call, schema, context, section=section)
    if measure is None:
        return None
    return BoundWindow((), (), measure.type, node.path, measure=measure)


def _whole_partition(node: model.WindowCall) -> bool:
    """Return whether the frame of every row has the same result as its whole partition.

    Without an order all rows are peers, and a frame by range begins with the first peer and ends
    with the last one. The first value of a partition is that of every frame from its beginning.
    """
    peers = not node.call.sorts and node.bounds_type == "range"
    lower = ("missing", "unbounded", *(("current_row",) if peers else ()))
    upper = (*lower, "current_row") if _takes_first(node) else lower
    return node.lower in lower and node.upper in upper


def _takes_first(node: model.WindowCall) -> bool:
    return node.call.function.name == "first_value" and node.lower in ("missing", "unbounded")
