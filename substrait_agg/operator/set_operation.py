"""The operator for set operations: rows as groups, with a count per input port.

Specification: Logical Relations, Set Operation Types. In the rules, ``m`` is the number of times
that a row occurs in the primary input, ``n`` has a line per secondary input. A number below zero
counts as zero: the row was retracted before its insertion, so the input does not have it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.flow.graph.set_operation import SetOperation
from substrait_agg.operator.aggregate.groups import BatchGroups
from substrait_agg.operator.aggregate.operator import GroupOperator
from substrait_agg.operator.aggregate.step import step
from substrait_agg.operator.common.emission import Emission
from substrait_agg.operator.common.protocol import OperatorResult, StateReader
from substrait_agg.operator.common.spec import MultisetSpec, OperatorSpec, group_fields
from substrait_agg.operator.measures.finalize import GroupState, row_counts
from substrait_agg.plan.model import SetOperationKind


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOperationSpec(MultisetSpec):
    """The specification of a set operation: groups are rows, with an accumulator per input port."""

    operation: SetOperationKind

    @property
    def row_counts(self) -> tuple[int, ...]:
        """Return the accumulators: each counts the rows of a port."""
        return tuple(range(len(self.accumulators)))


def set_operation_spec(node: SetOperation) -> SetOperationSpec:
    """Return the spec of a node that computes a set operation."""
    return SetOperationSpec(operation=node.operation, **group_fields(node))


Int64s = npt.NDArray[np.int64]
Rule = Callable[[Int64s, Int64s], npt.NDArray[np.generic]]


def _minus_primary_all(m: Int64s, n: Int64s) -> Int64s:
    """Subtract input by input: the sum of the secondary inputs could leave 64 bits."""
    left = m
    for subtracted in n:
        left = np.maximum(left - subtracted, 0)
    return left


RULES: Mapping[SetOperationKind, Rule] = {
    "minus_primary": lambda m, n: (m > 0) & (n == 0).all(axis=0),
    "minus_primary_all": _minus_primary_all,
    "minus_multiset": lambda m, n: np.where((n > 0).all(axis=0), 0, m),
    "intersection_primary": lambda m, n: (m > 0) & (n > 0).any(axis=0),
    "intersection_multiset": lambda m, n: (m > 0) & (n > 0).all(axis=0),
    "intersection_multiset_all": lambda m, n: np.minimum(m, n.min(axis=0)),
    "union_distinct": lambda m, n: (m > 0) | (n > 0).any(axis=0),
}
"""The rule of each set operation; union all needs no state."""


def output_weights(operation: SetOperationKind, counts: Int64s) -> Int64s:
    """Return how often the output of a set operation has each row.

    Args:
        operation: the set operation.
        counts: a line per input, the primary one first, and a column per row.
    """
    live = np.maximum(counts, 0)
    return RULES[operation](live[0], live[1:]).astype(np.int64)


_WEIGHT_LIMBS = "w_"


@dataclass(frozen=True, slots=True)
class SetOperator(GroupOperator):
    """The operator that keeps how often a row occurs in each input.

    Its trees are those of `GroupOperator`: rows wait, are closed and expire as groups do.
    """

    spec: SetOperationSpec

    @property
    def ports(self) -> int:
        """Return the number of inputs."""
        return len(self.spec.accumulators)

    def apply(
        self, ports: Sequence[pa.Table], state: StateReader, emission: Emission
    ) -> OperatorResult:
        """Apply a slice; see `operator.aggregate.step.step`."""
        parts = [_count(rows, port) for port, rows in enumerate(ports)]
        rows = pa.concat_tables(parts, promote_options="default")
        return step(self.spec, rows, state, emission, self._count_shown)

    def _count_shown(
        self, spec: OperatorSpec, _groups: BatchGroups, state: GroupState
    ) -> npt.NDArray[np.int64]:
        return output_weights(self.spec.operation, row_counts(spec, state))


def _count(rows: pa.Table, port: int) -> pa.Table:
    """Return the rows of a port with their weight as the addend of the accumulator of the port."""
    for name in rows.column_names:
        if name.startswith(_WEIGHT_LIMBS):
            addend = f"a{port}_{name.removeprefix(_WEIGHT_LIMBS)}"
            if addend in rows.column_names:
                rows = rows.drop_columns([addend])
            rows = rows.append_column(addend, rows.column(name))
    return rows
