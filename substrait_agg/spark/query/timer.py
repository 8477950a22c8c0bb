"""Wake a run when pending groups become due that no rows touch."""

from __future__ import annotations

import threading
from collections.abc import Callable

SLACK = 0.005
"""Seconds added to the instant, so that a clock ahead of the timer does not cause a call that is
too early."""

LONGEST = 3600.0
"""Maximum wait in seconds: the clock may be set, and a thread cannot sleep for any length of time.
"""


class Timer:
    """A timer that calls a function at the earliest of its instants, or earlier.

    After a call it has to be set again.

    Args:
        ring: the function, called in a thread of its own.
        clock: returns the current instant, in microseconds since 1970.
    """

    def __init__(self, ring: Callable[[], None], clock: Callable[[], int]) -> None:
        self._ring = ring
        self._clock = clock
        self._timer: threading.Timer | None = None
        self._at = 0
        self._stopped = False
        self._lock = threading.Lock()

    def set(self, at: int | None) -> None:
        """Set the timer to an instant in microseconds since 1970, unless an earlier one is set.

        None changes nothing.
        """
        with self._lock:
            if at is None or self._stopped or (self._timer is not None and self._at <= at):
                return
            if self._timer is not None:
                self._timer.cancel()
            # The wait is limited before the division: a distant instant does not fit a float.
            wait = min(max(at - self._clock(), 0), int(LONGEST * 1e6)) / 1e6
            self._at = at
            self._timer = threading.Timer(wait + SLACK, self._rung)
            self._timer.daemon = True
            self._timer.start()

    def _rung(self) -> None:
        with self._lock:
            if self._timer is threading.current_thread():
                self._timer = None
        self._ring()

    def stop(self) -> None:
        """Cancel the timer for good."""
        with self._lock:
            self._stopped = True
            if self._timer is not None:
                self._timer.cancel()
