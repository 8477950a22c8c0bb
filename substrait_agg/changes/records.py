"""Store the position of an output in the checkpoint."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from substrait_agg.commit.documents.envelope import seal, unseal
from substrait_agg.commit.documents.files import FolderFiles, NotPlain
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.fence import NO_FENCE, Fence
from substrait_agg.errors import StateRefused
from substrait_agg.files.atomic_files import write_atomically
from substrait_agg.files.filesystem import filesystem
from substrait_agg.files.locations import Location

RECORD_FORMAT = 2


@dataclass(frozen=True, slots=True)
class Record:
    """The position of one output of one checkpoint.

    The record lies in the checkpoint, under ``outputs/``, so a new checkpoint does not use the
    position of an old one. Every run writes a file of its own, ``NAME.EPOCH.json``, and readers use
    that of the newest run. Writes of a suspended run that lost the checkpoint to another run are
    therefore ignored.

    Attributes:
        path: file of the record, without the epoch of the run.
        output: the output as text, for people who read the file.
        fence: the run that writes.
        view: name of the view; empty for the view of one plan without a name.
    """

    path: Location
    output: str
    fence: Fence = NO_FENCE
    view: str = ""

    @classmethod
    def of(
        cls, checkpoint: Location, output: str, fence: Fence = NO_FENCE, view: str = ""
    ) -> Record:
        """Return the record of an output, whether it was written before or not."""
        digest = hashlib.sha256(output.encode()).hexdigest()[:16]
        return cls(checkpoint / "outputs" / f"{digest}.json", output, fence, view)

    @property
    def version(self) -> int | None:
        """The last delivered version; None without a record too. Errors are those of `read`."""
        state = self.read()
        return state[0] if state else None

    def _file(self, epoch: int) -> Location:
        return self.path.with_suffix(f".{epoch}.json") if epoch else self.path

    def _epochs(self) -> list[int]:
        """Return the epochs of runs that wrote a record, ascending; 0 is a record without one."""
        pattern = re.compile(re.escape(self.path.stem) + r"(?:\.(\d+))?\.json")
        matches = map(pattern.fullmatch, filesystem().names(self.path.parent, folders=True))
        return sorted(int(match.group(1) or 0) for match in matches if match)

    def read(self) -> tuple[int | None, int] | None:
        """Return the last delivered version, None before the first, and the size in bytes.

        Returns:
            None if there is no record.

        Raises:
            StateRefused: OUTPUT_RECORD_DAMAGED; OUTPUT_AHEAD if the output received versions that
                the checkpoint does not have; STATE_FORMAT_UNKNOWN.
            OSError: the record cannot be read at the moment; it may be intact.
        """
        while epochs := self._epochs():
            path = self._file(epochs[-1])
            try:
                return self._parse(FolderFiles(path.parent).read(path.name), path)
            except FileNotFoundError:
                continue  # a newer run replaced the record
            except NotPlain as error:
                raise self._refuse_damage(path, "it is not a regular file") from error
        return None

    def _parse(self, content: bytes, path: Location) -> tuple[int | None, int]:
        owner = self.owner()
        try:
            body = unseal(content, path.name, format=RECORD_FORMAT, checkpoint=owner).body
            version = None if body["version"] is None else int(body["version"])
            size, output = int(body["bytes"]), str(body["output"])
            view = str(body.get("view", ""))
        except StateRefused as error:
            if error.code != "STATE_DAMAGED":
                raise
            raise self._refuse_damage(path, error.message.partition(": ")[2]) from error
        except (ValueError, KeyError, TypeError) as error:
            raise self._refuse_damage(path, f"it cannot be read ({error})") from error
        if output != self.output:
            raise self._refuse_damage(path, "it belongs to another output")
        if view != self.view:
            raise self._refuse_damage(
                path, f"it belongs to {f'view {view}' if view else 'another view'}"
            )
        if owner:
            self._check_reached(path, version)
        return version, size

    @property
    def _store(self) -> Checkpoint:
        return Checkpoint(self.path.parent.parent)

    def owner(self) -> str:
        """Return the id of the checkpoint; empty if there is none."""
        try:
            return self._store.identity
        except StateRefused as error:
            if error.code != "NOT_A_CHECKPOINT":
                raise
            return ""

    def _check_reached(self, path: Location, version: int | None) -> None:
        newest = max(self._store.versions(), default=-1)
        if version is None or version <= newest:
            return
        raise StateRefused(
            "OUTPUT_AHEAD",
            f"the output {self.output} has version {version}, but the newest version of the checkpoint is {newest}",
            help="restore the newest copy of the whole checkpoint folder, or remove this record together with the "
            "output; the next run writes both again",
            path=str(path),
        )

    def _refuse_damage(self, path: Location, reason: str) -> StateRefused:
        return StateRefused(
            "OUTPUT_RECORD_DAMAGED",
            f"the record of the output {self.output} is damaged: {reason}",
            help="remove it together with the output; the next run writes both again",
            path=str(path),
        )

    def write(self, version: int | None, size: int = 0) -> None:
        """Publish the position: the output has all versions up to `version`, in `size` bytes."""
        record = {"output": self.output, "version": version, "bytes": size}
        record |= {"view": self.view} if self.view else {}
        with write_atomically(self._file(self.fence.epoch), private=True) as file:
            file.write(seal(record, format=RECORD_FORMAT, checkpoint=self.owner()))

    def take_over(self, version: int | None, size: int = 0) -> None:
        """Write the position of an earlier run, or none, under the epoch of this run.

        Deletes the records and drafts of earlier runs.
        """
        with self.fence.guard():
            self.write(version, size)
            for epoch in self._epochs():
                if epoch < self.fence.epoch:
                    filesystem().remove(self._file(epoch))
            for name in filesystem().names(self.path.parent):
                if name.startswith(f".{self.path.stem}.") and name.endswith(".tmp"):
                    filesystem().remove(self.path.parent / name)
