"""The ownership of a checkpoint by epoch.

Every run claims the checkpoint with a number of its own, the epoch. The greatest epoch owns the
checkpoint. A run that was suspended while another one claimed the checkpoint finds the greater
epoch when it resumes, and changes nothing.

A process may also be suspended between a check and the write that follows. Two rules make this
harmless. Commits and records of outputs never replace a file of another run: a snapshot is created
only if its version does not exist, and the name of a record has the epoch. Writes to a shared file
hold a lock that every claim needs.
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
"""Names of claims and of their drafts. A network file system may add other names to the folder."""
LOCK_SECONDS = 10.0
"""Seconds that a run waits for another one that changes a shared file, which takes microseconds."""


class Fence:
    """A fence that lets every run pass: the base class, for checkpoints that have not been claimed.

    Attributes:
        epoch: number of the run, greater for every run that claims the checkpoint.
    """

    epoch = 0

    def check(self) -> None:
        """Refuse to continue if another run has claimed the checkpoint.

        Raises:
            CommitConflict: COMMIT_CONFLICT.
        """

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Prevent claims by other runs within a block, which should be short.

        Raises:
            CommitConflict: COMMIT_CONFLICT if another run has claimed the checkpoint.
                CHECKPOINT_BUSY if another run stays in such a block for long.
        """
        yield


NO_FENCE = Fence()


class EpochFence(Fence):
    """The fence of a run: lets it pass until another run claims the checkpoint."""

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
                help="run one process at a time on a checkpoint; this run has stopped and changed nothing",
                path=self._files.root,
            )

    @contextmanager
    def guard(self) -> Iterator[None]:
        """See `Fence.guard`."""
        with _alone(self._files):
            self.check()
            yield


def claim(files: FolderFiles, checkpoint: str = "") -> EpochFence:
    """Claim a checkpoint. All runs that claimed it before are refused from now on.

    Raises:
        CommitConflict: CHECKPOINT_BUSY if another run changes a shared file and does not finish.
        OSError: the claim cannot be written.
    """
    with _alone(files):
        while True:
            newest = _newest(files)
            if files.publish(claim_name(newest + 1), _claimant(checkpoint)):
                break
        # Only the greatest number counts, so older claims can go. Drafts are written under the lock
        # only.
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
                f"another run owns this checkpoint{_by(files, _newest(files))} and does not release it",
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
    """Return the content of a claim: the process, for messages, and a random id."""
    since = datetime.now(UTC).isoformat()
    content = {"host": socket.gethostname(), "process": os.getpid(), "since": since}
    content["id"] = os.urandom(8).hex()
    return seal(content, format=CLAIM_FORMAT, checkpoint=checkpoint)


def _by(files: FolderFiles, epoch: int) -> str:
    try:
        claim = unseal(files.read(claim_name(epoch)), claim_name(epoch), format=CLAIM_FORMAT).body
        return f" (process {claim['process']} on {claim['host']}, since {claim['since']})"
    except (StateRefused, OSError, KeyError, TypeError):
        return ""
