"""The specification of an operator for a set operation."""

from __future__ import annotations

from dataclasses import dataclass

from substrait_agg.flow.graph.set_operation import SetOperation
from substrait_agg.operator.common.spec import MultisetSpec, group_fields
from substrait_agg.plan.model import SetOperationKind


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOperationSpec(MultisetSpec):
    """The specification of a set operation: groups are rows, with an accumulator per input port."""

    operation: SetOperationKind

    @property
    def row_wise(self) -> bool:
        """See `InputSpec`: partial sums would lose the port."""
        return True

    @property
    def row_counts(self) -> tuple[int, ...]:
        """Return the accumulators: each counts the rows of a port."""
        return tuple(range(len(self.accumulators)))


def set_operation_spec(node: SetOperation) -> SetOperationSpec:
    """Return the spec of a node that computes a set operation."""
    return SetOperationSpec(operation=node.operation, **group_fields(node))
