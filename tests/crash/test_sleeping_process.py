"""A process that is suspended (SIGSTOP) while another one continues ends with a conflict and changes nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.cases import Undisturbed, undisturbed
from tests.crash.scenario import World, check_left, ending, quick_batches
from tests.crash.settings import chained

ROOT = Path(__file__).parents[2]
ENDS = {"DONE", "COMMIT_CONFLICT"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    with quick_batches():
        yield undisturbed(tmp_path_factory.mktemp("asleep"), chained())


def start(folder: Path, name: str, pause: float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.crash.sleeper", str(folder), name, str(pause)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return out.strip()


def newest(folder: Path) -> int:
    return len(list((folder / "checkpoint" / "snapshots").glob("*.json"))) - 1


def one_round(whole: Undisturbed, folder: Path, rng: random.Random) -> bool:
    """One process sleeps from a random moment on, until another one is at a random version or done.

    Returns:
        Whether it ended in a conflict.
    """
    folder.mkdir()
    wake_at = rng.randrange(3, 8)
    first = start(folder, "first", 0.05)
    second = None
    try:
        while newest(folder) < 1:
            time.sleep(0.002)
            assert first.poll() is None
        time.sleep(rng.random() * 0.4)
        os.kill(first.pid, signal.SIGSTOP)
        asleep_at = newest(folder)
        second = start(folder, "second", 0.02)
        while second.poll() is None and newest(folder) < max(wake_at, asleep_at + 1):
            time.sleep(0.002)
        os.kill(first.pid, signal.SIGCONT)
        ends = [said(first), said(second)]
    finally:
        for process in (first, second):
            if process is not None:
                process.kill()
                process.wait()
    assert set(ends) <= ENDS, ends
    assert "DONE" in ends, ends
    assert ending(World(folder)) == whole.ending
    check_left(World(folder), slept=True)
    return ends[0] == "COMMIT_CONFLICT"


def test_a_process_that_slept_harms_nothing(whole: Undisturbed, tmp_path: Path) -> None:
    """View, changes per version and files are those of a run that was alone."""
    rng = random.Random(1)
    rounds = (one_round(whole, tmp_path / str(number), rng) for number in range(5))
    assert any(rounds), "no process was overtaken"


@pytest.mark.soak
def test_processes_that_sleep_at_any_moment_harm_nothing(
    whole: Undisturbed, tmp_path: Path
) -> None:
    """The same, many times, from the seed ``SLEEP_SEED`` on (random, and told when it fails)."""
    seed = int(os.environ.get("SLEEP_SEED", str(random.randrange(1 << 30))))
    rng = random.Random(seed)
    try:
        for number in range(60):
            one_round(whole, tmp_path / str(number), rng)
    except AssertionError as error:
        error.add_note(f"SLEEP_SEED={seed}, files in {tmp_path}")
        raise
