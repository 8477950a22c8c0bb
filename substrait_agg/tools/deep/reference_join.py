"""Join two sets of weighted rows completely, by key ids and sorting, without state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.flow.graph.join import KEPT_SIDES, PAIRED
from substrait_agg.operator.join.pairs import Pairs, ResidualFilter, one_batch
from substrait_agg.operator.join.spec import JoinSpec
from substrait_agg.state.keys.row_sizes import slices_to_take
from substrait_agg.state.keys.rows import Indices, Mask, as_mask, group_rows, row_hashes, whole

PAIRS_AT_ONCE = 1 << 18
"""Maximal number of pairs in memory at once."""

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Side:
    """The rows of one side.

    Attributes:
        rows: as in a run of an arrangement.
        ids: per row the number of its key; -1 if the key has a null that matches nothing.
    """

    rows: pa.RecordBatch
    ids: Int64s

    @property
    def weights(self) -> Int64s:
        return np.asarray(self.rows.column(1).to_numpy())

    def take(self, at: Indices) -> pa.RecordBatch:
        """Return some rows."""
        return self.rows.take(pa.array(at))


def join(spec: JoinSpec, left: pa.Table, right: pa.Table) -> Iterator[pa.Table]:
    """Yield the output rows of a join with their weights, in no order.

    Args:
        spec: the join.
        left: the rows of the left side, as in a run of an arrangement, each row once. Rows with
            nulls in their key may be among them.
        right: the rows of the right side.
    """
    sides = _sides(spec, left, right)
    totals = [np.zeros(side.rows.num_rows, np.int64) for side in sides]
    build = Pairs(spec)
    for at in _matches(spec, sides):
        weights = [side.weights[places] for side, places in zip(sides, at, strict=True)]
        for port in range(2):
            np.add.at(totals[port], at[port], weights[1 - port])
        if spec.kind in PAIRED and len(at[0]):
            rows = [side.take(places) for side, places in zip(sides, at, strict=True)]
            yield build.table(rows[0], rows[1], weights[0] * weights[1])
    for port, (side, total) in enumerate(zip(sides, totals, strict=True)):
        for places, flag in _alone(spec, port, total > 0):
            if len(places):
                yield build.alone(port, side.take(places), side.weights[places], matched=flag)


def _alone(spec: JoinSpec, port: int, matched: Mask) -> list[tuple[Indices, bool]]:
    """Return the rows of a side that are in the output by themselves, and their mark."""
    with_match, without = np.flatnonzero(matched), np.flatnonzero(~matched)
    if spec.kind == "semi":
        return [(with_match, True)] if port == 0 else []
    if not KEPT_SIDES[spec.kind][port]:
        return []
    return [(without, False), *([(with_match, True)] if spec.kind == "mark" else [])]


def _matches(spec: JoinSpec, sides: Sequence[_Side]) -> Iterator[tuple[Indices, Indices]]:
    """Yield the places of matching rows of both sides."""
    left, right = sides
    residual = None if spec.residual is None else ResidualFilter(spec, spec.residual)
    order = np.argsort(right.ids, kind="stable")
    ordered = right.ids[order]
    low = np.searchsorted(ordered, left.ids, "left")
    lengths = np.where(left.ids < 0, 0, np.searchsorted(ordered, left.ids, "right") - low)
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    for first in range(0, total, PAIRS_AT_ONCE):
        pairs = np.arange(first, min(first + PAIRS_AT_ONCE, total))
        left_places = np.searchsorted(ends, pairs, "right")
        right_places = order[low[left_places] + pairs - (ends[left_places] - lengths[left_places])]
        for at_left, at_right in _few(sides, left_places, right_places):
            if residual is None:
                yield at_left, at_right
                continue
            holds = residual.holds(left.take(at_left), right.take(at_right))
            yield at_left[holds], at_right[holds]


def _few(
    sides: Sequence[_Side], at_left: Indices, at_right: Indices
) -> Iterator[tuple[Indices, Indices]]:
    """Yield the places of both sides so that the rows there take few bytes at once."""
    left, right = (side.rows.columns for side in sides)
    for some in slices_to_take(left, at_left):
        for part in slices_to_take(right, at_right[some]):
            yield at_left[some][part], at_right[some][part]


def _sides(spec: JoinSpec, left: pa.Table, right: pa.Table) -> list[_Side]:
    names = [f"k{i}" for i in range(len(spec.keys))]
    tables = [table.combine_chunks() for table in (left, right)]
    keys = [pa.concat_arrays([whole(t, name) for t in tables]) for name in names]
    count = left.num_rows + right.num_rows
    order, first = group_rows(row_hashes(keys, np.zeros(count, np.uint64)), keys)
    ids = np.empty(count, np.int64)
    ids[order] = np.cumsum(first) - 1
    if not keys:
        ids[:] = 0
    ids[null_keys(spec, keys, count)] = -1
    parts = (ids[: left.num_rows], ids[left.num_rows :])
    return [_Side(one_batch(table), part) for table, part in zip(tables, parts, strict=True)]


def null_keys(spec: JoinSpec, keys: Sequence[pa.Array], rows: int) -> Mask:
    """Return a mask of the rows whose key has a null that matches nothing."""
    nulls = [
        as_mask(pc.is_null(key)) for key, safe in zip(keys, spec.null_safe, strict=True) if not safe
    ]
    return reduce(np.logical_or, nulls, np.zeros(rows, np.bool_))
