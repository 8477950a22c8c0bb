"""The rules that decide which groups are emitted in a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.operator.common.completeness import KeyBound, complete
from substrait_agg.state.keys.rows import Mask

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Emission:
    """The rules that select which groups of a batch to emit and which groups to evict.

    The candidates for emission are the groups with rows in the batch and the groups in the pending
    tree. A candidate is emitted if at least one rule holds. Instants are microseconds since 1970.

    Attributes:
        all: emit every candidate.
        rows: emit groups with at least this many rows since they were last emitted; 0 disables the
            rule.
        before: emit groups whose last row arrived at this instant or earlier; None disables the
            rule. The rule also emits groups whose last row came at least as long after `now` as
            `before` is before `now`: the clock was set back, so how long they have waited is
            unknown.
        now: the instant of the batch.
        limits: the bounds below which a group is complete.
        close: close complete groups that are not pending: keep their row in the view and delete
            their state.
        idle: evict groups whose newest event time is not after this instant; None evicts no idle
            group.
        instant: the event time of rows without one.
        watermark: drop the rows of sessions that end at this instant or earlier; None drops none.
    """

    all: bool = True
    rows: int = 0
    before: int | None = None
    now: int = 0
    limits: tuple[KeyBound, ...] = ()
    complete: bool = False
    close: bool = False
    idle: int | None = None
    instant: int = 0
    watermark: int | None = None

    @property
    def takes_waiting(self) -> bool:
        """Return whether the rules can emit groups without rows in the batch."""
        return self.all or self.before is not None or (self.complete and bool(self.limits))

    @property
    def evicts(self) -> bool:
        """Return whether the rules can evict groups."""
        return self.idle is not None or (self.close and bool(self.limits))

    @property
    def needs_final_pass(self) -> bool:
        """Return whether a pass without rows can emit groups, evict groups or drop sessions."""
        passes = self.complete and bool(self.limits)
        return self.evicts or passes or self.watermark is not None

    def fires(self, keys: Sequence[pa.Array], rows: Int64s, since: Int64s) -> Mask:
        """Return a mask of the groups to emit.

        Args:
            keys: key columns of the groups.
            rows: rows of each group since it was last emitted.
            since: instant of the last row of each group.
        """
        fired = np.full(len(rows), self.all)
        if self.rows:
            fired |= rows >= self.rows
        if self.before is not None:
            fired |= (since <= self.before) | (since >= 2 * self.now - self.before)
        if self.complete:
            fired |= complete(keys, self.limits, len(rows))
        return fired


ALL = Emission()
NONE = Emission(all=False)
