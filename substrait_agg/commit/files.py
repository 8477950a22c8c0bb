"""The one place that touches the file system for a checkpoint: create, map, publish, list, delete."""

from __future__ import annotations

import os
import re
import stat
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from substrait_agg.commit.sealed import damaged

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")
_CHUNK = 1 << 24
PRIVATE, PRIVATE_FILE = 0o700, 0o600
"""Modes of folders and files of a checkpoint, whatever the umask: they hold rows of the sources."""

_DRAFT = "draft-"


class LocalFiles:
    """Immutable plain files in one local folder; implements `state.storage.Storage`.

    The folder may be a link, which somebody has put there on purpose. A file that is a link, a pipe or anything else was not
    written here and is damage.

    Durability: a file is flushed to disk before its name is used anywhere, and the folder before a publication counts.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    @property
    def root(self) -> str:
        """The folder's path."""
        return str(self._folder)

    def make(self) -> None:
        """Create the folder, for its owner only, if it is not there. One that is there stays as it is.

        Raises:
            StateRefused: STATE_DAMAGED where something else is in its place.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
        except FileExistsError as error:
            raise damaged(self._folder.name, "it is not a folder") from error

    def path(self, name: str) -> Path:
        """The path of a file; names come from snapshots, so anything but a plain file name is refused."""
        if not _NAME.fullmatch(name):
            raise damaged(self.root, f"{name!r} in a snapshot is not the name of a file")
        return self._folder / name

    @contextmanager
    def create(self, name: str) -> Iterator[pa.NativeFile]:
        """A new file to write; flushed to disk when the context ends without an exception."""
        path = self.path(name)
        os.close(_new(path))
        with pa.OSFile(str(path), "wb") as sink:
            yield sink
        _sync(path)

    def map(self, name: str) -> pa.NativeFile:
        """The file, memory mapped.

        Raises:
            StateRefused: STATE_DAMAGED where there is no such file, or it cannot be read.
        """
        self.stamp(name)
        with self._reading(name):
            return pa.memory_map(str(self.path(name)), "r")

    def read(self, name: str) -> bytes:
        """All bytes of a file. Raises as `map`."""
        self.stamp(name)
        with self._reading(name):
            return self.path(name).read_bytes()

    def stamp(self, name: str) -> tuple[int, ...]:
        """What changes when a file is written to, cut or replaced, as far as the file system tells. Raises as `map`."""
        with self._reading(name):
            found = self.path(name).lstat()
        if not stat.S_ISREG(found.st_mode):
            raise damaged(self._shown(name), "it is not a plain file")
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise damaged(self._shown(name), "it is missing") from error
        except OSError as error:
            raise damaged(self._shown(name), f"it cannot be read ({error})") from error

    def _shown(self, name: str) -> str:
        return f"{self._folder.name}/{name}"

    def checksum(self, name: str) -> tuple[int, int]:
        """Size in bytes and CRC-32 of a file. Raises as `map`."""
        size, crc = 0, 0
        with self.map(name) as source, self._reading(name):
            while chunk := source.read_buffer(_CHUNK):
                crc = zlib.crc32(chunk, crc)
                size += chunk.size
        return size, crc

    def publish(self, name: str, content: bytes) -> bool:
        """Create `name` with `content` all at once, only if it does not exist; False when it does.

        The content is complete on disk before the name appears: a link either is there or is not.
        """
        target = self.path(name)
        draft = self._folder / f"{_DRAFT}{uuid.uuid4().hex}"
        try:
            with os.fdopen(_new(draft), "wb") as sink:
                sink.write(content)
                sink.flush()
                os.fsync(sink.fileno())
            try:
                os.link(draft, target)
            except FileExistsError:
                return False
        finally:
            draft.unlink(missing_ok=True)
        _sync(self._folder)
        return True

    def names(self) -> list[str]:
        """All names, sorted, also of what is no plain file; empty when the folder is not there."""
        try:
            return sorted(entry.name for entry in os.scandir(self._folder))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def exists(self, name: str) -> bool:
        """Whether there is something of this name."""
        return os.path.lexists(self.path(name))

    def delete(self, name: str) -> None:
        """Remove a file if it is there; a folder of this name is not ours and stays."""
        with suppress(FileNotFoundError, IsADirectoryError):
            self.path(name).unlink()


def is_draft(name: str) -> bool:
    """Whether this is the name of a file that was to be published when its process was killed."""
    return name.startswith(_DRAFT)


def _new(path: Path) -> int:
    """A handle of a file that was not there, readable by its owner only."""
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, PRIVATE_FILE)
    os.fchmod(handle, PRIVATE_FILE)
    return handle


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
