"""A stream of changes of TPC-H lineitem: 20 files of inserts, deletes and updates, and the live
rows after each.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.e2e.files import write_in_order

SCALE_FACTOR = "0.002"
BATCHES = 20
SEED = 20_26

MONEY = pa.decimal128(15, 2)
COLUMNS = pa.schema(
    [
        ("l_orderkey", pa.int64()),
        ("l_linenumber", pa.int32()),
        ("l_quantity", MONEY),
        ("l_extendedprice", MONEY),
        ("l_discount", MONEY),
        ("l_tax", MONEY),
        ("l_returnflag", pa.string()),
        ("l_linestatus", pa.string()),
        ("l_shipdate", pa.date32()),
    ]
)
QUANTITY, PRICE, DISCOUNT, FLAG, STATUS, SHIPPED = 2, 3, 4, 6, 7, 8

Item = tuple[Any, ...]


@dataclass
class Stream:
    """Change files in `folder`, and `alive[v]`: the rows that are there at version v (0: before the first file)."""

    folder: Path
    alive: list[pa.Table] = field(default_factory=list)


def generate(folder: Path) -> pa.Table:
    """Lineitem, made by tpchgen-cli."""
    command = Path(sys.executable).with_name("tpchgen-cli")
    options = ["parquet", "-s", SCALE_FACTOR, "--tables", "lineitem", "--output-dir", str(folder)]
    subprocess.run([str(command), *options], check=True, capture_output=True, timeout=60)
    whole = pq.read_table(folder / "lineitem.parquet", columns=COLUMNS.names)
    return whole.cast(pa.schema([f.with_nullable(False) for f in COLUMNS])).cast(COLUMNS)


def make_stream(folder: Path) -> Stream:
    """Write the files, oldest first."""
    items = [tuple(row.values()) for row in generate(folder).to_pylist()]
    stream = Stream(folder / "changes")
    alive: dict[tuple[int, int], Item] = {}
    stream.alive.append(table_of([]))
    files = []
    for changes in _batches(items, alive, random.Random(SEED)):
        files.append(_with_operations(changes))
        stream.alive.append(table_of(list(alive.values())))
    write_in_order(stream.folder, files)
    return stream


def table_of(rows: list[Item]) -> pa.Table:
    """Rows as a table of `COLUMNS`."""
    cells = list(zip(*rows, strict=True)) or [()] * len(COLUMNS)
    return pa.table(
        [pa.array(c, t) for c, t in zip(cells, COLUMNS.types, strict=True)], schema=COLUMNS
    )


def _with_operations(changes: list[tuple[str, Item]]) -> pa.Table:
    operations = pa.array([op for op, _ in changes], pa.string())
    return table_of([item for _, item in changes]).append_column("op", operations)


def _batches(
    items: list[Item], alive: dict[tuple[int, int], Item], rng: random.Random
) -> Iterator[list[tuple[str, Item]]]:
    rng.shuffle(items)
    size = len(items) // BATCHES
    for batch in range(BATCHES):
        new = items[batch * size : (batch + 1) * size] if batch not in (7, 11) else []
        # The smallest group of query 1 disappears with batch 8 and comes back; much is deleted in batch 12.
        doomed = (
            [k for k, row in alive.items() if (row[FLAG], row[STATUS]) == ("N", "F")]
            if batch == 7
            else []
        )
        doomed += rng.sample(sorted(alive), len(alive) * (6 if batch == 11 else 1) // 10)
        yield [
            *_delete(dict.fromkeys(doomed), alive),
            *_update(rng.sample(sorted(alive), len(alive) // 10 if batch != 7 else 0), alive, rng),
            *_insert(new, alive),
        ]


def _insert(new: list[Item], alive: dict[tuple[int, int], Item]) -> Iterator[tuple[str, Item]]:
    for item in new:
        alive[item[0], item[1]] = item
        yield "insert", item


def _delete(
    doomed: dict[tuple[int, int], None], alive: dict[tuple[int, int], Item]
) -> Iterator[tuple[str, Item]]:
    for key in doomed:
        yield "delete", alive.pop(key)


def _update(
    chosen: list[tuple[int, int]], alive: dict[tuple[int, int], Item], rng: random.Random
) -> Iterator[tuple[str, Item]]:
    for key in chosen:
        before = alive[key]
        after = list(before)
        after[QUANTITY] = Decimal(rng.randint(1, 50))
        after[PRICE] = before[PRICE] + Decimal(rng.randint(-99_999, 99_999)).scaleb(-2)
        after[DISCOUNT] = Decimal(rng.randint(0, 10)).scaleb(-2)
        after[FLAG] = rng.choice([before[FLAG], "A", "N", "R"])
        after[SHIPPED] = max(date(1992, 1, 1), before[SHIPPED] + timedelta(rng.randint(-90, 90)))
        alive[key] = tuple(after)
        # An update may carry its new row before its old one.
        pair = [("update_preimage", before), ("update_postimage", alive[key])]
        yield from pair if rng.random() < 0.8 else reversed(pair)
