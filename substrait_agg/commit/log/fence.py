"""Who owns a checkpoint: every run claims it with a number of its own, and the greatest number is the owner.

A run that slept while another one took over finds the greater number when it wakes up, and leaves everything alone. What a
check and the act after it could be torn apart by is done in one of two ways: what only its version can tell apart (commits,
records of outputs) has a name that nobody else uses, and what changes a shared file holds a lock in which no claim is made.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from substrait_agg.commit.documents.envelope import seal, unseal
from substrait_agg.commit.documents.file_names import claim_name
from substrait_agg.commit.documents.files import DRAFT, FolderFiles
from substrait_agg.errors import CommitConflict, StateRefused

LOCK = "lock"
CLAIM_FORMAT = 1
_OURS = re.compile(rf"[0-9]+\.json|{DRAFT}[0-9a-f]+")
"""Claims and drafts of them; a network file system may keep names of its own beside."""
LOCK_SECONDS = 10.0
"""How long a run waits for another one that is just changing a shared file; that takes microseconds."""


class Fence:
    """Lets everybody through: of something that only one run can know.

    Attributes:
        epoch: number of the run, greater for every run that claims the checkpoint.
    """

    epoch = 0

    def check(self) -> None:
        """Refuse to go on where another run has taken over.

        Raises:
            CommitConflict: COMMIT_CONFLICT.
        """

    @contextmanager
    def held(self) -> Iterator[None]:
        """A block during which no other run takes over; it should be short.

        Raises:
            CommitConflict: COMMIT_CONFLICT where one has done so, CHECKPOINT_BUSY where one is in such a block for long.
        """
        yield


NO_FENCE = Fence()


class EpochFence(Fence):
    """Lets the run through that claimed a checkpoint, until another one claims it.

    Args:
        files: the folder of claims.
        epoch: its number.
    """

    def __init__(self, files: FolderFiles, epoch: int) -> None:
        self.epoch = epoch
        self._files = files

    def check(self) -> None:
        """See `Fence.check`."""
        newest = _newest(self._files)
        if newest > self.epoch:
            raise CommitConflict(
                "COMMIT_CONFLICT",
                f"another run has taken over this checkpoint{_by(self._files, newest)}",
                help="let one run at a time use a checkpoint; this one has stopped and harmed nothing",
                path=self._files.root,
            )

    @contextmanager
    def held(self) -> Iterator[None]:
        """See `Fence.held`."""
        with _alone(self._files):
            self.check()
            yield


def claim(files: FolderFiles, checkpoint: str = "") -> EpochFence:
    """Take over: from now on whoever claimed before is refused.

    Args:
        files: the folder of claims, which is there.
        checkpoint: the id of the checkpoint.

    Raises:
        CommitConflict: CHECKPOINT_BUSY where another run is changing a shared file and does not come to an end.
        OSError: the claim cannot be written.
    """
    with _alone(files):
        while True:
            newest = _newest(files)
            if files.publish(claim_name(newest + 1), _claimant(checkpoint)):
                break
        # Of those before, the number was all that counted; and whoever writes a draft here has the lock.
        for name in files.names():
            if _OURS.fullmatch(name) and _epoch(name) <= newest:
                files.delete(name)
    return EpochFence(files, newest + 1)


@contextmanager
def _alone(files: FolderFiles) -> Iterator[None]:
    with files.lock(LOCK, LOCK_SECONDS) as alone:
        if not alone:
            raise CommitConflict(
                "CHECKPOINT_BUSY",
                f"another run holds this checkpoint{_by(files, _newest(files))} and does not let go",
                help="end that run (it may be suspended), then run again; nothing was changed",
                path=files.root,
            )
        yield


def _epoch(name: str) -> int:
    stem = name.removesuffix(".json")
    return int(stem) if stem.isascii() and stem.isdigit() else 0


def _newest(files: FolderFiles) -> int:
    return max(map(_epoch, files.names()), default=0)


def _claimant(checkpoint: str) -> bytes:
    """Who claims, for people; with the instant it is no other's."""
    since = datetime.now(UTC).isoformat()
    content = {"host": socket.gethostname(), "process": os.getpid(), "since": since}
    content["id"] = os.urandom(8).hex()
    return seal(content, format=CLAIM_FORMAT, checkpoint=checkpoint)


def _by(files: FolderFiles, epoch: int) -> str:
    try:
        found = unseal(files.read(claim_name(epoch)), claim_name(epoch), format=CLAIM_FORMAT).body
        return f" (process {found['process']} on {found['host']}, since {found['since']})"
    except (StateRefused, OSError, KeyError, TypeError):
        return ""
