"""Limit what the next batch reads from each table of files, if a run has a target duration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame

from substrait_agg.commit.documents.snapshot import AdmissionRecord
from substrait_agg.errors import UsageError
from substrait_agg.spark.admission.controller import BatchLoad, first_limits, limits_after
from substrait_agg.spark.sources.open import is_static
from substrait_agg.spark.sources.specs import SourceSpec, Table, as_spec

FIRST_BYTES = 4 << 20
"""Limit of the first batch of a checkpoint, in bytes."""

_MOST = 2**62


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
