"""The explanation as JSON: the tree as it is, its attributes as keys."""

from __future__ import annotations

import json
from dataclasses import asdict

from substrait_agg.flow.explain_tree import ExplainedPlan


def plan_json(plan: ExplainedPlan) -> str:
    """The explanation as a JSON document that ends with a line break; docs/formats.md describes its keys."""
    return json.dumps(asdict(plan), indent=2, ensure_ascii=False) + "\n"
