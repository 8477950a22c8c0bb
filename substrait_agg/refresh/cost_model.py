"""Estimate what a batch costs in either way, from the measured costs of past batches.

A batch costs a fixed time and a time per byte of input that is read: the bytes of the batch if it
is incremental, the bytes of all input so far if operators are computed again. Both lines are fitted
to the past batches of the checkpoint. A way that has not been measured yet is guessed from the
other one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

REMEMBERED = 16
"""Costs of past batches that are remembered, of each way."""

FULL_PER_INCREMENTAL = 0.7
"""First guess of the time per byte of a full batch, for one of an incremental batch: nothing is
looked up, nothing retracted and nothing merged."""

RECENT = 0.8
"""Weight of a past batch, to that of the one after it."""


@dataclass(frozen=True, slots=True)
class BatchCost:
    """What a batch took.

    Attributes:
        full: whether operators were computed again.
        bytes: bytes of the input that was read.
        microseconds: time from reading the input to the commit.
    """

    full: bool
    bytes: int
    microseconds: int


@dataclass(frozen=True, slots=True)
class InputSize:
    """The bytes of the files of a batch, and of all files up to and including it."""

    batch: int
    whole: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated microseconds of a batch in either way."""

    incremental: float
    full: float


@dataclass(frozen=True, slots=True)
class CostHistory:
    """The costs of past batches, oldest first."""

    costs: tuple[BatchCost, ...] = ()

    def add(self, cost: BatchCost) -> CostHistory:
        """Return the history with one more batch; of each way, the newest `REMEMBERED` are kept."""
        kept: list[BatchCost] = []
        room = {True: REMEMBERED, False: REMEMBERED}
        for known in reversed((*self.costs, cost)):
            if room[known.full]:
                room[known.full] -= 1
                kept.append(known)
        return CostHistory(tuple(reversed(kept)))

    def estimate(self, size: InputSize) -> Estimate | None:
        """Estimate a batch; None if no batch has been measured."""
        incremental, full = (_Line.through(self._of(full)) for full in (False, True))
        if incremental is None and full is None:
            return None
        if full is None and incremental is not None:
            full = _Line(incremental.fixed, incremental.slope * FULL_PER_INCREMENTAL)
        elif incremental is None and full is not None:
            incremental = _Line(full.fixed, full.slope / FULL_PER_INCREMENTAL)
        if incremental is None or full is None:
            raise TypeError
        return Estimate(incremental.at(size.batch), full.at(size.whole))

    def _of(self, full: bool) -> list[BatchCost]:
        return [cost for cost in self.costs if cost.full == full]


@dataclass(frozen=True, slots=True)
class _Line:
    """A fixed time and a time per byte, in microseconds."""

    fixed: float
    slope: float

    def at(self, size: int) -> float:
        return self.fixed + self.slope * size

    @staticmethod
    def through(costs: Sequence[BatchCost]) -> _Line | None:
        """Return the line through measured costs: least squares, newer ones weigh more."""
        if not costs:
            return None
        weights = [RECENT ** (len(costs) - 1 - i) for i in range(len(costs))]
        total = sum(weights)
        mean_x = sum(w * c.bytes for w, c in zip(weights, costs, strict=True)) / total
        mean_y = sum(w * c.microseconds for w, c in zip(weights, costs, strict=True)) / total
        pairs = list(zip(weights, costs, strict=True))
        spread = sum(w * (c.bytes - mean_x) ** 2 for w, c in pairs)
        joint = sum(w * (c.bytes - mean_x) * (c.microseconds - mean_y) for w, c in pairs)
        through_zero = mean_y / max(mean_x, 1.0)
        # Sizes that hardly differ say nothing about the slope.
        slope = joint / spread if spread > (0.1 * mean_x) ** 2 * total else through_zero
        slope = min(max(slope, 0.0), through_zero)
        return _Line(mean_y - slope * mean_x, slope)
