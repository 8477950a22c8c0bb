"""Choose the files of a batch from those that a source has and a run has not read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from pyspark.sql import SparkSession

from substrait_agg.commit.documents.positions import ReadFile
from substrait_agg.errors import InputRefused
from substrait_agg.spark.positions.listing import FileListing, LocalListing, RemoteListing
from substrait_agg.spark.session.errors import SPARK_ERRORS
from substrait_agg.spark.sources.files import FoundFile, exists, local_location
from substrait_agg.spark.sources.specs import SourceSpec, Table


class FileSource:
    """The files of a table.

    Args:
        listing: finds files.
        spec: the source; its limits apply to a batch.
    """

    def __init__(self, listing: FileListing, spec: SourceSpec) -> None:
        self._listing, self._spec = listing, spec
        self._waiting: list[FoundFile] = []
        options = {name.lower(): value.lower() for name, value in spec.options}
        self._newest_first = options.get("latestfirst", "false") == "true"

    def look(self) -> None:
        """Look for new files.

        Raises:
            InputRefused: SOURCE_UNREADABLE, SOURCE_FILES_UNREAD.
        """
        new = self._listing.new()
        if new:
            self._waiting += new
            self._waiting.sort(key=_time_and_name, reverse=self._newest_first)

    @property
    def has_waiting(self) -> bool:
        """Return whether there are files that no batch has taken."""
        return bool(self._waiting)

    @property
    def most_bytes(self) -> float:
        """Return the limit of a batch that the user gives, in bytes; infinite without one."""
        return float("inf") if self._spec.batch_bytes is None else self._spec.batch_bytes

    def take(self, most_bytes: float) -> tuple[FoundFile, ...]:
        """Return the files of the next batch, at least one if any wait."""
        files = self._waiting[: self._spec.batch_files]
        total, count = 0, 0
        for file in files:
            total += file.size
            if count and total > min(most_bytes, self.most_bytes):
                break
            count += 1
        self._waiting = self._waiting[count:]
        return tuple(files[:count])


def _time_and_name(file: FoundFile) -> tuple[int, str]:
    return file.modified, file.uri


def file_source(spark: SparkSession, spec: SourceSpec, read: Iterable[ReadFile]) -> FileSource:
    """Return the files of a table whose location is absolute, without those that have been read."""
    path, rules = local_location(spark, spec.location), spec.file_rules
    uris = (file.uri for file in read)
    listing: FileListing = (
        RemoteListing(spark, spec.location, rules, uris)
        if path is None
        else LocalListing(path, rules, uris)
    )
    return FileSource(listing, spec)


def missing_file(
    spark: SparkSession, files: Mapping[Table, Sequence[FoundFile]]
) -> InputRefused | None:
    """Return the error for the first file of a failed batch that no longer exists; None if all exist."""
    for file in (file for found in files.values() for file in found):
        with suppress(*SPARK_ERRORS):
            if not exists(spark, file.uri):
                return InputRefused(
                    "SOURCE_FILE_GONE",
                    "a file of the current batch no longer exists",
                    help="restore the file and run again, or run again without it; nothing of the batch was committed",
                    path=file.uri,
                )
    return None
