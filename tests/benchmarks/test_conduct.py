"""Engines run in separate processes and take turns; a failing engine is reported and does not stop
the others.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.conduct import EngineSettings, run
from benchmarks.data.rows import with_key
from benchmarks.process import EngineFailed, Process
from benchmarks.workload import DataSource, Lane, Workload

DRAWN = [["warm", 20], *([["rows", 20]] * 6)]
SOURCE = DataSource(with_key, {"keys": 5, "held": 10, "batches": DRAWN})


def _workload(*engines: str) -> Workload:
    lanes = tuple(Lane(engine, engine, "count_sum_avg", "rows") for engine in engines)
    return Workload("T1", "test", {"rows": SOURCE}, lanes, rounds=2, samples=3)


def test_lanes_are_measured_in_rounds(tmp_path: Path) -> None:
    """Of each round the sampled batches count but the first one; loads and warm-ups do not."""
    found = run(_workload("duckdb"), EngineSettings(root=tmp_path))
    (lane,) = found.lanes
    assert [(batch.round, batch.kind, batch.rows) for batch in lane.batches] == [
        (number, "rows", 20) for number in (0, 0, 1, 1)
    ]
    assert all(batch.seconds > 0 for batch in lane.batches)
    assert lane.held == 10
    assert lane.read > 0
    assert lane.written is None
    assert found.absent == {}
    assert not list(tmp_path.glob("scratch-*")), "nothing is left behind"


def test_an_engine_that_fails_is_absent(tmp_path: Path) -> None:
    """A peer that is not installed, say: the others are measured all the same."""
    query = "count_sum_avg"
    lanes = (Lane("duckdb", "duckdb", query, "rows"), Lane("pathway", "pathway", query, "rows"))
    workload = Workload("T1", "test", {"rows": SOURCE}, lanes)
    found = run(workload, EngineSettings(root=tmp_path, pythons={"pathway": "/bin/false"}))
    assert [lane.lane for lane in found.lanes] == ["duckdb"]
    assert list(found.absent) == ["pathway"]
    assert "has ended" in found.absent["pathway"]


def test_what_an_engine_raises_comes_back(tmp_path: Path) -> None:
    process = Process("duckdb", tmp_path / "log", sys.executable, "1g")
    try:
        with pytest.raises(EngineFailed, match="TypeError"):
            process.run({"files": []})
        with pytest.raises(EngineFailed, match="KeyError"):
            process.run({})
    finally:
        process.end()


def test_what_there_is_not_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "W1,W99", "--contenders", "ours,ours@x1,theirs"]) == 2
    assert capsys.readouterr().err == "there is no contender theirs, no workload W99\n"
