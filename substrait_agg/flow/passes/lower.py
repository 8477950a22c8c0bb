"""From a bound plan to its dataflow: all passes, in order. Runs and explanations are made by the same ones, each once."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from substrait_agg.bind.bound import BoundPlan
from substrait_agg.flow.graph.graph import Forget
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.flow.passes.event_time import EventColumns, with_event_keys
from substrait_agg.flow.passes.forgetting import with_forgetting
from substrait_agg.flow.passes.relations import lower_relations
from substrait_agg.flow.passes.request import FlowRequest, Weights
from substrait_agg.flow.passes.upserts import Upserts, with_upserts
from substrait_agg.functions.aggregates.accumulators import EarlyRetraction

Pass = Callable[[Flow, FlowRequest], Flow]


def add_upserts(flow: Flow, request: FlowRequest) -> Flow:
    """Put an operator ahead of all others for every table whose source brings upserts."""
    return with_upserts(flow, request.upserts, request.plan.root)


def add_event_keys(flow: Flow, request: FlowRequest) -> Flow:
    """Tell which keys of operators follow event time."""
    return with_event_keys(flow, request.events)


def add_forgetting(flow: Flow, request: FlowRequest) -> Flow:
    """Tell which operators forget idle groups."""
    return with_forgetting(flow, request.forget, timed=bool(request.events.columns))


PASSES: tuple[Pass, ...] = (lower_relations, add_upserts, add_event_keys, add_forgetting)
"""What makes a flow, in order: each takes the flow of the one before it."""

_EMPTY = Flow((), (), (), (), (), "")


def lower(
    plan: BoundPlan,
    weights: Weights | None = None,
    early: EarlyRetraction = "carry",
    upserts: Upserts | None = None,
    events: EventColumns | None = None,
    forget: Forget = "",
) -> Flow:
    """Return the dataflow that keeps the view of a plan up to date; arguments as the attributes of `FlowRequest`.

    Raises:
        InputRefused: what a source declares of its upserts does not fit the plan (`flow.passes.upserts`).
    """
    request = FlowRequest(
        plan, weights or {}, early, upserts or {}, events or EventColumns({}), forget
    )
    return reduce(lambda flow, step: step(flow, request), PASSES, _EMPTY)
