"""Many small batches: the size of a checkpoint does not grow with the number of versions."""

from __future__ import annotations

from pathlib import Path

import pytest

import substrait_agg as sa
from benchmarks.batches import BatchStream, measured
from substrait_agg.commit.log.retention import Retention


@pytest.mark.parametrize(
    ("batches", "rows", "keys"),
    [
        pytest.param(200, 40, 400, id="few"),
        pytest.param(10_000, 1_000, 20_000, id="many", marks=pytest.mark.soak),
    ],
)
def test_files_bytes_and_memory_stay_bounded(
    tmp_path: Path, batches: int, rows: int, keys: int
) -> None:
    """The last tenth has no more files than the third, apart from pending merges, and the checkpoint has no faults."""
    stream = BatchStream(tmp_path / "ckpt", rows, keys, 2, Retention(4), stay=batches // 20)
    tenths = list(measured(stream, batches))
    early, late = tenths[2], tenths[-1]
    assert late.batches == batches
    assert late.state_files <= 2 * early.state_files
    assert late.state_bytes <= 3 * early.state_bytes
    assert late.snapshot_bytes <= 20_000
    assert late.cpu <= 3 * early.cpu + 0.02
    assert late.open_files <= early.open_files + 5
    assert late.memory <= early.memory + (64 << 20)
    assert late.amplification < 20
    assert late.change_files == 2 * batches
    state = sa.open_state(tmp_path / "ckpt")
    done = state.vacuum(keep=2, changes=True)
    assert done.files["changes"] == 2 * (batches - 2)
    left = state.ls(None)
    assert left.total == 2
    assert left.files["changes"] == 4
