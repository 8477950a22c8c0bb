"""Pass the progress of a run to the metrics file, to the listener and to the web page."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from substrait_agg.metrics.files import MetricsFile
from substrait_agg.metrics.listener import Announcer
from substrait_agg.metrics.progress import Progress


class ProgressPage(Protocol):
    """A web page that shows a run while it lasts."""

    @property
    def address(self) -> str:
        """Return its URL."""

    def begin(self, progress: Callable[[], Progress]) -> None:
        """Show the run from now on."""

    def committed(self, progress: Progress) -> None:
        """Show a committed version."""

    def close(self) -> None:
        """End the page."""


class Observers:
    """The metrics file, the listener and the page of a run; a failure in one does not end the run.

    Used as a context manager, it ends both if the block raises.

    Args:
        metrics: path of the metrics file, or None.
        listener: an object with methods of `metrics.listener.RunListener`, or None.

    Attributes:
        page: the web page of the run, or None. It is closed at the end.

    Raises:
        UsageError: METRICS_NOT_WRITABLE.
    """

    def __init__(self, metrics: str | Path | None = None, listener: Any = None) -> None:
        self._file = None if metrics is None else MetricsFile(metrics)
        self._listener = listener
        self.page: ProgressPage | None = None
        self._announcer: Announcer | None = None
        self._progress: Callable[[], Progress] | None = None

    def begin(self, progress: Callable[[], Progress], busy: Callable[[], bool]) -> None:
        """Report the start of the run.

        Args:
            progress: returns the current progress.
            busy: returns whether a batch is running.
        """
        self._progress = progress
        if self.page is not None:
            self.page.begin(progress)
        if self._listener is not None:
            self._announcer = Announcer(self._listener, progress, busy, str(uuid.uuid4()))
            self._announcer.announce_start()

    def committed(self, progress: Progress) -> None:
        """Report a committed version."""
        if self.page is not None:
            self.page.committed(progress)
        if self._file is not None:
            self._file.committed(progress)
        if self._announcer is not None:
            self._announcer.committed(progress)

    def end(self, error: BaseException | None = None) -> None:
        """Report the end of the run and the exception that ended it; later calls do nothing."""
        file, self._file = self._file, None
        announcer, self._announcer = self._announcer, None
        page, self.page = self.page, None
        progress = Progress() if self._progress is None else self._progress()
        if page is not None:
            page.close()
        if file is not None:
            file.close(progress)
        if announcer is not None:
            announcer.announce_end(progress, error)

    def __enter__(self) -> Observers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self.end(error)
