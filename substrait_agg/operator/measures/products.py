"""Exact products of two floats: 106 bits in a bin of 64 powers of two, as int64 coefficients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.operator.numeric.delta import MINUS_BIN, NAN_BIN, PLUS_BIN
from substrait_agg.operator.numeric.limbs import Cells, Int64s, masked, weighted
from substrait_agg.operator.numeric.numbers import floats

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]

_MANTISSA = 53
_HALF_BITS = 27
_LIMBS = 6  # 192 bits from 2^(64 b - 160) up
_U32 = np.uint64(32)
_U27 = np.uint64(_HALF_BITS)
_MASK32 = np.uint64((1 << 32) - 1)
_MASK27 = np.uint64((1 << _HALF_BITS) - 1)


def product_cells(ordinal: int, x: pa.Array, y: pa.Array, weights: Sequence[Int64s]) -> Cells:
    """Return what each row adds to a product accumulator: weight * x * y.

    Args:
        ordinal: ordinal of the accumulator.
        x: fp32 or fp64 column.
        y: fp32 or fp64 column; it may be `x`. Rows with a null in either column add nothing.
        weights: the result of `limbs.weight_limbs`.

    Returns:
        ``b{ordinal}`` (bins) and ``a{ordinal}_*``, as described in `operator.numeric.delta`.
        Products that are not finite are counted in the bins of NaN, +inf and -inf; finite factors
        never produce one.
    """
    left, right = floats(x), floats(y)
    valid = np.isfinite(left) & np.isfinite(right)
    sign, mantissas, top = _mantissas(left, right, valid)
    bins = (top + 32) // 64
    limbs = _shifted_limbs(mantissas, top - 64 * bins + 54)
    if not valid.all():
        bins, limbs = _with_specials(left, right, valid, bins, limbs)
    signed = tuple(weight * sign for weight in weights)
    if x.null_count or y.null_count:
        present = pc.and_(x.is_valid(), y.is_valid())
        signed = masked(signed, np.asarray(present.to_numpy(zero_copy_only=False), np.bool_))
    return {f"b{ordinal}": bins.astype(np.int32), **weighted(f"a{ordinal}", limbs, signed)}


def _mantissas(
    left: Floats, right: Floats, valid: npt.NDArray[np.bool_]
) -> tuple[Int64s, tuple[Words, Words], Int64s]:
    """Return sign, 106-bit magnitude, and exponent of the products.

    Returns:
        The sign (1 or -1), the magnitude as (high, low 54 bits), and the exponent of the power of
        two just above the product, 0 if the product is 0.
    """
    fraction, power = np.frexp(np.where(valid, left, 0.0))
    other, more = np.frexp(np.where(valid, right, 0.0))
    a = np.ldexp(np.abs(fraction), _MANTISSA).astype(np.uint64)
    b = np.ldexp(np.abs(other), _MANTISSA).astype(np.uint64)
    a1, a0, b1, b0 = a >> _U27, a & _MASK27, b >> _U27, b & _MASK27
    cross = a1 * b0 + a0 * b1
    low = a0 * b0 + ((cross & _MASK27) << _U27)
    high = a1 * b1 + (cross >> _U27) + (low >> np.uint64(54))
    sign = np.where((fraction < 0) ^ (other < 0), np.int64(-1), np.int64(1))
    top = np.where((a == 0) | (b == 0), 0, power.astype(np.int64) + more.astype(np.int64))
    return sign, (high, low & np.uint64((1 << 54) - 1)), top


def _shifted_limbs(mantissas: tuple[Words, Words], shift: Int64s) -> list[Int64s]:
    """Return the limbs of ``(high * 2^54 + low) * 2^shift``, for shifts of 22 to 85 bits."""
    high, low = mantissas
    words = [
        low & _MASK32,
        (low >> _U32) | ((high & np.uint64((1 << 10) - 1)) << np.uint64(22)),
        (high >> np.uint64(10)) & _MASK32,
        high >> np.uint64(42),
    ]
    within, digit = (shift & 31).astype(np.uint64), shift >> 5
    shifted: list[Words] = []
    carried = np.zeros_like(low)
    for word in words:
        moved = word << within
        shifted.append((moved & _MASK32) | carried)
        carried = moved >> _U32
    shifted.append(carried)
    limbs = np.zeros((_LIMBS, len(low)), np.uint64)
    for step in range(3):
        here = digit == step
        for j, part in enumerate(shifted):
            if step + j < _LIMBS:
                limbs[step + j] += np.where(here, part, np.uint64(0))
    return list(limbs.view(np.int64))


def _with_specials(
    left: Floats,
    right: Floats,
    valid: npt.NDArray[np.bool_],
    bins: Int64s,
    limbs: list[Int64s],
) -> tuple[Int64s, list[Int64s]]:
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        product = left * right
    special = np.where(np.isnan(product), NAN_BIN, np.where(product > 0, PLUS_BIN, MINUS_BIN))
    one = [*([np.int64(0)] * (_LIMBS - 1)), np.int64(1)]
    counted = [np.where(valid, limb, unit) for limb, unit in zip(limbs, one, strict=True)]
    return np.where(valid, bins, special), counted
