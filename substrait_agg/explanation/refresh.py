"""Explain the refresh policies of the views of a flow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from substrait_agg.explanation.tree import ExplainedBatch, ExplainedRefresh
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.refresh.checks import Obstacle, RunConditions, not_incremental, not_recomputable
from substrait_agg.refresh.ownership import operators_with, owners
from substrait_agg.refresh.policies import RefreshPolicies


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
