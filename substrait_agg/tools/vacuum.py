"""Deleting what is not needed any more: state of old versions, what failed attempts left, and changes only if asked to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from substrait_agg.commit.documents.file_names import snapshot_name, version_of
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.snapshot import Snapshot
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.locking import lock_for_tool
from substrait_agg.commit.log.retention import Retention, RetentionState
from substrait_agg.commit.log.sweep import expire, unneeded_changes, unneeded_state
from substrait_agg.files.filesystem import filesystem
from substrait_agg.files.locations import Location, Remote
from substrait_agg.tools.checks.orphan_files import drafts
from substrait_agg.tools.rollback.sinks import records


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """What a vacuum deletes.

    Attributes:
        state_from: the first version whose state is kept.
        changes_from: the first version whose changes and snapshot are kept.
        held_by: the output that needs changes of older versions than were to go, empty for none.
        files: number of files by folder.
        bytes: of them, by folder.
        dry_run: whether nothing was deleted.
    """

    state_from: int
    changes_from: int
    held_by: str
    files: dict[str, int]
    bytes: dict[str, int]
    dry_run: bool

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def vacuum(
    checkpoint: Checkpoint,
    retention: Retention,
    *,
    changes: bool = False,
    dry_run: bool = False,
    no_run: bool = False,
) -> Vacuumed:
    """Delete what no kept version names.

    What is kept from now on is noted first; after a kill, vacuum again finds the rest.

    Args:
        checkpoint: which.
        retention: the versions that keep their state.
        changes: also delete snapshots and changes of versions that do not keep their state, as far as all outputs have had them.
        dry_run: only tell what would be deleted.
        no_run: no run is going on, says the user; for file systems and stores where no lock tells.

    Raises:
        StateRefused: CHECKPOINT_BUSY, CHECKPOINT_NOT_LOCKED, ROLLBACK_UNFINISHED, STATE_DAMAGED.
    """
    with lock_for_tool(checkpoint.folder, alone=no_run):
        checkpoint.check_runnable()
        if not dry_run and checkpoint.latest() is not None:
            # A run of which the lock does not tell, on another machine or asleep, stops with a conflict from here on; what it has
            # committed until then is looked at.
            checkpoint.claim()
        newest = checkpoint.latest()
        if newest is None:
            return Vacuumed(0, 0, "", {}, {}, dry_run)
        kept, held_by = expire(checkpoint, newest, retention), ""
        if changes:
            wanted, held_by = _delivered(checkpoint, kept.state_from)
            kept = replace(kept, changes_from=max(kept.changes_from, wanted))
        doomed = _doomed(checkpoint, kept, newest)
        told = Vacuumed(
            kept.state_from,
            kept.changes_from,
            held_by,
            {name: len(paths) for name, paths in doomed.items()},
            {name: sum(map(_size, paths)) for name, paths in doomed.items()},
            dry_run,
        )
        if not dry_run:
            checkpoint.keep(replace(kept, swept=newest.version))
            for path in (path for paths in doomed.values() for path in paths):
                filesystem().remove(path)
        return told


def _delivered(checkpoint: Checkpoint, wanted: int) -> tuple[int, str]:
    """The version before which all outputs have had everything, at most `wanted`, and the output that is in the way."""
    held = ""
    for record in records(checkpoint.folder):
        told = record.read()
        if told is not None:
            following = 0 if told[0] is None else told[0] + 1
            if following < wanted:
                wanted, held = following, record.output
    return wanted, held


def _doomed(
    checkpoint: Checkpoint, kept: RetentionState, newest: Snapshot
) -> dict[str, list[Location]]:
    """Files to delete by folder; the snapshots of old versions are the last, the oldest of them first."""
    # No run goes on, so nothing is under way: what was swept once is looked at again, and what has no version yet goes.
    everything = replace(kept, swept=-1)

    def of(
        files: FolderFiles, find: Callable[[Checkpoint, RetentionState, int], Iterable[str]]
    ) -> list[Location]:
        known = find(checkpoint, everything, newest.version)
        later = (n for n in files.names() if (version_of(n) or 0) > newest.version)
        paths = (files.path(name) for name in (*known, *later))
        return [path for path in paths if not _is_folder(path)]  # no folder is ours

    old = [v for v in checkpoint.versions() if v < kept.changes_from]
    return {
        "drafts": [checkpoint.folder / name for name in drafts(checkpoint)],
        "state": of(checkpoint.state, unneeded_state),
        "changes": of(checkpoint.changes, unneeded_changes),
        "snapshots": [checkpoint.snapshots.path(snapshot_name(v)) for v in old],
    }


def _is_folder(path: Location) -> bool:
    return isinstance(path, Path) and path.is_dir() and not path.is_symlink()


def _size(path: Location) -> int:
    """Of a link what itself takes: it may lead nowhere."""
    return (
        filesystem().size(path) if isinstance(path, Remote) else filesystem().status(path).st_size
    )
