"""The batches of a run of ours as its progress tells them: how long each took, and what it counted."""

from __future__ import annotations

import time
from dataclasses import dataclass

from substrait_agg.metrics import Progress


@dataclass(frozen=True)
class CommittedBatch:
    """A batch that a run has committed.

    Attributes:
        seconds: from when the batch was taken until it was committed.
        ended: when it was committed, in seconds since 1970.
        before: the progress before it.
        after: the progress after it.
    """

    seconds: float
    ended: float
    before: Progress
    after: Progress

    @property
    def written(self) -> int:
        """Bytes of state and changes that it wrote."""
        written = [sum(o.written_bytes for o in p.operators) for p in (self.before, self.after)]
        return written[1] - written[0]


class Commits:
    """Takes the batches of a run that ends with its input: its batches follow each other without a pause.

    Attributes:
        batches: of the run, without the version that has no input.
    """

    def __init__(self) -> None:
        self.batches: list[CommittedBatch] = []
        self._last, self._at = Progress(), 0.0

    def __call__(self, progress: Progress) -> None:
        """Take the progress of the run; that of a batch which goes on is not a batch."""
        at, before = time.monotonic(), self._last
        if progress.version == before.version:
            return
        if progress.start_phases:
            first = dict(progress.start_phases)["batch"]
            seconds = at - self._at if self.batches else first
            self.batches.append(CommittedBatch(seconds, time.time(), before, progress))
        self._last, self._at = progress, at

    def of(self, count: int) -> list[CommittedBatch]:
        """Return the batches.

        Raises:
            RuntimeError: there are more or less of them.
        """
        if len(self.batches) != count:
            raise RuntimeError(f"{len(self.batches)} batches were committed instead of {count}")
        return self.batches
