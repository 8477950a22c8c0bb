"""Compute square roots and quotients of columns of exact numbers, rounded once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from substrait_agg.functions.aggregates.accumulators import DIGIT_BITS
from substrait_agg.functions.numbers import exact
from substrait_agg.functions.numbers.exact import Magnitude, Mask

Int64s = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

ROOT_BITS = 55
_STEPS = 6
_U32 = np.uint64(DIGIT_BITS)
_UMASK = np.uint64((1 << DIGIT_BITS) - 1)


def exponents(mag: Magnitude, base: int) -> Int64s:
    """Return the exponent of the highest bit of ``mag * 2^(32 * base)``.

    For zero, return the exponent of the lowest digit.
    """
    nonzero = mag != 0
    lead = np.where(nonzero.any(axis=0), len(mag) - 1 - np.argmax(nonzero[::-1], axis=0), 0)
    high = mag[lead, np.arange(mag.shape[1])]
    bits = np.maximum(np.frexp(high.astype(np.float64))[1], 1)
    return DIGIT_BITS * (base + lead.astype(np.int64)) + bits - 1


def square_root(mag: Magnitude, inexact: Mask, base: int) -> tuple[Magnitude, Int64s, Mask]:
    """Return the highest `ROOT_BITS` bits of the square roots of ``mag * 2^(32 * base)``.

    Args:
        mag: magnitudes.
        inexact: where a positive remainder below the lowest digit has been cut off.
        base: position of the lowest digit.

    Returns:
        Magnitudes of two digits, the exponent of the unit of each one, and where something is cut
        off below it. Correct rounding to fp64 needs two bits more than fp64 has, and this flag.
    """
    top = exponents(mag, base)
    high, low, cut = _leading_words(mag, inexact)
    # Take 109 or 110 bits of the number, so that the exponent of their unit is even. Their root has
    # 55 bits.
    odd = (top & 1).astype(np.uint64)
    drop = np.uint64(19) - odd
    lost: Mask = np.asarray(cut | ((low & ((np.uint64(1) << drop) - np.uint64(1))) != 0))
    low = np.bitwise_or(high << (np.uint64(64) - drop), low >> drop)
    high = high >> drop
    root, rest = _integer_root(high, low)
    unit = (top - (2 * ROOT_BITS - 2) - odd.astype(np.int64)) >> 1
    return np.stack([root & _UMASK, root >> _U32]), unit, lost | (rest != 0)


def _integer_root(high: Words, low: Words) -> tuple[Words, Int64s]:
    """Return the floor of the square root of a number below 2^110, and the remainder.

    The number is ``high * 2^64 + low``.
    """
    near = np.sqrt(np.ldexp(high.astype(np.float64), 64) + low.astype(np.float64))
    root = near.astype(np.int64)
    # The estimate is off by a few units. The remainder is then far below 2^63, so its low word
    # suffices.
    rest = low.view(np.int64) - root * root
    for _ in range(_STEPS):
        root, rest = _step(root, rest)
    return root.view(np.uint64), rest


def _step(root: Int64s, rest: Int64s) -> tuple[Int64s, Int64s]:
    step = np.where(rest < 0, -1, np.where(rest > 2 * root, 1, 0))
    # (r + s)^2 = r^2 + 2 r s + s^2
    return root + step, rest - 2 * root * step - step * step


def _leading_words(mag: Magnitude, inexact: Mask) -> tuple[Words, Words, Mask]:
    """Return the 128 bits of each number from its highest one down.

    The last result is true where a bit below those is set.
    """
    digit, length, _, lost = exact.leading_digits(mag, inexact, 5)
    up, across = np.uint64(64) - length, _U32 - length
    high = (digit[0] << up) | (digit[1] << across) | (digit[2] >> length)
    low = (digit[2] << up) | (digit[3] << across) | (digit[4] >> length)
    return high, low, lost


def scaled_floats(
    mag: Magnitude, inexact: Mask, base: int, shift: Int64s | int = 0
) -> tuple[npt.NDArray[np.float64], Int64s]:
    """Return magnitudes as correctly rounded floats from 1 to 2, and exponents of two.

    The magnitudes are ``mag * 2^(32 * base + shift)``.
    """
    power = exponents(mag, base) + shift
    positive = np.zeros(mag.shape[1], np.bool_)
    return exact.to_float(mag, positive, inexact, base, shift=shift - power), power
