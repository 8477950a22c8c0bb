"""Set DataFusion up to plan queries over tables of given schemas."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from substrait_agg.optional_packages import require
from substrait_agg.plan.plannable import plannable
from substrait_agg.sql_planner.names import TableNames
from substrait_agg.sql_planner.tokens import QueryText

if TYPE_CHECKING:
    from datafusion import SessionContext

SETTINGS = {
    # A scalar subquery becomes a join; the physical form has no form in Substrait.
    "datafusion.optimizer.enable_physical_uncorrelated_scalar_subquery": "false",
    "datafusion.sql_parser.map_string_types_to_utf8view": "false",
    "datafusion.execution.time_zone": "UTC",
    # Statistics of the empty tables must not decide anything.
    "datafusion.execution.collect_statistics": "false",
}
"""Settings of DataFusion -> value."""

DECIMAL_LITERALS = "datafusion.sql_parser.parse_float_as_decimal"
"""Setting: whether a literal such as 0.05 is a decimal, as in the standard, or a float."""

REMOVED_RULES = ("single_distinct_aggregation_to_group_by",)
"""Rules of the optimizer that are not used.

The first replaces count(DISTINCT x) by two aggregates, which cost more state than one.
"""


def new_session(
    tables: Mapping[tuple[str, ...], pa.Schema], *, decimal_literals: bool = True
) -> SessionContext:
    """Return a session of DataFusion that has tables of these schemas.

    Args:
        tables: name -> schema. A name has up to three parts: catalog, schema and table.
        decimal_literals: whether a literal such as 0.05 is a decimal, not a float.
    """
    require("datafusion")
    from datafusion import SessionConfig, SessionContext

    literals = "true" if decimal_literals else "false"
    context = SessionContext(SessionConfig({**SETTINGS, DECIMAL_LITERALS: literals}))
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

    Raises:
        Exception: DataFusion refuses the statement.
    """
    context = new_session({})
    _create_schema(context, name)
    context.sql(create)
    return plannable(context.table(".".join(map(quoted, name))).schema())


# --- literals with a point ----------------------------------------------------------------------

# A literal with a point is a decimal in the standard, and beside a decimal column it has to be one.
# Where DataFusion combines a decimal with a float, it casts the float to a decimal of 15 digits
# after the point: this rounds small numbers, and fails for large ones, infinity and NaN.

_CAST = re.compile(r"AS Decimal128\((?:30, ?15|14, ?7)\)")
_COMPARED = re.compile(
    r"CAST\([\w.\"]+ AS Decimal128\((?:30, ?15|14, ?7)\)\) (?:=|!=|<|<=|>|>=|IS (?:NOT )?DISTINCT FROM) Decimal128\("
)
_NUMBER_WORDS = ("decimal", "numeric", "dec")


def has_decimal_literals(query: QueryText, names: TableNames) -> bool:
    """Return whether literals with a point are decimals.

    They are floats only where the tables have floats, and nothing in the query is a decimal.
    """
    types = {type_ for schema in names.schemas.values() for type_ in schema.types}
    has_decimal = any(map(pa.types.is_decimal, types))
    named = any(token.is_word(*_NUMBER_WORDS) for token in query.tokens)
    return has_decimal or named or not any(map(pa.types.is_floating, types))


def check_casts_of_floats(logical: Any, optimized: Any, query: QueryText) -> None:
    """Refuse a plan that casts floats to decimals although the query does not.

    A comparison of a float column with a literal is corrected (`expressions`).

    Raises:
        SqlRefused: SQL_TYPES.
    """
    shown = optimized.display_indent()
    added = Counter(_CAST.findall(shown)) - Counter(_CAST.findall(logical.display_indent()))
    if sum(added.values()) > len(_COMPARED.findall(shown)):
        first = query.tokens[0]
        message = "a float is combined with a decimal, which would round the float to 15 digits after the point"
        help = "cast the decimal: CAST(0.5 AS double)"
        raise query.refused_token("SQL_TYPES", first, message, help)
