"""The files of a folder of a checkpoint by name: create, map, publish, list, delete."""

from __future__ import annotations

import errno
import re
import stat
import uuid
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from substrait_agg.commit.documents.envelope import damaged
from substrait_agg.files.atomic_files import PRIVATE, new_private
from substrait_agg.files.filesystem import filesystem
from substrait_agg.files.locations import Location, Remote, located

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")
_CHUNK = 1 << 24
DRAFT = "draft-"
_REFUSALS = (PermissionError, FileNotFoundError, FileExistsError)
"""Answers of a store which say that nothing was written; a bucket that is not there is one."""


class OutcomeUnknown(Exception):
    """A publication failed in a way that does not tell whether it happened; `there` where the name is known to be."""

    def __init__(self, name: str, error: OSError, *, there: bool) -> None:
        super().__init__(f"{name}: {error}")
        self.there = there


class NotPlain(OSError):
    """There is a link, a pipe or a folder where a file was."""


class FolderFiles:
    """Immutable plain files in one folder, or below one prefix of an object store; implements `state.storage.Storage`.

    The folder may be a link, which somebody has put there on purpose. A file that is a link, a pipe or anything else was not
    written here and is not read.

    Durability: a file is flushed to disk before its name is used anywhere, and the folder before a publication counts. What is
    in a store is durable.
    """

    def __init__(self, folder: str | Location) -> None:
        self._folder = located(folder)

    @property
    def root(self) -> str:
        """The folder's path."""
        return str(self._folder)

    def make(self) -> None:
        """Create the folder, readable by its owner only, if it is not there; its name is durable. Stores have no folders.

        Raises:
            StateRefused: STATE_DAMAGED where something else is in its place.
        """
        if isinstance(self._folder, Remote):
            return
        try:
            filesystem().make(self._folder, PRIVATE)
        except FileExistsError as error:
            raise damaged(self._folder.name, "it is not a folder") from error
        filesystem().sync(self._folder.parent)

    @property
    def is_remote(self) -> bool:
        """Whether they are in an object store."""
        return isinstance(self._folder, Remote)

    def path(self, name: str) -> Location:
        """The path of a file; names come from snapshots, so anything but a plain file name is refused."""
        if not _NAME.fullmatch(name):
            raise damaged(self.root, f"{name!r} in a snapshot is not the name of a file")
        return self._folder / name

    @contextmanager
    def create(self, name: str) -> Iterator[pa.NativeFile]:
        """A new file to write; flushed to disk when the context ends without an exception.

        Its name in the folder is durable after `sync` only, which the commit calls once for all files.
        """
        with filesystem().create(self.path(name), _to_write) as sink:
            yield sink

    def map(self, name: str) -> pa.NativeFile:
        """The file, memory mapped.

        Raises:
            OSError: there is none, or it is no plain file.
        """
        self.stamp(name)
        return filesystem().map(self.path(name), _mapped)

    def read(self, name: str) -> bytes:
        """All bytes of a file. Raises as `map`."""
        if not self.is_remote:
            self.stamp(name)
        return filesystem().read(self.path(name))

    def stamp(self, name: str) -> tuple[int, ...]:
        """What changes when a file is written to, cut or replaced, as far as the file system tells. Raises as `map`.

        Of a file in a store: when its copy is.
        """
        path = self.path(name)
        found = (
            filesystem().map(path, Path.lstat)
            if isinstance(path, Remote)
            else filesystem().status(path)
        )
        if not stat.S_ISREG(found.st_mode):
            raise NotPlain(errno.EINVAL, "it is not a plain file", str(path))
        if isinstance(path, Remote):  # being used changes the times of a copy
            return found.st_ino, found.st_size
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def is_whole(self, name: str, size: int, crc: int) -> bool:
        """Whether a file has this size in bytes and this CRC-32; one of another size is not read. Raises as `map`."""
        return self.stamp(name)[1] == size and self.checksum(name) == (size, crc)

    def forget(self, name: str) -> bool:
        """Delete the copy of a file in a store, so that it is fetched again; whether there was one."""
        return filesystem().forget(self.path(name))

    def checksum(self, name: str) -> tuple[int, int]:
        """Size in bytes and CRC-32 of a file."""
        size, crc = 0, 0
        with self.map(name) as source:
            while chunk := source.read_buffer(_CHUNK):
                crc = zlib.crc32(chunk, crc)
                size += chunk.size
        return size, crc

    def publish(self, name: str, content: bytes) -> bool:
        """Create `name` with `content` all at once, only if it does not exist; False when it does.

        The content is complete on disk before the name appears: a link either is there or is not, and a store takes the name
        with its content. Where that fails, what is there is read: the same content is ours, because no two attempts write
        the same. So content has to hold something that only this attempt has. Nothing is ever taken back.

        Raises:
            OSError: nothing was published.
            OutcomeUnknown: it may have been, or is not durable.
        """
        path = self.path(name)
        if isinstance(path, Remote):
            return self._stored(path, content)
        draft = path.parent / f"{DRAFT}{uuid.uuid4().hex}"
        try:
            with filesystem().create(draft, new_private) as sink:
                sink.write(content)
            if not self._linked(draft, path, content):
                return False
        finally:
            # A draft that stays harms nobody and is swept.
            with suppress(OSError):
                filesystem().remove(draft)
        try:
            self.sync()
        except OSError as error:
            raise OutcomeUnknown(name, error, there=True) from error
        return True

    def replace(self, name: str, content: bytes) -> None:
        """Write `name` anew as a whole: readers find the old content or the new one."""
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

    def _linked(self, draft: Path, target: Path, content: bytes) -> bool:
        try:
            filesystem().link(draft, target)
        except OSError as error:
            # Also a FileExistsError may be told of our own link: a network file system sends a request twice.
            found = self._is_there(target, content, error)
            if found is None:
                raise
            return found
        return True

    def _stored(self, target: Remote, content: bytes) -> bool:
        try:
            filesystem().publish(target, content)
        except OSError as error:
            # Clients of stores send a request twice as well.
            found = self._is_there(target, content, error)
            if found is not None:
                return found
            if isinstance(error, _REFUSALS):
                raise
            # An answer that did not come says nothing: the request may still be on its way.
            raise OutcomeUnknown(target.name, error, there=False) from error
        return True

    @staticmethod
    def _is_there(target: Location, content: bytes, error: OSError) -> bool | None:
        """Whether there is what we have written, or (False) what another has; None where there is nothing."""
        try:
            return filesystem().read(target) == content
        except FileNotFoundError:
            return None
        except OSError as unread:
            raise OutcomeUnknown(target.name, unread, there=False) from error

    def sync(self) -> None:
        """Make the names of all files durable."""
        if not isinstance(self._folder, Remote):
            filesystem().sync(self._folder)

    def names(self) -> list[str]:
        """All names, sorted, also of what is no plain file; empty when the folder is not there."""
        return filesystem().names(self._folder, folders=True)

    def exists(self, name: str) -> bool:
        """Whether there is something of this name, if only a link that leads nowhere."""
        path = self.path(name)
        if isinstance(path, Remote):
            return filesystem().exists(path)
        try:
            filesystem().status(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def size(self, name: str) -> int:
        """Size of a file in bytes.

        Raises:
            FileNotFoundError: there is none.
        """
        return filesystem().size(self.path(name))

    def delete(self, name: str) -> None:
        """Remove a file if it is there; a folder of this name is not ours and stays."""
        with suppress(IsADirectoryError):
            filesystem().remove(self.path(name))

    def lock(self, name: str, patience: float) -> AbstractContextManager[bool]:
        """Whether nobody else is in such a block with this file, after `patience` seconds at most."""
        return filesystem().locked(self.path(name), patience)


def _to_write(path: Path) -> pa.NativeFile:
    new_private(path).close()
    return pa.OSFile(str(path), "wb")


def _mapped(path: Path) -> pa.NativeFile:
    return pa.memory_map(str(path), "r")
