"""Read an Iceberg table with pyiceberg: its rows at a snapshot, then how later ones differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from substrait_agg.connect.iceberg.catalog import CatalogAddress, open_table
from substrait_agg.connect.iceberg.files import find_differences, read_files
from substrait_agg.connect.iceberg.history import IcebergHistory
from substrait_agg.connect.iceberg.layout import arrow_schema, columns_of
from substrait_agg.connect.protocol import ConnectedTable, TableSource
from substrait_agg.connect.snapshots import LakeTable
from substrait_agg.optional_packages import require

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask, Table

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
        self._lake = LakeTable("Iceberg", "snapshot", f"{self._name} in {self._address}")
        self._begins = self._lake.read_start(sources)
        self._catalog = self._address.load()
        self._table = self._open()
        self._uuid = str(self._table.metadata.table_uuid)
        self._layout = columns_of(self._table.schema())
        self._schema = arrow_schema(self._table.schema())
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
            self._lake.check_same(columns_of(old), self._layout, self._columns)
        self._check_kept(place)

    def _parse(self, position: str) -> IcebergPosition:
        """Return a position of this table.

        Raises:
            InputRefused: SOURCE_RECREATED.
        """
        place = IcebergPosition.parse(position)
        if place.uuid != self._uuid:
            raise self._lake.refuse_recreated()
        return place

    def _open(self) -> Table:
        return open_table(self._address, self._catalog, self._name, self._lake.place)

    def _load(self) -> None:
        """Open the newest state of the table.

        Raises:
            InputRefused: SOURCE_RECREATED, SOURCE_SCHEMA_CHANGED, SOURCE_NOT_FOUND,
                SOURCE_NOT_REACHABLE.
        """
        table = self._open()
        if str(table.metadata.table_uuid) != self._uuid:
            raise self._lake.refuse_recreated()
        self._lake.check_same(self._layout, columns_of(table.schema()), self._columns)
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
            raise self._lake.gone(f"the snapshot {place.snapshot}")

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
            raise self._lake.start_missing(self._begins)
        return self._begins

    def read(self, after: str | None, until: str) -> Mapping[str, pa.Table]:
        """Return the rows at a snapshot, or the difference of two snapshots.

        Raises:
            InputRefused: SOURCE_POSITION_GONE, SOURCE_SCHEMA_CHANGED, SOURCE_RECREATED,
                SOURCE_UNREADABLE.
        """
        from pyiceberg.exceptions import ResolveError

        end = self._parse(until)
        start = self._parse(after) if after else IcebergPosition(None, self._uuid, end.schema)
        if not (self._has(start) and self._has(end)):
            self._load()
            self._check_kept(start)
            self._check_kept(end)
        with self._lake.translate_errors(ValueError, TypeError, NotImplementedError, ResolveError):
            difference = find_differences(self._table, start.snapshot, end.snapshot)
            read = {name: self._rows(name, difference) for name in self._columns}
        return {name: rows for name, rows in read.items() if rows.num_rows or after is None}

    def _rows(self, name: str, difference: Mapping[int, Sequence[FileScanTask]]) -> pa.Table:
        types = pa.schema([self._schema.field(column) for column in self._columns[name]])
        parts = (read_files(self._table, files, types, w) for w, files in difference.items())
        return pa.concat_tables(parts)

    def committed(self, position: str) -> None:
        """Note nothing: the table keeps its snapshots by its own settings."""

    def lag(self) -> Mapping[str, float]:
        """Return the commits that the table has and that were not read, as of the last look."""
        return {"commits": float(self._left)}

    def close(self) -> None:
        """Close the catalogue."""
        self._catalog.close()
