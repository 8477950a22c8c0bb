"""Spark's logs are written as plain files, and read by runs that write them with checksums beside them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import substrait_agg as sa
from substrait_agg.spark.offsets import plain_files
from tests.e2e.feeds import Feed
from tests.e2e.plans import Builder, column, projected, read
from tests.e2e.rows import bag

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = {"k": "i64", "v": "i64"}
LOGS = ("offsets", "commits", "sources/0")


def checksums(checkpoint: Path) -> list[str]:
    folders = (checkpoint / "spark" / log for log in LOGS)
    return sorted(p.name for folder in folders for p in folder.glob(".*.crc"))


def test_runs_of_both_kinds_continue_each_other(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old checksum of a file that is written again would make it look damaged."""
    plan = Builder().plan(projected(read("t", ROWS), 2, column(0), column(1)), "k", "v")
    rows = [((n, n), 1) for n in range(9)]
    table = Feed("t", ROWS, "one", [[row] for row in rows])
    spec, checkpoint = table.write(tmp_path), tmp_path / "checkpoint"
    files = sorted((tmp_path / "t").iterdir())
    for file in files:
        file.rename(tmp_path / file.name)
    for run, manager in enumerate((plain_files._MANAGER, "another release", plain_files._MANAGER)):
        monkeypatch.setattr(plain_files, "_MANAGER", manager)
        for file in files[3 * run : 3 * run + 3]:
            (tmp_path / file.name).rename(file)
        if run:
            stale = checkpoint / "spark" / "commits" / f".{3 * run + 1}.crc"
            stale.write_bytes(b"crc\0 of another file")
        sa.run(plan, {"t": spec}, checkpoint=checkpoint, spark=spark).wait()
        assert bool(checksums(checkpoint)) == (run == 1)
    assert bag(sa.open_view(checkpoint).to_arrow()) == Counter(dict(rows))
    assert sa.open_state(checkpoint).verify().ok
