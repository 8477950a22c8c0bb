"""The groups of a slice: collected from its rows, with ids that resolve hash collisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.functions.numbers import exact
from substrait_agg.operator.common.spec import InputSpec, OperatorSpec
from substrait_agg.operator.numeric.delta import (
    ROOM,
    FloatDigits,
    coefficients,
    consolidate,
    fixed_digits,
    float_digits,
    int64_column,
    largest,
)
from substrait_agg.state.keys.rows import Hashes, Indices, beginnings, group_rows, take
from substrait_agg.state.tree import KeyedTree, LookupResult
from substrait_agg.state.weights import sum_segments

CollisionIds = npt.NDArray[np.uint16]
MAX_CHAIN = (1 << 16) - 1
_CHAIN_BITS = 32


@dataclass(frozen=True, slots=True)
class RowGroups:
    """The assignment of rows to `count` groups.

    Attributes:
        order: the rows, ordered by group.
        starts: position in that order where each group with rows begins.
        at: ordinals of these groups, ascending; None if all groups have rows.
        count: number of groups.
    """

    order: Indices
    starts: Indices
    at: Indices | None
    count: int

    @staticmethod
    def of(of_row: Indices, count: int) -> RowGroups:
        """Return the assignment, given the group of each row."""
        order = np.argsort(of_row, kind="stable")
        groups = of_row[order]
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        return RowGroups(order, starts, groups[starts], count)

    @property
    def longest(self) -> int:
        """Return the maximal number of rows of a group."""
        return int(np.diff(self.starts, append=len(self.order)).max(initial=0))

    def sums(self, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Sum values per group."""
        ordered = values.take(self.order)
        if len(self.starts) < len(self.order):
            ordered = sum_segments(ordered, self.starts)
        if self.at is None:
            return ordered
        result = np.zeros(self.count, np.int64)
        result[self.at] = ordered
        return result

    def sum_rows(self, digits: exact.Digits) -> exact.Digits:
        """Sum uncarried digits per group."""
        if self.at is None:
            return consolidate(digits, self.starts, self.order)
        result = np.zeros((len(digits), self.count), np.int64)
        if len(self.at):
            result[:, self.at] = consolidate(digits, self.starts, self.order)
        return result

    def sum_floats(self, value: FloatDigits) -> FloatDigits:
        """Sum float digits per group."""
        registers = None if value.registers is None else self.sum_rows(value.registers)
        return FloatDigits(value.base, self.sum_rows(value.digits), registers)


@dataclass(frozen=True, slots=True)
class BatchGroups:
    """The groups of a slice.

    Attributes:
        hashes: one per group, ascending.
        keys: key columns.
        of_row: the group of each row of the slice.
        rows: the rows of each group.
    """

    hashes: Hashes
    keys: list[pa.Array]
    of_row: Indices
    rows: RowGroups

    @property
    def count(self) -> int:
        """Return the number of groups."""
        return len(self.hashes)

    def reorder(self, order: Indices) -> tuple[BatchGroups, Indices]:
        """Return the groups in another order, and the new ordinal of each group."""
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        of_row = place[self.of_row]
        rows = RowGroups.of(of_row, self.count)
        return BatchGroups(self.hashes[order], take(self.keys, order), of_row, rows), place


def collect_groups(spec: InputSpec, slice_: pa.Table) -> BatchGroups:
    """Return the groups of the rows of a slice."""
    hashes = slice_.column("hash").to_numpy()
    keys = [slice_.column(f"k{i}").combine_chunks() for i in range(len(spec.keys))]
    order, first = group_rows(hashes, keys)
    starts = np.flatnonzero(first)
    first_rows = order[starts]
    of_row = np.empty(len(order), np.int64)
    of_row[order] = np.cumsum(first) - 1
    rows = RowGroups(order, starts, None, len(starts))
    return BatchGroups(hashes[first_rows], take(keys, first_rows), of_row, rows)


@dataclass(frozen=True, slots=True)
class Sums:
    """The additions of a slice to each group.

    Attributes:
        weight: uncarried digits of the total weight.
        fixed: uncarried digits per ordinal of the accumulators of fixed size.
        floats: digits per ordinal of the float accumulators.
    """

    weight: exact.Digits
    fixed: dict[int, exact.Digits]
    floats: dict[int, FloatDigits]


def add_rows(spec: OperatorSpec, rows: pa.Table, groups: RowGroups) -> Sums:
    """Sum delta rows per group, for the accumulators that read rows rather than trees."""
    fixed: dict[int, exact.Digits] = {}
    floats: dict[int, FloatDigits] = {}
    longest = groups.longest
    columns: dict[str, list[str]] = {}
    for name in rows.column_names:
        columns.setdefault(name.partition("_")[0], []).append(name)
    for i, accumulator in enumerate(spec.accumulators):
        if accumulator.tree is not None:
            continue
        bins = f"b{i}" if accumulator.floating else ""
        summed = _sum(rows, columns.get(f"a{i}", ()), groups, longest, bins=bins)
        if accumulator.floating:
            value = float_digits(summed or rows, i, accumulator)
            floats[i] = value if summed else groups.sum_floats(value)
        else:
            number = fixed_digits(summed or rows, i, accumulator)
            fixed[i] = number if summed else groups.sum_rows(number)
    summed = _sum(rows, columns["w"], groups, longest)
    weight = coefficients(summed or rows, "w")
    return Sums(weight if summed else groups.sum_rows(weight), fixed, floats)


def _sum(
    rows: pa.Table, names: Sequence[str], groups: RowGroups, longest: int, *, bins: str = ""
) -> pa.Table | None:
    """Sum coefficients per group, so that fewer numbers are converted to digits.

    Args:
        rows: the delta rows.
        names: the columns of the number.
        groups: the groups of the rows.
        longest: maximal number of rows of a group.
        bins: the column of its bins, if it is a float.

    Returns:
        One row per group. None if a sum might not fit 63 bits, if values are in different bins, or
        if decimals are not split into coefficients.
    """
    whole_decimals = any("_" not in name for name in names)
    if whole_decimals or (bins and int64_column(rows, bins).any()):
        return None
    columns = {}
    for name in names:
        column = int64_column(rows, name)
        magnitude = largest(column)
        if not magnitude:
            columns[name] = np.zeros(groups.count, np.int64)
            continue
        if magnitude >= ROOM // max(1, longest):
            return None
        columns[name] = groups.sums(column)
    if bins:
        columns[bins] = np.zeros(groups.count, np.int64)
    return pa.table(columns)


def with_collision_ids(
    spec: OperatorSpec, groups: BatchGroups, lookup: LookupResult, tree: KeyedTree
) -> tuple[BatchGroups, LookupResult, CollisionIds]:
    """Assign collision ids and order the groups by hash and collision id.

    Only ordered trees need this; without them all ids are 0.
    """
    if not spec.trees:
        return groups, lookup, np.zeros(groups.count, np.uint16)
    collision_ids = assign_collision_ids(groups, lookup, tree)
    order = ordered_by_collision_id(groups, collision_ids)
    if order is None:
        return groups, lookup, collision_ids
    moved, place = groups.reorder(order)
    return moved, replace(lookup, positions=place[lookup.positions]), collision_ids[order]


def assign_collision_ids(
    groups: BatchGroups, lookup: LookupResult, tree: KeyedTree
) -> CollisionIds:
    """Return the collision id of each group: a number that separates it from groups with its hash.

    Stored groups keep their id. Keys that differ only in which parts are null share a hash, since
    Spark's hash of a key skips nulls: (1, null) and (null, 1). Other keys share a hash about once
    in 2^63 pairs.

    Raises:
        OverflowError: more groups share a hash than there are ids.
    """
    collision_ids = np.zeros(groups.count, np.uint16)
    has_id = np.zeros(groups.count, np.bool_)
    if len(lookup.positions):
        collision_ids[lookup.positions] = lookup.rows.column("chain").to_numpy()
        has_id[lookup.positions] = True
    again = np.flatnonzero(groups.hashes[1:] == groups.hashes[:-1]) + 1
    doubtful = np.zeros(groups.count, np.bool_)
    doubtful[again] = doubtful[again - 1] = True
    doubtful[lookup.met] = True
    doubtful &= ~has_id
    new = np.flatnonzero(doubtful)
    if len(new):
        # The tree contains the groups that were found, and so their ids.
        stored = tree.rows_of(np.unique(groups.hashes[new]), ("hash", "chain"))
        collision_ids[new] = _free_collision_ids(
            groups.hashes[new], stored.column("hash").to_numpy(), stored.column("chain").to_numpy()
        )
    return collision_ids


def _free_collision_ids(hashes: Hashes, taken_by: Hashes, taken_ids: CollisionIds) -> CollisionIds:
    """Return different ids for groups of one hash, the least ones that are not taken.

    Args:
        hashes: hashes of the groups without an id, ascending.
        taken_by: hashes of the groups with an id, all of them among `hashes`.
        taken_ids: their ids.
    """
    labels, starts = np.unique(hashes, return_index=True)
    label = np.repeat(np.arange(len(labels)), np.diff(starts, append=len(hashes)))
    turn = np.arange(len(hashes)) - starts[label]
    # Combine a hash ordinal and an id in one number: ids, turns and gaps are below 2^17.
    used = np.unique(np.searchsorted(labels, taken_by) << _CHAIN_BITS | taken_ids.astype(np.int64))
    owner = used >> _CHAIN_BITS
    begin = np.searchsorted(owner, np.arange(len(labels)), "left")
    gaps = used - (np.arange(len(used)) - begin[owner])  # number of free ids below each taken one
    below = np.searchsorted(gaps, (label << _CHAIN_BITS) + turn, "right") - begin[label]
    collision_ids = turn + below
    if int(collision_ids.max()) > MAX_CHAIN:
        raise OverflowError(f"more than {MAX_CHAIN + 1} groups share a hash")
    return collision_ids.astype(np.uint16)


def ordered_by_collision_id(groups: BatchGroups, collision_ids: CollisionIds) -> Indices | None:
    """Return the order of the groups by hash and collision id, None if they are in order."""
    same = groups.hashes[1:] == groups.hashes[:-1]
    if not (same & (collision_ids[1:] < collision_ids[:-1])).any():
        return None
    return np.lexsort((collision_ids, groups.hashes))


def group_ordinals(
    groups: Hashes, collision_ids: CollisionIds, hashes: Hashes, wanted_ids: CollisionIds
) -> Indices:
    """Return the group of each hash and collision id, among groups in order of both.

    A group that is requested several times in succession is looked up once.
    """
    starts = beginnings(hashes, wanted_ids)
    if len(starts) < len(hashes):
        ordinals = group_ordinals(groups, collision_ids, hashes[starts], wanted_ids[starts])
        return np.repeat(ordinals, np.diff(starts, append=len(hashes)))
    at = np.searchsorted(groups, hashes, "left")
    wrong = np.flatnonzero(collision_ids[at] != wanted_ids)
    while len(wrong):
        at[wrong] += 1
        wrong = wrong[collision_ids[at[wrong]] != wanted_ids[wrong]]
    return at
