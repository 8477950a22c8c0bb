"""Follow the changes of a view in a streaming query. The offset is a version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from substrait_agg.errors import StateRefused, UsageError
from substrait_agg.spark.data_source.options import ReadOptions
from substrait_agg.spark.data_source.partitions import read_partition, report_errors

if TYPE_CHECKING:
    from substrait_agg.commit.view.view import View

_VERSION, _ATTEMPT = "version", "attempt"
Offset = dict[str, Any]
"""The last version that has been read, and the id of the attempt that committed it.

It is empty before the first version.
"""


class ViewStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the changes after a version, or first the rows of a version as insertions.

    Raises:
        UsageError: OPTION_INVALID without ``changes``, OPTION_CONFLICT with ``until``.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        if options.content == "rows":
            raise UsageError(
                "OPTION_INVALID",
                "a stream reads changes, and there is no option changes",
                help="set changes to rows (the rows of the view, then its changes), all, or a version",
                path="changes",
            )
        if options.until is not None:
            raise UsageError(
                "OPTION_CONFLICT",
                "a stream has no last version, but until is set",
                help="remove it, or read without a stream",
                path="until",
            )
        self._options = options
        self._schema = schema
        self._last: int | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return the version after which changes are read, or an empty offset."""
        since = self._options.since
        if self._options.content == "rows as changes" or since is None:
            return {}
        return self._offset(since)

    def _view(self) -> View:
        from substrait_agg.spark.data_source.planning import view_of

        return view_of(self._options)

    def _offset(self, version: int) -> Offset:
        with report_errors():
            attempt = self._view().attempt(version)
        return {_VERSION: version} if attempt is None else {_VERSION: version, _ATTEMPT: attempt}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Read up to the version that is the newest now."""
        with report_errors():
            self._last = self._view().version

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the number of versions to read in a micro-batch. Spark calls them files."""
        most = self._options.versions_per_batch
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """Return the newest version, or the last one within a limit."""
        with report_errors():
            view = self._view()
            newest = view.version if self._last is None else self._last
            if not start:
                return self._first(newest, limit, view.versions())
            read = start[_VERSION]
            self._check_continues(start, newest)
        end = min(newest, read + limit.max_files) if isinstance(limit, ReadMaxFiles) else newest
        return start if end <= read else self._offset(end)

    def _first(self, newest: int, limit: ReadLimit, versions: list[int]) -> Offset:
        """Return the end of the first batch."""
        if newest < 0:
            return {}
        if self._options.content == "rows as changes":
            version = self._options.version
            return self._offset(newest if version is None else version)
        if isinstance(limit, ReadMaxFiles):
            newest = min(newest, versions[0] + limit.max_files - 1)
        return self._offset(newest)

    def _check_continues(self, start: Mapping[str, Any], newest: int) -> None:
        """Refuse to continue after versions that a rollback removed."""
        read = start[_VERSION]
        attempt = self._view().attempt(read)
        if read <= newest and attempt in (None, start.get(_ATTEMPT)):
            return
        raise StateRefused(
            "VERSION_ROLLED_BACK",
            f"the stream has read version {read}, which a rollback has removed since",
            help="start the stream again with a new checkpoint location, and with changes=rows",
            path=self._options.path,
        )

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return partitions of the rows or changes between two offsets."""
        if start == end:
            return []
        from substrait_agg.spark.data_source.planning import changes_partitions, rows_partitions

        with report_errors():
            view, until = self._view(), end[_VERSION]
            if not start and self._options.content == "rows as changes":
                return rows_partitions(self._options, view, until, self._schema)
            return changes_partitions(view, start.get(_VERSION), until, self._schema)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        return read_partition(partition, self._schema)
