"""Explain a dataflow: operators, their state and inputs, the steps of a batch, refresh policies."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from substrait_agg.bind.bound import BoundPlan, Constant, Conversion, Expr
from substrait_agg.bind.deep_stack import deep_call
from substrait_agg.bind.plan.views import BoundViews, as_views
from substrait_agg.explanation.build import build
from substrait_agg.explanation.names import names_of, short, show_text, write_expression
from substrait_agg.explanation.state import value_text
from substrait_agg.explanation.tree import ExplainedBatch, ExplainedPlan, ExplainedRefresh
from substrait_agg.flow.graph.nodes import Flow, Node
from substrait_agg.flow.passes.lower import lower
from substrait_agg.flow.passes.upserts import Upserts
from substrait_agg.functions.aggregates.accumulators import EarlyRetraction, WeightKind
from substrait_agg.refresh.checks import Obstacle, RunConditions, not_incremental, not_recomputable
from substrait_agg.refresh.ownership import operators_with, owners
from substrait_agg.refresh.policies import RefreshPolicies

RETRACTING: WeightKind = "changelog"
"""Assumed weights of tables if the policy is about retractions: a plan does not state the weights
of its sources."""


@dataclass(frozen=True, slots=True)
class PastBatch:
    """How a version of a checkpoint was computed.

    Attributes:
        version: the version.
        plan: fingerprint of its plan.
        operators: the operators that were computed again from all rows.
        reason: why.
    """

    version: int
    plan: str
    operators: tuple[int, ...]
    reason: str


INSERTS_ONLY = "have inserts only (a plan does not state this)"
RETRACTIONS_TOO = "have inserts and retractions (a plan does not state this)"
"""Assumptions about tables whose sources are unknown."""


@dataclass(frozen=True, slots=True)
class KnownSources:
    """What the sources of some tables say about their rows.

    Attributes:
        weights: table -> which weights its rows have.
        upserts: table -> the declaration of its upserts.
        changes: table -> how its changes come, where a connector reads it.
    """

    weights: Mapping[tuple[str, ...], WeightKind] = field(default_factory=dict)
    upserts: Upserts = field(default_factory=dict)
    changes: Mapping[tuple[str, ...], str] = field(default_factory=dict)


def explain_flow(flow: Flow) -> ExplainedPlan:
    """Return the explanation of a lowered plan, from which all formats are written."""
    return deep_call(build, flow)


def explain_plan(
    plan: BoundPlan | BoundViews,
    early: EarlyRetraction = "carry",
    static: Collection[tuple[str, ...]] = (),
    policies: RefreshPolicies | None = None,
    batches: Collection[PastBatch] = (),
    sources: KnownSources | None = None,
) -> ExplainedPlan:
    """Return the explanation of a plan.

    Args:
        plan: the bound plan, or several views.
        early: what happens to early retractions. With ``carry``, tables without a source are assumed
            to contain only inserts. With the other policies they are assumed to contain retractions
            too, because otherwise there is nothing to guard.
        static: the tables that are read once.
        policies: the refresh policies to explain; None for none.
        batches: versions of a checkpoint to explain, with the fingerprint of their plan; those of
            another plan are left out.
        sources: what is known about sources; None for nothing.
    """
    sources = sources or KnownSources()
    tables = dict.fromkeys(read.table for read in as_views(plan).reads)
    guarded = early != "carry"
    weights = {**(dict.fromkeys(tables, RETRACTING) if guarded else {}), **sources.weights}
    flow = lower(plan, weights, early, sources.upserts, static=static)
    others = "tables without a source" if sources.weights else "tables"
    assumed = f"{others} {RETRACTIONS_TOO if guarded else INSERTS_ONLY}"
    of_this_plan = [
        (b.version, b.operators, b.reason) for b in batches if b.plan == flow.fingerprint
    ]
    return replace(
        explain_flow(flow),
        connected=tuple(f"{'.'.join(t)}: {c}" for t, c in sources.changes.items() if t in tables),
        assumed=assumed if tables.keys() - sources.weights.keys() else "",
        refresh=() if policies is None else tuple(explained_refresh(flow, policies)),
        batches=tuple(explained_batches(flow, of_this_plan)),
    )


def row_names(flow: Flow, node: Node) -> tuple[str, ...]:
    """Return unique names of an operator's keys, its grouping set index and its arguments."""
    return deep_call(_row_names, flow, node)


def _row_names(flow: Flow, node: Node) -> tuple[str, ...]:
    names = names_of(flow)[node.id].inputs
    candidates = [
        short(write_expression(key, names), f"key {i}") for i, key in enumerate(node.keys)
    ]
    candidates += ["grouping set"] if node.sets else []
    arguments = (value_text(_as_written(v), condition, names) for v, condition in node.arguments)
    candidates += [short(text, f"argument {i}") for i, text in enumerate(arguments)]
    unique: list[str] = []
    for name in map(show_text, candidates):
        again = sum(u == name or u.startswith(f"{name} (") for u in unique)
        unique.append(f"{name} ({again + 1})" if name in unique else name)
    return tuple(unique)


def _as_written(value: Expr | None) -> Expr | None:
    """Return an argument without what binding adds: a conversion to the type of the accumulator.

    A constant counts rows.
    """
    if isinstance(value, Conversion):
        return value.input
    return None if isinstance(value, Constant) else value


def explained_refresh(flow: Flow, policies: RefreshPolicies) -> Iterator[ExplainedRefresh]:
    """Yield the refresh policy of each view, with the obstacles to it.

    The sources and options of a run can be obstacles as well; they are unknown here.

    Raises:
        UsageError: VIEW_UNKNOWN.
    """
    policies.check_views({view.name for view in flow.views})
    full = operators_with(flow, policies, "full")
    strict = operators_with(flow, policies, "incremental_strict")
    auto = full | operators_with(flow, policies, "auto")
    obstacles = {
        "full": [*not_recomputable(flow, full, RunConditions())],
        "auto": [*not_recomputable(flow, auto, RunConditions())],
        "incremental_strict": [*not_incremental(flow, strict)],
    }
    owned = owners(flow)
    for view in flow.views:
        policy = policies.of(view.name)
        operators = tuple(o for o, owner in enumerate(owned) if owner == view)
        yield ExplainedRefresh(
            view.name, policy, operators, tuple(map(_text, obstacles.get(policy, ())))
        )


def explained_batches(
    flow: Flow, batches: Iterable[tuple[int, tuple[int, ...], str]]
) -> Iterator[ExplainedBatch]:
    """Yield how versions were computed."""
    owned = owners(flow)
    for version, operators, reason in batches:
        names = dict.fromkeys(owned[operator].name for operator in operators)
        yield ExplainedBatch(version, tuple(names), reason)


def _text(obstacle: Obstacle) -> str:
    return f"{obstacle.reason} ({obstacle.path})" if obstacle.path else obstacle.reason
