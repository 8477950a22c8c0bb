"""Read Spark's own logs of a streaming query.

The logs record the planned and finished batches, and the files that each source has read. A folder
has ``metadata`` (the id of the query), ``offsets/N`` (the position of each source when batch N was
planned), ``commits/N`` (batch N is done), and a folder per source. The folder of a file source is a
log of its own: entry K lists the files of the K-th addition, and every tenth entry (``K.compact``)
lists all files up to then. A file may have a checksum beside it, ``.NAME.crc``. Spark keeps about
the newest hundred batches.
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
    """The offsets that Spark recorded when it planned a batch.

    Attributes:
        batch: id of the batch.
        sources: per source its position as written; None if it had no data yet.
        planned: time of planning, in milliseconds since 1970; None if it is not recorded.
    """

    batch: int
    sources: tuple[str | None, ...]
    planned: int | None = None

    def log_entry(self, source: int) -> int | None:
        """Return the last entry of a file source's log that was planned by then.

        Returns:
            The number of the entry, -1 for none. None if the source is of another kind.
        """
        text = self.sources[source] if source < len(self.sources) else None
        if text is None:
            return -1
        try:
            offset = _json(text)
        except ValueError:
            return None
        has_entry = isinstance(offset, dict) and "logOffset" in offset
        return int(offset["logOffset"]) if has_entry else None


def query_id(folder: Path) -> str | None:
    """Return the id of the query, or None if it cannot be read."""
    try:
        id_ = _json(filesystem().read(folder / METADATA))["id"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(id_)


def check_recorded_logs(folder: Path, logs: Iterable[LogFile]) -> None:
    """Check that logs are equal to those that a version records.

    Raises:
        StateRefused: STATE_DAMAGED if they are not.
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
            raise damaged(shown, "its checksum is not the one that its version states")


def _json(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def batches(folder: Path) -> list[int]:
    """Return the ids of the batches recorded in ``offsets`` or ``commits``, ascending."""
    return sorted(int(p.name) for p in children(folder) if _is_number(p.name))


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit()


def read_offsets(folder: Path, batch: int) -> Offsets | None:
    """Read the offsets of a batch. Return None if there are none.

    Raises:
        ValueError: the file is damaged.
    """
    path = folder / "offsets" / str(batch)
    if not filesystem().exists(path):
        return None
    lines = _lines(path)
    if len(lines) < 2 or not lines[0].startswith("v"):
        message = f"{path} is not an offset log of Spark"
        raise ValueError(message)
    sources = tuple(None if line == "-" else line for line in lines[2:])
    return Offsets(batch, sources, _planned(_json(lines[1])))


def _planned(metadata: Any) -> int | None:
    millis = metadata.get("batchTimestampMs") if isinstance(metadata, dict) else None
    return millis if isinstance(millis, int) else None


def children(folder: Path) -> list[Path]:
    """Return the paths in a folder. A missing folder has none."""
    return [folder / name for name in filesystem().names(folder, folders=True)]


def source_logs(folder: Path) -> Iterator[tuple[int, Path]]:
    """Yield the ordinal and the folder of every source."""
    for path in children(folder / "sources"):
        if _is_number(path.name):
            yield int(path.name), path


def entry_number(path: Path) -> int | None:
    """Return the number of a log entry, compacted or not. Return None for other files."""
    name = path.name.removesuffix(COMPACT)
    return int(name) if _is_number(name) else None


def read_entries(path: Path) -> tuple[str, list[dict[str, Any]]]:
    """Read the version line and the file entries of an entry of a file source's log.

    Raises:
        ValueError: the file is something else.
    """
    head, *lines = _lines(path)
    entries = [_json(line) for line in lines]
    are_files = all(isinstance(e, dict) and {"path", "batchId"} <= e.keys() for e in entries)
    if not are_files or not head.startswith("v"):
        message = f"{path} is not a file log of Spark"
        raise ValueError(message)
    return head, entries


def read_entry_lines(path: Path) -> tuple[str, list[tuple[int, str]]]:
    """Read an entry of a file source's log as text.

    Returns:
        The version line, and per file the number of its entry and its line.

    Raises:
        ValueError: as `read_entries`.
    """
    _, entries = read_entries(path)
    head, *lines = _lines(path)
    return head, [(int(e["batchId"]), line) for e, line in zip(entries, lines, strict=True)]


def lists_files(path: Path) -> bool:
    """Return whether a path is an entry of a file source's log.

    Other kinds of sources write other files under such names.
    """
    try:
        return bool(read_entries(path)[1])
    except ValueError:
        return False


def _lines(path: Path) -> list[str]:
    return filesystem().read(path).decode().splitlines()
