"""One view for all outputs of a run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

from substrait_agg.changes.posts import Readable


class SharedView:
    """A view of which outputs that are at the same version read the changes once; used by several threads.

    Args:
        open_view: gives the view; called when it is first needed.
    """

    def __init__(self, open_view: Callable[[], Readable]) -> None:
        self._open_view = open_view
        self._reading = threading.Lock()
        # What no output holds any more is read again: nothing stays in memory between versions.
        self._read: WeakValueDictionary[tuple[int | None, int | None], Any] = WeakValueDictionary()

    @cached_property
    def _view(self) -> Readable:
        return self._open_view()

    @property
    def version(self) -> int:
        """The newest version."""
        return self._view.version

    def versions(self) -> list[int]:
        """All committed versions, ascending."""
        return self._view.versions()

    def to_arrow(self, version: int | None = None) -> Any:
        """The rows of a version."""
        return self._view.to_arrow(version)

    def evolutions(self) -> Any:
        """The versions with which another plan began."""
        return self._view.evolutions()

    def taken_back(self, version: int) -> Any:
        """What the view showed before such a version, as retractions."""
        return self._view.taken_back(version)

    def late(self, since: int | None = None, until: int | None = None) -> Any:
        """Rows that were late in those versions, by table."""
        return self._view.late(since, until)

    def changes(self, since: int | None = None, until: int | None = None) -> Any:
        """Changes of the versions after `since` up to `until`; the same table as long as somebody holds it."""
        with self._reading:
            table = self._read.get((since, until))
            if table is None:
                table = self._read[since, until] = self._view.changes(since, until)
            return table
