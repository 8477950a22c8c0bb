"""Consolidate changes: add up the weights of equal rows and drop rows of weight 0.

Two cases need it: the changes of both passes of a version over one hash range, and the changes of a
whole version that an exchange partitions. A row that pass 1 inserts and pass 2 retracts is not
emitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.snapshot import ChangeFile
from substrait_agg.commit.tasks.change_writer import ChangeWriter, parquet_writer
from substrait_agg.commit.tasks.spill import Buckets
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.state.keys.rows import as_mask, nested_bytes
from substrait_agg.state.keys.variable_keys import byte_hashes
from substrait_agg.state.run import HASH_MAX

PIECE_ROWS = 1 << 16


def write_joined(
    files: FolderFiles, name: str, first: Sequence[ChangeFile], second: Sequence[ChangeFile]
) -> tuple[ChangeFile, ...]:
    """Write the changes of two passes as one consolidated file.

    The changes of the second pass are kept in memory. Those of the first are read in pieces.

    Args:
        files: where change files are.
        name: of the new one.
        first: files of the first pass.
        second: files of the second pass, over the same groups; at least one.

    Returns:
        The new file, or nothing if all rows cancel.
    """
    later = pa.concat_tables([pq.read_table(files.map(file.name)) for file in second])
    later_rows = row_bytes(later)
    parts = [later]
    rows = 0
    with ExitStack() as stack:
        sink = stack.enter_context(files.create(name))
        writer = stack.enter_context(parquet_writer(sink, later))
        for piece in pieces(files, first):
            same = as_mask(pc.is_in(row_bytes(piece), value_set=later_rows))
            parts.append(piece.filter(pa.array(same)))
            others = piece.filter(pa.array(~same))
            writer.write_table(others)
            rows += others.num_rows
        left = consolidate(pa.concat_tables(parts))
        writer.write_table(left)
        rows += left.num_rows
    if not rows:
        files.delete(name)
        return ()
    return (ChangeFile(name, rows, *files.checksum(name)),)


def consolidate(changes: pa.Table) -> pa.Table:
    """Return changes with each row once and its weights added up, retractions first.

    Rows of weight 0 are left out.

    Args:
        changes: changes whose last column is the weight.
    """
    if not changes.num_rows:
        return changes
    codes = row_bytes(changes).dictionary_encode().indices.to_numpy()
    sums = np.zeros(codes.max() + 1, np.int64)
    np.add.at(sums, codes, changes.column(WEIGHT).to_numpy())
    first = np.zeros(len(sums), np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    nonzero = np.flatnonzero(sums)
    nonzero = nonzero[np.argsort(sums[nonzero] > 0, kind="stable")]
    rows = changes.take(pa.array(first[nonzero]))
    return rows.set_column(
        rows.num_columns - 1, changes.schema.field(WEIGHT), pa.array(sums[nonzero])
    )


def pieces(files: FolderFiles, changes: Sequence[ChangeFile]) -> Iterator[pa.Table]:
    """Read change files in pieces of at most `PIECE_ROWS` rows."""
    for file in changes:
        for batch in pq.ParquetFile(files.map(file.name)).iter_batches(PIECE_ROWS):
            yield pa.Table.from_batches([batch])


def row_bytes(changes: pa.Table) -> pa.Array:
    """Return rows without their weights as bytes, which are equal where the rows are equal."""
    columns = [c.combine_chunks() for c in changes.drop_columns([WEIGHT]).columns]
    names = [str(i) for i in range(len(columns))]
    return nested_bytes(pa.StructArray.from_arrays(columns, names))


HASH = "hash"
SLICE_ROWS = 1 << 20
SLICE_BYTES = 1 << 28
"""Bounds of the rows that a task keeps in memory, and of their bytes."""


@dataclass(frozen=True, slots=True)
class Consolidation:
    """The consolidation of the changes of one version."""

    folder: str
    operator: int
    version: int
    changes: tuple[ChangeFile, ...]

    @property
    def rows(self) -> int:
        """Number of changes."""
        return sum(file.rows for file in self.changes)

    @property
    def bytes(self) -> int:
        """Total size of the files."""
        return sum(file.bytes for file in self.changes)

    def read(self, file: ChangeFile) -> Iterator[pa.Table]:
        """Read the changes of a file in pieces."""
        return pieces(FolderFiles(self.folder), [file])


@dataclass(frozen=True, slots=True)
class Consolidated:
    """The change files that replace others.

    Attributes:
        retracted: number of rows with a weight below zero.
        inserted: number of rows with a weight above zero.
    """

    changes: tuple[ChangeFile, ...]
    retracted: int
    inserted: int

    @staticmethod
    def combine(parts: Sequence[Consolidated]) -> Consolidated:
        """Combine the results of all tasks."""
        return Consolidated(
            tuple(file for part in parts for file in part.changes),
            sum(part.retracted for part in parts),
            sum(part.inserted for part in parts),
        )


def consolidate_in_memory(work: Consolidation) -> Consolidated | None:
    """Consolidate changes that fit in memory.

    Returns:
        The new files. None if no two rows are equal, so that the files can stay.

    Raises:
        OSError: a file cannot be read or written.
    """
    table = pa.concat_tables([piece for file in work.changes for piece in work.read(file)])
    rows = consolidate(table)
    if rows.num_rows == table.num_rows:
        return None
    with _Output(work) as output:
        output.write(rows)
    return output.result


def exchanged_rows(
    work: Consolidation, file: ChangeFile, partitions: int
) -> Iterator[tuple[int, bytes]]:
    """Yield the changes of a file by the partition that consolidates them.

    Args:
        work: the consolidation.
        file: one of its files.
        partitions: number of partitions, a power of two.

    Yields:
        The number of a partition, and rows for it as an Arrow stream.
    """
    for piece in work.read(file):
        rows = consolidate(piece)  # many groups have equal rows: this reduces the exchange
        if not rows.num_rows:
            continue
        hashes = byte_hashes(row_bytes(rows))
        hashed = rows.add_column(0, HASH, pa.array(hashes))
        places = (
            hashes // np.uint64(_width(partitions)) if partitions > 1 else np.zeros_like(hashes)
        )
        for partition in np.unique(places):
            part = hashed.filter(pa.array(places == partition))
            yield int(partition), _as_stream(part)


def consolidate_partition(
    work: Consolidation, partition: int, partitions: int, streams: Iterable[bytes]
) -> Consolidated:
    """Consolidate the rows of one partition.

    Raises:
        OSError: the file cannot be written.
    """
    low = partition * _width(partitions)
    with _Output(work) as output, ExitStack() as stack:
        for rows in _slices(streams, low, low + _width(partitions) - 1, stack):
            output.write(rows.drop_columns([HASH]))
    return output.result


def _slices(streams: Iterable[bytes], low: int, high: int, stack: ExitStack) -> Iterator[pa.Table]:
    """Yield the consolidated rows of a partition: all at once, or by ranges of the hash."""
    buffered: list[pa.Table] = []
    rows = size = 0
    buckets: Buckets | None = None
    for stream in streams:
        table = pa.ipc.open_stream(stream).read_all()
        buffered.append(table)
        rows, size = rows + table.num_rows, size + table.nbytes
        if rows <= SLICE_ROWS and size <= SLICE_BYTES:
            continue
        buffered = [consolidate(pa.concat_tables(buffered))]
        rows, size = buffered[0].num_rows, buffered[0].nbytes
        if rows > SLICE_ROWS // 2 or size > SLICE_BYTES // 2:
            buckets = buckets or Buckets(low, high, stack)
            buckets.add(pa.concat_tables(buffered))
            buffered, rows, size = [], 0, 0
    if buckets is None:
        if buffered:
            yield consolidate(pa.concat_tables(buffered))
        return
    if buffered:
        buckets.add(pa.concat_tables(buffered))
    yield from (consolidate(table) for table, _, _ in buckets.tables() if table is not None)


class _Output:
    """Writes consolidated changes to a file and counts them."""

    def __init__(self, work: Consolidation) -> None:
        self._work = work
        self._stack = ExitStack()
        self._writer: ChangeWriter | None = None
        self._retracted = self._inserted = 0
        self.result = Consolidated((), 0, 0)

    def __enter__(self) -> _Output:
        return self

    def write(self, rows: pa.Table) -> None:
        """Append rows. The file is created on the first row."""
        if not rows.num_rows:
            return
        if self._writer is None:
            names = [name for name in rows.column_names if name != WEIGHT]
            self._writer = ChangeWriter(
                FolderFiles(self._work.folder), self._work.operator, self._work.version,
                [(name, name) for name in names], self._stack, final=False,
            )  # fmt: skip
        self._writer.write(rows)
        retracted = int(pc.sum(pc.less(rows.column(WEIGHT), 0)).as_py())
        self._retracted += retracted
        self._inserted += rows.num_rows - retracted

    def __exit__(self, kind: object, *_: object) -> None:
        with self._stack:
            if kind is None and self._writer is not None:
                files = self._writer.close()
                self.result = Consolidated(files, self._retracted, self._inserted)


def _width(partitions: int) -> int:
    return (HASH_MAX + 1) // partitions


def _as_stream(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return bytes(sink.getvalue())
