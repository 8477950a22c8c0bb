"""Write files of rows that a version leaves out.

These are late rows as their source delivered them, and records of bad rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.snapshot import ChangeFile
from substrait_agg.operator.common.names import VERSION


class SideWriter:
    """Writes one side file. The file is created on the first row.

    Args:
        files: the folder.
        name: of the file.
        names: of the columns. They include ``__version``, which this writer adds.
        version: the version that leaves the rows out.

    Attributes:
        file: the written file, once closed; None without rows.
    """

    def __init__(self, files: FolderFiles, name: str, names: Sequence[str], version: int) -> None:
        self.file: ChangeFile | None = None
        self._files = files
        self._name = name
        self._names = list(names)
        self._version = version
        self._stack = ExitStack()
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0

    def __enter__(self) -> Self:
        return self

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows with all columns except ``__version``."""
        if not batch.num_rows:
            return
        version = pa.array(np.full(batch.num_rows, self._version, np.int64))
        place = self._names.index(VERSION)
        columns = [*batch.columns[:place], version, *batch.columns[place:]]
        table = pa.Table.from_arrays(columns, names=self._names)
        if self._writer is None:
            sink = self._stack.enter_context(self._files.create(self._name))
            self._writer = self._stack.enter_context(pq.ParquetWriter(sink, table.schema))
        self._writer.write_table(table)
        self._rows += batch.num_rows

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)
        if kind is None and self._writer is not None:
            size, crc = self._files.checksum(self._name)
            self.file = ChangeFile(self._name, self._rows, size, crc)
