"""Give every kind of value one Arrow type, so that plans do not depend on how a file stores it."""

from __future__ import annotations

import pyarrow as pa

_INSTEAD: dict[pa.DataType, pa.DataType] = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
    pa.float16(): pa.float32(),
    pa.time32("s"): pa.time64("us"),
    pa.time32("ms"): pa.time64("us"),
    pa.time64("ns"): pa.time64("us"),
    pa.null(): pa.string(),
    # As Spark reads them.
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}
"""Arrow type -> the type with the same values that plans use."""


COLLATED = b"substrait_agg.collated"
"""Key in the metadata of a column whose texts have a collation. The value is its type as JSON of Spark."""


def plannable(schema: pa.Schema) -> pa.Schema:
    """Return a schema in which every kind of value has one type.

    Timestamps have microseconds, those with a zone are in UTC, and strings are plain strings.
    """
    fields = [
        pa.field(f.name, plannable_type(f.type), f.nullable, _collation_of(f)) for f in schema
    ]
    return pa.schema(fields)


def _collation_of(field: pa.Field) -> dict[bytes, bytes] | None:
    metadata = field.metadata or {}
    return {COLLATED: metadata[COLLATED]} if COLLATED in metadata else None


def plannable_type(type_: pa.DataType) -> pa.DataType:
    """Return the type that plans use for values of an Arrow type."""
    if type_ in _INSTEAD:
        return _INSTEAD[type_]
    types = pa.types
    if types.is_timestamp(type_):
        return pa.timestamp("us", None if type_.tz is None else "UTC")
    if types.is_dictionary(type_):
        return plannable_type(type_.value_type)
    if types.is_decimal(type_) and type_.precision <= 38:
        return pa.decimal128(type_.precision, type_.scale)
    if types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_):
        return pa.list_(_plannable_field(type_.value_field))
    if types.is_struct(type_):
        return pa.struct([_plannable_field(part) for part in type_.fields])
    if types.is_map(type_):
        return pa.map_(plannable_type(type_.key_type), _plannable_field(type_.item_field))
    return type_


def _plannable_field(field: pa.Field) -> pa.Field:
    type_ = plannable_type(field.type)
    # Spark marks the structs that are variants so.
    mark = {k: v for k, v in (field.metadata or {}).items() if k == b"variant"}
    return pa.field(field.name, type_, field.nullable, mark or None)
