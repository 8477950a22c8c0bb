"""The simulation of large states counts what runs of the program count."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.data.rows import keyed_rows
from benchmarks.queries import plan_of
from benchmarks.scale import measure_local
from benchmarks.scale_model import BatchCounts, StateCase, simulate
from substrait_agg.commit.log.checkpoint import Checkpoint
from tests.local.run import run

COUNTED = {
    "groups_touched": "groups_touched",
    "run_probes": "run_probes",
    "page_reads": "page_reads",
    "merges": "merges",
    "merged_rows": "merged_rows",
}
"""Count of the simulation -> metric of the program."""


@dataclass
class Counted:
    """The counters of one batch of a run."""

    counts: dict[str, int]
    runs: int
    state_rows: int
    changes: int


def counted(case: StateCase, folder: Path) -> list[Counted]:
    """Run a case on the local executor."""
    data = folder / "t"
    data.mkdir()
    random = np.random.default_rng(1)
    # The hashes of this executor spread random keys evenly, and consecutive keys not.
    keys = random.integers(-(1 << 62), 1 << 62, case.groups)
    loads = [keys[first : first + case.load] for first in range(0, case.groups, case.load)]
    drawn = [random.choice(keys, case.rows) for _ in range(case.batches)]
    for number, of_batch in enumerate([*loads, *drawn]):
        pq.write_table(keyed_rows(random, of_batch), data / f"{number:04}.parquet")
    found: list[Counted] = []
    before = dict.fromkeys(COUNTED.values(), 0)
    changes = 0

    def keep(progress: Any) -> None:
        nonlocal before, changes
        if progress.version == 0:
            return
        operator = progress.operators[0]
        now = {name: getattr(operator, name) for name in before}
        newest = Checkpoint(folder / "checkpoint").newest_snapshot()
        assert newest is not None
        trees = newest.operators[0].trees["group"]
        state = {file.name: file.rows for file in trees}
        counts = {name: now[name] - before[name] for name in now}
        found.append(Counted(counts, len(trees), sum(state.values()), progress.changes - changes))
        before, changes = now, progress.changes

    source = f"parquet:{data}?batch-files=1"
    options = {"checkpoint": folder / "checkpoint", "progress": keep, "partitions": case.partitions}
    run(plan_of("count_sum_avg").read_bytes(), {"t": source}, **options).wait()
    return found


@pytest.mark.parametrize("in_pieces", [False, True], ids=["whole", "in pieces"])
def test_the_simulation_counts_what_runs_count(
    in_pieces: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every batch has the same merges and runs; numbers of random keys differ by what chance makes of them.

    Where merges are done in pieces over several batches, chance also moves the ends of pieces.
    """
    if in_pieces:
        monkeypatch.setattr("substrait_agg.state.merging.LEAST_BUDGET", 1_000)
        monkeypatch.setattr("substrait_agg.state.merging.BUDGET_FACTOR", 5)
    case = StateCase(20_000, 5_000, 1_000, 40, 2)
    expected, found = list(simulate(case)), counted(case, tmp_path)
    assert len(expected) == len(found)
    for number, (counts, batch) in enumerate(zip(expected, found, strict=True)):
        assert batch.counts["groups_touched"] == pytest.approx(counts.groups_touched, rel=0.1), (
            number
        )
        assert batch.changes == pytest.approx(counts.changes, rel=0.1), number
        if not in_pieces:
            assert batch.counts["merges"] == counts.merges, number
            assert batch.runs == counts.runs, number
            assert batch.counts["run_probes"] == pytest.approx(counts.run_probes, rel=0.1), number
    sums = {
        name: (sum(getattr(c, name) for c in expected), sum(b.counts[metric] for b in found))
        for name, metric in COUNTED.items()
    }
    for name in ("runs", "state_rows"):
        sums[name] = sum(getattr(c, name) for c in expected), sum(getattr(b, name) for b in found)
    for name, (wanted, got) in sums.items():
        # A piece can leave a few rows behind, which are a further merge.
        loose = in_pieces and name in ("merges", "page_reads", "runs")
        assert got == pytest.approx(wanted, rel=0.2 if loose else 0.01), name
    assert sum(batch.counts["merges"] for batch in found) > 4


def test_partitions_divide_the_work() -> None:
    """The same rows in more partitions: as many rows are read and written, in more files."""
    few, many = (list(simulate(StateCase(1 << 30, 1 << 28, 1 << 24, 20, p))) for p in (64, 128))

    def total(batches: list[BatchCounts], name: str) -> float:
        return float(sum(getattr(batch, name) for batch in batches))

    assert total(many, "groups_touched") == pytest.approx(total(few, "groups_touched"))
    assert total(many, "run_probes") < 2 * total(few, "run_probes")
    assert total(many, "files") > 1.5 * total(few, "files")


def test_a_run_without_spark_counts_the_same(tmp_path: Path) -> None:
    """Its hashes are those of Spark, and its runs those of the program, so that it can stand for a run on Spark."""
    case = StateCase(20_000, 20_000, 1_000, 12, 2)
    run = measure_local(case, tmp_path)
    assert len(run.batches) == case.groups // case.load + case.batches
    found = {name: sum(batch[name] for batch in run.batches) for name in COUNTED}
    expected = list(simulate(case))
    for name, counted_ in found.items():
        assert counted_ == pytest.approx(sum(getattr(c, name) for c in expected), rel=0.02), name
    newest = Checkpoint(tmp_path / "checkpoint").newest_snapshot()
    assert newest is not None
    assert len(newest.operators[0].trees["group"]) == run.batches[-1]["runs"]
