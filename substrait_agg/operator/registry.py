"""The operators by the nodes of the flow that they execute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from substrait_agg.flow.nodes import Aggregate, Distinct, Node, Sessionize, Upsert
from substrait_agg.operator.group_operator import GroupOperator
from substrait_agg.operator.latest import UpsertOperator
from substrait_agg.operator.protocol import StatefulOperator
from substrait_agg.operator.session import SessionOperator
from substrait_agg.operator.spec import group_spec, session_spec, upsert_spec

OPERATORS: Mapping[type[Node], Callable[[Any], StatefulOperator]] = {
    Aggregate: lambda node: GroupOperator(group_spec(node)),
    Distinct: lambda node: GroupOperator(group_spec(node)),
    Sessionize: lambda node: SessionOperator(session_spec(node)),
    Upsert: lambda node: UpsertOperator(upsert_spec(node)),
}
"""Type of a node -> makes what its tasks execute."""


def operator_of(node: Node) -> StatefulOperator:
    """Return the operator that executes a node."""
    return OPERATORS[type(node)](node)
