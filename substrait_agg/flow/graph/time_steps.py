"""Event time on its way through expressions: which of them never fall while the event time of rows rises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimeStep:
    """A step function of time: the last point of a grid at or before an instant, moved.

    Attributes:
        size: distance of the points, microseconds, at least 1.
        origin: one of them, microseconds since 1970.
        shift: by how much the point is moved, microseconds.
    """

    size: int
    origin: int = 0
    shift: int = 0

    def __call__(self, instant: int) -> int:
        """The value at an instant."""
        return instant - (instant - self.origin) % self.size + self.shift


def compose(grids: Sequence[TimeStep], instant: int) -> int:
    """An instant after several step functions, one after the other."""
    for grid in grids:
        instant = grid(instant)
    return instant


@dataclass(frozen=True, slots=True)
class EventKey:
    """A grouping key that tells event time.

    All rows whose event time is at or after an instant have keys at or after that instant taken `through` the grids.

    Attributes:
        key: ordinal of the key; None for the time by which an operator tells sessions, which is no key.
        grids: how the key comes from the event time.
        end: the key is a window, a struct of start and end, whose end counts.
    """

    key: int | None
    grids: tuple[TimeStep, ...] = ()
    end: bool = False

    def limit(self, watermark: int) -> int:
        """The bound below which a key gets no more rows once the watermark is at an instant."""
        return compose(self.grids, watermark)
