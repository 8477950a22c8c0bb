"""What the catalogue of a database says about tables and their publication.

Everything here only reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from substrait_agg.connect.postgres.connection import Catalogue
from substrait_agg.connect.postgres.types import PublishedColumn
from substrait_agg.errors import InputRefused

PUBLICATION = "substrait_agg"
"""Name of the publication, if the option does not name another."""

FULL, DEFAULT, INDEX = "f", "d", "i"
"""Replica identities of ``pg_class.relreplident``."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table in the catalogue.

    Attributes:
        oid: its oid.
        schema: its schema.
        name: its name in the schema.
        partitioned: whether it has partitions.
        identity: its replica identity, as in ``pg_class``.
        keys: columns of the identity, if it is not FULL; empty if rows cannot be changed.
        columns: the columns that the publication has, by name.
    """

    oid: int
    schema: str
    name: str
    partitioned: bool
    identity: str
    keys: tuple[str, ...]
    columns: Mapping[str, PublishedColumn]

    @property
    def full_name(self) -> str:
        """Schema and name, for messages."""
        return f"{self.schema}.{self.name}"


_TABLE = """
SELECT c.oid, n.nspname, c.relname, c.relkind, c.relreplident, array(
    SELECT a.attname::text FROM pg_index i
    CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
    WHERE i.indrelid = c.oid AND k.place <= i.indnkeyatts AND i.indimmediate AND i.indisvalid
        AND (c.relreplident = 'd' AND i.indisprimary OR c.relreplident = 'i' AND i.indisreplident)
    ORDER BY k.place)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)
"""

_COLUMNS = """
WITH RECURSIVE columns AS (
    SELECT a.attnum, a.attname, a.atttypid AS oid, a.atttypmod AS modifier,
        a.atttypid AS base, a.atttypmod AS base_modifier
    FROM pg_attribute a WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT c.attnum, c.attname, c.oid, c.modifier, t.typbasetype,
        CASE WHEN t.typtypmod = -1 THEN c.base_modifier ELSE t.typtypmod END
    FROM columns c JOIN pg_type t ON t.oid = c.base WHERE t.typtype = 'd')
SELECT c.attname, c.oid::int8, c.modifier, c.base::int8, c.base_modifier
FROM columns c JOIN pg_type t ON t.oid = c.base
WHERE t.typtype <> 'd' AND c.attname = ANY(%s) ORDER BY c.attnum
"""

_FLAGS = """
SELECT pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot
FROM pg_publication WHERE pubname = %s
"""

_PUBLISHED = """
SELECT attnames::text[], rowfilter FROM pg_publication_tables
WHERE pubname = %s AND schemaname = %s AND tablename = %s
"""

_OTHER_IDENTITY = """
SELECT l.relid::regclass::text FROM pg_partition_tree(%s::oid) l JOIN pg_class c ON c.oid = l.relid
WHERE l.isleaf AND c.relreplident <> %s LIMIT 1
"""


def check_server(catalogue: Catalogue) -> None:
    """Check that the server writes what logical decoding needs.

    Raises:
        InputRefused: WAL_LEVEL_TOO_LOW.
    """
    (level,) = catalogue.query("SHOW wal_level")[0]
    if level != "logical":
        message = f"the server of {catalogue.address.name} has wal_level={level}"
        help_ = "ALTER SYSTEM SET wal_level = 'logical', then restart the server"
        raise InputRefused("WAL_LEVEL_TOO_LOW", message, help=help_)


def read_table(catalogue: Catalogue, location: str, publication: str) -> Table:
    """Return a table and its published columns.

    Args:
        catalogue: of its database.
        location: its name as in SQL: ``schema.table``, with quotes where SQL needs them.
        publication: which must publish all its rows and changes.

    Raises:
        InputRefused: SOURCE_NOT_FOUND, SOURCE_UNREADABLE, PUBLICATION_INCOMPLETE.
    """
    row = catalogue.row(_TABLE, (location,))
    if row is None:
        message = f"there is no table {location} in {catalogue.address.name}"
        raise InputRefused("SOURCE_NOT_FOUND", message, help="write schema.table, as in SQL")
    oid, schema, name, kind, identity, keys = row
    if kind not in {"r", "p"}:
        message = f"{schema}.{name} is not a table"
        raise InputRefused("SOURCE_UNREADABLE", message, help="name the tables that it reads")
    published = _read_published(catalogue, publication, schema, name)
    columns = {c[0]: PublishedColumn(*c) for c in catalogue.query(_COLUMNS, (oid, published))}
    keys = tuple(keys) if identity in {DEFAULT, INDEX} else ()
    table = Table(oid, schema, name, kind == "p", identity, keys, columns)
    _check_partitions(catalogue, table)
    missing = [key for key in table.keys if key not in columns]
    if missing:
        problem = f"does not publish {', '.join(missing)} of {table.full_name}"
        raise _incomplete(publication, problem, "publish the columns of the replica identity")
    return table


def _read_published(
    catalogue: Catalogue, publication: str, schema: str, name: str
) -> Sequence[str]:
    """Return the columns of a table that a publication has."""
    flags = catalogue.row(_FLAGS, (publication,))
    create = f"CREATE PUBLICATION {publication} FOR TABLE {schema}.{name}"
    if flags is None:
        raise _incomplete(publication, "does not exist", create)
    names = ("insert", "update", "delete", "truncate")
    if not all(flags[:4]):
        off = ", ".join(word for word, on in zip(names, flags, strict=False) if not on)
        help_ = f"ALTER PUBLICATION {publication} SET (publish = '{', '.join(names)}')"
        raise _incomplete(publication, f"does not publish {off}", help_)
    row = catalogue.row(_PUBLISHED, (publication, schema, name))
    if row is None:
        help_ = (
            f"ALTER PUBLICATION {publication} ADD TABLE {schema}.{name}; a partitioned table also"
            " needs SET (publish_via_partition_root = true), a partition must not have it"
        )
        raise _incomplete(publication, f"does not have {schema}.{name}", help_)
    columns, row_filter = row
    if row_filter is not None:
        problem = f"has only the rows of {schema}.{name} with {row_filter}"
        raise _incomplete(
            publication, problem, "publish the table without WHERE, and filter in the query"
        )
    return list(columns)


def _incomplete(publication: str, problem: str, help_: str) -> InputRefused:
    message = f"publication {publication} {problem}"
    return InputRefused("PUBLICATION_INCOMPLETE", message, help=help_)


def _check_partitions(catalogue: Catalogue, table: Table) -> None:
    if not table.partitioned:
        return
    other = catalogue.row(_OTHER_IDENTITY, (table.oid, table.identity))
    if other is not None:
        message = f"partition {other[0]} has another replica identity than {table.full_name}"
        help_ = "ALTER TABLE ... REPLICA IDENTITY of the table and all its partitions alike"
        raise InputRefused("SOURCE_UNREADABLE", message, help=help_)
