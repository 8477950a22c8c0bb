"""How far an output got, kept in the checkpoint."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from substrait_agg.commit.sealed import seal, unseal
from substrait_agg.commit.store import Checkpoint
from substrait_agg.errors import StateRefused
from substrait_agg.published import published

RECORD_FORMAT = 2


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
            StateRefused: OUTPUT_RECORD_DAMAGED; OUTPUT_AHEAD where the output has had versions that are not there;
                STATE_FORMAT_UNKNOWN.
        """
        if not self.path.exists() and not self.path.is_symlink():
            return None
        owner = self._owner()
        try:
            if self.path.is_symlink() or not self.path.is_file():
                raise self._damaged("it is not a plain file")
            body = unseal(
                self.path.read_bytes(), self.path.name, format=RECORD_FORMAT, checkpoint=owner
            ).body
            version = None if body["version"] is None else int(body["version"])
            found = version, int(body["bytes"])
            if body["output"] != self.output:
                raise self._damaged("it is that of another output")
        except StateRefused as error:
            if error.code != "STATE_DAMAGED":
                raise
            raise self._damaged(error.message.partition(": ")[2]) from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._damaged(f"it cannot be read ({error})") from error
        if owner:
            self._check_reached(version)
        return found

    @property
    def _store(self) -> Checkpoint:
        return Checkpoint(self.path.parent.parent)

    def _owner(self) -> str:
        """The id of the checkpoint; empty where there is none."""
        try:
            return self._store.identity
        except StateRefused as error:
            if error.code != "NOT_A_CHECKPOINT":
                raise
            return ""

    def _check_reached(self, version: int | None) -> None:
        newest = max(self._store.versions(), default=-1)
        if version is None:
            return
        if version > newest:
            raise StateRefused(
                "OUTPUT_AHEAD",
                f"the output {self.output} has had version {version}, and the newest one here is {newest}",
                help="restore the newest copy of the checkpoint folder as a whole, or remove this record together with the"
                " output; it is then written anew",
                path=str(self.path),
            )

    def _damaged(self, reason: str) -> StateRefused:
        return StateRefused(
            "OUTPUT_RECORD_DAMAGED",
            f"the record of the output {self.output} is damaged: {reason}",
            help="remove it together with the output; it is then written anew",
            path=str(self.path),
        )

    def write(self, version: int | None, size: int = 0) -> None:
        """Publish the position: everything up to `version` is in the output, which has `size` bytes."""
        record = {"output": self.output, "version": version, "bytes": size}
        with published(self.path, private=True) as file:
            file.write(seal(record, format=RECORD_FORMAT, checkpoint=self._owner()))
