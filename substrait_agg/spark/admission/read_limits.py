"""Limit what the next batch reads from each table of files, if a run has a target duration.

The sizes are in any unit that a source can limit: bytes of files, or offsets of a message log.

A proportional controller sets the total. A batch of size ``s`` that takes ``t`` seconds fits
``x = s * aim / t`` into the aim, if its duration is proportional to its size. The next total is
``total * (x / total) ** gain``. A part of the duration does not depend on the size, so ``x`` is
closer to the total than the size that takes exactly the aim. With a gain of at most 1 the totals
therefore approach that size from one side, without oscillation. The gain also smooths noise.

A batch that was not full says nothing about larger batches, so it does not change the total, unless
it was too slow. Every source gives at least one piece, such as a file, whatever the limit is. A
batch that exceeds its limit for that reason lowers the total only if its duration per size does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from substrait_agg.commit.documents.snapshot import AdmissionRecord
from substrait_agg.errors import UsageError
from substrait_agg.spark.sources.open import is_static
from substrait_agg.spark.sources.specs import SourceSpec, Table, as_spec

FIRST_BYTES = 4 << 20
"""Limit of the first batch of a checkpoint, in bytes."""

_MOST = 2**62


AIM = 0.85
"""Part of the target that a batch should take. Noise then seldom exceeds the target."""

_RAISE = 0.5
"""Gain for larger totals: half of the way, on a logarithmic scale."""

_LOWER = 0.8
"""Gain for smaller totals. A batch over the target is corrected faster than one below it."""

STEP = 16.0
"""Greatest factor between the measured size and the total that one batch counts for."""

_FULL = 0.5
"""A source that gives this part of its limit may have had more."""


def first_bytes(target: float, stored: AdmissionRecord) -> int:
    """Return the limit of the first batch of a run, in bytes.

    Args:
        target: the duration that a batch should not exceed, in seconds.
        stored: the limit of the last batch of the checkpoint. A limit that an earlier run has learned is
            kept, in proportion to the targets of both runs.
    """
    if stored.bytes <= 0 or stored.target <= 0:
        return FIRST_BYTES
    return max(1, min(int(stored.bytes * (target * 1e6 / stored.target)), _MOST))


def check_limited(sources: Mapping[Table, str | SourceSpec | DataFrame]) -> None:
    """Check that a run can limit what its batches read: all streams are files.

    Raises:
        UsageError: ``LATENCY_NOT_SUPPORTED``.
    """
    for table, source in sources.items():
        spec = None if isinstance(source, DataFrame) else as_spec(source)
        if not is_static(source) and (spec is None or not (spec.is_files or spec.is_connected)):
            kind = "a DataFrame" if spec is None else spec.format
            raise UsageError(
                "LATENCY_NOT_SUPPORTED",
                f"--latency limits batches of files, and the source of {'.'.join(table)} is {kind}",
                help="remove --latency, or give the table as files: FORMAT:LOCATION",
                path="latency",
            )


class AdmissionControl:
    """Limits batches so that they take less than a target duration.

    Args:
        target: the duration, in seconds; None for no limit but those of the user.
        bounds: the limit that the user gives, by table of files, in bytes; infinite without one.
        stored: the limit of the last batch of the checkpoint.
    """

    def __init__(
        self, target: float | None, bounds: Sequence[float], stored: AdmissionRecord
    ) -> None:
        self.target, self._stored, self._bounds = target, stored, tuple(bounds)
        first = None if target is None else first_bytes(target, stored)
        self._limits = None if first is None else first_limits(target or 0, first, bounds)
        self._current = self._limits

    @property
    def limit(self) -> int | None:
        """Return the limit of the batch in progress, or else of the last one, in bytes; None without one."""
        return None if self._current is None else int(self._current.total)

    @property
    def record(self) -> AdmissionRecord:
        """Return the limit of the batch in progress as its version stores it."""
        if self.target is None or self.limit is None:
            return self._stored
        return AdmissionRecord(max(1, min(self.limit, _MOST)), round(self.target * 1e6))

    def begin(self) -> tuple[float, ...]:
        """Begin a batch; return its limit for each table of files, in bytes."""
        self._current = self._limits
        return self._bounds if self._limits is None else self._limits.sources

    def end(self, seconds: float, sizes: tuple[float, ...]) -> None:
        """End a batch: choose the limits of the next one.

        Args:
            seconds: duration of the batch.
            sizes: bytes that it read, by table of files.
        """
        if self._limits is not None:
            self._limits = limits_after(self._limits, BatchLoad(seconds, sizes))


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The limits of a batch.

    Attributes:
        target: the duration that a batch should not exceed, in seconds.
        sources: the limit of each source; they add up to the total, except where `bounds` are
            smaller.
        bounds: the limit that the user has set for each source; infinite without one.
    """

    target: float
    total: float
    sources: tuple[float, ...]
    bounds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class BatchLoad:
    """A finished batch.

    Attributes:
        seconds: its duration.
        taken: what it read from each source.
    """

    seconds: float
    taken: tuple[float, ...]


def first_limits(target: float, total: float, bounds: Sequence[float]) -> BatchLimits:
    """Return the limits before anything is measured.

    Args:
        target: the duration that a batch should not exceed, in seconds.
        total: the limit of the first batch.
        bounds: the limit that the user has set for each source; infinite without one.
    """
    return BatchLimits(target, total, _bound(total, bounds, bounds), tuple(bounds))


def limits_after(limits: BatchLimits, load: BatchLoad) -> BatchLimits:
    """Return the limits of the next batch."""
    total = _total_after(limits, load)
    wants = tuple(map(_demand, load.taken, limits.sources))
    return replace(limits, total=total, sources=_bound(total, wants, limits.bounds))


def _bound(total: float, wants: Sequence[float], bounds: Sequence[float]) -> tuple[float, ...]:
    """Return the limits of the sources, none above its bound."""
    shares = divide(total, tuple(map(min, wants, bounds)))
    return tuple(map(min, shares, bounds))


def _total_after(limits: BatchLimits, load: BatchLoad) -> float:
    size, aim = sum(load.taken), AIM * limits.target
    if size <= 0:
        return limits.total
    fits = size * aim / max(load.seconds, 1e-6)
    ratio = min(max(fits / limits.total, 1 / STEP), STEP)
    full = any(map(_is_full, load.taken, limits.sources))
    if ratio < 1 and load.seconds > aim:
        return max(limits.total * math.pow(ratio, _LOWER), 1.0)
    if ratio > 1 and full:
        return limits.total * math.pow(ratio, _RAISE)
    return limits.total


def _is_full(size: float, limit: float) -> bool:
    return size > 0 and size >= _FULL * limit


def _demand(size: float, limit: float) -> float:
    """Return how much a source may provide next: no limit if it was full, else twice its last size."""
    return math.inf if _is_full(size, limit) else 2 * size


def divide(total: float, wants: Sequence[float]) -> tuple[float, ...]:
    """Divide a total among sources: max-min fair, and the rest in equal parts.

    A source gets its demand, or an equal part of what the others do not use.

    >>> divide(90.0, [10.0, float("inf"), float("inf")])
    (10.0, 40.0, 40.0)
    >>> divide(90.0, [10.0, 20.0])
    (40.0, 50.0)
    """
    shares, left = [0.0] * len(wants), total
    order = sorted(range(len(wants)), key=wants.__getitem__)
    for done, source in enumerate(order):
        shares[source] = min(wants[source], left / (len(wants) - done))
        left -= shares[source]
    return tuple(share + left / len(wants) for share in shares)
