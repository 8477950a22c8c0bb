"""The operator for the rows of a recursion: a multiset that counts the rows of the last level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.flow.graph.aggregate import Recursion
from substrait_agg.operator.aggregate.operator import GroupOperator
from substrait_agg.operator.common.emission import Emission
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.operator.common.protocol import OperatorResult, StateReader
from substrait_agg.operator.common.spec import MultisetSpec, group_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class RecursionSpec(MultisetSpec):
    """The specification of a recursion, whose last key is the level."""

    limit: int


def recursion_spec(node: Recursion) -> RecursionSpec:
    """Return the spec of a node that keeps the rows of a recursion."""
    return RecursionSpec(limit=node.limit, **group_fields(node))


@dataclass(frozen=True, slots=True)
class RecursionOperator(GroupOperator):
    """The operator that keeps the rows of all levels.

    Its counter ``beyond`` is by how many rows the level without a next one grows.
    """

    spec: RecursionSpec

    def apply(
        self, ports: Sequence[pa.Table], state: StateReader, emission: Emission
    ) -> OperatorResult:
        """Apply a slice, and count the rows of the last level."""
        result = super(RecursionOperator, self).apply(ports, state, emission)
        level = result.changes.column(f"k{len(self.spec.keys) - 1}")
        last = result.changes.column(WEIGHT).filter(pc.equal(level, self.spec.limit))
        beyond = pc.sum(last).as_py() or 0
        return replace(result, counters={**result.counters, "beyond": beyond})
