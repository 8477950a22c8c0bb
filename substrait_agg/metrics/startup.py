"""Measure how long a run takes until its first commit, phase by phase."""

from __future__ import annotations

import time
from collections.abc import Callable

PHASES: dict[str, str] = {
    "load": "import the modules of Spark",
    "check": "check plan, options and checkpoint",
    "spark": "start Spark, or use the running one",
    "sources": "open the sources and read their columns",
    "query": "prepare the checkpoint, commit the version without input, and find the files of the first batch",
    "batch": "compute and commit the first batch",
}
"""The phases in order, with a description of each."""


class StartTimer:
    """Measures the phases of a start, one after another, with a monotonic clock in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()
        self._phases: list[tuple[str, float]] = []

    def end(self, phase: str) -> None:
        """Record the end of a phase of `PHASES`; ignore those that have ended, and all after the last one."""
        if self.phases or any(name == phase for name, _ in self._phases):
            return
        now = self._clock()
        self._phases.append((phase, now - self._last))
        self._last = now

    @property
    def phases(self) -> tuple[tuple[str, float], ...]:
        """Return each phase with its seconds; empty until the first batch is committed."""
        complete = self._phases and self._phases[-1][0] == "batch"
        return tuple(self._phases) if complete else ()
