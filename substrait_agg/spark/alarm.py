"""Wakes a run when groups are due to be emitted that no rows touch any more."""

from __future__ import annotations

import threading
from collections.abc import Callable

SLACK = 0.005
"""Seconds past the instant, so that a clock that runs a little ahead of the timer does not make it ring for nothing."""


class Alarm:
    """Rings once, so long after each `set`.

    Args:
        delay: microseconds; None never rings.
        ring: called from a thread of its own.
    """

    def __init__(self, delay: int | None, ring: Callable[[], None]) -> None:
        self._delay = delay
        self._ring = ring
        self._timers: list[threading.Timer] = []
        self._lock = threading.Lock()

    def set(self) -> None:
        """Ring when the delay from now has passed."""
        if self._delay is None:
            return
        timer = threading.Timer(self._delay / 1e6 + SLACK, self._ring)
        timer.daemon = True
        with self._lock:
            self._timers = [t for t in self._timers if t.is_alive()]
            self._timers.append(timer)
            timer.start()

    def stop(self) -> None:
        """Ring no more."""
        with self._lock:
            for timer in self._timers:
                timer.cancel()
            self._timers = []
