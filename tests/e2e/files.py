"""Source files with modification times in the order that a file stream follows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

FIRST_TIME = 1_700_000_000


def write_in_order(folder: Path, tables: Sequence[pa.Table], start: int = 0) -> None:
    """Write one Parquet file per table, each a second younger than the one before; `start` files are there already."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(tables, start):
        draft = folder / f".draft-{number}"
        pq.write_table(table, draft)
        age(draft, number)
        draft.rename(folder / f"part-{number:04d}.parquet")


def age(path: Path, number: int) -> None:
    """Set the modification time of the file that comes as `number`."""
    os.utime(path, (FIRST_TIME + number, FIRST_TIME + number))
