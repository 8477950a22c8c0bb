"""The parts of an ``AggregateRel`` message: groupings of every release, and measures."""

from __future__ import annotations

from typing import Any

from substrait_agg.plan.context import Context
from substrait_agg.plan.model import Expression, FunctionName, Measure
from substrait_agg.plan.node import Node, structure
from substrait_agg.plan.read_expressions import (
    arguments,
    as_expression,
    expressions,
    optional,
    options,
    output_type,
    sort_fields,
    word,
)

_PHASES = {
    0: "unspecified",
    1: "initial_to_intermediate",
    2: "intermediate_to_intermediate",
    3: "initial_to_result",
    4: "intermediate_to_result",
}
_INVOCATIONS = {0: "unspecified", 1: "all", 2: "distinct"}

Groupings = tuple[tuple[Expression, ...], tuple[tuple[int, ...], ...]]


def groupings(node: Node, context: Context) -> Groupings:
    """Grouping expressions, and per grouping set the ordinals into them.

    References count where both forms are written, which DataFusion does.
    """
    keys = expressions(node, "grouping_expressions", context)
    sets = node.messages("groupings")
    inline = [item.messages("grouping_expressions") for item in sets]
    references = [tuple(item.scalars("expression_references")) for item in sets]
    if not any(inline):
        return keys, tuple(references)
    first = next(item for item, found in zip(sets, inline, strict=True) if found)
    context.removed(first, "grouping_expressions", "0.88")
    if not keys and not any(references):
        return _gathered(inline, context)
    for item, written, referred in zip(sets, inline, references, strict=True):
        if written and len(written) != len(referred):
            context.report(
                "FIELD_CONFLICT",
                item.at("grouping_expressions"),
                field="grouping_expressions",
                other="expression_references",
            )
    return keys, tuple(references)


def _gathered(inline: list[list[Node]], context: Context) -> Groupings:
    """Expressions written inside the sets: equal messages once, in order of first appearance.

    The rule is that of the release which introduced references (Substrait 0.57.0).
    """
    known: dict[Any, int] = {}
    ordinals: dict[int, int] = {}
    keys: list[Expression] = []
    sets = []
    for written in inline:
        ordinals_here = []
        for item in written:
            ordinal = ordinals.setdefault(structure(item, known), len(keys))
            if ordinal == len(keys):
                keys.append(as_expression(item, context))
            ordinals_here.append(ordinal)
        sets.append(tuple(ordinals_here))
    return tuple(keys), tuple(sets)


def measure(node: Node, context: Context) -> Measure:
    """A measure with every field it carries; its path is that of the ``AggregateFunction`` message."""
    condition = optional(node, "filter", context)
    body = node.message("measure")
    if body is None:
        context.missing(node, "measure")
        nothing = FunctionName("", None, None, "no function", known=False)
        return Measure(nothing, (), (), None, _PHASES[0], _INVOCATIONS[0], (), condition, node.path)
    return Measure(
        function=context.function(body.number("function_reference")),
        arguments=arguments(body, context),
        options=options(body),
        output_type=output_type(body),
        phase=word(body, "phase", _PHASES, context),
        invocation=word(body, "invocation", _INVOCATIONS, context),
        sorts=sort_fields(body, context),
        filter=condition,
        path=body.path,
    )
