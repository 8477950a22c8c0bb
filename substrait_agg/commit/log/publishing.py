"""Parts of a commit besides the snapshot.

`files_to_flush` finds the files that have to be durable before a version. `translate_write_errors` and `warn_of_leftovers` turn failures of the
file system into errors and warnings that users understand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from substrait_agg.commit.documents.file_names import version_of
from substrait_agg.commit.documents.files import DRAFT, FolderFiles, OutcomeUnknown
from substrait_agg.commit.documents.positions import FileList
from substrait_agg.commit.documents.snapshot import ChangeFile
from substrait_agg.commit.log.fence import NO_FENCE, Fence
from substrait_agg.errors import CommitConflict, RunFailed, StateRefused
from substrait_agg.files.locations import Location, Remote
from substrait_agg.notices import notice
from substrait_agg.state.run import RunFile


def files_to_flush(
    files: FolderFiles, named: Iterable[RunFile | FileList | ChangeFile], version: int
) -> list[Path]:
    """Return what has to be flushed to disk in a folder before a snapshot names the files of a version.

    The driver flushes the folder, and the files that tasks in its process have written. Tasks on
    other machines have flushed theirs, so that flushing them again writes nothing. On one machine
    this covers all processes; a network file system keeps the names on its server.

    Args:
        files: the folder.
        named: all files of the folder that the version names. Those of earlier versions are
            durable.
        version: the version.

    Returns:
        The new files and their folder; nothing if there are none, and in a store.

    Raises:
        RunFailed: STATE_NOT_SHARED if a file is missing or differs in size from what its task
            reported.
    """
    new = {file.name: file.bytes for file in named if version_of(file.name) == version}
    for name, size in new.items():
        try:
            actual = files.size(name)
        except FileNotFoundError:
            actual = -1
        if actual != size:
            raise RunFailed(
                "STATE_NOT_SHARED",
                f"the driver cannot find {name}, which a task wrote",
                help=(
                    "all machines of the cluster must reach the checkpoint folder under the same path; nothing "
                    "was committed"
                ),
                path=files.root,
            )
    paths = [files.path(name) for name in new]
    local = [path for path in paths if not isinstance(path, Remote)]
    return [*local, *(path.parent for path in local[:1])]


@contextmanager
def translate_write_errors(folder: str | Location, what: str) -> Iterator[None]:
    """Translate failures to write `what` into errors that tell whether it was written.

    Raises:
        RunFailed: CHECKPOINT_NOT_WRITTEN: nothing was written. COMMIT_UNKNOWN: the next run finds
            out.
    """
    try:
        yield
    except OutcomeUnknown as error:
        certainty = f"it is not known whether {what} was written"
        if error.there:
            certainty = f"{what} was written, but could be lost in a power failure"
        raise RunFailed(
            "COMMIT_UNKNOWN",
            f"{certainty}: {error}",
            help="check the disk, then run again: the run continues from the last committed version",
            path=str(folder),
        ) from error
    except OSError as error:
        raise RunFailed(
            "CHECKPOINT_NOT_WRITTEN",
            f"{what} could not be written: {error}",
            help="check the free space and the permissions of the folder, then run again; nothing is lost",
            path=str(folder),
        ) from error


def _is_unread(error: StateRefused) -> bool:
    """Return whether a file exists but could not be read, perhaps temporarily."""
    cause = error.__cause__
    return isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError)


@contextmanager
def warn_of_leftovers(folder: Location) -> Iterator[None]:
    """Warn if a block cannot remove unneeded files. They stay until the next sweep."""
    try:
        yield
    except (OSError, StateRefused) as error:
        if isinstance(error, StateRefused) and not _is_unread(error):
            raise
        notice(
            "CHECKPOINT_NOT_SWEPT",
            f"files that are no longer needed could not be deleted: {error}",
            help="the run continues; a later sweep deletes them",
            path=str(folder),
        )


def committed_by_another(folder: Location, version: int) -> CommitConflict:
    """Return the error of a run that another run has preceded in committing a version."""
    return CommitConflict(
        "COMMIT_CONFLICT",
        f"version {version} of this checkpoint was committed by another run",
        help="run one process at a time on a checkpoint; this run has stopped and changed nothing",
        path=str(folder),
    )


def sweep_drafts(fence: Fence, folders: Iterable[FolderFiles]) -> None:
    """Delete drafts of runs that have ended.

    Only the owner of the checkpoint may do so: any other writer of a draft has lost the checkpoint.
    """
    if fence is NO_FENCE:
        return
    with fence.guard():
        for files in folders:
            for name in files.names():
                if name.startswith(DRAFT):
                    files.delete(name)
