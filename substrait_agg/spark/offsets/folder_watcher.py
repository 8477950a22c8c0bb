"""Report the files that appear in a local folder, by inotify of Linux (inotify(7))."""

from __future__ import annotations

import ctypes
import os
import select
import struct
from collections.abc import Iterator
from pathlib import Path
from threading import Lock

_MOVED_TO = 0x80
_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK
_EVENT = struct.Struct("iIII")
"""Head of an event: the watch, the kind, a cookie, and the length of the name that follows."""
_READ_BYTES = 1 << 16


class FolderWatcher:
    """Reports the names of files that are renamed into a folder.

    Args:
        events: descriptor of the inotify instance, which this object closes.
    """

    def __init__(self, events: int) -> None:
        self._events = events
        self._ended, self._end = os.pipe2(os.O_CLOEXEC)
        self._lock = Lock()

    @staticmethod
    def of(folder: Path) -> FolderWatcher | None:
        """Return a watcher of a folder; None if the system has no inotify or refuses a watch."""
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            events = libc.inotify_init1(_FLAGS)
        except (OSError, AttributeError):
            return None
        if events < 0:
            return None
        if libc.inotify_add_watch(events, os.fsencode(folder), _MOVED_TO) < 0:
            os.close(events)
            return None
        return FolderWatcher(events)

    def names(self) -> Iterator[str]:
        """Yield the names of files as they appear, until `close`. Call it once."""
        poll = select.poll()
        for descriptor in (self._events, self._ended):
            poll.register(descriptor, select.POLLIN)
        try:
            while not any(descriptor == self._ended for descriptor, _ in poll.poll()):
                yield from _names(os.read(self._events, _READ_BYTES))
        finally:
            os.close(self._events)
            os.close(self._ended)

    def close(self) -> None:
        """End `names`: closing an end of a pipe wakes the reader of the other."""
        with self._lock:
            end, self._end = self._end, -1
        if end >= 0:
            os.close(end)


def _names(events: bytes) -> Iterator[str]:
    place = 0
    while place < len(events):
        *_, length = _EVENT.unpack_from(events, place)
        place += _EVENT.size + length
        yield os.fsdecode(events[place - length : place].rstrip(b"\0"))
