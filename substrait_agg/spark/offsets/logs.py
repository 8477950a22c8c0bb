"""Spark's own logs in a checkpoint, as far as its versions depend on them.

The query has the id of the checkpoint, so logs of another query are told at once. What tells which input has been read are the offsets
of the last batch, and of file sources the log of the files they have seen, from its last compacted entry on: Spark reads files
again that are not in it. Every version notes the checksums of these files, and a run checks them before it goes on. Spark checks
its files against checksums beside them, but not where those are gone, nor whether an entry is missing.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.snapshot import LogFile, Snapshot
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.query_logs import COMPACT, METADATA, check_noted, query_id
from substrait_agg.commit.log.saved_logs import load
from substrait_agg.errors import StateRefused
from substrait_agg.files.filesystem import filesystem
from substrait_agg.spark.offsets.planned_files import offsets_of


def recorded_logs(folder: Path, batch: int) -> tuple[LogFile, ...]:
    """The files that tell what has been read up to a micro-batch which Spark has planned.

    Args:
        folder: Spark's own folder in the checkpoint.
        batch: id of the micro-batch.
    """
    names = [f"offsets/{batch}"]
    for source, end in enumerate(offsets_of(folder, batch)):
        names += (f"sources/{source}/{n}" for n in _entries(folder / "sources" / str(source), end))
    return tuple(LogFile(name, zlib.crc32(filesystem().read(folder / name))) for name in names)


def _entries(log: Path, end: int) -> Iterator[str]:
    """The entries of a file source's log that Spark reads for what was seen up to `end`, newest first."""
    there = set(filesystem().names(log))
    for number in range(end, -1, -1):
        name = str(number)
        if name + COMPACT in there:
            yield name + COMPACT
            return
        if name in there:
            yield name


def check_logs(store: Checkpoint) -> None:
    """Refuse logs that are not those with which the newest version was made.

    Raises:
        StateRefused: OFFSETS_LOST, STATE_DAMAGED.
    """
    if not store.exists():
        return
    last, folder = store.latest(), Path(store.spark_folder)
    if store.spark.is_remote:
        for log in () if last is None else last.logs:
            load(store.spark, log)
        return
    query = store.identity if last is None or last.query is None else last.query
    found = query_id(folder)
    begun = last is not None and last.query is not None
    if found is None and (begun or any(filesystem().names(folder / "offsets"))):
        raise _lost(store, "are missing")
    if found not in (None, query):
        raise _lost(store, "belong to another query")
    check_noted(folder, () if last is None else last.logs)


def _lost(store: Checkpoint, why: str) -> StateRefused:
    return StateRefused(
        "OFFSETS_LOST",
        f"Spark's own offsets {why}: the query of this checkpoint has the id {store.identity}",
        help="restore the checkpoint folder as a whole from one copy, or begin a new one",
        path=store.spark_folder,
    )


def name_query(folder: Path, identity: str) -> None:
    """Give the streaming query that keeps its logs in a folder the id of the checkpoint, unless it has one."""
    files = FolderFiles(folder)
    if not files.exists(METADATA):
        files.publish(METADATA, json.dumps({"id": identity}).encode())


def carried(last: Snapshot | None) -> tuple[LogFile, ...]:
    """What a version without a micro-batch of its own notes: the same as the one before."""
    return () if last is None else last.logs
