"""Files that are written whole or not at all."""

from __future__ import annotations

import io
import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, TextIO

from substrait_agg.disk import disk
from substrait_agg.locations import Location, Remote

PRIVATE, PRIVATE_FILE = 0o700, 0o600
"""Modes of folders and files of a checkpoint, whatever the umask: they hold rows of the sources."""

OPEN_TO_ALL = 0o777
"""Mode of folders of outputs, as the umask of the process lets it through."""

Guard = Callable[[], AbstractContextManager[None]]
"""Makes a block in which a file may take its place; raises where it may not any more."""


@contextmanager
def published(
    path: Location, guard: Guard = nullcontext, *, private: bool = False
) -> Iterator[IO[bytes]]:
    """A file to write that takes its place at `path`, durably, when the block ends without an exception.

    Until then it has a name that starts with a dot, which Spark and Arrow leave out when they read a folder.
    A pipe or a device at `path` is written to as it is. With `private`, the file and a folder made for it are for their
    owner only, whatever the umask. A file in a store is put there as a whole.
    """
    if isinstance(path, Remote):
        content = io.BytesIO()
        yield content
        with guard():
            disk().put(path, content.getvalue())
        return
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    path = path.resolve()
    disk().make(path.parent, PRIVATE if private else OPEN_TO_ALL)
    draft = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
    try:
        with disk().create(draft, new_private if private else _new) as file:
            yield file
        with guard():
            disk().replace(draft, path)
        sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            disk().remove(draft)
        raise


def new_private(path: Path) -> IO[bytes]:
    """A file that was not there, for its owner only, whatever the umask."""
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, PRIVATE_FILE)
    os.fchmod(handle, PRIVATE_FILE)
    return os.fdopen(handle, "wb")


def _new(path: Path) -> IO[bytes]:
    return path.open("xb")


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    disk().sync(folder)


def write_text(texts: Iterable[str], target: TextIO | Path, guard: Guard = nullcontext) -> None:
    """Write texts to a stream and flush it, or to a file that is published when it is complete."""
    if isinstance(target, Path):
        with published(target, guard) as file:
            for text in texts:
                file.write(text.encode())
        return
    for text in texts:
        target.write(text)
    target.flush()
