"""Fast path of `finalize` for totals that fit 63 bits, in plain 64-bit arithmetic.

It returns the same values as the general path (a test compares them). It returns None if a step
could overflow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from substrait_agg.functions.numbers import exact
from substrait_agg.operator.common.spec import MeasureSpec
from substrait_agg.operator.numeric.numbers import limits
from substrait_agg.plan.types import INTEGER_BITS

_ROOM = 1 << 62
_EXACT_FLOAT = 1 << 53

Int64s = npt.NDArray[np.int64]
Divisors = npt.NDArray[np.uint64] | None


def small_quotient(
    measure: MeasureSpec, digits: exact.Digits, divisor: Divisors
) -> npt.NDArray[Any] | None:
    """Return the values of a measure from its carried total, None if the general path is needed.

    Returns:
        int64 (for decimals the unscaled value), or the float type of the measure.
    """
    total = exact.as_int64(digits)
    if total is None or not len(total):
        return None
    kind = measure.type.kind
    if kind in INTEGER_BITS:
        return _whole(measure, total, divisor)
    if kind == "decimal":
        return _decimal(measure, total, divisor)
    return _float(measure, total, divisor)


def _largest(values: npt.NDArray[Any]) -> int:
    return max(abs(int(values.max())), abs(int(values.min())))


def _signed(total: Int64s, size: Int64s) -> Int64s:
    return np.where(total < 0, -size, size)


def _whole(measure: MeasureSpec, total: Int64s, divisor: Divisors) -> Int64s | None:
    if measure.scale:
        return None
    result = total
    if divisor is not None:
        result = _signed(total, np.abs(total) // divisor.view(np.int64))
    least, greatest = limits(measure.type)
    fits = -least <= int(result.min()) and int(result.max()) <= greatest
    return result if fits else None


def _decimal(measure: MeasureSpec, total: Int64s, divisor: Divisors) -> Int64s | None:
    precision, scale = measure.type.params
    shift = scale - measure.scale
    up, down = 10 ** max(0, shift), 10 ** max(0, -shift)
    if 2 * max(1, _largest(total)) * up >= _ROOM:
        return None
    size = np.abs(total) * np.int64(up)
    if divisor is not None or down > 1:
        units = np.ones_like(total) if divisor is None else divisor.view(np.int64)
        if _largest(units) * down >= _ROOM:
            return None
        size = (2 * size // (units * np.int64(down)) + 1) // 2  # round half away from zero
    if int(size.max()) >= 10**precision:
        return None
    return _signed(total, size)


def _float(measure: MeasureSpec, total: Int64s, divisor: Divisors) -> npt.NDArray[Any] | None:
    if measure.type.kind != "fp64":
        return None  # rounding to fp64 and then to fp32 can differ from rounding once
    units = 10**measure.scale
    if divisor is None and units == 1:
        return total.astype(np.float64)
    over = np.float64(units) if divisor is None else divisor.astype(np.float64) * units
    most = units if divisor is None else _largest(divisor) * units
    if most > _EXACT_FLOAT or _largest(total) > _EXACT_FLOAT:
        return None
    return np.asarray(total.astype(np.float64) / over)
