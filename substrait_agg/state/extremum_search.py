"""Search for the least or greatest live entry of many groups at once, by growing row ranges.

The row ranges start small and double in each round. The weight of an entry is known once every run
has been read up to it. A truncated range therefore limits its group at the last key read. Entries
beyond the least limit of a group are decided in the next round.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from substrait_agg.state.keys.rows import Indices, Mask
from substrait_agg.state.row_ranges import GatheredEntries, RowRange, gather_rows

FIRST_ROWS = 4  # per group and run in the first round


def find_first(windows: Sequence[RowRange], *, last: bool) -> tuple[Indices, Indices, int]:
    """Return the place of the least (greatest) entry of each group with a weight above 0.

    Args:
        windows: per run (at least one), newest first, the candidate rows of each group.
        last: search for the greatest entry, from the end.

    Returns:
        The ordinal of a run with the entry (-1 if there is none), its place in the run, and the
        number of rows read.

    Raises:
        RunFailed: WEIGHT_OVERFLOW.
    """
    count = len(windows[0].low)
    source, places = np.full(count, -1, np.int64), np.zeros(count, np.int64)
    active = np.flatnonzero(np.any([w.lengths > 0 for w in windows], axis=0))
    rest = [w.take(active) for w in windows]
    size, rows = FIRST_ROWS, 0
    while len(active):
        parts = [_part(w, size, last=last) for w in rest]
        gathered = gather_rows(parts)
        rows += gathered.rows
        row_entries = gathered.row_entries()
        limits, cut = _limits(rest, parts, row_entries, last=last)
        owners, entries = _first_alive(gathered, limits, last=last)
        source[active[owners]] = gathered.source[entries]
        places[active[owners]] = gathered.places[entries]
        cut[owners] = False
        rest = [
            _behind(w, part, entries, limits, last=last).take(cut)
            for w, part, entries in zip(rest, parts, row_entries, strict=True)
        ]
        active = active[cut]
        size *= 2
    return source, places, rows


def _part(window: RowRange, size: int, *, last: bool) -> RowRange:
    if last:
        return RowRange(window.run, np.maximum(window.low, window.high - size), window.high)
    return RowRange(window.run, window.low, np.minimum(window.high, window.low + size))


def _limits(
    rest: Sequence[RowRange],
    parts: Sequence[RowRange],
    row_entries: Sequence[Indices],
    *,
    last: bool,
) -> tuple[Indices, Mask]:
    """Return per group the entry up to which weights are known, and a mask of truncated groups."""
    count = len(rest[0].low)
    limits = np.full(count, -1 if last else np.iinfo(np.int64).max, np.int64)
    cut = np.zeros(count, np.bool_)
    for whole, part, entries in zip(rest, parts, row_entries, strict=True):
        here = part.lengths < whole.lengths
        ends = np.cumsum(part.lengths)[here]
        if last:
            limits[here] = np.maximum(limits[here], entries[ends - part.lengths[here]])
        else:
            limits[here] = np.minimum(limits[here], entries[ends - 1])
        cut |= here
    return limits, cut


def _first_alive(
    gathered: GatheredEntries, limits: Indices, *, last: bool
) -> tuple[Indices, Indices]:
    """Return the groups in which an entry was found, and that entry."""
    ordinals = np.arange(len(gathered.owners))
    limit = limits[gathered.owners]
    known = ordinals >= limit if last else ordinals <= limit
    alive = np.flatnonzero(known & (gathered.weights > 0))
    owners = gathered.owners[alive]
    turn = owners[1:] != owners[:-1]
    end = np.ones(len(owners), np.bool_)
    if last:
        end[:-1] = turn
    else:
        end[1:] = turn
    return owners[end], alive[end]


def _behind(
    window: RowRange, part: RowRange, entries: Indices, limits: Indices, *, last: bool
) -> RowRange:
    """Return the remainder of a row range after the rows up to the limits."""
    owners = np.repeat(np.arange(len(limits)), part.lengths)
    done = entries >= limits[owners] if last else entries <= limits[owners]
    count = np.bincount(owners[done], minlength=len(limits))
    if last:
        return RowRange(window.run, window.low, window.high - count)
    return RowRange(window.run, window.low + count, window.high)
