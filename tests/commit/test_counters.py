"""The counters of tasks are correct."""

from __future__ import annotations

from pathlib import Path

from benchmarks.batches import BatchStream
from substrait_agg.commit.log.retention import Retention
from substrait_agg.state.merging import SMALL_WIDTH


def test_all_that_is_written_is_counted(tmp_path: Path) -> None:
    """Runs of the group tree and of ordered trees, and changes: the files of a first batch match the counters."""
    stream = BatchStream(
        tmp_path / "checkpoint", rows=100, keys=50, partitions=2, retention=Retention()
    )
    stream.step()
    folder = tmp_path / "checkpoint"
    left = [p.stat().st_size for name in ("state", "changes") for p in (folder / name).iterdir()]
    assert len(left) == 6
    assert sum(result.counters["written_bytes"] for result in stream.results) == sum(left)


def test_merges_of_every_tree_are_counted(tmp_path: Path) -> None:
    """Merges of runs of equal size are counted in the group tree and in ordered trees."""
    stream = BatchStream(
        tmp_path / "checkpoint", rows=100, keys=50, partitions=1, retention=Retention()
    )
    for _ in range(SMALL_WIDTH):
        stream.step()
    (result,) = stream.results
    assert [len(runs) for runs in result.state.trees.values()] == [1, 1]
    assert result.counters["merges"] == 2
    merged = sum(run.bytes for run in result.state.runs)
    assert result.counters["merged_bytes"] == merged
    assert result.counters["written_bytes"] > merged


def test_lookups_are_a_part_of_folding(tmp_path: Path) -> None:
    stream = BatchStream(
        tmp_path / "checkpoint", rows=100, keys=50, partitions=1, retention=Retention()
    )
    stream.step()
    stream.step()
    (result,) = stream.results
    assert 0 < result.counters["lookup_us"] <= result.counters["fold_us"]
