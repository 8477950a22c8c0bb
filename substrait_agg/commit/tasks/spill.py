"""Spill the rows of a large partition to local disk by ranges of the hash."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pyarrow as pa

from substrait_agg.commit.documents.files import FolderFiles

SPILL_BUCKETS = 64


class Buckets:
    """Rows on local disk by ranges of the hash, to be read in order of hash."""

    def __init__(self, lowest: int, highest: int, stack: ExitStack) -> None:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="substrait-agg-"))
        self._files = FolderFiles(folder)
        self._stack = stack.enter_context(ExitStack())
        self._width = (highest - lowest + SPILL_BUCKETS) // SPILL_BUCKETS
        self._low = lowest
        self._high = highest
        self._writers: dict[tuple[int, pa.Schema], pa.RecordBatchStreamWriter] = {}
        self._names: dict[int, list[str]] = defaultdict(list)

    def add(self, table: pa.Table) -> None:
        """Add rows; missing columns are null."""
        hashes = table.column("hash").to_numpy()
        bucket = (hashes - np.uint64(self._low)) // np.uint64(self._width)
        for number in np.unique(bucket):
            rows = table.filter(pa.array(bucket == number)).combine_chunks()
            self._writer(int(number), table.schema).write_table(rows)

    def _writer(self, bucket: int, schema: pa.Schema) -> pa.RecordBatchStreamWriter:
        if (bucket, schema) not in self._writers:
            name = f"bucket-{bucket}-{len(self._names[bucket])}"
            sink = self._stack.enter_context(self._files.create(name))
            writer = self._stack.enter_context(pa.ipc.new_stream(sink, schema))
            self._writers[bucket, schema] = writer
            self._names[bucket].append(name)
        return self._writers[bucket, schema]

    def tables(self) -> Iterator[tuple[pa.Table | None, int, int]]:
        """Yield the rows of each range of hashes, in order.

        Yields:
            The rows (None if there are none), the least and the greatest hash of the range.
        """
        self._stack.close()
        for bucket in range(SPILL_BUCKETS):
            low = self._low + bucket * self._width
            high = min(self._high, low + self._width - 1)
            if low > self._high:
                return
            parts = [self._read(name) for name in self._names[bucket]]
            table = pa.concat_tables(parts, promote_options="default") if parts else None
            yield table, low, high

    def _read(self, name: str) -> pa.Table:
        with self._files.map(name) as source:
            return pa.ipc.open_stream(source).read_all()
