"""Check refresh policies against a flow: what is not incremental or cannot be recomputed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from substrait_agg.bind.bound import BoundMeasure
from substrait_agg.errors import UsageError
from substrait_agg.flow.graph.graph import ARRIVAL_POSITION, ValueTree
from substrait_agg.flow.graph.nodes import Flow, Node
from substrait_agg.functions.aggregates.kinds import KINDS
from substrait_agg.refresh.ownership import (
    borders,
    has_listed_rows,
    operators_with,
    owners,
    tables_read,
)
from substrait_agg.refresh.policies import RefreshPolicies
from substrait_agg.required import require

Table = tuple[str, ...]

WHOLE_GROUP = ("multiset", "elements")
"""Inputs of a measure (`KindRow.input`) that are all stored values of a group."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a part of a flow does not fit a refresh policy.

    Attributes:
        path: path in the plan.
        reason: a clause without a full stop.
    """

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class RunConditions:
    """Properties of a run that decide, besides its flow, whether operators can be computed again.

    Attributes:
        event_time: whether it has watermarks or a TTL.
        delayed: whether emission is delayed (``emit`` is not ``batch``).
        unreadable: the tables whose rows cannot be read again in full -> why.
        beside: whether a batch of the run computes them, beside operators that read changes.
    """

    event_time: bool = False
    delayed: bool = False
    unreadable: Mapping[Table, str] = field(default_factory=dict)
    beside: bool = True


def not_incremental(flow: Flow, operators: Collection[int]) -> Iterator[Obstacle]:
    """Yield the parts of a flow that a batch computes from stored rows instead of from changes.

    The cost of such a part follows the size of the state: a batch that changes one row of a group
    or of an input reads all others.
    """
    for node in flow.operators:
        if node.id not in operators:
            continue
        for measure in node.measures:
            if _reads_whole_group(measure, node):
                yield Obstacle(
                    measure.path,
                    f"{measure.name} is computed again from all values of each group that changes",
                )
        if node.groups is None and not node.keys:
            yield Obstacle(
                node.path,
                "a join without equal columns compares each changed row with all rows of the other side",
            )


def _reads_whole_group(measure: BoundMeasure, node: Node) -> bool:
    if measure.kind == "user":
        groups = require(node.groups)
        states = zip(groups.measures, groups.reads, strict=True)
        return any(m is measure and state.tree is not None for m, state in states)
    return KINDS[measure.kind].input in WHOLE_GROUP


def not_recomputable(
    flow: Flow, operators: Collection[int], conditions: RunConditions
) -> Iterator[Obstacle]:
    """Yield why operators cannot be computed again from all rows of their inputs.

    The result would differ from the maintained one, or the rows cannot be read.
    """
    if conditions.event_time:
        yield Obstacle(
            "", "with --watermark or --ttl, rows that were late or expired would come back"
        )
    if conditions.delayed:
        yield Obstacle("", "with --emit, the groups that wait would be emitted")
    for node in flow.operators:
        if node.id in operators:
            yield from _node_obstacles(node)
            if conditions.beside and node.loop_end is not None:
                yield Obstacle(node.path, "a recursion is computed in rounds")
    for table in sorted(tables_read(flow, operators)):
        reason = conditions.unreadable.get(table)
        if reason is not None:
            yield Obstacle("", f"the rows of {'.'.join(table)} cannot be read again: {reason}")
    for below, above in borders(flow, operators):
        if not has_listed_rows(below):
            yield Obstacle(
                above.path,
                f"operator {above.id} shares operator {below.id} ({below.describe().kind}) with a view that is "
                "maintained by changes, and the rows of that operator are not stored",
            )


def _node_obstacles(node: Node) -> Iterator[Obstacle]:
    if node.groups is not None and any(map(_by_arrival, node.groups.trees)):
        yield Obstacle(node.path, "it depends on the order in which rows arrived")
    if any(measure.kind == "surrogate_key" for measure in node.measures):
        yield Obstacle(node.path, "its surrogate keys would change")
    if node.describe().keeps == "upserts":
        yield Obstacle(node.path, "the table has upserts, whose order is not stored")
    if node.early == "quarantine":
        yield Obstacle(node.path, "rows may wait in quarantine")


def _by_arrival(tree: ValueTree) -> bool:
    arguments = {component.argument for component in tree.components}
    return tree.follows is not None or ARRIVAL_POSITION in arguments


def check_policies(flow: Flow, policies: RefreshPolicies, conditions: RunConditions) -> None:
    """Check the policies of a run before anything is read.

    Raises:
        UsageError: REFRESH_NOT_INCREMENTAL, REFRESH_NOT_FULL, VIEW_UNKNOWN.
    """
    policies.check_views({view.name for view in flow.views})
    strict = operators_with(flow, policies, "incremental_strict")
    full = operators_with(flow, policies, "full")
    obstacles = list(not_incremental(flow, strict))
    if obstacles:
        raise _refuse(
            "REFRESH_NOT_INCREMENTAL",
            "incremental_strict refuses what is not maintained by changes alone",
            "give --refresh incremental, or change the query",
            obstacles, flow, policies.places,
        )  # fmt: skip
    obstacles = list(not_recomputable(flow, full, conditions)) if full else []
    if obstacles:
        raise _refuse(
            "REFRESH_NOT_FULL",
            "full cannot compute this again from all rows",
            "give --refresh incremental or auto",
            obstacles, flow, policies.places,
        )  # fmt: skip


def _refuse(
    code: str,
    message: str,
    help: str,
    obstacles: list[Obstacle],
    flow: Flow,
    places: Mapping[str, str],
) -> UsageError:
    reasons = dict.fromkeys(f"{o.reason} ({o.path})" if o.path else o.reason for o in obstacles)
    first = next((o.path for o in obstacles if o.path), "refresh")
    line = _place(first, flow, places)
    return UsageError(code, f"{message}: {'; '.join(reasons)}", help=help, path=line or first)


def _place(path: str, flow: Flow, places: Mapping[str, str]) -> str:
    """Return the file and line of the view that has a path; empty if it is not from a script."""
    for node, view in zip(flow.operators, owners(flow), strict=True):
        paths = {node.path, *(measure.path for measure in node.measures)}
        if path in paths and view.name in places:
            return places[view.name]
    return ""
