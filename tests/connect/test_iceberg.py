"""Iceberg tables as sources: the rows that a run keeps are those of the table, at every position."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest

from tests.connect.iceberg_tables import IcebergChanges, IcebergRun, content, create

pytestmark = pytest.mark.filterwarnings("ignore:Delete operation did not match:UserWarning")


@pytest.mark.parametrize("seed", range(4))
def test_rows_are_those_of_the_table(tmp_path: Path, seed: int) -> None:
    """Forty random operations on two tables; batches of one or more commits; restarts anywhere."""
    rng = random.Random(seed)
    names = ("shop.orders", "shop.lines")
    tables = [IcebergChanges(create(tmp_path, name), rng) for name in names]
    runs = [IcebergRun(tmp_path, name=name) for name in names]
    for table, run in zip(tables, runs, strict=True):
        table.keep = partial(lambda run: run.snapshots, run)
    for _ in range(40):
        tables[rng.randrange(2)].step()
        run = runs[rng.randrange(2)]
        if rng.random() < 0.3:
            run.restart(rng.randrange(1, len(run.states) + 1))
        if rng.random() < 0.6:
            run.advance(rng.choice([1.0, 5000.0, float("inf")]), commit=rng.random() < 0.8)
    for table, run in zip(tables, runs, strict=True):
        run.drain(rng.choice([1.0, float("inf")]))
        assert run.rows == content(table.table)
        for snapshot, (_, rows) in zip(run.snapshots, run.states[1:], strict=True):
            assert rows == table.history[snapshot]
