"""A sink that keeps a table of PostgreSQL equal to the view, version by version.

The rows of a version and its number are written in one transaction, so the number in the database
decides which version comes next. The record in the checkpoint serves tools that do not connect.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from functools import partial
from typing import Any

from substrait_agg.changes.outputs.sinks import SinkContext, Table
from substrait_agg.changes.outputs.versioned_sink import VersionedSink, stored_view
from substrait_agg.changes.postgres.keyed import KeyedRows, check_view, keyed_rows
from substrait_agg.changes.postgres.owner import PostgresOwner
from substrait_agg.changes.postgres.session import Session, parts
from substrait_agg.changes.postgres.table import CheckedTable, TargetTable
from substrait_agg.changes.postgres.versions import (
    TableVersion,
    locked_version,
    write_version,
)
from substrait_agg.changes.targets.postgres import PostgresTarget
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.view.schema import decode_schema
from substrait_agg.errors import RunFailed, StateRefused, UsageError
from substrait_agg.files.locations import Location

KIND = "postgres"


def identity_of(target: PostgresTarget) -> str:
    """Return a text that stays the same if the password or the user changes."""
    parameters = {**parts(target.arguments), **target.arguments}
    names = ("service", "host", "port", "dbname")
    place = "&".join(f"{name}={parameters[name]}" for name in names if name in parameters)
    return f"{target.written}?{place}" if place else target.written


class PostgresSink(VersionedSink):
    """Writes every version to a table in one transaction, exactly once.

    Args:
        target: the table and how to connect.

    Raises:
        UsageError: OPTION_INVALID.
    """

    changes_columns = True

    def __init__(self, target: PostgresTarget) -> None:
        super().__init__(f"{KIND}={target}", f"{KIND}={identity_of(target)}")
        self._target = target
        self._table = TargetTable(target.schema, target.table)
        self._session = Session(target.arguments)
        self._owner = PostgresOwner("")
        self._view = ""
        self._attempted: int | None = None

    def reach_version(self, checkpoint: Location, view: str = "") -> int | None:
        """Return the version in the record, and set `changes_columns`; write nothing."""
        owner = PostgresOwner.read(self.record_in(checkpoint, view=view))
        self.changes_columns = owner is None or owner.created
        return super().reach_version(checkpoint, view)

    def _read_position(self, place: SinkContext) -> int | None:
        """Return the version that the table has.

        If the server cannot be reached, an output with a record begins after the version in it: the
        first delivery finds out whether the table has the next one.

        Raises:
            RunFailed: OUTPUT_NOT_REACHABLE.
            UsageError: OUTPUT_EXISTS.
            StateRefused: OUTPUT_AHEAD, OUTPUT_DAMAGED, OUTPUT_NOT_WRITTEN, OUTPUT_KEY_MISSING,
                OUTPUT_COLUMN_REFUSED, OUTPUT_TYPE_REFUSED.
        """
        self._view = place.view
        if (view := stored_view(place)) is not None:
            check_view(decode_schema(view.types), view.key_places)
        position = super()._read_position(place)
        self._owner = PostgresOwner.read(self.record) or PostgresOwner(uuid.uuid4().hex)
        try:
            with self._session.transaction() as cursor:
                stored = locked_version(cursor, self._table.schema, self._table.name)
                position = self._find_start(cursor, stored, place.checkpoint)
        except RunFailed:
            if position is None:
                raise
            self._attempted = position + 1
        else:
            self._owner = replace(self._owner, created=stored is None or stored.created)
        self.changes_columns = self._owner.created
        self._owner.write(self.record)
        return position

    def _find_start(
        self, cursor: Any, stored: TableVersion | None, checkpoint: Location
    ) -> int | None:
        """Return the version after which this output continues."""
        exists = self._table.is_there(cursor)
        if stored is None:
            if exists and self._table.has_rows(cursor):
                raise self._refuse_taken("contains rows that no output wrote")
            return None
        self._check_own(stored)
        if stored.history < self._owner.history:
            return None
        newest = max(Checkpoint(checkpoint).versions(), default=stored.version)
        if stored.history > self._owner.history or stored.version > newest:
            raise StateRefused(
                "OUTPUT_AHEAD",
                f"the table {self._table} has version {stored.version}, which the checkpoint does not have",
                help="restore the newest copy of the whole checkpoint folder, or use another table",
                path=self.name,
            )
        if not exists:
            raise StateRefused(
                "OUTPUT_DAMAGED",
                f"the table {self._table} is gone, but has version {stored.version} in substrait_agg_versions",
                help="restore it, or delete its row there: the next run writes it again",
                path=self.name,
            )
        return stored.version

    def _check_own(self, stored: TableVersion) -> None:
        if (stored.checkpoint, stored.view) != (self._owner.id, self._view):
            raise self._refuse_taken("is written by another checkpoint, or for another view")

    def _refuse_taken(self, reason: str) -> UsageError:
        return UsageError(
            "OUTPUT_EXISTS",
            f"the table {self._table} {reason}",
            help="use another table; or drop it and delete its row in substrait_agg_versions",
            path=self.name,
        )

    def replace(self, old: Table, new: Table, version: int) -> None:
        """Drop the table and create it with other columns, in one transaction.

        Raises:
            StateRefused: as `deliver`.
        """
        self._attempt(version, partial(self._deliver, new, version, replaces=True))

    def _deliver(self, changes: Table, version: int, *, replaces: bool = False) -> None:
        """Write the changes and the version in one transaction.

        Raises:
            RunFailed: OUTPUT_NOT_REACHABLE.
            StateRefused: OUTPUT_VERSION_CONFLICT, OUTPUT_KEY_MISSING, OUTPUT_KEY_NULL,
                OUTPUT_TABLE_DIFFERS, OUTPUT_COLUMN_REFUSED, OUTPUT_TYPE_REFUSED, OUTPUT_DAMAGED,
                OUTPUT_NOT_WRITTEN.
        """
        rows = keyed_rows(changes)
        with self._session.transaction() as cursor:
            had = locked_version(cursor, self._table.schema, self._table.name)
            if self._is_next(had, version):
                self._attempted = version
                if had is not None and (replaces or had.history < self._owner.history):
                    self._table.clear(cursor, created=had.created)
                    self._session.prepared = None
                checked = self._prepare(cursor, rows, had)
                self._table.apply(cursor, rows, tells_new_rows=checked.tells_new_rows)
                self._note(cursor, had, version)
        if self._owner.created != self.changes_columns:
            self.changes_columns = self._owner.created
            self._owner.write(self.record)

    def _is_next(self, had: TableVersion | None, version: int) -> bool:
        """Return whether a version is to be written; False if an earlier attempt has done so.

        The answer of the server to a commit may be lost.
        """
        if had is not None:
            self._check_own(had)
        owner = self._owner
        older = had is None or had.history < owner.history
        position = None if had is None or older else had.version
        if had is not None and had.history > owner.history:
            raise self._conflict(had.version)
        if position == version and self._attempted == version:
            return False
        if position != self._position:
            raise self._conflict(position)
        return True

    def _conflict(self, position: int | None) -> StateRefused:
        has = "no version" if position is None else f"version {position}"
        mine = "no version" if self._position is None else f"version {self._position}"
        return StateRefused(
            "OUTPUT_VERSION_CONFLICT",
            f"the table {self._table} has {has}, but this run has written {mine} to it",
            help="run one process at a time on a checkpoint; the next run continues after the version in the table",
            path=self.name,
        )

    def _prepare(self, cursor: Any, rows: KeyedRows, had: TableVersion | None) -> CheckedTable:
        """Create or check the table, once per connection and set of columns."""
        checked: CheckedTable | None = self._session.prepared
        if checked is None or (checked.schema, checked.keys) != (rows.schema, rows.keys):
            if not self._table.is_there(cursor):
                self._table.create(cursor, rows)
                self._owner = replace(self._owner, created=True)
            elif had is None:
                self._owner = replace(self._owner, created=False)
                if self._table.has_rows(cursor):
                    raise self._refuse_taken("contains rows that no output wrote")
            elif self._owner.created:
                self._table.rename(cursor, rows.schema)
            self._session.prepared = checked = self._table.check(cursor, rows)
            self._table.stage(cursor, rows.schema)
        if rows.has_null_key and not checked.holds_null_keys:
            raise self._null_key(rows.keys)
        return checked

    def _null_key(self, keys: tuple[str, ...]) -> StateRefused:
        return StateRefused(
            "OUTPUT_KEY_NULL",
            f"a row has a null key, and the key of the table {self._table} does not hold nulls",
            help=f"use PostgreSQL 15 or newer, and UNIQUE NULLS NOT DISTINCT ({', '.join(keys)}) as the only key; "
            "or replace nulls in the query with coalesce",
            path=self.name,
        )

    def _note(self, cursor: Any, had: TableVersion | None, version: int) -> None:
        owner = self._owner
        now = TableVersion(owner.id, self._view, owner.history, version, owner.created)
        if not write_version(cursor, self._table.schema, self._table.name, had, now):
            raise self._conflict(None if had is None else had.version)
        if self._target.channel:
            cursor.execute("SELECT pg_notify(%s, %s)", [self._target.channel, str(version)])

    def close(self) -> None:
        """Close the connection."""
        self._session.close()
