"""Create, map, publish, list and delete the files of a folder of a checkpoint."""

from __future__ import annotations

import errno
import re
import stat
import uuid
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from substrait_agg.commit.documents.envelope import refuse_damage
from substrait_agg.files.atomic_files import PRIVATE, new_private
from substrait_agg.files.filesystem import filesystem
from substrait_agg.files.locations import Location, Remote, location_of

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")
_CHUNK = 1 << 24
DRAFT = "draft-"
_REFUSALS = (PermissionError, FileNotFoundError, FileExistsError)
"""Errors of a store which mean that nothing was written. A missing bucket is one of the causes."""


class OutcomeUnknown(Exception):
    """Raised when a publication failed and it is unknown whether the file was written.

    Attributes:
        there: whether the name is known to exist.
    """

    def __init__(self, name: str, error: OSError, *, exists: bool) -> None:
        super().__init__(f"{name}: {error}")
        self.there = exists


class NotPlain(OSError):
    """Raised for a link, a pipe or a folder in place of a file."""


class FolderFiles:
    """Immutable plain files in one folder, or below one prefix of an object store.

    This class implements `state.storage.Storage`. The folder itself may be a link, set up by a
    user. A file that is a link, a pipe or another special file was not written by this class and is
    not read.

    Durability: a file is flushed to disk before its name is used anywhere. The folder is flushed
    before a publication counts. Files in a store are durable.

    Args:
        folder: the folder.
        flushes: whether `create` flushes a file. Otherwise `publish` does, together with others.
    """

    def __init__(self, folder: str | Location, *, flushes: bool = True) -> None:
        self._folder = location_of(folder)
        self._flushes = flushes

    @property
    def root(self) -> str:
        """The path of the folder."""
        return str(self._folder)

    def make(self) -> None:
        """Create the folder, readable by its owner only, if it does not exist.

        Its name is durable on return. Stores have no folders.

        Raises:
            StateRefused: STATE_DAMAGED if something else is in its place.
        """
        if isinstance(self._folder, Remote):
            return
        try:
            filesystem().make(self._folder, PRIVATE)
        except FileExistsError as error:
            raise refuse_damage(self._folder.name, "it is not a folder") from error
        filesystem().sync(self._folder.parent)

    @property
    def is_remote(self) -> bool:
        """Whether the files are in an object store."""
        return isinstance(self._folder, Remote)

    def path(self, name: str) -> Location:
        """Return the path of a file.

        Names come from snapshots, so anything but a plain file name is refused.

        Raises:
            StateRefused: STATE_DAMAGED.
        """
        return _path_in(self._folder, name)

    @contextmanager
    def create(self, name: str, *, durable: bool = True) -> Iterator[pa.NativeFile]:
        """Create a file and return it for writing.

        The content is flushed to disk when the context ends without an exception, unless the file
        is not `durable` or this object leaves that to `publish`. The name is durable only after the
        folder is flushed, which the commit does once for all files.
        """
        durable = durable and self._flushes
        with filesystem().create(self.path(name), _to_write, durable=durable) as sink:
            yield sink

    def write(self, name: str, content: pa.Buffer) -> None:
        """Create a file with a content, as `create`. For a small file, this takes half the time."""
        with filesystem().create(self.path(name), new_private, durable=self._flushes) as sink:
            sink.write(content)

    def map(self, name: str) -> pa.NativeFile:
        """Return a memory map of a file.

        Raises:
            OSError: the file is missing, or it is not a regular file.
        """
        self.stamp(name)
        return filesystem().map(self.path(name), _map)

    def read(self, name: str) -> bytes:
        """Return all bytes of a file. Raises as `map`."""
        if not self.is_remote:
            self.stamp(name)
        return filesystem().read(self.path(name))

    def stamp(self, name: str) -> tuple[int, ...]:
        """Return a value that changes when a file is written to, cut or replaced.

        It shows what the file system reports. For a file in a store, it shows changes of the local
        copy. Raises as `map`.
        """
        path = self.path(name)
        status = (
            filesystem().map(path, Path.lstat)
            if isinstance(path, Remote)
            else filesystem().status(path)
        )
        if not stat.S_ISREG(status.st_mode):
            raise NotPlain(errno.EINVAL, "it is not a regular file", str(path))
        if isinstance(path, Remote):  # each use changes the times of a copy
            return status.st_ino, status.st_size
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def is_whole(self, name: str, size: int, crc: int) -> bool:
        """Return whether a file has this size in bytes and this CRC-32. Raises as `map`.

        A file of another size is not read.
        """
        return self.stamp(name)[1] == size and self.checksum(name) == (size, crc)

    def forget(self, name: str) -> bool:
        """Delete the local copy of a file, to fetch it again; return whether there was one."""
        return filesystem().forget(self.path(name))

    def checksum(self, name: str) -> tuple[int, int]:
        """Return the size in bytes and the CRC-32 of a file."""
        size, crc = 0, 0
        with self.map(name) as source:
            while chunk := source.read_buffer(_CHUNK):
                crc = zlib.crc32(chunk, crc)
                size += chunk.size
        return size, crc

    def publish(self, name: str, content: bytes, flushed: Sequence[Path] = ()) -> bool:
        """Create `name` with `content` atomically, only if it does not exist.

        The content is complete on disk before the name appears: in a folder, the name is a link to
        a complete file; a store creates the name together with the content. If an operation fails,
        this method reads the file: equal content means that this attempt succeeded, because no two
        attempts write the same content. So `content` must have something unique to the attempt. A
        publication is never undone.

        Args:
            name: the name.
            content: the content.
            flushed: files and folders that are flushed to disk together with the content, before
                the name appears.

        Returns:
            Whether it was created; False if it exists.

        Raises:
            OSError: nothing was published.
            OutcomeUnknown: the file may have been published, or is not durable.
        """
        path = self.path(name)
        if isinstance(path, Remote):
            return self._store(path, content)
        draft = path.parent / f"{DRAFT}{uuid.uuid4().hex}"
        try:
            with filesystem().create(draft, new_private, durable=not flushed) as sink:
                sink.write(content)
            if flushed:
                filesystem().sync_all([draft, *flushed])
            if not self._link(draft, path, content):
                return False
        finally:
            # A remaining draft is harmless. A sweep deletes it.
            with suppress(OSError):
                filesystem().remove(draft)
        try:
            self.sync()
        except OSError as error:
            raise OutcomeUnknown(name, error, exists=True) from error
        return True

    def replace(self, name: str, content: bytes) -> None:
        """Replace the content of `name` atomically: readers see the old or the new content."""
        path = self.path(name)
        if isinstance(path, Remote):
            filesystem().put(path, content)
            return
        draft = path.parent / f"{DRAFT}{uuid.uuid4().hex}"
        try:
            with filesystem().create(draft, new_private) as sink:
                sink.write(content)
            filesystem().replace(draft, path)
        finally:
            with suppress(OSError):
                filesystem().remove(draft)
        self.sync()

    def _link(self, draft: Path, target: Path, content: bytes) -> bool:
        try:
            filesystem().link(draft, target)
        except OSError as error:
            # A network file system may send a request twice and report our own link as
            # FileExistsError.
            is_there = self._is_there(target, content, error)
            if is_there is None:
                raise
            return is_there
        return True

    def _store(self, target: Remote, content: bytes) -> bool:
        try:
            filesystem().publish(target, content)
        except OSError as error:
            # Clients of stores may also send a request twice.
            is_there = self._is_there(target, content, error)
            if is_there is not None:
                return is_there
            if isinstance(error, _REFUSALS):
                raise
            # Without an answer the outcome is unknown: the request may still be in progress.
            raise OutcomeUnknown(target.name, error, exists=False) from error
        return True

    @staticmethod
    def _is_there(target: Location, content: bytes, error: OSError) -> bool | None:
        """Return whether a file has our content (True) or another (False); None: it is missing."""
        try:
            return filesystem().read(target) == content
        except FileNotFoundError:
            return None
        except OSError as unread:
            raise OutcomeUnknown(target.name, unread, exists=False) from error

    def sync(self) -> None:
        """Make the names of all files durable."""
        if not isinstance(self._folder, Remote):
            filesystem().sync(self._folder)

    def names(self) -> list[str]:
        """Return all names, sorted, including those of special files. A missing folder has none."""
        return filesystem().names(self._folder, folders=True)

    def exists(self, name: str) -> bool:
        """Return whether the name exists, even as a dangling link."""
        path = self.path(name)
        if isinstance(path, Remote):
            return filesystem().exists(path)
        try:
            filesystem().status(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def size(self, name: str) -> int:
        """Return the size of a file in bytes.

        Raises:
            FileNotFoundError: the file does not exist.
        """
        return filesystem().size(self.path(name))

    def delete(self, name: str) -> None:
        """Remove a file if it exists. A folder of this name stays: this class did not create it."""
        with suppress(IsADirectoryError):
            filesystem().remove(self.path(name))

    def lock(self, name: str, patience: float) -> AbstractContextManager[bool]:
        """Lock a file for a block, which receives whether that took at most `patience` seconds."""
        return filesystem().lock(self.path(name), patience)


@lru_cache(maxsize=1 << 12)
def _path_in(folder: Location, name: str) -> Location:
    """Return the path of a file; see `FolderFiles.path`."""
    if not _NAME.fullmatch(name):
        raise refuse_damage(str(folder), f"{name!r} in a snapshot is not the name of a file")
    return folder / name


def _to_write(path: Path) -> pa.NativeFile:
    new_private(path).close()
    return pa.OSFile(str(path), "wb")


def _map(path: Path) -> pa.NativeFile:
    return pa.memory_map(str(path), "r")
