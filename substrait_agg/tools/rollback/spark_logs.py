"""Cut Spark's logs back to a batch, so that the query continues after it.

This removes the records of later batches, and the entries of the sources' own logs for files read
later. The next run plans the following batch again. File sources find the files that are no longer
in the log, and other sources continue from the offsets of the last remaining batch.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from substrait_agg.commit.documents.snapshot import LogFile
from substrait_agg.commit.log.query_logs import (
    COMPACT,
    Offsets,
    batches,
    entry_number,
    lists_files,
    read_entries,
    read_entry_lines,
    read_offsets,
    source_logs,
)
from substrait_agg.errors import StateRefused
from substrait_agg.files.atomic_files import sync_folder, write_atomically
from substrait_agg.tools.checks.spark_logs import TOGETHER


@dataclass(frozen=True, slots=True)
class LogCut:
    """The changes to make in Spark's folder.

    Attributes:
        write: files to write, with their content, before any deletion.
        delete: files to delete, in order.
    """

    write: tuple[tuple[Path, str], ...]
    delete: tuple[Path, ...]

    def apply(self) -> None:
        """Make the changes. The call can be repeated."""
        for path, content in self.write:
            _checksum(path).unlink(missing_ok=True)
            with write_atomically(path) as file:
                file.write(content.encode())
        for path in self.delete:
            _checksum(path).unlink(missing_ok=True)
            path.unlink(missing_ok=True)
        for folder in {path.parent for path in self.delete}:
            sync_folder(folder)


def cut_behind(folder: Path, batch: int, noted: Sequence[LogFile] = ()) -> LogCut:
    """Return the changes that remove all records of batches after `batch`; -1: of all batches.

    Args:
        folder: Spark's own.
        batch: the last that stays.
        noted: the logs that the version of the batch records. They must exist unchanged afterwards,
            because runs compare them.

    Raises:
        StateRefused: OFFSETS_LOST if Spark's logs do not reach back that far, or are damaged.
    """
    try:
        return _cut_behind(folder, batch, noted)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _lost(folder, f"the logs of Spark are damaged: {error}") from error


def _cut_behind(folder: Path, batch: int, noted: Sequence[LogFile]) -> LogCut:
    offsets = read_offsets(folder, batch) if batch >= 0 else Offsets(-1, ())
    if offsets is None:
        raise _lost(folder, f"the log of Spark no longer has an entry for batch {batch}")
    write: list[tuple[Path, str]] = []
    delete: list[Path] = []
    for source, log in source_logs(folder):
        end = offsets.log_entry(source)
        entries = _entries(log)
        if end is None or not any(lists_files(entry.path) for entry in entries):
            continue
        recorded = {
            Path(file.name).name: file.crc
            for file in noted
            if file.name.startswith(f"sources/{source}/")
        }
        written, unneeded = (
            (_with_restored_entries(log, entries, recorded), [])
            if recorded
            else _rebuilt(log, entries, end)
        )
        write += written
        delete += [entry.path for entry in entries if entry.number > end] + unneeded
    # Commits before offsets: Spark reports a batch that is done but not planned as an error.
    for name in ("commits", "offsets"):
        later = [n for n in batches(folder / name) if n > batch]
        delete += [folder / name / str(n) for n in reversed(later)]
    return LogCut(tuple(write), tuple(delete))


@dataclass(frozen=True, slots=True, order=True)
class _Entry:
    """An entry of a source's log. A compacted one has all files up to its number."""

    number: int
    compact: bool
    path: Path


def _entries(log: Path) -> list[_Entry]:
    """Return the entries in order of their numbers."""
    numbered = [(entry_number(path), path) for path in log.iterdir()]
    return sorted(_Entry(n, p.suffix == ".compact", p) for n, p in numbered if n is not None)


def _with_restored_entries(
    log: Path, entries: list[_Entry], noted: Mapping[str, int]
) -> list[tuple[Path, str]]:
    """Restore the entries that a version records and Spark has deleted since.

    Compacted entries have their lines unchanged.
    """
    missing = sorted(noted.keys() - {e.path.name for e in entries})
    if not missing:
        return []
    numbers = {name: entry_number(log / name) or 0 for name in missing}
    later = [e for e in entries if e.compact and e.number > max(numbers.values())]
    if not later:
        raise _lost(log, f"entry {missing[0]} of the file log of a source is missing")
    head, lines = read_entry_lines(later[0].path)
    restored = []
    for name, number in numbers.items():
        whole = name.endswith(COMPACT)
        deleted_lines = [text for n, text in lines if n == number or (whole and n < number)]
        content = "\n".join([head, *deleted_lines])
        if zlib.crc32(content.encode()) != noted[name]:
            raise _lost(log, f"entry {name} of the file log of a source cannot be rebuilt")
        restored.append((log / name, content))
    return restored


def _rebuilt(
    log: Path, entries: list[_Entry], end: int
) -> tuple[list[tuple[Path, str]], list[Path]]:
    """Return what to write and to delete so that Spark finds all files up to `end`.

    Spark starts to read at the last compacted entry. It computes the interval between compacted
    entries from the last two; a single one fits any interval. So if entries are missing, one
    compacted entry replaces all.
    """
    compacted = [e for e in entries if e.compact and e.number <= end]
    base = compacted[-1].number if compacted else -1
    numbers = {e.number for e in entries if not e.compact}
    if numbers >= set(range(base + 1, end + 1)):
        return [], [] if _regular(compacted) else [e.path for e in compacted[:-1]]
    later = [e for e in entries if e.compact and e.number > end]
    if not later:
        raise _lost(
            log, f"entries of the file log of a source are missing between {base} and {end}"
        )
    head, whole = read_entries(later[0].path)
    lines = [e for e in whole if int(e["batchId"]) <= end]
    return [(log / f"{end}.compact", _text(head, lines))], [e.path for e in compacted]


def _regular(compacted: list[_Entry]) -> bool:
    """Return whether Spark finds the last of these from the distance of the last two."""
    if len(compacted) < 2:
        return True
    before, last = (entry.number for entry in compacted[-2:])
    return (last + 1) % (last - before) == 0


def _text(head: str, entries: list[dict[str, Any]]) -> str:
    return "\n".join([head, *(json.dumps(e, separators=(",", ":")) for e in entries)])


def _checksum(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")


def _lost(folder: Path, message: str) -> StateRefused:
    help = f"roll back to a newer version; otherwise {TOGETHER}"
    return StateRefused("OFFSETS_LOST", message, help=help, path=str(folder))
