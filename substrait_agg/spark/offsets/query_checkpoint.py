"""The folder that Spark's streaming query keeps its logs in.

It is the one in the checkpoint, where that is a folder. Spark needs no connector for the store of a checkpoint that lies in one: each
run has a folder of its own on its machine, made of what the newest version names, and saves what a version names before its commit.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from substrait_agg.commit.documents.snapshot import LogFile, Snapshot
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.publishing import writing
from substrait_agg.commit.log.query_logs import children, lists_files, source_logs
from substrait_agg.commit.log.saved_logs import load, save
from substrait_agg.files.atomic_files import write_atomically
from substrait_agg.files.download_cache import work_folder
from substrait_agg.files.filesystem import filesystem
from substrait_agg.files.locations import Remote
from substrait_agg.spark.offsets.logs import name_query, recorded_logs
from substrait_agg.spark.offsets.planned_files import forget_unplanned

DONE = 'v1\n{"nextBatchWatermarkMs":0}'
"""What Spark notes of a batch that is done, of a query without state and watermark of its own."""


class QueryCheckpoint(Protocol):
    """Where Spark keeps its logs while a run goes on.

    Attributes:
        folder: the folder.
        told: the same as Spark is told.
    """

    folder: Path
    told: str

    def prepare(self, last: Snapshot | None) -> None:
        """Make the folder ready for a query that goes on behind the newest version."""

    def noted(self, batch: int) -> tuple[LogFile, ...]:
        """The files that tell what has been read up to a micro-batch which Spark has planned; they last from now on."""


@contextmanager
def open_query_checkpoint(store: Checkpoint) -> Iterator[QueryCheckpoint]:
    """The folder for a run of a checkpoint."""
    if not isinstance(store.folder, Remote):
        yield _InCheckpoint(store, Path(store.spark_folder))
        return
    with work_folder() as folder:
        yield _Restored(store, folder)


class _InCheckpoint:
    def __init__(self, store: Checkpoint, folder: Path) -> None:
        self.folder, self.told = folder, str(folder)
        self._store = store

    def prepare(self, last: Snapshot | None) -> None:
        """See `Work.prepare`."""
        name_query(self.folder, self._store.identity)
        with self._store.fence.held():  # what a newer run has just noted is not left over
            forget_unplanned(self.folder)

    def noted(self, batch: int) -> tuple[LogFile, ...]:
        """See `Work.noted`."""
        return recorded_logs(self.folder, batch)


class _Restored:
    def __init__(self, store: Checkpoint, folder: Path) -> None:
        self.folder, self.told = folder, f"file://{folder}"  # whatever Spark's default is
        self._store = store
        self._saved: set[LogFile] = set()

    def prepare(self, last: Snapshot | None) -> None:
        """See `Work.prepare`."""
        name_query(self.folder, self._store.identity)
        if last is None or last.query is None:
            return
        for log in last.logs:
            self._write(log.name, load(self._store.spark, log))
        self._write(f"commits/{last.batch}", DONE.encode())
        self._saved.update(last.logs)

    def _write(self, name: str, content: bytes) -> None:
        with write_atomically(self.folder.joinpath(*name.split("/")), private=True) as file:
            file.write(content)

    def noted(self, batch: int) -> tuple[LogFile, ...]:
        """See `Work.noted`."""
        logs = recorded_logs(self.folder, batch)
        logs += tuple(self._noted(name) for name in _besides(self.folder, batch))
        with writing(self._store.folder, "what Spark has noted"):
            for log in logs:
                if log not in self._saved:
                    save(self._store.spark, log, filesystem().read(self.folder / log.name))
                    self._saved.add(log)
        return logs

    def _noted(self, name: str) -> LogFile:
        return LogFile(name, zlib.crc32(filesystem().read(self.folder / name)))


def _besides(folder: Path, batch: int) -> Iterator[str]:
    """Files that Spark needs to go on behind a batch, besides those that tell what has been read."""
    if batch > 0:
        yield f"offsets/{batch - 1}"
    for source, log in source_logs(folder):
        entries = [p for p in children(log) if p.name.isdigit() or p.suffix]
        if not any(map(lists_files, entries)):  # where a source began, or what else it notes once
            yield from (f"sources/{source}/{p.name}" for p in entries if p.name[0] != ".")
