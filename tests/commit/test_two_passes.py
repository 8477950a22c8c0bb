"""The changes of both passes of a version are combined: equal rows of any type add up, other rows stay."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.snapshot import ChangeFile
from substrait_agg.commit.tasks import consolidate
from substrait_agg.operator.common.names import WEIGHT
from tests.e2e.rows import Bag, plain
from tests.sampling import seeds

WINDOW = pa.struct([("f0", pa.timestamp("us")), ("f1", pa.timestamp("us"))])
SCHEMA = pa.schema(
    [
        ("c0", pa.string()),
        ("c1", pa.float64()),
        ("c2", WINDOW),
        ("c3", pa.list_(pa.int64())),
        ("c4", pa.decimal128(38, 2)),
        ("__version", pa.int64()),
        (WEIGHT, pa.int64()),
    ]
)


def drawn(pick: random.Random, rows: int) -> pa.Table:
    """Changes of few different rows."""
    columns: list[list[Any]] = [
        [pick.choice(("a", "a\0", "", None)) for _ in range(rows)],
        [pick.choice((1.5, float("nan"), None)) for _ in range(rows)],
        [pick.choice(({"f0": 1, "f1": 2}, None)) for _ in range(rows)],
        [pick.choice(([1, None], [], None)) for _ in range(rows)],
        [None] * rows,
        [7] * rows,
        [pick.choice((-2, -1, 1, 3)) for _ in range(rows)],
    ]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def sums(*tables: pa.Table) -> Bag:
    """Net weights by row, zeros left out."""
    total: Bag = Counter()
    for table in tables:
        for row in table.to_pylist():
            weight = row.pop(WEIGHT)
            total[tuple(plain(v) for v in row.values())] += weight
    return Counter({row: weight for row, weight in total.items() if weight})


def written(files: FolderFiles, name: str, table: pa.Table) -> ChangeFile:
    pq.write_table(table, files.path(name))
    return ChangeFile(name, table.num_rows, *files.checksum(name))


@pytest.mark.parametrize("seed", seeds(6, 20))
def test_rows_of_both_passes_add_up(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of both passes are consolidated, over pieces of any size and several files; no row has
    weight 0.
    """
    pick = random.Random(seed)
    monkeypatch.setattr(consolidate, "PIECE_ROWS", pick.choice((1, 3, 100)))
    files = FolderFiles(tmp_path)
    first, second = drawn(pick, pick.randrange(40)), drawn(pick, pick.randrange(1, 6))
    parts = [written(files, "f.parquet", first)]
    made = consolidate.write_joined(
        files, "new.parquet", parts, [written(files, "s.parquet", second)]
    )  # fmt: skip
    found = pq.read_table(tmp_path / "new.parquet") if made else SCHEMA.empty_table()
    assert found.schema == SCHEMA
    assert sums(found) == sums(first, second)
    assert [file.rows for file in made] == ([found.num_rows] if found.num_rows else [])
    touched = set(sums(second.set_column(6, WEIGHT, pa.array([1] * second.num_rows))))
    there = [tuple(plain(v) for v in list(row.values())[:-1]) for row in found.to_pylist()]
    assert all(there.count(row) <= 1 for row in touched)


def test_what_cancels_altogether_leaves_no_file(tmp_path: Path) -> None:
    files = FolderFiles(tmp_path)
    table = drawn(random.Random(1), 1)
    back = table.set_column(6, SCHEMA.field(6), pa.array([-table.column(WEIGHT)[0].as_py()]))
    one, other = written(files, "f.parquet", table), written(files, "s.parquet", back)
    assert consolidate.write_joined(files, "new.parquet", [one], [other]) == ()
    assert not (tmp_path / "new.parquet").exists()
