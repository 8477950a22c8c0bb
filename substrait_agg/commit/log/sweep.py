"""Delete what no version of a checkpoint needs any more.

The versions that name a run are consecutive: from the version it was written for to the one before it was merged away. So its name and
one snapshot decide whether it is needed: that of the version it was written for, or of the first version whose state
is kept, whichever is later. A sweep first records what it expires (``kept.json``) and deletes then. If it is killed in between, the next
sweep deletes the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from substrait_agg.commit.documents.envelope import damaged
from substrait_agg.commit.documents.file_names import snapshot_name, version_of
from substrait_agg.commit.documents.snapshot import Snapshot
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.publishing import tidying
from substrait_agg.commit.log.retention import DEFAULT, Retention, RetentionState
from substrait_agg.commit.log.saved_logs import unneeded


def tidy(
    checkpoint: Checkpoint,
    newest: Snapshot,
    served: Iterable[str] = (),
    *,
    sweeps: bool,
    whole: bool = False,
    retention: Retention = DEFAULT,
) -> None:
    """Delete the change files `served`, which nobody reads any more; with `sweeps` also `sweep`.

    What cannot be deleted stays, with a warning.
    """
    with tidying(checkpoint.folder):
        for name in served:
            checkpoint.changes.delete(name)
        if sweeps:
            sweep(checkpoint, newest, retention, whole=whole)


def expire(checkpoint: Checkpoint, newest: Snapshot, retention: Retention) -> RetentionState:
    """What is kept once a retention has been applied; nothing is written.

    Raises:
        StateRefused: STATE_DAMAGED.
    """
    kept = checkpoint.kept()
    first = max(kept.state_from, newest.version - retention.versions + 1)
    if retention.age is not None:
        first = _first_young(checkpoint, kept.state_from, first, retention.age)
    return replace(kept, state_from=first)


def _first_young(checkpoint: Checkpoint, low: int, high: int, age: int) -> int:
    """The first version from `low` on that is younger than an age, at most `high`.

    A version that seems to be made in the future was made before the clock was set back; it is older than those after it.
    """
    now = datetime.now(UTC)
    oldest, future = _before(now, age), None
    for version in range(low, high):
        made = _made(checkpoint, version)
        if made > now:
            future = version if future is None else future
        elif made >= oldest:
            return version if future is None else future
        else:
            future = None
    return high if future is None or _made(checkpoint, high) < oldest else future


def _before(now: datetime, age: int) -> datetime:
    try:
        return now - timedelta(microseconds=age)
    except OverflowError:  # longer than there is a calendar
        return datetime.min.replace(tzinfo=UTC)


def _made(checkpoint: Checkpoint, version: int) -> datetime:
    created = checkpoint.snapshot(version).created
    try:
        made = datetime.fromisoformat(created)
    except ValueError as error:
        raise damaged(f"snapshots/{snapshot_name(version)}", str(error)) from error
    return made if made.tzinfo else made.replace(tzinfo=UTC)


def sweep(
    checkpoint: Checkpoint,
    newest: Snapshot,
    retention: Retention = DEFAULT,
    *,
    whole: bool = False,
) -> None:
    """Expire versions, then delete what no remaining version names and what failed attempts left.

    Args:
        checkpoint: where the files are.
        newest: the newest version. Files of later versions stay: a run may be writing them.
        retention: which versions keep their state.
        whole: look at the files of swept versions again, as a run that has ended may have written some late.

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
    """Expire versions, then delete what no remaining version names."""
    before = checkpoint.kept()
    kept = expire(checkpoint, newest, retention)
    if whole:
        before, kept = replace(before, swept=-1), replace(kept, swept=-1)
    if kept.state_from == before.state_from and before.swept >= newest.version:
        return
    checkpoint.keep(replace(kept, swept=newest.version))
    for name in unneeded_state(checkpoint, kept, newest.version):
        checkpoint.state.delete(name)
    for name in unneeded_changes(checkpoint, kept, newest.version):
        checkpoint.changes.delete(name)
    _sweep_logs(checkpoint, kept.state_from)


def unneeded_state(checkpoint: Checkpoint, kept: RetentionState, newest: int) -> Iterator[str]:
    """Files of the state that no kept version up to `newest` names; those written for a later version are left out.

    Args:
        checkpoint: where they are.
        kept: what is kept; files of versions that were swept and are kept are not looked at again.
        newest: the newest version.

    Raises:
        StateRefused: STATE_DAMAGED.
    """

    @lru_cache(maxsize=2)
    def named(version: int) -> set[str]:
        return state_files(checkpoint.snapshot(version))

    for version, name in _by_version(checkpoint.state.names()):
        first = max(version, kept.state_from)
        if version > newest or kept.state_from <= version <= kept.swept:
            continue
        if name not in named(first):
            yield name


def unneeded_changes(checkpoint: Checkpoint, kept: RetentionState, newest: int) -> Iterator[str]:
    """The same for change files and files of rows that were left out, which only the version they were written for names."""

    @lru_cache(maxsize=2)
    def named(version: int) -> set[str]:
        return change_files(checkpoint.snapshot(version))

    for version, name in _by_version(checkpoint.changes.names()):
        if version > newest or kept.changes_from <= version <= kept.swept:
            continue
        if version < kept.changes_from or name not in named(version):
            yield name


def _by_version(names: list[str]) -> list[tuple[int, str]]:
    found = ((version_of(name), name) for name in names)
    return sorted((version, name) for version, name in found if version is not None)


def state_files(snapshot: Snapshot) -> set[str]:
    """Names of the runs that a version needs."""
    return {file.name for operator in snapshot.operators for file in operator.runs}


def change_files(snapshot: Snapshot) -> set[str]:
    """Names of the change files of a version, and of the files of rows that it left out."""
    return {change.name for change in snapshot.change_files}


def _sweep_logs(checkpoint: Checkpoint, first: int) -> None:
    """Delete saved files that neither version `first` nor any after it can need: those before all that it names of the same log.

    Raises:
        StateRefused: STATE_DAMAGED.
    """
    if checkpoint.spark.is_remote and first in checkpoint.versions():
        for name in unneeded(checkpoint.spark.names(), checkpoint.snapshot(first)):
            checkpoint.spark.delete(name)
