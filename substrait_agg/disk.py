"""The one seam to the file system for checkpoints and outputs: every operation that a crash can cut off is a method here.

Nothing else of the package opens, links, renames or removes a path of a checkpoint or of an output (a test keeps it
so), so that tests can put another `Disk` in its place and let any of these operations fail, die or come late.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

from substrait_agg import local_copies, object_store
from substrait_agg.locations import Location, Remote

Opened = TypeVar("Opened")

POLL_SECONDS = 0.05
MOST_READ = 1 << 29
"""Bytes of a file that is read as a whole: documents and logs, the largest of which have some ten million."""


class Disk:
    """A POSIX file system, and object stores.

    Every method raises OSError where the system refuses. What a method has done is visible to others when it returns;
    what `create`, `sync` and `flush` have done survives a loss of power too. So does whatever has been put into a store.
    """

    def make(self, folder: Path, mode: int = 0o777) -> None:
        """Create a folder and those above it, unless they are there."""
        folder.mkdir(parents=True, exist_ok=True, mode=mode)

    @contextmanager
    def create(
        self, path: Location, opened: Callable[[Path], AbstractContextManager[Opened]]
    ) -> Iterator[Opened]:
        """A file to write, which `opened` opens; flushed to disk when the block ends without an exception.

        One of a store is opened under another path, and is in the store when the block has ended.
        """
        if isinstance(path, Remote):
            with object_store.uploaded(path, opened) as sink:
                yield sink
            return
        with opened(path) as sink:
            yield sink
        _flush(path)

    def link(self, draft: Path, target: Path) -> None:
        """Give a file a second name, all at once.

        Raises:
            FileExistsError: there is a file of that name, ours or another's.
        """
        os.link(draft, target)

    def replace(self, draft: Path, target: Path) -> None:
        """Give a file another name, all at once; what had that name is gone."""
        draft.replace(target)

    def publish(self, path: Remote, content: bytes) -> None:
        """Create a file in a store, with its content all at once: what `link` is on a file system.

        Raises:
            FileExistsError: there is a file of that name, ours or another's.
        """
        object_store.publish(path, content)

    def put(self, path: Remote, content: bytes) -> None:
        """Write a file in a store, all at once; what had that name is gone: what `replace` is on a file system."""
        object_store.put(path, content)

    def remove(self, path: Location) -> None:
        """Remove a file if it is there."""
        if isinstance(path, Remote):
            object_store.remove(path)
            return
        path.unlink(missing_ok=True)

    def names(self, folder: Location, *, folders: bool = False) -> list[str]:
        """Names of the files in a folder, with `folders` those of folders as well, sorted; none where there is no folder."""
        if isinstance(folder, Remote):
            return object_store.names(folder, folders=folders)
        try:
            with os.scandir(folder) as entries:
                return sorted(e.name for e in entries if folders or e.is_file())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def exists(self, path: Location) -> bool:
        """Whether there is something at a path."""
        return object_store.exists(path) if isinstance(path, Remote) else path.exists()

    def status(self, path: Path) -> os.stat_result:
        """What the system knows of what is at a path: of a link itself, not of where it leads."""
        return path.lstat()

    def size(self, path: Location) -> int:
        """Size of a file in bytes."""
        return object_store.size(path) if isinstance(path, Remote) else path.stat().st_size

    def read(self, path: Location) -> bytes:
        """All bytes of a plain file; a link is none, and nobody is kept waiting by a pipe."""
        if isinstance(path, Remote):
            return object_store.read(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as source:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.EINVAL, "it is not a plain file", str(path))
            if found.st_size > MOST_READ:
                raise OSError(errno.EFBIG, "it is too large for what it should be", str(path))
            return source.read(MOST_READ)

    def map(self, path: Location, opened: Callable[[Path], Opened]) -> Opened:
        """A file to read, which `opened` opens; one of a store is never written twice, so any copy of it will do."""
        if isinstance(path, Remote):
            return object_store.fetched(path, opened)
        return opened(path)

    def forget(self, path: Location) -> bool:
        """Delete the copy of a file of a store, so that it is fetched again; whether there was one."""
        return isinstance(path, Remote) and local_copies.drop(path)

    def sync(self, folder: Path) -> None:
        """Make the names in a folder durable."""
        _flush(folder)

    def open(self, path: Path) -> int:
        """A descriptor of a file that is written in place, made where it is missing."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def write(self, descriptor: int, content: bytes, offset: int) -> None:
        """Write all of `content` at a place of a file."""
        left = memoryview(content)
        while left:
            # A write may take less than it is given.
            written = os.pwrite(descriptor, left, offset)
            left, offset = left[written:], offset + written

    def cut(self, descriptor: int, size: int) -> None:
        """Cut a file off behind its first `size` bytes."""
        os.ftruncate(descriptor, size)

    def flush(self, descriptor: int) -> None:
        """Make what was written to a descriptor durable."""
        os.fsync(descriptor)

    @contextmanager
    def locked(self, path: Location, patience: float) -> Iterator[bool]:
        """Whether nobody else is in such a block with the same file; the lock ends with the block or with the process.

        Of a file in a store, nobody else on this machine.

        Args:
            path: the file, made where it is missing; not a link.
            patience: seconds to wait for another to leave.
        """
        file = local_copies.lock_file(path) if isinstance(path, Remote) else path
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


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_DISK = Disk()


def disk() -> Disk:
    """The file system that is used."""
    return _DISK


@contextmanager
def using(other: Disk) -> Iterator[None]:
    """Use another file system in this process as long as the block lasts."""
    global _DISK  # noqa: PLW0603 - the one switch, for tests
    before, _DISK = _DISK, other
    try:
        yield
    finally:
        _DISK = before
