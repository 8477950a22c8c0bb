"""Estimate the cost of a batch in either way, from the measured costs of past batches.

A batch costs a fixed time and a time per byte of input that is read: the bytes of the batch if it
is incremental, the bytes of all input so far if operators are computed again. Both lines are fitted
to the past batches of the checkpoint, by least squares of relative errors. First guesses count as
much as one measured batch, so they soon lose weight.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

REMEMBERED = 16
"""Costs of past batches that are remembered, of each way."""

RATIO, RATIO_OF_ROWS = 1.3, 2.5
"""First guesses of the time per byte of an incremental batch, to that of computing again: it looks
up stored groups, and retracts old rows. Where operators store rows or values instead of totals, it
also searches and merges them: a join reads the stored rows of its other side, and retracts and
inserts all rows that match."""

NOISE, NOISE_COLD, DOUBT = 0.2, 0.6, 0.8
"""Relative standard deviations of a measured batch, of the first one of a run, which compiles code
and starts workers, and of a first guess."""

NOISE_FIXED = 100_000
"""Standard deviation of a measured batch that does not depend on its time, in microseconds. A small
batch takes about as long, so small batches hardly tell the time per byte."""

JOB = 300_000
"""First guess of what a Spark job costs, in microseconds, with Python workers that run already."""

RECENT = 0.85
"""Weight of a past batch, to that of the one after it."""


@dataclass(frozen=True, slots=True)
class BatchCost:
    """The measured cost of a batch.

    Attributes:
        full: whether operators were computed again. The first batch of all counts as one: nothing
            is stored yet.
        bytes: bytes of the input that was read.
        microseconds: time from reading the input to the commit.
        cold: whether it was the first batch of a run.
    """

    full: bool
    bytes: int
    microseconds: int
    cold: bool = False


@dataclass(frozen=True, slots=True)
class InputSize:
    """The bytes of the files of a batch, and of all files up to and including it."""

    batch: int
    whole: int


@dataclass(frozen=True, slots=True)
class LostFile:
    """A file that no longer has the rows that were read from it.

    Attributes:
        uri: the file, as a version names it.
        change: what has happened to it, in words.
    """

    uri: str
    change: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated microseconds of a batch in either way."""

    incremental: float
    full: float


@dataclass(frozen=True, slots=True)
class CostHistory:
    """The costs of past batches, oldest first.

    Attributes:
        ratio: first guess of the time per byte of an incremental batch, to that of computing again.
        driver_bytes: bytes of input up to which the driver computes a batch; None if it does not matter.
    """

    costs: tuple[BatchCost, ...] = ()
    ratio: float = RATIO
    driver_bytes: int | None = None

    def add(self, cost: BatchCost) -> CostHistory:
        """Return the history with one more batch; it keeps the newest `REMEMBERED` of each way."""
        newest: list[BatchCost] = []
        room = {True: REMEMBERED, False: REMEMBERED}
        for old_cost in reversed((*self.costs, cost)):
            if room[old_cost.full]:
                room[old_cost.full] -= 1
                newest.append(old_cost)
        return replace(self, costs=tuple(reversed(newest)))

    def estimate(self, size: InputSize) -> Estimate | None:
        """Estimate a batch; None if no batch has been measured."""
        if not self.costs:
            return None
        batches = [cost for cost in self.costs if not cost.full]
        again = [cost for cost in self.costs if cost.full]
        least = min(cost.microseconds for cost in (*batches, *again))
        warm = [cost for cost in batches if not cost.cold]
        relevant = again if again and not (again[0].cold and len(again) == 1 and warm) else batches
        slope = _slope(relevant, least) / (1 if relevant is again else self.ratio)
        full = _fit(again, fixed=least, slope=slope)
        incremental = _fit(batches, fixed=least, slope=full.slope * self.ratio)
        return Estimate(
            incremental.at(size.batch) + self._job(size.batch, batches),
            full.at(size.whole) + self._job(size.whole, again),
        )

    def _job(self, size: int, costs: Sequence[BatchCost]) -> int:
        """Return the time of a Spark job that a batch takes and none of the measured ones took."""
        limit = self.driver_bytes
        if limit is None or size <= limit or any(cost.bytes > limit for cost in costs):
            return 0
        return JOB


@dataclass(frozen=True, slots=True)
class _Line:
    """A fixed time and a time per byte, in microseconds."""

    fixed: float
    slope: float

    def at(self, size: int) -> float:
        """Return the time of `size` bytes."""
        return self.fixed + self.slope * size


def _slope(costs: Sequence[BatchCost], fixed: float) -> float:
    """Return the time per byte of the greatest batch, beyond a fixed time of half the least one."""
    greatest = max(costs, key=lambda cost: cost.bytes)
    return max(greatest.microseconds - fixed / 2, 1.0) / max(greatest.bytes, 1)


def _fit(costs: Sequence[BatchCost], *, fixed: float, slope: float) -> _Line:
    """Return the line with the least relative errors."""
    # Each row is an equation: fixed * a + slope * b = c, divided by the deviation of c.
    rows = [*_list_measured(costs), _guess(1.0, 0.0, fixed), _guess(0.0, 1.0, slope)]
    aa, ab, bb = (sum(x * y for x, y in pairs) for pairs in _products(rows))
    ac, bc = (sum(row[i] * row[2] for row in rows) for i in (0, 1))
    determinant = aa * bb - ab * ab
    line = _Line((ac * bb - bc * ab) / determinant, (bc * aa - ac * ab) / determinant)
    if line.fixed >= 0 and line.slope >= 0:
        return line
    return _Line(0.0, bc / bb) if line.fixed < 0 else _Line(ac / aa, 0.0)


_Row = tuple[float, float, float]


def _products(rows: Sequence[_Row]) -> Iterable[list[tuple[float, float]]]:
    for i, j in ((0, 0), (0, 1), (1, 1)):
        yield [(row[i], row[j]) for row in rows]


def _list_measured(costs: Sequence[BatchCost]) -> Iterable[_Row]:
    for age, cost in enumerate(reversed(costs)):
        time = max(cost.microseconds, 1)
        noise = math.hypot((NOISE_COLD if cost.cold else NOISE) * time, NOISE_FIXED)
        weight = RECENT ** (age / 2) / noise
        yield weight, weight * cost.bytes, weight * time


def _guess(fixed: float, size: float, value: float) -> _Row:
    deviation = DOUBT * max(value, 1e-9)
    return fixed / deviation, size / deviation, value / deviation
