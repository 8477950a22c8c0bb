"""Merged rows of several runs: the entries of row ranges in key order, with total weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.state.keys.keys import EncodedKeys, sort_order
from substrait_agg.state.keys.rows import Indices, Mask
from substrait_agg.state.ordered_run import OrderedRun
from substrait_agg.state.weights import Weights, sum_runs_of_rows


@dataclass(frozen=True, slots=True)
class RowRange:
    """One range of places per owner in one run; an owner is a group or a query."""

    run: OrderedRun
    low: Indices
    high: Indices

    @property
    def lengths(self) -> Indices:
        """Return the number of places per owner."""
        return self.high - self.low

    def take(self, owners: npt.NDArray[Any]) -> RowRange:
        """Return the ranges of some owners, given as mask or ordinals."""
        return RowRange(self.run, self.low[owners], self.high[owners])


@dataclass(frozen=True, slots=True)
class GatheredEntries:
    """The entries of row ranges, ordered by owner and key.

    Attributes:
        owners: the owner of each entry.
        weights: its weight in all runs, possibly 0.
        source: the run of the entry's newest row.
        places: the place of that row in the run.
        order: the order of the rows, numbered row range by row range, by entry.
        first: mask, in that order, of the rows that begin an entry.
        sizes: number of rows of each row range.
    """

    runs: tuple[OrderedRun, ...]
    owners: Indices
    weights: Weights
    source: Indices
    places: Indices
    order: Indices
    first: Mask
    sizes: tuple[int, ...]

    @property
    def rows(self) -> int:
        """Return the number of rows read."""
        return len(self.order)

    def row_entries(self) -> list[Indices]:
        """Return per row range the entry of each of its rows, by owner and place."""
        entries = np.empty(len(self.order), np.int64)
        entries[self.order] = np.cumsum(self.first) - 1
        return np.split(entries, np.cumsum(self.sizes)[:-1])

    def payload(self, entries: Indices) -> tuple[pa.Array, ...]:
        """Return the values of some entries."""
        return payload_at(self.runs, self.source[entries], self.places[entries])


def gather_rows(windows: Sequence[RowRange]) -> GatheredEntries:
    """Return the entries of all row ranges (at least one), newest run first."""
    owners, places, keys, weights = [], [], [], []
    for window in windows:
        lengths = window.lengths
        ends = np.cumsum(lengths)
        at = np.repeat(window.low - ends + lengths, lengths) + np.arange(
            ends[-1] if len(ends) else 0
        )
        located = window.run.at(at)
        owners.append(np.repeat(np.arange(len(lengths)), lengths))
        places.append(at)
        keys.append(located.keys())
        weights.append(located.weights())
    sizes = [len(at) for at in places]
    owner = np.concatenate(owners)
    order, first = _order(owner, keys)
    starts = np.flatnonzero(first)
    first_of_key = order[starts]
    return GatheredEntries(
        tuple(window.run for window in windows),
        owner[first_of_key],
        sum_runs_of_rows(np.concatenate(weights)[order], starts),
        np.repeat(np.arange(len(windows)), sizes)[first_of_key],
        np.concatenate(places)[first_of_key],
        order,
        first,
        tuple(sizes),
    )


def _order(owner: Indices, keys: Sequence[EncodedKeys]) -> tuple[Indices, Mask]:
    filled = [part for part in keys if len(part)]
    if len(filled) <= 1:  # a single run is ordered and has no duplicate entries
        return np.arange(len(owner)), np.ones(len(owner), np.bool_)
    return sort_order([owner], EncodedKeys.concat(filled))


def payload_at(
    runs: Sequence[OrderedRun], source: Indices, places: Indices
) -> tuple[pa.Array, ...]:
    """Return the values at places of runs."""
    parts: list[tuple[pa.Array, ...]] = []
    order: list[Indices] = []
    for i, run in enumerate(runs):
        queries = np.flatnonzero(source == i)
        if len(queries) or not i:
            parts.append(run.at(places[queries]).payload())
            order.append(queries)
    columns = tuple(pa.concat_arrays(pieces) for pieces in zip(*parts, strict=True))
    if len(order) == 1:
        return columns
    back = np.empty(len(places), np.int64)
    back[np.concatenate(order)] = np.arange(len(places))
    return tuple(column.take(pa.array(back)) for column in columns)
