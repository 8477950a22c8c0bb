"""What the state needs of a file system; `commit.documents.files` implements it and nothing else opens a path."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import pyarrow as pa

from substrait_agg.errors import StateRefused
from substrait_agg.files.object_store import StoreFailed


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

    def is_whole(self, name: str, size: int, crc: int) -> bool:
        """Whether a file has this size in bytes and this CRC-32; one of another size is not read."""

    def stamp(self, name: str) -> tuple[int, ...]:
        """What changes when a file is written to, cut or replaced, as far as the file system tells."""

    def forget(self, name: str) -> bool:
        """Delete the copy of a file that lies elsewhere, so that it is fetched again; whether there was one."""


def store_failed(name: str, error: Exception) -> StateRefused | None:
    """What to say where a file could not be read because its store failed: it need not be damaged; None of other errors."""
    if not isinstance(error, StoreFailed):
        return None
    return StateRefused(
        "STORE_FAILED",
        f"checkpoint file {name} could not be read from the store: {error.strerror}",
        help="see to the connection and the keys, then run again; nothing is lost",
        path=str(error.filename or name),
    )
