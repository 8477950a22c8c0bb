"""Rows are taken few enough at once, whatever the types of their columns are."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from substrait_agg.state.keys import row_sizes
from substrait_agg.state.keys.row_sizes import repeat, slices_to_take
from tests.local.run import run

pytestmark = pytest.mark.usefixtures("spark")

LONG = "x" * 1000
VALUES = {
    "text": pa.array(["", None, LONG, "a"]),
    "binary": pa.array([b"", None, LONG.encode(), b"a"]),
    "list": pa.array([[], None, [LONG, ""], ["a"]]),
    "numbers": pa.array([[], None, [1] * 100, [1]]),
    "struct": pa.array([{"s": ""}, None, {"s": LONG}, {"s": "a"}]),
    "map": pa.array([[], None, [("a", LONG)], [("b", "c")]], pa.map_(pa.string(), pa.string())),
}


@pytest.mark.parametrize("offset", [0, 2])
@pytest.mark.parametrize("name", VALUES)
def test_slices_have_few_bytes(name: str, offset: int) -> None:
    column = VALUES[name].slice(offset)
    places = np.arange(400) % len(column)
    with patch.object(row_sizes, "TAKEN_BYTES", 5_000):
        slices = list(slices_to_take([column], places))
    assert [slices[0].start, slices[-1].stop] == [0, 400]
    assert all(a.stop == b.start for a, b in pairwise(slices))
    taken = [column.take(pa.array(places[part])) for part in slices]
    assert 10 < len(taken) < 200
    assert max(part.nbytes for part in taken) < 10_000


def test_short_rows_are_taken_at_once() -> None:
    columns = [pa.array([1, 2]), pa.array(["a", None])]
    assert list(slices_to_take(columns, np.zeros(1000, np.int64))) == [slice(0, 1000)]
    assert list(slices_to_take([], np.zeros(0, np.int64))) == [slice(0, 0)]


def test_a_long_row_is_repeated_a_few_times_at_once() -> None:
    rows = pa.record_batch({"s": ["a", LONG, None]})
    with patch.object(row_sizes, "TAKEN_BYTES", 4_000):
        parts = list(repeat(rows, np.array([2, 50, 0])))
    assert pa.Table.from_batches(parts).column("s").to_pylist() == ["a"] * 2 + [LONG] * 50
    assert max(part.nbytes for part in parts) < 8_000


def written(folder: Path, name: str, rows: pa.Table) -> str:
    """Write a table and give its source."""
    (folder / name).mkdir()
    pq.write_table(rows, folder / name / "0.parquet")
    return f"parquet:{folder / name}?weight=w"


def test_a_view_with_many_copies_of_a_long_row_is_read_in_parts(tmp_path: Path) -> None:
    rows = pa.table({"s": [LONG, "a"], "w": [60, 1]})
    sources = {"t": written(tmp_path, "t", rows)}
    run(sa.sql("SELECT s FROM t", sources), sources, checkpoint=tmp_path / "checkpoint").wait()
    view = sa.open_view(tmp_path / "checkpoint")
    with patch.object(row_sizes, "TAKEN_BYTES", 4_000):
        batches = list(view.to_reader())
        table = view.to_arrow()
    assert max(batch.nbytes for batch in batches) < 8_000
    assert sorted(pa.Table.from_batches(batches).column("s").to_pylist()) == ["a"] + [LONG] * 60
    assert sorted(table.column("s").to_pylist()) == ["a"] + [LONG] * 60


@pytest.mark.soak
@pytest.mark.parametrize(("short_side", "rows"), [("t", 300_000), ("u", 1)])
def test_more_than_2_gib_of_one_long_text(short_side: str, rows: int, tmp_path: Path) -> None:
    """The row of one side of a join, repeated for its pairs, is more than a column holds."""
    ids = np.arange(300_000)
    short = pa.table({"id": ids, "k": [1] * len(ids), "s": ["a"] * len(ids), "w": [1] * len(ids)})
    long = pa.table({"id": [1], "k": [1], "s": ["x" * 10_000], "w": [1]})
    tables = {name: short if name == short_side else long for name in "tu"}
    sources = {name: written(tmp_path, name, table) for name, table in tables.items()}
    query = "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.s <> t.s AND u.id + t.id >= 0)"
    run(sa.sql(query, sources), sources, checkpoint=tmp_path / "checkpoint").wait()
    assert len(sa.open_view(tmp_path / "checkpoint").to_arrow()) == rows
