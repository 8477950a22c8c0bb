"""Access to the file system and to object stores, for checkpoints and outputs.

Every operation that a crash can interrupt is a method of `Disk`. No other module opens, links,
renames or removes a path of a checkpoint or an output (a test checks this). So tests can replace
`Disk` and make any of these operations fail, die or be delayed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import TypeVar

from substrait_agg.files import download_cache, object_store
from substrait_agg.files.locations import Location, Remote

Opened = TypeVar("Opened")

POLL_SECONDS = 0.05
FLUSHED_AT_ONCE = 16
"""Files flushed at the same time. A file system writes its journal once for all of them."""
MOST_READ = 1 << 29
"""Largest file read as a whole, in bytes. Documents and logs are at most some ten megabytes."""


class FileSystem:
    """A POSIX file system, and object stores.

    The effect of a method is visible to other processes when the method returns. The effects of
    `create`, `sync` and `flush`, and everything written to a store, also survive a loss of power.

    Raises:
        OSError: raised by every method if the system refuses the operation.
    """

    def make(self, folder: Path, mode: int = 0o777) -> None:
        """Create a folder and its parents, unless they exist."""
        folder.mkdir(parents=True, exist_ok=True, mode=mode)

    @contextmanager
    def create(
        self,
        path: Location,
        opened: Callable[[Path], AbstractContextManager[Opened]],
        *,
        durable: bool = True,
    ) -> Iterator[Opened]:
        """Create a file with `opened`, and flush it to disk when the block ends without an exception.

        A file that is not `durable` is not flushed. For an object store, `opened` receives the path of a local draft, which is uploaded at the
        end of the block.
        """
        if isinstance(path, Remote):
            with object_store.upload(path, opened) as sink:
                yield sink
            return
        with opened(path) as sink:
            yield sink
        if durable:
            _flush(path)

    def link(self, draft: Path, target: Path) -> None:
        """Give a file a second name, atomically.

        Raises:
            FileExistsError: a file of that name exists, written by this process or another.
        """
        os.link(draft, target)

    def replace(self, draft: Path, target: Path) -> None:
        """Rename a file atomically, replacing an existing file of that name."""
        draft.replace(target)

    def publish(self, path: Remote, content: bytes) -> None:
        """Create a file with its content in a store, atomically; the counterpart of `link`.

        Raises:
            FileExistsError: a file of that name exists, written by this process or another.
        """
        object_store.publish(path, content)

    def put(self, path: Remote, content: bytes) -> None:
        """Write a file to a store atomically, replacing one, as `replace` does in a folder."""
        object_store.put(path, content)

    def remove(self, path: Location) -> None:
        """Remove a file if it exists."""
        if isinstance(path, Remote):
            object_store.remove(path)
            return
        path.unlink(missing_ok=True)

    def names(self, folder: Location, *, folders: bool = False) -> list[str]:
        """Return the sorted names of the files in a folder; empty if the folder does not exist."""
        if isinstance(folder, Remote):
            return object_store.names(folder, folders=folders)
        try:
            with os.scandir(folder) as entries:
                return sorted(e.name for e in entries if folders or e.is_file())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def exists(self, path: Location) -> bool:
        """Return whether a file or folder exists."""
        return object_store.exists(path) if isinstance(path, Remote) else path.exists()

    def status(self, path: Path) -> os.stat_result:
        """Return the status of a path, without following a link."""
        return path.lstat()

    def size(self, path: Location) -> int:
        """Return the size of a file in bytes."""
        return object_store.size(path) if isinstance(path, Remote) else path.stat().st_size

    def read(self, path: Location) -> bytes:
        """Return all bytes of a regular file.

        Links are refused, and reading never blocks on a pipe.

        Raises:
            OSError: it is not a regular file, or it is larger than `MOST_READ`.
        """
        if isinstance(path, Remote):
            return object_store.read(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as source:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file", str(path))
            if status.st_size > MOST_READ:
                raise OSError(errno.EFBIG, "it is too large", str(path))
            return source.read(MOST_READ)

    def map(self, path: Location, opened: Callable[[Path], Opened]) -> Opened:
        """Open a file for reading with `opened`.

        For an object store, `opened` receives the path of a local copy. Files in a store are never
        overwritten, so any copy is current.
        """
        if isinstance(path, Remote):
            return object_store.fetch(path, opened)
        return opened(path)

    def forget(self, path: Location) -> bool:
        """Delete the local copy of a file in a store; return whether there was one."""
        return isinstance(path, Remote) and download_cache.drop(path)

    def sync(self, path: Path) -> None:
        """Make the names in a folder durable, or the content of a file that `create` did not flush."""
        _flush(path)

    def sync_all(self, paths: Sequence[Path]) -> None:
        """Apply `sync` to several paths at the same time."""
        flushes = [_pool().submit(self.sync, path) for path in paths]
        wait(flushes)
        for flush in flushes:
            flush.result()

    def open(self, path: Path) -> int:
        """Return a descriptor for writing a file in place; create the file if it is missing."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def write(self, descriptor: int, content: bytes, offset: int) -> None:
        """Write all of `content` at a byte offset of a file."""
        left = memoryview(content)
        while left:
            # A write may accept fewer bytes than it is given.
            written = os.pwrite(descriptor, left, offset)
            left, offset = left[written:], offset + written

    def cut(self, descriptor: int, size: int) -> None:
        """Truncate a file to its first `size` bytes."""
        os.ftruncate(descriptor, size)

    def flush(self, descriptor: int) -> None:
        """Make everything written to a descriptor durable."""
        os.fsync(descriptor)

    @contextmanager
    def lock(self, path: Location, patience: float) -> Iterator[bool]:
        """Try to lock a file for the block; yield whether the lock was acquired.

        The lock ends with the block or with the process. A lock on a file in a store excludes only
        processes on this machine.

        Args:
            path: the file, created if it is missing; not a link.
            patience: seconds to wait for another process to release the lock.
        """
        file = download_cache.lock_file(path) if isinstance(path, Remote) else path
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            yield _lock(descriptor, patience)
        finally:
            os.close(descriptor)


def _lock(descriptor: int, patience: float) -> bool:
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_SECONDS)
        else:
            return True


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(FLUSHED_AT_ONCE, "flush")


# The threads of the pool do not exist in a child process, which would wait for them.
os.register_at_fork(after_in_child=_pool.cache_clear)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_DISK = FileSystem()


def filesystem() -> FileSystem:
    """Return the file system in use."""
    return _DISK
