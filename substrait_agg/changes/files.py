"""Output files: published whole or not at all, and the record of how far an output got."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from substrait_agg.errors import StateRefused

RECORD_FORMAT = 1


@contextmanager
def published(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that takes its place at `path`, durably, when the block ends without an exception.

    Until then it has a name that starts with a dot, which Spark and Arrow leave out when they read a folder.
    A pipe or a device at `path` is written to as it is.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o666 & ~_umask())
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


@dataclass(frozen=True, slots=True)
class Record:
    """How far one output of one checkpoint got.

    It lies in the checkpoint, under ``outputs/``, so a new checkpoint knows nothing of an old one's files.

    Attributes:
        path: file of the record.
        output: the output as text, for people who look into the file.
    """

    path: Path
    output: str

    @classmethod
    def of(cls, checkpoint: Path, kind: str, location: Path) -> Record:
        """The record of output `kind` at `location`, whether it has been written yet or not."""
        output = f"{kind}={location.absolute()}"
        digest = hashlib.sha256(output.encode()).hexdigest()[:16]
        return cls(checkpoint / "outputs" / f"{digest}.json", output)

    def read(self) -> tuple[int | None, int] | None:
        """Last version delivered (None before the first) and size in bytes; None without a record.

        Raises:
            StateRefused: the record is damaged or of a format not known here.
        """
        try:
            text = self.path.read_text()
        except FileNotFoundError:
            return None
        try:
            found: dict[str, Any] = json.loads(text)
            if found["format"] == RECORD_FORMAT:
                return found["version"], int(found["bytes"])
        except (ValueError, KeyError, TypeError):
            pass
        message = "the record of an output is damaged or of an unknown format"
        help = "remove it together with the output; it is then written anew"
        raise StateRefused("OUTPUT_RECORD_DAMAGED", message, help=help, path=str(self.path))

    def write(self, version: int | None, size: int = 0) -> None:
        """Publish the position: everything up to `version` is in the output, which has `size` bytes."""
        record = {
            "format": RECORD_FORMAT,
            "output": self.output,
            "version": version,
            "bytes": size,
        }
        with published(self.path) as file:
            file.write((json.dumps(record) + "\n").encode())
