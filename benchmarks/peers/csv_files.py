"""Batches as CSV files: the format that all peers read without further parts; converting is not timed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

COLUMNS = ("k", "i", "x")
"""The columns of the only table that peers read."""


def convert(paths: Sequence[str], target: Path, *, header: bool) -> int:
    """Write Parquet files as one CSV file, which takes its place when it is complete; returns its rows."""
    rows = pa.concat_tables([pq.read_table(path, columns=list(COLUMNS)) for path in paths])
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.parent.parent / f"{target.name}.draft"
    pc.write_csv(rows, str(draft), pc.WriteOptions(include_header=header, quoting_style="none"))
    draft.rename(target)
    return int(rows.num_rows)


def check(sql: str) -> None:
    """Peers run the query of W1 and W3.

    Raises:
        ValueError: another query.
    """
    wanted = "SELECT k, count(*) AS n, sum(i) AS s, avg(x) AS a FROM t GROUP BY k"
    if sql != wanted:
        raise ValueError(f"peers run {wanted}")
