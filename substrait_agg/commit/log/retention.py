"""The retention policy for versions, and the record of the kept versions (``kept.json``)."""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import dataclass

from substrait_agg.arguments import microseconds
from substrait_agg.commit.documents.envelope import refuse_damage, seal, unreadable, unseal
from substrait_agg.commit.documents.file_names import KEPT_REVISION, retention_name
from substrait_agg.commit.documents.files import FolderFiles, OutcomeUnknown
from substrait_agg.commit.documents.json_codec import build, encode
from substrait_agg.errors import UsageError

KEPT = "kept.json"
KEPT_FORMAT = 1
_WITHOUT = "unless changes were vacuumed, it can be removed: the next sweep writes it again"
KEEP_VERSIONS = 10
"""Default number of versions whose state is kept, including the newest."""
SWEEP_EVERY = 10
OPTIONS = ("--keep-versions", "--keep-for")
"""Options of a run that set the retention policy."""


@dataclass(frozen=True, slots=True)
class Retention:
    """A retention policy: keep the newest versions by number, and those younger than an age.

    Attributes:
        versions: number of versions, at least 1.
        age: microseconds; None: age does not count.
    """

    versions: int = KEEP_VERSIONS
    age: int | None = None

    def due(self, version: int) -> bool:
        """Return whether to sweep after this version.

        The interval is short enough to keep less than twice as many versions as the policy asks
        for.
        """
        return version % max(1, min(SWEEP_EVERY, self.versions)) == 0


DEFAULT = Retention()


def parse_retention(
    versions: int | None, age: str | None, options: tuple[str, str] = OPTIONS
) -> Retention:
    """Read the values of ``--keep-versions`` and ``--keep-for`` (or of the named `options`).

    Raises:
        UsageError: OPTION_INVALID.
    """
    if versions is not None and versions < 1:
        message = f"{versions} versions cannot be kept: the newest version is always kept"
        raise UsageError("OPTION_INVALID", message, help="give 1 or more", path=options[0])
    duration = None if age is None else microseconds(age)
    if age is not None and duration is None:
        message = f"{age!r} is not a duration"
        help = "write 30m, 12h or 7d"
        raise UsageError("OPTION_INVALID", message, help=help, path=options[1])
    return Retention(KEEP_VERSIONS if versions is None else versions, duration)


@dataclass(frozen=True, slots=True)
class RetentionState:
    """Which versions a checkpoint keeps.

    Attributes:
        state_from: the first version whose state is kept.
        changes_from: the first version whose changes and snapshot are kept.
        swept: the files of versions up to this one have been swept.
        revision: in a store, the number of writes of this record, which is part of its name: a
            store cannot replace a file under a lock.
    """

    state_from: int = 0
    changes_from: int = 0
    swept: int = -1
    revision: int = 0

    def to_bytes(self, checkpoint: str) -> bytes:
        """Return the record as a sealed document."""
        return seal(encode(self), format=KEPT_FORMAT, checkpoint=checkpoint)

    @staticmethod
    def of(content: bytes, checkpoint: str | None) -> RetentionState:
        """Read the record from `to_bytes`. If `checkpoint` is None, accept that of any checkpoint.

        Raises:
            StateRefused: STATE_DAMAGED, STATE_FORMAT_UNKNOWN.
        """
        opened = unseal(content, KEPT, format=KEPT_FORMAT, checkpoint=checkpoint, without=_WITHOUT)
        try:
            state = build(RetentionState, opened.body)
        except (ValueError, TypeError) as error:
            raise refuse_damage(KEPT, f"it cannot be read ({error}); {_WITHOUT}") from error
        if min(state.state_from, state.changes_from, state.swept + 1) < 0:
            raise refuse_damage(KEPT, f"it contains a negative version; {_WITHOUT}")
        return state


_ATTEMPTS = 5


def newest_retention(root: FolderFiles) -> bytes | None:
    """Read the newest retention record. Return None if there is none.

    Raises:
        StateRefused: STATE_DAMAGED.
    """
    for _ in range(_ATTEMPTS):
        name = _newest(root) if root.is_remote else KEPT
        if name is None or not (root.is_remote or root.exists(name)):
            return None
        try:
            return root.read(name)
        except FileNotFoundError as error:
            if not root.is_remote:
                raise refuse_damage(KEPT, "it is missing") from error
            continue  # a newer record has replaced it
        except OSError as error:
            raise unreadable(name, error) from error
    raise refuse_damage(KEPT, "it is listed, but does not exist")


def keep(root: FolderFiles, revision: int, content: bytes) -> bool:
    """Write a retention record. Return False if there is one of the same or a greater revision.

    Raises:
        OSError: the record may not have been written.
    """
    if not root.is_remote:
        root.replace(KEPT, content)
        return True
    name = retention_name(revision)
    try:
        if not root.publish(name, content):
            return False
    except OutcomeUnknown as error:
        raise OSError(errno.EIO, str(error)) from error
    older = [other for other in root.names() if KEPT_REVISION.fullmatch(other) and other < name]
    for other in older:
        with suppress(OSError):  # the next write removes it
            root.delete(other)
    return True


def _newest(root: FolderFiles) -> str | None:
    return max(filter(KEPT_REVISION.fullmatch, root.names()), default=None)
