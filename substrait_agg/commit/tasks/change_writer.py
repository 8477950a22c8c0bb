"""Write the change file of a task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from substrait_agg.commit.documents.file_names import change_name
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.snapshot import ChangeFile
from substrait_agg.operator.common.names import VERSION, WEIGHT

ROWS_AT_ONCE, BYTES_AT_ONCE = 1 << 16, 1 << 24
"""Changes are collected up to so many rows or bytes, then written as one row group."""
KEPT_BYTES = 1 << 22
"""Most bytes of the changes of an operator that stay in memory instead of a file."""

Keep = Callable[[str, pa.Table], None]
"""Takes changes that stay in memory, with the name that their file would have."""


SAMPLE_ROWS = 1 << 12
_WORTH = 0.6
"""Share of its size to which a sample must shrink, so that a file is compressed."""


def parquet_writer(sink: pa.NativeFile, rows: pa.Table) -> pq.ParquetWriter:
    """Return a writer for change files.

    Integers and dates are stored as differences, in as many bits as these need. This takes less
    time and fewer bytes than compression. The other columns are compressed lightly if they shrink: flushing
    more bytes to disk takes longer.

    Args:
        sink: the file.
        rows: the first rows.
    """
    packed = [field.name for field in rows.schema if _is_packed(field, rows.schema)]
    others = [i for i, name in enumerate(rows.column_names) if name not in packed]
    return pq.ParquetWriter(
        sink,
        rows.schema,
        compression="snappy" if others and _shrinks(rows.select(others)) else "none",
        use_dictionary=False,
        write_statistics=False,
        column_encoding=dict.fromkeys(packed, "DELTA_BINARY_PACKED"),
    )


_INTEGERS = (pa.types.is_integer, pa.types.is_timestamp, pa.types.is_date32)
"""Tests for the types that Parquet stores as integers."""


def _is_packed(field: pa.Field, schema: pa.Schema) -> bool:
    """Return whether a column is stored as differences.

    Parquet encodings are set by path, so its name must be unique and not look like a path.
    """
    if not any(is_type(field.type) for is_type in _INTEGERS):
        return False
    return "." not in field.name and int(schema.get_field_index(field.name)) >= 0


def _shrinks(rows: pa.Table) -> bool:
    """Return whether compression pays, judged by the first rows; few rows are always compressed."""
    if rows.num_rows < SAMPLE_ROWS:
        return True
    sample = pa.BufferOutputStream()
    with pa.ipc.new_stream(sample, rows.schema) as writer:
        writer.write_table(rows.slice(0, SAMPLE_ROWS))
    plain = sample.getvalue()
    return bool(len(pa.compress(plain, codec="snappy")) < _WORTH * plain.size)


class ChangeWriter:
    """Writes the change file of a task. The file is created when the first changes are written.

    Args:
        files: the folder of change files.
        operator: id of the operator.
        version: the version being made.
        columns: columns of the file, as (name in the changes, name in the file).
        stack: closes the file if the task fails.
        final: whether the changes are those of a view.
        keep: takes the changes instead of a file, if they are few and not those of a view.

    Attributes:
        written_bytes: bytes of the file.
    """

    def __init__(
        self,
        files: FolderFiles,
        operator: int,
        version: int,
        columns: Sequence[tuple[str, str]],
        stack: ExitStack,
        *,
        final: bool,
        keep: Keep | None = None,
    ) -> None:
        self.written_bytes = 0
        self._keep = None if final else keep
        self._files = files
        self._version = version
        self._columns = columns
        self._final = final
        self._stack = stack.enter_context(ExitStack())
        self._name = change_name(version, operator)
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0
        self._waiting: list[pa.Table] = []
        self._waiting_rows = self._waiting_bytes = 0

    def write(self, changes: pa.Table) -> None:
        """Append changes (output columns and weight)."""
        if changes.num_rows:
            self._waiting.append(changes)
            self._waiting_rows += changes.num_rows
            self._waiting_bytes += changes.nbytes
        if self._waiting_rows >= ROWS_AT_ONCE or self._waiting_bytes >= BYTES_AT_ONCE:
            self._write_waiting()

    def _write_waiting(self) -> None:
        """Write the waiting changes as one row group."""
        table = self._collect()
        if self._writer is None:
            # Nothing reads the changes of other operators after the commit.
            created = self._files.create(self._name, durable=self._final)
            sink = self._stack.enter_context(created)
            # The stack closes the writer before its file if the task fails.
            self._writer = self._stack.enter_context(parquet_writer(sink, table))
        self._writer.write_table(table)
        self._rows += table.num_rows

    def _collect(self) -> pa.Table:
        """Return the waiting changes with the columns of the file."""
        table = self._name_columns(pa.concat_tables(self._waiting))
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        return table

    def _name_columns(self, changes: pa.Table) -> pa.Table:
        columns = [changes.column(source) for source, _ in self._columns]
        names = [name for _, name in self._columns]
        if self._final:
            columns.append(pa.array(np.full(changes.num_rows, self._version, np.int64)))
            names.append(VERSION)
        return pa.Table.from_arrays([*columns, changes.column(WEIGHT)], [*names, WEIGHT])

    def close(self) -> tuple[ChangeFile, ...]:
        """Finish the file, if there is one. Return its description, or that of the kept changes."""
        if self._keep is not None and self._writer is None and 0 < self._waiting_bytes < KEPT_BYTES:
            table = self._collect().combine_chunks()
            self._keep(self._name, table)
            return (ChangeFile(self._name, table.num_rows, table.nbytes, 0),)
        if self._waiting:
            self._write_waiting()
        if self._writer is None:
            return ()
        self._writer.close()
        self._stack.close()
        size, crc = self._files.checksum(self._name)
        self.written_bytes = size
        return (ChangeFile(self._name, self._rows, size, crc),)


def write_changes(files: FolderFiles, name: str, rows: pa.Table) -> None:
    """Write changes that were kept in memory to their file, which nothing reads after the commit."""
    with files.create(name, durable=False) as sink, parquet_writer(sink, rows) as writer:
        writer.write_table(rows)
