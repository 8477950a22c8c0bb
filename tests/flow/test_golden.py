"""What identifies plans and operators is the same in every build: by it a checkpoint is recognised."""

from __future__ import annotations

import json
from pathlib import Path

import substrait_agg as sa
from substrait_agg.bind.plan.fingerprint import digest
from substrait_agg.bind.plan.views import one_view
from substrait_agg.commit.documents.plan_document import document_bytes
from substrait_agg.flow.graph.graph import TableOrigin
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.flow.passes.lower import lower
from substrait_agg.flow.passes.upserts import UpsertDeclaration
from substrait_agg.functions.aggregates.accumulators import WeightKind
from substrait_agg.spark.query.document import plan_document
from tests.checkpoint.stored import GOALS, goals_plan
from tests.crash.settings import chained, evolving, timed

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "data" / "fingerprints.json"
FOLDERS = ("windows", "tpch", "samples/substrait-python")


def flows() -> dict[str, Flow]:
    """A fixed set of plans, with and without upserts, sessions, grouping sets and quarantine."""
    other = evolving().other
    assert other is not None
    goals = one_view(sa.load(goals_plan().encode()).bind())
    upsert = UpsertDeclaration(("n",), ("t",), partial=True)
    made = {
        "chained": chained().flow,
        "evolving": other,
        "timed": timed().flow,
        "goals": lower(goals, upserts={(GOALS,): upsert}),
    }
    for folder in FOLDERS:
        for path in sorted((ROOT / "plans" / folder).glob("*.json")):
            plan = one_view(sa.load(path).bind())
            name = f"{folder}/{path.stem}"
            made[name] = plain = lower(plan)
            origins = (branch.origin for node in plain.operators for branch in node.branches)
            signs: dict[tuple[str, ...], WeightKind] = {
                origin.table: "changelog" for origin in origins if isinstance(origin, TableOrigin)
            }
            made[f"{name} in quarantine"] = lower(plan, signs, "quarantine")
    return made


def identity(flow: Flow) -> list[str]:
    """The fingerprint of a plan, and the fingerprints of its operators that an evolution compares."""
    document = json.loads(document_bytes(plan_document(flow), "a checkpoint"))
    return [flow.fingerprint[:16], digest(document["plan"]["kept"])[:16]]


def test_fingerprints_do_not_change() -> None:
    """Names of classes and fields do not matter. Where a second digest differs, --evolve refuses earlier checkpoints; a first one must never differ."""
    assert {name: identity(flow) for name, flow in flows().items()} == json.loads(
        GOLDEN.read_text()
    )
