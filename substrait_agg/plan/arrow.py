"""Map Substrait types to Arrow types: the types of values in Spark, state, changes and views."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count

import pyarrow as pa

from substrait_agg.errors import UsageError
from substrait_agg.plan.types import Type, field_name

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
        raise refuse_type(type_)
    return digits


def refuse_type(type_: Type) -> UsageError:
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
        raise refuse_type(type_)
    return pa.decimal128(precision, scale)


def _struct(type_: Type) -> pa.DataType:
    # The fields of a null struct are null, and Arrow validates them all the same.
    children = (c.as_nullable(c.nullable or type_.nullable) for c in type_.children)
    return pa.struct(field(field_name(i), child) for i, child in enumerate(children))


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
    them. Fields of a struct are named ``f0``, ``f1``, ... because Substrait types do not name them;
    `with_field_names` gives them the names of a plan.

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
        raise refuse_type(type_)
    return build(type_)


def field(name: str, type_: Type) -> pa.Field:
    """Return a field of `type_`; for kinds in `MARKED`, its metadata contain the kind."""
    metadata = {KIND: type_.kind.encode("ascii")} if type_.kind in MARKED else None
    return pa.field(name, to_arrow(type_), type_.nullable, metadata)


def arrow_schema(
    names: Sequence[str], types: Sequence[Type], fields: Sequence[Sequence[str]] = ()
) -> pa.Schema:
    """Return a schema of columns with their nullability; names need not be unique.

    Args:
        names: names of the columns.
        types: their types.
        fields: per column the names of the struct fields inside it, depth first; empty to name them
            by their positions.

    Raises:
        UsageError: ``TYPE_NOT_SUPPORTED`` as in `to_arrow`.
    """
    columns = [field(n, t) for n, t in zip(names, types, strict=True)]
    inside = zip(columns, fields, strict=True) if fields else ()
    return pa.schema([c.with_type(with_field_names(c.type, n)) for c, n in inside] or columns)


def with_field_names(type_: pa.DataType, names: Iterable[str]) -> pa.DataType:
    """Return a type with other names of the struct fields inside it, given depth first.

    >>> with_field_names(to_arrow(Type("struct", children=(Type("i8"),))), ["a"])
    StructType(struct<a: int8>)
    """
    iterator = iter(names)
    return _rename(type_, lambda _: iterator)


def by_position(type_: pa.DataType) -> pa.DataType:
    """Return a type with the names ``f0``, ``f1``, ... in every struct, as `to_arrow` gives them."""
    return _rename(type_, lambda _: map(field_name, count()))


def _rename(type_: pa.DataType, names: Callable[[pa.DataType], Iterator[str]]) -> pa.DataType:
    """Return a type whose structs have the names that `names` returns for each of them."""

    def inside(part: pa.Field) -> pa.Field:
        return part.with_type(_rename(part.type, names))

    if pa.types.is_struct(type_):
        own = names(type_)
        return pa.struct([inside(part.with_name(next(own))) for part in type_])
    if pa.types.is_list(type_):
        return pa.list_(inside(type_.value_field))
    if pa.types.is_map(type_):
        return pa.map_(inside(type_.key_field), inside(type_.item_field))
    return type_
