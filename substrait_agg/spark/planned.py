"""The files that Spark planned for a batch, checked before it is computed.

Spark notes the files of a batch in its checkpoint, then lists them anew when it computes the batch, and leaves out without
a word those that have gone since. A batch that is computed only in a later run would so lose rows in silence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from substrait_agg.disk import disk
from substrait_agg.errors import InputRefused
from substrait_agg.spark.files import exists


def check_planned_files(spark: SparkSession, folder: str, batch: int) -> None:
    """Check that every file planned for a micro-batch is there.

    Args:
        spark: session by which paths are reached.
        folder: Spark's own folder in the checkpoint.
        batch: id of the micro-batch.

    Raises:
        InputRefused: SOURCE_FILE_GONE names the first that is not.
    """
    for path in planned_files(Path(folder), batch):
        if not exists(spark, path):
            raise InputRefused(
                "SOURCE_FILE_GONE",
                "a file that belongs to the batch being computed is no longer there",
                help="put it back; nothing of the batch was committed",
                path=path,
            )


def planned_files(folder: Path, batch: int) -> Iterator[str]:
    """Paths of the files that Spark's logs hold for a micro-batch, as URIs; of file sources only."""
    ends, starts = offsets_of(folder, batch), offsets_of(folder, batch - 1)
    for source, end in enumerate(ends):
        start = starts[source] if source < len(starts) else -1
        yield from _files_between(folder / "sources" / str(source), start, end)


def offsets_of(folder: Path, batch: int) -> list[int]:
    """Per source its offset in Spark's file log after a batch, -1 where it has none."""
    path = folder / "offsets" / str(batch)
    if batch < 0 or not disk().exists(path):
        return []
    # A version line and a line of metadata come first.
    return [_log_offset(line) for line in _lines(path)[2:]]


def _log_offset(line: str) -> int:
    try:
        found = json.loads(line)
    except ValueError:
        return -1
    return int(found.get("logOffset", -1)) if isinstance(found, dict) else -1


def _files_between(log: Path, start: int, end: int) -> Iterator[str]:
    for number in range(start + 1, end + 1):
        for name in (str(number), f"{number}.compact"):
            entries = log / name
            if disk().exists(entries):
                yield from _paths(entries, number)


def _paths(entries: Path, number: int) -> Iterator[str]:
    for line in _lines(entries)[1:]:
        entry: Any = json.loads(line)
        if entry.get("batchId") == number:
            yield str(entry["path"])


def planned_at(folder: Path, batch: int) -> int | None:
    """When Spark planned a micro-batch, in microseconds since 1970: the same however often it is computed."""
    path = folder / "offsets" / str(batch)
    try:
        # A version line comes first.
        planned = json.loads(_lines(path)[1])["batchTimestampMs"]
    except (OSError, ValueError, IndexError, KeyError, TypeError):
        return None
    return int(planned) * 1000


def forget_unplanned(folder: Path) -> None:
    """Take back files that Spark noted as seen without planning a batch of them.

    A kill between the two notes leaves them so, and Spark would put them in one batch with the files that come next: the batches
    of a killed run would not be those of a run that was never killed. Only the newest entry of a source's log can be such a
    note; a compacted one is left alone, because it holds the older entries too.
    """
    planned = [int(p.name) for p in _children(folder / "offsets") if p.name.isdigit()]
    ends = offsets_of(folder, max(planned, default=-1))
    for log in _children(folder / "sources"):
        if not log.name.isdigit():
            continue
        source = int(log.name)
        end = ends[source] if source < len(ends) else -1
        for entry in _children(log):
            if entry.name.isdigit() and int(entry.name) > end and _names_files(entry):
                disk().remove(log / f".{entry.name}.crc")
                disk().remove(entry)


def _names_files(entry: Path) -> bool:
    """Whether this is an entry of a file source's log; other sources keep notes of their own under such names."""
    try:
        first = json.loads(_lines(entry)[1])
    except (ValueError, IndexError):
        return False
    return isinstance(first, dict) and {"path", "batchId"} <= first.keys()


def _children(folder: Path) -> list[Path]:
    return [folder / name for name in disk().names(folder, folders=True)]


def _lines(path: Path) -> list[str]:
    return disk().read(path).decode(errors="replace").splitlines()
