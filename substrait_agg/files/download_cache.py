"""Local files of a machine: copies of immutable files of object stores, locks, work folders, classes.

All files lie in one folder that only the user can access: the folder in ``SUBSTRAIT_AGG_CACHE``, or
one below the system's folder for temporary files. The folder may be deleted; the next run then
downloads what it needs. Copies are created under temporary names and renamed when complete, so
several processes can share them. The modification time of a copy is the time of its last use.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from substrait_agg.files.locations import Remote

FOLDER, LIMIT = "SUBSTRAIT_AGG_CACHE", "SUBSTRAIT_AGG_CACHE_BYTES"
"""Environment variables: the folder of the local files, and the limit for copies in bytes."""

DEFAULT_LIMIT = 10 << 30
DRAFT_SECONDS = 86_400
"""Seconds after which a draft counts as abandoned; no upload or download takes as long."""

_PRIVATE = 0o700
_measured = threading.Lock()
_unmeasured = DEFAULT_LIMIT
"""Bytes added since the copies were last measured. The initial value forces a measurement."""


def base() -> Path:
    """Return the folder for the local files of this user.

    Raises:
        OSError: the folder cannot be created, or other users can access it.
    """
    named = os.environ.get(FOLDER)
    folder = Path(named) if named else Path(tempfile.gettempdir()) / f"substrait-agg-{os.getuid()}"
    folder.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
    status = folder.lstat()
    private = stat.S_ISDIR(status.st_mode) and not stat.S_IMODE(status.st_mode) & 0o077
    if not private or status.st_uid != os.getuid():
        message = (
            f"it is not a private folder of this user (mode 0700); set {FOLDER} to another folder"
        )
        raise PermissionError(errno.EPERM, message, str(folder))
    return folder


def cache_folder(*names: str) -> Path:
    """Return a folder below `base`, created if it does not exist.

    Raises:
        OSError: as `base`.
    """
    folder = base().joinpath(*names)
    folder.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
    return folder


def _digest(place: Remote) -> str:
    return hashlib.sha256(str(place).encode()).hexdigest()[:24]


def temporary_path() -> Path:
    """Return an unused path for a file that becomes a copy."""
    return cache_folder("drafts") / uuid.uuid4().hex


def copy_of(path: Remote) -> Path:
    """Return the path of the copy of a file, whether it exists or not."""
    return cache_folder("copies", _digest(path.parent)) / path.name


def keep(file: Path, path: Remote) -> Path:
    """Make a local file the copy of `path`; return the path of the copy."""
    size, copy = file.stat().st_size, copy_of(path)
    file.replace(copy)
    _evict_oldest(size, copy)
    return copy


def note_use(copy: Path) -> None:
    """Record that a copy was used just now."""
    with suppress(OSError):
        os.utime(copy)


def drop(path: Remote) -> bool:
    """Delete the copy of `path`; return whether there was one."""
    try:
        copy_of(path).unlink()
    except FileNotFoundError:
        return False
    return True


def lock_file(path: Remote) -> Path:
    """Return the file to lock for a lock on `path` on this machine."""
    return cache_folder("locks") / _digest(path)


def _limit() -> int:
    return int(os.environ.get(LIMIT) or DEFAULT_LIMIT)


def _evict_oldest(added: int, newest: Path) -> None:
    """Evict the least recently used copies above the limit.

    Sizes are measured only after every sixteenth of the limit, because measuring reads the status of every copy.
    """
    global _unmeasured  # noqa: PLW0603 - one count per process
    with _measured:
        _unmeasured += added
        if _unmeasured < _limit() // 16:
            return
        _unmeasured = 0
    _evict(_limit(), newest)


def _evict(limit: int, newest: Path) -> None:
    copies = []
    for path in (base() / "copies").glob("*/*"):
        with suppress(OSError):  # another process has deleted it
            status = path.stat()
            copies.append((status.st_mtime_ns, status.st_size, path))
    total = sum(size for _, size, _ in copies)
    for _, size, path in sorted(copies):
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
    """Create an empty folder for one run, deleted with the block; delete those of killed runs."""
    folder, delete = new_work_folder()
    try:
        yield folder
    finally:
        delete()


def new_work_folder() -> tuple[Path, Callable[[], None]]:
    """Create a folder as `work_folder`, and return it with the function that deletes it."""
    place = cache_folder("runs")
    for lock in place.glob("*.lock"):
        _delete_if_free(lock)
    name = uuid.uuid4().hex
    handle = _lock(place / f"{name}.lock")
    folder = place / name
    folder.mkdir(mode=_PRIVATE)

    def delete() -> None:
        """Delete the folder, then release its lock."""
        shutil.rmtree(folder, ignore_errors=True)
        (place / f"{name}.lock").unlink(missing_ok=True)
        if handle is not None:
            os.close(handle)

    return folder, delete


def _lock(lock: Path) -> int | None:
    """Return a descriptor that holds the lock; None if another process holds it."""
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _delete_if_free(lock: Path) -> None:
    handle = _lock(lock)
    if handle is None:
        return
    shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
    lock.unlink(missing_ok=True)
    os.close(handle)
