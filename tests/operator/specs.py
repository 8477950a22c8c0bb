"""The specs of operators that keep groups."""

from __future__ import annotations

from substrait_agg.flow.graph.nodes import Node
from substrait_agg.operator.common.spec import OperatorSpec
from substrait_agg.operator.registry import operator_of


def operator_spec(node: Node) -> OperatorSpec:
    """The spec of the operator of a node."""
    spec = operator_of(node).spec
    assert isinstance(spec, OperatorSpec)
    return spec
