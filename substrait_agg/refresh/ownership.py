"""Decide which operators follow the policy of which view."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from substrait_agg.flow.graph.graph import Branch, FeedbackOrigin, OperatorOrigin, TableOrigin
from substrait_agg.flow.graph.nodes import (
    Flow,
    FlowView,
    Node,
    all_operators_below,
    operators_below,
)
from substrait_agg.refresh.policies import RefreshPolicies, RefreshPolicy

_LISTED = ("groups", "rows")
"""What an operator keeps (`NodeDescription.keeps`) if its output rows can be read from its state."""


def owners(flow: Flow) -> tuple[FlowView, ...]:
    """Return, per operator, the view whose policy it follows.

    This is the first view that needs it, in the order of the views: a view comes after those that
    it reads.
    """
    by_operator: dict[int, FlowView] = {}
    for view in flow.views:
        for operator in _iter_needed(flow, view.operator):
            by_operator.setdefault(operator, view)
    # An operator that no stored view needs cannot be in a flow.
    return tuple(by_operator[node.id] for node in flow.operators)


def operators_with(flow: Flow, policies: RefreshPolicies, policy: RefreshPolicy) -> frozenset[int]:
    """Return the operators whose view has a policy."""
    return frozenset(
        operator for operator, view in enumerate(owners(flow)) if policies.of(view.name) == policy
    )


def has_listed_rows(node: Node) -> bool:
    """Return whether the output rows of an operator can be read from its state."""
    return node.describe().keeps in _LISTED


def borders(flow: Flow, operators: Collection[int]) -> Iterator[tuple[Node, Node]]:
    """Yield pairs of operators of which the second reads the first, and one is in `operators`."""
    for node in flow.operators:
        for below in operators_below(node):
            if (below in operators) != (node.id in operators):
                yield flow.operators[below], node


def tables_read(flow: Flow, operators: Collection[int]) -> frozenset[tuple[str, ...]]:
    """Return the tables that some operators read themselves."""
    return frozenset(
        branch.origin.table
        for node in flow.operators
        if node.id in operators
        for branch in node.branches
        if isinstance(branch.origin, TableOrigin)
    )


def select_views(flow: Flow, names: Collection[str]) -> tuple[Flow, tuple[int, ...]]:
    """Return the flow of some views alone, and the id that each of its operators has in `flow`."""
    views = [view for view in flow.views if view.name in names]
    needed = {view.operator for view in views}
    for view in views:
        needed |= all_operators_below(flow, flow.view_node(view))
    before = tuple(sorted(needed))
    ids = {operator: i for i, operator in enumerate(before)}
    operators = tuple(_renumber(flow.operators[operator], ids) for operator in before)
    own = tuple(replace(view, operator=ids[view.operator]) for view in views)
    return Flow(operators, own, flow.fingerprint), before


def _renumber(node: Node, ids: Mapping[int, int]) -> Node:
    """Return an operator with other ids for itself and the operators that it reads."""
    inputs = (
        replace(port, branches=tuple(_move(branch, ids) for branch in port.branches))
        for port in node.inputs
    )
    return replace(node, id=ids[node.id], inputs=tuple(inputs))


def _move(branch: Branch, ids: Mapping[int, int]) -> Branch:
    origin = branch.origin
    if not isinstance(origin, OperatorOrigin | FeedbackOrigin):
        return branch
    return replace(branch, origin=replace(origin, operator=ids[origin.operator]))


def _iter_needed(flow: Flow, operator: int) -> Iterator[int]:
    """Yield an operator and all operators that it reads, directly or not."""
    waiting, seen = [operator], set[int]()
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        yield current
        waiting += operators_below(flow.operators[current])
