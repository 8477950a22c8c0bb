"""What an additive measure keeps per group: exact accumulators, all of them integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

MeasureKind = OneOf["count", "sum", "sum0", "avg"]
"""The measures that are maintained; `count` counts rows, or non-null values where there is an argument."""

STATE_CLASS: dict[MeasureKind, str] = {
    "count": "additive",
    "sum": "additive",
    "sum0": "additive",
    "avg": "additive",
}

WeightKind = OneOf["one", "sign", "any"]
"""What is known of the weights of an input: always 1; 1 or -1; any int64."""

DIGIT_BITS = 32


@dataclass(frozen=True, slots=True)
class Accumulator:
    """One exact number per group, kept as balanced digits of base 2^32.

    Attributes:
        kind: ``count`` (sum of weights), ``integer``, ``decimal`` (unscaled) or ``float`` (sum of weight times value).
        argument: which prepared argument column it reads.
        bits: size of the values added, in bits (integers), or 0.
        digits: how many digits it keeps in every group; 0 for floats, which keep as many as the values need.
    """

    kind: OneOf["count", "integer", "decimal", "float"]
    argument: int
    bits: int
    digits: int


def digits_for(value_bits: int, weight: WeightKind) -> int:
    """Digits that hold the sum of 2^39 products of a value of `value_bits` bits and a weight of this kind."""
    weight_bits = 64 if weight == "any" else 1
    return -(-(value_bits + weight_bits + 40) // DIGIT_BITS)
