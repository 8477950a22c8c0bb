"""What the state needs of a file system; `commit.files` implements it and nothing else opens a path."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import pyarrow as pa


class Storage(Protocol):
    """Immutable files by name in one folder."""

    @property
    def root(self) -> str:
        """The folder, as a key for caches."""

    def create(self, name: str) -> AbstractContextManager[pa.NativeFile]:
        """A new file to write; durable when the context ends without an exception."""

    def map(self, name: str) -> pa.NativeFile:
        """The file's bytes, memory mapped where the file system can."""

    def checksum(self, name: str) -> tuple[int, int]:
        """Size in bytes and CRC-32 of a file."""

    def stamp(self, name: str) -> tuple[int, ...]:
        """What changes when a file is written to, cut or replaced, as far as the file system tells."""

    def forget(self, name: str) -> bool:
        """Delete the copy of a file that lies elsewhere, so that it is fetched again; whether there was one."""
