"""What a data set is, and how it is kept: Parquet files in order, described by a manifest."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = Path(__file__).parents[2] / "bench-data"
LOAD = "load"
"""Kind of the files that are there before anything is measured."""

OP, WEIGHT, ID = "op", "w", "id"
"""Columns beside those of the table: what a row does (``insert``, ``delete``), the same as a weight (1, -1), and which row it is."""

FIRST_MODIFIED = 1_700_000_000


@dataclass(frozen=True)
class ChangeFile:
    """One file of changes.

    Attributes:
        kind: what its batch is counted under; `LOAD` where it is not measured.
        rows: the table's columns, and where rows also leave it `OP` and `ID`, perhaps `WEIGHT`.
    """

    kind: str
    rows: pa.Table


Generator = Callable[..., Iterator[ChangeFile]]
"""Makes the files of a data set from its parameters; the same parameters give the same bytes."""


@dataclass(frozen=True)
class DataFile:
    """A file of a data set: its name, its kind, its rows and its size in bytes."""

    name: str
    kind: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class DataSet:
    """A data set that is on disk.

    Attributes:
        folder: of the files.
        files: in the order in which they are read.
    """

    folder: Path
    files: tuple[DataFile, ...]

    @property
    def schema(self) -> pa.Schema:
        """Columns of every file."""
        return pq.read_schema(self.folder / self.files[0].name)

    @property
    def changes(self) -> bool:
        """Whether rows also leave the table."""
        return OP in self.schema.names

    @property
    def table(self) -> pa.Schema:
        """Columns of the table."""
        return pa.schema([field for field in self.schema if field.name not in (OP, WEIGHT, ID)])


def make(
    name: str, generator: Generator, parameters: Mapping[str, Any], root: Path = FOLDER
) -> DataSet:
    """The data set of a generator and its parameters, made where it is not there yet."""
    written = json.dumps([name, dict(parameters)], sort_keys=True)
    folder = root / f"{name}-{hashlib.sha256(written.encode()).hexdigest()[:12]}"
    manifest = folder / "_manifest.json"
    if not manifest.exists():
        unfinished = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        files = [asdict(_write(unfinished, i, p)) for i, p in enumerate(generator(**parameters))]
        described = {"data": name, "parameters": dict(parameters), "files": files}
        (unfinished / manifest.name).write_text(json.dumps(described, indent=1))
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.rename(folder)
    found = json.loads(manifest.read_text())["files"]
    return DataSet(folder, tuple(DataFile(**file) for file in found))


def _write(folder: Path, ordinal: int, part: ChangeFile) -> DataFile:
    path = folder / f"{ordinal:05d}.parquet"
    pq.write_table(part.rows, path)
    # Spark orders files by the time of their last change.
    os.utime(path, (FIRST_MODIFIED + ordinal, FIRST_MODIFIED + ordinal))
    return DataFile(path.name, part.kind, part.rows.num_rows, path.stat().st_size)


def ops(name: str, count: int) -> pa.Array:
    """A column of one operation."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int8()), [name]).cast(
        pa.string()
    )
