"""Check that the view is the sum of all changes.

The sum starts with the empty view, or with the view of the oldest kept version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from substrait_agg.commit.documents.file_names import snapshot_name
from substrait_agg.commit.documents.snapshot import Snapshot
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.view.version_checksums import rows_checksum
from substrait_agg.commit.view.view import View
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.tools.checks.findings import FindingCollector
from substrait_agg.tools.checks.rows import ROWS_AT_ONCE, comparable_rows, consolidate, sign_rows


def check_view(
    checkpoint: Checkpoint, snapshots: Sequence[Snapshot], findings: FindingCollector
) -> int:
    """Compare each view of the newest version with its changes.

    Args:
        checkpoint: its change files and runs are undamaged.
        snapshots: all existing ones, ascending, at least one.
        findings: takes the findings.

    Returns:
        The number of changes that were added up.
    """
    names = [view.name for view in checkpoint.document_of(snapshots[-1].plan).view_schemas]
    return sum(
        _check_one(View(checkpoint, name), checkpoint, snapshots, findings) for name in names
    )


def _check_one(
    view: View, checkpoint: Checkpoint, snapshots: Sequence[Snapshot], findings: FindingCollector
) -> int:
    """Compare one view with its changes; return the number of changes that were added up."""
    newest = snapshots[-1].version
    begun = snapshots[-1].of_view(view.name).begun
    base = _base(checkpoint, snapshots[0].version, begun)
    parts: list[Iterable[pa.Table]] = [sign_rows(view_rows(view, newest), -1)]
    if base is not None:
        parts.append(sign_rows(view_rows(view, base), 1))
    covered = [s for s in snapshots if s.version >= begun and (base is None or s.version > base)]
    changed = 0

    def changes() -> Iterator[pa.Table]:
        """Yield the changes in spans of versions, and count their rows."""
        nonlocal changed
        for first, last in _spans(covered, view.name):
            table = view.between(first, last)
            changed += table.num_rows
            yield comparable_rows(table.columns[:-2], table.column(WEIGHT))

    left = consolidate(part for some in (*parts, changes()) for part in some)
    wrong = int(np.abs(left.column(WEIGHT).to_numpy()).sum())
    if wrong:
        since = (
            f"all changes from version {begun} on"
            if base is None and begun
            else "all changes"
            if base is None
            else f"the view of version {base} and the changes after it"
        )
        which = f"the view {view.name}" if view.name else "the view"
        message = f"{which} of version {newest} is not the sum of {since}: {wrong} rows differ"
        findings.fault("VIEW_DIFFERS", f"snapshots/{snapshot_name(newest)}", message)
    _check_checksum(view, snapshots[-1], findings)
    for snapshot in snapshots:
        _check_retractions(view, snapshots, snapshot, findings)
    return changed


def _check_checksum(view: View, newest: Snapshot, findings: FindingCollector) -> None:
    """Compare the checksum of the newest version with that of its rows."""
    stored = newest.of_view(view.name).checksum
    computed = stored if stored is None else rows_checksum(view, newest.version)
    if computed != stored:
        which = f"the view {view.name}" if view.name else "the view"
        message = f"{which} has the checksum {computed}, and its version says {stored}"
        path = f"snapshots/{snapshot_name(newest.version)}"
        findings.fault("CHECKSUM_DIFFERS", path, message)


def _check_retractions(
    view: View, snapshots: Sequence[Snapshot], snapshot: Snapshot, findings: FindingCollector
) -> None:
    """Check the retractions at a change of plan: they must cancel the changes of the old plan."""
    back = view.retractions(snapshot.version)
    by_version = {s.version: s for s in snapshots}
    before = by_version.get(snapshot.version - 1)
    if back is None or before is None or before.of_view(view.name).begun not in by_version:
        return
    versions_before = [
        by_version[v] for v in range(before.of_view(view.name).begun, snapshot.version)
    ]
    changes = (view.between(first, last) for first, last in _spans(versions_before, view.name))
    parts = (comparable_rows(t.columns[:-2], t.column(WEIGHT)) for t in (back, *changes))
    wrong = int(np.abs(consolidate(parts).column(WEIGHT).to_numpy()).sum())
    if wrong:
        message = f"it does not retract the view of the previous plan: {wrong} rows differ"
        findings.fault("VIEW_DIFFERS", f"snapshots/{snapshot_name(snapshot.version)}", message)


def _base(checkpoint: Checkpoint, first: int, begun: int) -> int | None:
    """Return the version to start with; None for the empty view.

    The sum starts with the empty view if all versions of the current plan exist, else with the
    oldest version whose view can be read.
    """
    return None if first <= begun else max(checkpoint.retention_state().state_from, first)


def _spans(snapshots: Sequence[Snapshot], view: str) -> Iterator[tuple[int, int]]:
    """Yield the first and last versions of spans with about `ROWS_AT_ONCE` changes."""
    first, rows = None, 0
    for snapshot in snapshots:
        first = snapshot.version if first is None else first
        rows += sum(change.rows for change in snapshot.of_view(view).changes)
        if rows > ROWS_AT_ONCE:
            yield first, snapshot.version
            first, rows = None, 0
    if first is not None:
        yield first, snapshots[-1].version


def view_rows(view: View, version: int) -> Iterator[pa.Table]:
    """Yield the rows of a view in pieces, in no order."""
    return (pa.Table.from_batches([batch]) for batch in view.to_reader(version))
