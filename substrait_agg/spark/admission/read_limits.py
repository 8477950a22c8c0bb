"""Set the limits of the next batch on the sources of a running query of Spark.

Spark reads the limit of a source from its options once, when the query starts, and asks the source
for the next offset with it before every batch. The limits are in a field of the query. They are
replaced while a batch runs, when Spark does not read them. Spark writes the offsets of a batch to
its log before the batch runs, and a restarted query takes a planned batch from the log, so a
different limit never changes a batch that was planned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession

from substrait_agg.commit.documents.snapshot import AdmissionRecord
from substrait_agg.errors import RunFailed, UsageError
from substrait_agg.redaction import safe_cause
from substrait_agg.run_options import RunOptions
from substrait_agg.spark.admission.controller import BatchLoad, first_limits, limits_after
from substrait_agg.spark.session.errors import SPARK_ERRORS
from substrait_agg.spark.sources.open import is_static
from substrait_agg.spark.sources.readers import LIMITS
from substrait_agg.spark.sources.specs import SourceSpec, as_spec

FIRST_BYTES = 4 << 20
"""Limit of the first batch of a checkpoint, in bytes."""

_MOST = 2**62

Name = TypeVar("Name")


def first_bytes(target: float, stored: AdmissionRecord | None) -> int:
    """Return the limit of the first batch of a run, in bytes.

    Args:
        target: the duration that a batch should not exceed, in seconds.
        stored: the limit of the last batch of the checkpoint; None without one. A limit that an
            earlier run has learned is kept, in proportion to the targets of both runs.
    """
    if stored is None or stored.bytes <= 0 or stored.target <= 0:
        return FIRST_BYTES
    return max(1, min(int(stored.bytes * (target * 1e6 / stored.target)), _MOST))


def with_first_limits(
    sources: Mapping[Name, str | SourceSpec | DataFrame],
    options: RunOptions,
    stored: AdmissionRecord | None = None,
) -> Mapping[Name, str | SourceSpec | DataFrame]:
    """Return the sources with a limit for their first batch, if the run has a target duration.

    Raises:
        UsageError: ``LATENCY_NOT_SUPPORTED``: a source is a stream that is not one of files.
    """
    if options.target_seconds is None:
        return sources
    streams = [name for name, source in sources.items() if not is_static(source)]
    limit = max(1, first_bytes(options.target_seconds, stored) // max(1, len(streams)))
    return {
        name: _with_first_limit(name, source, limit) if name in streams else source
        for name, source in sources.items()
    }


def _with_first_limit(name: object, source: str | SourceSpec | DataFrame, limit: int) -> SourceSpec:
    spec = None if isinstance(source, DataFrame) else as_spec(source)
    if spec is None or not spec.is_files:
        table = ".".join(name) if isinstance(name, tuple) else str(name)
        kind = "a DataFrame" if spec is None else spec.format
        raise UsageError(
            "LATENCY_NOT_SUPPORTED",
            f"--latency limits batches of files, and the source of {table} is {kind}",
            help="remove --latency, or give the table as files: FORMAT:LOCATION",
            path="latency",
        )
    return replace(spec, first_bytes=limit)


def has_own_limit(source: str | SourceSpec | DataFrame) -> bool:
    """Return whether the user limits the batches of a source."""
    spec = None if isinstance(source, DataFrame) else as_spec(source)
    return spec is not None and (
        spec.batch_files is not None or any(k.lower() in LIMITS for k, _ in spec.options)
    )


@dataclass(slots=True)
class _FileSource:
    """A source of the query.

    Attributes:
        most_files: the greatest number of files of a batch; None if the limit is in bytes.
        file_bytes: the mean size of the files of the last batch that had any.
    """

    most_files: int | None
    file_bytes: float = 1.0


class AdmissionControl:
    """Limits the batches of a query so that they take less than a target duration.

    Args:
        spark: the session that started the query.
        target: the duration, in seconds.
        bounded: whether the user limits a source, by source in the order of the stream.
        stored: the limit of the last batch of the checkpoint; None without one.
    """

    def __init__(
        self,
        spark: SparkSession,
        target: float,
        bounded: Sequence[bool],
        stored: AdmissionRecord | None = None,
    ) -> None:
        self._spark, self._bounded = spark, tuple(bounded)
        self._sources: list[_FileSource] = []
        total = first_bytes(target, stored)
        self.limits = first_limits(target, total, [math.inf] * len(self._bounded))
        self._current = self.limits

    @property
    def target(self) -> float:
        """Return the duration that a batch should not exceed, in seconds."""
        return self.limits.target

    @property
    def limit(self) -> int:
        """Return the limit of the batch in progress, or else of the last one, in bytes."""
        return int(self._current.total)

    @property
    def record(self) -> AdmissionRecord:
        """Return the limit of the batch in progress as its version stores it."""
        limit = min(self.limit, _MOST)
        return AdmissionRecord(max(1, limit), round(self.target * 1e6))

    def begin(self) -> None:
        """Begin a batch: the limits that were set last apply to it."""
        self._current = self.limits

    def end(self, query: str, seconds: float, files: Sequence[int]) -> None:
        """End a batch, and set the limits of the next one.

        Args:
            query: id of the query.
            seconds: duration of the batch.
            files: number of its files, by source; empty if that is not known.

        Raises:
            RunFailed: ``LATENCY_NOT_SUPPORTED``: this release of Spark keeps limits elsewhere.
        """
        try:
            self._end(query, seconds, files)
        except (*SPARK_ERRORS, TypeError, ValueError) as error:
            raise RunFailed(
                "LATENCY_NOT_SUPPORTED",
                "this release of Spark cannot change the limits of batches during a run",
                help="remove --latency, and limit the batches with batch-files= in the sources",
            ) from safe_cause(error)

    def _end(self, query: str, seconds: float, files: Sequence[int]) -> None:
        session: Any = self._spark._jsparkSession
        execution = session.streams().get(query).streamingQuery()
        sources = [execution.sources().apply(i) for i in range(execution.sources().size())]
        if not self._sources:
            self._open([execution.uniqueSources().apply(source) for source in sources])
        sizes = _bytes_read(execution)
        if len(files) != len(sources) or len(sizes) != len(sources):
            raise ValueError("the sources of the batch are not those of the query")
        for source, count, size in zip(self._sources, files, sizes, strict=True):
            source.file_bytes = size / count if count else source.file_bytes
        self.limits = limits_after(self.limits, BatchLoad(seconds, sizes))
        limits: Any = self._spark._jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit  # type: ignore[union-attr]
        unique_sources = execution.uniqueSources()
        for source, own, most in zip(sources, self._sources, self.limits.sources, strict=True):
            unique_sources = unique_sources.updated(source, _read_limit(limits, own, most))
        getattr(execution, "uniqueSources_$eq")(unique_sources)

    def _open(self, limits: Sequence[Any]) -> None:
        """Take over the limits that the sources have from their options."""
        bounds = []
        for limit, bounded in zip(limits, self._bounded, strict=True):
            kind = limit.getClass().getSimpleName()
            if kind not in ("ReadMaxFiles", "ReadMaxBytes"):
                raise ValueError(kind)
            of_files = kind == "ReadMaxFiles"
            self._sources.append(_FileSource(limit.maxFiles() if of_files else None))
            bounds.append(limit.maxBytes() if bounded and not of_files else math.inf)
        self.limits = replace(self.limits, bounds=tuple(bounds))


def _bytes_read(execution: Any) -> tuple[float, ...]:
    """Return the bytes of the files of the batch in progress, by source."""
    leaves = execution.lastExecution().analyzed().collectLeaves()
    nodes = (leaves.apply(place) for place in range(leaves.size()))
    return tuple(
        float(leaf.relation().location().sizeInBytes())
        if leaf.getClass().getSimpleName() == "LogicalRelation"
        else 0.0
        for leaf in nodes
    )


def _read_limit(limits: Any, source: _FileSource, most: float) -> Any:
    if source.most_files is None:
        return limits.maxBytes(max(1, min(int(most), _MOST)))
    files = int(most / source.file_bytes)
    return limits.maxFiles(max(1, min(files, source.most_files)))
