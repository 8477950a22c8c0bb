"""A full disk and a read-only disk: the run ends with an error that names the cause, and continues after the repair."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kills.disks import disk_of, read_only, resize
from tests.kills.process_killer import strike
from tests.kills.run import PATIENCE, ROOT, Place, check_end, check_now
from tests.kills.stream import Stream, make_stream

pytestmark = pytest.mark.spark

BATCHES = 10
CODES = {"CHECKPOINT_NOT_WRITTEN", "FILE_NOT_USABLE"}
"""The second one of a run that has not begun."""


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Stream:
    return make_stream(tmp_path_factory.mktemp("disks") / "stream", 9, BATCHES)


@pytest.fixture(scope="module")
def whole(stream: Stream, tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("whole") / "run", stream)
    place.finish()
    return place


def ended(place: Place) -> tuple[int, str]:
    """Run the command; its status and the code of its error."""
    process = place.start()
    try:
        status = process.wait(PATIENCE)
    finally:
        strike(process.pid, "all")
        process.wait()
    return status, code_of(place)


def code_of(place: Place) -> str:
    return place.log.read_text().rpartition("error[")[2].partition("]")[0]


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """A command that starts no Spark."""
    return subprocess.run(
        [sys.executable, "-m", "substrait_agg_cli.main", *words],
        capture_output=True, text=True, cwd=ROOT, env={"PYTHONPATH": f"{ROOT}:{ROOT / 'cli'}"}, check=False,
    )  # fmt: skip


@pytest.mark.soak
def test_a_full_disk_loses_nothing(stream: Stream, whole: Place, tmp_path: Path) -> None:
    """It is filled by the run itself, twice, at other places; with more space the same command ends right."""
    with disk_of(tmp_path / "disk", "220k") as disk:
        place = Place(disk / "run", stream, log_folder=tmp_path)
        reached = []
        for size in ("220k", "500k"):
            resize(disk, size)
            status, code = ended(place)
            assert status == 1
            assert code in CODES, place.log.read_text()[-2000:]
            check_now(place)
            reached.append(place.newest())
        assert reached[0] < reached[1] < BATCHES
        resize(disk, "100m")
        place.finish()
        check_end(place, whole)
        check_now(place)


@pytest.mark.soak
def test_a_checkpoint_that_cannot_be_written(stream: Stream, whole: Place, tmp_path: Path) -> None:
    """A checkpoint becomes read-only during a run and at the start of the next: committed versions
    stay readable, and a later run ends correctly.
    """
    place = Place(tmp_path / "run", stream, log_folder=tmp_path)
    process = place.start()
    try:
        deadline = time.monotonic() + PATIENCE
        while place.newest() < 3:
            assert time.monotonic() < deadline
            assert process.poll() is None, place.log.read_text()[-2000:]
            time.sleep(0.002)
        with read_only(place.folder):
            assert process.wait(PATIENCE) == 1
            assert code_of(place) in CODES, place.log.read_text()[-2000:]
            reached = place.newest()
            assert 3 <= reached < BATCHES
            assert ended(place)[0] == 1
            assert code_of(place) in CODES, place.log.read_text()[-2000:]
            check_reading(place)
            assert place.newest() == reached
    finally:
        strike(process.pid, "all")
        process.wait()
    place.finish()
    check_end(place, whole)


def check_reading(place: Place) -> None:
    """Readers work, and writers report an error."""
    check_now(place)
    for words in ("view", "changes", "state ls", "state verify"):
        done = command(*words.split(), str(place.checkpoint))
        assert done.returncode == 0, (words, done.stderr)
        assert done.stdout
    for words in ("state vacuum", "state rollback --to 1 --force"):
        done = command(*words.split(), str(place.checkpoint))
        assert done.returncode == 1, (words, done.stdout)
        assert "error[" in done.stderr
        assert "Traceback" not in done.stderr
