"""The lock of a checkpoint: one run, or one tool that changes the checkpoint, holds it at a time.

The lock is one of the operating system (``flock``) on one file of the checkpoint. It ends with its
process, and a remaining file has no meaning. Over a network, the lock reaches as far as the file
system supports it (NFS does from version 4 on). It does not work between machines that share no
file system. Object stores have no locks: there the lock is on a file of this machine, and only
shows runs on this machine. Where no lock keeps two runs apart, a lease does (`lease`).
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

from substrait_agg.commit.documents.envelope import refuse_damage
from substrait_agg.errors import StateRefused
from substrait_agg.files import download_cache
from substrait_agg.files.locations import Location, Remote

LOCK = "lock"
GLANCE_SECONDS = 0.2
"""Seconds to retry a lock. A look at it holds it for microseconds, a run or a tool until it ends."""
_BUSY = (errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN)

_held: set[int] = set()


def _let_go_in_child() -> None:
    # A child process inherits the lock and would keep it after its parent has ended.
    for handle in _held:
        os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_let_go_in_child)


class Lock:
    """A lock on a checkpoint, kept until `release` or the end of the process."""

    def __init__(self, handle: int | None, *, is_of_machine: bool = False) -> None:
        self._handle, self._is_of_machine = handle, is_of_machine

    @property
    def reaches_all(self) -> bool:
        """Return whether the lock keeps out runs on all machines that have the checkpoint."""
        return self._handle is not None and not self._is_of_machine

    def release(self) -> None:
        """Release the lock. Further calls do nothing."""
        handle, self._handle = self._handle, None
        if handle is not None and handle in _held:
            _held.discard(handle)
            os.close(handle)

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def lock_for_run(folder: Location) -> Lock:
    """Take the lock of a run. If the file system has no locks, the run continues without one.

    Raises:
        StateRefused: CHECKPOINT_BUSY while a run is active or a tool changes the checkpoint.
    """
    handle = _open(folder)
    try:
        _flock(handle)
    except OSError as error:
        signed = _sign_handle(handle)
        os.close(handle)
        if error.errno in _BUSY:
            raise _busy(folder, signed) from error
        return Lock(None)
    _held.add(handle)
    _sign(handle)
    return Lock(handle, is_of_machine=isinstance(folder, Remote))


def lock_for_tool(folder: Location, *, alone: bool = False) -> Lock:
    """Take the lock of a tool that changes the checkpoint, so that no run is active or starts.

    Args:
        folder: of the checkpoint.
        alone: whether the user confirms that no run is active, for checkpoints that cannot be
            locked.

    Raises:
        StateRefused: CHECKPOINT_BUSY while a run is active. CHECKPOINT_NOT_LOCKED if that is
            unknown.
    """
    handle = _open(folder)
    try:
        _flock(handle)
    except OSError as error:
        signed = _sign_handle(handle)
        os.close(handle)
        if error.errno in _BUSY:
            raise _busy(folder, signed) from error
        if alone:
            return Lock(None)
        raise _not_locked(
            folder, f"the file system does not support locks: {error.strerror}"
        ) from error
    if isinstance(folder, Remote) and not alone:
        os.close(handle)
        raise _not_locked(folder, "object stores have no locks")
    _held.add(handle)
    _sign(handle)
    return Lock(handle)


def _not_locked(folder: Location, reason: str) -> StateRefused:
    return StateRefused(
        "CHECKPOINT_NOT_LOCKED",
        f"a running run cannot be detected: {reason}",
        help="check that no run is in progress on any machine, then give --no-run",
        path=str(folder),
    )


def is_in_use(folder: Location) -> bool:
    """Return whether a run or a tool holds the lock, without writing or blocking others."""
    return _holder(folder, 0) is not None


def check_unlocked(folder: Location) -> None:
    """Check that no run or tool holds the lock, without writing or blocking others.

    Raises:
        StateRefused: CHECKPOINT_BUSY.
    """
    signed = _holder(folder, GLANCE_SECONDS)
    if signed is not None:
        raise _busy(folder, signed)


def _holder(folder: Location, patience: float) -> str | None:
    """Return who holds the lock for `patience` seconds, for messages; None if nobody does."""
    lock = folder / LOCK
    try:
        file = download_cache.lock_file(lock) if isinstance(lock, Remote) else lock
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        _flock(handle, patience)
    except OSError as error:
        return _sign_handle(handle) if error.errno in _BUSY else None
    finally:
        os.close(handle)
    return None


def _open(folder: Location) -> int:
    """Open the lock file."""
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
    return refuse_damage(LOCK, "it is not a regular file; it contains no data and can be removed")


def _flock(handle: int, patience: float = GLANCE_SECONDS) -> None:
    """Take the lock, with retries, because `is_in_use` and `check_unlocked` hold it for a moment."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(GLANCE_SECONDS / 10)


def _sign(handle: int) -> None:
    """Write the holder of the lock into the file, for messages only."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    owner = {"process": os.getpid(), "host": socket.gethostname(), "since": since}
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps(owner).encode(), 0)


def _sign_handle(handle: int) -> str:
    try:
        owner = json.loads(os.pread(handle, 4096, 0))
        return f" by process {owner['process']} on {owner['host']}, since {owner['since']}"
    except (ValueError, KeyError, TypeError, OSError, RecursionError):
        return ""


def _busy(folder: Location, signed: str) -> StateRefused:
    return StateRefused(
        "CHECKPOINT_BUSY",
        f"this checkpoint is in use{signed}",
        help="wait until that run or state command has ended, or stop it; nothing was changed",
        path=str(folder),
    )
