"""Cutting Spark's logs back, so that the query goes on behind a batch as if it had never gone further.

The notes of later batches go, and what the sources' own logs say of files seen later. The next run plans the following batch anew: files
that are not in the log any more are found again, and other sources go on from the offsets of the batch that stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from pathlib import Path
from typing import Any

from substrait_agg.errors import StateRefused
from substrait_agg.published import published
from substrait_agg.tools.spark_logs import (
    TOGETHER,
    Offsets,
    batches,
    entry_number,
    read_entries,
    read_offsets,
    source_logs,
)

INTERVAL = 10
"""Every so many entries Spark writes a compacted one, unless it was told otherwise."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What is to be done to Spark's folder.

    Attributes:
        write: files to write, with their content, before anything is deleted.
        delete: files to delete, in order.
    """

    write: tuple[tuple[Path, str], ...]
    delete: tuple[Path, ...]

    def apply(self) -> None:
        """Do it; what is done already is no matter."""
        for path, content in self.write:
            _checksum(path).unlink(missing_ok=True)
            with published(path) as file:
                file.write(content.encode())
        for path in self.delete:
            _checksum(path).unlink(missing_ok=True)
            path.unlink(missing_ok=True)


def cut_behind(folder: Path, batch: int) -> Cut:
    """What is to be done so that nothing is noted of batches behind `batch`; -1 stands for none at all.

    Raises:
        StateRefused: OFFSETS_LOST where Spark's notes do not reach back that far, or are damaged.
    """
    try:
        return _cut_behind(folder, batch)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _lost(folder, f"Spark's notes are damaged: {error}") from error


def _cut_behind(folder: Path, batch: int) -> Cut:
    offsets = read_offsets(folder, batch) if batch >= 0 else Offsets(-1, ())
    if offsets is None:
        raise _lost(folder, f"Spark keeps no note of batch {batch} any more")
    write: list[tuple[Path, str]] = []
    delete: list[Path] = []
    for source, log in source_logs(folder):
        end = offsets.log_entry(source)
        entries = _entries(log)
        if end is None or not any(map(_lists_files, entries.values())):
            continue
        write += _rebuilt(log, entries, end)
        delete += [path for number, path in sorted(entries.items()) if number > end]
    # Commits before offsets: a batch that is done and not planned would be an error to Spark.
    for name in ("commits", "offsets"):
        later = [n for n in batches(folder / name) if n > batch]
        delete += [folder / name / str(n) for n in reversed(later)]
    return Cut(tuple(write), tuple(delete))


def _entries(log: Path) -> dict[float, Path]:
    """Entries by number; compacted ones behind those of the same number."""
    found: dict[float, Path] = {}
    for path in log.iterdir():
        number = entry_number(path)
        if number is not None:
            found[number + (0.5 if path.name.endswith(".compact") else 0)] = path
    return {int(n) if path.suffix != ".compact" else n: path for n, path in found.items()}


def _lists_files(path: Path) -> bool:
    try:
        return bool(read_entries(path)[1])
    except (ValueError, IndexError):
        return False


def _rebuilt(log: Path, entries: dict[float, Path], end: int) -> Iterator[tuple[Path, str]]:
    """Entries that Spark reads to know the files up to `end`, as far as they are not there any more."""
    compacted = sorted(int(n) for n, path in entries.items() if path.suffix == ".compact")
    interval = gcd(*(n + 1 for n in compacted)) if compacted else INTERVAL
    base = (end + 1) // interval * interval - 1
    wanted = [(base, log / f"{base}.compact")] if base >= 0 else []
    wanted += [(n, log / str(n)) for n in range(base + 1, end + 1)]
    missing = [(n, path) for n, path in wanted if not path.is_file()]
    if not missing:
        return
    later = [n for n in compacted if n > end]
    if not later:
        raise _lost(log, f"entry {missing[0][1].name} of a source's log of files is missing")
    head, whole = read_entries(log / f"{later[0]}.compact")
    for number, path in missing:
        up_to = [e for e in whole if int(e["batchId"]) <= number]
        chosen = up_to if number == base else [e for e in up_to if int(e["batchId"]) == number]
        yield path, _text(head, chosen)


def _text(head: str, entries: list[dict[str, Any]]) -> str:
    return "\n".join([head, *(json.dumps(e, separators=(",", ":")) for e in entries)])


def _checksum(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")


def _lost(folder: Path, message: str) -> StateRefused:
    help = f"name a newer version; otherwise {TOGETHER}"
    return StateRefused("OFFSETS_LOST", message, help=help, path=str(folder))
