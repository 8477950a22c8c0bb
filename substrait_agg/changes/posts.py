"""One output and where it stands: brought up to date with the view, from committed versions alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from substrait_agg.changes.evolved import first_version, given, is_same, refusal
from substrait_agg.changes.sinks import Sink
from substrait_agg.commit.fence import OPEN, Fence
from substrait_agg.commit.view import Evolved
from substrait_agg.errors import CommitConflict, StateRefused, UsageError
from substrait_agg.metrics.progress import SinkProgress

MOST_SHOWN = 5
"""A sink that shows every version and is further behind shows the newest: the state of old ones is not kept for ever."""

FIRST_RETRY, LONGEST_RETRY = 0.5, 60.0
"""Seconds until a sink that failed is tried again; twice as long after every failure that follows."""


class Readable(Protocol):
    """What outputs read of `substrait_agg.commit.View`."""

    @property
    def version(self) -> int:
        """The newest version."""

    def versions(self) -> list[int]:
        """All committed versions, ascending."""

    def to_arrow(self, version: int | None = None) -> Any:
        """The rows of a version, or of the newest."""

    def changes(self, since: int | None = None, until: int | None = None) -> Any:
        """Changes of the versions after `since` up to `until`."""

    def late(self, since: int | None = None, until: int | None = None) -> Any:
        """Rows that were late in those versions, by table."""

    def evolutions(self) -> list[Evolved]:
        """The versions with which another plan began, ascending."""

    def taken_back(self, version: int) -> Any:
        """What the view showed before such a version, as retractions."""


def _never() -> bool:
    return False


class Post:
    """A sink, how far it is, and how it fares. Used by one thread at a time.

    Args:
        sink: the output.
        name: what it is called in messages and metrics.
        since: the version that the checkpoint had when the run began, None for a new one: a sink that keeps no position
            starts after it.
        fence: tells whether this run still owns the checkpoint.
    """

    def __init__(self, sink: Sink, name: str, since: int | None, fence: Fence = OPEN) -> None:
        self.sink = sink
        self._fence = fence
        self.name = name
        self.error: Exception | None = None
        self._position = sink.position if sink.keeps_position else since
        self._shown = -1 if since is None else since
        self._begun = False
        self._follows = False
        self._streak = 0
        self._retry_at = 0.0
        self._delivered = self._failures = 0
        self._seconds = 0.0

    @property
    def version(self) -> int:
        """The last version that it has had, or was shown where it follows the view; -1 before the first."""
        if self._follows:
            return self._shown
        return -1 if self._position is None else self._position

    @property
    def stuck(self) -> bool:
        """Whether it failed in a way that trying again does not change."""
        return isinstance(self.error, StateRefused | UsageError)

    def wait_for(self) -> float | None:
        """Seconds until it may be tried again: 0 where it may now, None where that is of no use."""
        if self.stuck:
            return None
        return 0.0 if self.error is None else max(0.0, self._retry_at - time.monotonic())

    def progress(self, newest: int) -> SinkProgress:
        """How far it is, where the newest version is `newest`."""
        lag = max(0, newest - self.version)
        return SinkProgress(
            self.name, self.version, lag, self._delivered, self._failures, round(self._seconds, 6)
        )

    def attempt(self, work: Callable[[], None]) -> bool:
        """Do some of its work; an exception is kept, and decides when to try again.

        Returns:
            Whether this is the first failure after a success.

        Raises:
            BrokenPipeError: nobody reads the output any more.
            CommitConflict: another run has taken over, and the output is its.
        """
        began = time.monotonic()
        try:
            work()
        except (BrokenPipeError, CommitConflict):
            raise
        except Exception as error:  # noqa: BLE001 - whatever a sink raises, the others go on
            self.error = error
            self._failures += 1
            self._streak += 1
            wait = min(FIRST_RETRY * 2.0 ** min(self._streak - 1, 20), LONGEST_RETRY)
            self._retry_at = time.monotonic() + wait
            return self._streak == 1
        else:
            self.error, self._streak = None, 0
            return False
        finally:
            self._seconds += time.monotonic() - began

    def catch_up(
        self,
        view: Readable,
        *,
        show: bool = False,
        progress: Any = None,
        stopping: Callable[[], bool] = _never,
    ) -> None:
        """Deliver every version that it has not had, in order, and show the view if it shows every version.

        Args:
            view: the view.
            show: whether the run has no end, so that sinks which follow one are shown the view.
            progress: how far the run is, for sinks that tell it.
            stopping: asked between versions whether to stop.
        """
        shown = self.sink.takes_view and (
            self.sink.live or (show and self.sink.shows_every_version)
        )
        self._follows = shown and not self.sink.takes_changes
        evolved = {e.version: e for e in view.evolutions()}
        first = first_version(self.sink, evolved.values()) if self._position is None else None
        for version in view.versions():
            if self._position is not None and version <= self._position:
                continue
            if first is not None and version < first:
                continue
            self._fence.check()
            self._give(view, version, None if self._position is None else evolved.get(version))
            self._position = version
            self._delivered += 1
            if stopping():
                return
        if shown:
            self._show(view, progress)

    def _give(self, view: Readable, version: int, evolved: Evolved | None) -> None:
        """Deliver a version; `evolved` if another plan began with it, and the sink has had the one before."""
        since = self._position
        if evolved is not None and not (self.sink.changes_columns or is_same(self.sink, evolved)):
            raise refusal(self.name, evolved)
        if self.sink.takes_changes:
            tables = (
                [view.changes(since=since, until=version)]
                if evolved is None
                else given(view, version, same_columns=evolved.same_columns)
            )
            if len(tables) == 1:
                self.sink.deliver(tables[0], version)
            else:
                self.sink.replace(tables[0], tables[1], version)
        if self.sink.takes_late:
            since = version - 1 if since is None and version else since
            self.sink.deliver_late(view.late(since=since, until=version), version)

    def finish(
        self, view: Readable, progress: Any = None, stopping: Callable[[], bool] = _never
    ) -> None:
        """Deliver what is left, then hand over the view."""
        self.catch_up(view, progress=progress, stopping=stopping)
        if self.sink.takes_view and not stopping():
            self._fence.check()
            version = view.version
            self.sink.finish(view.to_arrow(version), version)
            self._shown = max(self._shown, version)

    def close(self) -> None:
        """Let go of the sink's files; what that fails with is kept, unless something else went wrong before.

        Raises:
            BrokenPipeError: nobody reads the output any more.
        """
        try:
            self.sink.close()
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001 - as in `attempt`
            self._failures += 1
            self.error = self.error or error

    def _show(self, view: Readable, progress: Any) -> None:
        newest = view.version
        versions = [v for v in view.versions() if v > self._shown]
        if not self.sink.each_version or len(versions) > MOST_SHOWN:
            versions = versions[-1:]
        # What is there when a run begins is shown at once.
        if not versions and not self._begun:
            versions = [newest]
        if versions and progress is not None:
            self.sink.note(progress)
        for version in versions:
            self._show_version(view, version, newest)
        self._begun = True

    def _show_version(self, view: Readable, version: int, newest: int) -> None:
        try:
            table = view.to_arrow(version)
        except StateRefused:
            # Its state was swept meanwhile; a newer version shows it all.
            self._fence.check()
            if version == newest == view.version:
                raise
        else:
            self._fence.check()
            self.sink.finish(table, version)
        self._shown = version
