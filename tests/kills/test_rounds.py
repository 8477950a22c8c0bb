"""Real kills: the command, its JVM or its Python workers are killed with SIGKILL, the same command is run again, and nothing of it shows.

``make soak`` runs ``KILL_ROUNDS`` rounds (200) from the seed ``KILL_SEED`` on (random, and told when it fails).
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from tests.kills.process_killer import chosen, strike
from tests.kills.rounds import Kill, RoundCounts, Stage, campaign
from tests.kills.run import PATIENCE, QUICK, Place, check_end
from tests.kills.stream import make_stream

pytestmark = pytest.mark.spark

KILLS = (
    Kill("driver", "worker", 7, 0.0),
    Kill("jvm", "driver", 600, 0.0),
    Kill("workers", "worker", 40, 0.0),
)


def test_three_kills_leave_no_trace(tmp_path: Path) -> None:
    """Of each kind of process alone; view, changes and outputs are the model's and those of a run on the local executor.

    The test of the demo kills everything at once.
    """
    tally = RoundCounts()
    Stage(tmp_path / "stage", 1, 11, local=True).once("killed", iter(KILLS), tally)
    assert tally.rounds == len(KILLS), tally
    assert tally.endings["jvm: SPARK_LOST"] == 1, tally.endings
    assert tally.endings["workers: BATCH_FAILED"] == 1, tally.endings


@pytest.mark.soak
def test_workers_that_are_killed_are_replaced(tmp_path: Path) -> None:
    """Where Spark may try a task again, one run survives that its Python workers are killed in every batch."""
    stream = make_stream(tmp_path / "stream", 2, 10)
    words = ("--master", "local[2,4]", *QUICK)
    whole, killed = (Place(tmp_path / name, stream, words) for name in ("whole", "killed"))
    whole.finish()
    process = killed.start()
    struck: set[int] = set()
    rng = random.Random(2)
    deadline = time.monotonic() + PATIENCE
    try:
        while process.poll() is None:
            assert time.monotonic() < deadline, killed.log.read_text()[-3000:]
            version = killed.newest()
            if version >= 0 and version not in struck and chosen(process.pid, "workers"):
                time.sleep(rng.uniform(0, 0.3))
                if strike(process.pid, "workers"):
                    struck.add(version)
            time.sleep(0.005)
        assert process.returncode == 0, killed.log.read_text()[-3000:]
    finally:
        strike(process.pid, "all")
        process.wait()
    assert len(struck) >= 6
    check_end(killed, whole)


@pytest.mark.soak
def test_many_kills_at_random_leave_no_trace(tmp_path: Path) -> None:
    """Kill random processes at random moments, over a random stream that restarts as often as necessary."""
    rounds = int(os.environ.get("KILL_ROUNDS", "200"))
    seed = int(os.environ.get("KILL_SEED", str(random.randrange(1 << 30))))
    try:
        tally = campaign(tmp_path, seed, rounds)
    except AssertionError as error:
        error.add_note(f"KILL_SEED={seed}, files in {tmp_path}")
        raise
    assert tally.rounds >= rounds
