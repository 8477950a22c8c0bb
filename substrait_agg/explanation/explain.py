"""The dataflow explained: what each operator keeps, what feeds it, what runs per batch."""

from __future__ import annotations

from dataclasses import replace

from substrait_agg.bind.bound import BoundPlan
from substrait_agg.bind.deep_stack import deep_call
from substrait_agg.bind.rewrite import table_reads
from substrait_agg.explanation.build import build
from substrait_agg.explanation.names import names_of, short, shown, written
from substrait_agg.explanation.state import argument_text
from substrait_agg.explanation.text import plan_text
from substrait_agg.explanation.tree import ExplainedPlan
from substrait_agg.flow.graph.nodes import Flow, Node
from substrait_agg.flow.passes.lower import lower
from substrait_agg.functions.aggregates.accumulators import EarlyRetraction, WeightKind

RETRACTING: WeightKind = "sign"
"""What is taken for the weights of tables where retractions are asked about: a plan does not say what its sources bring."""

INSERTS_ONLY = "tables bring inserts only (a plan does not say)"
RETRACTIONS_TOO = "tables bring inserts and retractions (a plan does not say)"
"""What is taken for granted of the tables."""


def explain_flow(flow: Flow) -> ExplainedPlan:
    """The explanation of a lowered plan, from which every form of it is made."""
    return deep_call(build, flow)


def explain_plan(plan: BoundPlan, early: EarlyRetraction = "carry") -> ExplainedPlan:
    """The explanation of a plan before its sources are known.

    Args:
        plan: the bound plan.
        early: what becomes of a retraction that comes before its insertion. With ``carry``, tables are taken to bring
            inserts only; with the others retractions too, for without them there would be nothing to guard.
    """
    tables = dict.fromkeys(read.table for read in table_reads(plan.root))
    guarded = early != "carry"
    flow = lower(plan, dict.fromkeys(tables, RETRACTING) if guarded else None, early)
    assumed = RETRACTIONS_TOO if guarded else INSERTS_ONLY
    return replace(explain_flow(flow), assumed=assumed if tables else "")


def explain_text(flow: Flow) -> str:
    """A readable tree of the view, the incremental operators and the linear steps that feed them.

    Args:
        flow: a lowered plan.
    """
    return plan_text(explain_flow(flow))


def row_names(flow: Flow, node: Node) -> tuple[str, ...]:
    """What to call the keys of an operator, the index of its grouping set, and its arguments; each name once."""
    return deep_call(_row_names, flow, node)


def _row_names(flow: Flow, node: Node) -> tuple[str, ...]:
    names = names_of(flow)[node.id].inputs
    found = [short(written(key, names), f"key {i}") for i, key in enumerate(node.keys)]
    found += ["grouping set"] if node.sets else []
    arguments = (argument_text(i, node, names) for i in range(len(node.arguments)))
    found += [short(text, f"argument {i}") for i, text in enumerate(arguments)]
    unique: list[str] = []
    for name in map(shown, found):
        again = sum(u == name or u.startswith(f"{name} (") for u in unique)
        unique.append(f"{name} ({again + 1})" if name in unique else name)
    return tuple(unique)
