"""The changes of a version that took two passes: what came in the first and went in the second is no change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.operator.names import WEIGHT
from substrait_agg.state.rows import sortable


def consolidated(parts: Sequence[pa.Table]) -> pa.Table:
    """Change files of one version as one table: equal rows are one, and those whose weights add up to zero are left out.

    Args:
        parts: at least one table; all have the same columns, the last of them ``__weight``.
    """
    whole = pa.concat_tables(parts).combine_chunks()
    codes = {str(i): _codes(whole.column(i)) for i in range(whole.num_columns - 1)}
    table = pa.table({**codes, "w": whole.column(WEIGHT), "at": np.arange(whole.num_rows)})
    summed = table.group_by(list(codes)).aggregate([("w", "sum"), ("at", "min")])
    left = summed.filter(pc.not_equal(summed.column("w_sum"), 0)).sort_by("at_min")
    rows = whole.take(left.column("at_min"))
    return rows.set_column(rows.num_columns - 1, WEIGHT, left.column("w_sum"))


def _codes(column: pa.ChunkedArray) -> pa.Array:
    """A number per row that is equal for equal values, null for null."""
    values = pa.concat_arrays(column.chunks) if column.num_chunks else column.combine_chunks()
    return pc.dictionary_encode(sortable(values)).indices
