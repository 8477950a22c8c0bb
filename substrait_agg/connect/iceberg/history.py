"""The snapshots of an Iceberg table that were current, in their order.

The log of snapshots in the metadata does not say that: pyiceberg writes all snapshots of one commit
to it. The earlier files of the metadata do, as each commit writes one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

SIZES = ("added-files-size", "removed-files-size")
"""Keys of the summary of a snapshot: bytes of the files that it has written and removed."""


class IcebergHistory:
    """Reads which snapshots were current; keeps what it has read of files of metadata."""

    def __init__(self) -> None:
        self._current: dict[str, int | None] = {}

    def steps(self, table: Table, after: int | None, most_bytes: float) -> list[int | None]:
        """Return the end of the next batch, then the commits that are left.

        The newest snapshot ends the batch if it fits, or if earlier metadata are gone. Only what
        the table still has can end a batch.

        Args:
            table: the table in its newest state.
            after: the snapshot that was read last; None before the first one.
            most_bytes: about the most bytes to read.
        """
        newest = _current(table.metadata)
        if newest == after:
            return []
        if _cost(table.metadata, newest, after) <= most_bytes:
            return [newest]
        commits = [*self._between(table, after), newest]
        end, spent = 0, 0.0
        for number, commit in enumerate(commits):
            spent += _cost(table.metadata, commit, commits[number - 1] if number else after)
            if spent > most_bytes:
                break
            end = number
        return commits[end:]

    def _between(self, table: Table, after: int | None) -> list[int | None]:
        """Return the snapshots between `after` and the newest one, ascending."""
        existing = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
        snapshots: list[int | None] = []
        last = _current(table.metadata)
        for entry in reversed(table.metadata.metadata_log):
            try:
                current = self._current_of(table, entry.metadata_file)
            except FileNotFoundError:
                break
            if current == after:
                break
            if current != last and current in existing:
                snapshots.append(current)
            last = current
        files = {entry.metadata_file for entry in table.metadata.metadata_log}
        self._current = {file: id_ for file, id_ in self._current.items() if file in files}
        return snapshots[::-1]

    def _current_of(self, table: Table, file: str) -> int | None:
        from pyiceberg.serializers import FromInputFile

        if file not in self._current:
            self._current[file] = _current(FromInputFile.table_metadata(table.io.new_input(file)))
        return self._current[file]


def _current(metadata: TableMetadata) -> int | None:
    snapshot = metadata.current_snapshot()
    return snapshot.snapshot_id if snapshot else None


def _cost(metadata: TableMetadata, snapshot: int | None, after: int | None) -> float:
    """Return about the bytes to read from one snapshot to a later one; infinite if unknown."""
    return sum(_sizes(metadata, snapshot, after))


def _sizes(metadata: TableMetadata, snapshot: int | None, after: int | None) -> Iterator[float]:
    while snapshot is not None and snapshot != after:
        state = metadata.snapshot_by_id(snapshot)
        if state is None:  # `after` is no ancestor, or snapshots between them have expired
            yield float("inf")
            return
        summary = state.summary.additional_properties if state.summary else {}
        yield sum(float(summary.get(key) or 0) for key in SIZES)
        snapshot = state.parent_snapshot_id
