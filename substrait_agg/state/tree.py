"""A tree of rows by key: a few runs, newest first, with lookups, merges and scans.

Every run has the columns ``hash`` (uint64), ``dead`` (bool: the key is deleted), the key columns
``k0``, ``k1``, ..., and the columns of the operator. The newest row of a key is its current row.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from sys import getsizeof
from threading import Lock

import numpy as np
import pyarrow as pa

from substrait_agg.functions.numbers.stored_digits import fit, with_digits_of
from substrait_agg.state.keys.rows import (
    Hashes,
    Indices,
    Mask,
    as_mask,
    group_rows,
    one_array,
    rows_equal,
    take,
)
from substrait_agg.state.run import (
    HASH_MAX,
    RunFile,
    RunReader,
    damaged_run,
    open_run,
    open_runs,
    rows_at_once,
    scan_ranges,
)
from substrait_agg.state.storage import Storage

KEYS_FROM = 2  # number of columns before the first key column
OUTDATED_BYTES = 1 << 26
"""Bytes of the places of outdated rows that a process keeps, 8 for each, for later reads of the same runs."""
_outdated: OrderedDict[Hashable, list[Indices]] = OrderedDict()
_OUTDATED_LOCK = Lock()  # a program may read views in several threads


@dataclass(frozen=True, slots=True)
class LookupResult:
    """The result of a lookup.

    Attributes:
        positions: the probes that were found, in any order.
        rows: their rows, including dead rows.
        met: probes whose hash occurs with another key.
    """

    positions: Indices
    rows: pa.Table
    met: Indices


@dataclass(frozen=True, slots=True)
class KeyedLayout:
    """The columns of a run of a tree of rows by key, and the number of key columns."""

    schema: pa.Schema
    keys: int


class KeyedTree:
    """Read view of a tree of a snapshot.

    Args:
        storage: the storage of the runs.
        files: its runs, newest first.
        schema: columns of a run.
        keys: number of key columns.

    Attributes:
        schema: columns of the rows: `schema`, with the digits that the runs have.
        run_probes: keys that lookups searched in runs so far; a key counts once per run.
        page_reads: pages that they searched.
    """

    def __init__(
        self, storage: Storage, files: Sequence[RunFile], schema: pa.Schema, keys: int
    ) -> None:
        self.run_probes = self.page_reads = 0
        self._storage = storage
        self._keys = keys
        self._runs = open_runs(storage, files, schema)
        self.schema = with_digits_of(schema, [run.schema for run in self._runs])

    def lookup(self, hashes: Hashes, keys: Sequence[pa.Array]) -> LookupResult:
        """Return the newest row of each key that is in the tree.

        Args:
            hashes: ascending.
            keys: key columns of the same length, without duplicate keys.
        """
        missing = np.arange(len(hashes))
        positions: list[Indices] = []
        rows: list[pa.RecordBatch] = []
        collisions: list[Indices] = []
        for run in self._runs:
            if not len(missing):
                break
            seen = np.zeros(len(missing), np.bool_)
            for probes, batch, others in self._lookup_run(run, hashes, keys, missing):
                collisions.append(missing[others])
                seen[probes] = True
                positions.append(missing[probes])
                rows.append(batch)
            missing = missing[~seen]
        none = np.zeros(0, np.int64)
        table = pa.Table.from_batches(rows, self.schema).combine_chunks()
        return LookupResult(
            np.concatenate([none, *positions]), table, np.concatenate([none, *collisions])
        )

    def rows_at_once(self, rows: int) -> int:
        """Return how many rows to look up at once: `rows`, or fewer if they are long."""
        return rows_at_once(self._runs, rows)

    def rows_of(self, hashes: Hashes, columns: Sequence[str]) -> pa.Table:
        """Return the rows with some hashes in all runs, including dead and outdated rows.

        Args:
            hashes: ascending, without duplicates.
            columns: names of the columns to return.
        """
        schema = pa.schema([self.schema.field(name) for name in columns])
        parts = [part for run in self._runs for part in _rows_of(run, hashes, columns)]
        return pa.Table.from_batches(parts, schema)

    def _lookup_run(
        self, run: RunReader, hashes: Hashes, keys: Sequence[pa.Array], probes: Indices
    ) -> Iterator[tuple[Indices, pa.RecordBatch, Indices]]:
        sought = hashes[probes]
        low, high = np.uint64(run.file.low), np.uint64(run.file.high)
        start = int(np.searchsorted(sought, low, "left"))
        stop = int(np.searchsorted(sought, high, "right"))
        if start == stop:
            return
        self.run_probes += stop - start
        for page in run.pages_between(int(sought[start]), int(sought[stop - 1])):
            first = max(start, int(np.searchsorted(sought, run.first[page], "left")))
            end = min(stop, int(np.searchsorted(sought, run.last[page], "right")))
            if first >= end:
                continue
            self.page_reads += 1
            matched, at, others = self._lookup_page(
                run.pages[page], run.hashes[page], sought[first:end], keys, probes[first:end]
            )
            if len(matched) or len(others):
                rows = take(run.pages[page].columns, at)
                batch = pa.RecordBatch.from_arrays(rows, schema=run.schema)
                yield matched + first, fit(batch, self.schema), others + first

    def _lookup_page(
        self,
        page: pa.RecordBatch,
        stored: Hashes,
        sought: Hashes,
        keys: Sequence[pa.Array],
        probes: Indices,
    ) -> tuple[Indices, Indices, Indices]:
        at = np.searchsorted(stored, sought, "left")
        hit = np.flatnonzero(stored[np.minimum(at, len(stored) - 1)] == sought)
        at = at[hit]
        columns = page.columns[KEYS_FROM : KEYS_FROM + self._keys]
        same = rows_equal(take(columns, at), take(keys, probes[hit]), len(hit))
        unsure = np.flatnonzero(~same)
        if len(unsure):
            more, found_at = _lookup_collisions(
                columns, stored, sought[hit[unsure]], keys, probes[hit[unsure]]
            )
            at[unsure[more]] = found_at
            same[unsure[more]] = True
        return hit[same], at[same], hit[~same]

    def scan(
        self,
        low: int = 0,
        high: int = HASH_MAX,
        *,
        dead: bool = False,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.Table]:
        """Yield the newest row of every key, ordered by hash, in tables of about `state.run.SCAN_ROWS` rows.

        Args:
            low: least hash.
            high: greatest hash.
            dead: whether to include dead keys.
            columns: names of the columns to return after the keys; None means all.
        """
        schema = self.schema
        if columns is not None:
            schema = pa.schema(
                [*list(schema)[: KEYS_FROM + self._keys], *map(schema.field, columns)]
            )
        for start, stop in scan_ranges(self._runs, low, high):
            parts = [fit(rows, self.schema) for _, rows in self._rows_between(start, stop)]
            parts = [part.select(schema.names) for part in parts]
            rows = newest(pa.concat_tables([schema.empty_table(), *parts]), self._keys)
            yield rows if dead else rows.filter(pa.array(~dead_rows(rows)))

    def current(
        self, columns: Sequence[str], low: int = 0, high: int = HASH_MAX
    ) -> Iterator[pa.RecordBatch]:
        """Yield the current row of every key that is not deleted, page by page, in no order.

        Unlike `scan`, this sorts only hashes. A page of which all rows are current is not copied.
        """
        for start, stop in scan_ranges(self._runs, low, high):
            pages = [
                (age, page)
                for age, rows in self._rows_between(start, stop)
                for page in rows.to_batches()
                if page.num_rows
            ]
            files = tuple(run.file for run in self._runs)
            read = (self._storage.root, files, start, stop)
            for (_, page), outdated in zip(pages, self._known_outdated(read, pages), strict=True):
                is_current = ~as_mask(page.column(1))
                is_current[outdated] = False
                rows = page.select(list(columns))
                yield rows if is_current.all() else rows.filter(pa.array(is_current))

    def _rows_between(self, low: int, high: int) -> Iterator[tuple[int, pa.Table]]:
        """Yield the rows of each run in a range of hashes, and its age; the newest run has age 0."""
        for age, run in enumerate(self._runs):
            if run.file.low <= high and run.file.high >= low:
                yield age, run.rows_between(max(low, run.file.low), min(high, run.file.high))

    def _known_outdated(
        self, read: Hashable, pages: Sequence[tuple[int, pa.RecordBatch]]
    ) -> list[Indices]:
        """Return `_find_outdated` for the rows that `read` identifies, which are the same every time."""
        with _OUTDATED_LOCK:
            if read in _outdated:
                _outdated.move_to_end(read)
                return _outdated[read]
        places_by_page = self._find_outdated(pages)
        with _OUTDATED_LOCK:
            _outdated[read] = places_by_page
            size = sum(sum(map(getsizeof, known)) for known in _outdated.values())
            while size > OUTDATED_BYTES:
                size -= sum(map(getsizeof, _outdated.popitem(last=False)[1]))
        return places_by_page

    def _find_outdated(self, pages: Sequence[tuple[int, pa.RecordBatch]]) -> list[Indices]:
        """Return the places in each page of the rows whose keys are in newer runs.

        Args:
            pages: all rows of a range of hashes, newest run first, each page with the age of its run.
        """
        none = [np.zeros(0, np.int64)] * len(pages)
        if len({age for age, _ in pages}) < 2:
            return none
        hashes = [page.column(0).to_numpy() for _, page in pages]
        repeated = _find_repeated(hashes)
        if not len(repeated):
            return none
        places = [_places_of(stored, repeated) for stored in hashes]
        names = self.schema.names[KEYS_FROM : KEYS_FROM + self._keys]
        rows = pa.Table.from_batches(
            [
                page.select(["hash", *names]).take(pa.array(at))
                for (_, page), at in zip(pages, places, strict=True)
            ]
        ).combine_chunks()
        order, first = group_rows(rows.column(0).to_numpy(), _flat([rows.column(n) for n in names]))
        is_outdated = np.zeros(rows.num_rows, np.bool_)
        is_outdated[order[~first]] = True
        ends = np.cumsum([len(at) for at in places])
        return [at[part] for at, part in zip(places, np.split(is_outdated, ends[:-1]), strict=True)]


def _find_repeated(hashes: Sequence[Hashes]) -> Hashes:
    """Return the hashes that occur more than once in ascending sequences, in ascending order.

    One sort of all hashes is several times faster than a search for those of each run in all older
    runs. A stable sort merges ascending sequences.
    """
    ordered = np.concatenate(hashes)
    ordered.sort(kind="stable")
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    # `numpy.unique` takes twice as long for few.
    distinct: Hashes = repeated[np.flatnonzero(np.diff(repeated, prepend=~repeated[:1]))]
    return distinct


def _rows_of(run: RunReader, hashes: Hashes, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    start = int(np.searchsorted(hashes, np.uint64(run.file.low), "left"))
    stop = int(np.searchsorted(hashes, np.uint64(run.file.high), "right"))
    if start == stop:
        return
    for page in run.pages_between(int(hashes[start]), int(hashes[stop - 1])):
        at = _places_of(run.hashes[page], hashes[start:stop])
        if len(at):
            yield run.pages[page].select(list(columns)).take(pa.array(at))


def _places_of(stored: Hashes, sought: Hashes) -> Indices:
    """Return the places of some hashes, ascending and without duplicates, among ascending hashes."""
    first, last = np.searchsorted(sought, stored[[0, -1]])
    inside = sought[first : last + 1]
    low = np.minimum(np.searchsorted(stored, inside), len(stored) - 1)
    hit = np.flatnonzero(stored[low] == inside)
    low = low[hit]
    lengths = np.searchsorted(stored, inside[hit], "right") - low
    ends = np.cumsum(lengths)
    return np.repeat(low - ends + lengths, lengths) + np.arange(lengths.sum())


def _lookup_collisions(
    columns: Sequence[pa.Array],
    stored: Hashes,
    sought: Hashes,
    keys: Sequence[pa.Array],
    probes: Indices,
) -> tuple[Indices, Indices]:
    """Look up probes whose hash also occurs with other keys.

    Returns:
        The probes found in the page, and their places.
    """
    chain = np.flatnonzero(np.isin(stored, sought))
    stored_columns = take(columns, chain)
    here = take(keys, probes)
    both = [pa.concat_arrays([a, b]) for a, b in zip(stored_columns, here, strict=True)]
    order, first = group_rows(np.concatenate([stored[chain], sought]), both)
    second = np.flatnonzero(~first)  # a probe directly after the stored row of the same key
    matched = order[second] - len(chain)
    return matched, chain[order[second - 1]]


def newest(rows: pa.Table, keys: int) -> pa.Table:
    """Return the first row of each key, ordered by hash; `rows` are given newest first."""
    if not rows.num_rows:
        return rows
    whole = rows.combine_chunks()
    columns = [whole.column(KEYS_FROM + i).combine_chunks() for i in range(keys)]
    order, first = group_rows(whole.column(0).to_numpy(), _flat(columns))
    rows = take(_flat(whole.columns), order[first])
    return pa.Table.from_arrays(rows, schema=whole.schema)


def _flat(columns: Sequence[pa.ChunkedArray | pa.Array]) -> list[pa.Array]:
    return [one_array(c) if isinstance(c, pa.ChunkedArray) else c for c in columns]


def tree_of(storage: Storage, runs: Sequence[RunFile], keys: int | None = None) -> KeyedTree:
    """Open a tree with at least one run, whose schema defines the columns.

    Args:
        storage: the storage of the runs.
        runs: newest first.
        keys: number of key columns; None for those of the run.

    Raises:
        StateRefused: STATE_DAMAGED, STORE_FAILED.
    """
    schema = open_run(storage, runs[0]).schema
    count = len(key_columns(schema)) if keys is None else keys
    first = ["hash", "dead", *(f"k{i}" for i in range(count))]
    if schema.names[: KEYS_FROM + count] != first:
        raise damaged_run(runs[0], f"its first columns are not {', '.join(first)}")
    return KeyedTree(storage, runs, schema, count)


def key_columns(schema: pa.Schema) -> list[str]:
    """Return the names of the key columns of a run."""
    return [n for n in schema.names if n[0] == "k" and n[1:].isdigit()]


def dead_rows(rows: pa.Table) -> Mask:
    """Return a mask of the rows whose key is deleted."""
    return as_mask(rows.column(1))
