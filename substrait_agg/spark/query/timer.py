"""Wakes a run when groups are due to be emitted that no rows touch any more."""

from __future__ import annotations

import threading
from collections.abc import Callable

SLACK = 0.005
"""Seconds past the instant, so that a clock that runs a little ahead of the timer does not make it ring for nothing."""

LONGEST = 3600.0
"""Seconds after which it rings at the latest: the clock may have been set, and no thread sleeps for centuries."""


class Timer:
    """Rings at the earliest of the instants that it is set to, or before; then it has to be set again.

    Args:
        ring: called from a thread of its own.
        clock: gives the instant, in microseconds since 1970.
    """

    def __init__(self, ring: Callable[[], None], clock: Callable[[], int]) -> None:
        self._ring = ring
        self._clock = clock
        self._timer: threading.Timer | None = None
        self._at = 0
        self._stopped = False
        self._lock = threading.Lock()

    def set(self, at: int | None) -> None:
        """Ring at an instant; at an earlier one if that is set already. None changes nothing."""
        with self._lock:
            if at is None or self._stopped or (self._timer is not None and self._at <= at):
                return
            if self._timer is not None:
                self._timer.cancel()
            # An instant of another age does not fit a float.
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
        """Ring no more."""
        with self._lock:
            self._stopped = True
            if self._timer is not None:
                self._timer.cancel()
