"""Events of a run for a program, modelled after Spark's ``StreamingQueryListener``."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from substrait_agg.metrics.progress import Progress
from substrait_agg.notices import notice

IDLE_AFTER = 10.0
"""Seconds without a commit after which a run is said to be idle, again and again, as Spark does."""

LAST_CALL = 5.0
"""Seconds that the end of a run waits for a listener to take what has happened."""


@dataclass(frozen=True, slots=True)
class Started:
    """A run has started: its number, unique in this process, its checkpoint, the plan's fingerprint, and where it continues."""

    run: str
    checkpoint: str
    plan: str
    progress: Progress


@dataclass(frozen=True, slots=True)
class Progressed:
    """A version was committed."""

    run: str
    progress: Progress


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing was committed for a while, and no batch is under way."""

    run: str
    progress: Progress


@dataclass(frozen=True, slots=True)
class Terminated:
    """A run has ended; `error` says why if it did not end by itself or by `stop`."""

    run: str
    progress: Progress
    error: BaseException | None = None


class RunListener:
    """What a program does when something happens to a run; override what is of interest.

    The methods are called one after the other, from a thread of their own, in the order in which things happened. A
    slow one delays only later calls. What one raises is logged (LISTENER_FAILED), and the run goes on.
    """

    def on_started(self, event: Started) -> None:
        """The run begins."""

    def on_progress(self, event: Progressed) -> None:
        """A version was committed; called once for every version of the run."""

    def on_idle(self, event: Idle) -> None:
        """There was nothing to do for ten seconds."""

    def on_terminated(self, event: Terminated) -> None:
        """The run has ended; the last call."""


class Announcer:
    """Calls a listener from a thread of its own.

    Args:
        listener: an object with any of the methods of `RunListener`.
        progress: gives the progress for idle events.
        busy: whether a batch is under way.
        run: the run's number.
        idle_after: seconds without an event after which the run is idle, unless it is busy.
    """

    def __init__(
        self,
        listener: Any,
        progress: Callable[[], Progress],
        busy: Callable[[], bool],
        run: str,
        idle_after: float = IDLE_AFTER,
    ) -> None:
        self._listener = listener
        self._progress = progress
        self._busy = busy
        self._run = run
        self._idle_after = idle_after
        self._events: queue.SimpleQueue[tuple[str, Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._call_all, name="run-listener", daemon=True)
        self._thread.start()

    def started(self) -> None:
        """The run begins."""
        progress = self._progress()
        event = Started(self._run, progress.checkpoint, progress.plan, progress)
        self._events.put(("on_started", event))

    def committed(self, progress: Progress) -> None:
        """A version was committed."""
        self._events.put(("on_progress", Progressed(self._run, progress)))

    def terminated(self, progress: Progress, error: BaseException | None) -> None:
        """The run has ended; waits a little for the listener to be told."""
        self._events.put(("on_terminated", Terminated(self._run, progress, error)))
        self._events.put(None)
        self._thread.join(LAST_CALL)

    def _call_all(self) -> None:
        while True:
            try:
                event = self._events.get(timeout=self._idle_after)
            except queue.Empty:
                if not self._busy():
                    self._call("on_idle", Idle(self._run, self._progress()))
                continue
            if event is None:
                return
            self._call(*event)

    def _call(self, method: str, event: Any) -> None:
        call = getattr(self._listener, method, None)
        if call is None:
            return
        try:
            call(event)
        except Exception as error:  # noqa: BLE001 - a listener never harms the run
            told = f"{method} of the listener failed: {type(error).__name__}: {error}"
            help = "the run goes on; correct the listener"
            notice("LISTENER_FAILED", told, help=help, error=error)
