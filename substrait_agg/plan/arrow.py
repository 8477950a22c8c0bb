"""Map Substrait types to Arrow types: the types of values in Spark, state, changes and views."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from substrait_agg.errors import UsageError
from substrait_agg.plan.types import Type

MAX_DECIMAL_PRECISION = 38

KIND = b"substrait_agg.kind"
"""Metadata key of a field whose values represent a kind that Spark does not have."""

MARKED = frozenset({"u64", "uuid", "precision_time"})
"""Kinds whose text encoding does not follow from their Arrow type."""

_SIMPLE: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "i8": pa.int8(),
    "i16": pa.int16(),
    "i32": pa.int32(),
    "i64": pa.int64(),
    # Spark has no unsigned types: an unsigned integer is stored in the next wider signed type.
    "u8": pa.int16(),
    "u16": pa.int32(),
    "u32": pa.int64(),
    "u64": pa.decimal128(20, 0),
    "fp32": pa.float32(),
    "fp64": pa.float64(),
    "string": pa.string(),
    "fixedchar": pa.string(),
    "varchar": pa.string(),
    "binary": pa.binary(),
    "fixedbinary": pa.binary(),
    "uuid": pa.binary(),  # Spark's Parquet reader does not support the UUID type
    "date": pa.date32(),
    # In months: the Python package of Arrow has no year-month interval.
    "interval_year": pa.int32(),
}


def _digits(type_: Type, most: int) -> int:
    digits = type_.params[0]
    if not 0 <= digits <= most:
        raise unsupported(type_)
    return digits


def unsupported(type_: Type) -> UsageError:
    """Return the error for a type that no column can have."""
    return UsageError(
        "TYPE_NOT_SUPPORTED",
        f"a column cannot have the type {type_}",
        help="cast it in the plan to a supported type",
    )


def _time(type_: Type) -> pa.DataType:
    _digits(type_, 6)
    return pa.time64("ns")


def _timestamp_tz(type_: Type) -> pa.DataType:
    return pa.timestamp("us" if _digits(type_, 9) <= 6 else "ns", "UTC")


def _decimal(type_: Type) -> pa.DataType:
    precision, scale = type_.params
    if not (1 <= precision <= MAX_DECIMAL_PRECISION and 0 <= scale <= precision):
        raise unsupported(type_)
    return pa.decimal128(precision, scale)


def _struct(type_: Type) -> pa.DataType:
    # The fields of a null struct are null, and Arrow validates them all the same.
    children = (c.as_nullable(c.nullable or type_.nullable) for c in type_.children)
    return pa.struct(field(f"f{i}", child) for i, child in enumerate(children))


def _list(type_: Type) -> pa.DataType:
    element = type_.children[0]
    return pa.list_(field("element", element))


def _map(type_: Type) -> pa.DataType:
    key, value = type_.children
    return pa.map_(field("key", key.as_nullable(False)), field("value", value))


_BUILT: dict[str, Callable[[Type], pa.DataType]] = {
    "decimal": _decimal,
    "precision_time": _time,
    "precision_timestamp": lambda type_: pa.timestamp("us" if _digits(type_, 9) <= 6 else "ns"),
    "precision_timestamp_tz": _timestamp_tz,
    "interval_day": lambda type_: pa.duration("us" if _digits(type_, 9) <= 6 else "ns"),
    "struct": _struct,
    "list": _list,
    "map": _map,
}


def to_arrow(type_: Type) -> pa.DataType:
    """Return the Arrow type of a column of type `type_`.

    Timestamps of up to 6 digits are stored in microseconds, times in nanoseconds as Spark provides
    them. Fields of a struct are named ``f0``, ``f1``, ... because Substrait types do not name them.

    >>> to_arrow(Type("decimal", params=(15, 2)))
    Decimal128Type(decimal128(15, 2))

    Raises:
        UsageError: ``TYPE_NOT_SUPPORTED`` for types that no column can have (user defined, compound
            intervals, ...).
    """
    if type_.kind in _SIMPLE:
        return _SIMPLE[type_.kind]
    build = _BUILT.get(type_.kind)
    if build is None:
        raise unsupported(type_)
    return build(type_)


def field(name: str, type_: Type) -> pa.Field:
    """Return a field of `type_`; for kinds in `MARKED`, its metadata contain the kind."""
    metadata = {KIND: type_.kind.encode("ascii")} if type_.kind in MARKED else None
    return pa.field(name, to_arrow(type_), type_.nullable, metadata)


def arrow_schema(names: Sequence[str], types: Sequence[Type]) -> pa.Schema:
    """Return a schema of columns with their nullability; names need not be unique.

    Raises:
        UsageError: ``TYPE_NOT_SUPPORTED`` as in `to_arrow`.
    """
    return pa.schema([field(n, t) for n, t in zip(names, types, strict=True)])
