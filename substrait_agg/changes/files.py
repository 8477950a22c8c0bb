"""How far an output got, kept in the checkpoint."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from substrait_agg.commit.fence import OPEN, Fence
from substrait_agg.disk import disk
from substrait_agg.errors import StateRefused
from substrait_agg.published import published

RECORD_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Record:
    """How far one output of one checkpoint got.

    It lies in the checkpoint, under ``outputs/``, so a new checkpoint knows nothing of an old one's files. Every run writes a
    file of its own, ``NAME.EPOCH.json``, and the one of the newest run counts: what a run still writes that slept while
    another one took over is not read by anybody.

    Attributes:
        path: file of the record, without the number of the run.
        output: the output as text, for people who look into the file.
        fence: the run that writes.
    """

    path: Path
    output: str
    fence: Fence = OPEN

    @classmethod
    def of(cls, checkpoint: Path, kind: str, location: Path, fence: Fence = OPEN) -> Record:
        """The record of output `kind` at `location`, whether it has been written yet or not."""
        output = f"{kind}={location.absolute()}"
        digest = hashlib.sha256(output.encode()).hexdigest()[:16]
        return cls(checkpoint / "outputs" / f"{digest}.json", output, fence)

    def _file(self, epoch: int) -> Path:
        return self.path.with_suffix(f".{epoch}.json") if epoch else self.path

    def _epochs(self) -> list[int]:
        """The runs that have written a record, oldest first; 0 is one without a number."""
        named = re.compile(re.escape(self.path.stem) + r"(?:\.(\d+))?\.json")
        found = map(named.fullmatch, disk().names(self.path.parent))
        return sorted(int(name.group(1) or 0) for name in found if name)

    def read(self) -> tuple[int | None, int] | None:
        """Last version delivered (None before the first) and size in bytes; None without a record.

        Raises:
            StateRefused: the record is damaged or of a format not known here.
        """
        while epochs := self._epochs():
            path = self._file(epochs[-1])
            try:
                return self._parsed(disk().read(path), path)
            except FileNotFoundError:
                continue  # a newer run has just taken over
        return None

    @staticmethod
    def _parsed(content: bytes, path: Path) -> tuple[int | None, int]:
        try:
            found: dict[str, Any] = json.loads(content)
            if found["format"] == RECORD_FORMAT:
                return found["version"], int(found["bytes"])
        except (ValueError, KeyError, TypeError):
            pass
        message = "the record of an output is damaged or of an unknown format"
        help = "remove it together with the output; it is then written anew"
        raise StateRefused("OUTPUT_RECORD_DAMAGED", message, help=help, path=str(path))

    def write(self, version: int | None, size: int = 0) -> None:
        """Publish the position: everything up to `version` is in the output, which has `size` bytes."""
        record = {
            "format": RECORD_FORMAT,
            "output": self.output,
            "version": version,
            "bytes": size,
        }
        with published(self._file(self.fence.epoch)) as file:
            file.write((json.dumps(record) + "\n").encode())

    def take_over(self, version: int | None, size: int = 0) -> None:
        """Begin with what an earlier run has recorded, or with nothing, under the number of this run."""
        with self.fence.held():
            self.write(version, size)
            for epoch in self._epochs():
                if epoch < self.fence.epoch:
                    disk().remove(self._file(epoch))
            for name in disk().names(self.path.parent):
                if name.startswith(f".{self.path.stem}.") and name.endswith(".tmp"):
                    disk().remove(self.path.parent / name)
