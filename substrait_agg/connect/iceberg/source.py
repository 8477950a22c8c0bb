"""Read an Iceberg table with pyiceberg: its rows at a snapshot, then how later ones differ.

The log of snapshots in the metadata does not say which snapshots were current: pyiceberg writes all
snapshots of one commit to it. The earlier files of the metadata do, as each commit writes one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from substrait_agg.connect.iceberg.catalog import CatalogAddress, open_table
from substrait_agg.connect.protocol import ConnectedTable, TableSource
from substrait_agg.connect.snapshots import LakeColumn, LakeTable, net_files
from substrait_agg.connect.spool import spool_rows
from substrait_agg.connect.weights import add_weight
from substrait_agg.optional_packages import require

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.table.metadata import TableMetadata

CHANGES = "whole files: an update reads the old file and the new one"


Key = tuple[str, frozenset[str]]
"""Path of a file, and the paths of the files that delete rows of it."""

_SIZES = ("added-files-size", "removed-files-size")
"""Keys of the summary of a snapshot: bytes of the files that it has written and removed."""


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
        self._schema = _arrow_schema(self._table.schema())
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
            difference = _find_differences(self._table, start.snapshot, end.snapshot)
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


def _arrow_schema(schema: Schema) -> pa.Schema:
    """Return the columns in plain Arrow types, without those that have none, such as variant."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    columns = []
    for column in schema.fields:
        try:
            type_ = _plain(schema_to_pyarrow(column.field_type, include_field_ids=False))
        except (ValueError, TypeError, NotImplementedError, AttributeError):
            continue
        columns.append(pa.field(column.name, type_, not column.required))
    return pa.schema(columns)


def _plain(type_: pa.DataType) -> pa.DataType:
    """Return a type without large offsets and extensions."""
    types = pa.types
    if isinstance(type_, pa.BaseExtensionType):
        return _plain(type_.storage_type)
    if types.is_large_string(type_):
        return pa.string()
    if types.is_large_binary(type_) or types.is_fixed_size_binary(type_):
        return pa.binary()
    if types.is_large_list(type_) or types.is_list(type_):
        return pa.list_(_plain_field(type_.value_field))
    if types.is_map(type_):
        return pa.map_(_plain(type_.key_type), _plain_field(type_.item_field))
    if types.is_struct(type_):
        return pa.struct([_plain_field(field) for field in type_])
    return type_


def _plain_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _plain(field.type), field.nullable)


def columns_of(schema: Schema) -> dict[str, LakeColumn]:
    """Return the columns by their names."""
    return {
        f.name: LakeColumn(f.field_type, not f.required, str(f.field_id)) for f in schema.fields
    }


def _find_differences(
    table: Table, old: int | None, new: int | None
) -> Mapping[int, Sequence[FileScanTask]]:
    """Return the files whose rows are gone, by weight -1, and those whose rows are new, by weight 1.

    A file that both snapshots have with the same deletions is not part of it.

    Args:
        table: the table, which has both snapshots.
        old: id of a snapshot; None for the table before its first one.
        new: id of the other one.

    Raises:
        ValueError, NotImplementedError: a snapshot has deletions by values.
        FileNotFoundError: a file is gone.
    """
    before, after = _manifests(table, old), _manifests(table, new)
    if any(map(_deletes, (*before, *after))):
        removed, come = _planned_files(table, old), _planned_files(table, new)
    else:
        removed = _files_of(table, [m for m in before if m not in after])
        come = _files_of(table, [m for m in after if m not in before])
    tasks = {_key(task): task for task in (*removed, *come)}
    counts = net_files(map(_key, come), map(_key, removed)).items()
    return {
        sign: [tasks[key] for key, count in counts for _ in range(sign * count)] for sign in (-1, 1)
    }


def _manifests(table: Table, snapshot: int | None) -> dict[ManifestFile, None]:
    state = None if snapshot is None else table.metadata.snapshot_by_id(snapshot)
    return dict.fromkeys(state.manifests(table.io)) if state else {}


def _deletes(manifest: ManifestFile) -> bool:
    from pyiceberg.manifest import ManifestContent

    return manifest.content == ManifestContent.DELETES


def _planned_files(table: Table, snapshot: int | None) -> list[FileScanTask]:
    """Return all files of a snapshot with what deletes rows of them."""
    return [] if snapshot is None else list(table.scan(snapshot_id=snapshot).plan_files())


def _files_of(table: Table, manifests: Iterable[ManifestFile]) -> list[FileScanTask]:
    """Return the files of some manifests, of which nothing is deleted."""
    from pyiceberg.table import FileScanTask

    return [
        FileScanTask(entry.data_file)
        for manifest in manifests
        for entry in manifest.fetch_manifest_entry(table.io)
    ]


def _key(task: FileScanTask) -> Key:
    return task.file.file_path, frozenset(file.file_path for file in task.delete_files)


def read_files(table: Table, tasks: Sequence[FileScanTask], to: pa.Schema, weight: int) -> pa.Table:
    """Return columns of files with one weight.

    Raises:
        FileNotFoundError: a file is gone.
        OSError, ValueError, pyarrow.ArrowException: a file cannot be read.
    """
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan

    schema = table.schema()
    # Without a column, rows would have no number.
    names = to.names or [schema.fields[0].name]
    scan = ArrowScan(table.metadata, table.io, schema.select(*names), AlwaysTrue())
    return spool_rows(scan.to_record_batches(tasks), add_weight(to), weight)


class IcebergHistory:
    """Reads which snapshots were current; keeps what it has read of files of metadata."""

    def __init__(self) -> None:
        self._current: dict[str, int | None] = {}

    def steps(self, table: Table, after: int | None, most_bytes: float) -> list[int | None]:
        """Return the end of the next batch, then the commits that are left.

        The newest snapshot ends the batch if it fits, or if earlier metadata are gone. Only what
        the table still has can end a batch.

        Args:
            table: the table in its newest state.
            after: the snapshot that was read last; None before the first one.
            most_bytes: about the most bytes to read.
        """
        newest = _current(table.metadata)
        if newest == after:
            return []
        if _cost(table.metadata, newest, after) <= most_bytes:
            return [newest]
        commits = [*self._between(table, after), newest]
        end, spent = 0, 0.0
        for number, commit in enumerate(commits):
            spent += _cost(table.metadata, commit, commits[number - 1] if number else after)
            if spent > most_bytes:
                break
            end = number
        return commits[end:]

    def _between(self, table: Table, after: int | None) -> list[int | None]:
        """Return the snapshots between `after` and the newest one, ascending."""
        existing = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
        snapshots: list[int | None] = []
        last = _current(table.metadata)
        for entry in reversed(table.metadata.metadata_log):
            try:
                current = self._current_of(table, entry.metadata_file)
            except FileNotFoundError:
                break
            if current == after:
                break
            if current != last and current in existing:
                snapshots.append(current)
            last = current
        files = {entry.metadata_file for entry in table.metadata.metadata_log}
        self._current = {file: id_ for file, id_ in self._current.items() if file in files}
        return snapshots[::-1]

    def _current_of(self, table: Table, file: str) -> int | None:
        from pyiceberg.serializers import FromInputFile

        if file not in self._current:
            self._current[file] = _current(FromInputFile.table_metadata(table.io.new_input(file)))
        return self._current[file]


def _current(metadata: TableMetadata) -> int | None:
    snapshot = metadata.current_snapshot()
    return snapshot.snapshot_id if snapshot else None


def _cost(metadata: TableMetadata, snapshot: int | None, after: int | None) -> float:
    """Return about the bytes to read from one snapshot to a later one; infinite if unknown."""
    return sum(_sizes(metadata, snapshot, after))


def _sizes(metadata: TableMetadata, snapshot: int | None, after: int | None) -> Iterator[float]:
    while snapshot is not None and snapshot != after:
        state = metadata.snapshot_by_id(snapshot)
        if state is None:  # `after` is no ancestor, or snapshots between them have expired
            yield float("inf")
            return
        summary = state.summary.additional_properties if state.summary else {}
        yield sum(float(summary.get(key) or 0) for key in _SIZES)
        snapshot = state.parent_snapshot_id
