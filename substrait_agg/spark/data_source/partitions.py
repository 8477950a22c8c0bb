"""The partitions of a read: which rows of a view, or which changes, a worker reads.

A worker imports this module, so it imports little.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from substrait_agg.commit.view.scan import ViewScan
from substrait_agg.errors import StateRefused, SubstraitAggError
from substrait_agg.operator.common.names import VERSION, WEIGHT

if TYPE_CHECKING:
    from substrait_agg.commit.view.change_files import ChangeScan

INSERTED = (pa.field(VERSION, pa.int64()), pa.field(WEIGHT, pa.int64()))
"""The columns that changes have besides those of the view."""

BATCH_BYTES = 1 << 19
"""Bytes of the batches that Spark receives, about. Spark copies each batch into one buffer before it
reads the rows. Buffers of this size come from a pool and stay in the caches of the processor; one
of a whole page is larger than any buffer of the pool."""


HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
"""The variable of the environment with which a worker of Spark reports an error without a traceback."""


@contextmanager
def report_errors() -> Iterator[None]:
    """Have Spark report an error as ``error[CODE]: message`` and its help, without a traceback.

    Spark shows the class and the text of an exception. A worker that reports one ends, so the
    variable of its environment concerns no other task.
    """
    try:
        yield
    except SubstraitAggError as error:
        if error.help:
            error.add_note(f"help: {error.help}")
        error.__class__ = _shown_class(type(error), error.code)
        os.environ[HIDE_TRACEBACK] = "1"
        raise error from None


def _shown_class(kind: type[SubstraitAggError], code: str) -> type[SubstraitAggError]:
    """Return a class of errors whose name is what Spark shows before the message."""

    def text(error: SubstraitAggError) -> str:
        return f"{error.message} (at {error.path})" if error.path else error.message

    # Python shows the module of a class, except of a built-in one.
    return type(f"error[{code}]", (kind,), {"__module__": "builtins", "__str__": text})


@dataclass(frozen=True)
class RowsPartition(InputPartition):
    """Rows of a version.

    Attributes:
        path: the checkpoint.
        view: name of the view; None means the only one.
        scan: the rows to read.
        columns: ordinals of the columns to return; those of changes follow the columns of the scan.
        inserted: whether to add the columns of changes.
    """

    path: str
    view: str | None
    scan: ViewScan
    columns: tuple[int, ...]
    inserted: bool = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows.

        Raises:
            StateRefused: VERSION_EXPIRED, STATE_DAMAGED, STORE_FAILED.
        """
        width = len(self.scan.schema)
        read = sorted({i for i in self.columns if i < width})
        place = {column: i for i, column in enumerate(read)}
        place |= {width: len(read), width + 1: len(read) + 1}
        order = [place[i] for i in self.columns]
        try:
            for batch in self.scan.select(read).batches():
                whole = _to_insert(batch, self.scan.version) if self.inserted else batch
                yield whole.select(order)
        except StateRefused:
            # A concurrent run may have swept the version in the meantime.
            from substrait_agg.commit.view.view import open_view

            open_view(self.path, self.view).check_retained(self.scan.version)
            raise


def _to_insert(batch: pa.RecordBatch, version: int) -> pa.RecordBatch:
    rows = batch.num_rows
    added = [pa.array(np.full(rows, version)), pa.array(np.full(rows, 1))]
    schema = pa.schema([*batch.schema, *INSERTED])
    return pa.RecordBatch.from_arrays([*batch.columns, *added], schema=schema)


@dataclass(frozen=True)
class ChangesPartition(InputPartition):
    """Changes.

    Attributes:
        scan: the changes to read.
        columns: ordinals of the columns to return.
    """

    scan: ChangeScan
    columns: tuple[int, ...]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the changes.

        Raises:
            StateRefused: STATE_DAMAGED, STORE_FAILED.
        """
        for batch in self.scan.batches():
            yield batch.select(list(self.columns))


def read_partition(partition: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition with the Arrow types of a schema.

    Spark passes another partition where there are none.
    """
    if not isinstance(partition, RowsPartition | ChangesPartition):
        return
    target = to_arrow_schema(schema, timezone="UTC")
    with report_errors():
        for batch in partition.batches():
            columns = [_cast(c, f.type) for c, f in zip(batch.columns, target, strict=True)]
            yield from slices(pa.RecordBatch.from_arrays(columns, schema=target))


def slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch in slices of about `BATCH_BYTES`."""
    rows = max(1, BATCH_BYTES * batch.num_rows // max(1, batch.nbytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _cast(column: pa.Array, type_: pa.DataType) -> pa.Array:
    # Spark has microseconds: digits below them are cut off, as in View.to_spark.
    return column if column.type == type_ else column.cast(type_, safe=False)
