"""Changes of a version are consolidated by row, on the driver and exchanged between tasks, for all
types and any division into batches.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.json_codec import from_line, to_line
from substrait_agg.commit.tasks import consolidate
from substrait_agg.commit.tasks.consolidate import Consolidated, Consolidation
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.state.keys.rows import nested_bytes
from substrait_agg.state.keys.variable_keys import byte_hashes
from tests.commit.test_two_passes import SCHEMA, drawn, sums, written


def of(folder: Path, *tables: pa.Table) -> Consolidation:
    files = FolderFiles(folder)
    made = tuple(written(files, f"f{i}.parquet", t) for i, t in enumerate(tables) if t.num_rows)
    return Consolidation(str(folder), 0, 7, made)


def exchanged(work: Consolidation, partitions: int) -> Consolidated:
    """The combined result of the tasks, without Spark."""
    streams: dict[int, list[bytes]] = {p: [] for p in range(partitions)}
    for file in work.changes:
        for partition, rows in consolidate.exchanged_rows(work, file, partitions):
            streams[partition].append(rows)
    parts = [
        consolidate.consolidate_partition(work, p, partitions, streams[p])
        for p in range(partitions)
    ]
    return from_line(Consolidated, to_line(Consolidated.combine(parts)))


def check(work: Consolidation, done: Consolidated, folder: Path, *tables: pa.Table) -> None:
    found = [pq.read_table(folder / file.name) for file in done.changes]
    wanted = sums(*tables)
    assert sums(*found) == wanted
    # Each row is there once, and so are the numbers of them.
    assert sum(t.num_rows for t in found) == len(wanted) == done.retracted + done.inserted
    assert done.inserted == sum(weight > 0 for weight in wanted.values())
    assert all(t.schema == SCHEMA for t in found)
    assert [file.rows for file in done.changes] == [t.num_rows for t in found]
    assert all(file.name.startswith("000000000007-0-") for file in done.changes)


@pytest.mark.parametrize("seed", range(30))
def test_each_row_is_there_once_with_its_net_weight(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row occurs once with its net weight, for any files, pieces and partitions, also spilled
    ones.
    """
    pick = random.Random(seed)
    monkeypatch.setattr(consolidate, "PIECE_ROWS", pick.choice((1, 3, 100)))
    monkeypatch.setattr(consolidate, "SLICE_ROWS", pick.choice((1, 4, 1 << 20)))
    tables = [drawn(pick, pick.randrange(40)) for _ in range(pick.randrange(1, 4))]
    work = of(tmp_path, *tables)
    check(work, exchanged(work, pick.choice((1, 2, 4, 8))), tmp_path, *tables)
    if work.changes:
        small = consolidate.consolidate_in_memory(work)
        if small is None:
            assert all(n == 1 for n in Counter(_rows(tables)).values())
        else:
            check(work, small, tmp_path, *tables)


def _rows(tables: list[pa.Table]) -> list[str]:
    return [str(r) for t in tables for r in t.drop_columns([WEIGHT]).to_pylist()]


def test_files_without_equal_rows_stay(tmp_path: Path) -> None:
    table = drawn(random.Random(3), 1)
    assert consolidate.consolidate_in_memory(of(tmp_path, table)) is None
    assert sorted(p.name for p in tmp_path.iterdir()) == ["f0.parquet"]


def test_rows_that_all_cancel_leave_no_file(tmp_path: Path) -> None:
    table = drawn(random.Random(1), 1)
    back = table.set_column(6, SCHEMA.field(6), pa.array([-table.column(WEIGHT)[0].as_py()]))
    work = of(tmp_path, table, back)
    for done in (consolidate.consolidate_in_memory(work), exchanged(work, 2)):
        assert done == Consolidated((), 0, 0)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["f0.parquet", "f1.parquet"]


def test_equal_rows_are_added_up_before_they_are_exchanged(tmp_path: Path) -> None:
    """Equal rows are consolidated before the exchange: a view of counts has few different rows for
    millions of groups.
    """
    one = drawn(random.Random(2), 1).set_column(6, SCHEMA.field(6), pa.array([1]))
    work = of(tmp_path, pa.concat_tables([one] * 5000))
    ((_, stream),) = consolidate.exchanged_rows(work, work.changes[0], 4)
    rows = pa.ipc.open_stream(stream).read_all()
    assert rows.column(WEIGHT).to_pylist() == [5000]


def test_hashes_of_rows_fall_evenly_and_equal_rows_alike() -> None:
    numbers = np.arange(40_000)
    rows = nested_bytes(pa.array([{"a": int(n), "b": str(n % 7)} for n in numbers]))
    hashes = byte_hashes(rows)
    assert len(np.unique(hashes)) == len(numbers)
    for shift in (0, 61):
        counts = np.bincount((hashes >> np.uint64(shift)).astype(np.int64) & 7, minlength=8)
        assert counts.min() > 4500
    order = np.random.default_rng(1).permutation(len(numbers))
    assert (byte_hashes(rows.take(pa.array(order))) == hashes[order]).all()
    # However they are cut, and for values longer than what is hashed at once.
    assert (byte_hashes(rows.slice(17, 5)) == hashes[17:22]).all()
    long = pa.array([b"x" * (5 << 20), b"y", b"x" * (5 << 20)])
    first, other, same = byte_hashes(long)
    assert first == same != other
    zeros = nested_bytes(pa.array([{"a": 0.0}, {"a": -0.0}]))
    assert len(set(byte_hashes(zeros).tolist())) == 1
