"""What a machine keeps of object stores for a while: copies of immutable files, locks, work folders of runs.

All of it lies in one folder that belongs to the user alone: the one that ``SUBSTRAIT_AGG_CACHE`` names, or one in the system's folder
for temporary files. Nothing in it is needed: whoever deletes it makes the next run fetch again. Copies are made
under other names and take their places whole, so any number of processes share them; which one was used last, its times tell.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from substrait_agg.locations import Remote

FOLDER, LIMIT = "SUBSTRAIT_AGG_CACHE", "SUBSTRAIT_AGG_CACHE_BYTES"
"""Names of the environment variables that say where this is, and how many bytes of copies are kept."""

DEFAULT_LIMIT = 10 << 30
DRAFT_SECONDS = 86_400
"""Age from which on a draft is nobody's: no upload or download takes as long."""

_PRIVATE = 0o700
_measured = threading.Lock()
_unmeasured = DEFAULT_LIMIT
"""Bytes that were added since the copies were last counted; at first, as good as unknown."""


def base() -> Path:
    """The folder of this user on this machine.

    Raises:
        OSError: it cannot be made, or others can write to it or read it.
    """
    named = os.environ.get(FOLDER)
    folder = Path(named) if named else Path(tempfile.gettempdir()) / f"substrait-agg-{os.getuid()}"
    folder.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
    found = folder.lstat()
    private = stat.S_ISDIR(found.st_mode) and not stat.S_IMODE(found.st_mode) & 0o077
    if not private or found.st_uid != os.getuid():
        message = f"it is not a folder of this user alone (mode 0700); name another one in {FOLDER}"
        raise PermissionError(errno.EPERM, message, str(folder))
    return folder


def _below(*names: str) -> Path:
    folder = base().joinpath(*names)
    folder.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
    return folder


def _digest(place: Remote) -> str:
    return hashlib.sha256(str(place).encode()).hexdigest()[:24]


def draft() -> Path:
    """A path that nobody else uses, for a file that becomes a copy."""
    return _below("drafts") / uuid.uuid4().hex


def copy_of(path: Remote) -> Path:
    """Where the copy of a file is, if there is one."""
    return _below("copies", _digest(path.parent)) / path.name


def keep(file: Path, path: Remote) -> Path:
    """Make a local file the copy of `path`; returns where it is."""
    size, copy = file.stat().st_size, copy_of(path)
    file.replace(copy)
    _bound(size, copy)
    return copy


def used(copy: Path) -> None:
    """Note that a copy was used just now."""
    with suppress(OSError):
        os.utime(copy)


def drop(path: Remote) -> bool:
    """Delete the copy of `path`; whether there was one."""
    try:
        copy_of(path).unlink()
    except FileNotFoundError:
        return False
    return True


def lock_file(path: Remote) -> Path:
    """The file that stands for a lock on `path` on this machine."""
    return _below("locks") / _digest(path)


def _limit() -> int:
    return int(os.environ.get(LIMIT) or DEFAULT_LIMIT)


def _bound(added: int, newest: Path) -> None:
    """Delete the copies that were used longest ago where there are too many; counted after every sixteenth of the limit."""
    global _unmeasured  # noqa: PLW0603 - one count per process
    with _measured:
        _unmeasured += added
        if _unmeasured < _limit() // 16:
            return
        _unmeasured = 0
    _evict(_limit(), newest)


def _evict(limit: int, newest: Path) -> None:
    found = []
    for path in (base() / "copies").glob("*/*"):
        with suppress(OSError):  # another process has just deleted it
            status = path.stat()
            found.append((status.st_mtime_ns, status.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= limit:
            break
        if path != newest:
            path.unlink(missing_ok=True)
            total -= size
    for path in (base() / "drafts").glob("*"):
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - DRAFT_SECONDS:
                path.unlink()


@contextmanager
def work_folder() -> Iterator[Path]:
    """An empty folder for one run, gone with the block; those of killed runs are deleted before."""
    place = _below("work")
    for lock in place.glob("*.lock"):
        _delete_if_free(lock)
    name = uuid.uuid4().hex
    handle = _locked(place / f"{name}.lock")
    folder = place / name
    folder.mkdir(mode=_PRIVATE)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        (place / f"{name}.lock").unlink(missing_ok=True)
        if handle is not None:
            os.close(handle)


def _locked(lock: Path) -> int | None:
    """A descriptor that holds the lock; None where another has it."""
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _delete_if_free(lock: Path) -> None:
    handle = _locked(lock)
    if handle is None:
        return
    shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
    lock.unlink(missing_ok=True)
    os.close(handle)
