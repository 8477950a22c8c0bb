"""Which versions keep their state, and the record of what a checkpoint still has (``kept.json``)."""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import dataclass

from substrait_agg.commit.documents.envelope import damaged, seal, unreadable, unseal
from substrait_agg.commit.documents.file_names import KEPT_REVISION, kept_name
from substrait_agg.commit.documents.files import FolderFiles, OutcomeUnknown
from substrait_agg.commit.documents.json_codec import built, encoded
from substrait_agg.durations import microseconds
from substrait_agg.errors import UsageError

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
class RetentionState:
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
    def of(content: bytes, checkpoint: str | None) -> RetentionState:
        """From `to_bytes`; of any checkpoint where that is None.

        Raises:
            StateRefused: STATE_DAMAGED, STATE_FORMAT_UNKNOWN.
        """
        opened = unseal(content, KEPT, format=KEPT_FORMAT, checkpoint=checkpoint, without=_WITHOUT)
        try:
            found = built(RetentionState, opened.body)
        except (ValueError, TypeError) as error:
            raise damaged(KEPT, f"it cannot be read ({error}); {_WITHOUT}") from error
        if min(found.state_from, found.changes_from, found.swept + 1) < 0:
            raise damaged(KEPT, f"versions begin with 0; {_WITHOUT}")
        return found


_ATTEMPTS = 5


def kept(root: FolderFiles) -> bytes | None:
    """The newest note; None where there is none.

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
                raise damaged(KEPT, "it is missing") from error
            continue  # there is a newer one
        except OSError as error:
            raise unreadable(name, error) from error
    raise damaged(KEPT, "it is listed and not there")


def keep(root: FolderFiles, revision: int, content: bytes) -> bool:
    """Write a note; False where there is one with its number or a greater one.

    Raises:
        OSError: it may not have been written.
    """
    if not root.is_remote:
        root.replace(KEPT, content)
        return True
    name = kept_name(revision)
    try:
        if not root.publish(name, content):
            return False
    except OutcomeUnknown as error:
        raise OSError(errno.EIO, str(error)) from error
    older = [other for other in root.names() if KEPT_REVISION.fullmatch(other) and other < name]
    for other in older:
        with suppress(OSError):  # the next one removes it
            root.delete(other)
    return True


def _newest(root: FolderFiles) -> str | None:
    return max(filter(KEPT_REVISION.fullmatch, root.names()), default=None)
