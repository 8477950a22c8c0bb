"""Late rows, written beside the changes of the version that left them out."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame

from substrait_agg.commit.files import FolderFiles
from substrait_agg.commit.late import LateWriter
from substrait_agg.commit.snapshot import ChangeFile, LateFile
from substrait_agg.spark.answers import BatchFunction
from substrait_agg.spark.late import Part
from substrait_agg.spark.reasons import SPARK_ERRORS, batch_failed


def write_late(parts: Sequence[Part], files: FolderFiles, version: int) -> tuple[LateFile, ...]:
    """Write the late rows of a batch; it is read once more for that.

    Args:
        parts: the branches of the batch that have late rows.
        files: the folder of change files.
        version: the version being made.

    Raises:
        RunFailed: Spark could not read them.
    """
    tables: dict[str, list[DataFrame]] = {}
    for part in parts:
        tables.setdefault(part.table, []).append(part.late_rows())
    written = []
    for table, frames in tables.items():
        same = all(frame.columns == frames[0].columns for frame in frames)
        for frame in [reduce(DataFrame.unionAll, frames)] if same else frames:
            written += [LateFile(table, file) for file in _written(frame, files, version)]
    return tuple(written)


def _written(frame: DataFrame, files: FolderFiles, version: int) -> Iterable[ChangeFile]:
    names = tuple(frame.columns)
    plain = frame.toDF(*(f"s{i}" for i in range(len(names))))
    try:
        rows = plain.mapInArrow(_writer(files.root, names, version), "file string").collect()
    except SPARK_ERRORS as error:
        raise batch_failed(error) from error
    return (ChangeFile(**json.loads(row.file)) for row in rows)


def _writer(folder: str, names: tuple[str, ...], version: int) -> BatchFunction:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        name = f"{version:012d}-late-{uuid.uuid4().hex}.parquet"
        with LateWriter(FolderFiles(folder), name, names, version) as writer:
            for batch in batches:
                writer.write(batch)
        if writer.file is not None:
            yield pa.RecordBatch.from_pydict({"file": [json.dumps(asdict(writer.file))]})

    return work
