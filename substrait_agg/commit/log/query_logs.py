"""Spark's own logs of a streaming query: which batches it has planned and done, which files it has seen.

A folder has ``metadata`` (the query's id), ``offsets/N`` (where each source was when batch N had been planned), ``commits/N`` (batch N is
done), and per source a folder. That of files has a log of its own: entry K lists the files seen K-th, every tenth entry
(``K.compact``) all files up to then. Beside each file there may be a checksum, ``.NAME.crc``. Only the newest hundred or so
batches are kept.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from substrait_agg.commit.documents.envelope import damaged
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.snapshot import LogFile
from substrait_agg.files.filesystem import filesystem

METADATA = "metadata"
COMPACT = ".compact"


@dataclass(frozen=True, slots=True)
class Offsets:
    """What Spark noted of a batch when it planned it.

    Attributes:
        batch: its id.
        sources: per source where it was, as written; None where it had nothing yet.
        planned: when that was, in milliseconds since 1970; None where it is not said.
    """

    batch: int
    sources: tuple[str | None, ...]
    planned: int | None = None

    def log_entry(self, source: int) -> int | None:
        """The last entry of a file source's log that was planned by then, -1 for none; None of another kind of source."""
        text = self.sources[source] if source < len(self.sources) else None
        if text is None:
            return -1
        try:
            found = _json(text)
        except ValueError:
            return None
        known = isinstance(found, dict) and "logOffset" in found
        return int(found["logOffset"]) if known else None


def query_id(folder: Path) -> str | None:
    """The id of the query, None where it cannot be read."""
    try:
        found = _json(filesystem().read(folder / METADATA))["id"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(found)


def check_noted(folder: Path, logs: Iterable[LogFile]) -> None:
    """Refuse logs that are not those that a version notes.

    Raises:
        StateRefused: STATE_DAMAGED.
    """
    for log in logs:
        path, shown = folder / log.name, f"spark/{log.name}"
        try:
            crc = zlib.crc32(FolderFiles(path.parent).read(path.name))
        except FileNotFoundError as error:
            raise damaged(shown, "it is missing") from error
        except OSError as error:
            raise damaged(shown, f"it cannot be read ({error})") from error
        if crc != log.crc:
            raise damaged(shown, "it is not what it was when its version was made")


def _json(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def batches(folder: Path) -> list[int]:
    """Ids of the batches noted in ``offsets`` or ``commits``, ascending."""
    return sorted(int(p.name) for p in children(folder) if _is_number(p.name))


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit()


def read_offsets(folder: Path, batch: int) -> Offsets | None:
    """What was noted of a batch; None where nothing is.

    Raises:
        ValueError: the file is damaged.
    """
    path = folder / "offsets" / str(batch)
    if not filesystem().exists(path):
        return None
    lines = _lines(path)
    if len(lines) < 2 or not lines[0].startswith("v"):
        message = f"{path} is no offset log of Spark"
        raise ValueError(message)
    sources = tuple(None if line == "-" else line for line in lines[2:])
    return Offsets(batch, sources, _planned(_json(lines[1])))


def _planned(metadata: Any) -> int | None:
    found = metadata.get("batchTimestampMs") if isinstance(metadata, dict) else None
    return found if isinstance(found, int) else None


def children(folder: Path) -> list[Path]:
    """What is in a folder; nothing where it is not there."""
    return [folder / name for name in filesystem().names(folder, folders=True)]


def source_logs(folder: Path) -> Iterator[tuple[int, Path]]:
    """Ordinal and folder of every source."""
    for path in children(folder / "sources"):
        if _is_number(path.name):
            yield int(path.name), path


def entry_number(path: Path) -> int | None:
    """The number of a log entry, compacted or not; None of other files."""
    name = path.name.removesuffix(COMPACT)
    return int(name) if _is_number(name) else None


def read_entries(path: Path) -> tuple[str, list[dict[str, Any]]]:
    """Version line and file entries of an entry of a file source's log.

    Raises:
        ValueError: it is something else.
    """
    head, *lines = _lines(path)
    entries = [_json(line) for line in lines]
    if not all(isinstance(e, dict) and {"path", "batchId"} <= e.keys() for e in entries):
        message = f"{path} is no log of files"
        raise ValueError(message)
    return head, entries


def read_entry_lines(path: Path) -> tuple[str, list[tuple[int, str]]]:
    """The same as it is written: version line, and number of its entry and text of every file.

    Raises:
        ValueError: as `read_entries`.
    """
    _, entries = read_entries(path)
    head, *lines = _lines(path)
    return head, [(int(e["batchId"]), line) for e, line in zip(entries, lines, strict=True)]


def lists_files(path: Path) -> bool:
    """Whether this is an entry of a file source's log; other sources keep notes of their own under such names."""
    try:
        return bool(read_entries(path)[1])
    except ValueError:
        return False


def _lines(path: Path) -> list[str]:
    return filesystem().read(path).decode().splitlines()
