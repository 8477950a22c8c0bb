"""What the passes that make a dataflow are told besides the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from substrait_agg.bind.bound import BoundPlan
from substrait_agg.flow.graph.graph import Forget
from substrait_agg.flow.passes.event_time import EventColumns
from substrait_agg.flow.passes.upserts import Upserts
from substrait_agg.functions.aggregates.accumulators import EarlyRetraction, WeightKind

Weights = Mapping[tuple[str, ...], WeightKind]


@dataclass(frozen=True, slots=True)
class FlowRequest:
    """A plan, and what is known of its inputs and wanted of its groups.

    Attributes:
        plan: the bound plan.
        weights: what is known of the weights of each table's changes; tables left out have weight 1 only.
        early: what becomes of a retraction that comes before its insertion.
        upserts: the tables whose sources bring upserts.
        events: the columns with a watermark.
        forget: what becomes of the rows shown of idle groups; empty where groups are remembered for ever.
    """

    plan: BoundPlan
    weights: Weights = field(default_factory=dict)
    early: EarlyRetraction = "carry"
    upserts: Upserts = field(default_factory=dict)
    events: EventColumns = field(default_factory=lambda: EventColumns({}))
    forget: Forget = ""
