"""Values of sort keys as integers in their order, and the values at a distance from them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.state.keys.rows import Mask

Int64s = npt.NDArray[np.int64]
"""Numbers of 64 bits; those of decimals of more than 18 digits are integers of Python."""

_MOST_DIGITS = 18
"""Most digits of decimals that fit 64 bits."""
_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_NO_SIGN = np.int64(_GREATEST)
_DAYS: Mapping[str, int] = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}  # fmt: skip


def units_of_day(type_: pa.DataType) -> int:
    """Return how many least units of a date or timestamp a day has."""
    return 1 if pa.types.is_date(type_) else _DAYS[type_.unit]


def at_distance(
    values: pa.Array, distance: int | float, rest: int = 0, *, months: bool = False
) -> tuple[Int64s, Mask]:
    """Return values plus a distance as `as_integers`, and a mask of those limited to 64 bits.

    Args:
        values: values of a sort key.
        distance: of least units or of months; a float is added in the arithmetic of the values.
        rest: least units to add after months.
        months: whether it counts months. A day that the month does not have is its last day.
    """
    if isinstance(distance, int):
        numbers = as_integers(values)
        if months:
            numbers, outside = _add_months(numbers, distance, units_of_day(values.type))
            moved, is_beyond = move(numbers, rest)
            return np.where(outside, numbers, moved), outside | is_beyond
        return move(numbers, distance)
    floats = _as_floats(values)
    with np.errstate(over="ignore"):  # infinity is the nearest float
        sums = floats + floats.dtype.type(distance)
    return _in_order(sums), np.zeros(len(values), np.bool_)


def move(numbers: Int64s, distance: int) -> tuple[Int64s, Mask]:
    """Return numbers plus a distance, and a mask of those limited to 64 bits."""
    if numbers.dtype == object:
        return numbers + distance, np.zeros(len(numbers), np.bool_)
    distance = max(min(distance, _GREATEST), -_GREATEST)
    limit = _GREATEST if distance > 0 else _LEAST
    outside = numbers > limit - distance if distance > 0 else numbers < limit - distance
    return np.where(outside, limit, numbers + np.where(outside, 0, distance)), outside


def _add_months(numbers: Int64s, months: int, day: int) -> tuple[Int64s, Mask]:
    """Return times plus months, and a mask of those limited to 64 bits."""
    days, rest = np.divmod(numbers, day)
    month = days.astype("M8[D]").astype("M8[M]").astype(np.int64)
    moved = month + months
    of_month = np.minimum(days - _first_day(month), _first_day(moved + 1) - _first_day(moved) - 1)
    days = _first_day(moved) + of_month
    limit = _GREATEST // day - 1
    outside = np.abs(days) > limit
    moved_times = np.where(outside, 0, days) * day + rest
    return np.where(outside, np.where(days > 0, _GREATEST, _LEAST), moved_times), outside


def _first_day(month: Int64s) -> Int64s:
    """Return the day with which a month begins, both counted from 1970."""
    return np.asarray(month.astype("M8[M]").astype("M8[D]").astype(np.int64))


def as_integers(values: pa.Array) -> Int64s:
    """Return numbers in the order of values; 0 for null.

    Integers, dates, timestamps, intervals and decimals become their least units.
    """
    if pa.types.is_floating(values.type):
        return _in_order(_as_floats(values))
    if pa.types.is_decimal(values.type):
        whole = values.cast(pa.decimal128(38, values.type.scale)).fill_null(0)
        words = np.frombuffer(whole.buffers()[1], np.int64)[2 * whole.offset :]
        low, high = words[: 2 * len(whole) : 2], words[1 : 2 * len(whole) : 2]
        if values.type.precision <= _MOST_DIGITS:
            return low
        return np.asarray((high.astype(object) << 64) + low.view(np.uint64).astype(object))
    if pa.types.is_date(values.type):
        values = values.cast(pa.int32())
    return np.asarray(values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False))


def _as_floats(values: pa.Array) -> npt.NDArray[np.floating]:
    return np.asarray(values.fill_null(0.0).to_numpy(zero_copy_only=False))


def _in_order(floats: npt.NDArray[np.floating]) -> Int64s:
    """Return numbers in the order of floats: the zeros are equal, NaN is the greatest."""
    whole = floats.astype(np.float64) + 0.0
    bits = np.where(np.isnan(whole), np.nan, whole).view(np.int64)
    return bits ^ ((bits >> np.int64(63)) & _NO_SIGN)


def of_integers(numbers: Int64s, type_: pa.DataType) -> pa.Array:
    """Return values of a type from their least units; the nearest value if the type has none."""
    if pa.types.is_decimal(type_):
        most = 10**type_.precision - 1
        within = np.clip(numbers, -most, most)
        if within.dtype == object:
            low, high = (within & (1 << 64) - 1).astype(np.uint64).view(np.int64), within >> 64
        else:
            low, high = within, within >> np.int64(63)
        words = np.stack([low, high.astype(np.int64)], axis=1)
        return pa.Array.from_buffers(type_, len(low), [None, pa.py_buffer(words.tobytes())])
    stored = {pa.date32(): np.dtype(np.int32)}.get(type_) or (
        np.dtype(type_.to_pandas_dtype()) if pa.types.is_integer(type_) else np.dtype(np.int64)
    )
    limits = np.iinfo(stored)
    return pa.array(np.clip(numbers, limits.min, limits.max).astype(stored)).cast(type_)
