"""Registry of the operator for each node type of the flow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from substrait_agg.flow.graph.aggregate import Aggregate, Distinct, Recursion
from substrait_agg.flow.graph.join import Join
from substrait_agg.flow.graph.nodes import Node
from substrait_agg.flow.graph.sessionize import Sessionize
from substrait_agg.flow.graph.set_operation import SetOperation
from substrait_agg.flow.graph.top_k import TopK
from substrait_agg.flow.graph.upsert import Upsert
from substrait_agg.flow.graph.window import Window
from substrait_agg.operator.aggregate.operator import GroupOperator
from substrait_agg.operator.common.protocol import StatefulOperator
from substrait_agg.operator.common.spec import group_spec, multiset_spec
from substrait_agg.operator.join.spec import join_spec
from substrait_agg.operator.join.step import JoinOperator
from substrait_agg.operator.recursion import RecursionOperator, recursion_spec
from substrait_agg.operator.sessionize.spec import session_spec
from substrait_agg.operator.sessionize.step import SessionOperator
from substrait_agg.operator.set_operation import SetOperator, set_operation_spec
from substrait_agg.operator.top_k.spec import top_k_spec
from substrait_agg.operator.top_k.step import TopKOperator
from substrait_agg.operator.upsert.spec import upsert_spec
from substrait_agg.operator.upsert.step import UpsertOperator
from substrait_agg.operator.window.spec import window_spec
from substrait_agg.operator.window.step import WindowOperator

OPERATORS: Mapping[type[Node], Callable[[Any], StatefulOperator]] = {
    Aggregate: lambda node: GroupOperator(group_spec(node)),
    Distinct: lambda node: GroupOperator(multiset_spec(node)),
    Join: lambda node: JoinOperator(join_spec(node)),
    Recursion: lambda node: RecursionOperator(recursion_spec(node)),
    SetOperation: lambda node: SetOperator(set_operation_spec(node)),
    Sessionize: lambda node: SessionOperator(session_spec(node)),
    TopK: lambda node: TopKOperator(top_k_spec(node)),
    Upsert: lambda node: UpsertOperator(upsert_spec(node)),
    Window: lambda node: WindowOperator(window_spec(node)),
}
"""Node type -> function that builds the operator of a node."""


def operator_of(node: Node) -> StatefulOperator:
    """Return the operator that executes a node."""
    return OPERATORS[type(node)](node)
