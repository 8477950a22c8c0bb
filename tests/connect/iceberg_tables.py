"""Iceberg tables that tests change at random, and deletions that pyiceberg cannot write."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.typedef import Record
from pyiceberg.types import LongType

from substrait_agg.connect.iceberg.source import connect
from substrait_agg.connect.protocol import TableSource
from tests.connect.driver import LAKE_COLUMNS, LakeChanges, Rows, Run, counted, random_rows

SCHEMA = pa.schema([("k", pa.int32()), ("v", pa.string()), ("p", pa.string())])


def options(folder: Path) -> dict[str, str]:
    """Return the options of a catalogue in a folder."""
    return {"catalog": "test", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": str(folder)}


@cache
def catalog(folder: Path) -> Catalog:
    """Return the catalogue of a folder, with a namespace ``shop``."""
    given = options(folder)
    opened = load_catalog("test", uri=given["uri"], warehouse=given["warehouse"])
    opened.create_namespace_if_not_exists("shop")
    return opened


def create(folder: Path, name: str = "shop.orders", partition: str | None = None) -> Table:
    """Create a table without rows."""
    table = catalog(folder).create_table(name, SCHEMA, properties={"format-version": "2"})
    if partition is not None:
        with table.update_spec() as update:
            update.add_identity(partition)
    return table


def content(table: Table, snapshot: int | None = None) -> Rows:
    """Return the rows of a table as pyiceberg reads them."""
    if table.current_snapshot() is None:
        return Counter()
    scan = table.scan(snapshot_id=snapshot) if snapshot else table.scan()
    return counted(scan.select(*LAKE_COLUMNS).to_arrow())


def iceberg_run(
    folder: Path,
    given: Mapping[str, str] = MappingProxyType({}),
    columns: Sequence[str] = LAKE_COLUMNS,
    name: str = "shop.orders",
) -> Run:
    """Return a run that reads a table of the catalogue of a folder."""
    source = TableSource("t", name, {**options(folder), **given})
    return Run(connect, {"t": source}, {"t": columns})


class IcebergChanges(LakeChanges):
    """Random operations on one table."""

    operations = (
        "append", "append", "delete", "overwrite", "part", "upsert", "upsert", "several", "column",
        "expire", "back", "positions",
    )  # fmt: skip

    def __init__(self, table: Table, rng: random.Random) -> None:
        super().__init__(rng)
        self.table = table
        self.history[None] = Counter()

    def note(self) -> None:
        """Note the rows of the newest snapshot."""
        self.table.refresh()
        snapshot = self.table.current_snapshot()
        if snapshot:
            self.history[snapshot.snapshot_id] = self.content()

    def content(self) -> Rows:
        """Return the rows of the table."""
        return content(self.table)

    def _rows(self, count: int) -> pa.Table:
        rows = random_rows(self._rng, count).cast(SCHEMA)
        for number in range(1, self._added + 1):
            rows = rows.append_column(f"extra_{number}", pa.nulls(count, pa.int64()))
        return rows

    def append(self) -> None:
        """Append some rows."""
        self.table.append(self._rows(self._rng.randrange(1, 6)))

    def delete(self) -> None:
        """Delete the rows of a few keys."""
        self.table.delete(f"k < {self._rng.randrange(10)} and v = 'a'")

    def overwrite(self) -> None:
        """Replace all rows."""
        self.table.overwrite(self._rows(9))

    def part(self) -> None:
        """Replace the rows of a key."""
        key = self._rng.randrange(30)
        rows = self._rows(2).set_column(0, SCHEMA.field("k"), pa.array([key] * 2, pa.int32()))
        self.table.overwrite(rows, overwrite_filter=f"k = {key}")

    def upsert(self) -> None:
        """Update and insert in one commit, which has several snapshots."""
        self.table.delete("k >= 0")
        self.note()
        keys = self._rng.sample(range(30), 8)
        rows = self._rows(8).set_column(0, SCHEMA.field("k"), pa.array(keys, pa.int32()))
        self.table.append(rows.slice(0, 5))
        self.note()
        self.table.upsert(rows.slice(3), join_cols=["k"])

    def several(self) -> None:
        """Write three snapshots in one commit."""
        with self.table.transaction() as transaction:
            transaction.append(self._rows(3))
            transaction.delete(f"k = {self._rng.randrange(30)}")
            transaction.append(self._rows(1))

    def column(self) -> None:
        """Add a column that nobody reads."""
        self._added += 1
        with self.table.update_schema() as update:
            update.add_column(f"extra_{self._added}", LongType())

    def expire(self) -> None:
        """Expire snapshots that no run needs."""
        expire(self.table, self.keep())

    def back(self) -> None:
        """Set the table back to an earlier snapshot."""
        known = {s.snapshot_id for s in self.table.snapshots()}
        snapshots = [s for s in self.keep() if s in known]
        if snapshots:
            set_current(self.table, self._rng.choice(snapshots))

    def positions(self) -> None:
        """Delete the first row of a file by its position."""
        files = list(self.table.scan().plan_files()) if self.table.current_snapshot() else []
        if files:
            delete_positions(self.table, files[0].file, [0])


def expire(table: Table, keep: Sequence[int | None]) -> None:
    """Expire all snapshots but the newest and some others."""
    kept = {*keep, table.metadata.current_snapshot_id}
    old = [s.snapshot_id for s in table.snapshots() if s.snapshot_id not in kept]
    table.maintenance.expire_snapshots().by_ids(old).commit()
    table.refresh()


def set_current(table: Table, snapshot: int | None) -> None:
    """Set the branch of a table to a snapshot that it has."""
    assert snapshot is not None
    table.manage_snapshots().set_current_snapshot(snapshot).commit()
    table.refresh()


class _Deletes(ManifestWriterV2):
    """A manifest of files with deletions."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def delete_positions(table: Table, file: DataFile, rows: list[int]) -> None:
    """Write a snapshot that deletes rows of a file by their numbers."""
    places = pa.schema(
        [
            pa.field("file_path", pa.string(), False, {"PARQUET:field_id": "2147483546"}),
            pa.field("pos", pa.int64(), False, {"PARQUET:field_id": "2147483545"}),
        ]
    )
    values = pa.table([[file.file_path] * len(rows), rows], schema=places)
    write_deletes(table, values, DataFileContent.POSITION_DELETES, partition=file.partition)


def write_deletes(
    table: Table,
    values: pa.Table,
    kind: DataFileContent,
    equal: list[int] | None = None,
    partition: Record | None = None,
) -> None:
    """Write a snapshot that has one more file with deletions."""
    old = table.current_snapshot()
    assert old is not None
    folder = Path(table.location().removeprefix("file://"))
    name, number = uuid.uuid4().hex, random.randrange(1, 1 << 60)
    path = folder / "data" / f"{name}.parquet"
    pq.write_table(values, path)
    file = DataFile.from_args(
        content=kind,
        file_path=str(path),
        file_format=FileFormat.PARQUET,
        partition=partition or Record(),
        record_count=values.num_rows,
        file_size_in_bytes=path.stat().st_size,
        equality_ids=equal,
        _table_format_version=2,
    )
    sequence = table.metadata.next_sequence_number()
    manifest = table.io.new_output(str(folder / "metadata" / f"{name}-m.avro"))
    with _Deletes(table.spec(), table.schema(), manifest, number, "null") as writer:
        added = ManifestEntryStatus.ADDED
        writer.add_entry(ManifestEntry.from_args(status=added, snapshot_id=number, data_file=file))
    listed = str(folder / "metadata" / f"{name}-list.avro")
    with write_manifest_list(
        2, table.io.new_output(listed), number, old.snapshot_id, sequence, "null"
    ) as manifests:
        manifests.add_manifests([*old.manifests(table.io), writer.to_manifest_file()])
    snapshot = {
        "snapshot-id": number,
        "parent-snapshot-id": old.snapshot_id,
        "sequence-number": sequence,
        "manifest-list": listed,
        "timestamp-ms": int(dt.datetime.now().timestamp() * 1000),
        "summary": {"operation": "delete"},
        "schema-id": table.schema().schema_id,
    }
    reference = {"ref-name": "main", "type": "branch", "snapshot-id": number}
    with table.transaction() as transaction:
        updates = (
            AddSnapshotUpdate(snapshot=Snapshot.model_validate(snapshot)),
            SetSnapshotRefUpdate.model_validate({"action": "set-snapshot-ref", **reference}),
        )
        transaction._apply(updates, ())
    table.refresh()
