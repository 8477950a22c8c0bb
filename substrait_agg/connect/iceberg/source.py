"""Read an Iceberg table with pyiceberg: its rows at a snapshot, then how later ones differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from substrait_agg.connect.iceberg.catalog import CatalogAddress, open_table
from substrait_agg.connect.iceberg.files import IcebergDifference, read_files
from substrait_agg.connect.iceberg.history import IcebergHistory
from substrait_agg.connect.iceberg.layout import arrow_schema, check_same
from substrait_agg.connect.protocol import ConnectedTable, TableSource
from substrait_agg.errors import InputRefused, UsageError
from substrait_agg.optional_packages import require
from substrait_agg.redaction import cleaned, safe_cause

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

CHANGES = "whole files: an update reads the old file and the new one"


def group(source: TableSource) -> str:
    """Return the name of a table and its catalogue, without a password."""
    return f"{source.location} in {CatalogAddress.of(source.options)}"


def connect(tables: Mapping[str, TableSource]) -> IcebergSource:
    """Open an Iceberg table, which the plan may know by several names.

    Raises:
        UsageError: SOURCE_PACKAGE_MISSING, SPEC_OPTION_BAD, OPTION_CONFLICT.
        InputRefused: SOURCE_NOT_FOUND, SOURCE_NOT_REACHABLE.
    """
    require("pyiceberg")
    return IcebergSource(tables)


@dataclass(frozen=True, slots=True)
class IcebergPosition:
    """A state of a table.

    Attributes:
        snapshot: id of the snapshot; None for a table that has none yet.
        uuid: id of the table.
        schema: id of the schema by which the columns of the plan were read.
    """

    snapshot: int | None
    uuid: str
    schema: int

    @classmethod
    def parse(cls, position: str) -> Self:
        """Return the state that a position names."""
        return cls(**json.loads(position))

    def __str__(self) -> str:
        return json.dumps(asdict(self))


class IcebergSource:
    """A connector (`substrait_agg.connect.protocol.Connector`) to one Iceberg table.

    The difference of two snapshots are the files that only one of them has; a file with other
    deletions is another one. If an update copies rows to another file, they come with both signs,
    and their sum is exact. So nothing between the two snapshots is needed.

    Args:
        tables: the names of the table in the plan, with their options.
    """

    def __init__(self, tables: Mapping[str, TableSource]) -> None:
        sources = list(tables.values())
        self._name = sources[0].location
        self._address = CatalogAddress.of(sources[0].options)
        self._place = f"{self._name} in {self._address}"
        self._begins = _first_snapshot(sources, self._place)
        self._catalog = self._address.load()
        self._table = open_table(self._address, self._catalog, self._name, self._place)
        self._uuid = str(self._table.metadata.table_uuid)
        self._layout = self._table.schema()
        self._schema = arrow_schema(self._layout)
        self._columns: dict[str, list[str]] = dict.fromkeys(tables, self._schema.names)
        self._history = IcebergHistory()
        self._left = 0

    def table(self, name: str) -> ConnectedTable:
        """Return the columns of the newest schema; a changed row comes as the old and the new one."""
        return ConnectedTable(self._schema, (), CHANGES)

    def begin(
        self, columns: Mapping[str, Sequence[str]], checkpoint: str, position: str | None
    ) -> None:
        """Begin to read after a position.

        Raises:
            InputRefused: SOURCE_RECREATED, SOURCE_POSITION_GONE, SOURCE_SCHEMA_CHANGED.
        """
        self._columns = {name: list(read) for name, read in columns.items()}
        if position is None:
            return
        place = self._parse(position)
        schemas = {schema.schema_id: schema for schema in self._table.metadata.schemas}
        old = schemas.get(place.schema)
        if old is not None:
            self._check_columns(old, self._layout)
        self._check_kept(place)

    def _parse(self, position: str) -> IcebergPosition:
        """Return a position of this table.

        Raises:
            InputRefused: SOURCE_RECREATED.
        """
        place = IcebergPosition.parse(position)
        if place.uuid != self._uuid:
            raise self._recreated()
        return place

    def _recreated(self) -> InputRefused:
        message = "this is not the Iceberg table that the checkpoint has read: it was created again"
        help = "start a new checkpoint, or restore the table"
        return InputRefused("SOURCE_RECREATED", message, help=help, path=self._place)

    def _check_columns(self, old: Schema, new: Schema) -> None:
        for names in self._columns.values():
            check_same(old, new, names, self._place)

    def _load(self) -> None:
        """Open the newest state of the table.

        Raises:
            InputRefused: SOURCE_RECREATED, SOURCE_SCHEMA_CHANGED, SOURCE_NOT_FOUND,
                SOURCE_NOT_REACHABLE.
        """
        table = open_table(self._address, self._catalog, self._name, self._place)
        if str(table.metadata.table_uuid) != self._uuid:
            raise self._recreated()
        self._check_columns(self._layout, table.schema())
        self._table = table

    def _has(self, place: IcebergPosition) -> bool:
        metadata = self._table.metadata
        return place.snapshot is None or metadata.snapshot_by_id(place.snapshot) is not None

    def _check_kept(self, place: IcebergPosition) -> None:
        """Check that the table has the snapshot of a position.

        Raises:
            InputRefused: SOURCE_POSITION_GONE.
        """
        if not self._has(place):
            raise self._gone(f"the Iceberg table no longer has the snapshot {place.snapshot}")

    def _gone(self, message: str) -> InputRefused:
        help = "start a new checkpoint, and let snapshots expire later than runs pause"
        return InputRefused("SOURCE_POSITION_GONE", message, help=help, path=self._place)

    def _position(self, snapshot: int | None) -> str:
        return str(IcebergPosition(snapshot, self._uuid, self._table.schema().schema_id))

    def latest(self, after: str | None, most_bytes: float) -> str | None:
        """Return the position after as many commits as have about `most_bytes`, at least one.

        One commit may write several snapshots. A batch ends only at the last one of a commit.

        Raises:
            InputRefused: SOURCE_RECREATED, SOURCE_POSITION_GONE, SOURCE_SCHEMA_CHANGED,
                SOURCE_NOT_FOUND, SOURCE_NOT_REACHABLE.
        """
        self._load()
        if after is None:
            return self._position(self._first())
        place = self._parse(after)
        self._check_kept(place)
        steps = self._history.steps(self._table, place.snapshot, most_bytes)
        self._left = max(0, len(steps) - 1)
        return self._position(steps[0]) if steps else None

    def _first(self) -> int | None:
        """Return the snapshot with which a run begins."""
        newest = self._table.current_snapshot()
        if self._begins is None:
            return newest.snapshot_id if newest else None
        if self._table.metadata.snapshot_by_id(self._begins) is None:
            message = f"the Iceberg table has no snapshot {self._begins}"
            help = "give from= the id of a snapshot that the table has"
            raise UsageError("SPEC_OPTION_BAD", message, help=help, path=self._place)
        return self._begins

    def read(self, after: str | None, until: str) -> Mapping[str, pa.Table]:
        """Return the rows at a snapshot, or the difference of two snapshots.

        Raises:
            InputRefused: SOURCE_POSITION_GONE, SOURCE_SCHEMA_CHANGED, SOURCE_RECREATED,
                SOURCE_UNREADABLE.
        """
        end = self._parse(until)
        start = self._parse(after) if after else IcebergPosition(None, self._uuid, end.schema)
        if not (self._has(start) and self._has(end)):
            self._load()
            self._check_kept(start)
            self._check_kept(end)
        with self._reading():
            difference = IcebergDifference.between(self._table, start.snapshot, end.snapshot)
            read = {name: self._rows(name, difference) for name in self._columns}
        return {name: rows for name, rows in read.items() if rows.num_rows or after is None}

    def _rows(self, name: str, difference: IcebergDifference) -> pa.Table:
        types = pa.schema([self._schema.field(column) for column in self._columns[name]])
        old = read_files(self._table, difference.gone, types, -1)
        new = read_files(self._table, difference.new, types, 1)
        return pa.concat_tables([old, new])

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn errors of reading files into those of the source."""
        from pyiceberg.exceptions import ResolveError

        try:
            yield
        except FileNotFoundError as error:
            message = f"a file of the Iceberg table is gone: {cleaned(str(error))}"
            raise self._gone(message) from safe_cause(error)
        except (
            OSError,
            ValueError,
            TypeError,
            NotImplementedError,
            ResolveError,
            pa.ArrowException,
        ) as error:
            message = f"the Iceberg table cannot be read: {cleaned(str(error))}"
            help = "rewrite equality deletes by a compaction, or check the table with its writer"
            raise InputRefused("SOURCE_UNREADABLE", message, help=help, path=self._place) from (
                safe_cause(error)
            )

    def committed(self, position: str) -> None:
        """Note nothing: the table keeps its snapshots by its own settings."""

    def lag(self) -> Mapping[str, float]:
        """Return the commits that the table has and that were not read, as of the last look."""
        return {"commits": float(self._left)}

    def close(self) -> None:
        """Close the catalogue."""
        self._catalog.close()


def _first_snapshot(sources: Sequence[TableSource], place: str) -> int | None:
    """Return the snapshot with which a run begins; None for the newest."""
    texts = {source.options.get("from", "") for source in sources}
    if len(texts) > 1:
        message = "one Iceberg table has two values of from="
        help = "give the same one to all names of the table"
        raise UsageError("OPTION_CONFLICT", message, help=help, path=place)
    text = texts.pop()
    if text and not (text.isascii() and text.isdigit()):
        message = f"from={text} is not the id of a snapshot"
        raise UsageError("SPEC_OPTION_BAD", message, help="write from=NUMBER", path=place)
    return int(text) if text else None
