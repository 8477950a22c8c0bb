"""Who uses a checkpoint: runs hold a shared lock on one file in it, tools that change it an exclusive one.

It is a lock of the operating system (``flock``), so it ends with its process however that ends, and a file that was left
behind means nothing. It keeps runs and tools apart, not runs from each other: of two runs, the commit lets one go on. Over the network it
holds as far as the file system takes it there (NFS from version 4 on does); between machines that do not share one, it does not.
Stores have no locks: there a file of this machine stands for it, which tells of runs on this machine alone.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import stat
import time
from datetime import UTC, datetime

from substrait_agg.commit.documents.envelope import damaged
from substrait_agg.errors import StateRefused
from substrait_agg.files import download_cache
from substrait_agg.files.locations import Location, Remote

LOCK = "lock"
GLANCE_SECONDS = 0.2
"""How long to try: `is_in_use` takes microseconds, a run or a tool has the lock for as long as it works."""
_BUSY = (errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN)

_held: set[int] = set()


def _let_go_in_child() -> None:
    # A child of the process has the lock, too, and would hold it on when its parent is gone.
    for handle in _held:
        os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_let_go_in_child)


class Lock:
    """A lock that is held until `release`, or until the process ends."""

    def __init__(self, handle: int | None) -> None:
        self._handle = handle

    def release(self) -> None:
        """Let go; once is enough."""
        handle, self._handle = self._handle, None
        if handle is not None and handle in _held:
            _held.discard(handle)
            os.close(handle)

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def lock_for_run(folder: Location) -> Lock:
    """The lock of a run; where the file system knows no locks, the run goes on without.

    Raises:
        StateRefused: CHECKPOINT_BUSY while a tool changes the checkpoint.
    """
    handle = _open(folder)
    try:
        _flock(handle, fcntl.LOCK_SH)
    except OSError as error:
        os.close(handle)
        if error.errno in _BUSY:
            raise _busy(folder, "a state command is changing this checkpoint") from error
        return Lock(None)
    _held.add(handle)
    _sign(handle)
    return Lock(handle)


def lock_for_tool(folder: Location, *, alone: bool = False) -> Lock:
    """The lock of a tool that changes the checkpoint: there is no run, and none begins.

    Args:
        folder: of the checkpoint.
        alone: whether the user says that there is no run where no lock tells.

    Raises:
        StateRefused: CHECKPOINT_BUSY while there is a run; CHECKPOINT_NOT_LOCKED where that cannot be told.
    """
    handle = _open(folder)
    try:
        _flock(handle, fcntl.LOCK_EX)
    except OSError as error:
        signed = _signed(handle)
        os.close(handle)
        if error.errno in _BUSY:
            raise _busy(folder, f"this checkpoint is in use{signed}") from error
        if alone:
            return Lock(None)
        raise _not_locked(folder, f"the file system cannot tell: {error.strerror}") from error
    if isinstance(folder, Remote) and not alone:
        os.close(handle)
        raise _not_locked(folder, "stores have no locks")
    _held.add(handle)
    _sign(handle)
    return Lock(handle)


def _not_locked(folder: Location, why: str) -> StateRefused:
    return StateRefused(
        "CHECKPOINT_NOT_LOCKED",
        f"nobody can tell whether a run is going on: {why}",
        help="see to it that no run is going on anywhere, and say so with --no-run",
        path=str(folder),
    )


def is_in_use(folder: Location) -> bool:
    """Whether a run or a tool holds the lock; nothing is written, and nobody is kept waiting."""
    lock = folder / LOCK
    try:
        file = download_cache.lock_file(lock) if isinstance(lock, Remote) else lock
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in _BUSY
    finally:
        os.close(handle)
    return False


def _open(folder: Location) -> int:
    """The file of the lock.

    Raises:
        StateRefused: STATE_DAMAGED where there is something else in its place.
    """
    lock = folder / LOCK
    file = download_cache.lock_file(lock) if isinstance(lock, Remote) else lock
    try:
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise
        raise _not_plain() from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _not_plain()
    return handle


def _not_plain() -> StateRefused:
    return damaged(LOCK, "it is not a plain file; nothing is in it, so it may be removed")


def _flock(handle: int, kind: int) -> None:
    """Take a lock, at once or in a moment: whoever only looks whether it is held has it for that long."""
    deadline = time.monotonic() + GLANCE_SECONDS
    while True:
        try:
            return fcntl.flock(handle, kind | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(GLANCE_SECONDS / 10)


def _sign(handle: int) -> None:
    """Leave word of who holds the lock, for messages alone."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    told = {"process": os.getpid(), "host": socket.gethostname(), "since": since}
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps(told).encode(), 0)


def _signed(handle: int) -> str:
    try:
        told = json.loads(os.pread(handle, 4096, 0))
        return f" by process {told['process']} on {told['host']}, since {told['since']}"
    except (ValueError, KeyError, TypeError, OSError, RecursionError):
        return ""


def _busy(folder: Location, message: str) -> StateRefused:
    return StateRefused(
        "CHECKPOINT_BUSY",
        message,
        help="wait until it has ended, or stop it",
        path=str(folder),
    )
