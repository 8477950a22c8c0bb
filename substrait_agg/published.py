"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TextIO


@contextmanager
def published(path: Path, *, private: bool = False) -> Iterator[IO[bytes]]:
    """A file to write that takes its place at `path`, durably, when the block ends without an exception.

    Until then it has a name that starts with a dot, which Spark and Arrow leave out when they read a folder.
    A pipe or a device at `path` is written to as it is. With `private`, the file and a folder made for it are for their
    owner only, whatever the umask.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700 if private else 0o777)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o600 if private else 0o666 & ~_umask())
        Path(name).replace(path)
        sync_folder(path.parent)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    # The process's mask can only be read by setting it.
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def write_text(texts: Iterable[str], target: TextIO | Path) -> None:
    """Write texts to a stream and flush it, or to a file that is published when it is complete."""
    if isinstance(target, Path):
        with published(target) as file:
            for text in texts:
                file.write(text.encode())
        return
    for text in texts:
        target.write(text)
    target.flush()
