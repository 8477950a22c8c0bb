"""A suspended command resumes after another one has continued its checkpoint: it ends with a
conflict and causes no damage.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import substrait_agg as sa
from substrait_agg.commit.log.locking import LOCK
from tests.e2e.conftest import Finished
from tests.e2e.killing import PATIENCE, Command, kill_session, newest, signal_session
from tests.e2e.lineitem import BATCHES, Stream
from tests.e2e.test_kill import check_same, command

pytestmark = pytest.mark.spark

Undisturbed = Callable[[str, str], Finished]


@pytest.mark.soak
def test_a_command_that_slept_stops_and_harms_nothing(
    lineitem: Stream, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    """The command sleeps during a batch while another run commits several versions and is still
    active. Without its lock, as on another machine, the other run takes the checkpoint over.
    """
    sleeper = command("datafusion-55", "q01", lineitem, tmp_path)
    other = Command(sleeper.arguments, sleeper.checkpoint, tmp_path / "other.log")
    first = sleeper.start()
    second = None
    try:
        _await(sleeper, 4)
        signal_session(first, signal.SIGSTOP)
        (Path(sleeper.checkpoint) / LOCK).unlink()
        second = other.start()
        _await(sleeper, 9)
        signal_session(first, signal.SIGCONT)
        assert first.wait(PATIENCE) != 0
        assert second.wait(PATIENCE) == 0, other.log.read_text()[-3000:]
    finally:
        for process in (first, second):
            if process is not None:
                kill_session(process)
    assert "COMMIT_CONFLICT" in sleeper.log.read_text(), sleeper.log.read_text()[-3000:]
    assert sa.open_view(sleeper.checkpoint).version == BATCHES
    check_same(tmp_path, undisturbed("datafusion-55", "q01"))


def _await(command: Command, version: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while newest(command.checkpoint) < version:
        assert time.monotonic() < deadline, command.log.read_text()[-3000:]
        time.sleep(0.003)
