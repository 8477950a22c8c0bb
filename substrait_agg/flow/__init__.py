"""Flow: a bound plan -> a graph of incremental operators, and its explanation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from substrait_agg.deferred_imports import deferred

if TYPE_CHECKING:
    from substrait_agg.flow.explain import explain_flow, explain_plan
    from substrait_agg.flow.explain_tree import ExplainedPlan
    from substrait_agg.flow.nodes import Flow

__all__ = ["ExplainedPlan", "Flow", "explain_flow", "explain_plan"]

__getattr__ = deferred(
    __name__,
    {
        "ExplainedPlan": "explain_tree",
        "Flow": "nodes",
        "explain_flow": "explain",
        "explain_plan": "explain",
    },
)
