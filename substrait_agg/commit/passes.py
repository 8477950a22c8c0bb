"""The changes of both passes of a version as one: what the second takes back of the first has never been there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from substrait_agg.commit.change_writer import parquet_writer
from substrait_agg.commit.files import FolderFiles
from substrait_agg.commit.snapshot import ChangeFile
from substrait_agg.operator.names import WEIGHT
from substrait_agg.state.rows import as_mask, nested_bytes

PIECE_ROWS = 1 << 16


def write_joined(
    files: FolderFiles, name: str, first: Sequence[ChangeFile], second: Sequence[ChangeFile]
) -> tuple[ChangeFile, ...]:
    """Write the changes of two passes as one file, equal rows with the sum of their weights, none where that is 0.

    The second pass is held in memory, the first goes by in pieces.

    Args:
        files: where change files are.
        name: of the new one.
        first: files of the first pass.
        second: files of the second pass, over the same groups; at least one.

    Returns:
        The new file; nothing where all rows cancel.
    """
    later = pa.concat_tables([pq.read_table(files.map(file.name)) for file in second])
    wanted = row_bytes(later)
    met = [later]
    rows = 0
    with ExitStack() as stack:
        sink = stack.enter_context(files.create(name))
        writer = stack.enter_context(parquet_writer(sink, later.schema))
        for piece in pieces(files, first):
            same = as_mask(pc.is_in(row_bytes(piece), value_set=wanted))
            met.append(piece.filter(pa.array(same)))
            others = piece.filter(pa.array(~same))
            writer.write_table(others)
            rows += others.num_rows
        left = added_up(pa.concat_tables(met))
        writer.write_table(left)
        rows += left.num_rows
    if not rows:
        files.delete(name)
        return ()
    return (ChangeFile(name, rows, *files.checksum(name)),)


def added_up(changes: pa.Table) -> pa.Table:
    """Changes with each row once, its weights added up, retractions first; rows of weight 0 are left out.

    Args:
        changes: the column of weights is the last.
    """
    if not changes.num_rows:
        return changes
    codes = row_bytes(changes).dictionary_encode().indices.to_numpy()
    sums = np.zeros(codes.max() + 1, np.int64)
    np.add.at(sums, codes, changes.column(WEIGHT).to_numpy())
    first = np.zeros(len(sums), np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    kept = np.flatnonzero(sums)
    kept = kept[np.argsort(sums[kept] > 0, kind="stable")]
    rows = changes.take(pa.array(first[kept]))
    return rows.set_column(rows.num_columns - 1, changes.schema.field(WEIGHT), pa.array(sums[kept]))


def pieces(files: FolderFiles, changes: Sequence[ChangeFile]) -> Iterator[pa.Table]:
    """Read change files in pieces of at most `PIECE_ROWS` rows."""
    for file in changes:
        for batch in pq.ParquetFile(files.map(file.name)).iter_batches(PIECE_ROWS):
            yield pa.Table.from_batches([batch])


def row_bytes(changes: pa.Table) -> pa.Array:
    """Rows without their weights as bytes that are equal where the rows are."""
    columns = [c.combine_chunks() for c in changes.drop_columns([WEIGHT]).columns]
    names = [str(i) for i in range(len(columns))]
    return nested_bytes(pa.StructArray.from_arrays(columns, names))
