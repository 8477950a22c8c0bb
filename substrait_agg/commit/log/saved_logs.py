"""Copies of Spark's logs in a checkpoint on an object store.

Spark writes its logs to a local folder of the driver. Before a commit, the run copies the files
that the version records to the store. Another run starts with a local folder made of these copies.
The name of a copy has the name and the checksum of the file. A batch that was saved but not
committed therefore does not collide with a later plan of the same batch with other files.
"""

from __future__ import annotations

import errno
import re
import zlib
from collections.abc import Iterable, Iterator

from substrait_agg.commit.documents.envelope import damaged, unreadable
from substrait_agg.commit.documents.files import FolderFiles, OutcomeUnknown
from substrait_agg.commit.documents.snapshot import LogFile, Snapshot

SAVED = re.compile(r"([A-Za-z0-9_.-]+)-(\d+)((?:[A-Za-z_.][A-Za-z0-9_.]*)?)-([0-9a-f]{8})")
"""Groups: the log, the number of the entry, the rest of its name, the checksum."""


def saved_name(log: LogFile) -> str:
    """Return the name under which a log file is saved."""
    return f"{log.name.replace('/', '-')}-{log.crc:08x}"


def save(files: FolderFiles, log: LogFile, content: bytes) -> None:
    """Save a log file, unless it exists.

    Raises:
        OSError: it may not have been saved.
    """
    name = saved_name(log)
    try:
        saved = files.publish(name, content)
    except OutcomeUnknown as error:  # no version depends on the file yet
        raise OSError(errno.EIO, str(error)) from error
    if not saved:
        raise FileExistsError(errno.EEXIST, "a different file with this checksum exists", name)


def load(files: FolderFiles, log: LogFile) -> bytes:
    """Return the content of a saved log file.

    Raises:
        StateRefused: STATE_DAMAGED.
    """
    shown = f"spark/{saved_name(log)}"
    try:
        content = files.read(saved_name(log))
    except FileNotFoundError as error:
        raise damaged(shown, "it is missing") from error
    except OSError as error:
        raise unreadable(shown, error) from error
    if zlib.crc32(content) != log.crc:
        raise damaged(shown, "its checksum is not the one that its version states")
    return content


def unneeded(names: Iterable[str], first: Snapshot) -> Iterator[str]:
    """Yield the names of saved files that no version from `first` on needs.

    Logs only grow, so later versions record the same entries or later ones. The files that a run
    has saved for its next commit are among those.
    """
    oldest: dict[str, int] = {}
    for log in first.logs:
        if place := _place(saved_name(log)):
            oldest[place[0]] = min(place[1], oldest.get(place[0], place[1]))
    for name in names:
        place = _place(name)
        if place and place[1] < oldest.get(place[0], 0):
            yield name


def _place(name: str) -> tuple[str, int] | None:
    """Return the log of a saved file and the number of its entry."""
    match = SAVED.fullmatch(name)
    return (match.group(1), int(match.group(2))) if match else None
