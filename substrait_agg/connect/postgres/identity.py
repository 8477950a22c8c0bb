"""Check that tables and publication are still those whose rows were read.

PostgreSQL says nothing to a reader if a table, or its entry in the publication, is dropped and made
again: the changes between are missing. Each read therefore looks at the catalogue first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from substrait_agg.connect.postgres.connection import Catalogue
from substrait_agg.connect.postgres.position import Identity
from substrait_agg.connect.postgres.setup import Table
from substrait_agg.errors import InputRefused

_DATABASE = """
SELECT (SELECT system_identifier::text FROM pg_control_system()),
    (SELECT oid::int8 FROM pg_database WHERE datname = current_database()),
    oid::int8, pubinsert AND pubupdate AND pubdelete AND pubtruncate, pubviaroot
FROM (SELECT 1) one LEFT JOIN pg_publication ON pubname = %s
"""

_TABLES = """
SELECT w.key, c.oid::int8, c.relreplident::text, pg_relation_filenode(c.oid)::int8,
    array(SELECT oid::int8 FROM pg_publication_rel
        WHERE prpubid = %(publication)s AND prrelid IN (
            SELECT c.oid UNION ALL SELECT relid::oid FROM pg_partition_ancestors(c.oid)) ORDER BY 1)
    || array(SELECT oid::int8 FROM pg_publication_namespace
        WHERE pnpubid = %(publication)s AND pnnspid = c.relnamespace ORDER BY 1),
    CASE WHEN c.relkind = 'p' THEN array(
        SELECT l.relid::oid || ':' || pg_relation_filenode(l.relid)
        FROM pg_partition_tree(c.oid) l WHERE l.isleaf ORDER BY 1) END,
    (SELECT json_object_agg(a.attname, array[
        a.attnum::text, a.atttypid::text, a.atttypmod::text, a.xmin::text])
        FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
            AND a.attname IN (SELECT json_array_elements_text(w.value->'columns')))
FROM json_each(%(wanted)s::json) w JOIN pg_class c ON c.oid = (w.value->>'oid')::oid
"""

RELOAD = "start a new checkpoint, which reads the tables again"


def read_identity(
    catalogue: Catalogue,
    publication: str,
    tables: Mapping[str, Table],
    columns: Mapping[str, Sequence[str]],
) -> Identity:
    """Return the identity of tables and publication as JSON values.

    Args:
        catalogue: of the database.
        publication: its name.
        tables: the tables by their names in the plan.
        columns: the columns that are read, by the same names.
    """
    system, database, oid, whole, root = catalogue.query(_DATABASE, (publication,))[0]
    requests = {
        name: {"oid": table.oid, "columns": list(columns[name])} for name, table in tables.items()
    }
    values = {"publication": oid, "wanted": json.dumps(requests)}
    names = ("oid", "identity", "file", "entries", "partitions", "columns")
    described = {
        row[0]: dict(zip(names, row[1:], strict=True), keys=list(tables[row[0]].keys))
        for row in catalogue.query(_TABLES, values)
    }
    return {
        "system": system,
        "database": database,
        "publication": [oid, whole, root],
        "tables": described,
    }


def check_identity(before: Identity, now: Identity) -> None:
    """Check that rows after a position still belong to the rows before it.

    Raises:
        InputRefused: SOURCE_RECREATED, SOURCE_SCHEMA_CHANGED, COLUMN_MISSING, SOURCE_POSITION_GONE.
    """
    for key, what in (
        ("system", "the database server is another one"),
        ("database", "the database was created again"),
        ("publication", "the publication was created again, or publishes other changes"),
    ):
        if before[key] != now[key]:
            raise InputRefused("SOURCE_RECREATED", what, help=RELOAD)
    old_tables = cast("Mapping[str, Mapping[str, Any]]", before["tables"])
    new_tables = cast("Mapping[str, Mapping[str, Any]]", now["tables"])
    added = sorted(new_tables.keys() - old_tables.keys())
    if added:
        message = f"the checkpoint has no rows of {', '.join(added)}"
        raise InputRefused("SOURCE_POSITION_GONE", message, help=RELOAD)
    for name, table in old_tables.items():
        _check_table(name, table, new_tables.get(name))


def _check_table(name: str, before: Mapping[str, Any], now: Mapping[str, Any] | None) -> None:
    if now is None or before["oid"] != now["oid"]:
        message = f"the table {name} was dropped or created again"
        raise InputRefused("SOURCE_RECREATED", message, help=RELOAD)
    if before["entries"] != now["entries"]:
        message = f"the table {name} was removed from the publication, or added again"
        raise InputRefused("SOURCE_RECREATED", message, help=RELOAD)
    if before["partitions"] != now["partitions"]:
        message = f"partitions of {name} were attached, detached, truncated or rewritten, which is not published"
        raise InputRefused("SOURCE_RECREATED", message, help=RELOAD)
    for key in ("identity", "keys"):
        if before[key] != now[key]:
            message = f"the replica identity of {name} is another one"
            help_ = f"restore it, or {RELOAD}"
            raise InputRefused("SOURCE_SCHEMA_CHANGED", message, help=help_)
    old_columns, new_columns = before["columns"] or {}, now["columns"] or {}
    rewritten = before["file"] != now["file"]
    for column, old in old_columns.items():
        if column not in new_columns:
            message = f"the table {name} no longer has the column {column}"
            raise InputRefused("COLUMN_MISSING", message, help=f"rename it back, or {RELOAD}")
        _check_column(f"{column} of {name}", old, new_columns[column], rewritten)


def _check_column(name: str, before: Sequence[str], now: Sequence[str], rewritten: bool) -> None:
    """Check number, type and modifier; and whether its values were rewritten in the same type.

    ALTER COLUMN ... TYPE ... USING changes the file of the table and the entry of the column. VACUUM
    FULL changes the first alone, SET DEFAULT the second alone.
    """
    if before[:3] != now[:3] or (rewritten and before[3] != now[3]):
        message = f"the column {name} has another type, or its values were rewritten without events"
        raise InputRefused("SOURCE_SCHEMA_CHANGED", message, help=RELOAD)
