"""The operator for set operations: rows as groups, with a count per input port."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.operator.aggregate.groups import BatchGroups
from substrait_agg.operator.aggregate.operator import GroupOperator
from substrait_agg.operator.aggregate.step import step
from substrait_agg.operator.common.emission import Emission
from substrait_agg.operator.common.protocol import OperatorResult, StateReader
from substrait_agg.operator.common.spec import OperatorSpec
from substrait_agg.operator.measures.finalize import GroupState, row_counts
from substrait_agg.operator.set_operation.rules import output_weights
from substrait_agg.operator.set_operation.spec import SetOperationSpec

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
        parts = [_counted(rows, port) for port, rows in enumerate(ports)]
        rows = pa.concat_tables(parts, promote_options="default")
        return step(self.spec, rows, state, emission, self._shown)

    def _shown(
        self, spec: OperatorSpec, _groups: BatchGroups, state: GroupState
    ) -> npt.NDArray[np.int64]:
        return output_weights(self.spec.operation, row_counts(spec, state))


def _counted(rows: pa.Table, port: int) -> pa.Table:
    """Return the rows of a port with their weight as the addend of the accumulator of the port."""
    for name in rows.column_names:
        if name.startswith(_WEIGHT_LIMBS):
            addend = f"a{port}_{name.removeprefix(_WEIGHT_LIMBS)}"
            if addend in rows.column_names:
                rows = rows.drop_columns([addend])
            rows = rows.append_column(addend, rows.column(name))
    return rows
