"""Spark's own logs of a streaming query: which batches it has planned and done, which files it has seen.

A folder has ``metadata`` (the query's id), ``offsets/N`` (where each source was when batch N had been planned), ``commits/N`` (batch N is
done), and per source a folder. That of files has a log of its own: entry K lists the files seen K-th, every tenth entry
(``K.compact``) all files up to then. Beside each file there may be a checksum, ``.NAME.crc``. Only the newest hundred or so
batches are kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from substrait_agg.commit.snapshot import Snapshot
from substrait_agg.commit.store import Checkpoint
from substrait_agg.tools.findings import Findings

TOGETHER = "restore the checkpoint folder as a whole from one copy, or begin a new one"


@dataclass(frozen=True, slots=True)
class Offsets:
    """What Spark noted of a batch: per source where it was, as written; None where it had nothing yet."""

    batch: int
    sources: tuple[str | None, ...]

    def log_entry(self, source: int) -> int | None:
        """The last entry of a file source's log that was planned by then, -1 for none; None of another kind of source."""
        text = self.sources[source] if source < len(self.sources) else None
        if text is None:
            return -1
        try:
            found = json.loads(text)
        except ValueError:
            return None
        known = isinstance(found, dict) and "logOffset" in found
        return int(found["logOffset"]) if known else None


def query_id(folder: Path) -> str | None:
    """The id of the query, None where it cannot be read."""
    try:
        found = json.loads((folder / "metadata").read_text())["id"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(found)


def batches(folder: Path) -> list[int]:
    """Ids of the batches noted in ``offsets`` or ``commits``, ascending."""
    return sorted(int(p.name) for p in children(folder) if p.name.isdigit())


def read_offsets(folder: Path, batch: int) -> Offsets | None:
    """What was noted of a batch; None where nothing is.

    Raises:
        ValueError: the file is damaged.
    """
    path = folder / "offsets" / str(batch)
    if not path.is_file():
        return None
    lines = path.read_text().splitlines()
    if len(lines) < 2 or not lines[0].startswith("v"):
        message = f"{path} is no offset log of Spark"
        raise ValueError(message)
    json.loads(lines[1])
    return Offsets(batch, tuple(None if line == "-" else line for line in lines[2:]))


def children(folder: Path) -> list[Path]:
    """What is in a folder; nothing where it is not there."""
    return sorted(folder.iterdir()) if folder.is_dir() else []


def source_logs(folder: Path) -> Iterator[tuple[int, Path]]:
    """Ordinal and folder of every source."""
    for path in children(folder / "sources"):
        if path.name.isdigit():
            yield int(path.name), path


def entry_number(path: Path) -> int | None:
    """The number of a log entry, compacted or not; None of other files."""
    name = path.name.removesuffix(".compact")
    return int(name) if name.isdigit() else None


def read_entries(path: Path) -> tuple[str, list[dict[str, Any]]]:
    """Version line and file entries of an entry of a file source's log.

    Raises:
        ValueError: it is something else.
    """
    head, *lines = path.read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    if not all(isinstance(e, dict) and {"path", "batchId"} <= e.keys() for e in entries):
        message = f"{path} is no log of files"
        raise ValueError(message)
    return head, entries


def check_logs(checkpoint: Checkpoint, newest: Snapshot, found: Findings) -> None:
    """Do Spark's logs go on where the newest version ends?"""
    if newest.query is None:
        return
    folder = Path(checkpoint.spark_folder)
    if query_id(folder) != newest.query:
        message = "Spark's logs are missing, or belong to another query"
        found.fault("OFFSETS_LOST", "spark/metadata", message, TOGETHER)
        return
    path = f"spark/offsets/{newest.batch}"
    with found.caught("OFFSETS_LOST", path):
        if read_offsets(folder, newest.batch) is None:
            message = f"Spark has no note of batch {newest.batch}, which is committed"
            found.fault("OFFSETS_LOST", path, message, TOGETHER)
    planned, done = batches(folder / "offsets"), batches(folder / "commits")
    last = max([*(batch - 1 for batch in planned[-1:]), *done[-1:]], default=-1)
    # A run may have gone on: what Spark has done by now is committed by now.
    newest = checkpoint.snapshot(checkpoint.versions()[-1])
    if last > newest.batch:
        message = f"Spark is done with batch {last}, the versions end with batch {newest.batch}"
        found.fault("OFFSETS_DIFFER", "spark/offsets", message, TOGETHER)
