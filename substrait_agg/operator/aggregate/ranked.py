"""Measures by rank over large groups, computed from the values near the relevant ranks.

The values of a group are replaced by a few of them. Their weights preserve the number of values and
the value at each relevant rank, so the measure has the same value as for the whole group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from substrait_agg.functions.aggregates.kinds import MeasureKind
from substrait_agg.operator.aggregate.groups import CollisionIds
from substrait_agg.operator.common.spec import MeasureSpec
from substrait_agg.state.keys.rows import Hashes
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.segments import Segments

Int64s = npt.NDArray[np.int64]

LARGE = 1024
"""The number of entries from which on a group is not read completely."""
_AROUND = np.arange(-2, 3)  # roundings of a rank, and its neighbours for interpolation
_MOST_TOTAL = 1 << 50  # ranks are computed in floating point, which must be exact to the unit
_MOST_QUANTILES = 256


def _fractions(measure: MeasureSpec) -> list[Fraction]:
    if measure.kind == "median":
        return [Fraction(1, 2)]
    if measure.kind == "quantile":
        parts = int(measure.constants[0])
        return [Fraction(i, parts) for i in range(parts + 1)]
    return [Fraction(str(measure.constants[0]))]


def _by_fraction(measure: MeasureSpec, totals: Int64s) -> Int64s:
    """Return ranks around each fraction, one row per rank, and the last rank, where nulls are."""
    near = [
        np.floor(totals * float(f)).astype(np.int64) + offset
        for f in _fractions(measure)
        for offset in _AROUND
    ]
    return np.stack([*near, totals - 1])


def _by_place(measure: MeasureSpec, totals: Int64s) -> Int64s:
    return np.stack([np.full(len(totals), int(measure.constants[0]) - 1), totals - 1])


_RANKS: Mapping[MeasureKind, Callable[[MeasureSpec, Int64s], Int64s]] = {
    "median": _by_fraction,
    "percentile_cont": _by_fraction,
    "percentile_disc": _by_fraction,
    "quantile": _by_fraction,
    "nth_value": _by_place,
}


def by_rank(measure: MeasureSpec) -> bool:
    """Return whether the measure depends on only a few ranks of its values."""
    if measure.distinct or measure.kind not in _RANKS or not measure.accumulators:
        return False
    given = measure.constants[0] if measure.constants else 1
    if given is None:
        return False
    return measure.kind != "quantile" or 1 <= int(given) <= _MOST_QUANTILES


def large_groups(totals: Int64s, live: Int64s, entries: Int64s) -> npt.NDArray[np.bool_]:
    """Return a mask of the groups with many entries, none of them of negative weight."""
    return np.asarray((live >= LARGE) & (live == entries) & (totals < _MOST_TOTAL))


def few_values(
    tree: OrderedTree, hashes: Hashes, chains: CollisionIds, totals: Int64s, measure: MeasureSpec
) -> Segments:
    """Return the values at the relevant ranks, with weights that represent all values.

    Args:
        tree: the tree of the measure.
        hashes: of the groups.
        chains: collision ids of the groups.
        totals: number of values of each group, above 0.
        measure: a measure for which `by_rank` is True.
    """
    ranks = np.sort(np.clip(_RANKS[measure.kind](measure, totals), 0, totals - 1), axis=0).T
    new = np.ones(ranks.shape, np.bool_)
    new[:, 1:] = ranks[:, 1:] > ranks[:, :-1]
    owners = np.nonzero(new)[0]
    asked = ranks[new]
    _, columns = tree.at_ranks(hashes, chains, owners, asked)
    before = np.concatenate([[-1], asked[:-1]])
    before[np.flatnonzero(np.diff(owners, prepend=-1))] = -1
    offsets = np.searchsorted(owners, np.arange(len(hashes) + 1), "left")
    return Segments(offsets, columns, asked - before)
