"""The explanation of a flow.

A flow comes in; text, JSON or a Mermaid flowchart goes out. `build` makes a tree (`tree`) from the
flow; `text` and `mermaid` write it. Read `tree` first, then `build`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from substrait_agg.deferred_imports import defer

if TYPE_CHECKING:
    from substrait_agg.explanation.explain import explain_flow, explain_plan
    from substrait_agg.explanation.tree import ExplainedPlan

__all__ = ["ExplainedPlan", "explain_flow", "explain_plan"]

__getattr__ = defer(
    __name__,
    {"ExplainedPlan": "tree", "explain_flow": "explain", "explain_plan": "explain"},
)
