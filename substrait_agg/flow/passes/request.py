"""The input of the passes that build a dataflow."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from substrait_agg.bind.plan.views import BoundViews
from substrait_agg.flow.graph.graph import Forget
from substrait_agg.flow.passes.event_time import EventColumns
from substrait_agg.flow.passes.upserts import Upserts
from substrait_agg.functions.aggregates.accumulators import EarlyRetraction, WeightKind

Weights = Mapping[tuple[str, ...], WeightKind]


@dataclass(frozen=True, slots=True)
class FlowRequest:
    """The views, the properties of its inputs, and the treatment of its groups.

    Attributes:
        plan: the views to maintain.
        weights: what is known about the weights of each table's changes; tables left out have
            weight 1 only.
        early: what happens to early retractions.
        upserts: the tables whose sources contain upserts.
        events: the columns with a watermark.
        forget: what happens to the rows in the view of idle groups; empty if groups are never
            evicted.
        static: the tables whose rows all come in the first version.
    """

    plan: BoundViews
    weights: Weights = field(default_factory=dict)
    early: EarlyRetraction = "carry"
    upserts: Upserts = field(default_factory=dict)
    events: EventColumns = field(default_factory=lambda: EventColumns({}))
    forget: Forget = ""
    static: Collection[tuple[str, ...]] = ()
