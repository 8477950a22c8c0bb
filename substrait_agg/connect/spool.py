"""Collect rows that may be more than fit into memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from substrait_agg.connect.weights import with_weights

MEMORY_BYTES = 64 << 20
"""Bytes of rows up to which they stay in memory."""


class RowSpool:
    """Collects rows: first in memory, then in a temporary file that the table maps.

    The file has no name once it is mapped, so it is gone with the table, also after a kill.

    Args:
        schema: the columns.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []
        self._size = 0
        self._path = ""
        self._writer: pa.RecordBatchFileWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Raises:
            OSError: the file cannot be written.
        """
        self._batches.append(batch)
        self._size += batch.nbytes
        if self._size > MEMORY_BYTES:
            self._move_to_file()

    def _move_to_file(self) -> None:
        if self._writer is None:
            handle, self._path = tempfile.mkstemp(prefix="substrait-agg-", suffix=".arrow")
            os.close(handle)
            self._writer = pa.RecordBatchFileWriter(self._path, self._schema)
        for batch in self._batches:
            self._writer.write_batch(batch)
        self._batches.clear()
        self._size = 0

    def table(self) -> pa.Table:
        """Return all rows. The spool takes no more.

        Raises:
            OSError: the file cannot be written or mapped.
        """
        if self._writer is None:
            return pa.Table.from_batches(self._batches, self._schema)
        self._move_to_file()
        self._writer.close()
        mapped = pa.ipc.open_file(pa.memory_map(self._path)).read_all()
        self.close()
        return mapped

    def close(self) -> None:
        """Remove the name of the file."""
        if self._path:
            Path(self._path).unlink(missing_ok=True)


def spool_rows(batches: Iterable[pa.RecordBatch], types: pa.Schema, weight: int) -> pa.Table:
    """Return the columns of rows that `types` names, with one weight."""
    spool = RowSpool(types)
    try:
        for batch in batches:
            rows = with_weights(pa.Table.from_batches([batch]), weight)
            for part in rows.select(types.names).cast(types).to_batches():
                spool.add(part)
        return spool.table()
    finally:
        spool.close()
