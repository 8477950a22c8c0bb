"""Define accumulators: exact integers per group that measures read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal as OneOf

WeightKind = OneOf["append_only", "changelog", "weighted"]
"""Possible weights of an input: always 1; 1 or -1; any int64."""

STORED_WEIGHT_KINDS: Mapping[WeightKind, str] = {
    "append_only": "one",
    "changelog": "sign",
    "weighted": "any",
}
"""The word for each kind in stored documents."""

EarlyRetraction = OneOf["carry", "refuse", "quarantine"]
"""Handling of a retraction that comes before its insertion.

``carry`` counts it as a negative weight that is never shown. ``refuse`` fails the batch.
``quarantine`` sets it aside until the insertion comes.
"""

EARLY_RETRACTIONS: tuple[EarlyRetraction, ...] = ("carry", "refuse", "quarantine")

DIGIT_BITS = 32


@dataclass(frozen=True, slots=True)
class Accumulator:
    """One exact number per group, stored as balanced digits of base 2^32.

    Attributes:
        kind: ``count`` (sum of weights), ``integer``, ``decimal`` (unscaled) or ``float`` (sum of
            weight times value), ``product`` (sum of weight times product of two floats), and for
            the entries of a tree ``live`` (number of entries with weight above zero) and
            ``entries`` (number of entries with nonzero weight). ``met`` is for a tree of which only
            extremes are kept: it is above zero if the tree has received a value, and has no other
            meaning.
        argument: ordinal of the prepared argument column that it reads; None if it counts
            entries, or the rows of a port.
        bits: size of the added values in bits (integers), or 0.
        digits: number of digits in every group; 0 for floats, which have as many as the values
            need.
        other: the second argument column of a product; None for other kinds.
        tree: the tree whose live entries it sums (DISTINCT) or counts; None for rows.
        port: the input port whose rows it counts; None for an argument or the entries of a
            tree.
    """

    kind: OneOf["count", "integer", "decimal", "float", "product", "live", "entries", "met"]
    argument: int | None
    bits: int
    digits: int
    other: int | None = None
    tree: int | None = None
    port: int | None = None

    @property
    def floating(self) -> bool:
        """Whether the number of digits depends on the values."""
        return self.kind in ("float", "product")


COUNT_DIGITS = 2
"""Digits of a count.

A count of more than 63 bits is an error, because no output type can represent it.
"""


MET: OneOf["met"] = "met"
TREE_COUNTERS = ("live", "entries", MET)
"""Kinds of accumulators that count the entries of a tree."""


def tree_counters(tree: int) -> tuple[Accumulator, Accumulator]:
    """Return the two accumulators of every tree: the numbers of live entries and of all entries."""
    live = Accumulator("live", None, 0, COUNT_DIGITS, tree=tree)
    return live, Accumulator("entries", None, 0, COUNT_DIGITS, tree=tree)


def digits_for(value_bits: int, weight: WeightKind) -> int:
    """Return the digits that the sum of 2^39 weighted values needs.

    Each value has `value_bits` bits and a weight of this kind.
    """
    weight_bits = 64 if weight == "weighted" else 1
    return -(-(value_bits + weight_bits + 40) // DIGIT_BITS)
