"""Runs of the command over a real PostgreSQL while pgbench writes, killed again and again; and the live demo itself."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from substrait_agg_cli.demo_board import VersionSums
from substrait_agg_cli.demo_live import compare_rows
from tests.connect.live_run import ENVIRONMENT, LiveRun, Victim, kill_and_resume
from tests.connect.server import BINARIES

pytestmark = pytest.mark.spark

VICTIMS: tuple[Victim, ...] = ("driver", "server", "both")


@pytest.fixture
def seed(major: int) -> Iterator[None]:
    """The same victims and pauses whenever a test runs; LIVE_SEED gives others."""
    state = random.getstate()
    random.seed(int(os.environ.get("LIVE_SEED", "1")) + major)
    yield
    random.setstate(state)


@pytest.mark.parametrize("major", BINARIES)
@pytest.mark.usefixtures("seed")
def test_three_kills_under_pgbench(tmp_path: Path, major: int) -> None:
    """Of the run, of the server, and of both. Views and tables equal PostgreSQL's answer, and every version is that of a
    moment of PostgreSQL."""

    def pick(run: LiveRun, process: subprocess.Popen[bytes], _: int) -> bool:
        newest = max(run.newest(), 0)
        reached = run.wait(process, lambda: run.newest() > newest)
        time.sleep(random.uniform(0, 1))
        return reached

    kill_and_resume(tmp_path, major, random.sample(VICTIMS, 3), 100, pick)


@pytest.mark.soak
@pytest.mark.parametrize("major", BINARIES)
@pytest.mark.usefixtures("seed")
def test_many_kills_under_pgbench(tmp_path: Path, major: int) -> None:
    """At any moment, also of the start and of the first version; a higher rate."""

    def pick(run: LiveRun, process: subprocess.Popen[bytes], kill: int) -> bool:
        if kill % 3 == 0:
            time.sleep(random.uniform(0, 30))
            return run.wait(process, lambda: True)
        newest = run.newest()
        reached = run.wait(process, lambda: run.newest() > newest)
        time.sleep(random.choice([0, random.uniform(0, 0.2), random.uniform(0, 5)]))
        return reached

    kills = int(os.environ.get("LIVE_KILLS", "100"))
    kill_and_resume(tmp_path, major, random.choices(VICTIMS, k=kills), 400, pick)


@pytest.mark.soak
def test_the_live_demo_passes_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """It ends with PASS, and its server and its folders are gone."""
    # PostgreSQL of root runs as another user, who must reach its folder.
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    try:
        result = subprocess.run(
            [sys.executable, "-m", "substrait_agg_cli.demo_live", "--seconds", "3", "--scale", "1"],
            cwd=tmp_path, env={**ENVIRONMENT, "TMPDIR": str(folder)}, capture_output=True,
            text=True, timeout=300, check=False,
        )  # fmt: skip
        assert (result.returncode, result.stderr) == (0, ""), result.stdout
        for line in ("top_tellers: 10 rows", "sums: 4 rows"):
            assert f"{line} equal in view, table and PostgreSQL: PASS" in result.stdout
        assert "FAIL" not in result.stdout
        assert result.stdout.splitlines()[-1].startswith("PASS in ")
        assert not list(folder.iterdir())
    finally:
        folder.rmdir()


@pytest.mark.parametrize("who", range(3))
@pytest.mark.parametrize(
    "other", [[(1, "a")], [(1, "a"), (2, "c")], [(1, "a"), (2, "b"), (3, "c")]]
)
def test_the_demo_finds_rows_that_differ(
    capsys: pytest.CaptureFixture[str], who: int, other: list[tuple[int, str]]
) -> None:
    """In the view, in the table, or in PostgreSQL: a missing row, another value, a row too many."""
    rows = [[(1, "a"), (2, "b")] for _ in range(3)]
    assert compare_rows("v", *rows)
    rows[who] = other
    assert not compare_rows("v", *rows)
    printed = capsys.readouterr().out
    assert "FAIL" in printed
    assert f"v, row {2 if len(other) == 3 else 1}: view " in printed
    assert not compare_rows("v", [], [], [])


def changes(*rows: tuple[int, int, str, int, int]) -> Any:
    """Changes of the view ``sums``: version, weight, name, total, number."""
    import pyarrow as pa

    names = ("__version", "__weight", "name", "total", "number")
    table = pa.table({name: [row[i] for row in rows] for i, name in enumerate(names)})
    times = {str(version): "2026-01-01T00:00:00+00:00" for version, *_ in rows}
    return table.replace_schema_metadata({"substrait_agg.committed": str(times).replace("'", '"')})


def test_the_demo_finds_a_version_whose_sums_differ(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also if the next version repairs it."""
    first = [(0, 1, name, 0, 5) for name in ("accounts", "tellers", "branches")]
    torn = [
        (1, -1, "accounts", 0, 5), (1, 1, "accounts", 7, 5), (1, -1, "tellers", 0, 5),
        (1, 1, "tellers", 7, 5), (1, 1, "history", 7, 1),
    ]  # fmt: skip
    repaired = [(2, -1, "branches", 0, 5), (2, 1, "branches", 7, 5)]

    class View:
        version = 2

        def changes(self, since: int | None) -> Any:
            assert since is None
            return changes(*first, *torn, *repaired)

    monkeypatch.setattr("substrait_agg_cli.demo_board.open_view", lambda *_: View())
    sums = VersionSums(tmp_path)
    sums.read()
    assert sums.different == ["version 1: accounts 7, tellers 7, branches 0, history 7"]
    assert (sums.equal, len(sums.committed)) == (2, 3)
