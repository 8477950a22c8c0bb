"""The one place that touches the file system for a checkpoint: create, map, publish, list, delete."""

from __future__ import annotations

import os
import re
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from substrait_agg.errors import StateRefused

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")
_CHUNK = 1 << 24
PRIVATE = 0o700


class LocalFiles:
    """Immutable files in one local folder; implements `state.storage.Storage`.

    Durability: a file is flushed to disk before its name is used anywhere, and the folder before a publication counts.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    @property
    def root(self) -> str:
        """The folder's path."""
        return str(self._folder)

    def make(self) -> None:
        """Create the folder, readable by its owner only, if it is not there."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE)

    def path(self, name: str) -> Path:
        """The path of a file; names come from snapshots, so anything but a plain file name is refused."""
        if not _NAME.fullmatch(name):
            raise StateRefused(
                "STATE_DAMAGED",
                f"{name!r} is not the name of a checkpoint file",
                help="the snapshot was altered; restore the checkpoint folder from a copy",
                path=self.root,
            )
        return self._folder / name

    @contextmanager
    def create(self, name: str) -> Iterator[pa.NativeFile]:
        """A new file to write; flushed to disk when the context ends without an exception."""
        path = self.path(name)
        with pa.OSFile(str(path), "wb") as sink:
            yield sink
        _sync(path)

    def map(self, name: str) -> pa.NativeFile:
        """The file, memory mapped."""
        return pa.memory_map(str(self.path(name)), "r")

    def read(self, name: str) -> bytes:
        """All bytes of a file."""
        return self.path(name).read_bytes()

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

        The content is complete on disk before the name appears: a link either is there or is not.
        """
        target = self.path(name)
        draft = self._folder / f"draft-{uuid.uuid4().hex}"
        try:
            with draft.open("xb") as sink:
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

    def replace(self, name: str, content: bytes) -> None:
        """Write `name` anew as a whole: readers find the old content or the new one."""
        draft = self._folder / f"draft-{uuid.uuid4().hex}"
        try:
            with draft.open("xb") as sink:
                sink.write(content)
                sink.flush()
                os.fsync(sink.fileno())
            draft.replace(self.path(name))
        finally:
            draft.unlink(missing_ok=True)
        _sync(self._folder)

    def size(self, name: str) -> int:
        """Bytes of a file."""
        return self.path(name).stat().st_size

    def names(self) -> list[str]:
        """Names of all files, sorted; empty when the folder is not there."""
        try:
            return sorted(entry.name for entry in os.scandir(self._folder) if entry.is_file())
        except FileNotFoundError:
            return []

    def exists(self, name: str) -> bool:
        """Whether a file of this name is there."""
        return self.path(name).exists()

    def delete(self, name: str) -> None:
        """Remove a file if it is there."""
        self.path(name).unlink(missing_ok=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
