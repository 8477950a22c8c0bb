"""The data and the result of the benchmark of pipelines."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data import brokerage
from benchmarks.pipelines import Result, shown
from tests.views.brokerage import TABLES


def test_the_tables_are_those_of_the_pipeline() -> None:
    world = brokerage.Brokerage(100)
    assert {name: rows.schema for name, rows in world.rows.items()} == TABLES


def test_changes_lead_from_one_state_to_the_next(tmp_path: Path) -> None:
    world = brokerage.Brokerage(300)
    brokerage.write_load(tmp_path / "changes", world)
    for number in (1, 2):
        before = world.rows["trades"]
        changes = world.change(0.05)
        brokerage.write_changes(tmp_path / "changes", number, changes)
        assert changes["trades"].num_rows == 2 * (5 + 5)
        assert counted(before) != counted(world.rows["trades"])
    brokerage.write_tables(tmp_path / "tables", world)
    for name in brokerage.TABLES:
        sums: Counter[tuple[object, ...]] = Counter()
        for file in sorted((tmp_path / "changes" / name).iterdir()):
            for row in pq.read_table(file).to_pylist():
                weight = row.pop(brokerage.WEIGHT)
                sums[tuple(row.values())] += weight
        assert min(sums.values()) == 0
        assert +sums == counted(pq.read_table(tmp_path / "tables" / name))


def counted(rows: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in rows.to_pylist())


def test_the_ratio_is_that_of_a_round() -> None:
    result = Result(100, 0.01, 3.0, (1.0, 2.0, 4.0), (10.0, 30.0, 24.0), {"best": 3})
    assert result.ratio == 10.0
    assert "10.0 times as fast" in shown(result)
    assert "best 3" in shown(result)
