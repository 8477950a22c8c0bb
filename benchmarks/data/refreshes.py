"""All tables of TPC-H as change files, with pairs of refreshes: orders that are new, and orders that go."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.data import tpch
from benchmarks.data.data_sets import FIRST_MODIFIED, FOLDER

REFRESHED = {"orders": "o_orderkey", "lineitem": "l_orderkey"}
"""Tables that refreshes change, and their column with the key of the order."""

LOTS = 1_000_000
"""Orders are divided into so many lots by the hash of their key. A refresh takes some of them."""


@dataclass(frozen=True)
class Refreshes:
    """The tables on disk.

    Attributes:
        folder: with a folder ``changes/TABLE`` per table: the load, then the refreshes; and a file
            ``final/TABLE.parquet`` with its rows after all refreshes.
        pairs: number of refresh pairs.
    """

    folder: Path
    pairs: int

    def changes(self, table: str) -> Path:
        """Return the folder of the change files of a table."""
        return self.folder / "changes" / table

    def final(self, table: str) -> Path:
        """Return the file of the last rows of a table."""
        return self.folder / "final" / f"{table}.parquet"

    def bytes(self, tables: tuple[str, ...], first: int) -> list[int]:
        """Return the bytes of the change files of each refresh, from the refresh `first` on."""
        changed = [table for table in tables if table in REFRESHED]
        return [
            sum((self.changes(t) / _name(i + 1)).stat().st_size for t in changed)
            for i in range(first, self.pairs)
        ]


def make(
    scale: float, pairs: int, share: float, root: Path = FOLDER, *, deletes: bool = True
) -> Refreshes:
    """Return the tables of a scale factor, made if they do not exist yet.

    Args:
        scale: scale factor of TPC-H; 1 is 6 M rows of lineitem.
        pairs: number of refresh pairs.
        share: share of the orders that are inserted, and deleted, by a pair; TPC-H says 0.001.
        root: folder of all data.
        deletes: whether a pair also deletes orders.
    """
    kind = "" if deletes else "-inserts"
    made = Refreshes(root / f"tpch-{scale:g}-{pairs}-{share:g}{kind}", pairs)
    done = made.folder / "_manifest.json"
    if not done.exists():
        shutil.rmtree(made.folder, ignore_errors=True)
        generated = made.folder / "generated"
        (made.folder / "final").mkdir(parents=True)
        tpch.generate(generated, scale)
        for table in tpch.KEYS:
            made.changes(table).mkdir(parents=True)
            with duckdb.connect() as connection:
                rows = generated / f"{table}.parquet"
                _write(connection, made, table, rows, share, deletes=deletes)
        shutil.rmtree(generated)
        done.write_text(json.dumps({"scale": scale, "pairs": pairs, "share": share}))
    return made


def _write(
    connection: Any, made: Refreshes, table: str, generated: Path, share: float, *, deletes: bool
) -> None:
    """Write the change files of a table, and its last rows.

    The first lots are inserted by refreshes, the next ones are deleted by refreshes, and the others
    stay.
    """
    width = int(share * LOTS)
    come = width * made.pairs
    gone = 2 * come if deletes else come
    lot = f"hash({REFRESHED[table]}) % {LOTS}" if table in REFRESHED else str(LOTS)
    connection.execute(f"CREATE VIEW rows AS SELECT *, {lot} AS lot FROM '{generated}'")
    _copy(connection, f"lot >= {come}", "'insert'", made.changes(table) / _name(0), 0)
    connection.execute(
        f"COPY (SELECT * EXCLUDE (lot) FROM rows WHERE lot < {come} OR lot >= {gone})"
        f" TO '{made.final(table)}' (FORMAT parquet)"
    )
    for pair in range(made.pairs if table in REFRESHED else 0):
        low, high = pair * width, (pair + 1) * width
        _copy(
            connection,
            f"(lot >= {low} AND lot < {high}) OR (lot >= {come + low} AND lot < {min(come + high, gone)})",
            f"CASE WHEN lot < {come} THEN 'insert' ELSE 'delete' END",
            made.changes(table) / _name(pair + 1),
            pair + 1,
        )


def _copy(connection: Any, where: str, op: str, path: Path, ordinal: int) -> None:
    connection.execute(
        f"COPY (SELECT * EXCLUDE (lot), {op} AS op FROM rows WHERE {where})"
        f" TO '{path}' (FORMAT parquet)"
    )
    # Spark orders files by the time of their last change.
    os.utime(path, (FIRST_MODIFIED + ordinal, FIRST_MODIFIED + ordinal))


def _name(ordinal: int) -> str:
    return f"{ordinal:05d}.parquet"
