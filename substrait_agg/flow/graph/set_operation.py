"""The node of a set operation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from substrait_agg.flow.graph.graph import StatePerGroup
from substrait_agg.flow.graph.nodes import Node, NodeDescription
from substrait_agg.functions.aggregates.accumulators import COUNT_DIGITS, Accumulator, WeightKind
from substrait_agg.functions.signatures.derive import widen
from substrait_agg.plan.model import SetOperationKind
from substrait_agg.plan.types import Type

SET_OUTPUTS: Mapping[SetOperationKind, str] = {
    "minus_primary": "once if input 0 has it and no other input has it",
    "minus_primary_all": "as often as in input 0, less its number in all other inputs",
    "minus_multiset": "as often as in input 0, unless all other inputs have it",
    "intersection_primary": "once if input 0 and any other input have it",
    "intersection_multiset": "once if all inputs have it",
    "intersection_multiset_all": "as often as in the input that has it least often",
    "union_distinct": "once if any input has it",
}
"""How often the output of a set operation has a row."""


def port_counts(ports: int) -> StatePerGroup:
    """Return the state of rows as groups: how often a row occurs in each port."""
    counts = (Accumulator("count", None, 0, COUNT_DIGITS, port=port) for port in range(ports))
    return StatePerGroup(accumulators=tuple(counts))


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOperation(Node):
    """A set operation over the rows of several ports, the primary input first.

    The key is the whole row, so it needs no further tree to detect early retractions.

    Attributes:
        operation: which one; union all is no operator.
    """

    operation: SetOperationKind

    @property
    def key_types(self) -> tuple[Type, ...]:
        """Return the types of the rows of all inputs; a part that is required in one may be null in another."""
        columns = zip(*(tuple(key.type for key in port.keys) for port in self.inputs), strict=True)
        return tuple(reduce(widen, column) for column in columns)

    @property
    def output_weight(self) -> WeightKind:
        """See `Node`."""
        return "changelog" if SET_OUTPUTS[self.operation].startswith("once") else "weighted"

    def describe(self) -> NodeDescription:
        """See `Node`."""
        rule = SET_OUTPUTS[self.operation]
        return NodeDescription("set operation", "rows", emits=f"{self.operation}: a row {rule}")

    def identity(self) -> tuple[object, ...]:
        """See `Node`."""
        return (True, (), ("SetOperation", self.operation), None)
