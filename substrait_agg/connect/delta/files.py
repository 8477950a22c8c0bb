"""Read rows of files of a Delta table, each with its weight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pf

from substrait_agg.connect.delta.layout import DeltaLayout
from substrait_agg.connect.delta.log import DataFile, DeltaDifference
from substrait_agg.connect.snapshots import LakeTable
from substrait_agg.connect.weights import add_weight, with_weights
from substrait_agg.errors import InputRefused

KIND = "_change_type"
RETRACTED = pa.array(["delete", "update_preimage"])
"""Kinds of rows of a change feed that are gone; the others are new."""

THREADS = 4
_PARQUET = ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")

Masks = Mapping[tuple[str, str], np.ndarray]
"""Path and id of a deletion vector -> which rows live."""


@dataclass(frozen=True, slots=True)
class DeltaRows:
    """Reads the columns of one table.

    Attributes:
        files: the file system whose root is the table.
        layout: how columns are stored.
        schema: the columns to read, and their types.
        table: the table in messages.
    """

    files: pf.FileSystem
    layout: DeltaLayout
    schema: pa.Schema
    table: LakeTable

    def read(self, difference: DeltaDifference, masks: Masks) -> pa.Table:
        """Return the rows of a difference with their weights.

        Raises:
            FileNotFoundError: a file is gone.
            InputRefused: SOURCE_UNREADABLE.
        """
        by_path: dict[str, list[tuple[DataFile, int]]] = {}
        for file, weight in difference.weights.items():
            by_path.setdefault(file.path, []).append((file, weight))
        with ThreadPoolExecutor(THREADS) as pool:
            rows = pool.map(lambda parts: self._weigh(parts, masks), by_path.values())
            changed = pool.map(self._read_feed, difference.feed)
            tables = [*rows, *changed]
        return pa.concat_tables([self.empty(), *tables])

    def empty(self) -> pa.Table:
        """Return no rows."""
        return add_weight(self.schema).empty_table()

    def _weigh(self, parts: Sequence[tuple[DataFile, int]], masks: Masks) -> pa.Table:
        """Return the rows of one file, which may count several times with other vectors."""
        rows = self._rows(parts[0][0])
        weights = np.zeros(rows.num_rows, np.int64)
        for file, weight in parts:
            weights += weight * _mask_living(file, rows.num_rows, masks)
        return pa.concat_tables(_repeat(rows, weights))

    def _read_feed(self, file: DataFile) -> pa.Table:
        """Return the rows of a file of the change feed."""
        rows = self._rows(file, KIND)
        retracted = pc.is_in(rows.column(KIND), value_set=RETRACTED).to_numpy()
        return with_weights(rows.drop_columns([KIND]), np.where(retracted, -1, 1))

    def _rows(self, file: DataFile, *extra: str) -> pa.Table:
        stored = [
            pa.field(self.layout.columns[column.name].stored, column.type)
            for column in self.schema
            if column.name not in self.layout.partitions
        ]
        schema = pa.schema([*stored, *(pa.field(name, pa.string()) for name in extra)])
        if "://" in file.path:
            raise self._unreadable(f"its file {file.path} lies outside of it")
        fragment = _PARQUET.make_fragment(unquote(file.path), self.files)
        try:
            rows = fragment.to_table(schema=schema, columns=schema.names)
            columns = [self._column(column, rows, file) for column in self.schema]
        except pa.ArrowInvalid as error:
            raise self._unreadable(f"file {file.path}: {error}") from error
        columns += [rows.column(name) for name in extra]
        if not columns:  # a table that is made of no columns would have no rows
            return rows
        return pa.table(columns, schema=pa.schema([*self.schema, *list(schema)[len(stored) :]]))

    def _column(
        self, column: pa.Field, rows: pa.Table, file: DataFile
    ) -> pa.ChunkedArray | pa.Array:
        stored = self.layout.columns[column.name].stored
        if column.name not in self.layout.partitions:
            return rows.column(stored)
        if file.partition is None:
            raise self._unreadable(f"the log has no values of partitions for {file.path}")
        value = partition_value(dict(file.partition).get(stored), column.type)
        return pa.repeat(value, rows.num_rows)

    def _unreadable(self, reason: str) -> InputRefused:
        return self.table.unreadable(reason, "read a copy of the table")


def partition_value(text: str | None, type_: pa.DataType) -> pa.Scalar:
    """Return the value of a partition column from its text in the log; an empty text is null.

    >>> partition_value("7", pa.int32())
    <pyarrow.Int32Scalar: 7>
    """
    if not text:
        return pa.scalar(None, type_)
    if pa.types.is_timestamp(type_):  # a text without a zone is in UTC
        return pa.scalar(text.removesuffix("Z")).cast(pa.timestamp("us")).cast(type_)
    return pa.scalar(text).cast(type_)


def _mask_living(file: DataFile, rows: int, masks: Masks) -> np.ndarray:
    """Return which rows of a file live. A mask may be shorter than the file: the others live."""
    if not file.vector:
        return np.ones(rows, np.int64)
    living = np.ones(rows, np.int64)
    mask = masks[file.path, file.vector]
    living[: len(mask)] = mask[:rows]
    return living


def _repeat(rows: pa.Table, weights: np.ndarray) -> Iterator[pa.Table]:
    """Yield rows with weights of -1 and 1, as often as they count."""
    for level in range(1, int(np.abs(weights).max(initial=1)) + 1):
        counted = np.abs(weights) >= level
        part = rows if counted.all() else rows.filter(pa.array(counted))
        yield with_weights(part, np.sign(weights[counted]))
