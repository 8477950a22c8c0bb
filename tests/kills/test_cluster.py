"""Runs on clusters whose executors are killed with kill -9 in every batch: all is as on one machine, and as the model says."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.kills.blow import strike
from tests.kills.cluster import executors, options, standalone, told
from tests.kills.run import PATIENCE, ROOT, Place, check_end
from tests.kills.stream import Stream, make_stream

pytestmark = pytest.mark.spark

BATCHES = 10


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Stream:
    return make_stream(tmp_path_factory.mktemp("cluster") / "stream", 4, BATCHES)


@pytest.fixture(scope="module")
def whole(stream: Stream, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The same on ``local[2]``, undisturbed."""
    place = Place(tmp_path_factory.mktemp("whole") / "run", stream)
    place.finish()
    return place


def run_killing(place: Place, sessions: Callable[[int], Sequence[int]], rng: random.Random) -> int:
    """Run to the end; in every batch, at a random moment, an executor is killed.

    Args:
        place: what is run.
        sessions: given the session of the command, those that executors belong to.
        rng: chooses moments and executors.

    Returns:
        The number of batches in which one was.
    """
    process = place.start()
    killed: dict[int, int] = {}
    deadline = time.monotonic() + PATIENCE
    try:
        while process.poll() is None:
            assert time.monotonic() < deadline, (
                f"version {place.newest()}: {place.log.read_text()[-3000:]}"
            )
            version = place.newest()
            if 0 <= version < place.stream.last and version not in killed:
                killed |= _kill_in(place, process, version, sessions(process.pid), rng)
            time.sleep(0.005)
        assert process.returncode == 0, place.log.read_text()[-3000:]
    finally:
        strike(process.pid, "all")
        process.wait()
    return len(killed)


def _kill_in(
    place: Place,
    process: subprocess.Popen[bytes],
    version: int,
    sessions: Sequence[int],
    rng: random.Random,
) -> dict[int, int]:
    """Kill an executor while the version after this one is being made."""
    time.sleep(rng.uniform(0, 0.4))
    running = executors(sessions)
    if not running or place.newest() != version or process.poll() is not None:
        return {}
    pid = rng.choice(running)
    os.kill(pid, signal.SIGKILL)
    return {version: pid} if place.newest() == version else {}


@pytest.mark.parametrize("speculate", [False, True])
def test_executors_of_a_standalone_cluster_are_killed(
    stream: Stream, whole: Place, tmp_path: Path, speculate: bool
) -> None:
    """A master and two workers; with slow tasks of which Spark starts second copies in one of the cases."""
    slow = [Path(__file__).parent / "slow"] if speculate else []
    with standalone(tmp_path / "cluster", slow) as cluster:
        words = options(cluster.url, tmp_path / "events", speculate=speculate, paths=slow)
        place = Place(tmp_path / "run", stream, words)
        killed = run_killing(place, lambda _: cluster.sessions, random.Random(5))
    check_end(place, whole)
    counts = told(tmp_path / "events")
    assert killed >= BATCHES - 2, (killed, counts)
    assert counts["executors lost"] >= killed - 2, (killed, counts)
    assert bool(counts["speculative"]) == speculate, counts


def test_executors_of_a_local_cluster_are_killed(
    stream: Stream, whole: Place, tmp_path: Path
) -> None:
    """Executors in processes of their own, started by the driver; their Python is one that was shipped to them."""
    archive = _shipped_python(tmp_path / "shipped")
    shipped = {"spark.archives": f"{archive}#shipped", "spark.pyspark.python": "./shipped/bin/python"}  # fmt: skip
    words = options("local-cluster[2,1,1024]", tmp_path / "events", speculate=False, more=shipped)
    place = Place(tmp_path / "run", stream, words)
    killed = run_killing(place, lambda session: [session], random.Random(6))
    check_end(place, whole)
    counts = told(tmp_path / "events")
    assert killed >= BATCHES - 2, (killed, counts)
    assert counts["executors lost"] >= killed - 2, (killed, counts)


def _shipped_python(folder: Path) -> Path:
    """An archive with a Python that finds this package; the executors of the test find it nowhere else."""
    program = folder / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    program.chmod(0o755)
    with tarfile.open(folder / "shipped.tar.gz", "w:gz") as archive:
        archive.add(folder / "bin", "bin")
    return folder / "shipped.tar.gz"
