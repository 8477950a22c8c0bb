"""The values of all measures of the groups of a slice.

A measure by rank does not read all values of a large group. It reads a few of them, whose weights
preserve the number of values and the value at each relevant rank. So the measure has the same value
as for the whole group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.functions.aggregates.accumulators import tree_counters
from substrait_agg.functions.aggregates.kinds import KINDS, Evaluation, MeasureKind, complete
from substrait_agg.operator.aggregate.groups import CollisionIds
from substrait_agg.operator.aggregate.trees import GroupExtremes, TreeDelta, overlaid
from substrait_agg.operator.common.spec import MeasureSpec, OperatorSpec
from substrait_agg.operator.measures.contributors import concat, convert
from substrait_agg.operator.measures.finalize import GroupState, count_of, fixed_of, number_value
from substrait_agg.operator.measures.moments import moment_value
from substrait_agg.operator.measures.multiset_aggregates import SCANS
from substrait_agg.operator.measures.user_aggregates import additive_value, ordered_value
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.required import require
from substrait_agg.state.keys.rows import Hashes, Indices, Mask
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.segments import Segments

Int64s = npt.NDArray[np.int64]
READ_ENTRIES = 1 << 20  # maximal number of entries in memory while groups are read completely


@dataclass(frozen=True, slots=True)
class MeasuredGroups:
    """The groups of a slice after it, as inputs of the measures.

    Attributes:
        state: their accumulators.
        shown: mask of the groups shown now.
        existed: mask of the groups shown before, with the values `before`.
        before: the measures as last emitted.
        stale: mask of the groups whose last emitted values do not match their trees before the
            slice, because they waited to be emitted.
        deltas: per tree, the changes of the slice.
        extremes: per stored extreme, its value after the slice.
        surrogates: returns this many surrogate keys that were never used before.
    """

    spec: OperatorSpec
    hashes: Hashes
    collision_ids: CollisionIds
    keys: Sequence[pa.Array]
    state: GroupState
    shown: Mask
    existed: Mask
    before: Sequence[pa.Array]
    stale: Mask
    deltas: Sequence[TreeDelta]
    extremes: Sequence[GroupExtremes]
    surrogates: Callable[[int], Int64s]


def measure_values(groups: MeasuredGroups) -> list[pa.Array]:
    """Return the values of all measures, null for groups that are not shown.

    Raises:
        RunFailed: RESULT_OVERFLOW if a value does not fit the measure's type and its overflow
            option is ERROR.
    """
    return [measure_value(groups, ordinal) for ordinal in range(len(groups.spec.measures))]


def measure_value(groups: MeasuredGroups, ordinal: int) -> pa.Array:
    """Return the values of one measure; see `measure_values`."""
    measure = groups.spec.measures[ordinal]
    evaluate = _EVALUATE[KINDS[measure.kind].evaluation]
    return _mask(evaluate(groups, measure, ordinal), groups.shown)


def _mask(values: pa.Array, keep: Mask) -> pa.Array:
    if keep.all():
        return values
    return values.take(pa.array(np.arange(len(keep)), mask=~keep))


def _number(groups: MeasuredGroups, measure: MeasureSpec, _: int) -> pa.Array:
    return number_value(groups.spec, groups.state, measure, groups.shown)


def _boolean(groups: MeasuredGroups, measure: MeasureSpec, _: int) -> pa.Array:
    holds, fails = (
        count_of(groups.spec, groups.state, ordinal) > 0 for ordinal in measure.accumulators
    )
    value = ~fails if measure.kind == "bool_and" else holds
    return pa.array(value, mask=~(holds | fails))


def _moment(groups: MeasuredGroups, measure: MeasureSpec, _: int) -> pa.Array:
    count, *ordinals = measure.accumulators
    sums = {
        name: groups.state.floats[require(ordinal)]
        for name, ordinal in zip(KINDS[measure.kind].sums, ordinals, strict=True)
    }
    return moment_value(measure, count_of(groups.spec, groups.state, count), sums)


def _end(groups: MeasuredGroups, measure: MeasureSpec, _: int) -> pa.Array:
    end = groups.extremes[groups.spec.extremes.index((measure.tree, measure.side))]
    return convert(_mask(end.payload[measure.values[0]], groups.shown), measure)


def _user(groups: MeasuredGroups, measure: MeasureSpec, ordinal: int) -> pa.Array:
    if not measure.accumulators:
        return _scan(groups, measure, ordinal)
    count, *totals = measure.accumulators
    digits = [fixed_of(groups.spec, groups.state, require(t)) for t in totals]
    rows = count_of(groups.spec, groups.state, count)
    return additive_value(measure, rows, digits, to_arrow(measure.type))


def _scan(groups: MeasuredGroups, measure: MeasureSpec, ordinal: int) -> pa.Array:
    """Read only the groups whose tree changed; the others keep their values."""
    delta = groups.deltas[require(measure.tree)]
    changed = groups.stale | ~groups.existed
    changed[delta.groups] = True
    rows = np.flatnonzero(changed & groups.shown)
    values = groups.before[ordinal]
    if by_rank(measure):
        totals, live, entries = (n[rows] for n in _sizes(groups, measure))
        large = large_groups(totals, live, entries)
        some, rows = rows[large], rows[~large]
        place = groups.hashes[some], groups.collision_ids[some]
        segments = few_values(delta.tree, *place, totals[large], measure)
        values = overlaid(values, some, _compute(segments, measure))
    return overlaid(values, rows, _read_whole(groups, measure, rows)) if len(rows) else values


def _read_whole(groups: MeasuredGroups, measure: MeasureSpec, rows: Indices) -> pa.Array:
    """Compute the values of some groups from all their entries.

    The groups are processed in parts, to limit the number of entries in memory.
    """
    tree = groups.deltas[require(measure.tree)].tree
    most = tree.rows_at_once(READ_ENTRIES)
    _, entries = _entries(groups, measure)
    part = (np.cumsum(np.maximum(entries[rows], 1)) - 1) // most
    cuts = np.flatnonzero(np.diff(part)) + 1
    parts = [
        _compute(tree.live(groups.hashes[some], groups.collision_ids[some]), measure)
        for some in np.split(rows, cuts)
    ]
    return parts[0] if len(parts) == 1 else concat(parts, measure)


def _compute(segments: Segments, measure: MeasureSpec) -> pa.Array:
    if measure.kind == "user":
        return ordered_value(measure, segments, to_arrow(measure.type))
    return SCANS[measure.kind](segments, measure)


def _sizes(groups: MeasuredGroups, measure: MeasureSpec) -> tuple[Int64s, Int64s, Int64s]:
    """Return per group the number of values of the measure, of live entries and of all entries."""
    live, entries = _entries(groups, measure)
    return count_of(groups.spec, groups.state, measure.count), live, entries


def _entries(groups: MeasuredGroups, measure: MeasureSpec) -> tuple[Int64s, Int64s]:
    """Return per group the number of live entries and of all entries in the measure's tree."""
    spec, state = groups.spec, groups.state
    live, entries = (
        count_of(spec, state, spec.accumulators.index(counter))
        for counter in tree_counters(require(measure.tree))
    )
    return live, entries


def _surrogate(groups: MeasuredGroups, _measure: MeasureSpec, ordinal: int) -> pa.Array:
    """Return surrogate keys: kept while a group is shown, new when it reappears."""
    fresh = np.flatnonzero(groups.shown & ~groups.existed)
    before = groups.before[ordinal]
    return overlaid(before, fresh, pa.array(groups.surrogates(len(fresh))).cast(before.type))


def _compute_grouping(groups: MeasuredGroups, measure: MeasureSpec, _: int) -> pa.Array:
    constants = pa.array(list(measure.constants), to_arrow(measure.type))
    if len(measure.constants) == 1:
        return constants.take(pa.array(np.zeros(len(groups.hashes), np.int64)))
    return constants.take(pc.cast(groups.keys[-1], pa.int64()))


_EVALUATE: Mapping[Evaluation, Callable[[MeasuredGroups, MeasureSpec, int], pa.Array]] = complete(
    {
        "number": _number,
        "condition": _boolean,
        "moment": _moment,
        "extreme": _end,
        "multiset": _scan,
        "user": _user,
        "surrogate_key": _surrogate,
        "grouping": _compute_grouping,
    },
    Evaluation,
)


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
    position = measure.constants[0] if measure.constants else 1
    if position is None:
        return False
    return measure.kind != "quantile" or 1 <= int(position) <= _MOST_QUANTILES


def large_groups(totals: Int64s, live: Int64s, entries: Int64s) -> npt.NDArray[np.bool_]:
    """Return a mask of the groups with many entries, none of them of negative weight."""
    return np.asarray((live >= LARGE) & (live == entries) & (totals < _MOST_TOTAL))


def few_values(
    tree: OrderedTree,
    hashes: Hashes,
    collision_ids: CollisionIds,
    totals: Int64s,
    measure: MeasureSpec,
) -> Segments:
    """Return the values at the relevant ranks, with weights that represent all values.

    Args:
        tree: the tree of the measure.
        hashes: of the groups.
        collision_ids: collision ids of the groups.
        totals: number of values of each group, above 0.
        measure: a measure for which `by_rank` is True.
    """
    ranks = np.sort(np.clip(_RANKS[measure.kind](measure, totals), 0, totals - 1), axis=0).T
    new = np.ones(ranks.shape, np.bool_)
    new[:, 1:] = ranks[:, 1:] > ranks[:, :-1]
    owners = np.nonzero(new)[0]
    new_ranks = ranks[new]
    _, columns = tree.at_ranks(hashes, collision_ids, owners, new_ranks)
    before = np.concatenate([[-1], new_ranks[:-1]])
    before[np.flatnonzero(np.diff(owners, prepend=-1))] = -1
    offsets = np.searchsorted(owners, np.arange(len(hashes) + 1), "left")
    return Segments(offsets, columns, new_ranks - before)
