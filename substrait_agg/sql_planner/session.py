"""Set DataFusion up to plan queries over tables of given schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from substrait_agg.optional_packages import require
from substrait_agg.plan.plannable import plannable

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
        _create_schema(context, name)
        empty = pa.RecordBatch.from_pylist([], schema=plannable(schema))
        context.register_record_batches(".".join(map(quoted, name[-3:])), [[empty]])
    return context


def _create_schema(context: SessionContext, name: tuple[str, ...]) -> None:
    if len(name) > 2:
        context.sql(f"CREATE DATABASE IF NOT EXISTS {quoted(name[-3])}")
    if len(name) > 1:
        folder = ".".join(map(quoted, name[-3:-1]))
        context.sql(f"CREATE SCHEMA IF NOT EXISTS {folder}")


def quoted(name: str) -> str:
    """Return a name in quotes, as SQL reads it."""
    return '"' + name.replace('"', '""') + '"'


def declared_schema(create: str, name: tuple[str, ...]) -> pa.Schema:
    """Return the columns that a CREATE TABLE statement declares.

    Args:
        create: the statement.
        name: the name of its table.

    Raises:
        Exception: DataFusion refuses the statement.
    """
    context = new_session({})
    _create_schema(context, name)
    context.sql(create)
    return plannable(context.table(".".join(map(quoted, name))).schema())
