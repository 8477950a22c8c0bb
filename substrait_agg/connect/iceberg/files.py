"""The difference of two snapshots of an Iceberg table: the files that only one of them has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from substrait_agg.connect.snapshots import net_files
from substrait_agg.connect.spool import spool_rows
from substrait_agg.connect.weights import add_weight

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import FileScanTask, Table

Key = tuple[str, frozenset[str]]
"""Path of a file, and the paths of the files that delete rows of it."""


def find_differences(
    table: Table, old: int | None, new: int | None
) -> Mapping[int, Sequence[FileScanTask]]:
    """Return the files whose rows are gone, by weight -1, and those whose rows are new, by weight 1.

    A file that both snapshots have with the same deletions is not part of it.

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
        removed, come = _planned_files(table, old), _planned_files(table, new)
    else:
        removed = _files_of(table, [m for m in before if m not in after])
        come = _files_of(table, [m for m in after if m not in before])
    tasks = {_key(task): task for task in (*removed, *come)}
    counts = net_files(map(_key, come), map(_key, removed)).items()
    return {
        sign: [tasks[key] for key, count in counts for _ in range(sign * count)] for sign in (-1, 1)
    }


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
    return spool_rows(scan.to_record_batches(tasks), add_weight(to), weight)
