"""Runs on clusters whose executors are killed with kill -9 in every batch: all is as on one machine, and as the model says."""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

import pytest

from tests.kills.cluster import TASKS, event_counts, options, standalone
from tests.kills.run import ROOT, Place, check_end
from tests.kills.stream import Stream, make_stream

pytestmark = pytest.mark.spark

BATCHES = 6


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Stream:
    return make_stream(tmp_path_factory.mktemp("cluster") / "stream", 4, BATCHES)


@pytest.fixture(scope="module")
def whole(stream: Stream, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The same on ``local[2]``, undisturbed."""
    place = Place(tmp_path_factory.mktemp("whole") / "run", stream)
    place.finish()
    return place


def check_killed(folder: Path, *, slow: bool) -> None:
    """An executor was killed in the middle of a task in every batch, and Spark has computed the task again."""
    killed = {int(path.name) for path in (folder / "kills").iterdir()}
    counts = event_counts(folder / "events")
    assert killed >= set(range(1, BATCHES + 1)), (killed, counts)
    assert counts["executors lost"] >= BATCHES, counts
    assert counts["ExecutorLostFailure"] >= BATCHES, counts
    assert bool(counts["speculative"]) == slow, counts


@pytest.mark.soak
@pytest.mark.parametrize("slow", [False, True])
def test_executors_of_a_standalone_cluster_are_killed(
    stream: Stream, whole: Place, tmp_path: Path, slow: bool
) -> None:
    """A master and two workers; with slow tasks of which Spark starts second copies in one of the cases."""
    with standalone(tmp_path / "cluster") as url:
        place = Place(tmp_path / "run", stream, options(url, tmp_path / "told", slow=slow))
        place.finish()
    check_end(place, whole)
    check_killed(tmp_path / "told", slow=slow)


@pytest.mark.soak
def test_executors_of_a_local_cluster_are_killed(
    stream: Stream, whole: Place, tmp_path: Path
) -> None:
    """Executors are separate processes of the driver and run a shipped Python."""
    archive = _shipped_python(tmp_path / "shipped")
    shipped = {"spark.archives": f"{archive}#shipped", "spark.pyspark.python": "./shipped/bin/python"}  # fmt: skip
    words = options("local-cluster[2,1,1024]", tmp_path / "told", more=shipped)
    place = Place(tmp_path / "run", stream, words)
    place.finish()
    check_end(place, whole)
    check_killed(tmp_path / "told", slow=False)


def _shipped_python(folder: Path) -> Path:
    """An archive with a Python that finds this package; the executors of the test find it nowhere else."""
    program = folder / "bin" / "python"
    program.parent.mkdir(parents=True)
    path = f"{TASKS}:{ROOT}:$PYTHONPATH"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{path}" exec "{sys.executable}" "$@"\n')
    program.chmod(0o755)
    with tarfile.open(folder / "shipped.tar.gz", "w:gz") as archive:
        archive.add(folder / "bin", "bin")
    return folder / "shipped.tar.gz"
