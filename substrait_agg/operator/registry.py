"""The operators by the nodes of the flow that they execute."""

from __future__ import annotations

from substrait_agg.flow.graph import AggregateNode
from substrait_agg.operator.group_operator import GroupOperator
from substrait_agg.operator.latest import UpsertOperator
from substrait_agg.operator.protocol import StatefulOperator
from substrait_agg.operator.session import SessionOperator
from substrait_agg.operator.spec import SessionSpec, operator_spec, upsert_spec


def operator_of(node: AggregateNode) -> StatefulOperator:
    """Return the operator that executes a node."""
    if node.latest is not None:
        return UpsertOperator(upsert_spec(node))
    spec = operator_spec(node)
    return SessionOperator(spec) if isinstance(spec, SessionSpec) else GroupOperator(spec)
