"""Delete files that are no longer needed.

These are the state of old versions, the files of failed attempts and, on request, old changes.
"""

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
class VacuumResult:
    """What a vacuum deletes.

    Attributes:
        state_from: the first version whose state is kept.
        changes_from: the first version whose changes and snapshot are kept.
        held_by: the output that still needs older changes, empty for none.
        files: number of files by folder.
        bytes: bytes of the files by folder.
        dry_run: whether nothing was deleted.
    """

    state_from: int
    changes_from: int
    held_by: str
    files: dict[str, int]
    bytes: dict[str, int]
    dry_run: bool

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return asdict(self)


def vacuum(
    checkpoint: Checkpoint,
    retention: Retention,
    *,
    changes: bool = False,
    dry_run: bool = False,
    no_run: bool = False,
) -> VacuumResult:
    """Delete the files that no kept version names.

    The new retention record is written first. After a kill, another vacuum deletes the rest.

    Args:
        checkpoint: the checkpoint.
        retention: which versions keep their state.
        changes: also delete snapshots and changes of versions that do not keep their state, if all
            outputs have received them.
        dry_run: only return what would be deleted.
        no_run: the user confirms that no run is active, for checkpoints that cannot be locked.

    Raises:
        StateRefused: CHECKPOINT_BUSY, CHECKPOINT_NOT_LOCKED, ROLLBACK_UNFINISHED, STATE_DAMAGED.
    """
    with lock_for_tool(checkpoint.folder, alone=no_run):
        checkpoint.check_runnable()
        if not dry_run and checkpoint.newest_snapshot() is not None:
            # The lock may not show a run that is suspended or on another machine. From here on,
            # such a run stops with a conflict. Read the newest version again, because it may have
            # committed before.
            checkpoint.claim()
        newest = checkpoint.newest_snapshot()
        if newest is None:
            return VacuumResult(0, 0, "", {}, {}, dry_run)
        retention_state, held_by = expire(checkpoint, newest, retention), ""
        if changes:
            delivered, held_by = _find_delivered(checkpoint, retention_state.state_from)
            retention_state = replace(
                retention_state, changes_from=max(retention_state.changes_from, delivered)
            )
        doomed = _find_doomed(checkpoint, retention_state, newest)
        result = VacuumResult(
            retention_state.state_from,
            retention_state.changes_from,
            held_by,
            {name: len(paths) for name, paths in doomed.items()},
            {name: sum(map(_size, paths)) for name, paths in doomed.items()},
            dry_run,
        )
        if not dry_run:
            checkpoint.keep(replace(retention_state, swept=newest.version))
            for path in (path for paths in doomed.values() for path in paths):
                filesystem().remove(path)
        return result


def _find_delivered(checkpoint: Checkpoint, before: int) -> tuple[int, str]:
    """Return the version before which all outputs have received everything, at most `before`.

    Returns:
        The version, and the output that limits it (empty for none).
    """
    output = ""
    for record in records(checkpoint.folder):
        state = record.read()
        if state is not None:
            following = 0 if state[0] is None else state[0] + 1
            if following < before:
                before, output = following, record.output
    return before, output


def _find_doomed(
    checkpoint: Checkpoint, retention: RetentionState, newest: Snapshot
) -> dict[str, list[Location]]:
    """Return the files to delete by folder. Snapshots of old versions are last, oldest first."""
    # No run is active, so check swept versions again, and delete files of versions that do not
    # exist.
    everything = replace(retention, swept=-1)

    def of(
        files: FolderFiles, find: Callable[[Checkpoint, RetentionState, int], Iterable[str]]
    ) -> list[Location]:
        """Return the files of a folder to delete: unneeded ones, and those of unfinished versions."""
        file_names = find(checkpoint, everything, newest.version)
        later = (n for n in files.names() if (version_of(n) or 0) > newest.version)
        paths = (files.path(name) for name in (*file_names, *later))
        return [path for path in paths if not _is_folder(path)]  # only files are checkpoint files

    old = [v for v in checkpoint.versions() if v < retention.changes_from]
    return {
        "drafts": [checkpoint.folder / name for name in drafts(checkpoint)],
        "state": of(checkpoint.state, unneeded_state),
        "changes": of(checkpoint.changes, unneeded_changes),
        "snapshots": [checkpoint.snapshots.path(snapshot_name(v)) for v in old],
    }


def _is_folder(path: Location) -> bool:
    return isinstance(path, Path) and path.is_dir() and not path.is_symlink()


def _size(path: Location) -> int:
    """Return the size of a file, or of a link itself, whose target may not exist."""
    return (
        filesystem().size(path) if isinstance(path, Remote) else filesystem().status(path).st_size
    )
