"""What measures keep per group: exact accumulators, all of them integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

WeightKind = OneOf["one", "sign", "any"]
"""What is known of the weights of an input: always 1; 1 or -1; any int64."""

EarlyRetraction = OneOf["carry", "refuse", "quarantine"]
"""What becomes of a retraction that comes before its insertion: it counts as a negative weight that is never shown; it fails
the batch; it is kept aside until the insertion comes."""

EARLY_RETRACTIONS: tuple[EarlyRetraction, ...] = ("carry", "refuse", "quarantine")

DIGIT_BITS = 32


@dataclass(frozen=True, slots=True)
class Accumulator:
    """One exact number per group, kept as balanced digits of base 2^32.

    Attributes:
        kind: ``count`` (sum of weights), ``integer``, ``decimal`` (unscaled) or ``float`` (sum of weight times value),
            ``product`` (sum of weight times product of two floats), and of the entries of a tree ``live``
            (those with weight above zero) and ``entries`` (those with a weight other than zero), or ``met``, of a tree of which
            only ends are kept: above zero once it has met a value, and nothing more than that.
        argument: which prepared argument column it reads; -1 where it counts entries.
        bits: size of the values added, in bits (integers), or 0.
        digits: how many digits it keeps in every group; 0 for floats, which keep as many as the values need.
        other: the second argument column of a product.
        tree: the tree whose live entries it sums instead of rows (DISTINCT), or counts; -1 for rows.
    """

    kind: OneOf["count", "integer", "decimal", "float", "product", "live", "entries", "met"]
    argument: int
    bits: int
    digits: int
    other: int = -1
    tree: int = -1

    @property
    def floating(self) -> bool:
        """Whether it keeps as many digits as its values need."""
        return self.kind in ("float", "product")


COUNT_DIGITS = 2
"""Digits of a count: one of more than 63 bits is an error, no output type holds it."""


MET: OneOf["met"] = "met"
TREE_COUNTERS = ("live", "entries", MET)
"""Kinds of accumulators that count the entries of a tree."""


def tree_counters(tree: int) -> tuple[Accumulator, Accumulator]:
    """What every group keeps of a tree: the number of its live entries, and of all its entries."""
    live = Accumulator("live", -1, 0, COUNT_DIGITS, tree=tree)
    return live, Accumulator("entries", -1, 0, COUNT_DIGITS, tree=tree)


def digits_for(value_bits: int, weight: WeightKind) -> int:
    """Digits that hold the sum of 2^39 products of a value of `value_bits` bits and a weight of this kind."""
    weight_bits = 64 if weight == "any" else 1
    return -(-(value_bits + weight_bits + 40) // DIGIT_BITS)
