"""Positions between the entries of an ordered tree, one per group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from substrait_agg.state.keys.keys import EncodedKeys, compare
from substrait_agg.state.keys.rows import Mask


@dataclass(frozen=True, slots=True)
class Positions:
    """One position per group: before an entry, after it, or after all entries of the group.

    Attributes:
        keys: the key of the entry; ignored at the end.
        after: mask of the positions after the entry.
        end: mask of the positions after all entries.
    """

    keys: EncodedKeys
    after: Mask
    end: Mask

    @staticmethod
    def at(keys: EncodedKeys, exists: Mask) -> Positions:
        """Return the positions before entries, and the end where an entry is not there."""
        return Positions(keys, np.zeros(len(exists), np.bool_), ~exists)

    def behind(self, where: Mask | None = None) -> Positions:
        """Return the positions after the entries, for all groups or for those of a mask."""
        after = np.ones(len(self.end), np.bool_) if where is None else self.after | where
        return Positions(self.keys, after, self.end)

    def take(self, indices: npt.NDArray[np.int64]) -> Positions:
        """Return the positions of some groups, in this order."""
        return Positions(self.keys.take(indices), self.after[indices], self.end[indices])

    def or_else(self, other: Positions, where: Mask) -> Positions:
        """Return the positions where the mask is set, and those of `other` elsewhere."""
        both = Positions(
            EncodedKeys.concat([self.keys, other.keys]),
            np.concatenate([self.after, other.after]),
            np.concatenate([self.end, other.end]),
        )
        return both.take(np.arange(len(where)) + np.where(where, 0, len(where)))


def compare_entries(left: Positions, right: Positions) -> npt.NDArray[np.int8]:
    """Compare the entries of positions: -1 if the left one comes first, 0 if equal, else 1.

    The end comes after all entries. Whether a position is before or after its entry has no effect.
    """
    by_end = left.end.astype(np.int8) - right.end.astype(np.int8)
    same = compare(left.keys, right.keys)
    return np.where(left.end | right.end, by_end, same).astype(np.int8)
