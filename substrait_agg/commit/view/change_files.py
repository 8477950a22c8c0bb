"""Read change files, in parts that another process can read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.parquet as pq

from substrait_agg.commit.documents.envelope import refuse_damage
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.snapshot import ChangeFile
from substrait_agg.commit.view.scan import PART_ROWS
from substrait_agg.commit.view.schema import with_view_types
from substrait_agg.operator.common.names import VERSION, WEIGHT
from substrait_agg.plan.arrow import by_position
from substrait_agg.state.storage import store_failed

ROWS_FOR_ONE_THREAD = 50_000
"""Threads for the columns of a smaller file take longer than its columns."""


def read_change_file(files: FolderFiles, change: ChangeFile) -> pa.Table:
    """Return the rows of a change file.

    Raises:
        StateRefused: STATE_DAMAGED, STORE_FAILED.
    """
    shown = f"changes/{change.name}"
    try:
        expected = change.bytes, change.crc
        # The local copy of a file in a store may be wrong while the file is right.
        whole = files.is_whole(change.name, *expected) or (
            files.forget(change.name) and files.is_whole(change.name, *expected)
        )
        if not whole:
            raise refuse_damage(shown, "its size or checksum is not the one in the snapshot")
        with pq.ParquetFile(files.map(change.name)) as file:
            if file.metadata.num_rows != change.rows:
                raise refuse_damage(shown, "it does not have the number of rows in the snapshot")
            return file.read(use_threads=change.rows > ROWS_FOR_ONE_THREAD)
    except (OSError, pa.ArrowException) as error:
        raise store_failed(shown, error) or refuse_damage(shown, str(error)) from error


def name_columns(
    part: pa.Table, schema: pa.Schema, change: ChangeFile, positions: Sequence[int] = ()
) -> pa.Table:
    """Return the rows of a change file with the names of a schema.

    Args:
        part: the rows.
        schema: the columns of the view, version and weight.
        change: the file.
        positions: where the file has the columns of the view; empty if it has no others.

    Raises:
        StateRefused: STATE_DAMAGED if the types differ.
    """
    if positions:
        columns = [f"c{i}" for i in positions]
        if not set(columns) <= set(part.column_names):
            raise refuse_damage(
                f"changes/{change.name}", "it does not have the columns of the view"
            )
        part = part.select([*columns, VERSION, WEIGHT])
    if part.schema.types != [by_position(type_) for type_ in schema.types]:
        raise refuse_damage(f"changes/{change.name}", "it does not have the columns of the view")
    return pa.Table.from_arrays(with_view_types(part.columns, schema), schema=schema)


@dataclass(frozen=True, slots=True)
class ChangeScan:
    """The changes of consecutive versions. It can be pickled.

    Attributes:
        folder: path or URL of the folder of the change files.
        schema: the columns of the view, ``__version`` and ``__weight``.
        positions: by name of a file that has more columns, where it has those of the view.
    """

    folder: str
    schema: pa.Schema
    files: tuple[ChangeFile, ...]
    positions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def split(self) -> list[ChangeScan]:
        """Return parts of about `PART_ROWS` rows, in order of versions."""
        parts: list[list[ChangeFile]] = []
        room = 0
        for file in self.files:
            if file.rows > room:
                parts.append([])
                room = PART_ROWS
            parts[-1].append(file)
            room -= file.rows
        return [replace(self, files=tuple(part)) for part in parts]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the changes in order of versions.

        Raises:
            StateRefused: STATE_DAMAGED, STORE_FAILED.
        """
        storage = FolderFiles(self.folder)
        for file in self.files:
            positions = self.positions.get(file.name, ())
            rows = name_columns(read_change_file(storage, file), self.schema, file, positions)
            yield from rows.to_batches()
