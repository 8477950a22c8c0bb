"""Sums of weights with detection of 64-bit overflow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from substrait_agg.errors import RunFailed

Weights = npt.NDArray[np.int64]
_SHORT = 12
"""Average number of values of a segment up to which it is short."""
_LOW = np.int64(0xFFFFFFFF)


def sum_runs_of_rows(weights: Weights, starts: npt.NDArray[np.int64]) -> Weights:
    """Return the sum of the rows from each start to the next.

    Raises:
        RunFailed: WEIGHT_OVERFLOW.
    """
    if len(starts) == len(weights):
        return weights
    if not len(starts):
        return np.zeros(0, np.int64)
    if _largest(weights) < (1 << 63) // len(weights):
        return sum_segments(weights, starts)
    high = np.add.reduceat(weights >> 32, starts)
    return _join(high, np.add.reduceat(weights & _LOW, starts))


def sum_segments(
    values: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the sum of the values from each start (the first one is 0) to the next.

    No sum may leave int64. Differences of running sums are several times faster than
    `np.add.reduceat` for short segments. Running sums may wrap around: their differences do too.
    """
    if _SHORT * len(starts) < len(values):
        return np.asarray(np.add.reduceat(values, starts))
    sums = np.cumsum(values).take(np.append(starts[1:], len(values)) - 1)
    sums[1:] -= sums[:-1].copy()
    return sums


def add_weights(parts: Sequence[Weights]) -> Weights:
    """Return the element-wise sum of columns (at least one).

    Raises:
        RunFailed: WEIGHT_OVERFLOW.
    """
    if len(parts) == 1:
        return parts[0]
    if sum(_largest(part) for part in parts) < 1 << 63:
        return np.asarray(sum(parts[1:], start=parts[0]))
    high = np.sum([part >> 32 for part in parts], axis=0)
    return _join(high, np.sum([part & _LOW for part in parts], axis=0))


def multiply_weights(left: Weights, right: Weights) -> Weights:
    """Return the element-wise product of weights.

    Raises:
        RunFailed: WEIGHT_OVERFLOW.
    """
    product = left * right
    if _largest(left) * _largest(right) >= 1 << 63:
        # The high half decides: approximate it with floats, which err by less than one in 2^50.
        lost = np.abs(left.astype(np.float64) * right.astype(np.float64)) >= 2.0**63
        quotient = product // np.where(left == 0, 1, left)
        _refuse(lost | ((left != 0) & (quotient != right)))
    return product


def _largest(weights: Weights) -> int:
    return max(abs(int(weights.max())), abs(int(weights.min()))) if len(weights) else 0


def _join(high: Weights, low: Weights) -> Weights:
    high += low >> 32
    lost = (high < -(1 << 31)) | (high >= 1 << 31)
    _refuse(lost)
    return (high << 32) | (low & _LOW)


def _refuse(lost: npt.NDArray[np.bool_]) -> None:
    if lost.any():
        raise RunFailed(
            "WEIGHT_OVERFLOW",
            f"{int(lost.sum())} values have a weight of more than 64 bits",
            help="check the weight column of the source: such large weights are usually a mistake",
        )
