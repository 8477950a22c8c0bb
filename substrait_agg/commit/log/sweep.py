"""Delete the files that no version of a checkpoint needs.

The versions that name a run are consecutive: from the version that wrote it to the one before the
merge that replaced it. So one snapshot decides whether a run is needed: the snapshot of the version
that wrote it, or of the first version with kept state, whichever is later.

A sweep first records the versions that it expires (``kept.json``), then deletes files. If it is
killed in between, the next sweep deletes the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from substrait_agg.commit.documents.envelope import refuse_damage
from substrait_agg.commit.documents.file_names import snapshot_name, version_of
from substrait_agg.commit.documents.snapshot import Snapshot
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.publishing import warn_of_leftovers
from substrait_agg.commit.log.retention import DEFAULT, Retention, RetentionState


def tidy(
    checkpoint: Checkpoint,
    newest: Snapshot,
    served: Iterable[str] = (),
    *,
    sweeps: bool,
    whole: bool = False,
    retention: Retention = DEFAULT,
) -> None:
    """Delete the change files `served`, which have no more readers.

    With `sweeps`, also run `sweep`.

    Files that cannot be deleted stay, with a warning.
    """
    with warn_of_leftovers(checkpoint.folder):
        for name in served:
            checkpoint.changes.delete(name)
        if sweeps:
            sweep(checkpoint, newest, retention, whole=whole)


def expire(checkpoint: Checkpoint, newest: Snapshot, retention: Retention) -> RetentionState:
    """Return the retention record after a policy is applied, without writing it.

    Raises:
        StateRefused: STATE_DAMAGED.
    """
    retention_state = checkpoint.retention_state()
    first = max(retention_state.state_from, newest.version - retention.versions + 1)
    if retention.age is not None:
        first = _first_young(checkpoint, retention_state.state_from, first, retention.age)
    return replace(retention_state, state_from=first)


def _first_young(checkpoint: Checkpoint, low: int, high: int, age: int) -> int:
    """Return the first version from `low` on that is younger than an age, at most `high`.

    A creation time in the future means that the clock has been set back since. Such a version is
    older than those after it.
    """
    now = datetime.now(UTC)
    oldest, future = _before(now, age), None
    for version in range(low, high):
        committed = _read_commit_time(checkpoint, version)
        if committed > now:
            future = version if future is None else future
        elif committed >= oldest:
            return version if future is None else future
        else:
            future = None
    return high if future is None or _read_commit_time(checkpoint, high) < oldest else future


def _before(now: datetime, age: int) -> datetime:
    try:
        return now - timedelta(microseconds=age)
    except OverflowError:  # the age exceeds the range of the calendar
        return datetime.min.replace(tzinfo=UTC)


def _read_commit_time(checkpoint: Checkpoint, version: int) -> datetime:
    created = checkpoint.snapshot(version).created
    try:
        committed = datetime.fromisoformat(created)
    except ValueError as error:
        raise refuse_damage(f"snapshots/{snapshot_name(version)}", str(error)) from error
    return committed if committed.tzinfo else committed.replace(tzinfo=UTC)


def sweep(
    checkpoint: Checkpoint,
    newest: Snapshot,
    retention: Retention = DEFAULT,
    *,
    whole: bool = False,
) -> None:
    """Expire versions, then delete files of expired versions and of failed attempts.

    Args:
        checkpoint: where the files are.
        newest: the newest version. Files of later versions stay: a run may be writing them.
        retention: which versions keep their state.
        whole: check the files of swept versions again, as a run that has ended may have written
            some late.

    Raises:
        StateRefused: STATE_DAMAGED.
    """
    _sweep_versions(checkpoint, newest, retention, whole=whole)
    checkpoint.sweep_drafts()


def _sweep_versions(
    checkpoint: Checkpoint,
    newest: Snapshot,
    retention: Retention,
    *,
    whole: bool,
) -> None:
    """Expire versions, then delete the files that no remaining version names."""
    before = checkpoint.retention_state()
    after = expire(checkpoint, newest, retention)
    if whole:
        before, after = replace(before, swept=-1), replace(after, swept=-1)
    if after.state_from == before.state_from and before.swept >= newest.version:
        return
    checkpoint.keep(replace(after, swept=newest.version))
    for name in unneeded_state(checkpoint, after, newest.version):
        checkpoint.state.delete(name)
    for name in unneeded_changes(checkpoint, after, newest.version):
        checkpoint.changes.delete(name)


def unneeded_state(
    checkpoint: Checkpoint, retention_state: RetentionState, newest: int
) -> Iterator[str]:
    """Yield the state files that no kept version up to `newest` names.

    Files of versions after `newest` are not among them.

    Args:
        checkpoint: where they are.
        retention_state: the retention record. The files of kept versions that were swept are skipped.
        newest: the newest version.

    Raises:
        StateRefused: STATE_DAMAGED.
    """

    @lru_cache(maxsize=2)
    def list_named(version: int) -> set[str]:
        return state_files(checkpoint.snapshot(version))

    for version, name in _by_version(checkpoint.state.names()):
        first = max(version, retention_state.state_from)
        if version > newest or retention_state.state_from <= version <= retention_state.swept:
            continue
        if name not in list_named(first):
            yield name


def unneeded_changes(
    checkpoint: Checkpoint, retention_state: RetentionState, newest: int
) -> Iterator[str]:
    """Yield the unneeded change files and side files (late and bad rows), as `unneeded_state`.

    Only the version that wrote such a file names it.
    """

    @lru_cache(maxsize=2)
    def list_named(version: int) -> set[str]:
        return change_files(checkpoint.snapshot(version))

    for version, name in _by_version(checkpoint.changes.names()):
        if version > newest or retention_state.changes_from <= version <= retention_state.swept:
            continue
        if version < retention_state.changes_from or name not in list_named(version):
            yield name


def _by_version(names: list[str]) -> list[tuple[int, str]]:
    numbered = ((version_of(name), name) for name in names)
    return sorted((version, name) for version, name in numbered if version is not None)


def state_files(snapshot: Snapshot) -> set[str]:
    """Return the names of the files of state that a version needs."""
    return {file.name for file in snapshot.state_files}


def change_files(snapshot: Snapshot) -> set[str]:
    """Return the names of the change files and the side files of a version."""
    return {change.name for change in snapshot.change_files}
