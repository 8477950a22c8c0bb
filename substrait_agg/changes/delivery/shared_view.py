"""Share one view between all outputs of a run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

from substrait_agg.changes.delivery.output_cursor import ReadableView


class SharedView:
    """A thread-safe view; outputs that read the same versions at the same time share one table.

    Args:
        open_view: returns the view; called at the first use.
    """

    def __init__(self, open_view: Callable[[], ReadableView]) -> None:
        self._open_view = open_view
        self._reading = threading.Lock()
        # Weak references: a table stays in memory only while an output uses it.
        self._read: WeakValueDictionary[tuple[int | None, int | None], Any] = WeakValueDictionary()

    @cached_property
    def _view(self) -> ReadableView:
        return self._open_view()

    @property
    def version(self) -> int:
        """Return the newest version."""
        return self._view.version

    def versions(self) -> list[int]:
        """Return all committed versions, ascending."""
        return self._view.versions()

    def to_arrow(self, version: int | None = None) -> Any:
        """Return the rows of a version."""
        return self._view.to_arrow(version)

    def evolutions(self) -> Any:
        """Return the versions with which a new plan began."""
        return self._view.evolutions()

    def retractions(self, version: int) -> Any:
        """Return the rows of the view before a new plan began with `version`, as retractions."""
        return self._view.retractions(version)

    def late(self, since: int | None = None, until: int | None = None) -> Any:
        """Return the late rows of the versions after `since` up to `until`, by table."""
        return self._view.late(since, until)

    def changes(self, since: int | None = None, until: int | None = None) -> Any:
        """Return the changes of the versions after `since` up to `until`.

        Returns the same table as long as a caller keeps it.
        """
        with self._reading:
            table = self._read.get((since, until))
            if table is None:
                table = self._read[since, until] = self._view.changes(since, until)
            return table
