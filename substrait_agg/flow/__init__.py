"""Flow: a bound plan -> a graph of incremental operators, and its explanation."""

from __future__ import annotations

from substrait_agg.flow.explain import explain_flow, explain_plan, explain_text
from substrait_agg.flow.explain_tree import ExplainedPlan
from substrait_agg.flow.graph import Flow
from substrait_agg.flow.lower import lower

__all__ = ["ExplainedPlan", "Flow", "explain_flow", "explain_plan", "explain_text", "lower"]
