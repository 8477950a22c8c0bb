"""Turn a bound plan into its dataflow with a fixed sequence of passes.

Runs and explanations use the same passes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import reduce

from substrait_agg.bind.bound import BoundPlan
from substrait_agg.bind.plan.views import BoundViews, as_views
from substrait_agg.flow.graph.graph import Forget, OperatorOrigin
from substrait_agg.flow.graph.nodes import Flow, Node
from substrait_agg.flow.passes.event_time import EventColumns, with_event_keys
from substrait_agg.flow.passes.relations import lower_relations
from substrait_agg.flow.passes.request import FlowRequest, Weights
from substrait_agg.flow.passes.static import with_static_ports
from substrait_agg.flow.passes.upserts import Upserts, with_upserts
from substrait_agg.functions.aggregates.accumulators import EarlyRetraction

Pass = Callable[[Flow, FlowRequest], Flow]


def add_upserts(flow: Flow, request: FlowRequest) -> Flow:
    """Put an operator before all others for every table whose source contains upserts."""
    return with_upserts(flow, request.upserts, request.plan.reads)


def add_static_ports(flow: Flow, request: FlowRequest) -> Flow:
    """Mark the ports whose rows all come in the first version."""
    return with_static_ports(flow, request.static, forgets=bool(request.forget))


def add_event_keys(flow: Flow, request: FlowRequest) -> Flow:
    """Set the keys of operators that follow event time."""
    return with_event_keys(flow, request.events)


def add_forgetting(flow: Flow, request: FlowRequest) -> Flow:
    """Set the operators that evict idle groups: all that can."""
    if not request.forget:
        return flow
    sources = {node.id for node in flow.operators if node.is_source}
    timed = bool(request.events.columns)
    operators = (
        replace(node, forget=request.forget, timed=timed) if _can_evict(node, sources) else node
        for node in flow.operators
    )
    return replace(flow, operators=tuple(operators))


def _can_evict(node: Node, sources: Collection[int]) -> bool:
    """Return whether an operator evicts groups; operators above follow through its changes."""
    reads_operator = any(
        isinstance(b.origin, OperatorOrigin) and b.origin.operator not in sources
        for b in node.branches
    )
    return node.can_forget and not reads_operator


PASSES: tuple[Pass, ...] = (
    lower_relations, add_upserts, add_static_ports, add_event_keys, add_forgetting,
)  # fmt: skip
"""The passes that build a flow, in order. Each takes the flow of the previous one."""

_EMPTY = Flow((), (), "")


def lower(
    plan: BoundPlan | BoundViews,
    weights: Weights | None = None,
    early: EarlyRetraction = "carry",
    upserts: Upserts | None = None,
    events: EventColumns | None = None,
    forget: Forget = "",
    static: Collection[tuple[str, ...]] = (),
) -> Flow:
    """Return the dataflow that maintains the view of a plan, or several views.

    The arguments are the attributes of `FlowRequest`.

    Raises:
        InputRefused: the upsert declaration of a source does not fit the plan
            (`flow.passes.upserts`).
    """
    request = FlowRequest(
        as_views(plan),
        weights or {},
        early,
        upserts or {},
        events or EventColumns({}),
        forget,
        static,
    )
    return reduce(lambda flow, step: step(flow, request), PASSES, _EMPTY)
