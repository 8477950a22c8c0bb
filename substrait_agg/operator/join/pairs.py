"""The output rows of a join, and the condition on pairs of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.bind.bound import Expr
from substrait_agg.evaluation.expressions import evaluate
from substrait_agg.operator.join.spec import JoinSide, JoinSpec
from substrait_agg.state.keys.rows import Mask, as_mask, whole

FIRST_KEY = 2  # columns of a run before its keys

Weights = npt.NDArray[np.int64]


def columns_of(side: JoinSide, rows: pa.RecordBatch) -> list[pa.Array]:
    """Return the columns of a side, given its rows as in a run."""
    return [rows.column(FIRST_KEY + place) for place in side.columns]


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """Return a table as one record batch."""
    columns = [whole(table, name) for name in table.column_names]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


class Pairs:
    """Builds output rows from rows of both sides, or of one side."""

    def __init__(self, spec: JoinSpec) -> None:
        self._spec = spec

    def table(self, left: pa.RecordBatch, right: pa.RecordBatch, weights: Weights) -> pa.Table:
        """Return the output of pairs of rows."""
        sides = zip(self._spec.sides, (left, right), strict=True)
        return self._table([c for side, rows in sides for c in columns_of(side, rows)], weights)

    def alone(
        self, port: int, rows: pa.RecordBatch, weights: Weights, *, matched: bool
    ) -> pa.Table:
        """Return the output of rows of one side; the columns of the other side are null.

        Args:
            port: the side.
            rows: its rows, as in a run.
            weights: their weights in the output.
            matched: the value of the mark of a mark join.
        """
        columns: list[pa.Array] = []
        for i, side in enumerate(self._spec.sides):
            if i == port:
                columns += columns_of(side, rows)
            else:
                stored = [*side.layout.key_types, *side.layout.value_types]
                columns += [pa.nulls(rows.num_rows, stored[place]) for place in side.columns]
        mark = pa.array(np.full(rows.num_rows, matched))
        return self._table([*columns, mark], weights)

    def _table(self, columns: Sequence[pa.Array], weights: Weights) -> pa.Table:
        output = [columns[ordinal] for ordinal in self._spec.chosen]
        return pa.Table.from_arrays([*output, pa.array(weights)], schema=self._spec.changes)


class ResidualFilter:
    """The residual condition of a join."""

    def __init__(self, spec: JoinSpec, condition: Expr) -> None:
        self._spec = spec
        self._condition = condition

    def holds(self, left: pa.RecordBatch, right: pa.RecordBatch) -> Mask:
        """Return a mask of the pairs for which the condition is true."""
        sides = zip(self._spec.sides, (left, right), strict=True)
        columns = [column for side, rows in sides for column in columns_of(side, rows)]
        result = evaluate(self._condition, columns, left.num_rows)
        return as_mask(pc.fill_null(result, False))
