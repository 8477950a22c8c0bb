"""Compute casts, with the results of `spark.types.casts`: failures or nulls, never a wrong value."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.bind.bound import Constant, Conversion
from substrait_agg.evaluation import decimals
from substrait_agg.evaluation.columns import (
    Numbers,
    array,
    null_unless,
    numbers,
    per_value,
    retype,
    valid,
)
from substrait_agg.evaluation.constants import MAX_DIGITS, arrow_type
from substrait_agg.evaluation.texts import TEXTS, slice_text
from substrait_agg.evaluation.times import as_dates, as_timestamps, texts
from substrait_agg.plan.types import INTEGER_BITS, SIGNED, Type

Convert = Callable[[pa.Array, Conversion], pa.Array]


_WHOLE_SOURCES = (*SIGNED, "u8", "u16", "u32")
_EXACT_IN_DOUBLE = 2**53
_EXACT_POWERS = 22
"""Powers of ten up to which a power is an exact double."""


def _range(kind: str) -> tuple[int, int]:
    bits = INTEGER_BITS[kind] - 1
    return -(1 << bits), (1 << bits) - 1


def _params(type_: Type) -> decimals.Params:
    precision, scale = type_.params or (20, 0)
    return precision, scale


def _integer_from(column: pa.Array, conversion: Conversion) -> pa.Array:
    """Convert whole numbers to an integer type; fail or give null outside of its range."""
    low, high = (pa.scalar(bound).cast(column.type) for bound in _bounds(column, conversion))
    if conversion.null_on_failure:
        inside = pc.and_(pc.greater_equal(column, low), pc.less_equal(column, high))
        column = null_unless(inside, column)
    return pc.cast(column, arrow_type(conversion.type))


def _bounds(column: pa.Array, conversion: Conversion) -> tuple[int, int]:
    low, high = _range(conversion.type.kind)
    if pa.types.is_decimal(column.type):
        return low, high
    info = np.iinfo(f"int{column.type.bit_width}")
    return max(low, int(info.min)), min(high, int(info.max))


def _integer_to_decimal(column: pa.Array, conversion: Conversion) -> pa.Array:
    target = _params(conversion.type)
    wide = decimals.wide(pc.cast(column, pa.int64()), target[1])
    return decimals.fit(wide, target, null_on_failure=conversion.null_on_failure)


def _decimal_to_decimal(column: pa.Array, conversion: Conversion) -> pa.Array:
    target = _params(conversion.type)
    return decimals.convert(column, target, null_on_failure=conversion.null_on_failure)


def _decimal_to_integer(column: pa.Array, conversion: Conversion) -> pa.Array:
    return _integer_from(decimals.drop_fraction(column), conversion)


def _decimal_to_double(column: pa.Array, _conversion: Conversion) -> pa.Array:
    """Return the nearest doubles."""
    scale = column.type.scale
    unscaled = retype(column, pa.decimal128(38, 0))
    limit = pa.scalar(_EXACT_IN_DOUBLE, pa.int64()).cast(unscaled.type)
    small = pc.less(pc.abs(unscaled), limit)
    if scale <= _EXACT_POWERS and pc.all(small).as_py() is not False:
        whole = pc.cast(unscaled, pa.int64())
        # The quotient of two exact doubles is rounded once.
        return per_value(lambda x: x.astype(np.float64) / 10.0**scale, pa.float64(), whole)
    return pc.cast(pc.cast(column, pa.string()), pa.float64())


def _to_float(column: pa.Array, conversion: Conversion) -> pa.Array:
    type_ = arrow_type(conversion.type)
    return per_value(lambda x: x.astype(type_.to_pandas_dtype()), type_, column)


def _float_to_integer(column: pa.Array, conversion: Conversion) -> pa.Array:
    """Truncate floats. As in Spark, 2^63 becomes the greatest i64: bounds compare as floats."""
    low, high = _range(conversion.type.kind)
    values = numbers(column).astype(np.float64)
    with np.errstate(invalid="ignore"):
        inside = (np.floor(values) <= float(high)) & (np.ceil(values) >= float(low))
        whole = np.where(inside, values, 0.0).astype(np.int64)
    whole = np.where(inside & (values >= 2.0**63), high, whole)
    is_valid = valid(column)
    if not conversion.null_on_failure and not np.all(
        inside if is_valid is None else inside | ~is_valid
    ):
        raise pa.ArrowInvalid(f"a float is outside of the range of {conversion.type.kind}")
    convertible = inside if is_valid is None else inside & is_valid
    return pc.cast(array(whole, pa.int64(), convertible), arrow_type(conversion.type))


def _bool_to_number(column: pa.Array, conversion: Conversion) -> pa.Array:
    whole = pc.cast(column, pa.int64())
    if conversion.type.kind == "decimal":
        return _integer_to_decimal(whole, conversion)
    return pc.cast(whole, arrow_type(conversion.type))


def _number_to_bool(column: pa.Array, _conversion: Conversion) -> pa.Array:
    def differs(values: Numbers) -> Numbers:
        """Return which numbers are not zero."""
        nonzero: Numbers = values != 0
        return nonzero

    if pa.types.is_decimal(column.type):
        return pc.invert(decimals.is_zero(column))
    return per_value(differs, pa.bool_(), column)


def _to_text(column: pa.Array, conversion: Conversion) -> pa.Array:
    return _cut_text(pc.cast(column, pa.string()), conversion)


def _decimal_to_text(column: pa.Array, conversion: Conversion) -> pa.Array:
    return _cut_text(decimals.texts(column), conversion)


def _point_to_text(column: pa.Array, conversion: Conversion) -> pa.Array:
    return _cut_text(texts(column), conversion)


def _cut_text(column: pa.Array, conversion: Conversion) -> pa.Array:
    source, target = conversion.input.type, conversion.type
    if target.kind == "string" or (
        source.kind in ("varchar", "fixedchar") and source.params[0] <= target.params[0]
    ):
        return column
    return slice_text(column, 0, target.params[0])


def _to_timestamp(column: pa.Array, conversion: Conversion) -> pa.Array:
    """Convert dates and timestamps to timestamps, whose fraction is truncated."""
    source, target = conversion.input.type, conversion.type
    type_ = arrow_type(target)
    if source.kind == "date":
        return as_timestamps(column, type_)
    if target.params[0] >= source.params[0]:
        return column.view(type_)
    step = 10 ** (MAX_DIGITS - target.params[0])
    ticks = numbers(column)
    if np.any(ticks < np.iinfo(np.int64).min + step):
        raise pa.ArrowInvalid("a timestamp is before the first one with fewer digits")
    return array(ticks - ticks % step, type_, valid(column))


def _keep(column: pa.Array, _conversion: Conversion) -> pa.Array:
    return column


_POINTS = ("precision_timestamp", "precision_timestamp_tz")

Pair = tuple[str, str]

_CASTS: dict[Pair, Convert] = {
    **{(s, t): _integer_from for s in _WHOLE_SOURCES for t in SIGNED},
    **{(s, "decimal"): _integer_to_decimal for s in _WHOLE_SOURCES},
    **{(s, t): _to_float for s in _WHOLE_SOURCES for t in ("fp32", "fp64")},
    **{(s, t): _to_float for s in ("fp32", "fp64") for t in ("fp32", "fp64")},
    **{(s, t): _float_to_integer for s in ("fp32", "fp64") for t in SIGNED},
    **{(s, "decimal"): _decimal_to_decimal for s in ("decimal", "u64")},
    **{(s, t): _decimal_to_integer for s in ("decimal", "u64") for t in SIGNED},
    **{(s, "fp64"): _decimal_to_double for s in ("decimal", "u64")},
    **{("bool", t): _bool_to_number for t in (*SIGNED, "fp32", "fp64", "decimal")},
    **{(s, "bool"): _number_to_bool for s in (*_WHOLE_SOURCES, "fp32", "fp64", "decimal")},
    **{(s, t): _to_text for s in ("bool", *_WHOLE_SOURCES) for t in TEXTS},
    **{(s, t): _decimal_to_text for s in ("decimal", "u64") for t in TEXTS},
    **{(s, t): _point_to_text for s in ("date", *_POINTS) for t in TEXTS},
    **{(s, t): _cut_text for s in TEXTS for t in TEXTS},
    **{(s, t): _to_timestamp for s in ("date", *_POINTS) for t in _POINTS},
    **{(s, "date"): lambda column, _conversion: as_dates(column) for s in _POINTS},
    **{(kind, kind): _keep for kind in ("bool", "date", "binary", "interval_year")},
}  # fmt: skip
"""(kind of the source, kind of the target) -> how to convert."""


def cast_of(conversion: Conversion) -> Convert | None:
    """Return how to compute a cast, None if it is not supported."""
    types = (conversion.input.type, conversion.type)
    if any(arrow_type(type_) is None for type_ in types):
        return None
    return _CASTS.get((types[0].kind, types[1].kind))


_DAY = r"\d{4}-\d{2}-\d{2}"
_CLOCK = r"\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?"
_FLOAT = r"-?\d{1,38}(?:\.\d{1,38})?(?:[eE][+-]?\d{1,3})?|NaN|-?Infinity"
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the texts have no zone


def _plain_date(text: str, _type: Type) -> int:
    return (date.fromisoformat(text) - _EPOCH.date()).days


def _plain_timestamp(text: str, type_: Type) -> int | None:
    micros = (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)
    ticks, rest = divmod(micros, 10 ** (MAX_DIGITS - type_.params[0]))
    return None if rest else ticks


def _plain_integer(text: str, type_: Type) -> int | None:
    low, high = _range(type_.kind)
    return int(text) if low <= int(text) <= high else None


def _plain_decimal(text: str, type_: Type) -> int | None:
    precision, scale = type_.params
    _, digits, exponent = Decimal(text).as_tuple()
    has = -int(exponent)
    fits = has <= scale and len(digits) + scale - has <= precision
    return int(text.replace(".", "")) * 10 ** (scale - has) if fits else None


def _plain_float(text: str, type_: Type) -> float | None:
    value = float(text)
    if type_.kind == "fp64" or math.isnan(value):
        return value
    with np.errstate(over="ignore"):
        is_exact = float(np.float32(value)) == value
    return value if is_exact else None  # another one would be rounded twice


_PLAIN: dict[str, tuple[re.Pattern[str], Callable[[str, Type], int | float | None]]] = {
    "date": (re.compile(_DAY, re.ASCII), _plain_date),
    "precision_timestamp": (re.compile(rf"{_DAY}(?:[ T]{_CLOCK})?", re.ASCII), _plain_timestamp),
    **dict.fromkeys(SIGNED, (re.compile(r"-?\d{1,19}", re.ASCII), _plain_integer)),
    "decimal": (re.compile(r"-?\d{1,38}(?:\.\d{1,38})?", re.ASCII), _plain_decimal),
    **dict.fromkeys(("fp32", "fp64"), (re.compile(_FLOAT, re.ASCII), _plain_float)),
}  # fmt: skip
"""Kind of a type -> texts that every system reads alike, and their value as in `Constant`; None if it does not fit."""


def fold(conversion: Conversion) -> Constant | None:
    """Return the cast of a constant text as a constant; None if it is something else.

    Only texts in the usual form of a date, a timestamp or a number are read; null is null in every type.
    """
    source, target = conversion.input, conversion.type
    if not isinstance(source, Constant) or source.type.kind not in TEXTS:
        return None
    if source.value is None:
        return Constant(target, None)
    pattern, read = _PLAIN.get(target.kind, (None, None))
    if pattern is None or read is None or not isinstance(source.value, str):
        return None
    if not pattern.fullmatch(source.value) or arrow_type(target) is None:
        return None
    try:
        value = read(source.value, target)
    except ValueError:
        return None
    return None if value is None else Constant(target, value)
