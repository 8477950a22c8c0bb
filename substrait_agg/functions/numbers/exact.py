"""Add, divide and round columns of exact numbers, stored as balanced digits of base 2^32.

A column of n numbers is an int64 array of shape (digits, n). The number in column i is the sum over
d of ``digits[d, i] * 2^(32 * (base + d))``. *Carried* digits lie in [-2^31, 2^31). This makes the
form unique, gives a number the sign of its highest nonzero digit, and stores every digit in 32
bits. Addition is digit-wise addition and one pass of carries. It uses integers only, so the result
does not depend on the order of additions or on values that were removed again.

Source: signed-digit ("superaccumulator") summation, e.g. Collange et al., "Numerical
reproducibility for the parallel reduction on multi- and many-core architectures", 2015.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from substrait_agg.functions.aggregates.accumulators import DIGIT_BITS

Digits = npt.NDArray[np.int64]
Magnitude = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

_HALF = np.int64(1 << (DIGIT_BITS - 1))
_MASK = np.int64((1 << DIGIT_BITS) - 1)
_SHIFT = np.int64(DIGIT_BITS)
_U32 = np.uint64(DIGIT_BITS)
_UMASK = np.uint64((1 << DIGIT_BITS) - 1)

TIE_TO_EVEN = "TIE_TO_EVEN"
NEAREST = (TIE_TO_EVEN, "TIE_AWAY_FROM_ZERO")
_Rounding = Callable[[Mask, Mask, Mask, Mask], Mask]
ROUNDINGS: Mapping[str, _Rounding] = {
    TIE_TO_EVEN: lambda odd, half, lost, below: half & (lost | odd),
    "TIE_AWAY_FROM_ZERO": lambda odd, half, lost, below: half,
    "TRUNCATE": lambda odd, half, lost, below: np.zeros_like(half),
    "CEILING": lambda odd, half, lost, below: (half | lost) & ~below,
    "FLOOR": lambda odd, half, lost, below: (half | lost) & below,
}
"""Values of the option ``rounding`` -> whether a truncated magnitude grows by one unit.

The arguments are masks: whether the magnitude is odd, whether the highest bit cut off is set,
whether a bit below that is set, and whether the number is negative.
"""


def zeros(digits: int, rows: int) -> Digits:
    """Return a column of `rows` zeros with `digits` digits."""
    return np.zeros((digits, rows), np.int64)


def add_at(target: Digits, values: npt.NDArray[np.int64], bit: int) -> None:
    """Add ``values * 2^bit`` to `target`, in place; `bit` is a multiple of 16.

    Digits are left uncarried.

    Each value is split so that no digit of `target` grows by more than 2^32 in magnitude.
    """
    digit, rest = divmod(bit, DIGIT_BITS)
    if rest == 0:
        target[digit] += values & _MASK
        target[digit + 1] += values >> _SHIFT
        return
    low = DIGIT_BITS - rest
    target[digit] += (values & np.int64((1 << low) - 1)) << np.int64(rest)
    target[digit + 1] += (values >> np.int64(low)) & _MASK
    target[digit + 2] += values >> np.int64(low + DIGIT_BITS)


def carry(digits: Digits) -> Digits:
    """Bring all digits but the highest into [-2^31, 2^31), in place, and return them."""
    for d in range(len(digits) - 1):
        up = (digits[d] + _HALF) >> _SHIFT
        digits[d] -= up << _SHIFT
        digits[d + 1] += up
    return digits


def add_to(total: Digits, delta: Digits) -> Mask | None:
    """Add uncarried digits to carried digits of fixed length, in place.

    Carries end at the first digit above those of `delta` that receives none.

    Returns:
        A mask of the numbers that do not fit the digits any more; None if all do.
    """
    keep, used = len(total), used_digits(delta)
    if used >= keep:
        wide = widen(delta, keep + 1).copy()
        wide[:keep] += total
        total[:], lost = narrow(carry(wide), keep)
        return lost if lost.any() else None
    total[:used] += delta[:used]
    for d in range(keep - 1):
        up = (total[d] + _HALF) >> _SHIFT
        if d >= used - 1 and not up.any():
            return None
        total[d] -= up << _SHIFT
        total[d + 1] += up
    lost = (total[-1] < -_HALF) | (total[-1] >= _HALF)
    return lost if lost.any() else None


def used_digits(digits: Digits) -> int:
    """Return the number of digits up to the highest one that is not 0 in all numbers."""
    used = len(digits)
    while used and not digits[used - 1].any():
        used -= 1
    return used


def narrow(digits: Digits, keep: int) -> tuple[Digits, Mask]:
    """Return the lowest `keep` digits of carried digits, and where the number does not fit them."""
    lost = (digits[keep - 1] < -_HALF) | (digits[keep - 1] >= _HALF)
    if len(digits) > keep:
        lost |= (digits[keep:] != 0).any(axis=0)
    return digits[:keep], lost


def widen(digits: Digits, length: int) -> Digits:
    """Return the same numbers with at least `length` digits."""
    if len(digits) >= length:
        return digits
    wide = zeros(length, digits.shape[1])
    wide[: len(digits)] = digits
    return wide


def times_power_of_ten(digits: Digits, power: int) -> Digits:
    """Multiply carried digits by 10^power, and add the digits that this needs."""
    extra = -(-power * 10 // (3 * DIGIT_BITS)) + 1
    result = widen(digits, len(digits) + extra).copy()
    while power > 0:
        step = min(power, 9)
        result *= np.int64(10**step)
        carry(result)
        power -= step
    return result


def multiply(left: Digits, right: Digits) -> Digits:
    """Return the carried products of two columns of carried digits, row by row.

    The position of the lowest digit of a product is the sum of the positions of its factors.
    """
    product = zeros(len(left) + len(right) + 1, left.shape[1])
    used = [j for j in range(len(right)) if right[j].any()]
    for i in range(len(left)):
        if not left[i].any():
            continue
        for j in used:
            # Carried digits have at most 31 bits and a sign, so the product of two fits 63 bits.
            part = left[i] * right[j]
            product[i + j] += part & _MASK
            product[i + j + 1] += part >> _SHIFT
    return carry(product)


def negative(digits: Digits) -> Mask:
    """Return where carried numbers are below zero."""
    sign = np.zeros(digits.shape[1], np.int64)
    for d in range(len(digits)):
        sign = np.where(digits[d] != 0, digits[d], sign)
    return np.asarray(sign < 0)


def magnitude(digits: Digits) -> tuple[Mask, Magnitude]:
    """Return the sign and the absolute value of carried numbers.

    Digits of the absolute value lie in [0, 2^32). There is one digit more than in the input.
    """
    below = negative(digits)
    result = widen(digits, len(digits) + 1).copy()
    np.negative(result, out=result, where=below)
    for d in range(len(result) - 1):
        result[d + 1] += result[d] >> _SHIFT
        result[d] &= _MASK
    return below, result.view(np.uint64)


def divide(mag: Magnitude, divisor: npt.NDArray[np.uint64]) -> tuple[Magnitude, Mask]:
    """Return the floor of `mag` / `divisor`, and a mask of nonzero remainders.

    There is one divisor per number, from 1 to 2^63 - 1.
    """
    quotient = np.empty_like(mag)
    small = divisor <= _UMASK
    if small.all():
        rest = np.zeros(mag.shape[1], np.uint64)
        for d in range(len(mag) - 1, -1, -1):
            part = (rest << _U32) | mag[d]
            quotient[d] = part // divisor
            rest = part - quotient[d] * divisor
        return quotient, rest != 0
    inexact = np.empty(mag.shape[1], np.bool_)
    quotient[:, small], inexact[small] = divide(mag[:, small], divisor[small])
    quotient[:, ~small], inexact[~small] = _divide_by_bits(mag[:, ~small], divisor[~small])
    return quotient, inexact


def _divide_by_bits(mag: Magnitude, divisor: npt.NDArray[np.uint64]) -> tuple[Magnitude, Mask]:
    # Divisors of more than 32 bits would need 96-bit intermediates. Division bit by bit avoids
    # them.
    quotient = np.zeros_like(mag)
    rest = np.zeros(mag.shape[1], np.uint64)
    one = np.uint64(1)
    for d in range(len(mag) - 1, -1, -1):
        for bit in range(DIGIT_BITS - 1, -1, -1):
            rest = (rest << one) | ((mag[d] >> np.uint64(bit)) & one)
            take = rest >= divisor
            rest = np.where(take, rest - divisor, rest)
            quotient[d] |= take.astype(np.uint64) << np.uint64(bit)
    return quotient, rest != 0


def divide_by_power_of_ten(mag: Magnitude, power: int) -> tuple[Magnitude, Mask]:
    """Return the floor of `mag` / 10^power, and where there is a remainder."""
    inexact = np.zeros(mag.shape[1], np.bool_)
    while power > 0:
        step = min(power, 9)
        mag, more = divide(mag, np.full(mag.shape[1], 10**step, np.uint64))
        inexact |= more
        power -= step
    return mag, inexact


def half_of(mag: Magnitude) -> Magnitude:
    """Return ``floor((mag + 1) / 2)``: a doubled quotient rounded half away from zero."""
    result = mag.copy()
    result[0] += np.uint64(1)
    for d in range(len(result) - 1):
        result[d + 1] += result[d] >> _U32
        result[d] &= _UMASK
    one, top = np.uint64(1), np.uint64(DIGIT_BITS - 1)
    for d in range(len(result) - 1):
        result[d] = (result[d] >> one) | ((result[d + 1] & one) << top)
    result[-1] >>= one
    return result


def double(mag: Magnitude) -> Magnitude:
    """Return twice `mag`, with one more digit."""
    result = np.zeros((len(mag) + 1, mag.shape[1]), np.uint64)
    result[:-1] = mag << np.uint64(1)
    for d in range(len(result) - 1):
        result[d + 1] += result[d] >> _U32
        result[d] &= _UMASK
    return result


def below_limit(mag: Magnitude, limit: int) -> Mask:
    """Return where `mag` is less than the positive integer `limit`."""
    less = np.zeros(mag.shape[1], np.bool_)
    for d in range(len(mag)):
        part = np.uint64((limit >> (DIGIT_BITS * d)) & int(_UMASK))
        less = np.where(mag[d] == part, less, mag[d] < part)
    if limit >> (DIGIT_BITS * len(mag)):
        less[:] = True
    return less


def low_words(mag: Magnitude, below: Mask, words: int) -> npt.NDArray[np.uint64]:
    """Return the two's complement of signed numbers, truncated to `words` 64-bit words.

    The shape is (n, words), with the lowest word first.
    """
    size = 2 * words
    digits = np.zeros((size, mag.shape[1]), np.uint64)
    digits[: min(size, len(mag))] = mag[:size]
    flipped = np.where(below, digits ^ _UMASK, digits)
    flipped[0] += below.astype(np.uint64)
    for d in range(size - 1):
        flipped[d + 1] += flipped[d] >> _U32
        flipped[d] &= _UMASK
    flipped[-1] &= _UMASK
    return np.ascontiguousarray((flipped[0::2] | (flipped[1::2] << _U32)).T)


def as_int64(digits: Digits) -> npt.NDArray[np.int64] | None:
    """Return carried digits as int64, or None unless all are well inside its range."""
    if len(digits) > 2 and digits[2:].any():
        return None
    if len(digits) == 1:
        return np.asarray(digits[0])
    limit = 1 << (DIGIT_BITS - 2)
    if len(digits[1]) and (int(digits[1].max()) >= limit or int(digits[1].min()) < -limit):
        return None
    return np.asarray(digits[0] + (digits[1] << _SHIFT))


def trim(mag: Magnitude, base: int) -> tuple[Magnitude, int]:
    """Remove the highest and lowest digits that are zero in all numbers.

    Return the digits and the position of the lowest one.
    """
    used = np.flatnonzero(mag.any(axis=1))
    if not len(used):
        return mag[:1], base
    first, last = int(used[0]), int(used[-1])
    return mag[first : last + 1], base + first


def from_words(words: npt.NDArray[Any]) -> Digits:
    """Return carried digits of two's complement integers.

    The input is an array (n, words) of 64-bit words, lowest first.
    """
    rows, count = words.shape
    unsigned = words.view(np.uint64)
    digits = zeros(2 * count + 1, rows)
    for w in range(count):
        digits[2 * w] = (unsigned[:, w] & _UMASK).view(np.int64)
        digits[2 * w + 1] = (unsigned[:, w] >> _U32).view(np.int64)
    digits[2 * count - 1] = words.view(np.int64)[:, -1] >> _SHIFT
    return carry(digits)


def to_float(
    mag: Magnitude,
    below: Mask,
    inexact: Mask,
    base: int,
    *,
    precision: int = 53,
    lowest: int = -1022,
    shift: npt.NDArray[np.int64] | int = 0,
    rounding: str = TIE_TO_EVEN,
) -> npt.NDArray[np.float64]:
    """Round ``mag * 2^(32 * base + shift)`` to a binary float.

    Args:
        mag: magnitudes.
        below: where the number is negative.
        inexact: where a positive remainder below the lowest digit has been cut off; the magnitude
            is not zero there.
        base: position of the lowest digit.
        precision: bits of the significand (53 for fp64, 24 for fp32).
        lowest: exponent of the smallest normal number (-1022 or -126).
        shift: additional bits by which the numbers are shifted, one per number or one for all.
        rounding: one of `ROUNDINGS`.

    Returns:
        float64 array; numbers beyond the largest float become infinite, or the largest float if
        `rounding` requires it. Zero is +0.0.

    Source: IEEE 754-2019, 4.3 (rounding directions) and 7.4 (overflow).
    """
    top, window, sticky = _leading_bits(mag, inexact)
    exponent = DIGIT_BITS * base + top + shift
    unit = np.maximum(exponent, lowest) - precision + 1
    cut = np.clip(unit - (exponent - 63), 1, 66).astype(np.uint64)
    one = np.uint64(1)
    inner = np.minimum(cut - one, np.uint64(63))
    shifted = np.where(cut > np.uint64(64), np.uint64(0), window >> inner)
    significand = shifted >> one
    half = (shifted & one) != 0
    beyond = (cut > np.uint64(64)) & (window != 0)
    lost = sticky | ((window & ((one << inner) - one)) != 0) | beyond
    significand += rounds_up(rounding, (significand & one) != 0, half, lost, below).astype(
        np.uint64
    )
    largest = np.ldexp(2.0**precision - 1, 2 - lowest - precision)
    with np.errstate(over="ignore"):
        result = np.ldexp(significand.astype(np.float64), np.clip(unit, -(1 << 20), 1 << 20))
    if rounding not in NEAREST:
        away = rounds_up(rounding, half, half | True, half, below)
        result = np.where((result > largest) & ~away, largest, result)
    return np.asarray(np.where(below & (result != 0), -result, result))


def rounds_up(rounding: str, odd: Mask, half: Mask, lost: Mask, below: Mask) -> Mask:
    """Return where the magnitude grows by one unit; the arguments are those of `ROUNDINGS`."""
    return np.asarray(ROUNDINGS[rounding](odd, half, lost, below))


def leading_digits(
    mag: Magnitude, inexact: Mask, count: int
) -> tuple[list[Magnitude], npt.NDArray[np.uint64], npt.NDArray[np.int64], Mask]:
    """Return the highest digits of each number.

    Args:
        mag: magnitudes.
        inexact: where a remainder below them has been cut off.
        count: number of digits, at least 1; digits below the lowest one are 0.

    Returns:
        The digits, highest first; the number of bits of the highest one, at least 1; its position
        in `mag` (0 for zero); and whether anything is lost. As many low bits of the last digit are
        lost as the highest digit has bits, and everything below.
    """
    pad = count - 1
    padded = np.zeros((len(mag) + pad, mag.shape[1]), np.uint64)
    padded[pad:] = mag
    nonzero = padded != 0
    nonzero[pad] |= ~nonzero.any(axis=0)
    lead = len(padded) - 1 - np.argmax(nonzero[::-1], axis=0)
    column = np.arange(mag.shape[1])
    digits = [padded[lead - k, column] for k in range(count)]
    length = np.frexp(digits[0].astype(np.float64))[1].astype(np.uint64)
    length = np.maximum(length, np.uint64(1))
    lost = inexact | ((digits[-1] & ((np.uint64(1) << length) - np.uint64(1))) != 0)
    depth = np.arange(len(padded))[:, None]
    lost |= ((padded != 0) & (depth < lead - pad)).any(axis=0)
    return digits, length, (lead - pad).astype(np.int64), lost


def _leading_bits(
    mag: Magnitude, inexact: Mask
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64], Mask]:
    """Return the position of the highest bit, 64 bits from there down, and a flag for the rest.

    The flag is true where a bit below those 64 is set.
    """
    (high, mid, low), length, place, sticky = leading_digits(mag, inexact, 3)
    window = (high << (np.uint64(64) - length)) | (mid << (_U32 - length)) | (low >> length)
    top = DIGIT_BITS * place + length.astype(np.int64) - 1
    return top, window, sticky
