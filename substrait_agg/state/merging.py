"""Which runs of a tree are merged next: size-tiered, a bounded number of rows per batch.

Runs of one size class pile up until there are `MERGE_WIDTH` of them, of small ones `SMALL_WIDTH`; then they and all newer
ones become one run of a higher class. So a row is rewritten about once per class, and a lookup passes a few runs per class. A merge of
more rows than the budget of a batch is done piece by piece, in order of hash: a run stays live for the hashes that are
not merged yet, and the pieces that are done stand for one run of the higher class. The snapshot's run ranges hold
all there is to know about a merge that is under way.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from substrait_agg.state.run import RunFile

SMALL_TIERS = (
    256,
    2_048,
    16_384,
)  # rows up to which a run is small: the classes of runs that batches of a few rows write
SMALL_WIDTH = 8  # small runs of one size class before they are merged: a lookup passes them quickly
MERGE_WIDTH = 4  # larger runs of one size class before they are merged
LEAST_BUDGET = 1 << 20  # rows merged per batch at least
BUDGET_FACTOR = (
    8  # rows merged per row written: more than the number of classes, so that merges keep up
)


@dataclass(frozen=True, slots=True)
class MergeSpan:
    """A merge to do now: of `files` (newest first) for the hashes from `low` to `high`; `bottom` if no older run is left."""

    low: int
    high: int
    files: tuple[RunFile, ...]
    bottom: bool


def budget_for(rows: int) -> int:
    """Rows that a batch that writes `rows` rows may merge."""
    return max(LEAST_BUDGET, BUDGET_FACTOR * rows)


def spans_to_merge(
    files: Sequence[RunFile], low: int, high: int, budget: int
) -> tuple[MergeSpan, ...]:
    """What to merge in a hash range with about `budget` rows.

    Args:
        files: live runs, newest first for every hash.
        low: least hash of the range.
        high: greatest hash of the range.
        budget: rows to merge at most, as far as they can be estimated.
    """
    size = high - low + 1
    chosen: list[MergeSpan] = []
    for span in _wanted(files, low, high, size):
        rows = sum(rows_in(file, span.low, span.high) for file in span.files)
        if rows > budget:
            part = int((span.high - span.low + 1) * budget / rows)
            if part > 0:
                chosen.append(replace(span, high=span.low + part - 1))
            break
        budget -= int(rows)
        chosen.append(span)
    return tuple(chosen)


def _wanted(files: Sequence[RunFile], low: int, high: int, size: int) -> Iterator[MergeSpan]:
    """All merges that are due, as wide as the same runs are merged."""
    last: MergeSpan | None = None
    for start, stop in _intervals(files, low, high):
        there = [f for f in files if f.low <= start and f.high >= stop]
        count = runs_to_merge([rows_in(f, low, low + size - 1, whole=True) for f in there])
        span = MergeSpan(start, stop, tuple(there[:count]), count == len(there))
        if (
            last is not None
            and last.files
            and _names(last) == _names(span)
            and last.bottom == span.bottom
        ):
            last = _widened(last, span)
            continue
        if last is not None and last.files:
            yield last
        last = span
    if last is not None and last.files:
        yield last


def _widened(span: MergeSpan, above: MergeSpan) -> MergeSpan:
    # A run may be live in neighbouring pieces, one per partition of an earlier batch: the merge reads all of them.
    files = (replace(f, high=g.high) for f, g in zip(span.files, above.files, strict=True))
    return replace(span, high=above.high, files=tuple(files))


def _names(span: MergeSpan) -> tuple[str, ...]:
    return tuple(file.name for file in span.files)


def _intervals(files: Sequence[RunFile], low: int, high: int) -> Iterator[tuple[int, int]]:
    """The range cut wherever a run begins or ends."""
    starts = {low, *(f.low for f in files), *(f.high + 1 for f in files)}
    cuts = sorted(s for s in starts if low <= s <= high)
    yield from zip(cuts, [*(c - 1 for c in cuts[1:]), high], strict=True)


def rows_in(file: RunFile, low: int, high: int, *, whole: bool = False) -> float:
    """Estimated rows of a run between two hashes; with `whole`, of a run as dense as this one over all of them."""
    if not whole:
        low, high = max(low, file.low), min(high, file.high)
    return file.rows * (high - low + 1) / file.span


def runs_to_merge(rows: Sequence[float]) -> int:
    """How many of the newest runs are merged, by their sizes: as many of one class as it is wide bring in all newer ones."""
    tiers = [_tier(count) for count in rows]
    chosen = 0
    for tier in range(max(tiers, default=-1) + 1):
        length = next((i for i, t in enumerate(tiers) if t > tier), len(tiers))
        width = SMALL_WIDTH if tier < len(SMALL_TIERS) else MERGE_WIDTH
        if tiers[:length].count(tier) >= width:
            chosen = length
    return chosen


def _tier(rows: float) -> int:
    if rows <= SMALL_TIERS[-1]:
        return bisect_left(SMALL_TIERS, rows)
    tier = len(SMALL_TIERS) - 1
    while rows > SMALL_TIERS[-1]:
        rows /= MERGE_WIDTH
        tier += 1
    return tier


def after_merges(
    files: Sequence[RunFile], merged: Sequence[tuple[MergeSpan, RunFile | None]]
) -> tuple[RunFile, ...]:
    """The live runs after merges: each span's result instead of its runs there, which stay live elsewhere."""
    front = [
        replace(run, low=s.low, high=s.high, span=s.high - s.low + 1) for s, run in merged if run
    ]
    rest: list[RunFile] = []
    for file in files:
        taken = [s for s, _ in merged if file.name in _names(s)]
        rest += _without(file, taken)
    return (*front, *rest)


def _without(file: RunFile, spans: Sequence[MergeSpan]) -> list[RunFile]:
    pieces = [file]
    for span in spans:
        pieces = [piece for p in pieces for piece in _cut(p, span)]
    return pieces


def _cut(file: RunFile, span: MergeSpan) -> list[RunFile]:
    below = replace(file, high=min(file.high, span.low - 1))
    above = replace(file, low=max(file.low, span.high + 1))
    return [piece for piece in (below, above) if piece.low <= piece.high]
