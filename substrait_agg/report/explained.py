"""Write the explanation of a plan in any format."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import PurePath

from substrait_agg.bind.bound import BoundPlan
from substrait_agg.bind.plan.views import BoundViews
from substrait_agg.explanation.explain import KnownSources, PastBatch, explain_plan
from substrait_agg.explanation.mermaid import plan_mermaid
from substrait_agg.explanation.text import plan_json, plan_text
from substrait_agg.explanation.tree import ExplainedPlan
from substrait_agg.functions.aggregates.accumulators import EarlyRetraction
from substrait_agg.refresh.policies import RefreshPolicies

STDIN = "-"
"""Name of a plan read from stdin."""

_FORMS: Mapping[str, Callable[[ExplainedPlan], str]] = {
    "text": plan_text,
    "json": plan_json,
    "mermaid": plan_mermaid,
}


def write_explanation(
    plan: BoundPlan | BoundViews,
    format: str,
    early: EarlyRetraction,
    name: str = "",
    static: Collection[tuple[str, ...]] = (),
    policies: RefreshPolicies | None = None,
    batches: Collection[PastBatch] = (),
    sources: KnownSources | None = None,
) -> str:
    """Return the explanation of a plan in a format."""
    tree = explain_plan(plan, early, static, policies, batches, sources)
    if format == "html":
        from substrait_agg.report.html.explain import plan_html  # noqa: PLC0415 - imported only if needed

        return plan_html(tree, "" if name == STDIN else PurePath(name).name)
    return _FORMS[format](tree)
