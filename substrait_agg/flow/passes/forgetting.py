"""Select the operators that evict idle groups."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from substrait_agg.flow.graph.graph import Forget, OperatorOrigin
from substrait_agg.flow.graph.nodes import Flow, Node


def with_forgetting(flow: Flow, forget: Forget, *, timed: bool) -> Flow:
    """Return the flow in which all operators that can evict idle groups do so.

    Args:
        flow: with its event keys.
        forget: what happens to the rows of such groups in the view; empty if none are evicted.
        timed: whether rows carry their event time; otherwise groups are idle by processing time.
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
    """Return whether an operator evicts groups.

    Operators above it follow through its changes.
    """
    fed = any(
        isinstance(b.origin, OperatorOrigin) and b.origin.operator not in sources
        for b in node.branches
    )
    return node.can_forget and not fed
