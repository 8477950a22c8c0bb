"""Weighted limbs: values in pieces of 32 bits times weights, with sums that fit int64.

With weights of 1 and -1 the coefficients are the limbs with their sign. If weights can be any
int64, limbs and weights are both split into pieces of 16 bits and convolved, so that a coefficient
stays below 2^34 per row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from substrait_agg.functions.aggregates.accumulators import WeightKind

Int64s = npt.NDArray[np.int64]
Cells = dict[str, Any]

_HALF = np.int64(16)
_HALF_MASK = np.int64((1 << 16) - 1)


def weight_limbs(weight: Int64s, kind: WeightKind) -> tuple[Int64s, ...]:
    """Return the weight, or for arbitrary weights its four 16-bit limbs, lowest first.

    The highest limb carries the sign.
    """
    if kind != "weighted":
        return (weight,)
    low = [(weight >> np.int64(16 * j)) & _HALF_MASK for j in range(3)]
    return (*low, weight >> np.int64(48))


def masked(weights: Sequence[Int64s], valid: npt.NDArray[np.bool_]) -> tuple[Int64s, ...]:
    """Return the weights where `valid` is set, and 0 elsewhere."""
    return tuple(np.where(valid, weight, np.int64(0)) for weight in weights)


def weighted(prefix: str, limbs: Sequence[Int64s], weights: Sequence[Int64s]) -> Cells:
    """Return the coefficients ``{prefix}_{j}`` of values times weights.

    Args:
        prefix: prefix of the column names.
        limbs: limbs of the values at distances of 32 bits, lowest first, at most 33 bits each with
            sign.
        weights: the result of `weight_limbs`.

    Returns:
        Columns at distances of 32 bits, or of 16 bits if the weights have several limbs.
    """
    if len(weights) == 1:
        return {f"{prefix}_{j}": limb * weights[0] for j, limb in enumerate(limbs)}
    halves = [half for limb in limbs for half in (limb & _HALF_MASK, limb >> _HALF)]
    rows = len(weights[0])
    sums = [np.zeros(rows, np.int64) for _ in range(len(halves) + len(weights) - 1)]
    for i, half in enumerate(halves):
        for j, weight in enumerate(weights):
            sums[i + j] += half * weight
    return {f"{prefix}_{j}": column for j, column in enumerate(sums)}
