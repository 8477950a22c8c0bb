"""Delta tables as sources: the rows that a run keeps are those of the table, at every position."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.connect.delta_tables import FEED, Changes, Run, content


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("feed", ["auto", "files"])
@pytest.mark.parametrize("partition", [None, "p"])
def test_rows_are_those_of_the_table(
    tmp_path: Path, feed: str, partition: str | None, seed: int
) -> None:
    """Forty random operations on two tables; batches of one or more versions; restarts anywhere."""
    rng = random.Random(f"{seed} {feed} {partition}")
    tables = [Changes(tmp_path / name, rng) for name in ("a", "b")]
    tables[0].create(FEED, partition)
    tables[1].create({}, partition)
    runs = [Run(table.path, {"feed": feed}) for table in tables]
    for table, run in zip(tables, runs, strict=True):
        table.keep = lambda run=run: run.versions
    for _ in range(40):
        number = rng.randrange(2)
        tables[number].step()
        run = runs[rng.randrange(2)]
        if rng.random() < 0.3:
            run.restart(rng.randrange(1, len(run.states) + 1))
        if rng.random() < 0.6:
            run.advance(rng.choice([1.0, 5000.0, float("inf")]), commit=rng.random() < 0.8)
    for table, run in zip(tables, runs, strict=True):
        run.drain(rng.choice([1.0, float("inf")]))
        assert run.rows == content(run.path)
        for version, (_, rows) in zip(run.versions, run.states[1:], strict=True):
            assert rows == table.history[version]
