"""Record and check the logs of Spark that the versions of a checkpoint depend on.

The query has the id of the checkpoint, so logs of another query are recognised by their id. Two
kinds of files define which input has been read: the offsets of the last batch, and for file sources
the log of seen files from its last compacted entry on. Spark reads files again that are not in that
log.

Every version records the checksums of these log files, and a run checks them before it continues.
Spark also writes checksum files, but it accepts a missing checksum file and a missing log entry.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.snapshot import LogFile, Snapshot
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.query_logs import COMPACT, METADATA, check_recorded_logs, query_id
from substrait_agg.commit.log.saved_logs import load
from substrait_agg.errors import StateRefused
from substrait_agg.files.filesystem import filesystem
from substrait_agg.spark.offsets.planned_files import offsets_of


def recorded_logs(folder: Path, batch: int) -> tuple[LogFile, ...]:
    """Return the log files that define which input has been read up to a planned micro-batch.

    Args:
        folder: Spark's own folder in the checkpoint.
        batch: id of the micro-batch.
    """
    names = [f"offsets/{batch}"]
    for source, end in enumerate(offsets_of(folder, batch)):
        names += (f"sources/{source}/{n}" for n in _entries(folder / "sources" / str(source), end))
    return tuple(LogFile(name, zlib.crc32(filesystem().read(folder / name))) for name in names)


def _entries(log: Path, end: int) -> Iterator[str]:
    """Yield the entries of a file source's log that Spark reads up to `end`, newest first."""
    names = set(filesystem().names(log))
    for number in range(end, -1, -1):
        name = str(number)
        if name + COMPACT in names:
            yield name + COMPACT
            return
        if name in names:
            yield name


def check_logs(store: Checkpoint) -> None:
    """Refuse logs that differ from those recorded in the newest version.

    Raises:
        StateRefused: OFFSETS_LOST, STATE_DAMAGED.
    """
    if not store.exists():
        return
    last, folder = store.newest_snapshot(), Path(store.spark_folder)
    if store.spark.is_remote:
        for log in () if last is None else last.logs:
            load(store.spark, log)
        return
    query = store.identity if last is None or last.query is None else last.query
    id_in_logs = query_id(folder)
    begun = last is not None and last.query is not None
    if id_in_logs is None and (begun or any(filesystem().names(folder / "offsets"))):
        raise _lost(store, "are missing")
    if id_in_logs not in (None, query):
        raise _lost(store, "belong to another query")
    check_recorded_logs(folder, () if last is None else last.logs)


def _lost(store: Checkpoint, why: str) -> StateRefused:
    return StateRefused(
        "OFFSETS_LOST",
        f"Spark's own offsets {why}: the query of this checkpoint has the id {store.identity}",
        help="restore the whole checkpoint folder from one copy, or start a new checkpoint",
        path=store.spark_folder,
    )


def name_query(folder: Path, identity: str) -> None:
    """Give the streaming query with logs in a folder the id of the checkpoint if it has no id."""
    files = FolderFiles(folder)
    if not files.exists(METADATA):
        files.publish(METADATA, json.dumps({"id": identity}).encode())


def carried(last: Snapshot | None) -> tuple[LogFile, ...]:
    """Return the log files of a version without a micro-batch: those of the previous version."""
    return () if last is None else last.logs
