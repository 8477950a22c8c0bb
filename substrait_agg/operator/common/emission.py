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
    """Which of the groups that are touched or waiting are emitted, those for which any rule holds, and which ones are let go.

    Instants are microseconds since 1970.

    Attributes:
        all: every one.
        rows: those with at least so many rows since they were last emitted; 0 is no rule.
        before: those whose last row came at this instant or earlier, or as long after `now`: then the clock was set back, and how
            long they have waited is not known; None is no rule.
        now: the instant of the batch.
        limits: what makes a group complete.
        complete: those that are complete.
        close: complete groups that do not wait are closed: only what the view shows of them is kept.
        idle: groups whose newest event time is not after this are forgotten; None: no group is.
        instant: the event time of rows that say none.
        watermark: sessions that have ended by then are dropped; None: none are.
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
        """Whether groups can be emitted that no row touches."""
        return self.all or self.before is not None or (self.complete and bool(self.limits))

    @property
    def lets_go(self) -> bool:
        """Whether groups can be closed or forgotten."""
        return self.idle is not None or (self.close and bool(self.limits))

    @property
    def needs_final_pass(self) -> bool:
        """Whether there may be anything to do where no rows come."""
        passes = self.complete and bool(self.limits)
        return self.lets_go or passes or self.watermark is not None

    def fires(self, keys: Sequence[pa.Array], rows: Int64s, since: Int64s) -> Mask:
        """Which groups are emitted, by their keys, the rows they wait with and the instant of the last."""
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
