"""The changelog of an operator: retractions of outdated rows and insertions of current rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.operator.aggregate.groups import BatchGroups
from substrait_agg.operator.aggregate.stored import StoredGroups
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.operator.common.spec import OperatorSpec
from substrait_agg.state.keys.rows import Indices, equal, take

Int64s = npt.NDArray[np.int64]


def row_changes(
    spec: OperatorSpec,
    groups: BatchGroups,
    old: StoredGroups,
    shown: Int64s,
    values: Sequence[pa.Array],
) -> pa.Table:
    """Return the changes of a slice: output columns and ``__weight``, retractions first.

    Args:
        spec: the operator.
        groups: the groups of a slice.
        old: the groups as shown before.
        shown: the weight with which each group is shown now; 0 if it is not shown.
        values: its current measures.
    """
    same = (old.shown > 0) & (shown > 0)
    for before, after in zip(old.values, values, strict=True):
        same &= equal(before, after)
    delta = shown - old.shown
    if spec.groups_are_rows:
        parts = [_emit(spec, groups, values, delta, np.flatnonzero(delta < 0))]
        parts.append(_emit(spec, groups, values, delta, np.flatnonzero(delta > 0)))
        return pa.concat_tables(parts)
    retracted = np.flatnonzero((old.shown > 0) & ~same)
    inserted = np.flatnonzero((shown > 0) & ~same)
    return pa.concat_tables(
        [
            _emit(spec, groups, old.values, -old.shown, retracted),
            _emit(spec, groups, values, shown, inserted),
        ]
    )


def _emit(
    spec: OperatorSpec,
    groups: BatchGroups,
    values: Sequence[pa.Array],
    weights: Int64s,
    rows: Indices,
) -> pa.Table:
    columns = [*take(groups.keys, rows), *take(values, rows), pa.array(weights[rows])]
    schema = spec.output.append(pa.field(WEIGHT, pa.int64()))
    return pa.Table.from_arrays(columns, schema=schema)
