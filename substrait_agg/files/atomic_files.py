"""Write files atomically: readers see the complete file or none."""

from __future__ import annotations

import io
import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, TextIO

from substrait_agg.files.filesystem import filesystem
from substrait_agg.files.locations import Location, Remote

PRIVATE, PRIVATE_FILE = 0o700, 0o600
"""Modes of folders and files of a checkpoint, independent of the umask: they contain source rows."""

OPEN_TO_ALL = 0o777
"""Mode of the folders of outputs, before the umask is applied."""

Guard = Callable[[], AbstractContextManager[None]]
"""Returns a context manager around the publication of a file.

It raises if the run may not publish.
"""


@contextmanager
def write_atomically(
    path: Location, guard: Guard = nullcontext, *, private: bool = False
) -> Iterator[IO[bytes]]:
    """Open a draft for writing.

    Publish it durably at `path` when the block ends without an exception.

    The name of the draft starts with a dot, so Spark and Arrow ignore it when they read a folder. A
    pipe or a device at `path` is written directly. A file in a store is uploaded as a whole.

    Args:
        path: the file to publish.
        guard: entered while the file is published.
        private: whether the file, and a folder created for it, are accessible to their owner only,
            independent of the umask.
    """
    if isinstance(path, Remote):
        content = io.BytesIO()
        yield content
        with guard():
            filesystem().put(path, content.getvalue())
        return
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    path = path.resolve()
    filesystem().make(path.parent, PRIVATE if private else OPEN_TO_ALL)
    draft = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
    try:
        with filesystem().create(draft, new_private if private else _new) as file:
            yield file
        with guard():
            filesystem().replace(draft, path)
        sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            filesystem().remove(draft)
        raise


def new_private(path: Path) -> IO[bytes]:
    """Create a new file that only its owner can access, independent of the umask."""
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, PRIVATE_FILE)
    os.fchmod(handle, PRIVATE_FILE)
    return os.fdopen(handle, "wb")


def _new(path: Path) -> IO[bytes]:
    return path.open("xb")


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    filesystem().sync(folder)


def write_text(texts: Iterable[str], target: TextIO | Path, guard: Guard = nullcontext) -> None:
    """Write texts to a stream and flush it, or publish them as a file."""
    if isinstance(target, Path):
        with write_atomically(target, guard) as file:
            for text in texts:
                file.write(text.encode())
        return
    for text in texts:
        target.write(text)
    target.flush()
