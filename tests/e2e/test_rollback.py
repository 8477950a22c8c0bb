"""A rollback and another run give the same result as a run without it, also if the run or the
rollback is killed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import substrait_agg as sa
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.errors import StateRefused
from substrait_agg.tools.rollback.rollback import Rollback
from tests.e2e.conftest import Finished
from tests.e2e.killing import COMMAND, ROOT, Command, kill_session, newest
from tests.e2e.lineitem import BATCHES, Stream
from tests.e2e.rows import bag, changes_by_version
from tests.e2e.tpch import PRODUCERS

pytestmark = pytest.mark.spark

Undisturbed = Callable[[str, str], Finished]


def _command(stream: Stream, folder: Path, *more: str) -> Command:
    arguments = (
        str(PRODUCERS["datafusion-55"].plan("q01")),
        "--source",
        f"lineitem=parquet:{stream.folder}?op=op&batch-files=1",
        "--output",
        f"stream-json={folder / 'out.jsonl'}",
        "--output",
        f"changes-parquet={folder / 'out'}",
        "--no-progress",
        "--master",
        "local[2]",
        *more,
    )
    return Command(arguments, folder / "checkpoint", folder / "log")


def _state(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "state", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'cli'}", "PATH": ""},
    )


@pytest.mark.soak
def test_back_and_again_is_as_if_never_gone_back(
    lineitem: Stream, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    """A run is killed. A rollback is refused during the run and works after it; then the same again."""
    rng = random.Random(5)
    command = _command(lineitem, tmp_path, "--keep-versions", "16")
    process = command.start()
    try:
        while newest(command.checkpoint) < 11:
            assert process.poll() is None, command.log.read_text()[-3000:]
        os.killpg(process.pid, signal.SIGSTOP)  # it would be done before it is asked about
        refused = _state("rollback", str(command.checkpoint), "--to", "5", "--force")
        listed = _state("ls", str(command.checkpoint), "--format", "json")
    finally:
        kill_session(process)
    assert "error[CHECKPOINT_BUSY]" in refused.stderr
    assert '"in_use": true' in listed.stdout
    ahead = _state("rollback", str(command.checkpoint), "--to", "5")
    assert ahead.returncode == 1
    assert "error[OUTPUT_AHEAD]" in ahead.stderr
    done = _state("rollback", str(command.checkpoint), "--to", "5", "--force")
    assert done.returncode == 0, done.stderr
    assert newest(command.checkpoint) == 5
    assert sa.open_state(command.checkpoint).verify().ok
    command.kill_after(4, rng.uniform(0, 0.5))
    sa.open_state(command.checkpoint).rollback(newest(command.checkpoint) - 1, force=True)
    command.finish()
    whole = undisturbed("datafusion-55", "q01")
    views = [sa.open_view(place / "checkpoint") for place in (tmp_path, whole.folder)]
    for view in views:
        assert view.versions() == list(range(BATCHES + 1))
    assert bag(views[0].to_arrow()) == bag(views[1].to_arrow())
    assert changes_by_version(views[0].changes()) == changes_by_version(views[1].changes())
    lines = [sorted((p / "out.jsonl").read_text().splitlines()) for p in (tmp_path, whole.folder)]
    assert lines[0] == lines[1]
    files = [sorted(f.name for f in (p / "out").iterdir()) for p in (tmp_path, whole.folder)]
    assert files[0] == files[1]
    verdict = sa.open_state(command.checkpoint).verify()
    assert verdict.ok, verdict.errors
    kept = sa.open_state(command.checkpoint).ls(None)
    assert next(v.version for v in kept.versions if v.kept) <= BATCHES - 15


def test_an_unfinished_rollback_lets_no_run_begin(lineitem: Stream, tmp_path: Path) -> None:
    """A run is refused after an unfinished rollback, and the remedy in the help works."""
    checkpoint = tmp_path / "checkpoint"
    source = f"parquet:{lineitem.folder}?op=op"
    plan = PRODUCERS["datafusion-55"].plan("q01")
    run = sa.run(plan, {"lineitem": source}, checkpoint=checkpoint, master="local[2]")
    run.wait()
    begun = Rollback(0, 1, ()).to_bytes(Checkpoint(checkpoint).identity)
    (checkpoint / "rollback.json").write_bytes(begun)
    with pytest.raises(StateRefused) as refused:
        sa.run(plan, {"lineitem": source}, checkpoint=checkpoint, master="local[2]")
    assert refused.value.code == "ROLLBACK_UNFINISHED"
    sa.open_state(checkpoint).rollback(0)
    sa.open_state(checkpoint).rescale(1)
    again = sa.run(plan, {"lineitem": source}, checkpoint=checkpoint, master="local[2]")
    again.wait()
    wanted = PRODUCERS["datafusion-55"].expected("q01", lineitem.alive[-1])
    assert bag(sa.open_view(checkpoint).to_arrow()) == wanted
    assert not sa.open_state(checkpoint).ls().in_use
    assert len({r.low for r in sa.open_state(checkpoint).ls().trees[0].ranges}) == 1
