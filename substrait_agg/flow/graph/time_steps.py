"""Event time through expressions that never decrease while event time increases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimeStep:
    """A step function of time: the last point of a grid at or before an instant, shifted.

    Attributes:
        size: distance of the points, in microseconds, at least 1.
        origin: one of the points, in microseconds since 1970.
        shift: shift of the point, in microseconds.
    """

    size: int
    origin: int = 0
    shift: int = 0

    def __call__(self, instant: int) -> int:
        """Return the value at an instant."""
        return instant - (instant - self.origin) % self.size + self.shift


def compose(time_steps: Sequence[TimeStep], instant: int) -> int:
    """Apply several step functions to an instant, one after the other."""
    for step in time_steps:
        instant = step(instant)
    return instant


@dataclass(frozen=True, slots=True)
class EventKey:
    """A grouping key that is a step function of event time.

    All rows with an event time at or after an instant have keys at or after the composition of the
    grids at that instant (`compose`).

    Attributes:
        key: ordinal of the key; None for the time by which an operator forms sessions, which is not
            a key.
        end: whether the key is a window, a struct of start and end, whose end counts.
    """

    key: int | None
    time_steps: tuple[TimeStep, ...] = ()
    end: bool = False

    def limit(self, watermark: int) -> int:
        """Return the bound below which keys get no more rows once the watermark is reached."""
        return compose(self.time_steps, watermark)
