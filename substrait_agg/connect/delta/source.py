"""Read a Delta table with deltalake: its rows at a version, then what each version changes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pf

from substrait_agg.connect.delta.layout import DeltaLayout, check_features
from substrait_agg.connect.delta.log import DataFile, DeltaCommit, DeltaDifference, DeltaLog
from substrait_agg.connect.protocol import ConnectedTable, TableSource
from substrait_agg.connect.snapshots import LakeTable
from substrait_agg.connect.spool import spool_rows
from substrait_agg.connect.weights import add_weight, with_weights
from substrait_agg.errors import InputRefused, UsageError
from substrait_agg.optional_packages import require
from substrait_agg.redaction import redacted_place, remember, safe_cause

if TYPE_CHECKING:
    from deltalake import DeltaTable

FEEDS = {
    "auto": "changed rows where the table writes a change data feed, else whole files",
    "feed": "changed rows of the change data feed",
    "files": "whole files: an update reads the old file and the new one",
}
"""Value of the option ``feed`` -> how changes come."""


KIND = "_change_type"

_RETRACTED = pa.array(["delete", "update_preimage"])
"""Kinds of rows of a change feed that are gone; the others are new."""

_THREADS = 4

_PARQUET = ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")

_Masks = Mapping[tuple[str, str], np.ndarray]
"""Path and id of a deletion vector -> which rows live."""


def group(source: TableSource) -> str:
    """Return the location of a table: a path, or a URL without a password."""
    return redacted_place(_location(source.location))


def _location(text: str) -> str:
    path = text.removeprefix("file://") if text.startswith("file:///") else text
    return path.rstrip("/") if "://" in path else str(Path(path).absolute())


def connect(tables: Mapping[str, TableSource]) -> DeltaSource:
    """Open a Delta table, which the plan may know by several names.

    Raises:
        UsageError: SOURCE_PACKAGE_MISSING, SPEC_OPTION_BAD, OPTION_CONFLICT.
        InputRefused: SOURCE_NOT_FOUND, SOURCE_UNREADABLE.
    """
    require("deltalake")
    return DeltaSource(tables)


class DeltaSource:
    """A connector (`substrait_agg.connect.protocol.Connector`) to one Delta table.

    A position is a version of the table with the id of the table. A change is read from the files
    that the log names. A version that has files of a change feed says there which rows it changed.
    Any other version changes the rows of the files that it adds and removes. If an update copies
    rows to another file, they come with both signs, and their sum is exact.

    Args:
        tables: the names of the table in the plan, with their options.
    """

    def __init__(self, tables: Mapping[str, TableSource]) -> None:
        sources = list(tables.values())
        self._location = _location(sources[0].location)
        self._lake = LakeTable("Delta", "version", redacted_place(self._location))
        remember([("", self._location)])
        self._feeds = {name: _feed(source) for name, source in tables.items()}
        self._begins = self._lake.read_start(sources)
        newest = self._open()
        self._layout = _layout(newest)
        self._check(newest)
        self._files = self._file_system()
        self._log = DeltaLog(self._files, self._lake)
        self._schema = self._layout.schema
        self._columns: dict[str, list[str]] = dict.fromkeys(tables, self._schema.names)
        self._version: int | None = None
        self._sign: tuple[int, bytes] | None = None
        self._newest = newest.version()

    def _check(self, table: DeltaTable) -> None:
        protocol = table.protocol()
        check_features(protocol.reader_features or (), self._lake)
        self._check_feed(self._layout)

    def _check_feed(self, layout: DeltaLayout) -> None:
        if "feed" in self._feeds.values() and not layout.has_feed:
            message = "the Delta table writes no change data feed, and its source has feed=feed"
            help = "set delta.enableChangeDataFeed to true, or give feed=auto, which reads files where needed"
            raise InputRefused("CHANGE_FEED_MISSING", message, help=help, path=self._lake.place)

    def _file_system(self) -> pf.FileSystem:
        """Return the file system whose root is the table."""
        if "://" not in self._location:
            return pf.SubTreeFileSystem(self._location, pf.LocalFileSystem())
        from deltalake.fs import DeltaStorageHandler

        return pf.PyFileSystem(DeltaStorageHandler(self._location))

    def _open(self, version: int | None = None) -> DeltaTable:
        """Open the table at a version, or at the newest.

        Raises:
            InputRefused: SOURCE_NOT_FOUND, SOURCE_POSITION_GONE, SOURCE_UNREADABLE.
        """
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        try:
            return DeltaTable(self._location, version=version)
        except TableNotFoundError as error:
            message = "there is no Delta table"
            help = "check the path; the table must exist before the run"
            raise InputRefused(
                "SOURCE_NOT_FOUND", message, help=help, path=self._lake.place
            ) from safe_cause(error)
        except (DeltaError, OSError) as error:
            if version is not None:
                raise self._lake.gone(f"version {version}") from safe_cause(error)
            raise self._lake.unreadable(error) from safe_cause(error)

    def table(self, name: str) -> ConnectedTable:
        """Return the columns of the newest version; a changed row comes as the old and the new one."""
        return ConnectedTable(self._schema, (), FEEDS[self._feeds[name]])

    def begin(
        self, columns: Mapping[str, Sequence[str]], checkpoint: str, position: str | None
    ) -> None:
        """Begin to read after a position.

        Raises:
            InputRefused: SOURCE_RECREATED, SOURCE_POSITION_GONE, SOURCE_SCHEMA_CHANGED.
        """
        self._columns = {name: list(read) for name, read in columns.items()}
        if position is not None:
            self._go_to(self._parse(position))

    def _go_to(self, version: int) -> None:
        """Take the columns of a version as those from which changes go on."""
        newest = self._open()
        self._check_identity(newest, version)
        table = newest if newest.version() == version else self._open(version)
        layout = _layout(table)
        self._lake.check_same(layout.columns, self._layout.columns, self._columns)
        self._layout, self._version, self._sign = layout, version, self._log.sign(version)

    def _parse(self, position: str) -> int:
        """Return the version of a position.

        Raises:
            InputRefused: SOURCE_RECREATED.
        """
        place = json.loads(position)
        if place["id"] != self._layout.table:
            raise self._lake.refuse_recreated()
        return int(place["version"])

    def _check_identity(self, table: DeltaTable, version: int) -> None:
        if str(table.metadata().id) != self._layout.table or table.version() < version:
            raise self._lake.refuse_recreated()

    def _position(self, version: int) -> str:
        return json.dumps({"version": version, "id": self._layout.table})

    def latest(self, after: str | None, most_bytes: float) -> str | None:
        """Return the position after as many versions as have about `most_bytes`, at least one.

        Raises:
            InputRefused: SOURCE_RECREATED, SOURCE_POSITION_GONE, SOURCE_SCHEMA_CHANGED,
                SOURCE_UNREADABLE.
        """
        if after is None:
            return self._position(self._first())
        version = self._parse(after)
        self._watch(version)
        if not self._log.has(version + 1) and self._log.newest() <= version:
            return None
        self._newest = self._log.newest()
        return self._position(self._cut(version, most_bytes))

    def _cut(self, version: int, most_bytes: float) -> int:
        """Return the last version of a batch.

        If the table has deleted a file of the batch, only the files of its newest version are
        certain, and the batch has all versions.
        """
        feed = any(feed != "files" for feed in self._feeds.values())
        commits: list[DeltaCommit] = []
        cost = 0
        for next_ in range(version + 1, self._newest + 1):
            commit = self._log.commit(next_)
            cost += commit.cost(feed=feed)
            if cost > most_bytes and commits:
                whole = self._log.has_files(DeltaDifference.of(commits, feed=feed))
                return commits[-1].version if whole else self._newest
            commits.append(commit)
        return self._newest

    def _first(self) -> int:
        """Return the version with which a run begins."""
        table = self._open()
        self._newest = table.version()
        if self._begins is None:
            self._check_identity(table, 0)
            return self._newest
        if self._begins > self._newest:
            raise self._lake.start_missing(self._begins)
        return self._begins

    def _watch(self, version: int) -> None:
        """Check that the table is still the one that was read, if its log says otherwise."""
        sign = self._log.sign(version)
        if sign is None or version != self._version or sign != self._sign:
            self._go_to(version)

    def read(self, after: str | None, until: str) -> Mapping[str, pa.Table]:
        """Return the rows at a version, or the difference of two versions.

        Raises:
            InputRefused: SOURCE_POSITION_GONE, SOURCE_SCHEMA_CHANGED, SOURCE_RECREATED,
                SOURCE_UNREADABLE, CHANGE_FEED_MISSING.
        """
        end = self._parse(until)
        if after is None:
            return self._initial(end)
        start = self._parse(after)
        self._watch(start)
        commits = [self._log.commit(version) for version in range(start + 1, end + 1)]
        last = self._check_commits(commits)
        read = {name: self._changes(name, commits) for name in self._columns}
        self._layout, self._version, self._sign = last, end, self._log.sign(end)
        return {name: rows for name, rows in read.items() if rows.num_rows}

    def _initial(self, version: int) -> dict[str, pa.Table]:
        self._go_to(version)
        table = self._open(version)
        read = {}
        for name in self._columns:
            types = add_weight(self._types(name))
            # Without a column, rows would have no number.
            columns = self._columns[name] or self._schema.names[:1]
            with self._translate_errors():
                batches = pa.RecordBatchReader.from_stream(table.scan(columns=columns))
                read[name] = spool_rows(batches, types, 1)
        return read

    def _types(self, name: str) -> pa.Schema:
        return pa.schema([self._schema.field(column) for column in self._columns[name]])

    def _translate_errors(self) -> AbstractContextManager[None]:
        from deltalake.exceptions import DeltaError

        return self._lake.translate_errors(DeltaError)

    def _check_commits(self, commits: Sequence[DeltaCommit]) -> DeltaLayout:
        """Check that the columns that are read stay the same, and return the last layout."""
        layout = self._layout
        for commit in commits:
            check_features(commit.features, self._lake)
            if commit.layout is None:
                continue
            if commit.layout.table != layout.table:
                raise self._lake.refuse_recreated()
            self._lake.check_same(layout.columns, commit.layout.columns, self._columns)
            layout = commit.layout
            self._check_feed(layout)
        return layout

    def _changes(self, name: str, commits: Sequence[DeltaCommit]) -> pa.Table:
        """Return the difference of two versions.

        A difference of few files may need one that lay in the table only between the versions. If
        it is gone, the files of both versions do as well.
        """
        columns = self._columns[name]
        self._layout.check_stored(columns, self._lake)
        reader = DeltaRows(self._files, self._layout, self._types(name), self._lake)
        feed = self._feeds[name]
        cheap = DeltaDifference.of(commits, feed=feed != "files")
        if not cheap.has_vectors:
            try:
                return reader.read(cheap, {})
            except FileNotFoundError:
                pass
        exact = DeltaDifference.between(commits)
        with self._translate_errors():
            return reader.read(exact, self._masks(exact, commits))

    def _masks(self, difference: DeltaDifference, commits: Sequence[DeltaCommit]) -> _Masks:
        """Return the deletion vectors of the files of a difference of two versions."""
        masks: dict[tuple[str, str], np.ndarray] = {}
        for version, sign in ((commits[0].version - 1, -1), (commits[-1].version, 1)):
            vectors = {
                file.path: file.vector
                for file, weight in difference.weights.items()
                if file.vector and weight * sign > 0
            }
            if not vectors:
                continue
            for path, mask in _vectors(self._open(version)):
                if path in vectors:
                    masks[path, vectors[path]] = mask
        return masks

    def committed(self, position: str) -> None:
        """Forget the log up to a position; the table keeps its files by its own settings."""
        self._log.forget(self._parse(position))

    def lag(self) -> Mapping[str, float]:
        """Return the versions that the table has and that were not read, as of the last look."""
        return {"versions": float(max(0, self._newest - (self._version or 0)))}

    def close(self) -> None:
        """Forget what was read of the log."""
        self._log.forget(self._newest)


def _layout(table: DeltaTable) -> DeltaLayout:
    metadata = table.metadata()
    text = table.schema().to_json()
    return DeltaLayout.of(
        str(metadata.id), text, metadata.partition_columns, metadata.configuration
    )


def _vectors(table: DeltaTable) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the path and the living rows of every file with a deletion vector."""
    root = table.table_uri.rstrip("/") + "/"
    rows = pa.RecordBatchReader.from_stream(table.deletion_vectors()).read_all()
    for path, mask in zip(rows.column("filepath"), rows.column("selection_vector"), strict=True):
        living = mask.values.to_numpy(zero_copy_only=False).astype(np.int64)
        yield path.as_py().removeprefix(root), living


def _feed(source: TableSource) -> str:
    feed = source.options.get("feed", "auto")
    if feed not in FEEDS:
        message = f"feed={feed} is not one of {', '.join(FEEDS)}"
        raise UsageError("SPEC_OPTION_BAD", message, help="choose one of them", path=source.table)
    return feed


@dataclass(frozen=True, slots=True)
class DeltaRows:
    """Reads the columns of one table.

    Attributes:
        files: the file system whose root is the table.
        layout: how columns are stored.
        schema: the columns to read, and their types.
        table: the table in messages.
    """

    files: pf.FileSystem
    layout: DeltaLayout
    schema: pa.Schema
    table: LakeTable

    def read(self, difference: DeltaDifference, masks: _Masks) -> pa.Table:
        """Return the rows of a difference with their weights.

        Raises:
            FileNotFoundError: a file is gone.
            InputRefused: SOURCE_UNREADABLE.
        """
        by_path: dict[str, list[tuple[DataFile, int]]] = {}
        for file, weight in difference.weights.items():
            by_path.setdefault(file.path, []).append((file, weight))
        with ThreadPoolExecutor(_THREADS) as pool:
            rows = pool.map(lambda parts: self._weigh(parts, masks), by_path.values())
            changed = pool.map(self._read_feed, difference.feed)
            tables = [*rows, *changed]
        return pa.concat_tables([self.empty(), *tables])

    def empty(self) -> pa.Table:
        """Return no rows."""
        return add_weight(self.schema).empty_table()

    def _weigh(self, parts: Sequence[tuple[DataFile, int]], masks: _Masks) -> pa.Table:
        """Return the rows of one file, which may count several times with other vectors."""
        rows = self._rows(parts[0][0])
        weights = np.zeros(rows.num_rows, np.int64)
        for file, weight in parts:
            weights += weight * _mask_living(file, rows.num_rows, masks)
        return pa.concat_tables(_repeat(rows, weights))

    def _read_feed(self, file: DataFile) -> pa.Table:
        """Return the rows of a file of the change feed."""
        rows = self._rows(file, KIND)
        retracted = pc.is_in(rows.column(KIND), value_set=_RETRACTED).to_numpy()
        return with_weights(rows.drop_columns([KIND]), np.where(retracted, -1, 1))

    def _rows(self, file: DataFile, *extra: str) -> pa.Table:
        stored = [
            pa.field(self.layout.columns[column.name].stored, column.type)
            for column in self.schema
            if column.name not in self.layout.partitions
        ]
        schema = pa.schema([*stored, *(pa.field(name, pa.string()) for name in extra)])
        if "://" in file.path:
            raise self._unreadable(f"its file {file.path} lies outside of it")
        fragment = _PARQUET.make_fragment(unquote(file.path), self.files)
        try:
            rows = fragment.to_table(schema=schema, columns=schema.names)
            columns = [self._column(column, rows, file) for column in self.schema]
        except pa.ArrowInvalid as error:
            raise self._unreadable(f"file {file.path}: {error}") from error
        columns += [rows.column(name) for name in extra]
        if not columns:  # a table that is made of no columns would have no rows
            return rows
        return pa.table(columns, schema=pa.schema([*self.schema, *list(schema)[len(stored) :]]))

    def _column(
        self, column: pa.Field, rows: pa.Table, file: DataFile
    ) -> pa.ChunkedArray | pa.Array:
        stored = self.layout.columns[column.name].stored
        if column.name not in self.layout.partitions:
            return rows.column(stored)
        if file.partition is None:
            raise self._unreadable(f"the log has no values of partitions for {file.path}")
        value = _partition_value(dict(file.partition).get(stored), column.type)
        return pa.repeat(value, rows.num_rows)

    def _unreadable(self, reason: str) -> InputRefused:
        return self.table.unreadable(reason, "read a copy of the table")


def _partition_value(text: str | None, type_: pa.DataType) -> pa.Scalar:
    """Return the value of a partition column from its text in the log; an empty text is null.

    >>> _partition_value("7", pa.int32())
    <pyarrow.Int32Scalar: 7>
    """
    if not text:
        return pa.scalar(None, type_)
    if pa.types.is_timestamp(type_):  # a text without a zone is in UTC
        return pa.scalar(text.removesuffix("Z")).cast(pa.timestamp("us")).cast(type_)
    return pa.scalar(text).cast(type_)


def _mask_living(file: DataFile, rows: int, masks: _Masks) -> np.ndarray:
    """Return which rows of a file live. A mask may be shorter than the file: the others live."""
    if not file.vector:
        return np.ones(rows, np.int64)
    living = np.ones(rows, np.int64)
    mask = masks[file.path, file.vector]
    living[: len(mask)] = mask[:rows]
    return living


def _repeat(rows: pa.Table, weights: np.ndarray) -> Iterator[pa.Table]:
    """Yield rows with weights of -1 and 1, as often as they count."""
    for level in range(1, int(np.abs(weights).max(initial=1)) + 1):
        counted = np.abs(weights) >= level
        part = rows if counted.all() else rows.filter(pa.array(counted))
        yield with_weights(part, np.sign(weights[counted]))
