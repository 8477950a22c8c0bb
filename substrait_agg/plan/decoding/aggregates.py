"""Read the parts of an ``AggregateRel`` message: groupings of every release, and measures."""

from __future__ import annotations

from typing import Any

from substrait_agg.plan.decoding.context import DecodeContext
from substrait_agg.plan.decoding.expressions import (
    as_expression,
    expressions,
    function_call,
    optional,
    sort_fields,
)
from substrait_agg.plan.messages.node import MessageNode, structure
from substrait_agg.plan.model import NO_FUNCTION, Expression, MeasureCall

Groupings = tuple[tuple[Expression, ...], tuple[tuple[int, ...], ...], bool]
"""Keys, the ordinals of keys per grouping set, and whether the keys are written inside the sets."""


def groupings(node: MessageNode, context: DecodeContext) -> Groupings:
    """Return the grouping expressions, the grouping sets, and whether the expressions are in the sets.

    If expressions are written in both forms, as by DataFusion, the references count.
    """
    keys = expressions(node, "grouping_expressions", context)
    sets = node.messages("groupings")
    inline = [item.messages("grouping_expressions") for item in sets]
    references = [tuple(item.scalars("expression_references")) for item in sets]
    if not any(inline):
        return keys, tuple(references), False
    first = next(item for item, found in zip(sets, inline, strict=True) if found)
    context.report_removed(first, "grouping_expressions", "0.88")
    if not keys and not any(references):
        return _gather(inline, context)
    identities: dict[Any, int] = {}
    numbers = [structure(key, identities) for key in node.messages("grouping_expressions")]
    for item, written, referred in zip(sets, inline, references, strict=True):
        if written and not _same_keys(written, referred, numbers, identities):
            context.report(
                "FIELD_CONFLICT",
                item.at("grouping_expressions"),
                field="grouping_expressions",
                other="expression_references",
            )
        elif written:
            context.drop_copied(item, "grouping_expressions")
    return keys, tuple(references), False


def _same_keys(
    written: list[MessageNode],
    referred: tuple[int, ...],
    keys: list[int],
    identities: dict[Any, int],
) -> bool:
    """Return whether the expressions inside a set are those that it refers to.

    Invalid references are ignored here; they are reported elsewhere.
    """
    return len(written) == len(referred) and all(
        structure(inner, identities) == keys[ordinal]
        for inner, ordinal in zip(written, referred, strict=True)
        if 0 <= ordinal < len(keys)
    )


def _gather(inline: list[list[MessageNode]], context: DecodeContext) -> Groupings:
    """Return the expressions written inside the sets, without duplicates, in order of appearance.

    This is the rule of the release that introduced references (Substrait 0.57.0).
    """
    identities: dict[Any, int] = {}
    ordinals: dict[int, int] = {}
    keys: list[Expression] = []
    sets = []
    for written in inline:
        ordinals_here = []
        for item in written:
            ordinal = ordinals.setdefault(structure(item, identities), len(keys))
            if ordinal == len(keys):
                keys.append(as_expression(item, context))
            ordinals_here.append(ordinal)
        sets.append(tuple(ordinals_here))
    return tuple(keys), tuple(sets), True


def measure(node: MessageNode, context: DecodeContext) -> MeasureCall:
    """Return a measure with all its fields and the path of its ``AggregateFunction``."""
    condition = optional(node, "filter", context)
    body = node.message("measure")
    if body is None:
        context.report_missing(node, "measure")
        return MeasureCall(
            NO_FUNCTION, (), (), None, "unspecified", "unspecified", (), condition, node.path
        )
    return function_call(body, sort_fields(body, context), condition, context)
