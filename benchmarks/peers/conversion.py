"""Convert the change files of a data set to the CSV files that a peer reads.

All peers read CSV without further packages. Flink gets the rows of a batch in two files, one for
each core, with the operation in a last column. Pathway knows no operation: a row leaves its table
when its file is removed. So the rows that a batch inserts are divided into one file per batch that
deletes them again, and taking a batch means to add its own files and to remove those that are named
after it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from benchmarks.data.data_sets import ID, OP, WEIGHT, DataSet
from benchmarks.peers.peer_input import (
    DESCRIPTION,
    NEVER,
    OP_COLUMN,
    InputTable,
    PeerInput,
    TableBatch,
)

LAYOUTS = {"flink-rocksdb": "flink", "flink-heap": "flink", "pathway": "pathway"}
"""Peer -> layout of its files."""

ID_OF_PATHWAY = "id_"
"""Column `ID` of a table in the layout for Pathway, which has another use for the name."""

PARTS = 2
"""Files of a batch for Flink: one per core."""


@dataclass(frozen=True)
class ChangeFiles:
    """The change files of a table.

    Attributes:
        files: batch -> Parquet file, in order.
        identity: columns that identify a row while it is in the table.
    """

    files: Mapping[str, Path]
    identity: tuple[str, ...] = (ID,)

    @property
    def schema(self) -> pa.Schema:
        """Columns of every file."""
        return pq.read_schema(next(iter(self.files.values())))


def of_data_set(data: DataSet, table: str) -> dict[str, ChangeFiles]:
    """Return the files of a data set of one table; a batch has the name of its file."""
    return {table: ChangeFiles({file.name: data.folder / file.name for file in data.files})}


def converted(layout: str, tables: Mapping[str, ChangeFiles], folder: Path) -> PeerInput:
    """Return the input of a peer, written if it does not exist yet.

    Args:
        layout: one of the values of `LAYOUTS`.
        tables: the tables by name.
        folder: of the files.
    """
    if not (folder / DESCRIPTION).exists():
        draft = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        described = {name: _convert(layout, name, files, draft) for name, files in tables.items()}
        PeerInput(draft, described).save()
        shutil.rmtree(folder, ignore_errors=True)
        draft.rename(folder)
    return PeerInput.read(folder)


def _convert(layout: str, name: str, changes: ChangeFiles, folder: Path) -> InputTable:
    schema = changes.schema
    is_changelog = OP in schema.names
    columns = [n for n in schema.names if not (is_changelog and n in (OP, WEIGHT, ID))]
    batches: dict[str, TableBatch] = {}
    alive = checksum = 0
    write = _WRITERS[layout]
    with duckdb.connect() as connection:
        _leaving(connection, changes, is_changelog)
        for ordinal, (batch, path) in enumerate(changes.files.items()):
            target = folder / batch / name
            target.mkdir(parents=True)
            lines = write(connection, path, ordinal, columns, changes, target)
            weight = "CASE op WHEN 'insert' THEN 1 ELSE -1 END" if is_changelog else "1"
            (rows, keys), *_ = connection.execute(
                f"SELECT sum({weight})::BIGINT, sum({weight} * {columns[0]})::BIGINT FROM '{path}'"
            ).fetchall()
            alive, checksum = alive + rows, checksum + keys
            batches[batch] = TableBatch(lines, alive, checksum)
    names = names_for(layout, columns)
    types = {name: str(schema.field(n).type) for name, n in zip(names, columns, strict=True)}
    return InputTable(types, is_changelog, batches)


def names_for(layout: str, columns: Sequence[str]) -> list[str]:
    """Return the names that columns have in a layout."""
    return [ID_OF_PATHWAY if layout == "pathway" and name == ID else name for name in columns]


def _leaving(connection: Any, changes: ChangeFiles, is_changelog: bool) -> None:
    """Create the table of inserted rows by identity, with the batch that deletes each of them."""
    if not is_changelog:
        return
    identity = ", ".join(changes.identity)
    events = " UNION ALL ".join(
        f"SELECT {identity}, op, {ordinal} AS batch FROM '{path}'"
        for ordinal, path in enumerate(changes.files.values())
    )
    connection.execute(
        f"CREATE TABLE leaving AS SELECT * FROM (SELECT *, lead(batch) OVER"
        f" (PARTITION BY {identity} ORDER BY batch) AS leaves FROM ({events})) WHERE op = 'insert'"
    )


def _flink(
    connection: Any, path: Path, _: int, columns: Sequence[str], changes: ChangeFiles, target: Path
) -> int:
    chosen = [*columns, *([OP_COLUMN] if OP in changes.schema.names else [])]
    rows = pq.read_table(path, columns=chosen)
    size = -(-rows.num_rows // PARTS)
    for part in range(PARTS):
        _write(rows.slice(part * size, size), target / f"{part}.csv", header=False)
    return int(rows.num_rows)


def _pathway(
    connection: Any,
    path: Path,
    ordinal: int,
    columns: Sequence[str],
    changes: ChangeFiles,
    target: Path,
) -> int:
    if OP not in changes.schema.names:
        rows = pq.read_table(path, columns=list(columns))
        rows = rows.rename_columns(names_for("pathway", columns))
        _write(rows, target / f"{NEVER}.csv", header=True)
        return int(rows.num_rows)
    names = ", ".join(f"c.{name}" for name in columns)
    same = " AND ".join(f"c.{name} = l.{name}" for name in changes.identity)
    found = connection.sql(
        f"SELECT {names}, l.leaves FROM '{path}' c JOIN leaving l ON {same} AND l.batch = {ordinal}"
        " WHERE c.op = 'insert' ORDER BY l.leaves"
    ).to_arrow_table()
    batches = list(changes.files)
    for leaves in found.column("leaves").unique().to_pylist():
        chosen = found.filter(
            pa.compute.is_null(found.column("leaves"))
            if leaves is None
            else pa.compute.equal(found.column("leaves"), leaves)
        )
        name = NEVER if leaves is None else batches[leaves]
        _write(chosen.select(list(columns)), target / f"{name}.csv", header=True)
    return int(found.num_rows)


_WRITERS: Mapping[str, Callable[..., int]] = {"flink": _flink, "pathway": _pathway}


def _write(rows: pa.Table, path: Path, *, header: bool) -> None:
    pc.write_csv(rows, str(path), pc.WriteOptions(include_header=header))
