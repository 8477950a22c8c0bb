"""Read where the references of expressions lead: steps into a row, and the row of an outer query."""

from __future__ import annotations

from typing import Any

from substrait_agg.plan.messages.node import MessageNode, children
from substrait_agg.plan.model import Literal


def read_steps(segment: MessageNode | None) -> tuple[Any, ...] | None:
    """Return the steps from the outermost to the innermost part; None if a part is missing."""
    steps: list[Any] = []
    while segment is not None:
        kind = segment.which("reference_type")
        body = segment.message(kind) if kind else None
        if body is None:
            return None
        if kind == "map_key":
            key = body.message("map_key")
            if key is None or not isinstance(key.result, Literal):
                return None
            steps.append(("key", key.result))
        elif kind == "list_element":
            steps.append(("element", body.number("offset")))
        else:
            steps.append(body.number("field"))
        segment = body.message("child")
    return tuple(steps)


def find_steps_out(node: MessageNode, reference: MessageNode) -> int | None:
    """Return how many subqueries further out the row is that an outer reference reads.

    It is 0 if no relation around the reference has its anchor, and None if it has neither a number
    nor an anchor.

    Args:
        node: the expression.
        reference: the reference in it.
    """
    outer: MessageNode = reference.values["outer_reference"]
    way = outer.which("outer_reference_type")
    if way is None:
        return None
    reference.message("outer_reference")
    number = outer.number(way)
    return number if way == "steps_out" else _steps_to_anchor(node, number)


def _steps_to_anchor(node: MessageNode, anchor: int) -> int:
    """Return how many subqueries there are between a message and the relation with an anchor.

    It is the relation that has the subquery in an expression, or its only input: the expression
    reads the rows of this input.
    """
    steps, is_next = 0, False
    around: MessageNode | None = node
    while around is not None:
        if around.shape.name == "Expression.Subquery":
            steps, is_next = steps + 1, True
        elif around.shape.name == "Rel" and is_next:
            is_next = False
            read = [body.values.get("input") for body in children(around)]
            sources = [source for source in read if isinstance(source, MessageNode)]
            if any(_anchor_of(relation) == anchor for relation in (around, *sources)):
                return steps
        around = around.parent
    return 0


def _anchor_of(relation: MessageNode) -> int | None:
    common = (body.values.get("common") for body in children(relation))
    return next((c.values.get("rel_anchor") for c in common if isinstance(c, MessageNode)), None)
