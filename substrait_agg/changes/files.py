"""How far an output got, kept in the checkpoint."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from substrait_agg.errors import StateRefused
from substrait_agg.published import published

RECORD_FORMAT = 1


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
