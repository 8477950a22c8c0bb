"""The groups that a slice touches: gathered from its rows, found in the group tree, told apart where hashes collide."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.functions import exact
from substrait_agg.operator.delta import (
    FloatDigits,
    add_up,
    coefficients,
    fixed_digits,
    float_digits,
)
from substrait_agg.operator.spec import OperatorSpec
from substrait_agg.state.rows import Hashes, Indices, group_rows, take
from substrait_agg.state.tree import KEYS_FROM, Found, Tree

Chains = npt.NDArray[np.uint16]
MAX_CHAIN = (1 << 16) - 1


@dataclass(frozen=True, slots=True)
class Touched:
    """The groups of a slice: ascending hashes, keys, and what the rows of the slice add to each.

    Attributes:
        hashes: one per group.
        keys: key columns.
        of_row: the group of each row of the slice.
        weight: uncarried digits of the total weight.
        fixed: uncarried digits per ordinal of the accumulators of fixed size that are fed by rows.
        floats: digits per ordinal of the float accumulators that are fed by rows.
    """

    hashes: Hashes
    keys: list[pa.Array]
    of_row: Indices
    weight: exact.Digits
    fixed: dict[int, exact.Digits]
    floats: dict[int, FloatDigits]

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.hashes)


def gather(spec: OperatorSpec, slice_: pa.Table) -> Touched:
    """Add up the delta rows of a slice per group."""
    whole = slice_.combine_chunks()
    hashes = whole.column("hash").to_numpy()
    keys = [whole.column(f"k{i}").combine_chunks() for i in range(len(spec.keys))]
    order, first = group_rows(hashes, keys)
    starts = np.flatnonzero(first)
    chosen = order[starts]
    of_row = np.empty(len(order), np.int64)
    of_row[order] = np.cumsum(first) - 1
    fixed: dict[int, exact.Digits] = {}
    floats: dict[int, FloatDigits] = {}
    for i, accumulator in enumerate(spec.accumulators):
        if accumulator.tree >= 0:
            continue
        if accumulator.floating:
            value = float_digits(whole, i, accumulator, spec.limb_bits)
            floats[i] = FloatDigits(value.base, add_up(value.digits, starts, order))
        else:
            digits = fixed_digits(whole, i, accumulator, spec.limb_bits)
            fixed[i] = add_up(digits, starts, order)
    weight = add_up(coefficients(whole, "w", spec.limb_bits), starts, order)
    return Touched(hashes[chosen], take(keys, chosen), of_row, weight, fixed, floats)


def assign_chains(groups: Touched, found: Found, tree: Tree) -> Chains:
    """Per group the number that tells it apart from other groups of its hash; groups found keep theirs.

    Two groups share a hash about once in 2^64 pairs; only such groups cost more than a comparison here.
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
    for hash_ in np.unique(groups.hashes[doubtful]):
        here = groups.hashes == hash_
        used = {int(c) for c in chains[here & known]} | _stored(tree, int(hash_))
        free = (c for c in range(MAX_CHAIN + 1) if c not in used)
        for group in np.flatnonzero(here & doubtful):
            chains[group] = next(free)
    return chains


def _stored(tree: Tree, hash_: int) -> set[int]:
    """Chains of all groups of a hash that the tree knows of, gone or not."""
    return {
        int(chain)
        for rows in tree.scan(hash_, hash_, dead=True)
        for chain in rows.column("chain").to_numpy()
    }


def ordered_by_chain(groups: Touched, chains: Chains) -> Indices | None:
    """The order of the groups by hash and chain, None where they are in it already."""
    same = groups.hashes[1:] == groups.hashes[:-1]
    if not (same & (chains[1:] < chains[:-1])).any():
        return None
    return np.lexsort((chains, groups.hashes))


def places(groups: Hashes, chains: Chains, hashes: Hashes, wanted: Chains) -> Indices:
    """For each (hash, wanted chain) the ordinal of its group; groups are in order of hash and chain."""
    at = np.searchsorted(groups, hashes, "left")
    wrong = np.flatnonzero(chains[at] != wanted)
    while len(wrong):
        at[wrong] += 1
        wrong = wrong[chains[at[wrong]] != wanted[wrong]]
    return at


def keys_of(rows: pa.Table, keys: int) -> list[pa.Array]:
    """The key columns of rows of the group tree."""
    return [rows.column(KEYS_FROM + i).combine_chunks() for i in range(keys)]
