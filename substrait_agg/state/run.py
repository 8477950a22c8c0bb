"""Run files: immutable Arrow IPC files of rows sorted by hash, split into pages (record batches).

The bounds of a page are its first and last hash. Opening a run reads them through the memory map,
which touches only two places per page. A small run is compressed, because small runs are written
and merged often. It is read completely, and stays in memory while it is open. The process that has
written it keeps its pages, because the next batch reads them.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from copy import copy
from dataclasses import dataclass
from threading import Lock

import numpy as np
import pyarrow as pa

from substrait_agg.errors import StateRefused
from substrait_agg.functions.numbers.stored_digits import (
    FIXED,
    fit,
    is_stored_form,
    with_digits_of,
)
from substrait_agg.state.keys.rows import Hashes
from substrait_agg.state.packing import ZSTD, pack, unpack
from substrait_agg.state.storage import Storage, store_failed

FORMAT = 1
PAGE_ROWS = 131_072
PAGE_BYTES = 1 << 26  # for long rows; a column of text holds at most 2 GiB
PIECE_BYTES = 1 << 28  # maximal size of rows read at once
SCAN_ROWS = 1 << 20  # rows that a scan reads at once
COMPRESSED_ROWS = 1 << 16  # maximal rows of a compressed run, which is read completely
COMPRESSED_BYTES = 1 << 22  # maximal size of such a run before compression
_UNFOLDED = 1 << 25  # far above COMPRESSED_BYTES: Arrow adds padding between columns
HASH_MAX = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class RunFile:
    """A run as named in a snapshot.

    Attributes:
        name: file name in the storage.
        bytes: size of the file.
        low: least hash whose rows are live in this tree through this run.
        high: greatest such hash (inclusive).
        span: number of hashes over which `rows` are spread: the width of the range that the run was
            written for.
    """

    name: str
    rows: int
    bytes: int
    crc: int
    low: int = 0
    high: int = HASH_MAX
    span: int = HASH_MAX + 1


class RunWriter:
    """Writer of a run from tables ordered by their `hash` column.

    A page has `page_rows` rows, or fewer long rows, so that it takes about `PAGE_BYTES`. A run of
    up to `COMPRESSED_ROWS` rows is compressed. No file is created before the first row; `close`
    returns None for a run without rows.

    Tables may lack digits of the schema (`functions.numbers.stored_digits`). If no page is written
    before the last table comes, the file has only the digits of the tables. So the pages of such a
    table are written when the next one comes.
    """

    def __init__(
        self, storage: Storage, name: str, schema: pa.Schema, page_rows: int = PAGE_ROWS
    ) -> None:
        self._storage = storage
        self._name = name
        self._schema = schema
        self._page_rows = page_rows
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._rows = 0
        self._open = ExitStack()
        self._writer: pa.RecordBatchFileWriter | None = None
        self._small: pa.RecordBatch | None = None
        self._checksum: tuple[int, int] | None = None

    def write(self, table: pa.Table) -> None:
        """Append rows with the columns of the run's schema."""
        if not table.num_rows:
            return
        self._write_pages()
        self._waiting.append(table)
        self._waiting_rows += table.num_rows
        self._waiting_bytes += table.nbytes
        if table.schema.equals(self._schema):
            self._write_pages()

    def _write_pages(self) -> None:
        while self._waiting_rows >= (rows := self._rows_of_page()):
            self._write_page(rows)

    def _rows_of_page(self) -> int:
        within = self._waiting_rows * PAGE_BYTES // max(1, self._waiting_bytes)
        return max(1, min(self._page_rows, within))

    def _write_page(self, rows: int) -> None:
        table = self._together()
        page, rest = table.slice(0, rows), table.slice(rows)
        self._waiting = [rest] if rest.num_rows else []
        self._waiting_rows, self._waiting_bytes = rest.num_rows, rest.nbytes
        if self._writer is None:
            sink = self._open.enter_context(self._storage.create(self._name))
            self._writer = pa.ipc.new_file(sink, self._schema)
        # There are several batches if one column cannot hold all rows of the page.
        for batch in page.combine_chunks().to_batches():
            self._writer.write_batch(batch)
        self._rows += page.num_rows

    def _together(self) -> pa.Table:
        return pa.concat_tables([fit(table, self._schema) for table in self._waiting])

    def close(self) -> RunFile | None:
        """Finish the file and compute its checksum; None without rows."""
        if self._writer is None:
            tables = [table.schema for table in self._waiting]
            self._schema = with_digits_of(self._schema, tables)
        if self._is_small():
            self._write_compressed()
        elif self._waiting_rows:
            self._write_pages()
            if self._waiting_rows:
                self._write_page(self._waiting_rows)
        if not self._rows:
            return None
        if self._writer is not None:
            self._writer.close()
        self._open.close()
        size, crc = self._checksum or self._storage.checksum(self._name)
        stamp = _remember(self._storage, self._name, crc)
        file = RunFile(self._name, self._rows, size, crc)
        if self._small is not None:
            reader = RunReader(file, [self._small], self._small.schema, self._waiting_bytes)
            _keep_reader((self._storage.root, self._name), reader, (crc, stamp))
        return file

    def _is_small(self) -> bool:
        few = 0 < self._waiting_rows <= COMPRESSED_ROWS and self._waiting_bytes <= COMPRESSED_BYTES
        return few and self._writer is None

    def _write_compressed(self) -> None:
        table = self._together()
        # Copies, because columns may be parts of larger ones, which they would keep in memory.
        columns = [column.combine_chunks() for column in table.columns]
        self._small = pa.RecordBatch.from_arrays(columns, schema=table.schema)
        packed = pack(pa.Table.from_batches([self._small]))
        self._storage.write(self._name, packed)
        self._checksum = packed.size, zlib.crc32(packed)
        self._rows = table.num_rows


def open_pages(source: pa.NativeFile) -> tuple[pa.RecordBatchFileReader, int]:
    """Return the pages of a file, and the bytes they take in memory if the file is compressed.

    Raises:
        pa.ArrowException: the file has no pages, or it is larger when decompressed than any run
            written here.
    """
    packed = source.read(len(ZSTD)) == ZSTD
    source.seek(0)
    if not packed:
        return pa.ipc.open_file(source), 0
    with pa.CompressedInputStream(source, "zstd") as stream:
        whole = stream.read_buffer(_UNFOLDED + 1)
    if whole.size > _UNFOLDED:
        raise pa.ArrowInvalid(f"it decompresses to more than {_UNFOLDED} bytes")
    whole = unpack(whole)
    return pa.ipc.open_file(whole), whole.size


class RunReader:
    """An open run: memory-mapped pages and their bounds.

    Args:
        file: the run.
        pages: its pages.
        schema: their columns.
        kept_bytes: bytes of the pages in memory if the file is compressed, else 0.

    Attributes:
        held: bytes of the pages in memory if the file is compressed, else 0.
        derived: cached objects that readers derive from the run, by reader type.
    """

    def __init__(
        self, file: RunFile, pages: Sequence[pa.RecordBatch], schema: pa.Schema, kept_bytes: int
    ) -> None:
        self.file, self.held = file, kept_bytes
        self.derived: dict[object, object] = {}
        self.pages = pages
        for page in self.pages:
            page.validate()
        if sum(page.num_rows for page in self.pages) != file.rows:
            raise damaged_run(file, "it does not have the number of rows in the snapshot")
        self.schema = schema
        if not all(_has_fences(page) for page in self.pages):
            raise damaged_run(file, "it has a page without hashes")
        self.hashes: list[Hashes] = [page.column(0).to_numpy() for page in self.pages]
        self.first = np.array([h[0] for h in self.hashes], np.uint64)
        self.last = np.array([h[-1] for h in self.hashes], np.uint64)

    @staticmethod
    def of(storage: Storage, file: RunFile) -> RunReader:
        """Open a run in a storage.

        Raises:
            StateRefused: STATE_DAMAGED or STORE_FAILED.
        """
        try:
            reader, kept_bytes = open_pages(storage.map(file.name))
            pages = [reader.get_batch(i) for i in range(reader.num_record_batches)]
            return RunReader(file, pages, reader.schema, kept_bytes)
        except (pa.ArrowException, OSError) as error:
            raise _unread(file, error) from error

    @property
    def is_whole(self) -> bool:
        """Return whether all hashes are live."""
        return self.file.low == 0 and self.file.high == HASH_MAX

    def pages_between(self, low: int, high: int) -> Iterator[int]:
        """Return the ordinals of the pages with hashes from `low` to `high` (inclusive)."""
        start = int(self.last.searchsorted(np.uint64(low), "left"))
        stop = int(self.first.searchsorted(np.uint64(high), "right"))
        return iter(range(start, stop))

    def rows_between(self, low: int, high: int) -> pa.Table:
        """Return the rows with hashes from `low` to `high` (inclusive), without copying."""
        parts = []
        for page in self.pages_between(low, high):
            hashes = self.hashes[page]
            start = int(np.searchsorted(hashes, np.uint64(low), "left"))
            stop = int(np.searchsorted(hashes, np.uint64(high), "right"))
            parts.append(self.pages[page].slice(start, stop - start))
        return pa.Table.from_batches(parts, self.schema)


def _has_fences(page: pa.RecordBatch) -> bool:
    if not page.num_rows or page.schema.names[0] != "hash":
        return False
    return bool(page.column(0).type == pa.uint64() and not page.column(0).null_count)


def rows_at_once(readers: Sequence[RunReader], rows: int) -> int:
    """Return how many rows to read at once: `rows`, or fewer if they exceed `PIECE_BYTES`."""
    total = sum(reader.file.rows for reader in readers)
    size = sum(max(reader.file.bytes, reader.held) for reader in readers)
    if size <= PIECE_BYTES:  # everything fits; file sizes say little about rows if files are tiny
        return rows
    return max(1, min(rows, PIECE_BYTES * total // size))


def scan_ranges(
    readers: Sequence[RunReader], low: int, high: int, rows: int | None = None
) -> Iterator[tuple[int, int]]:
    """Yield ranges of hashes that cover `low` to `high`, each of about `rows` rows of all runs.

    None means `SCAN_ROWS`.

    Yields:
        The least and the greatest hash of each range; nothing without runs.
    """
    total = sum(reader.file.rows for reader in readers)
    biggest = max(readers, key=lambda reader: reader.file.rows, default=None)
    if biggest is None:
        return
    page_rows = max(1, len(biggest.hashes[0]) * total // max(1, biggest.file.rows))
    step = max(1, rows_at_once(readers, rows or SCAN_ROWS) // page_rows)
    cuts = sorted({int(h) for h in biggest.first[step::step] if low < int(h) <= high})
    yield from zip([low, *cuts], [*(c - 1 for c in cuts), high], strict=True)


_CACHE_RUNS = 256
_CACHE_BYTES = 1 << 28  # compressed runs in memory
_KNOWN_RUNS = 1 << 14
_Known = tuple[int, tuple[int, ...]]


class _OpenRuns(OrderedDict[tuple[str, str], tuple[RunReader, _Known]]):
    """Open runs, the least recently used first.

    Attributes:
        held: bytes that they keep in memory. Adding them up takes longer than opening a small run.
    """

    held = 0

    def keep(self, key: tuple[str, str], reader: RunReader, opened_from: _Known) -> None:
        """Add a reader; drop the least recently used ones beyond the limits of the cache."""
        replaced = self.pop(key, None)
        self[key] = (reader, opened_from)
        self.held += reader.held - (0 if replaced is None else replaced[0].held)
        while len(self) > _CACHE_RUNS or (self.held > _CACHE_BYTES and len(self) > 1):
            self.held -= self.popitem(last=False)[1][0].held

    def clear(self) -> None:
        """Drop all readers."""
        super().clear()
        self.held = 0


_opened = _OpenRuns()
_verified: OrderedDict[tuple[str, str], _Known] = OrderedDict()
_CACHE_LOCK = Lock()  # a program may read a view in one thread while a run is active in another


def open_run(storage: Storage, file: RunFile) -> RunReader:
    """Open a run once per process, and verify its checksum before its first use.

    The run is verified again if the file system reports that the file was modified, because a
    process may live for years.

    Raises:
        StateRefused: STATE_DAMAGED if the file is missing or differs from what was written.
    """
    key = (storage.root, file.name)
    opened_from = (file.crc, _stamp(storage, file))
    if _verified.get(key) != opened_from:
        _verify(storage, file)
        opened_from = (file.crc, _stamp(storage, file))
        _remember(storage, file.name, file.crc)
    reader, opened_as = _opened.get(key, (None, None))
    if reader is None or opened_as != opened_from:
        reader = RunReader.of(storage, file)
        _keep_reader(key, reader, opened_from)
        return _with_range(reader, file)
    with _CACHE_LOCK:
        if key in _verified and key in _opened:  # another thread may have dropped it
            _verified.move_to_end(key)
            _opened.move_to_end(key)
    return _with_range(reader, file)


def open_runs(storage: Storage, files: Sequence[RunFile], schema: pa.Schema) -> list[RunReader]:
    """Open the runs of a tree, and check their columns.

    Args:
        storage: the storage of the runs.
        files: the runs.
        schema: their columns; each run may have other digits.

    Raises:
        StateRefused: STATE_DAMAGED if a run is missing, differs from what was written, or has
            other columns.
    """
    readers = [open_run(storage, file) for file in files]
    schemas = (schema, *(reader.schema for reader in readers))
    most = next((columns for columns in schemas if FIXED in columns.names), schema)
    for reader in readers:
        if not is_stored_form(reader.schema, most):
            raise damaged_run(reader.file, "it does not have the columns of its tree")
    return readers


def is_verified(storage: Storage, file: RunFile) -> bool:
    """Return whether the checksum of a run is verified, so that opening it does not read the file.

    Raises:
        StateRefused: STATE_DAMAGED if the file is missing.
    """
    return _verified.get((storage.root, file.name)) == (file.crc, _stamp(storage, file))


def verify_runs(storage: Storage, files: Sequence[RunFile]) -> None:
    """Verify runs before they are opened. A damaged run is reported when it is opened."""
    for file in files:
        with suppress(StateRefused, OSError):  # a merge may delete it meanwhile
            _verify(storage, file)
            _remember(storage, file.name, file.crc)


def _keep_reader(key: tuple[str, str], reader: RunReader, opened_from: _Known) -> None:
    with _CACHE_LOCK:
        _opened.keep(key, reader, opened_from)


def _remember(storage: Storage, name: str, crc: int) -> tuple[int, ...]:
    """Record that a file is verified, and return its stamp; keep the most recently used records."""
    key = (storage.root, name)
    stamp = storage.stamp(name)
    with _CACHE_LOCK:
        _verified[key] = (crc, stamp)
        _verified.move_to_end(key)
        while len(_verified) > _KNOWN_RUNS:
            _verified.popitem(last=False)
    return stamp


def _stamp(storage: Storage, file: RunFile) -> tuple[int, ...]:
    try:
        return storage.stamp(file.name)
    except OSError as error:
        raise _unread(file, error) from error


def _with_range(reader: RunReader, file: RunFile) -> RunReader:
    if reader.file == file:
        return reader
    view = copy(reader)
    view.file = file
    return view


def _verify(storage: Storage, file: RunFile) -> None:
    try:
        whole = storage.is_whole(file.name, file.bytes, file.crc)
    except OSError as error:
        raise _unread(file, error) from error
    if whole:
        return
    if not storage.forget(file.name):
        raise damaged_run(file, "its size or checksum is not the one in the snapshot")
    # The local copy is damaged; verify a fresh copy of the original.
    _verify(storage, file)


def _unread(file: RunFile, error: Exception) -> StateRefused:
    return store_failed(file.name, error) or damaged_run(file, str(error))


def damaged_run(file: RunFile, reason: str) -> StateRefused:
    """Return the error of a run that is not what was written."""
    return StateRefused(
        "STATE_DAMAGED",
        f"state file {file.name} is damaged: {reason}",
        help="restore the checkpoint folder from a copy, or start a new --checkpoint",
        path=file.name,
    )
