"""Conversion of Arrow columns of numbers to integers and exact digits, and back."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.functions.aggregates.accumulators import DIGIT_BITS
from substrait_agg.functions.numbers import exact
from substrait_agg.operator.common.spec import MeasureSpec
from substrait_agg.operator.numeric.delta import FloatDigits
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.plan.types import INTEGER_BITS, Type
from substrait_agg.state.keys.rows import Mask

Int64s = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

FORMATS: Mapping[str, tuple[int, int, Any]] = {
    "fp64": (53, -1022, np.float64),
    "fp32": (24, -126, np.float32),
}
"""Float types: bits of the significand, exponent of the smallest normal number, numpy type."""

_MASK = np.int64((1 << DIGIT_BITS) - 1)


def integer_words(values: pa.Array) -> Int64s:
    """Return integers or unscaled decimals in two's complement; null becomes 0.

    Returns:
        An array of shape (n, 1) for integers or (n, 2) for decimals, lowest word first.
    """
    if not pa.types.is_decimal(values.type):
        if values.null_count:
            values = pc.fill_null(values, 0)
        whole = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
        return np.asarray(whole, np.int64)[:, None]
    if values.null_count:
        values = pc.fill_null(values, pa.scalar(Decimal(0), values.type))
    raw = np.frombuffer(values.buffers()[1], np.int64, count=2 * (len(values) + values.offset))
    return raw.reshape(-1, 2)[values.offset :]


def floats(values: pa.Array) -> npt.NDArray[np.float64]:
    """Return floats as fp64, and other numbers as the nearest fp64; null becomes 0.0."""
    wide = values.cast(pa.float64(), safe=False)
    if wide.null_count:
        wide = pc.fill_null(wide, 0.0)
    return np.asarray(wide.to_numpy(zero_copy_only=False))


def nearest(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert decimals to the nearest floats of a type.

    Arrow's own cast multiplies, and so is sometimes off by one unit in the last place.
    """
    scale = values.type.scale
    below, mag = exact.magnitude(number_digits(values).digits)
    guard = 4 + -(-scale * 10 // (3 * DIGIT_BITS))  # keeps more than 64 bits of a quotient
    mag = np.concatenate([np.zeros((guard, mag.shape[1]), np.uint64), mag])
    mag, lost = exact.divide_by_power_of_ten(mag, scale)
    precision, lowest, type_ = FORMATS["fp32" if target == pa.float32() else "fp64"]
    rounded = exact.to_float(mag, below, lost, -guard, precision=precision, lowest=lowest)
    missing = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return pa.array(rounded.astype(type_), mask=missing)


def number_digits(values: pa.Array) -> FloatDigits:
    """Return integers, unscaled decimals or floats as carried digits.

    Null and floats that are not finite become 0.
    """
    if not pa.types.is_floating(values.type):
        return FloatDigits(0, exact.from_words(np.ascontiguousarray(integer_words(values))))
    number = floats(values)
    fraction, power = np.frexp(np.where(np.isfinite(number), number, 0.0))
    whole = np.ldexp(fraction, 53).astype(np.int64)
    unit = power.astype(np.int64) - 53
    place, shift = unit >> 5, unit & 31
    used = place[whole != 0]
    base, top = (int(used.min()), int(used.max())) if len(used) else (0, 0)
    place = np.where(whole != 0, place, base)
    digits = exact.zeros(top - base + 4, len(number))
    size, sign = np.abs(whole), np.sign(whole)
    low, high = (size & _MASK) << shift, (size >> np.int64(DIGIT_BITS)) << shift
    rows = np.arange(len(number))
    for j, part in enumerate((low & _MASK, (low >> 32) + (high & _MASK), high >> 32)):
        digits[place - base + j, rows] = part * sign
    return FloatDigits(base, exact.carry(digits))


def integers(measure: MeasureSpec, words: Words, valid: Mask) -> pa.Array:
    """Return integers of the measure's type from their lowest 64 bits, truncated to its size."""
    kind = measure.type.kind
    unused = np.int64(64 - INTEGER_BITS[kind])
    if kind == "u64":
        return decimals(np.stack([words, np.zeros_like(words)], axis=1), valid, measure.type)
    whole = words.view(np.int64) << unused
    if kind.startswith("u"):
        whole = (whole.view(np.uint64) >> unused.astype(np.uint64)).view(np.int64)
    else:
        whole = whole >> unused
    return pa.array(whole, mask=~valid).cast(to_arrow(measure.type))


def decimals(words: Words, valid: Mask, type_: Type) -> pa.Array:
    """Return an Arrow array of unscaled decimals, given in two's complement with shape (n, 2)."""
    mask = pa.py_buffer(np.packbits(valid, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(words))
    return pa.Array.from_buffers(to_arrow(type_), len(valid), [mask, data])


def scale_of(type_: Type) -> int:
    """Return the number of decimal digits after the point in numbers of this type."""
    return type_.params[1] if type_.kind == "decimal" else 0


def limits(type_: Type) -> tuple[int, int]:
    """Return the magnitudes of the least and the greatest integer or unscaled decimal of a type."""
    if type_.kind == "decimal":
        nines: int = 10 ** type_.params[0] - 1
        return nines, nines
    bits = INTEGER_BITS[type_.kind]
    if type_.kind.startswith("u"):
        return 0, (1 << bits) - 1
    return 1 << (bits - 1), (1 << (bits - 1)) - 1
