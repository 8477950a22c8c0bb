"""The columns of an Iceberg table, also in plain Arrow types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from substrait_agg.connect.snapshots import LakeColumn

if TYPE_CHECKING:
    from pyiceberg.schema import Schema


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return the columns in plain Arrow types, without those that have none, such as variant."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    columns = []
    for column in schema.fields:
        try:
            type_ = _plain(schema_to_pyarrow(column.field_type, include_field_ids=False))
        except (ValueError, TypeError, NotImplementedError, AttributeError):
            continue
        columns.append(pa.field(column.name, type_, not column.required))
    return pa.schema(columns)


def _plain(type_: pa.DataType) -> pa.DataType:
    """Return a type without large offsets and extensions."""
    types = pa.types
    if isinstance(type_, pa.BaseExtensionType):
        return _plain(type_.storage_type)
    if types.is_large_string(type_):
        return pa.string()
    if types.is_large_binary(type_) or types.is_fixed_size_binary(type_):
        return pa.binary()
    if types.is_large_list(type_) or types.is_list(type_):
        return pa.list_(_plain_field(type_.value_field))
    if types.is_map(type_):
        return pa.map_(_plain(type_.key_type), _plain_field(type_.item_field))
    if types.is_struct(type_):
        return pa.struct([_plain_field(field) for field in type_])
    return type_


def _plain_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _plain(field.type), field.nullable)


def columns_of(schema: Schema) -> dict[str, LakeColumn]:
    """Return the columns by their names."""
    return {
        f.name: LakeColumn(f.field_type, not f.required, str(f.field_id)) for f in schema.fields
    }
