"""Which versions keep their state, and sweeping what no kept version names.

A run is named by the versions from the one it was written for up to the one before it was merged away, without a gap. So whether a
file is needed follows from its name and one snapshot: that of the version it was written for, or of the first version whose
state is kept, whichever is later. A sweep notes first what it expires (``kept.json``) and deletes then: killed in between, the next
sweep finds the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

from substrait_agg.commit.saved_logs import sweep_logs
from substrait_agg.commit.sealed import damaged, seal, unseal
from substrait_agg.commit.snapshot import Snapshot, snapshot_name
from substrait_agg.commit.typed import built, encoded
from substrait_agg.durations import microseconds
from substrait_agg.errors import UsageError

if TYPE_CHECKING:
    from substrait_agg.commit.store import Checkpoint

KEPT = "kept.json"
KEPT_FORMAT = 1
_WITHOUT = "unless changes were vacuumed, it may be removed: the next sweep writes it anew"
KEEP_VERSIONS = 10
"""Versions whose state is kept where nobody says anything else, the newest included."""
SWEEP_EVERY = 10
OPTIONS = ("--keep-versions", "--keep-for")
"""Of a run, that say what is kept."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Which versions keep their state: the newest ones by number, and those younger than an age.

    Attributes:
        versions: at least one.
        age: microseconds; None: age does not count.
    """

    versions: int = KEEP_VERSIONS
    age: int | None = None

    def due(self, version: int) -> bool:
        """Whether a sweep comes after this version: often enough that not twice as many are kept."""
        return version % max(1, min(SWEEP_EVERY, self.versions)) == 0


DEFAULT = Retention()


def parse_retention(
    versions: int | None, age: str | None, options: tuple[str, str] = OPTIONS
) -> Retention:
    """What ``--keep-versions`` and ``--keep-for`` say, or `options` of another command.

    Raises:
        UsageError: OPTION_INVALID.
    """
    if versions is not None and versions < 1:
        message = f"{versions} versions cannot be kept: the newest is always there"
        raise UsageError("OPTION_INVALID", message, help="give 1 or more", path=options[0])
    duration = None if age is None else microseconds(age)
    if age is not None and duration is None:
        message = f"{age!r} is no duration"
        help = "write 30m, 12h or 7d"
        raise UsageError("OPTION_INVALID", message, help=help, path=options[1])
    return Retention(KEEP_VERSIONS if versions is None else versions, duration)


@dataclass(frozen=True, slots=True)
class Kept:
    """What a checkpoint still has.

    Attributes:
        state_from: the first version whose state is kept.
        changes_from: the first version whose changes and snapshot are kept.
        swept: files written for versions up to this one have been looked at.
        revision: in a store how often it has been written, which is part of its name: files cannot be replaced under a lock there.
    """

    state_from: int = 0
    changes_from: int = 0
    swept: int = -1
    revision: int = 0

    def to_bytes(self, checkpoint: str) -> bytes:
        """As a sealed document."""
        return seal(encoded(self), format=KEPT_FORMAT, checkpoint=checkpoint)

    @staticmethod
    def of(content: bytes, checkpoint: str | None) -> Kept:
        """From `to_bytes`; of any checkpoint where that is None.

        Raises:
            StateRefused: STATE_DAMAGED, STATE_FORMAT_UNKNOWN.
        """
        opened = unseal(content, KEPT, format=KEPT_FORMAT, checkpoint=checkpoint, without=_WITHOUT)
        try:
            found = built(Kept, opened.body)
        except (ValueError, TypeError) as error:
            raise damaged(KEPT, f"it cannot be read ({error}); {_WITHOUT}") from error
        if min(found.state_from, found.changes_from, found.swept + 1) < 0:
            raise damaged(KEPT, f"versions begin with 0; {_WITHOUT}")
        return found


def expire(checkpoint: Checkpoint, newest: Snapshot, retention: Retention) -> Kept:
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
    """Expire versions, then delete what no kept version names.

    Files of versions after the newest are left alone: somebody may be making it. With `whole`, those of versions that have been
    swept are looked at again: what a run that is no more wrote late.

    Raises:
        StateRefused: STATE_DAMAGED.
    """
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
    sweep_logs(checkpoint, kept.state_from)


def unneeded_state(checkpoint: Checkpoint, kept: Kept, newest: int) -> Iterator[str]:
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


def unneeded_changes(checkpoint: Checkpoint, kept: Kept, newest: int) -> Iterator[str]:
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


_VERSIONED = re.compile(
    r"(?:[a-z]+[0-9]*-[0-9]+-)?([0-9]{12})-(?:(?:[0-9]+|late|bad)-)?[0-9a-z]+\.(?:arrow|parquet)"
)


def version_of(name: str) -> int | None:
    """The version for which a run or a change file was written, None of a file that is not ours."""
    found = _VERSIONED.fullmatch(name)
    return int(found.group(1)) if found else None
