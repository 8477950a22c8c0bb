"""The columns of an Iceberg table in plain Arrow types, and whether they stay the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from substrait_agg.errors import InputRefused

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField


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


def check_same(old: Schema, new: Schema, names: Iterable[str], place: str) -> None:
    """Check that a later schema has the same columns of some names.

    Raises:
        InputRefused: SOURCE_SCHEMA_CHANGED.
    """
    before = {column.name: column for column in old.fields}
    after = {column.name: column for column in new.fields}
    for name in names:
        reason = _difference(before.get(name), after.get(name))
        if reason:
            raise InputRefused(
                "SOURCE_SCHEMA_CHANGED",
                f"a column that the plan reads has changed: the column {name} {reason}",
                help="start a new checkpoint; columns that the plan does not read may change",
                path=place,
            )


def _difference(old: NestedField | None, new: NestedField | None) -> str:
    """Return how a column has changed in a way that matters; empty if it has not."""
    if old is None or new is None:
        return "is missing"
    if old.field_type != new.field_type:
        return f"is another one: {old.field_type} is now {new.field_type}"
    if old.field_id != new.field_id:
        return "was removed, and another one has its name"
    return "may be null now" if old.required and not new.required else ""
