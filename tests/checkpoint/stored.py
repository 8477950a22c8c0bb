"""Checkpoints of an earlier build, and the runs that continue them.

``python -m tests.checkpoint.stored FOLDER`` writes them. It was run once, when snapshots of format 1 came to have the
positions of sources, and the files stay as they are: what is written there has to be readable as long as no format
number is raised. `OLDER` is of a release before, whose format is not read.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from substrait_agg.runtime.local_executor import LocalExecutor
from tests import windowed
from tests.crash.scenario import FIRST, PlainSteps, WorkerErrors, World, quick_batches, run
from tests.crash.settings import Setting, chained, evolving, ranked, timed
from tests.e2e import plans
from tests.e2e.files import write_in_order

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parents[1] / "data" / "checkpoints"
SETTINGS: dict[str, Callable[[], Setting]] = {
    "chained": chained,
    "evolving": evolving,
    "ranked": ranked,
    "timed": timed,
}
"""Checkpoints of local runs, which ended after `FIRST` batches."""

GOALS = "goals"
"""The checkpoint of a run on Spark: upserts, sessions, an aggregate over them, and a view of whole rows."""
GOALS_FIRST = 2

OLDER = "older"
"""A checkpoint whose snapshots have format 8, and the logs of a query of Spark."""


def unpacked(name: str, folder: Path) -> Path:
    """The folder of a stored checkpoint, unpacked below `folder`."""
    target = folder / "checkpoint"
    with tarfile.open(FOLDER / f"{name}.tar.xz") as stored:
        stored.extractall(target, filter="data")
    return target


def _recorded_hashes(keys: Sequence[pa.Array]) -> tuple[Any, Any]:
    mixed = np.zeros(len(keys[0]), np.uint64)
    for key in keys:
        values = key.to_numpy(zero_copy_only=False).astype(np.uint64)
        mixed = (mixed ^ values) * np.uint64(0x9E3779B97F4A7C15)
    murmur = (mixed >> np.uint64(32)).astype(np.uint32).view(np.int32)
    return murmur, (mixed & np.uint64(0x7FFFFFFF)).astype(np.int32)


def recorded_executor() -> LocalExecutor:
    """Hash keys as the executor did that wrote the checkpoints.

    The hash of a group is part of its state: a run continues a checkpoint only with equal hashes.
    """
    return WorkerErrors(PlainSteps(), _recorded_hashes)


def local_world(folder: Path, setting: Setting) -> World:
    """A local run of a setting without outputs, whose places a checkpoint would note."""
    return World(folder, setting, delivers=False, executor=recorded_executor)


def goals_plan() -> str:
    """Sessions of the newest rows per key, as whole rows with a constant beside them."""
    windows = windowed.Windows()
    sessions = windowed.aggregate(
        windows.read(),
        [windowed.column(0), windows.call("session", windowed.interval(seconds=10))],
        [windowed.COUNT, windowed.SUM, windowed.MAX],
    )
    columns = [windowed.column(i) for i in range(5)]
    rows = windowed.projected(sessions, *columns, plans.literal("i64", 7), width=5)
    return windows.plan(rows, "team", "w", "start", "end", "c", "s", "m", "seven")


def goals_batches() -> tuple[pa.Table, ...]:
    """Rows by key `n`: later batches move goals to other sessions and teams."""
    return tuple(
        pa.table(
            {
                "team": pa.array(["ab"[(i + b) % 2] for i in range(8)]),
                "t": pa.array([1_000_000 * (6 * i + 3 * b) for i in range(8)], pa.timestamp("us")),
                "n": pa.array([(i * (b + 1)) % 11 for i in range(8)], pa.int64()),
            }
        )
        for b in range(4)
    )


def run_goals(spark: SparkSession, folder: Path, batches: Sequence[pa.Table]) -> None:
    """Run the plan over some batches that the checkpoint in `folder` does not contain yet."""
    import substrait_agg as sa

    source = folder / f"in-{len(list(folder.glob('in-*')))}"
    write_in_order(source, batches)
    options: dict[str, Any] = {"partitions": 2, "accept_source_change": True}
    sa.run(
        goals_plan(),
        {GOALS: f"parquet:{source}?batch-files=1&key=n"},
        checkpoint=folder / "checkpoint",
        spark=spark,
        **options,
    ).wait()


def _pack(checkpoint: Path, name: str) -> None:
    with tarfile.open(FOLDER / f"{name}.tar.xz", "w:xz", preset=9) as packed:
        packed.add(checkpoint, ".", filter=_anonymous)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def write(folder: Path) -> None:
    """Write all stored checkpoints again with the current build."""
    from substrait_agg.spark.session.session import get_session

    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, make in SETTINGS.items():
        setting = replace(make(), other=None)
        (folder / name).mkdir(parents=True)
        with quick_batches():
            run(local_world(folder / name, setting), FIRST)
        _pack(folder / name / "checkpoint", name)
    (folder / GOALS).mkdir()
    run_goals(get_session("local[2]"), folder / GOALS, goals_batches()[:GOALS_FIRST])
    _pack(folder / GOALS / "checkpoint", GOALS)
    shutil.rmtree(folder)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
