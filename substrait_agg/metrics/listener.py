"""Events of a run for programs, modelled after Spark's ``StreamingQueryListener``."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from substrait_agg.metrics.progress import Progress
from substrait_agg.notices import notice

IDLE_AFTER = 10.0
"""Seconds without a commit after which a run reports that it is idle; repeated as in Spark."""

LAST_CALL = 5.0
"""Seconds that the end of a run waits for the listener to process the remaining events."""


@dataclass(frozen=True, slots=True)
class Started:
    """A run has started.

    Attributes:
        run: id of the run, unique in this process.
        checkpoint: path of the checkpoint.
        plan: fingerprint of the plan.
        progress: progress at the version from which the run continues.
    """

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
    """Nothing was committed for `IDLE_AFTER` seconds, and no batch is running."""

    run: str
    progress: Progress


@dataclass(frozen=True, slots=True)
class Terminated:
    """A run has ended.

    Attributes:
        run: id of the run.
        progress: progress at the end.
        error: the exception that ended the run; None if its input ended or it was stopped.
    """

    run: str
    progress: Progress
    error: BaseException | None = None


class RunListener:
    """Receives the events of a run; subclasses override the methods they need.

    One thread calls the methods one after another, in the order of the events. A slow method delays
    later calls only, not the run. An exception from a method is logged (LISTENER_FAILED), and the
    run continues.
    """

    def on_started(self, event: Started) -> None:
        """Handle the start of the run."""

    def on_progress(self, event: Progressed) -> None:
        """Handle a committed version; called once for every version of the run."""

    def on_idle(self, event: Idle) -> None:
        """Handle ten seconds without a commit."""

    def on_terminated(self, event: Terminated) -> None:
        """Handle the end of the run; always the last call."""


class Announcer:
    """Calls a listener from a separate thread.

    Args:
        listener: an object with any of the methods of `RunListener`.
        progress: returns the current progress, for idle events.
        busy: returns whether a batch is running.
        run: id of the run.
        idle_after: seconds without an event after which the run counts as idle, unless it is busy.
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

    def announce_start(self) -> None:
        """Queue the event of the start."""
        progress = self._progress()
        event = Started(self._run, progress.checkpoint, progress.plan, progress)
        self._events.put(("on_started", event))

    def committed(self, progress: Progress) -> None:
        """Queue the event of a committed version."""
        self._events.put(("on_progress", Progressed(self._run, progress)))

    def announce_end(self, progress: Progress, error: BaseException | None) -> None:
        """Queue the event of the end, and wait up to `LAST_CALL` seconds until it is processed."""
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
        except Exception as error:  # noqa: BLE001 - a listener must not end the run
            message = f"{method} of the listener failed: {type(error).__name__}: {error}"
            help = "the run continues; correct the listener"
            notice("LISTENER_FAILED", message, help=help, error=error)
