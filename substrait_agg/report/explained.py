"""Every form of the explanation of a plan, under the name of its format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath

from substrait_agg.bind.bound import BoundPlan
from substrait_agg.flow.explain import explain_plan
from substrait_agg.flow.explain_json import plan_json
from substrait_agg.flow.explain_mermaid import plan_mermaid
from substrait_agg.flow.explain_text import plan_text
from substrait_agg.flow.explain_tree import ExplainedPlan
from substrait_agg.functions.accumulators import EarlyRetraction
from substrait_agg.report.explain_html import plan_html

STDIN = "-"
"""What a plan from stdin is called."""

_FORMS: Mapping[str, Callable[[ExplainedPlan], str]] = {
    "text": plan_text,
    "json": plan_json,
    "mermaid": plan_mermaid,
}


def explained(plan: BoundPlan, format: str, early: EarlyRetraction, name: str = "") -> str:
    """The explanation of a plan in a form.

    Args:
        plan: the bound plan.
        format: ``text``, ``json``, ``mermaid`` or ``html``.
        early: as in `explain_plan`.
        name: what the page of the plan is called: the file that it came from, or empty.
    """
    tree = explain_plan(plan, early)
    if format == "html":
        return plan_html(tree, "" if name == STDIN else PurePath(name).name)
    return _FORMS[format](tree)
