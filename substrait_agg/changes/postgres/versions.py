"""The table of versions: which version of which view a table has, written with its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg2 import sql

VERSIONS = "substrait_agg_versions"
"""Name of the table, in the schema of the tables that it describes."""

_CREATE = """
CREATE TABLE IF NOT EXISTS {} (
    name text PRIMARY KEY,
    checkpoint text NOT NULL,
    view text NOT NULL,
    history bigint NOT NULL,
    version bigint NOT NULL,
    created boolean NOT NULL,
    written timestamp with time zone NOT NULL
)"""


@dataclass(frozen=True, slots=True)
class TableVersion:
    """What a table has: a row of the table of versions.

    Attributes:
        checkpoint: id of the output in its checkpoint.
        view: name of the view.
        history: number of rollbacks of the checkpoint that had to empty the table.
        version: the version of the view.
        created: whether an output created the table.
    """

    checkpoint: str
    view: str
    history: int
    version: int
    created: bool


def place(schema: str, name: str) -> Any:
    """Return a qualified name as a part of a statement."""
    return sql.Identifier(schema, name)


def fill(statement: str, *parts: Any) -> Any:
    """Return a statement with parts in place of its braces."""
    return sql.SQL(statement).format(*parts)


def is_there(cursor: Any, schema: str, name: str) -> bool:
    """Return whether there is a table or anything else with this name."""
    cursor.execute(
        "SELECT to_regclass(format('%%I.%%I', %s::text, %s::text)) IS NOT NULL", [schema, name]
    )
    return bool(cursor.fetchone()[0])


def locked_version(cursor: Any, schema: str, name: str) -> TableVersion | None:
    """Return what a table has, and keep other runs from writing it until the transaction ends."""
    lock = f"substrait_agg {schema}.{name}"
    cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [lock])
    if not is_there(cursor, schema, VERSIONS):
        return None
    query = "SELECT checkpoint, view, history, version, created FROM {} WHERE name = {}"
    cursor.execute(fill(query, place(schema, VERSIONS), *_literals(name)))
    row = cursor.fetchone()
    return None if row is None else TableVersion(*row)


def write_version(
    cursor: Any, schema: str, name: str, had: TableVersion | None, now: TableVersion
) -> bool:
    """Note what a table has; return False if it does not have `had`, so that another run wrote it."""
    values = _literals(now.checkpoint, now.view, now.history, now.version, now.created)
    if had is None:
        if not is_there(cursor, schema, VERSIONS):
            lock = f"substrait_agg {schema}"
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [lock])
            cursor.execute(fill(_CREATE, place(schema, VERSIONS)))
        statement = "INSERT INTO {} VALUES ({}, {}, {}, {}, {}, {}, now()) ON CONFLICT DO NOTHING"
        cursor.execute(fill(statement, place(schema, VERSIONS), *_literals(name), *values))
    else:
        statement = (
            "UPDATE {} SET checkpoint = {}, view = {}, history = {}, version = {}, created = {}, "
            "written = now() WHERE name = {} AND checkpoint = {} AND history = {} AND version = {}"
        )
        before = _literals(name, had.checkpoint, had.history, had.version)
        cursor.execute(fill(statement, place(schema, VERSIONS), *values, *before))
    return bool(cursor.rowcount == 1)


def _literals(*values: Any) -> list[Any]:
    """Return values as parts of a statement: one with arguments may have no % in its names."""
    return [sql.Literal(value) for value in values]
