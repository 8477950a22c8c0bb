"""Compute the checksums of the views of a version from its changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from substrait_agg.commit.checksums.sums import add_rows
from substrait_agg.commit.documents.snapshot import Snapshot
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.publishing import translate_write_errors
from substrait_agg.commit.view.view import View
from substrait_agg.operator.common.names import VERSION, WEIGHT

_ROWS_AT_ONCE = 1 << 16


def with_checksums(checkpoint: Checkpoint, version: Snapshot, last: Snapshot | None) -> Snapshot:
    """Return a version with the checksum of each view.

    Args:
        checkpoint: the change files of the version are complete.
        version: the version to publish.
        last: the version before; None for the first one.

    Raises:
        RunFailed: a change file cannot be read.
    """
    with translate_write_errors(checkpoint.folder, f"version {version.version}"):
        if not version.views:
            return replace(version, checksum=_after(checkpoint, "", version, last))
        views = {
            name: replace(of_view, checksum=_after(checkpoint, name, version, last))
            for name, of_view in version.views.items()
        }
        return replace(version, views=views)


def rows_checksum(view: View, version: int) -> int:
    """Return the checksum of the rows of a version whose state is kept.

    Raises:
        StateRefused: VERSION_UNKNOWN, VERSION_EXPIRED, STATE_DAMAGED.
    """
    checksum = 0
    for batch in view.to_reader(version):
        checksum = add_rows(checksum, pa.Table.from_batches([batch]))
    return checksum


def _after(checkpoint: Checkpoint, name: str, version: Snapshot, last: Snapshot | None) -> int:
    """Return the checksum of a view after the changes of a version."""
    of_view = version.of_view(name)
    checksum = 0
    if last is not None and of_view.begun != version.version:
        before = last.of_view(name).checksum
        if before is None:
            before = rows_checksum(View(checkpoint, name), last.version)
        checksum = before
    schema = checkpoint.document_of(version.plan).view_schema(name)
    positions = () if schema is None else schema.positions
    for file in of_view.changes:
        with checkpoint.changes.map(file.name) as source:
            for batch in pq.ParquetFile(source).iter_batches(_ROWS_AT_ONCE):
                rows, weights = _split(pa.Table.from_batches([batch]), positions)
                checksum = add_rows(checksum, rows, weights)
    return checksum


def _split(changes: pa.Table, positions: Sequence[int]) -> tuple[pa.Table, npt.NDArray[np.int64]]:
    """Return the rows of a view, and their weights."""
    weights = changes.column(WEIGHT).to_numpy()
    if positions:
        return changes.select([f"c{i}" for i in positions]), weights
    return changes.drop_columns([VERSION, WEIGHT]), weights
