"""Write late rows and the records of bad rows to files beside the changes of a version."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import reduce
from typing import Literal as OneOf
from typing import Protocol, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame

from substrait_agg.commit.documents.file_names import change_name
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.snapshot import ChangeFile, SideFile
from substrait_agg.commit.runtime.side_writer import SideWriter
from substrait_agg.operator.common.names import VERSION, WEIGHT
from substrait_agg.spark.execution.task_runner import BatchFunction
from substrait_agg.spark.session.errors import SPARK_ERRORS, batch_failed

SideKind = OneOf["late", "bad"]
"""Why a batch leaves rows out. The word is part of the names of the files."""


Rows_co = TypeVar("Rows_co", covariant=True)
"""How an executor represents rows: a Spark DataFrame, or an Arrow table."""


class LeftOut(Protocol[Rows_co]):
    """Rows of a table that a batch leaves out."""

    table: str

    def count(self) -> int:
        """Return the number of these rows, after the batch has been computed."""

    def rows(self) -> Rows_co:
        """Return the rows. Reading them reads the batch again."""


def write_side_files(
    kind: SideKind, left_out: Sequence[LeftOut[DataFrame]], files: FolderFiles, version: int
) -> tuple[SideFile, ...]:
    """Write the rows that a batch leaves out.

    Args:
        kind: why the rows are left out.
        left_out: the rows, by table.
        files: the folder of change files.
        version: the version that the batch makes.

    Raises:
        RunFailed: Spark cannot read the rows.
    """
    tables: dict[str, list[DataFrame]] = {}
    for part in left_out:
        tables.setdefault(part.table, []).append(part.rows())
    written = []
    for table, frames in tables.items():
        same = all(frame.columns == frames[0].columns for frame in frames)
        for frame in [reduce(DataFrame.unionAll, frames)] if same else frames:
            written += [SideFile(table, file) for file in _write(kind, frame, files, version)]
    return tuple(written)


def _write(
    kind: SideKind, frame: DataFrame, files: FolderFiles, version: int
) -> Iterable[ChangeFile]:
    plain = frame.toDF(*(f"s{i}" for i in range(len(frame.columns))))
    work = side_writer(kind, frame.columns, files.root, version)
    try:
        rows = plain.mapInArrow(work, "file string").collect()
    except SPARK_ERRORS as error:
        raise batch_failed(error) from error
    return (ChangeFile(**json.loads(row.file)) for row in rows)


def side_writer(kind: SideKind, columns: Sequence[str], folder: str, version: int) -> BatchFunction:
    """Return a function that writes rows to one side file.

    The function returns a record batch with the column ``file``, a `ChangeFile` as JSON, or nothing
    if there are no rows.

    Args:
        kind: why the rows are left out.
        columns: names of the columns of the rows.
        folder: the folder of change files.
        version: the version that leaves the rows out.
    """
    # If there is a weight, it stays the last column.
    place = len(columns) - (columns[-1] == WEIGHT)
    names = (*columns[:place], VERSION, *columns[place:])

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows of a partition, and yield the description of the file."""
        name = change_name(version, kind)
        with SideWriter(FolderFiles(folder), name, names, version) as writer:
            for batch in batches:
                writer.write(batch)
        if writer.file is not None:
            yield pa.RecordBatch.from_pydict({"file": [json.dumps(asdict(writer.file))]})

    return work
