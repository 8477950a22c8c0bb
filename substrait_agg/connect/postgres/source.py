"""Tables of a PostgreSQL database as sources: their rows at one instant, then every transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from substrait_agg.connect.postgres import pgoutput
from substrait_agg.connect.postgres.connection import Address, Catalogue, read_address, retry
from substrait_agg.connect.postgres.identity import RELOAD, check_identity, read_identity
from substrait_agg.connect.postgres.position import Identity, Position, read_lsn
from substrait_agg.connect.postgres.setup import FULL, PUBLICATION, Table, check_server, read_table
from substrait_agg.connect.postgres.slots import check_slot, create_slot, slot_name
from substrait_agg.connect.postgres.snapshot import TableSnapshot
from substrait_agg.connect.postgres.stream import MARK, Stream, Transaction
from substrait_agg.connect.postgres.types import arrow_type, convert
from substrait_agg.connect.protocol import ConnectedTable, TableSource
from substrait_agg.connect.weights import add_weight
from substrait_agg.errors import InputRefused, RunFailed, UsageError, checked_choice

IDLE_BYTES = 16 << 20
"""WAL without rows of ours after which the position moves, so that the server can remove the WAL."""

CATCH_UP_SECONDS = 600.0
"""How long to wait for what was committed before a run began."""

Relations = dict[int, pgoutput.TableShape]


def group(source: TableSource) -> str:
    """Return what tables of one connector have in common: database, slot and publication.

    Raises:
        UsageError: OPTION_CONFLICT, OPTION_INVALID.
    """
    parts = [read_address(source).name]
    parts += [
        f"{key}={source.options[key]}" for key in ("slot", "publication") if key in source.options
    ]
    return " ".join(parts)


def connect(tables: Mapping[str, TableSource]) -> PostgresSource:
    """Open the connector of the tables of a group.

    Raises:
        UsageError: OPTION_CONFLICT, OPTION_INVALID.
    """
    addresses = {name: read_address(source) for name, source in tables.items()}
    if len({address.dsn for address in addresses.values()}) > 1:
        message = f"{', '.join(tables)} have different users or settings for one database"
        raise UsageError("OPTION_CONFLICT", message, help="give them the same dsn= or service=")
    for source in tables.values():
        checked_choice(source.options.get("snapshot", "initial"), ("initial", "none"), "snapshot")
    return PostgresSource(next(iter(addresses.values())), tables)


@dataclass(frozen=True, slots=True)
class _ReadTable:
    """A table that is read: its entry in the catalogue, and its columns in order."""

    table: Table
    columns: tuple[str, ...]
    schema: pa.Schema


class PostgresSource:
    """Tables of one database, as a `Connector`.

    A position is the end of a transaction, for all tables. Rows of a table with REPLICA IDENTITY FULL
    have weights; those of other tables have the columns of the replica identity as keys.

    Args:
        address: of the database.
        tables: the tables by their names in the plan.
    """

    def __init__(self, address: Address, tables: Mapping[str, TableSource]) -> None:
        options = next(iter(tables.values())).options
        self._address = address
        self._sources = tables
        self._publication = options.get("publication", PUBLICATION)
        self._slot_given = options.get("slot")
        self._catalogue = Catalogue(address)
        self._tables: dict[str, Table] = {}
        self._readings: dict[str, _ReadTable] = {}
        self._slot = ""
        self._start = 0
        self._snapshot: TableSnapshot | None = None
        self._stream: Stream | None = None
        self._identity: Identity = {}
        self._relations: dict[int, Relations] = {}
        self._last_end = 0
        self._marked = 0

    def table(self, name: str) -> ConnectedTable:
        """Return the published columns of a table, and its keys.

        Raises:
            InputRefused: SOURCE_NOT_FOUND, SOURCE_UNREADABLE, PUBLICATION_INCOMPLETE,
                WAL_LEVEL_TOO_LOW, SERVER_TOO_OLD, SOURCE_NOT_PERMITTED.
            RunFailed: SOURCE_NOT_REACHABLE.
        """
        table = self._table(name)
        if table.identity == FULL:
            changes = "old and new rows (REPLICA IDENTITY FULL)"
        elif table.keys:
            changes = f"new rows by {', '.join(table.keys)}; unchanged large values are refused"
        else:
            changes = "new rows only: without a replica identity PostgreSQL refuses other changes"
        return ConnectedTable(_schema(table, tuple(table.columns)), table.keys, changes)

    def _table(self, name: str) -> Table:
        if name not in self._tables:
            if not self._tables:
                check_server(self._catalogue)
            location = self._sources[name].location
            self._tables[name] = read_table(self._catalogue, location, self._publication)
        return self._tables[name]

    def begin(
        self, columns: Mapping[str, Sequence[str]], checkpoint: str, position: str | None
    ) -> None:
        """Create the slot before the first version; otherwise continue from a position.

        Raises:
            InputRefused: SLOT_NOT_CREATED, SLOT_IN_USE, SLOT_LOST, SOURCE_RECREATED,
                SOURCE_SCHEMA_CHANGED, SOURCE_POSITION_GONE, COLUMN_MISSING.
        """
        self._tables.clear()
        for name, names in columns.items():
            self._readings[name] = _read_columns(name, self._table(name), tuple(names))
        self._slot = self._slot_given or slot_name(checkpoint)
        self._identity = self._read_identity()
        if position is None:
            keep = self._slot_given is not None
            self._start = create_slot(self._catalogue, self._slot, keep=keep)
            return
        at = Position.parse(position)
        check_identity(at.identity, self._identity)
        check_slot(self._catalogue, self._slot, at)
        self._open_stream(at)

    def _read_identity(self) -> Identity:
        tables = {name: reading.table for name, reading in self._readings.items()}
        columns = {name: reading.columns for name, reading in self._readings.items()}
        return read_identity(self._catalogue, self._publication, tables, columns)

    def _open_stream(self, position: Position) -> Stream:
        if self._stream is None:
            stream = Stream(self._address, self._slot, self._publication, position)
            stream.start()
            self._stream = stream
            self._relations[position.end] = {}
        return self._stream

    def latest(self, after: str | None, most_bytes: float) -> str | None:
        """Return the end of the last transaction to read; the first time the instant of a snapshot.

        The first call after `begin` waits for everything that was committed before `begin`.
        """
        if after is None:
            if self._snapshot is not None:
                self._snapshot.close()
            self._snapshot = TableSnapshot(self._address)
            return str(Position(self._start, self._start, self._snapshot.snapshot, self._identity))
        at = Position.parse(after)
        stream = self._open_stream(at)
        if not stream.wait(CATCH_UP_SECONDS):
            message = f"{self._address.name} sent too little for {CATCH_UP_SECONDS:.0f} s"
            raise RunFailed("SOURCE_NOT_REACHABLE", message, help="check the load of the server")
        waiting = stream.transactions(at.end)
        last = _last_within(waiting, most_bytes) if waiting else self._idle(stream, at)
        return str(at.move(last.end, last.commit, self._identity)) if last else None

    def _idle(self, stream: Stream, at: Position) -> Transaction | None:
        """Return a transaction without rows to move to, if much WAL is behind; else ask for one."""
        empty = stream.empty()
        if empty is not None and empty.end >= at.end + IDLE_BYTES:
            return empty
        behind = max(at.end, self._marked)
        if stream.server_end >= behind + IDLE_BYTES:
            mark = "SELECT pg_logical_emit_message(true, %s, '')"
            retry(lambda: self._catalogue.query(mark, (MARK,)))
            self._marked = stream.server_end
        return None

    def read(self, after: str | None, until: str) -> Mapping[str, pa.Table]:
        """Return initial rows, or the rows of the transactions between two positions.

        Raises:
            InputRefused: SOURCE_TRUNCATED, SOURCE_SCHEMA_CHANGED, SOURCE_RECREATED, COLUMN_MISSING,
                VALUE_UNAVAILABLE, VALUE_OUT_OF_RANGE.
            RunFailed: SOURCE_NOT_REACHABLE.
        """
        if after is None:
            return self._read_snapshot()
        first, last = Position.parse(after), Position.parse(until)
        if self._stream is None:
            raise RunFailed("SOURCE_NOT_REACHABLE", "the stream is not open", help="run again")
        messages: list[bytes] = []
        for transaction in self._stream.transactions(first.end, last.end):
            messages += transaction.messages
        retry(self._check)
        relations = self._relations.get(first.end, {})
        parts: dict[str, list[pa.RecordBatch]] = {name: [] for name in self._readings}
        columns = {r.table.oid: r.columns for r in self._readings.values()}
        for part in pgoutput.blocks(messages):
            block = pgoutput.decode(part, relations, columns)
            relations = block.relations
            self._convert(block, parts)
        self._relations[last.end] = relations
        return {name: pa.Table.from_batches(batches) for name, batches in parts.items() if batches}

    def _check(self) -> None:
        """Check that no table was made again; take vacuums and defaults of columns as they are."""
        identity = self._read_identity()
        check_identity(self._identity, identity)
        self._identity = identity

    def _read_snapshot(self) -> Mapping[str, pa.Table]:
        if self._snapshot is None:
            raise RunFailed("SOURCE_NOT_REACHABLE", "the snapshot is gone", help="run again")
        self._check()
        rows = {}
        for name, reading in self._readings.items():
            if self._sources[name].options.get("snapshot") != "none":
                rows[name] = self._snapshot.read(reading.table, reading.columns, reading.schema)
        return rows

    def _convert(self, block: pgoutput.Block, parts: Mapping[str, list[pa.RecordBatch]]) -> None:
        """Add the rows of a block to those of their tables."""
        for name, reading in self._readings.items():
            if reading.table.oid in block.truncated:
                message = f"{reading.table.full_name} was truncated, and TRUNCATE names no rows"
                help_ = f"delete rows with DELETE; now {RELOAD}"
                raise InputRefused("SOURCE_TRUNCATED", message, help=help_)
            for changes in block.changes:
                if changes.relation.oid == reading.table.oid:
                    parts[name].append(_to_rows(name, reading, changes))

    def committed(self, position: str) -> None:
        """Forget the transactions up to a position, and let the server forget them."""
        at = Position.parse(position)
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None
        self._last_end = at.end
        stream = self._open_stream(at)
        stream.forget(at)
        self._relations = {end: r for end, r in self._relations.items() if end >= at.end}

    def lag(self) -> Mapping[str, float]:
        """Return the bytes of WAL after the last position, and those that the slot keeps.

        Nothing while the server cannot be reached: the stream connects again, or raises.
        """
        try:
            row = self._catalogue.row(_LAG, (self._slot,))
        except RunFailed:
            return {}
        if row is None:
            return {}
        now, retained, safe = row
        measures = {"bytes": float(max(read_lsn(now) - self._last_end, 0))}
        measures["wal_retained_bytes"] = float(retained or 0)
        if safe is not None:
            measures["wal_safe_bytes"] = float(safe)
        return measures

    def close(self) -> None:
        """Release the connections and end the thread."""
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self._catalogue.close()


_LAG = """
SELECT pg_current_wal_lsn()::text, pg_current_wal_lsn() - restart_lsn, safe_wal_size
FROM pg_replication_slots WHERE slot_name = %s
"""


def _last_within(waiting: Sequence[Transaction], most_bytes: float) -> Transaction:
    """Return the last transaction up to which the sizes add up to a limit; at least the first."""
    sizes = np.cumsum(np.fromiter((t.size for t in waiting), np.int64, len(waiting)))
    count = int(np.searchsorted(sizes, most_bytes, "right"))
    return waiting[max(count - 1, 0)]


def _schema(table: Table, columns: tuple[str, ...]) -> pa.Schema:
    described = (table.columns[name] for name in columns)
    return pa.schema([(c.name, arrow_type(c.base, c.base_modifier)) for c in described])


def _read_columns(name: str, table: Table, columns: tuple[str, ...]) -> _ReadTable:
    """Return a table with the columns to read.

    Raises:
        InputRefused: COLUMN_MISSING.
    """
    for column in columns:
        if column not in table.columns:
            message = f"the publication has no column {column} of {name}"
            help_ = "correct the name, or publish the column"
            raise InputRefused("COLUMN_MISSING", message, help=help_)
    return _ReadTable(table, columns, _schema(table, columns))


def _to_rows(name: str, reading: _ReadTable, changes: pgoutput.Changes) -> pa.RecordBatch:
    """Return the rows of changes in the types of the table.

    Raises:
        InputRefused: SOURCE_SCHEMA_CHANGED, COLUMN_MISSING, VALUE_UNAVAILABLE, VALUE_OUT_OF_RANGE.
    """
    table, relation = reading.table, changes.relation
    full = table.identity == FULL
    if relation.identity != table.identity or (full and not changes.whole):
        message = f"the replica identity of {name} is another one than when the run began"
        help_ = f"restore it, or {RELOAD}"
        raise InputRefused("SOURCE_SCHEMA_CHANGED", message, help=help_)
    values = []
    for column in reading.columns:
        if column not in changes.texts:
            message = f"the table {name} no longer has the column {column}"
            raise InputRefused("COLUMN_MISSING", message, help=f"rename it back, or {RELOAD}")
        described = table.columns[column]
        if relation.types[relation.columns.index(column)] != (described.oid, described.modifier):
            message = f"the column {column} of {name} has another type"
            raise InputRefused("SOURCE_SCHEMA_CHANGED", message, help=RELOAD)
        if changes.incomplete[column]:
            message = f"an update of {name} omits the large value of {column}, which did not change"
            help_ = f"ALTER TABLE {table.full_name} REPLICA IDENTITY FULL, and {RELOAD}"
            raise InputRefused("VALUE_UNAVAILABLE", message, help=help_)
        values.append(convert(changes.texts[column], described, table.full_name))
    weight = pa.array(changes.weights.astype(np.int64))
    return pa.record_batch([*values, weight], add_weight(reading.schema))
