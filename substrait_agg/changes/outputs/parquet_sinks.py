"""Outputs that write Parquet files: one file per version, or one file that is replaced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import pyarrow.parquet as pq

from substrait_agg.changes.outputs.sinks import Sink, Table, refuse_taken
from substrait_agg.changes.records import Record
from substrait_agg.commit.log.fence import NO_FENCE, Fence
from substrait_agg.files.atomic_files import Guard, write_atomically
from substrait_agg.files.filesystem import filesystem

VERSION_KEY = b"substrait_agg.version"


class VersionFiles(Sink):
    """Writes Parquet files named by their versions, in a folder that no other checkpoint writes to.

    Attributes:
        prefix: prefix of the file names.
        by_table: whether the files are in one subfolder per table.
    """

    keeps_position = True
    prefix: ClassVar[str]
    by_table: ClassVar[bool] = False

    def __init__(self, folder: Path, record: Record) -> None:
        position = self.check(folder, record)
        self._folder = folder
        self._record = record
        self._position = position[0] if position else None
        record.take_over(self._position)
        filesystem().make(folder)
        for place in self._folders(folder):
            _remove_drafts(place, f".{self.prefix}-", record.fence)

    @classmethod
    def check(cls, folder: Path, record: Record) -> tuple[int | None, int] | None:
        """Return the position from the record, or None without a record; write nothing.

        Raises:
            UsageError: OUTPUT_EXISTS.
            StateRefused: OUTPUT_RECORD_DAMAGED.
        """
        position = record.read()
        if position is None and any(
            _holds(place, f"{cls.prefix}-") for place in cls._folders(folder)
        ):
            # A concurrent run of this checkpoint may have created both since the first read.
            position = record.read()
            if position is None:
                raise refuse_taken(folder)
        return position

    @classmethod
    def _folders(cls, folder: Path) -> Iterator[Path]:
        """Yield the folders that contain files."""
        if cls.by_table:
            yield from (folder / table for table in filesystem().names(folder, folders=True))
        else:
            yield folder

    @property
    def position(self) -> int | None:
        """Return the last version whose files are in the folder."""
        return self._position

    def _publish(self, table: Table, folder: Path, version: int) -> None:
        """Publish the file of `version`, unless a killed run has already done so."""
        path = folder / f"{self.prefix}-{version:020d}.parquet"
        if not filesystem().exists(path):
            write_parquet(table, path, version)


class ChangesParquet(VersionFiles):
    """Writes one Parquet file per version that changed the view."""

    takes_changes = True
    prefix = "changes"

    def deliver(self, changes: Table, version: int) -> None:
        """Publish the file of `version`, then update the record."""
        if changes.num_rows:
            self._publish(changes, self._folder, version)
        self._record.write(version)


class LateParquet(VersionFiles):
    """Writes one Parquet file per table and version that dropped late rows, in a folder per table."""

    takes_late = True
    prefix = "late"
    by_table = True

    def deliver_late(self, late: Mapping[str, Table], version: int) -> None:
        """Publish the files of `version`, then update the record."""
        for table, rows in late.items():
            folder = self._folder / _folder_name(table)
            filesystem().make(folder)
            self._publish(rows, folder, version)
        self._record.write(version)


class ViewParquet(Sink):
    """Writes ``view.parquet``, which is replaced as a whole, so readers see one version."""

    takes_view = True
    shows_every_version = True

    def __init__(self, folder: Path, fence: Fence = NO_FENCE) -> None:
        filesystem().make(folder)
        _remove_drafts(folder, ".view.", fence)
        self._path = folder / "view.parquet"
        self._guard = fence.guard

    def finish(self, view: Table, version: int) -> None:
        """Replace the file."""
        write_parquet(view, self._path, version, self._guard)


def _holds(folder: Path, prefix: str) -> bool:
    return any(n.startswith(prefix) and n.endswith(".parquet") for n in filesystem().names(folder))


def _remove_drafts(folder: Path, prefix: str, fence: Fence) -> None:
    """Remove the unfinished files of killed runs."""
    with fence.guard():
        for name in filesystem().names(folder):
            if name.startswith(prefix) and name.endswith(".tmp"):
                filesystem().remove(folder / name)


def _folder_name(table: str) -> str:
    """Return the name of a table as a valid folder name."""
    name = quote(table, safe=" ")
    return name if name.strip(".") else name.replace(".", "%2E")


def write_parquet(table: Table, path: Path, version: int, guard: Guard = nullcontext) -> None:
    """Publish a table as a Parquet file whose schema metadata contain the version."""
    with write_atomically(path, guard) as file:
        write_parquet_to(table, file, version)


def write_parquet_to(table: Table, file: Any, version: int) -> None:
    """Write a table as Parquet to a binary file object."""
    metadata = {**(table.schema.metadata or {}), VERSION_KEY: str(version).encode()}
    pq.write_table(table.replace_schema_metadata(metadata), file, compression="zstd")
