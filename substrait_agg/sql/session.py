"""Set DataFusion up to plan queries over tables of given schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from substrait_agg.optional_packages import require

if TYPE_CHECKING:
    from datafusion import SessionContext

SETTINGS = {
    # A scalar subquery becomes a join; the physical form has no form in Substrait.
    "datafusion.optimizer.enable_physical_uncorrelated_scalar_subquery": "false",
    # A literal such as 0.05 is a decimal, as in the standard, so that it compares exactly.
    "datafusion.sql_parser.parse_float_as_decimal": "true",
    "datafusion.sql_parser.map_string_types_to_utf8view": "false",
    "datafusion.execution.time_zone": "UTC",
    # Statistics of the empty tables must not decide anything.
    "datafusion.execution.collect_statistics": "false",
}
"""Settings of DataFusion -> value."""

REMOVED_RULES = ("single_distinct_aggregation_to_group_by",)
"""Rules of the optimizer that are not used.

The first replaces count(DISTINCT x) by two aggregates, which cost more state than one.
"""


def new_session(tables: Mapping[tuple[str, ...], pa.Schema]) -> SessionContext:
    """Return a session of DataFusion that has tables of these schemas.

    Args:
        tables: name -> schema. A name has up to three parts: catalog, schema and table.
    """
    require("datafusion")
    from datafusion import SessionConfig, SessionContext

    context = SessionContext(SessionConfig(SETTINGS))
    for rule in REMOVED_RULES:
        context.remove_optimizer_rule(rule)
    for name, schema in tables.items():
        if len(name) > 2:
            context.sql(f"CREATE DATABASE IF NOT EXISTS {quoted(name[-3])}")
        if len(name) > 1:
            folder = ".".join(map(quoted, name[-3:-1]))
            context.sql(f"CREATE SCHEMA IF NOT EXISTS {folder}")
        empty = pa.RecordBatch.from_pylist([], schema=plannable(schema))
        context.register_record_batches(".".join(map(quoted, name[-3:])), [[empty]])
    return context


def quoted(name: str) -> str:
    """Return a name in quotes, as SQL reads it."""
    return '"' + name.replace('"', '""') + '"'


def declared_schema(columns: str) -> pa.Schema:
    """Return the schema that the columns of a CREATE TABLE statement declare.

    Args:
        columns: SQL text such as ``(a bigint NOT NULL, b varchar)``, in which places can be kept by
            spaces in front. Their first characters are overwritten.

    Raises:
        ValueError: DataFusion refuses the text.
    """
    context = new_session({})
    context.sql(f"CREATE TABLE t {columns}")
    return plannable(context.table("t").schema())


# --- types --------------------------------------------------------------------------------------

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
}
"""Arrow type -> the type with the same values that plans use."""


def plannable(schema: pa.Schema) -> pa.Schema:
    """Return a schema in which every kind of value has one type.

    Timestamps have microseconds, those with a zone are in UTC, and strings are plain strings.
    """
    fields = [pa.field(f.name, plannable_type(f.type), f.nullable) for f in schema]
    return pa.schema(fields)


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
    return pa.field(field.name, plannable_type(field.type), field.nullable)
