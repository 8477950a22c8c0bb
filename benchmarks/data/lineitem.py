"""TPC-H lineitem by tpchgen-cli, then pairs of refreshes: orders that are new, orders that go."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from benchmarks.data.data_sets import LOAD, ChangeFile, ops
from benchmarks.data.rows import LOAD_ROWS
from benchmarks.data.tpch import generate


def lineitem(scale: float, refreshes: int, share: float, seed: int = 1) -> Iterator[ChangeFile]:
    """The columns of lineitem with op and id; a file of kind ``refresh`` brings new orders and deletes as many old ones.

    Args:
        scale: factor of TPC-H; 1 is 6 M rows.
        refreshes: pairs of RF1 and RF2.
        share: of all orders that each of the two takes; TPC-H says 0.001.
        seed: which orders those are.
    """
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        generate(Path(folder), scale, ("lineitem",))
        connection.execute(
            "CREATE TABLE rows AS SELECT *, row_number() OVER () AS id,"
            f" hash(l_orderkey + {seed}) % 1000000 AS lot"
            f" FROM '{folder}/lineitem.parquet'"
        )
        width, first = int(share * 1_000_000), int(share * 1_000_000) * refreshes
        old = _select(connection, f"lot >= {first}")
        for start in range(0, old.num_rows, LOAD_ROWS):
            yield ChangeFile(LOAD, _changes("insert", old.slice(start, LOAD_ROWS)))
        for step in range(refreshes):
            new = _select(connection, f"lot >= {step * width} AND lot < {(step + 1) * width}")
            begin = first + step * width
            gone = _select(connection, f"lot >= {begin} AND lot < {begin + width}")
            yield ChangeFile(
                "refresh", pa.concat_tables([_changes("insert", new), _changes("delete", gone)])
            )


def _select(connection: Any, where: str) -> pa.Table:
    found = connection.sql(f"SELECT * EXCLUDE (lot) FROM rows WHERE {where} ORDER BY id")
    return found.to_arrow_table().combine_chunks()


def _changes(op: str, rows: pa.Table) -> pa.Table:
    return rows.append_column("op", ops(op, rows.num_rows))
