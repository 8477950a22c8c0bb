"""Files that are written whole or not at all."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, TextIO

from substrait_agg.disk import disk

Guard = Callable[[], AbstractContextManager[None]]
"""Makes a block in which a file may take its place; raises where it may not any more."""


@contextmanager
def published(path: Path, guard: Guard = nullcontext) -> Iterator[IO[bytes]]:
    """A file to write that takes its place at `path`, durably, when the block ends without an exception.

    Until then it has a name that starts with a dot, which Spark and Arrow leave out when they read a folder.
    A pipe or a device at `path` is written to as it is.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    path = path.resolve()
    disk().make(path.parent)
    draft = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
    try:
        with disk().create(draft, _new) as file:
            yield file
        with guard():
            disk().replace(draft, path)
        sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            disk().remove(draft)
        raise


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
