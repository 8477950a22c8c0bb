"""Write late rows and the records of bad rows to files beside the changes of a version."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import reduce

from pyspark.sql import DataFrame

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.snapshot import ChangeFile, SideFile
from substrait_agg.runtime.left_out import LeftOut, SideKind, side_writer
from substrait_agg.spark.session.errors import SPARK_ERRORS, batch_failed


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
