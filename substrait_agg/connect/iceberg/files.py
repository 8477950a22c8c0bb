"""The difference of two snapshots of an Iceberg table: the files that only one of them has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from substrait_agg.connect.protocol import WEIGHT

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import FileScanTask, Table

Key = tuple[str, frozenset[str]]
"""Path of a file, and of those that delete rows of it; one of them says it once of a file."""


@dataclass(frozen=True, slots=True)
class IcebergDifference:
    """What lies between two snapshots.

    Attributes:
        gone: files to read whose rows are gone.
        new: files to read whose rows are new.
    """

    gone: Sequence[FileScanTask]
    new: Sequence[FileScanTask]

    @classmethod
    def between(cls, table: Table, old: int | None, new: int | None) -> IcebergDifference:
        """Return the difference; a file that both have with the same deletions is not part of it.

        Args:
            table: the table, which has both snapshots.
            old: id of a snapshot; None for the table before its first one.
            new: id of the other one.

        Raises:
            ValueError, NotImplementedError: a snapshot has deletions by values.
            FileNotFoundError: a file is gone.
        """
        before, after = _manifests(table, old), _manifests(table, new)
        if any(map(_deletes, (*before, *after))):
            tasks = _planned_files(table, old), _planned_files(table, new)
        else:
            tasks = (
                _files_of(table, [m for m in before if m not in after]),
                _files_of(table, [m for m in after if m not in before]),
            )
        return cls(_without(*tasks), _without(*reversed(tasks)))


def _manifests(table: Table, snapshot: int | None) -> dict[ManifestFile, None]:
    state = None if snapshot is None else table.metadata.snapshot_by_id(snapshot)
    return dict.fromkeys(state.manifests(table.io)) if state else {}


def _deletes(manifest: ManifestFile) -> bool:
    from pyiceberg.manifest import ManifestContent

    return manifest.content == ManifestContent.DELETES


def _planned_files(table: Table, snapshot: int | None) -> list[FileScanTask]:
    """Return all files of a snapshot with what deletes rows of them."""
    return [] if snapshot is None else list(table.scan(snapshot_id=snapshot).plan_files())


def _files_of(table: Table, manifests: Iterable[ManifestFile]) -> list[FileScanTask]:
    """Return the files of some manifests, of which nothing is deleted."""
    from pyiceberg.table import FileScanTask

    return [
        FileScanTask(entry.data_file)
        for manifest in manifests
        for entry in manifest.fetch_manifest_entry(table.io)
    ]


def _without(tasks: Sequence[FileScanTask], others: Sequence[FileScanTask]) -> list[FileScanTask]:
    """Return tasks as often as they are more than in `others`."""
    more = Counter(map(_key, tasks))
    more.subtract(map(_key, others))
    by_key = {_key(task): task for task in tasks}
    return [by_key[key] for key, count in more.items() for _ in range(count)]


def _key(task: FileScanTask) -> Key:
    return task.file.file_path, frozenset(file.file_path for file in task.delete_files)


def read_files(table: Table, tasks: Sequence[FileScanTask], to: pa.Schema, weight: int) -> pa.Table:
    """Return columns of files with one weight.

    Raises:
        FileNotFoundError: a file is gone.
        OSError, ValueError, pyarrow.ArrowException: a file cannot be read.
    """
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan

    schema = table.schema()
    # Without a column, rows would have no number.
    names = to.names or [schema.fields[0].name]
    scan = ArrowScan(table.metadata, table.io, schema.select(*names), AlwaysTrue())
    rows = scan.to_table(tasks).select(names)
    if to.names:
        rows = rows.cast(to)
    weights = pa.repeat(pa.scalar(weight, pa.int64()), rows.num_rows)
    return rows.append_column(WEIGHT, weights).select([*to.names, WEIGHT])
