"""Bring one output up to date with the view, using committed versions only, and track its position."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa

from substrait_agg.changes.delivery.evolved import first_version, is_same, refusal
from substrait_agg.changes.outputs.sinks import Sink, Table
from substrait_agg.commit.log.fence import NO_FENCE, Fence
from substrait_agg.commit.tasks.consolidate import consolidate
from substrait_agg.commit.view.schema import PlanChange
from substrait_agg.errors import CommitConflict, StateRefused, UsageError
from substrait_agg.metrics.progress import SinkProgress

MOST_SHOWN = 5
"""Versions of lag above which a sink that shows every version shows only the newest.

The state of old versions is deleted after a while.
"""

FIRST_RETRY, LONGEST_RETRY = 0.5, 60.0
"""Seconds until a failed sink is tried again; doubled after every further failure."""


class ReadableView(Protocol):
    """The methods of `substrait_agg.commit.View` that outputs read."""

    @property
    def version(self) -> int:
        """Return the newest version."""

    def versions(self) -> list[int]:
        """Return all committed versions, ascending."""

    def to_arrow(self, version: int | None = None) -> Any:
        """Return the rows of a version, or of the newest."""

    def changes(self, since: int | None = None, until: int | None = None) -> Any:
        """Return the changes of the versions after `since` up to `until`."""

    def late(self, since: int | None = None, until: int | None = None) -> Any:
        """Return the late rows of the versions after `since` up to `until`, by table."""

    def evolutions(self) -> list[PlanChange]:
        """Return the versions with which a new plan began, ascending."""

    def retractions(self, version: int) -> Any:
        """Return the rows of the view before a new plan began with `version`, as retractions."""


def tables_to_deliver(view: ReadableView, version: int, *, same_columns: bool) -> list[Table]:
    """Return the tables to deliver for the version with which a new plan began.

    The output must have received the previous version.

    Args:
        view: the view.
        version: the version with which the new plan began.
        same_columns: whether both plans have the same columns; the result is then one consolidated
            table.
    """
    back, new = view.retractions(version), view.changes(until=version)
    if not same_columns:
        return [back, new]
    both = pa.concat_tables([back.replace_schema_metadata(new.schema.metadata), new])
    return [consolidate(both.combine_chunks()) if both.num_rows else both]


def _never() -> bool:
    return False


class OutputCursor:
    """A sink with its position, failures and retries. One thread uses it at a time.

    Args:
        sink: the output.
        name: name of the output in messages and metrics.
        since: the newest version when the run began, None for a new checkpoint. A sink that keeps
            no position starts after it.
        fence: checks whether this run still owns the checkpoint.
    """

    def __init__(self, sink: Sink, name: str, since: int | None, fence: Fence = NO_FENCE) -> None:
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
        """Return the last version delivered, or shown if the sink follows the view; -1 for none."""
        if self._follows:
            return self._shown
        return -1 if self._position is None else self._position

    @property
    def stuck(self) -> bool:
        """Return whether the last failure is permanent, so that a retry cannot help."""
        return isinstance(self.error, StateRefused | UsageError)

    def wait_for(self) -> float | None:
        """Return the seconds until the next attempt: 0 if it is due, None if a retry cannot help."""
        if self.stuck:
            return None
        return 0.0 if self.error is None else max(0.0, self._retry_at - time.monotonic())

    def progress(self, newest: int) -> SinkProgress:
        """Return the progress of the output."""
        lag = max(0, newest - self.version)
        return SinkProgress(
            self.name, self.version, lag, self._delivered, self._failures, round(self._seconds, 6)
        )

    def attempt(self, work: Callable[[], None]) -> bool:
        """Call `work`; on failure, keep the exception and schedule the next attempt.

        Returns:
            Whether this is the first failure after a success.

        Raises:
            BrokenPipeError: the reader of the output has closed it.
            CommitConflict: another run owns the checkpoint now, and with it the output.
        """
        began = time.monotonic()
        try:
            work()
        except (BrokenPipeError, CommitConflict):
            raise
        except Exception as error:  # noqa: BLE001 - a failing sink must not stop the others
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
        view: ReadableView,
        *,
        show: bool = False,
        progress: Any = None,
        stopping: Callable[[], bool] = _never,
    ) -> None:
        """Deliver the versions after the position, and show the view if the sink follows it.

        Args:
            view: the view.
            show: whether the run has no end, so that sinks with `Sink.shows_every_version` are
                shown the view.
            progress: progress of the run, for sinks that display it.
            stopping: called between versions; returns whether to stop.
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

    def _give(self, view: ReadableView, version: int, evolved: PlanChange | None) -> None:
        """Deliver a version.

        Args:
            view: the view.
            version: the version.
            evolved: set if a new plan began with the version and the sink has received the previous
                one.
        """
        since = self._position
        if evolved is not None and not (self.sink.changes_columns or is_same(self.sink, evolved)):
            raise refusal(self.name, evolved)
        if self.sink.takes_changes:
            tables = (
                [view.changes(since=since, until=version)]
                if evolved is None
                else tables_to_deliver(view, version, same_columns=evolved.same_columns)
            )
            if len(tables) == 1:
                self.sink.deliver(tables[0], version)
            else:
                self.sink.replace(tables[0], tables[1], version)
        if self.sink.takes_late:
            since = version - 1 if since is None and version else since
            self.sink.deliver_late(view.late(since=since, until=version), version)

    def finish(
        self, view: ReadableView, progress: Any = None, stopping: Callable[[], bool] = _never
    ) -> None:
        """Deliver the remaining versions, then pass the view to the sink."""
        self.catch_up(view, progress=progress, stopping=stopping)
        if self.sink.takes_view and not stopping():
            self._fence.check()
            version = view.version
            self.sink.finish(view.to_arrow(version), version)
            self._shown = max(self._shown, version)

    def close(self) -> None:
        """Close the sink; store its exception, unless an earlier one is stored.

        Raises:
            BrokenPipeError: the reader of the output has closed it.
        """
        try:
            self.sink.close()
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001 - as in `attempt`
            self._failures += 1
            self.error = self.error or error

    def _show(self, view: ReadableView, progress: Any) -> None:
        newest = view.version
        versions = [v for v in view.versions() if v > self._shown]
        if not self.sink.each_version or len(versions) > MOST_SHOWN:
            versions = versions[-1:]
        # Show the existing version at once when a run begins.
        if not versions and not self._begun:
            versions = [newest]
        if versions and progress is not None:
            self.sink.note(progress)
        for version in versions:
            self._show_version(view, version, newest)
        self._begun = True

    def _show_version(self, view: ReadableView, version: int, newest: int) -> None:
        try:
            table = view.to_arrow(version)
        except StateRefused:
            # The state of this version was deleted meanwhile. A newer version is shown instead.
            self._fence.check()
            if version == newest == view.version:
                raise
        else:
            self._fence.check()
            self.sink.finish(table, version)
        self._shown = version
