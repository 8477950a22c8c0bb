"""Provide the local folder for the logs of Spark's streaming query.

A local checkpoint contains this folder. For a checkpoint in an object store, each run creates a
local folder from the log files of the newest version, and uploads the log files of a version before
its commit. Spark therefore needs no connector for the store.
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
from substrait_agg.errors import StateRefused
from substrait_agg.files.atomic_files import write_atomically
from substrait_agg.files.download_cache import work_folder
from substrait_agg.files.filesystem import filesystem
from substrait_agg.files.locations import Remote
from substrait_agg.spark.offsets.logs import name_query, recorded_logs
from substrait_agg.spark.offsets.planned_files import forget_unplanned

DONE = 'v1\n{"nextBatchWatermarkMs":0}'
"""The commit log entry of Spark for a finished batch of a query without state and watermark."""


class QueryCheckpoint(Protocol):
    """The folder of Spark's logs during a run.

    Attributes:
        folder: the path of the folder.
        uri: the path or URI that is passed to Spark.
    """

    folder: Path
    uri: str

    def prepare(self, last: Snapshot | None) -> None:
        """Prepare the folder for a query that continues from the newest version."""

    def record_logs(self, batch: int) -> tuple[LogFile, ...]:
        """Return the log files that define the input read up to a planned micro-batch.

        The files are durable when the method returns.
        """


@contextmanager
def open_query_checkpoint(store: Checkpoint) -> Iterator[QueryCheckpoint]:
    """Open the folder of Spark's logs for a run of a checkpoint."""
    if not isinstance(store.folder, Remote):
        yield _LocalLogs(store, Path(store.spark_folder))
        return
    with work_folder() as folder:
        yield _RestoredLogs(store, folder)


class _LocalLogs:
    def __init__(self, store: Checkpoint, folder: Path) -> None:
        self.folder, self.uri = folder, str(folder)
        self._store = store

    def prepare(self, last: Snapshot | None) -> None:
        name_query(self.folder, self._store.identity)
        with self._store.fence.guarded():  # the entries of a newer run must stay
            forget_unplanned(self.folder)

    def record_logs(self, batch: int) -> tuple[LogFile, ...]:
        return recorded_logs(self.folder, batch)


class _RestoredLogs:
    def __init__(self, store: Checkpoint, folder: Path) -> None:
        self.folder, self.uri = folder, f"file://{folder}"  # Spark's default scheme may differ
        self._store = store
        self._saved: set[LogFile] = set()

    def prepare(self, last: Snapshot | None) -> None:
        name_query(self.folder, self._store.identity)
        if last is None or last.query is None:
            return
        try:
            for log in last.logs:
                self._write(log.name, load(self._store.spark, log))
        except StateRefused as error:
            # A run that has continued meanwhile deletes the logs of earlier versions.
            conflict = self._store.conflict(last.version + 1)
            if conflict is None:
                raise
            raise conflict from error
        self._write(f"commits/{last.batch}", DONE.encode())
        self._saved.update(last.logs)

    def _write(self, name: str, content: bytes) -> None:
        with write_atomically(self.folder.joinpath(*name.split("/")), private=True) as file:
            file.write(content)

    def record_logs(self, batch: int) -> tuple[LogFile, ...]:
        logs = recorded_logs(self.folder, batch)
        logs += tuple(self._log_file(name) for name in _further_logs(self.folder, batch))
        with writing(self._store.folder, "the log of Spark"):
            for log in logs:
                if log not in self._saved:
                    save(self._store.spark, log, filesystem().read(self.folder / log.name))
                    self._saved.add(log)
        return logs

    def _log_file(self, name: str) -> LogFile:
        return LogFile(name, zlib.crc32(filesystem().read(self.folder / name)))


def _further_logs(folder: Path, batch: int) -> Iterator[str]:
    """Yield the log files, besides those of `recorded_logs`, that Spark needs after a batch."""
    if batch > 0:
        yield f"offsets/{batch - 1}"
    for source, log in source_logs(folder):
        entries = [p for p in children(log) if p.name.isdigit() or p.suffix]
        if not any(map(lists_files, entries)):  # start offsets and other entries written once
            yield from (f"sources/{source}/{p.name}" for p in entries if p.name[0] != ".")
