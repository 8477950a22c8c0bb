"""Which operators forget groups that were idle for long."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from substrait_agg.flow.graph.graph import Forget, OperatorOrigin
from substrait_agg.flow.graph.nodes import Flow, Node


def with_forgetting(flow: Flow, forget: Forget, *, timed: bool) -> Flow:
    """Return the flow whose operators forget idle groups, those that can.

    Args:
        flow: with its event keys.
        forget: what becomes of the rows shown of such groups; empty where none are forgotten.
        timed: rows carry their event time; else groups are idle by processing time.
    """
    if not forget:
        return flow
    sources = {node.id for node in flow.operators if node.is_source}
    operators = (
        replace(node, forget=forget, timed=timed) if _forgets(node, sources) else node
        for node in flow.operators
    )
    return replace(flow, operators=tuple(operators))


def _forgets(node: Node, sources: Collection[int]) -> bool:
    """Whether groups of an operator are forgotten: the operators above it follow by its changes."""
    fed = any(
        isinstance(b.origin, OperatorOrigin) and b.origin.operator not in sources
        for b in node.branches
    )
    return node.can_forget and not fed
