"""Rows that a batch leaves out, because they are late or bad, and the files beside its changes that have them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Literal as OneOf
from typing import Protocol, TypeVar

import pyarrow as pa

from substrait_agg.commit.documents.file_names import change_name
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.tasks.side_writer import SideWriter
from substrait_agg.operator.common.completeness import KeyBound
from substrait_agg.operator.common.names import VERSION, WEIGHT

BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Turns the rows of a partition into others."""

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


@dataclass(frozen=True, slots=True)
class Lateness:
    """The tests for rows that are late for an operator.

    Attributes:
        limits: a row is late if its group is below any of these bounds.
        idle: a row is late if its event time is not after this instant; None for no such test.
        ended: a row of a session operator is late if its time is before this instant, because it
            could have extended a session that is already closed; None for no such test.
    """

    limits: tuple[KeyBound, ...] = ()
    idle: int | None = None
    ended: int | None = None


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
