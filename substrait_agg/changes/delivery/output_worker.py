"""Deliver to outputs in background threads.

A slow or failing output delays neither the batches nor the other outputs. A thread receives only
the number of the newest version and reads the changes from the checkpoint. So memory use does not
grow with the lag of an output, and no version is lost.
"""

from __future__ import annotations

import hashlib
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, TextIO
from weakref import WeakValueDictionary

from substrait_agg.changes.delivery.output_cursor import OutputCursor, ReadableView
from substrait_agg.changes.outputs.outputs import OutputSpec, open_output
from substrait_agg.changes.outputs.sinks import Callback, Sink, SinkContext
from substrait_agg.changes.records import Record
from substrait_agg.changes.targets.spark import SparkTarget
from substrait_agg.commit.log.fence import NO_FENCE, Fence
from substrait_agg.errors import RunFailed, UsageError
from substrait_agg.files.lazy_property import lazy_property
from substrait_agg.files.locations import Location, location_of
from substrait_agg.metrics.progress import SinkProgress
from substrait_agg.notices import notice

STOP_SECONDS = 10.0
"""Seconds that a run waits for its outputs after it was stopped or failed."""

JOIN_SECONDS = 0.5

_LEFT: dict[Location, list[threading.Thread]] = {}
"""Threads that a run did not wait for, by checkpoint; they may still be writing."""


class OutputWorker:
    """A thread that keeps one output up to date, or several outputs that write to the same stream.

    Args:
        cursors: the outputs, each with its view.
        show: whether the run has no end.
        fatal: called with the exception that ends the run, such as a closed pipe.
    """

    def __init__(
        self,
        cursors: Sequence[tuple[OutputCursor, ReadableView]],
        *,
        show: bool,
        fatal: Callable[[BaseException], None],
    ) -> None:
        self.cursors = tuple(cursor for cursor, _ in cursors)
        self.broken: BaseException | None = None
        self._views = tuple(view for _, view in cursors)
        self._show = show
        self._fatal = fatal
        self._progress: Any = None
        self._woken = self._ending = self._hurried = False
        self._with_view = False
        self._changed = threading.Condition()
        name = f"output {self.cursors[0].name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def thread(self) -> threading.Thread:
        """Return the thread; it ends when everything is delivered."""
        return self._thread

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self, progress: Any) -> None:
        """Announce a new committed version."""
        with self._changed:
            self._progress = progress
            self._woken = True
            self._changed.notify()

    def end(self, *, with_view: bool) -> None:
        """Deliver the remaining versions, then end.

        Args:
            with_view: whether the run reached the end of its input; if so, outputs also receive the
                view.
        """
        with self._changed:
            if not self._ending:
                self._with_view = with_view
            self._ending = True
            self._changed.notify()

    def hurry(self) -> None:
        """End after the version that is being delivered, and stop waiting in `join`."""
        self._hurried = True

    def join(self, deadline: float | None) -> None:
        """Wait until everything is delivered, `hurry` is called, or the deadline has passed.

        Args:
            deadline: time on the monotonic clock; None to wait without a limit.
        """
        while self._thread.is_alive() and not self._hurried:
            left = JOIN_SECONDS if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return
            self._thread.join(min(left, JOIN_SECONDS))

    def _run(self) -> None:
        try:
            while self._wait_for_work():
                self._round(last=False)
            if not self._hurried:
                self._round(last=True)
        except BaseException as error:  # noqa: BLE001 - it is passed on and ends the run
            self.broken = error
            self._fatal(error)
        finally:
            self._close()

    def _close(self) -> None:
        for cursor in self.cursors:
            try:
                cursor.close()
            except BrokenPipeError as error:
                self.broken = self.broken or error

    def _wait_for_work(self) -> bool:
        """Wait until there is work; return False if the run is ending."""
        with self._changed:
            while not self._woken and not self._ending:
                waits = [cursor.wait_for() for cursor in self.cursors if cursor.error is not None]
                finite_waits = [wait for wait in waits if wait is not None]
                if finite_waits and not min(finite_waits):
                    break
                self._changed.wait(min(finite_waits, default=None))
            self._woken = False
            return not self._ending

    def _round(self, *, last: bool) -> None:
        for cursor, view in zip(self.cursors, self._views, strict=True):
            wait = cursor.wait_for()
            # The last round tries every output, even one whose retry is not yet due.
            if wait is None or (wait and not last):
                continue
            if cursor.attempt(partial(self._work, cursor, view, last=last)):
                self._tell(cursor)

    def _work(self, cursor: OutputCursor, view: ReadableView, *, last: bool) -> None:
        if last and self._with_view:
            cursor.finish(view, self._progress, lambda: self._hurried)
        else:
            cursor.catch_up(
                view,
                show=self._show,
                progress=self._progress,
                stopping=lambda: self._hurried,
            )

    def _tell(self, cursor: OutputCursor) -> None:
        after = f"after version {cursor.version}" if cursor.version >= 0 else "at the first version"
        help = (
            "correct it, or remove the output"
            if cursor.stuck
            else "delivery is retried; nothing is lost"
        )
        notice(
            "OUTPUT_FAILING",
            f"output {cursor.name} failed {after}: {reason(cursor.error)}",
            help=f"the run and its other outputs continue; {help}",
        )


class OutputWorkers:
    """Delivers to all outputs of a run in background threads.

    Args:
        deliveries: per view its outputs, which nothing else may use from now on, and a function
            that returns the view; it is called after the first version is committed.
        show: whether the run has no end.
    """

    def __init__(
        self,
        deliveries: Sequence[tuple[Delivery, Callable[[], ReadableView]]],
        *,
        show: bool,
    ) -> None:
        self._deliveries = tuple(delivery for delivery, _ in deliveries)
        self._folder = self._deliveries[0].context.checkpoint.absolute()
        groups: dict[object, list[tuple[OutputCursor, ReadableView]]] = {}
        for delivery, open_view in deliveries:
            view = SharedView(open_view)
            for cursor in delivery.cursors:
                groups.setdefault(id(cursor.sink.stream or cursor), []).append((cursor, view))
        self._workers = [
            OutputWorker(cursors, show=show, fatal=self._is_fatal) for cursors in groups.values()
        ]
        self._fatal: Callable[[BaseException], None] = lambda _error: None
        self._started = False
        self._newest = -1

    def begin(self, fatal: Callable[[BaseException], None]) -> None:
        """Set the function to call, from another thread, with an exception that ends the run."""
        self._fatal = fatal

    def _is_fatal(self, error: BaseException) -> None:
        self._fatal(error)

    def wake(self, progress: Any) -> None:
        """Announce a committed version, or the version that the run continues."""
        self._newest = progress.version
        for worker in self._workers:
            worker.wake(progress)
            if not self._started:
                worker.start()
        self._started = True

    def progress(self, newest: int) -> tuple[SinkProgress, ...]:
        """Return the progress of every output."""
        return tuple(
            progress for delivery in self._deliveries for progress in delivery.progress(newest)
        )

    def end(self, *, with_view: bool, patience: float | None = None) -> None:
        """Deliver the remaining versions and end; may be called again and from other threads.

        Args:
            with_view: whether the run reached the end of its input; if so, outputs also receive the
                view.
            patience: seconds to wait at most; the next run delivers the remaining versions.
        """
        if not self._started:
            for delivery in self._deliveries:
                delivery.close()
            return
        for worker in self._workers:
            worker.end(with_view=with_view)
        deadline = None if patience is None else time.monotonic() + patience
        for worker in self._workers:
            worker.join(deadline)
        for worker in self._workers:
            if worker.thread.is_alive():
                worker.hurry()
                _LEFT.setdefault(self._folder, []).append(worker.thread)

    def list_undelivered(self) -> list[RunFailed]:
        """Return an error per output that failed or was not waited for; call it after `end`."""
        return [
            self._describe_undelivered(cursor, busy=worker.thread.is_alive())
            for worker in self._workers
            for cursor in worker.cursors
            if cursor.error is not None or (self._started and worker.thread.is_alive())
        ]

    @property
    def busy(self) -> tuple[str, ...]:
        """Return the names of the outputs that are still being written."""
        return tuple(
            cursor.name for c in self._workers if c.thread.is_alive() for cursor in c.cursors
        )

    @property
    def broken(self) -> BaseException | None:
        """Return the exception that ended a thread early, if any."""
        return next((c.broken for c in self._workers if c.broken is not None), None)

    def _describe_undelivered(self, cursor: OutputCursor, *, busy: bool) -> RunFailed:
        place = f"has version {cursor.version} of {self._newest}"
        if cursor.version == self._newest:
            place = f"could not write the view of version {self._newest}"
        elif cursor.version < 0:
            place = "has no version yet"
        why = reason(cursor.error) if cursor.error is not None else "it is still writing"
        error = RunFailed(
            "OUTPUT_NOT_DELIVERED",
            f"output {cursor.name} {place}: {why}",
            help=f"all versions are committed; {_rest(cursor)}",
        )
        error.__cause__ = None if busy else cursor.error
        return error


def _rest(cursor: OutputCursor) -> str:
    """Return how the user obtains the versions that were not delivered."""
    if cursor.sink.takes_changes and not cursor.sink.keeps_position:
        since = f" --since {cursor.version}" if cursor.version >= 0 else ""
        return (
            f"this output does not store its position: substrait-agg changes DIR{since} prints the missing "
            "versions"
        )
    return "run again with the same arguments to deliver the missing versions"


def reason(error: BaseException | None) -> str:
    """Return an exception as one line of text; exceptions from Spark have many lines."""
    lines = str(error).strip().splitlines()
    first = lines[0] if lines else ""
    has_code = getattr(error, "code", None)
    return first if has_code else f"{type(error).__name__}: {first}".removesuffix(": ")


def check_free(checkpoint: str | Location) -> None:
    """Refuse to start while outputs of an earlier run in this process are still being written.

    Raises:
        UsageError: OUTPUT_BUSY.
    """
    folder = location_of(checkpoint).absolute()
    threads = [thread for thread in _LEFT.pop(folder, []) if thread.is_alive()]
    if not threads:
        return
    _LEFT[folder] = threads
    names = ", ".join(thread.name for thread in threads)
    message = f"a stopped run of this process is still writing: {names}"
    help = "wait until it has finished, or use a new process"
    raise UsageError("OUTPUT_BUSY", message, help=help, path=str(folder))


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

    @lazy_property
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


class Delivery:
    """Delivers committed versions to sinks, each from its own position.

    The methods of this class deliver in the calling thread and raise what a sink raises.
    `OutputWorkers` delivers in background threads.

    Args:
        outputs: KIND[=LOCATION] texts, `OutputSpec` or `Sink` objects.
        checkpoint: the folder of the view.
        since: the newest version when the run began, None for a new checkpoint. Sinks that keep no
            position start after it.
        on_changes: called with (changes, version) like a sink, at least once per version.
        stdout: the stream for outputs without a location.
        frame: converts a table to a Spark DataFrame, for sinks that need one.
        writer: opens outputs that Spark writes.
        fence: checks whether this run still owns the checkpoint.
        view: name of the view; empty for the view of one plan without a name.

    Raises:
        UsageError: an output is unknown, or its location holds other data.
        StateRefused: an output or its record is damaged.
    """

    def __init__(
        self,
        outputs: Iterable[str | OutputSpec | Sink],
        *,
        checkpoint: str | Location,
        since: int | None = None,
        on_changes: Callable[[Any, int], None] | None = None,
        stdout: TextIO | None = None,
        frame: Callable[[Any], Any] | None = None,
        writer: Callable[[SparkTarget, SinkContext], Sink] | None = None,
        fence: Fence = NO_FENCE,
        view: str = "",
    ) -> None:
        self.context = SinkContext(
            location_of(checkpoint), stdout or sys.stdout, frame, writer, fence, view
        )
        with ExitStack() as opened:
            sinks: list[tuple[str, Sink]] = []
            for output in outputs:
                name, sink = open_output(output, self.context)
                opened.callback(sink.close)
                sinks.append((name, sink))
            if on_changes is not None:
                digest = f"-{hashlib.sha256(view.encode()).hexdigest()[:16]}" if view else ""
                path = self.context.checkpoint / "outputs" / f"on-changes{digest}.json"
                record = Record(path, "on_changes", fence, view)
                name = f"{view}=on_changes" if view else "on_changes"
                sinks.append((name, Callback(on_changes, record, since)))
            self.cursors = _cursors(sinks, since, fence)
            opened.pop_all()

    def deliver(self, view: ReadableView, *, show: bool = False, progress: Any = None) -> None:
        """Deliver every version of `view` that a sink has not received.

        Args:
            view: a view opened after the versions were committed.
            show: whether to pass the view also to the sinks that show every version (a run without
                an end).
            progress: progress of the run, for the sinks that display it.
        """
        for cursor in self.cursors:
            cursor.catch_up(view, show=show, progress=progress)

    def finish(self, view: ReadableView) -> None:
        """Deliver the remaining versions, then pass the view to every sink."""
        self.deliver(view)
        for cursor in self.cursors:
            cursor.finish(view)

    def progress(self, newest: int) -> tuple[SinkProgress, ...]:
        """Return the progress of every sink."""
        return tuple(cursor.progress(newest) for cursor in self.cursors)

    def close(self) -> None:
        """Close all sinks."""
        for cursor in self.cursors:
            cursor.sink.close()


def _cursors(
    sinks: Iterable[tuple[str, Sink]], since: int | None, fence: Fence
) -> tuple[OutputCursor, ...]:
    seen: Counter[str] = Counter()
    posts = []
    for name, sink in sinks:
        seen[name] += 1
        number = f"#{seen[name]}" if seen[name] > 1 else ""
        posts.append(OutputCursor(sink, f"{name}{number}", since, fence))
    return tuple(posts)
