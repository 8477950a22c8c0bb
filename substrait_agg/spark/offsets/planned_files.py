"""Check the files that Spark planned for a batch before the batch is computed.

Spark records the files of a batch in its checkpoint, lists them again when it computes the batch,
and silently skips files that have been deleted since. If a later run computes the batch, its rows
would be lost without an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession

from substrait_agg.commit.documents.envelope import damaged
from substrait_agg.commit.log.query_logs import (
    COMPACT,
    Offsets,
    batches,
    children,
    lists_files,
    read_entries,
    read_offsets,
    source_logs,
)
from substrait_agg.errors import InputRefused
from substrait_agg.files.filesystem import filesystem
from substrait_agg.spark.sources.files import (
    exists,
    files_unread,
    is_local,
    names_wildcard,
    split,
)

_UNFINISHED = re.compile(r"\..+\.tmp(?:\.crc)?")
"""Names of log files that Spark has not finished writing."""


def check_planned_files(
    spark: SparkSession,
    planned: Sequence[PlannedSource],
    listed: Callable[[], Collection[str]],
) -> None:
    """Check that every file planned for a micro-batch exists.

    Args:
        spark: the session that accesses the paths.
        planned: the files of the micro-batch, by source.
        listed: returns the files that Spark has listed for the batch. For each other file of a
            store, the check is one more request.

    Raises:
        InputRefused: SOURCE_FILE_GONE: a file is missing; the error names the first.
    """
    paths = [file for source in planned for file in source.files or ()]
    present = frozenset() if all(map(is_local, paths)) else listed()
    for path in paths:
        if path not in present and not exists(spark, path):
            raise InputRefused(
                "SOURCE_FILE_GONE",
                "a file of the current batch no longer exists",
                help="restore the file and run again; nothing of the batch was committed",
                path=path,
            )


def check_folders(planned: Sequence[PlannedSource], folders: Sequence[str]) -> None:
    """Check that Spark reads all files planned for a micro-batch.

    Spark takes the partition columns from the files of the batch. If only some of them are in
    partition folders, it drops the rows of the others.

    Args:
        planned: the files of the micro-batch, by source.
        folders: the paths of the folders that the sources read.

    Raises:
        InputRefused: SOURCE_FILES_UNREAD.
    """
    for source in planned:
        files = [unquote(urlsplit(uri).path) for uri in source.files or ()]
        for folder in folders:
            missed = sorted(split([(folder, files)]).missed)
            if missed and all(file.startswith(f"{folder}/") for file in files):
                raise files_unread("the current batch", missed)


@dataclass(frozen=True, slots=True)
class PlannedSource:
    """The files that Spark has planned to read from a source in a micro-batch.

    Attributes:
        empty: whether it is nothing.
        files: URIs of the files; None if the source is not one of files.
    """

    empty: bool
    files: tuple[str, ...] | None


def spark_repeats_files(planned: Sequence[PlannedSource]) -> bool:
    """Return whether Spark's stream of files reads files of a batch more than once.

    For each file with a wildcard in its path, Spark 4 reads all files of its source in the batch.
    """
    batches = (source.files or () for source in planned)
    return any(len(files) > 1 and any(map(names_wildcard, files)) for files in batches)


def wildcard_refused(planned: Sequence[PlannedSource]) -> InputRefused:
    """Return the error for a batch with such files that nothing but the stream can read."""
    paths = [file for source in planned for file in source.files or () if names_wildcard(file)]
    return InputRefused(
        "SOURCE_FILE_NAME",
        "Spark would read the files of the batch more than once, because the name of a file has a wildcard",
        help="give all sources as SPECs of files, with accept_source_change where it was a DataFrame; such files "
        "are read once. Nothing of the batch was committed",
        path=paths[0],
    )


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """What Spark has planned for a micro-batch.

    Attributes:
        instant: when, in microseconds since 1970; None if unknown. It stays the same if the batch
            is computed again.
        sources: the files of each source; nothing if Spark has not planned the batch.
    """

    instant: int | None
    sources: tuple[PlannedSource, ...]


def planned_batch(folder: Path, batch: int) -> PlannedBatch:
    """Return what Spark has planned for a micro-batch.

    Raises:
        StateRefused: STATE_DAMAGED: a log cannot be read. Deleted files of the batch would not be
            noticed.
    """
    try:
        now, before = read_offsets(folder, batch), read_offsets(folder, batch - 1)
        if now is None:
            return PlannedBatch(None, ())
        return PlannedBatch(_instant(now), tuple(_planned_sources(folder, now, before)))
    except (OSError, ValueError) as error:
        raise damaged("spark", f"the log of batch {batch} cannot be read ({error})") from error


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """A file in Spark's log of a source, with its modification time in milliseconds since 1970."""

    uri: str
    modified: int


def sources_of(logged: Iterable[Sequence[LoggedFile]]) -> tuple[PlannedSource, ...]:
    """Return the sources with these files."""
    return tuple(PlannedSource(not files, tuple(f.uri for f in files)) for files in logged)


def logged_files(folder: Path, batch: int) -> tuple[tuple[LoggedFile, ...], ...] | None:
    """Return the files that Spark has planned up to a micro-batch with their times, by source.

    Returns:
        None if a source is not one of files, if its log does not go back to its first file, or if
        Spark has not planned the batch.
    """
    try:
        now = read_offsets(folder, batch)
        if now is None:
            return None
        ends = [now.log_entry(i) for i in range(len(now.sources))]
        logs = (folder / "sources" / str(source) for source in range(len(ends)))
        files = [
            None if e is None else _files_until(log, e) for log, e in zip(logs, ends, strict=True)
        ]
    except (OSError, ValueError, KeyError):
        return None
    planned = tuple(part for part in files if part is not None)
    return planned if len(planned) == len(files) else None


def _files_until(log: Path, end: int) -> tuple[LoggedFile, ...] | None:
    """Return all files in a log up to an entry; None if entries are missing."""
    numbers = range(end, -1, -1)
    names = frozenset(path.name for path in children(log))
    base = next((n for n in numbers if f"{n}{COMPACT}" in names), -1)
    entries = [f"{base}{COMPACT}"] if base >= 0 else []
    later = [str(n) for n in range(base + 1, end + 1)]
    if not names.issuperset(later):
        return None
    return tuple(
        LoggedFile(e["path"], int(e["timestamp"]))
        for name in (*entries, *later)
        for e in read_entries(log / name)[1]
    )


def _planned_sources(folder: Path, now: Offsets, before: Offsets | None) -> Iterator[PlannedSource]:
    starts = () if before is None else before.sources
    for source, end in enumerate(now.sources):
        empty = end == (starts[source] if source < len(starts) else None)
        last = now.log_entry(source)
        first = -1 if before is None else before.log_entry(source)
        files = None
        if not empty and first is not None and last is not None:
            if last < first:
                message = f"its offset of source {source} is {last}, and that of the batch before is {first}"
                raise ValueError(message)
            files = tuple(_files_between(folder / "sources" / str(source), first, last))
        yield PlannedSource(empty, files)


def offsets_of(folder: Path, batch: int) -> list[int]:
    """Return the offset of each source in Spark's file log after a batch; -1 if it has none.

    The result is empty if the log file of the batch is damaged. Spark itself refuses such a file.
    """
    try:
        noted = read_offsets(folder, batch)
    except ValueError:
        return []
    ends = () if noted is None else (noted.log_entry(i) for i in range(len(noted.sources)))
    return [-1 if end is None else end for end in ends]


def _files_between(log: Path, start: int, end: int) -> Iterator[str]:
    for number in range(start + 1, end + 1):
        names = (log / str(number), log / f"{number}{COMPACT}")
        present = [entries for entries in names if filesystem().exists(entries)]
        if not present:
            message = f"{names[0]} is missing"
            raise ValueError(message)
        for entries in present:
            files = read_entries(entries)[1]
            others = [e for e in files if e["batchId"] != number]
            if others and entries.name != f"{number}{COMPACT}":
                message = f"{entries} has a file of entry {others[0]['batchId']}"
                raise ValueError(message)
            yield from (e["path"] for e in files if e["batchId"] == number)


def planned_at(folder: Path, batch: int) -> int | None:
    """Return when Spark planned a micro-batch, as `PlannedBatch.instant`."""
    try:
        return _instant(read_offsets(folder, batch))
    except (OSError, ValueError):
        return None


def _instant(offsets: Offsets | None) -> int | None:
    return None if offsets is None or offsets.planned is None else offsets.planned * 1000


def forget_unplanned(folder: Path) -> None:
    """Remove log entries of files that Spark has seen but not planned for a batch.

    A kill between the write of the file log and the write of the offsets leaves such entries. Spark
    would put their files into one batch with the next files. The batches would then differ from
    those of a run that was not killed. Only the newest entry of a source's log can be unplanned. A
    compacted entry stays, because it also contains the older entries.

    The function also removes unfinished log files. Spark refuses to start its first batch if it
    finds one.
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
