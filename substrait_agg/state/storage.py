"""The storage interface of the state.

`commit.documents.files` implements it. The state opens no path itself.
"""

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
        """Return the folder, as a key for caches."""

    def create(self, name: str) -> AbstractContextManager[pa.NativeFile]:
        """Create a file for writing; it is durable before a snapshot names it."""

    def write(self, name: str, content: pa.Buffer) -> None:
        """Create a file with a content; it is durable as one of `create`."""

    def map(self, name: str) -> pa.NativeFile:
        """Open a file for reading, memory mapped if the file system can."""

    def checksum(self, name: str) -> tuple[int, int]:
        """Return the size in bytes and the CRC-32 of a file."""

    def is_whole(self, name: str, size: int, crc: int) -> bool:
        """Return whether a file has this size and CRC-32; one of another size is not read."""

    def stamp(self, name: str) -> tuple[int, ...]:
        """Return values that change when a file is modified, truncated or replaced.

        They are only as precise as the file system.
        """

    def forget(self, name: str) -> bool:
        """Delete the local copy of a remote file, so that it is downloaded again.

        Returns:
            Whether there was a copy.
        """


def store_failed(name: str, error: Exception) -> StateRefused | None:
    """Return the error to report if a file could not be read because its store failed.

    The file is not necessarily damaged. None for other errors.
    """
    if not isinstance(error, StoreFailed):
        return None
    return StateRefused(
        "STORE_FAILED",
        f"checkpoint file {name} could not be read from the store: {error.strerror}",
        help="check the connection and the keys, then run again; nothing is lost",
        path=str(error.filename or name),
    )
