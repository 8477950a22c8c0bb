"""Spark's logs in a checkpoint on an object store: copies of the files that versions note, made before the commit.

Spark itself writes to a folder of the machine that the run is on, and another run begins with a folder made of these copies. A copy is named
by the file and its checksum, so that what a run saves of a batch that it does not come to commit is in nobody's way: a later
run may plan the same batch with other files.
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
"""The log, the number of the entry, what else its name has, the checksum."""


def saved_name(log: LogFile) -> str:
    """The name under which a log file is saved."""
    return f"{log.name.replace('/', '-')}-{log.crc:08x}"


def save(files: FolderFiles, log: LogFile, content: bytes) -> None:
    """Save a log file, unless it is there.

    Raises:
        OSError: it may not have been saved.
    """
    name = saved_name(log)
    try:
        saved = files.publish(name, content)
    except OutcomeUnknown as error:  # no version rests on it yet
        raise OSError(errno.EIO, str(error)) from error
    if not saved:
        raise FileExistsError(errno.EEXIST, "there is another file with this checksum", name)


def load(files: FolderFiles, log: LogFile) -> bytes:
    """A log file as it was saved.

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
        raise damaged(shown, "it is not what it was when its version was made")
    return content


def unneeded(names: Iterable[str], first: Snapshot) -> Iterator[str]:
    """Names of saved files that are not needed from a version on.

    Logs only grow, so later versions name entries from the same on or from later ones. What a run that is about to commit has saved is
    among those.
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
    """The log that a saved file is of, and its number there."""
    found = SAVED.fullmatch(name)
    return (found.group(1), int(found.group(2))) if found else None
