"""How long a run takes until its first rows are in a version, phase by phase."""

from __future__ import annotations

import time
from collections.abc import Callable

PHASES: dict[str, str] = {
    "load": "the modules of Spark are imported",
    "check": "plan, options and checkpoint are checked",
    "spark": "Spark starts, or is taken as it is",
    "sources": "sources are opened, and their columns are looked up",
    "query": "the checkpoint is made ready, and Spark plans the first batch",
    "batch": "the first batch is computed and committed",
}
"""Phases in their order, and what happens in each."""


class StartTimer:
    """Measures the phases of a start, one after another.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()
        self._phases: list[tuple[str, float]] = []

    def end(self, phase: str) -> None:
        """Note that a phase of `PHASES` is over; a phase that is over stays as it is."""
        if any(name == phase for name, _ in self._phases):
            return
        now = self._clock()
        self._phases.append((phase, now - self._last))
        self._last = now

    @property
    def phases(self) -> tuple[tuple[str, float], ...]:
        """Phases that are over, with their seconds; empty until the first batch is committed."""
        over = self._phases and self._phases[-1][0] == "batch"
        return tuple(self._phases) if over else ()
