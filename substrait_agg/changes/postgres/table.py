"""The table that an output writes: create it, check it, and apply the rows of a version."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from psycopg2 import sql

from substrait_agg.changes.postgres.keyed import WEIGHT, KeyedRows, no_key
from substrait_agg.changes.postgres.types import column_type, holds
from substrait_agg.changes.postgres.versions import fill, is_there, place
from substrait_agg.errors import StateRefused

STAGED = "substrait_agg_changes"
"""Name of the temporary table of the rows of a version."""

_COLUMNS = """
SELECT attname::text, format_type(atttypid, atttypmod),
       attnotnull AND NOT atthasdef AND attidentity = '' AS needed
FROM pg_attribute
WHERE attrelid = to_regclass(format('%%I.%%I', %s::text, %s::text)) AND attnum > 0 AND NOT attisdropped
ORDER BY attnum"""

_KIND = """
SELECT relkind::text FROM pg_class WHERE oid = to_regclass(format('%%I.%%I', %s::text, %s::text))"""

# PostgreSQL before 15 has no column indnullsnotdistinct.
_KEYS = """
SELECT array(SELECT attname::text FROM pg_attribute
             WHERE attrelid = i.indrelid AND attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])),
       coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false)
FROM pg_index i
WHERE i.indrelid = to_regclass(format('%%I.%%I', %s::text, %s::text)) AND i.indisunique AND i.indisvalid
  AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL"""


@dataclass(frozen=True, slots=True)
class CheckedTable:
    """What is known of a table that can have the rows of a view.

    Attributes:
        schema: the columns of the view.
        keys: the names of its key columns.
        holds_null_keys: whether the key of the table takes two nulls for the same.
        tells_new_rows: whether the server tells inserted rows from replaced ones; it does not for
            partitioned tables.
    """

    schema: pa.Schema
    keys: tuple[str, ...]
    holds_null_keys: bool
    tells_new_rows: bool


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A table that has the rows of a view.

    Attributes:
        schema: name of its schema.
        name: its name.
    """

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def place(self) -> Any:
        """Return its qualified name as a part of a statement."""
        return place(self.schema, self.name)

    def is_there(self, cursor: Any) -> bool:
        """Return whether it exists."""
        return is_there(cursor, self.schema, self.name)

    def has_rows(self, cursor: Any) -> bool:
        """Return whether it has rows; it exists."""
        cursor.execute(fill("SELECT EXISTS (SELECT FROM {})", self.place))
        return bool(cursor.fetchone()[0])

    def create(self, cursor: Any, rows: KeyedRows) -> None:
        """Create it for the columns of a view, with a key.

        Raises:
            StateRefused: OUTPUT_TYPE_REFUSED.
        """
        columns = [
            fill("{} {}", sql.Identifier(field.name), sql.SQL(column_type(field)))
            for field in rows.schema
        ]
        if rows.keys:
            nullable = any(rows.schema.field(key).nullable for key in rows.keys)
            words = "UNIQUE NULLS NOT DISTINCT" if nullable else "PRIMARY KEY"
            if nullable and cursor.connection.server_version < 150000:
                words = "PRIMARY KEY"  # rows with null keys are refused
            columns.append(fill(f"{words} ({{}})", _names(rows.keys)))
        cursor.execute(fill("CREATE TABLE {} ({})", self.place, sql.SQL(", ").join(columns)))

    def clear(self, cursor: Any, *, created: bool) -> None:
        """Drop it if an output created it; otherwise delete its rows."""
        statement = "DROP TABLE {}" if created else "DELETE FROM {}"
        cursor.execute(fill(statement, self.place))

    def check(self, cursor: Any, rows: KeyedRows) -> CheckedTable:
        """Check that it can have the rows of a view.

        Raises:
            StateRefused: OUTPUT_TABLE_DIFFERS, OUTPUT_KEY_MISSING, OUTPUT_TYPE_REFUSED.
        """
        existing_columns = self._columns(cursor)
        for field in rows.schema:
            existing = existing_columns.get(field.name)
            if existing is None:
                raise self._differs(f"has no column {field.name} of type {column_type(field)}")
            if not holds(existing[0], field):
                raise self._differs(
                    f"has the column {field.name} as {existing[0]}, not as {column_type(field)}"
                )
        for name, (_, needed) in existing_columns.items():
            if needed and name not in rows.schema.names:
                raise self._differs(f"needs a value for {name}, which the view does not have")
        holds_null_keys = self._check_key(cursor, rows)
        cursor.execute(_KIND, [self.schema, self.name])
        return CheckedTable(rows.schema, rows.keys, holds_null_keys, cursor.fetchone()[0] == "r")

    def _check_key(self, cursor: Any, rows: KeyedRows) -> bool:
        """Check that it has the key of a view; return whether the key holds nulls."""
        if not rows.keys:
            return True
        cursor.execute(_KEYS, [self.schema, self.name])
        fitting = [nulls for names, nulls in cursor.fetchall() if set(names) == set(rows.keys)]
        if fitting:
            return any(fitting)
        keys = ", ".join(rows.keys)
        raise StateRefused(
            "OUTPUT_KEY_MISSING",
            f"the table {self} has no primary key or unique constraint over the key of the view: {keys}",
            help=f"ALTER TABLE {self} ADD UNIQUE NULLS NOT DISTINCT ({keys})",
            path=str(self),
        )

    def rename(self, cursor: Any, schema: pa.Schema) -> None:
        """Give the columns the names of a view, if it has as many and the same types."""
        old = self._columns(cursor)
        types = [kind for kind, _ in old.values()]
        if list(old) == schema.names or types != [column_type(field) for field in schema]:
            return
        between = [f"substrait_agg {i}" for i in range(len(old))]
        for before, after in zip([*old, *between], [*between, *schema.names], strict=True):
            statement = "ALTER TABLE {} RENAME COLUMN {} TO {}"
            names = map(sql.Identifier, (before, after))
            cursor.execute(fill(statement, self.place, *names))

    def _columns(self, cursor: Any) -> dict[str, tuple[str, bool]]:
        """Return its columns: name -> type, and whether a row needs a value of it."""
        cursor.execute(_COLUMNS, [self.schema, self.name])
        return {name: (kind, needed) for name, kind, needed in cursor.fetchall()}

    def _differs(self, reason: str) -> StateRefused:
        return StateRefused(
            "OUTPUT_TABLE_DIFFERS",
            f"the table {self} {reason}",
            help="change the table, or give the name of a table that does not exist: it is created",
            path=str(self),
        )

    def stage(self, cursor: Any, schema: pa.Schema) -> None:
        """Create the temporary table for the rows of a version, with the types of this table."""
        cursor.execute(fill("DROP TABLE IF EXISTS {}", place("pg_temp", STAGED)))
        statement = "CREATE TEMPORARY TABLE {} ON COMMIT DELETE ROWS AS SELECT {}, 0::bigint AS {} FROM {} WITH NO DATA"
        parts = (place("pg_temp", STAGED), _names(schema.names), _names([WEIGHT]), self.place)
        cursor.execute(fill(statement, *parts))

    def apply(self, cursor: Any, rows: KeyedRows, *, tells_new_rows: bool) -> None:
        """Delete the rows whose keys are gone, then insert or replace the others.

        Raises:
            StateRefused: OUTPUT_DAMAGED: it does not have the rows that were written to it.
                OUTPUT_KEY_MISSING: a row of the view that is its own key is there twice.
        """
        if not rows.rows.num_rows:
            return
        copy = fill(
            "COPY {} ({}) FROM STDIN (FORMAT csv)",
            place("pg_temp", STAGED),
            _names(rows.rows.column_names),
        )
        for piece in rows.csv():
            cursor.copy_expert(copy, io.BytesIO(piece))
        deleted = 0
        for statement in self._deletions(rows):
            cursor.execute(statement)
            deleted += cursor.rowcount
        if deleted != rows.deleted:
            raise self._refuse_damage(f"{rows.deleted - deleted} rows are missing")
        if rows.repeats and not tells_new_rows:
            raise no_key("may have equal rows, and this table cannot say which rows are new")
        cursor.execute(self._upsert(rows, "xmax = 0" if tells_new_rows else "NULL::boolean"))
        created = cursor.fetchone()[0]
        if created < rows.created and rows.repeats:
            raise no_key("has several equal rows")
        if tells_new_rows and created != rows.created:
            raise self._refuse_damage(f"{abs(created - rows.created)} rows are missing or too many")

    def _deletions(self, rows: KeyedRows) -> Iterator[Any]:
        """Yield a statement per set of key columns that are null: indexes find `IS NULL` and `=`."""
        if not rows.keys and rows.deleted:
            yield fill("DELETE FROM {}", self.place)
        for nulls in rows.nulls:
            same = [
                fill(
                    "t.{0} IS NULL AND s.{0} IS NULL" if key in nulls else "t.{0} = s.{0}",
                    sql.Identifier(key),
                )
                for key in rows.keys
            ]
            statement = "DELETE FROM {} t USING {} s WHERE s.{} < 0 AND {}"
            staged, weight = place("pg_temp", STAGED), _names([WEIGHT])
            yield fill(statement, self.place, staged, weight, sql.SQL(" AND ").join(same))

    def _upsert(self, rows: KeyedRows, new: str) -> Any:
        """Return the statement that inserts or replaces rows and counts the new ones."""
        names = rows.schema.names
        values = [sql.Identifier(name) for name in names if name not in rows.keys]
        action = fill("DO NOTHING") if rows.keys else fill("")
        if rows.keys and values:
            pairs = [fill("{0} = EXCLUDED.{0}", value) for value in values]
            action = fill("DO UPDATE SET {}", sql.SQL(", ").join(pairs))
        conflict = fill("ON CONFLICT ({}) {}", _names(rows.keys), action) if rows.keys else action
        return fill(
            "WITH written AS (INSERT INTO {} ({}) SELECT {} FROM {} WHERE {} > 0 {} RETURNING {} AS new) "
            "SELECT count(*) FILTER (WHERE new) FROM written",
            self.place,
            _names(names),
            _names(names),
            place("pg_temp", STAGED),
            _names([WEIGHT]),
            conflict,
            sql.SQL(new),
        )

    def _refuse_damage(self, reason: str) -> StateRefused:
        return StateRefused(
            "OUTPUT_DAMAGED",
            f"the table {self} is not what was written to it: {reason}",
            help="drop the table and delete its row in substrait_agg_versions: the next run writes it again",
            path=str(self),
        )


def _names(names: Any) -> Any:
    """Return names as a list of columns of a statement."""
    return sql.SQL(", ").join(map(sql.Identifier, names))
