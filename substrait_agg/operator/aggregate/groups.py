"""The groups that a slice touches: gathered from its rows, found in the group tree, told apart where hashes collide."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.functions.numbers import exact
from substrait_agg.operator.common.spec import InputSpec, OperatorSpec
from substrait_agg.operator.numeric.delta import (
    FloatDigits,
    coefficients,
    consolidate,
    fixed_digits,
    float_digits,
    has_room,
    int64_column,
)
from substrait_agg.state.keys.rows import Hashes, Indices, group_rows, take
from substrait_agg.state.tree import Found, Tree

CollisionIds = npt.NDArray[np.uint16]
MAX_CHAIN = (1 << 16) - 1
_CHAIN_BITS = 32


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Which rows belong to which of `count` groups.

    Attributes:
        order: the rows, those of one group behind each other.
        starts: where in that order each group that has rows begins.
        at: ordinals of those groups, ascending; None where all groups have rows.
        count: number of groups.
    """

    order: Indices
    starts: Indices
    at: Indices | None
    count: int

    @staticmethod
    def of(of_row: Indices, count: int) -> RowGroups:
        """From the group of each row."""
        order = np.argsort(of_row, kind="stable")
        groups = of_row[order]
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        return RowGroups(order, starts, groups[starts], count)

    @property
    def longest(self) -> int:
        """How many rows a group has at most."""
        return int(np.diff(self.starts, append=len(self.order)).max(initial=0))

    def sums(self, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Per group, the sum of its rows' values."""
        ordered = values.take(self.order)
        if len(self.starts) < len(self.order):
            ordered = np.add.reduceat(ordered, self.starts)
        if self.at is None:
            return ordered
        result = np.zeros(self.count, np.int64)
        result[self.at] = ordered
        return result

    def sum_rows(self, digits: exact.Digits) -> exact.Digits:
        """Per group, the sum of its rows' uncarried digits."""
        if self.at is None:
            return consolidate(digits, self.starts, self.order)
        result = np.zeros((len(digits), self.count), np.int64)
        if len(self.at):
            result[:, self.at] = consolidate(digits, self.starts, self.order)
        return result

    def add_up_floats(self, value: FloatDigits) -> FloatDigits:
        """Per group, the sum of its rows' float digits."""
        registers = None if value.registers is None else self.sum_rows(value.registers)
        return FloatDigits(value.base, self.sum_rows(value.digits), registers)


@dataclass(frozen=True, slots=True)
class BatchGroups:
    """The groups of a slice.

    Attributes:
        hashes: one per group, ascending.
        keys: key columns.
        of_row: the group of each row of the slice.
        rows: the same, the other way round.
    """

    hashes: Hashes
    keys: list[pa.Array]
    of_row: Indices
    rows: RowGroups

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.hashes)

    def reordered(self, order: Indices) -> tuple[BatchGroups, Indices]:
        """The groups in another order, and the new place of each."""
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        of_row = place[self.of_row]
        rows = RowGroups.of(of_row, self.count)
        return BatchGroups(self.hashes[order], take(self.keys, order), of_row, rows), place


def collect_groups(spec: InputSpec, slice_: pa.Table) -> BatchGroups:
    """The groups of the rows of a slice."""
    hashes = slice_.column("hash").to_numpy()
    keys = [slice_.column(f"k{i}").combine_chunks() for i in range(len(spec.keys))]
    order, first = group_rows(hashes, keys)
    starts = np.flatnonzero(first)
    chosen = order[starts]
    of_row = np.empty(len(order), np.int64)
    of_row[order] = np.cumsum(first) - 1
    rows = RowGroups(order, starts, None, len(starts))
    return BatchGroups(hashes[chosen], take(keys, chosen), of_row, rows)


@dataclass(frozen=True, slots=True)
class Sums:
    """What a slice adds to each group.

    Attributes:
        weight: uncarried digits of the total weight.
        fixed: uncarried digits per ordinal of the accumulators of fixed size.
        floats: digits per ordinal of the float accumulators.
    """

    weight: exact.Digits
    fixed: dict[int, exact.Digits]
    floats: dict[int, FloatDigits]


def add_rows(spec: OperatorSpec, rows: pa.Table, groups: RowGroups) -> Sums:
    """Add up delta rows per group, for the accumulators that rows feed."""
    fixed: dict[int, exact.Digits] = {}
    floats: dict[int, FloatDigits] = {}
    for i, accumulator in enumerate(spec.accumulators):
        if accumulator.tree >= 0:
            continue
        summed = _summed(rows, f"a{i}", groups, bins=f"b{i}" if accumulator.floating else "")
        if accumulator.floating:
            value = float_digits(summed or rows, i, accumulator, spec.limb_bits)
            floats[i] = value if summed else groups.add_up_floats(value)
        else:
            number = fixed_digits(summed or rows, i, accumulator, spec.limb_bits)
            fixed[i] = number if summed else groups.sum_rows(number)
    summed = _summed(rows, "w", groups)
    weight = coefficients(summed or rows, "w", spec.limb_bits)
    return Sums(weight if summed else groups.sum_rows(weight), fixed, floats)


def _summed(rows: pa.Table, prefix: str, groups: RowGroups, *, bins: str = "") -> pa.Table | None:
    """One row per group with the sums of its coefficients, so that fewer numbers are made digits of.

    None where a sum might not fit 63 bits, where values stand in different bins, or where decimals come as such.
    """
    names = [name for name in rows.column_names if name.startswith(f"{prefix}_")]
    if prefix in rows.column_names or (bins and int64_column(rows, bins).any()):
        return None
    longest = groups.longest
    columns = {}
    for name in names:
        column = int64_column(rows, name)
        if not has_room(column, longest):
            return None
        columns[name] = groups.sums(column)
    if bins:
        columns[bins] = np.zeros(groups.count, np.int64)
    return pa.table(columns)


def assign_chains(groups: BatchGroups, found: Found, tree: Tree) -> CollisionIds:
    """Per group the number that tells it apart from other groups of its hash; groups found keep theirs.

    Hashes are shared by keys that differ only in where their nulls stand, since Spark's hash of a key skips its nulls:
    (1, null) and (null, 1). Other keys share one about once in 2^63 pairs.

    Raises:
        OverflowError: more groups share a hash than there are numbers.
    """
    chains = np.zeros(groups.count, np.uint16)
    known = np.zeros(groups.count, np.bool_)
    if len(found.positions):
        chains[found.positions] = found.rows.column("chain").to_numpy()
        known[found.positions] = True
    again = np.flatnonzero(groups.hashes[1:] == groups.hashes[:-1]) + 1
    doubtful = np.zeros(groups.count, np.bool_)
    doubtful[again] = doubtful[again - 1] = True
    doubtful[found.met] = True
    doubtful &= ~known
    new = np.flatnonzero(doubtful)
    if len(new):
        # Groups that were found are in the tree, and so are their numbers.
        stored = tree.rows_of(np.unique(groups.hashes[new]), ("hash", "chain"))
        chains[new] = _free_chains(
            groups.hashes[new], stored.column("hash").to_numpy(), stored.column("chain").to_numpy()
        )
    return chains


def _free_chains(hashes: Hashes, taken_by: Hashes, taken: CollisionIds) -> CollisionIds:
    """Different numbers for groups of one hash, the least ones that are not taken.

    Args:
        hashes: of the groups that get a number, ascending.
        taken_by: hashes of the groups that have one, all of them among `hashes`.
        taken: their numbers.
    """
    labels, starts = np.unique(hashes, return_index=True)
    label = np.repeat(np.arange(len(labels)), np.diff(starts, append=len(hashes)))
    turn = np.arange(len(hashes)) - starts[label]
    # A hash and a number in one: numbers, turns and gaps are below the width of a number and a bit.
    used = np.unique(np.searchsorted(labels, taken_by) << _CHAIN_BITS | taken.astype(np.int64))
    owner = used >> _CHAIN_BITS
    begin = np.searchsorted(owner, np.arange(len(labels)), "left")
    gaps = used - (np.arange(len(used)) - begin[owner])  # how many numbers below each one are free
    below = np.searchsorted(gaps, (label << _CHAIN_BITS) + turn, "right") - begin[label]
    chains = turn + below
    if int(chains.max()) > MAX_CHAIN:
        raise OverflowError(f"more than {MAX_CHAIN + 1} groups share a hash")
    return chains.astype(np.uint16)


def ordered_by_chain(groups: BatchGroups, chains: CollisionIds) -> Indices | None:
    """The order of the groups by hash and chain, None where they are in it already."""
    same = groups.hashes[1:] == groups.hashes[:-1]
    if not (same & (chains[1:] < chains[:-1])).any():
        return None
    return np.lexsort((chains, groups.hashes))


def places(groups: Hashes, chains: CollisionIds, hashes: Hashes, wanted: CollisionIds) -> Indices:
    """For each (hash, wanted chain) the ordinal of its group; groups are in order of hash and chain."""
    at = np.searchsorted(groups, hashes, "left")
    wrong = np.flatnonzero(chains[at] != wanted)
    while len(wrong):
        at[wrong] += 1
        wrong = wrong[chains[at[wrong]] != wanted[wrong]]
    return at
