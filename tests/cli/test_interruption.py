"""The real command with its own Spark: its output, and stopping it by a signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import substrait_agg
from substrait_agg.commit.documents.file_names import snapshot_name
from substrait_agg.errors import StateRefused
from substrait_agg.metrics import Progress
from substrait_agg.metrics.startup import PHASES
from tests.kills.process_killer import strike

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}"}
PATIENCE = 240

pytestmark = pytest.mark.spark


def start(plan: Path, folder: Path, *more: str, format: str = "parquet") -> subprocess.Popen[str]:
    arguments = [
        "run", str(plan), "--source", f"t={format}:{folder / 't'}?batch-files=1",
        "--checkpoint", str(folder / "ck"), "--master", "local[2]", *more,
    ]  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-m", "substrait_agg_cli", *arguments],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def committed(folder: Path) -> int:
    try:
        return substrait_agg.open_view(folder / "ck").version
    except StateRefused:
        return -1


def test_a_reader_that_does_not_read_holds_up_neither_the_commits_nor_the_end(
    good_plan: Path, tmp_path: Path
) -> None:
    """With a full pipe as stdout, versions are committed and SIGTERM ends the run; a closed reader
    ends the run by itself.
    """
    (tmp_path / "t").mkdir()
    for i in range(3):
        keys = pa.array(range(i * 20_000, (i + 1) * 20_000), pa.int64())
        pq.write_table(pa.table({"k": keys}), tmp_path / "t" / f"{i}.parquet")
    options = ("--every", "100ms", "--output", "stream-json", "--no-progress")
    process = start(good_plan, tmp_path, *options)
    try:
        deadline = time.monotonic() + PATIENCE
        while committed(tmp_path) < 3:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 143
        assert process.stderr is not None
        told = process.stderr.read().splitlines()
    finally:
        stop(process)
    assert told[0] == (
        "warning[OUTPUT_NOT_DELIVERED]: output stream-json has version 0 of 3: it is still writing"
    )
    assert "substrait-agg changes DIR --since 0 prints the missing versions" in told[1]
    assert "error[INTERRUPTED]: stopped by the user; version 3 is committed" in told
    keys = pa.array(range(50_000), pa.int64())
    pq.write_table(pa.table({"k": keys}), tmp_path / "t" / "3.parquet")
    process = start(good_plan, tmp_path, *options)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith('{"version"')
        process.stdout.close()
        assert process.wait(timeout=PATIENCE) == 141
    finally:
        stop(process)


def stop(process: subprocess.Popen[str]) -> None:
    """End a process and all processes that it started, in any state."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def test_ctrl_c_ends_an_endless_run_cleanly_and_the_next_run_goes_on(
    spark: SparkSession, good_plan: Path, tmp_path: Path
) -> None:
    """stderr has only our lines, none of the JVM, of log4j or of workers."""
    (tmp_path / "t").mkdir()
    for i in range(2):
        pq.write_table(
            pa.table({"k": pa.array([i, 7], pa.int64())}), tmp_path / "t" / f"{i}.parquet"
        )
    process = start(good_plan, tmp_path, "--every", "100ms", "--output", "none", "--no-progress")
    try:
        deadline = time.monotonic() + PATIENCE
        while committed(tmp_path) < 2:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        # As a terminal does it: everything that was started gets the signal.
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert (process.returncode, out) == (130, "")
    assert err.splitlines() == [
        "error[INTERRUPTED]: stopped by the user; version 2 is committed",
        "help: run the same command again to continue from there",
    ]
    pq.write_table(pa.table({"k": pa.array([7], pa.int64())}), tmp_path / "t" / "2.parquet")
    source = {"t": f"parquet:{tmp_path / 't'}?batch-files=1"}
    substrait_agg.run(good_plan, source, checkpoint=tmp_path / "ck", spark=spark).wait()
    view = substrait_agg.open_view(tmp_path / "ck").to_arrow()
    assert sorted(zip(*(c.to_pylist() for c in view.columns), strict=True)) == [
        (0, 1), (1, 1), (7, 3),
    ]  # fmt: skip
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ck", "good.json", "t"]


@pytest.mark.parametrize(
    "moment",
    ["ck", "ck/plan.json", f"ck/snapshots/{snapshot_name(0)}", f"ck/snapshots/{snapshot_name(1)}"],
)
def test_ctrl_c_during_the_start_or_the_first_batch_leaves_a_checkpoint_to_go_on_with(
    spark: SparkSession, good_plan: Path, tmp_path: Path, moment: str
) -> None:
    """The moment is a file whose existence says how far the run is."""
    (tmp_path / "t").mkdir()
    for i in range(2):
        keys = pa.array([i, 7], pa.int64())
        pq.write_table(pa.table({"k": keys}), tmp_path / "t" / f"{i}.parquet")
    process = start(good_plan, tmp_path, "--output", "none", "--no-progress")
    try:
        deadline = time.monotonic() + PATIENCE
        while not (tmp_path / moment).exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        stop(process)
    assert (process.returncode, out) == (130, "")
    told, *help = err.splitlines()
    assert told.startswith("error[INTERRUPTED]: stopped by the user")
    assert help in ([], ["help: run the same command again to continue from there"])
    source = {"t": f"parquet:{tmp_path / 't'}?batch-files=1"}
    substrait_agg.run(good_plan, source, checkpoint=tmp_path / "ck", spark=spark).wait()
    view = substrait_agg.open_view(tmp_path / "ck").to_arrow()
    assert sorted(zip(*(c.to_pylist() for c in view.columns), strict=True)) == [
        (0, 1), (1, 1), (7, 2),
    ]  # fmt: skip


def test_the_phases_of_a_start_end_with_the_first_batch_that_has_rows(
    spark: SparkSession, good_plan: Path, tmp_path: Path
) -> None:
    (tmp_path / "t").mkdir()
    for i in range(2):
        keys = pa.table({"k": pa.array([i], pa.int64())})
        pq.write_table(keys, tmp_path / "t" / f"{i}.parquet")
    told: list[Progress] = []
    substrait_agg.run(
        good_plan, {"t": f"parquet:{tmp_path / 't'}?batch-files=1"}, checkpoint=tmp_path / "ck",
        spark=spark, progress=told.append,
    ).wait()  # fmt: skip
    phases = [[name for name, _ in progress.start_phases] for progress in told]
    assert phases == [[], list(PHASES), list(PHASES)]


@pytest.mark.parametrize("versions", [1, 0], ids=["idle", "in the first batch"])
def test_a_spark_that_is_killed_ends_the_run_and_the_next_run_goes_on(
    spark: SparkSession, good_plan: Path, tmp_path: Path, versions: int
) -> None:
    """Also a run that waits for rows ends. A large CSV file keeps Spark busy during its batch."""
    (tmp_path / "t").mkdir()
    rows = 2 if versions else 3_000_000
    keys = pa.table({"k": pa.array(range(rows), pa.int64())})
    pyarrow.csv.write_csv(keys, tmp_path / "t" / "0.csv")
    process = start(
        good_plan, tmp_path, "--every", "0", "--output", "none", "--no-progress", format="csv"
    )
    try:
        deadline = time.monotonic() + PATIENCE
        while committed(tmp_path) < versions:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert strike(process.pid, "jvm")
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        stop(process)
    assert (process.returncode, out) == (1, "")
    told, help, *_ = err.splitlines()
    assert told == "error[SPARK_LOST]: the process of Spark has ended: it was killed, or it crashed"
    assert help.startswith("help: nothing of the batch was committed; run again")
    assert committed(tmp_path) == versions
    source = {"t": f"csv:{tmp_path / 't'}"}
    substrait_agg.run(good_plan, source, checkpoint=tmp_path / "ck", spark=spark).wait()
    view = substrait_agg.open_view(tmp_path / "ck")
    assert (view.version, view.to_arrow().num_rows) == (1, rows)
