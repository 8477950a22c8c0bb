"""Size-tiered selection of the runs to merge, with a bounded number of rows per batch.

When a size class has `MERGE_WIDTH` runs (`SMALL_WIDTH` for small runs), these and all newer runs
are merged into one run of a higher class. So a row is rewritten about once per class, and a lookup
reads a few runs per class. A merge of more rows than the budget of a batch is done in pieces,
ordered by hash. A run stays live for the hashes not merged yet, and the finished pieces together
count as one run of the higher class. The run ranges in the snapshot are the complete state of a
merge in progress.
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
)  # maximal rows of the classes of small runs, which batches of a few rows write
SMALL_WIDTH = 8  # small runs of one class that trigger a merge; small runs are quick to look up
MERGE_WIDTH = 4  # larger runs of one class that trigger a merge
LEAST_BUDGET = 1 << 20  # minimal number of rows merged per batch
BUDGET_FACTOR = (
    8  # rows merged per row written; above the number of classes, so that merges keep up
)


@dataclass(frozen=True, slots=True)
class MergeSpan:
    """A merge to do now.

    Attributes:
        low: least hash of the range to merge.
        high: greatest hash of the range.
        files: the runs to merge, newest first.
        bottom: whether no older run remains.
    """

    low: int
    high: int
    files: tuple[RunFile, ...]
    bottom: bool


def budget_for(rows: int) -> int:
    """Return how many rows a batch that writes `rows` rows may merge."""
    return max(LEAST_BUDGET, BUDGET_FACTOR * rows)


def spans_to_merge(
    files: Sequence[RunFile], low: int, high: int, budget: int
) -> tuple[MergeSpan, ...]:
    """Select the merges in a hash range for a budget of about `budget` rows.

    Args:
        files: live runs, newest first for every hash.
        low: least hash of the range.
        high: greatest hash of the range.
        budget: estimated maximal number of rows to merge.
    """
    size = high - low + 1
    merges: list[MergeSpan] = []
    for span in _due_merges(files, low, high, size):
        rows = sum(rows_in(file, span.low, span.high) for file in span.files)
        if rows > budget:
            part = int((span.high - span.low + 1) * budget / rows)
            if part > 0:
                merges.append(replace(span, high=span.low + part - 1))
            break
        budget -= int(rows)
        merges.append(span)
    return tuple(merges)


def _due_merges(files: Sequence[RunFile], low: int, high: int, size: int) -> Iterator[MergeSpan]:
    """Yield all merges that are due, each as wide as the merged runs are the same."""
    last: MergeSpan | None = None
    for start, stop in _intervals(files, low, high):
        whole = [f for f in files if f.low <= start and f.high >= stop]
        count = runs_to_merge([rows_in(f, low, low + size - 1, whole=True) for f in whole])
        span = MergeSpan(start, stop, tuple(whole[:count]), count == len(whole))
        if (
            last is not None
            and last.files
            and _names(last) == _names(span)
            and last.bottom == span.bottom
        ):
            last = _widen(last, span)
            continue
        if last is not None and last.files:
            yield last
        last = span
    if last is not None and last.files:
        yield last


def _widen(span: MergeSpan, above: MergeSpan) -> MergeSpan:
    # A run can be live in adjacent pieces, one per partition of an earlier batch: merge all.
    files = (replace(f, high=g.high) for f, g in zip(span.files, above.files, strict=True))
    return replace(span, high=above.high, files=tuple(files))


def _names(span: MergeSpan) -> tuple[str, ...]:
    return tuple(file.name for file in span.files)


def _intervals(files: Sequence[RunFile], low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yield the range, split wherever a run begins or ends."""
    starts = {low, *(f.low for f in files), *(f.high + 1 for f in files)}
    cuts = sorted(s for s in starts if low <= s <= high)
    yield from zip(cuts, [*(c - 1 for c in cuts[1:]), high], strict=True)


def rows_in(file: RunFile, low: int, high: int, *, whole: bool = False) -> float:
    """Estimate the rows of a run between two hashes.

    With `whole`, assume that the run covers the whole range with its density.
    """
    if not whole:
        low, high = max(low, file.low), min(high, file.high)
    return file.rows * (high - low + 1) / file.span


def runs_to_merge(rows: Sequence[float]) -> int:
    """Return how many of the newest runs to merge, given their sizes.

    A class with enough runs is merged together with all newer runs.
    """
    tiers = [_tier(count) for count in rows]
    merged = 0
    for tier in range(max(tiers, default=-1) + 1):
        length = next((i for i, t in enumerate(tiers) if t > tier), len(tiers))
        width = SMALL_WIDTH if tier < len(SMALL_TIERS) else MERGE_WIDTH
        if tiers[:length].count(tier) >= width:
            merged = length
    return merged


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
    """Return the live runs after merges.

    The result of each merge replaces its runs in the merged range. Elsewhere these runs stay live.
    """
    front = [
        replace(run, low=s.low, high=s.high, span=s.high - s.low + 1) for s, run in merged if run
    ]
    rest: list[RunFile] = []
    for file in files:
        spans = [s for s, _ in merged if file.name in _names(s)]
        rest += _without(file, spans)
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
