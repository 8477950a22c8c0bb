"""The files that Spark planned for a batch, checked before it is computed.

Spark notes the files of a batch in its checkpoint, then lists them anew when it computes the batch, and leaves out without
a word those that have gone since. A batch that is computed only in a later run would so lose rows in silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from substrait_agg.commit.log.query_logs import (
    COMPACT,
    batches,
    children,
    lists_files,
    read_entries,
    read_offsets,
    source_logs,
)
from substrait_agg.errors import InputRefused
from substrait_agg.files.filesystem import filesystem
from substrait_agg.spark.sources.files import exists

_UNFINISHED = re.compile(r"\..+\.tmp(?:\.crc)?")
"""Names under which Spark writes a note until it is whole."""


def check_planned_files(spark: SparkSession, folder: Path, batch: int) -> None:
    """Check that every file planned for a micro-batch is there.

    Args:
        spark: session by which paths are reached.
        folder: Spark's own folder.
        batch: id of the micro-batch.

    Raises:
        InputRefused: SOURCE_FILE_GONE names the first that is not.
    """
    for path in planned_files(folder, batch):
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
    """Per source its offset in Spark's file log after a batch, -1 where it has none; a note that is damaged is Spark's to refuse."""
    try:
        noted = read_offsets(folder, batch)
    except ValueError:
        return []
    ends = () if noted is None else (noted.log_entry(i) for i in range(len(noted.sources)))
    return [-1 if end is None else end for end in ends]


def _files_between(log: Path, start: int, end: int) -> Iterator[str]:
    for number in range(start + 1, end + 1):
        for name in (str(number), f"{number}{COMPACT}"):
            entries = log / name
            if filesystem().exists(entries):
                yield from (e["path"] for e in read_entries(entries)[1] if e["batchId"] == number)


def planned_at(folder: Path, batch: int) -> int | None:
    """When Spark planned a micro-batch, in microseconds since 1970: the same however often it is computed."""
    try:
        noted = read_offsets(folder, batch)
    except (OSError, ValueError):
        return None
    return None if noted is None or noted.planned is None else noted.planned * 1000


def forget_unplanned(folder: Path) -> None:
    """Take back files that Spark noted as seen without planning a batch of them.

    A kill between the two notes leaves them so, and Spark would put them in one batch with the files that come next: the batches
    of a killed run would not be those of a run that was never killed. Only the newest entry of a source's log can be such a
    note; a compacted one is left alone, because it holds the older entries too. Notes that it was killed over go as well: with one
    of those Spark refuses to begin its first batch.
    """
    _forget_unfinished(folder)
    ends = offsets_of(folder, max(batches(folder / "offsets"), default=-1))
    for source, log in source_logs(folder):
        end = ends[source] if source < len(ends) else -1
        for entry in children(log):
            if entry.name.isdigit() and int(entry.name) > end and lists_files(entry):
                filesystem().remove(log / f".{entry.name}.crc")
                filesystem().remove(entry)


def _forget_unfinished(folder: Path) -> None:
    for log in (folder / "offsets", folder / "commits", *(log for _, log in source_logs(folder))):
        for entry in children(log):
            if _UNFINISHED.fullmatch(entry.name):
                filesystem().remove(entry)
