"""An arrangement: the weighted rows of a relation, sorted by the hash of a key.

A run has the columns ``hash`` (uint64, of the key), ``weight`` (int64, not 0), the key columns
``k0``, ``k1``, ..., and the other columns ``v0``, ``v1``, ... of the row. The content of an
arrangement is the sum of its runs: a row may be in several runs, and its weight is the sum of its
weights there. So a batch adds a run and reads nothing (McSherry et al., *Shared Arrangements*,
VLDB 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.state.keys.canonical import canonical
from substrait_agg.state.keys.fixed_keys import width
from substrait_agg.state.keys.row_sizes import TAKEN_BYTES, slices_to_take
from substrait_agg.state.keys.rows import (
    Hashes,
    Indices,
    Mask,
    group_rows,
    one_array,
    row_hashes,
    rows_equal,
    stable_order,
    take,
)
from substrait_agg.state.run import (
    HASH_MAX,
    RunFile,
    RunReader,
    open_runs,
    scan_ranges,
)
from substrait_agg.state.storage import Storage
from substrait_agg.state.weights import sum_runs_of_rows

HASH, WEIGHT = "hash", "weight"
MATCHES_AT_ONCE = 1 << 18
"""Maximal number of pairs of a probe and a row in memory at once."""

Weights = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ArrangementLayout:
    """The columns of an arrangement."""

    key_types: tuple[pa.DataType, ...]
    value_types: tuple[pa.DataType, ...]

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of a run."""
        return pa.schema(
            [
                pa.field(HASH, pa.uint64()),
                pa.field(WEIGHT, pa.int64()),
                *(pa.field(f"k{i}", t) for i, t in enumerate(self.key_types)),
                *(pa.field(f"v{i}", t) for i, t in enumerate(self.value_types)),
            ]
        )

    @staticmethod
    def of_run(schema: pa.Schema) -> ArrangementLayout:
        """Return the layout of a run with this schema."""
        fields = list(schema)[2:]
        keys = (field.type for field in fields if field.name.startswith("k"))
        values = (field.type for field in fields if field.name.startswith("v"))
        return ArrangementLayout(tuple(keys), tuple(values))


@dataclass(frozen=True, slots=True)
class Matches:
    """Pairs of a probe and a row with the same key.

    Attributes:
        probes: ordinals of the probes, one per pair.
        rows: the row of each pair, as in a run.
    """

    probes: Indices
    rows: pa.RecordBatch

    @property
    def weights(self) -> Weights:
        """Return the weight of the row of each pair."""
        return np.asarray(self.rows.column(1).to_numpy())

    @staticmethod
    def join_parts(parts: Iterable[Matches]) -> Iterator[Matches]:
        """Yield the pairs of parts as few parts, in their order.

        A part of a few pairs costs as much to evaluate as one of a thousand. Larger parts than
        `MATCHES_AT_ONCE` pairs or `TAKEN_BYTES` remain as they are.
        """
        return map(_together, _batches(parts))

    def by_probe(self) -> Matches:
        """Return the pairs ordered by probe."""
        if (self.probes[1:] >= self.probes[:-1]).all():
            return self
        order = self.probes.argsort(kind="stable")
        return Matches(self.probes[order], self.rows.take(pa.array(order)))


@dataclass(frozen=True, slots=True)
class PageSlice:
    """Adjacent rows of a page of a run."""

    run: RunReader
    page: int
    start: int
    stop: int

    @property
    def rows(self) -> pa.RecordBatch:
        """Return the rows, without copying."""
        return self.run.pages[self.page].slice(self.start, self.stop - self.start)

    def part(self, start: int, stop: int) -> pa.RecordBatch:
        """Return those rows that are from `start` to `stop` (exclusive) in the page."""
        start, stop = max(start, self.start), min(stop, self.stop)
        return self.run.pages[self.page].slice(start, max(stop - start, 0))

    def derive(self, key: Hashable, compute: Callable[[pa.RecordBatch], Hashes]) -> Hashes:
        """Return what is computed of the whole page, and keep it as long as the run is open."""
        cache = self.run.derived
        if (key, self.page) not in cache:
            cache[key, self.page] = compute(self.run.pages[self.page])
        return np.asarray(cache[key, self.page])


class Arrangement:
    """Read view of an arrangement of a snapshot."""

    def __init__(
        self, storage: Storage, files: Sequence[RunFile], layout: ArrangementLayout
    ) -> None:
        self.layout = layout
        self._runs = open_runs(storage, files, layout.schema)

    def probe(self, hashes: Hashes, keys: Sequence[pa.Array]) -> Iterator[Matches]:
        """Yield the rows of all runs that have the key of a probe.

        Args:
            hashes: hash of each probe, ascending.
            keys: key columns of the probes.

        Yields:
            At most about `MATCHES_AT_ONCE` pairs and `TAKEN_BYTES` at once, however many rows a key
            has, in the order of the probes. The weights of equal rows of several runs are not added
            up.
        """
        for run in self._runs:
            for some in _batches(_candidate_pairs(run, hashes)):
                yield from _with_equal_keys(some, keys)

    @property
    def row_bound(self) -> int:
        """Return the number of rows of all runs: at least that of different rows."""
        return sum(run.file.rows for run in self._runs)

    def between(self, low: int, high: int) -> Iterator[PageSlice]:
        """Yield the rows of each page of all runs with hashes from `low` to `high` (inclusive)."""
        for run in self._runs:
            least, most = max(low, run.file.low), min(high, run.file.high)
            for page in run.pages_between(least, most):
                start = int(run.hashes[page].searchsorted(np.uint64(least), "left"))
                stop = int(run.hashes[page].searchsorted(np.uint64(most), "right"))
                if start < stop:
                    yield PageSlice(run, page, start, stop)

    def count_of(self, hashes: Hashes) -> int:
        """Return how many pairs `probe` tests for ascending hashes."""
        return sum(_count(run, hashes) for run in self._runs)

    def bytes_of(self, hashes: Hashes) -> int:
        """Return about how many bytes the rows take that `probe` reads for ascending hashes."""
        total = 0
        for run in self._runs:
            rows = _count(run, hashes)
            total += rows * max(run.file.bytes, run.held) // run.file.rows
        return total

    def scan(self, low: int = 0, high: int = HASH_MAX) -> Iterator[pa.Table]:
        """Yield the rows with hashes from `low` to `high`, by hash, each once with its weight.

        Raises:
            RunFailed: WEIGHT_OVERFLOW.
        """
        schema = self.layout.schema
        for start, stop in scan_ranges(self._runs, low, high):
            parts = [
                run.rows_between(max(start, run.file.low), min(stop, run.file.high))
                for run in self._runs
                if run.file.low <= stop and run.file.high >= start
            ]
            yield consolidate_rows(schema.empty_table(), *parts)


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The rows of a page with the hash of a probe.

    Attributes:
        page: ordinal of the page.
        first: ordinal of the first probe with a hash of the page.
        low: position of the first row with the hash of each probe from there on.
        lengths: number of rows with that hash.
    """

    page: int
    first: int
    low: Indices
    lengths: Indices


def _candidates(run: RunReader, hashes: Hashes) -> Iterator[_Candidates]:
    """Yield the candidates in every page of a run for probes with ascending hashes."""
    start, stop = 0, len(hashes)
    if not run.is_whole:
        start = int(hashes.searchsorted(np.uint64(run.file.low), "left"))
        stop = int(hashes.searchsorted(np.uint64(run.file.high), "right"))
    if start == stop:
        return
    if len(run.pages) == 1:
        pages, firsts, ends = iter((0,)), [start], [stop]
    else:
        pages = run.pages_between(int(hashes[start]), int(hashes[stop - 1]))
        firsts = hashes.searchsorted(run.first, "left").tolist()
        ends = hashes.searchsorted(run.last, "right").tolist()
    for page in pages:
        first = max(start, firsts[page])
        low, lengths = hash_ranges(run.hashes[page], hashes[first : min(stop, ends[page])])
        if lengths.any():
            yield _Candidates(page, first, low, lengths)


def _count(run: RunReader, hashes: Hashes) -> int:
    return sum(int(part.lengths.sum()) for part in _candidates(run, hashes))


def _candidate_pairs(run: RunReader, hashes: Hashes) -> Iterator[Matches]:
    """Yield the pairs of probes with ascending hashes and rows of a run with the same hash."""
    for part in _candidates(run, hashes):
        for pairs in iter_pairs(run.pages[part.page], part.low, part.lengths):
            yield Matches(pairs.probes + part.first, pairs.rows)


def hash_ranges(stored: Hashes, hashes: Hashes) -> tuple[Indices, Indices]:
    """Return the first position of each hash in ascending `stored` hashes, and how often it occurs."""
    low = stored.searchsorted(hashes, "left")
    lengths = np.zeros(len(low), np.int64)
    if len(stored):
        # In most runs, most hashes do not occur: only those that do are searched again.
        hit = (stored.take(low, mode="clip") == hashes).nonzero()[0]
        lengths[hit] = stored.searchsorted(hashes[hit], "right") - low[hit]
    return low, lengths


def match_page(
    page: pa.RecordBatch, low: Indices, lengths: Indices, keys: Sequence[pa.Array]
) -> Iterator[Matches]:
    """Yield the pairs of probes and rows of a page whose keys are equal.

    Args:
        page: rows ordered by hash, with the columns of a run.
        low: position of the first row with the hash of each probe.
        lengths: number of rows with the hash of each probe.
        keys: key columns of the probes.
    """
    for candidates in iter_pairs(page, low, lengths):
        yield from _with_equal_keys([candidates], keys)


def iter_pairs(page: pa.RecordBatch, low: Indices, lengths: Indices) -> Iterator[Matches]:
    """Yield the pairs of probes and rows of a page with the same hash, as `match_page`."""
    for probes, at in iter_places(low, lengths):
        for part in slices_to_take(page.columns, at):
            yield Matches(probes[part], page.take(pa.array(at[part])))


def iter_places(low: Indices, lengths: Indices) -> Iterator[tuple[Indices, Indices]]:
    """Yield the probe and the row of each pair, at most about `MATCHES_AT_ONCE` pairs at once."""
    hit = lengths.nonzero()[0]
    low, lengths = low[hit], lengths[hit]
    ends: Indices = lengths.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    at: Indices
    if total == len(hit):  # most often, a key has one row in a page
        if total:
            yield hit, low
        return
    if total <= MATCHES_AT_ONCE:
        at = np.arange(total) + (low - (ends - lengths)).repeat(lengths)
        yield hit.repeat(lengths), at
        return
    for first in range(0, total, MATCHES_AT_ONCE):
        pairs = np.arange(first, min(first + MATCHES_AT_ONCE, total))
        probes = ends.searchsorted(pairs, "right")
        at = low[probes] + pairs - (ends[probes] - lengths[probes])
        yield hit[probes], at


def _with_equal_keys(candidates: Sequence[Matches], keys: Sequence[pa.Array]) -> Iterator[Matches]:
    """Yield the pairs of probes and rows whose keys are equal, as one by probe, if there are any."""
    together = _together(candidates)
    probes, rows = together.probes, together.rows
    same = rows_equal(rows.columns[2 : 2 + len(keys)], take(keys, probes), len(probes))
    pairs = same.nonzero()[0]
    ordered = probes[pairs]
    if (ordered[1:] < ordered[:-1]).any():  # several probes of a key whose rows are in two pages
        pairs = pairs[ordered.argsort(kind="stable")]
    elif len(pairs) == len(probes):
        yield Matches(probes, rows)
        return
    if len(pairs):
        yield Matches(probes[pairs], rows.take(pa.array(pairs)))


def _batches(parts: Iterable[Matches]) -> Iterator[list[Matches]]:
    """Yield adjacent parts that have about `MATCHES_AT_ONCE` pairs or `TAKEN_BYTES` together."""
    waiting: list[Matches] = []
    pairs = size = 0
    for part in parts:
        waiting.append(part)
        pairs, size = pairs + len(part.probes), size + part.rows.nbytes
        if pairs >= MATCHES_AT_ONCE or size >= TAKEN_BYTES:
            yield waiting
            waiting, pairs, size = [], 0, 0
    if waiting:
        yield waiting


def _together(parts: Sequence[Matches]) -> Matches:
    """Return the pairs of all parts (at least one)."""
    if len(parts) == 1:
        return parts[0]
    probes = np.concatenate([part.probes for part in parts])
    return Matches(probes, pa.concat_batches([part.rows for part in parts]))


def consolidate_rows(*parts: pa.Table) -> pa.Table:
    """Return rows by hash, with the weights of equal rows added up and without weight 0.

    Args:
        parts: the columns of a run, in any order. If there are several, such as runs, each of them has
            no equal rows.

    Raises:
        RunFailed: WEIGHT_OVERFLOW.
    """
    rows = pa.concat_tables(parts)
    if not rows.num_rows:
        return rows
    columns = [one_array(column) for column in rows.columns]
    whole = pa.RecordBatch.from_arrays(columns, schema=rows.schema)
    return pa.Table.from_batches([consolidate_batch(whole, [part.num_rows for part in parts])])


def consolidate_batch(rows: pa.RecordBatch, lengths: Sequence[int]) -> pa.RecordBatch:
    """Return the rows of parts with some lengths as `consolidate_rows`."""
    hashes, weights = rows.column(0).to_numpy(), rows.column(1).to_numpy()
    order = stable_order(hashes)
    # If there are several parts, equal rows are in different ones.
    part = None if len(lengths) == 1 else np.arange(len(lengths)).repeat(lengths)[order]
    candidates = order[_mask_repeated(hashes[order], part)]
    weights = _with_sums(candidates, hashes, weights, rows.columns[2:])
    nonzero = weights[order] != 0
    if not nonzero.all():
        order = order[nonzero]
    ordered = rows.take(pa.array(order))
    return ordered.set_column(1, rows.schema.field(1), pa.array(weights[order]))


def _mask_repeated(ordered: Hashes, parts: Indices | None = None) -> Mask:
    """Return a mask of the ascending hashes that occur several times; with `parts`, in several parts.

    The parts of equal hashes ascend.
    """
    new = np.ones(len(ordered), np.bool_)
    new[1:] = ordered[1:] != ordered[:-1]
    if new.all():
        return ~new
    starts = new.nonzero()[0]
    ends = np.append(starts[1:], len(ordered)) - 1
    several = starts != ends if parts is None else parts[starts] != parts[ends]
    mask: Mask = several.repeat(ends - starts + 1)
    return mask


def _with_sums(
    candidates: Indices, hashes: Hashes, weights: Weights, columns: Sequence[pa.Array]
) -> Weights:
    """Return the weights of rows: of equal rows, the first has their sum, and the others 0.

    Args:
        candidates: the rows that may be equal to others.
        hashes: the hash of each row.
        weights: the weight of each row.
        columns: the other columns.
    """
    fixed = [column for column in columns if width(column.type) is not None]
    if 2 * len(candidates) > len(hashes):
        candidates = np.arange(len(hashes))
    else:
        fixed = take(fixed, candidates)
    row_hashes_of = row_hashes(fixed, hashes[candidates])
    order = stable_order(row_hashes_of)
    # Columns of variable width are read only where the others are equal.
    some = order[_mask_repeated(row_hashes_of[order])]
    if not len(some):
        return weights
    rows = candidates[some]
    columns = take(columns, rows)
    others = [column for column in columns if width(column.type) is None]
    grouped, first = group_rows(row_hashes(others, row_hashes_of[some]), columns)
    rows, starts = rows[grouped], first.nonzero()[0]
    summed = weights.copy()
    summed[rows] = 0
    summed[rows[starts]] = sum_runs_of_rows(weights[rows], starts)
    return summed


def arrange(
    layout: ArrangementLayout,
    hashes: Hashes,
    keys: Sequence[pa.Array],
    values: Sequence[pa.Array],
    weights: Weights,
) -> pa.RecordBatch:
    """Return rows as a run has them: consolidated, ordered by hash, equal values in one form.

    Raises:
        RunFailed: WEIGHT_OVERFLOW.
    """
    columns = [pa.array(hashes), pa.array(weights), *map(canonical, (*keys, *values))]
    return consolidate_batch(
        pa.RecordBatch.from_arrays(columns, schema=layout.schema), [len(weights)]
    )
