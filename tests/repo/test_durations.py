"""The processes of `make test` share all tests, and none waits while there are some that it can run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.durations import (
    COMMAND,
    OTHER,
    PROCESSES,
    SESSION,
    START,
    FilePart,
    Queue,
    Spent,
    order_of,
    read_spent,
    summary,
)

PARTS = {FilePart(kind, f"{i}.py") for kind in (SESSION, COMMAND, OTHER) for i in range(4)}

SUITE = """
import pytest

@pytest.fixture(scope="module")
def module():
    yield
    print("module torn down")

@pytest.mark.parametrize("number", range(3))
def test_number(module, number):
    print("ran", __name__, number)
"""

MEETING = """
import os, time
from pathlib import Path

def test_meeting():
    print("printed by a test")
    Path(__name__).touch()
    until = time.monotonic() + 100
    while not (Path("test_a").exists() and Path("test_b").exists()):
        assert time.monotonic() < until
        time.sleep(0.01)
    assert int(Path("first").read_text()) == os.getpid()

def test_before_which_no_other_part_is_taken():
    pass
"""


def test_every_part_is_taken_once(tmp_path: Path) -> None:
    """Also by processes that take parts by turns."""
    queues = [Queue(order_of(PARTS, process), tmp_path) for process in PROCESSES]
    parts = [queue.take() for _ in PARTS for queue in queues]
    assert sorted(part for part in parts if part) == sorted(PARTS)


@pytest.mark.parametrize(
    ("process", "kinds"),
    [(1, {SESSION, COMMAND, OTHER}), (2, {COMMAND, OTHER}), (3, {SESSION, COMMAND, OTHER})],
)
def test_what_is_left_is_taken_by_the_other_processes(
    process: int, kinds: set[str], tmp_path: Path
) -> None:
    """The second has no Spark session."""
    queue = Queue(order_of(PARTS, process), tmp_path)
    parts = set(iter(queue.take, None))
    assert parts == {part for part in PARTS if part.kind in kinds}


def test_each_process_begins_with_what_is_its_own() -> None:
    first, second, third = (order_of(PARTS, process) for process in PROCESSES)
    assert [part.kind for part in first] == [SESSION] * 4 + [COMMAND] * 4 + [OTHER] * 4
    assert [part.kind for part in second] == [OTHER] * 4 + [COMMAND] * 4
    assert [part.kind for part in third] == [COMMAND] * 4 + [SESSION] * 4 + [OTHER] * 4
    assert first[-4:] == second[3::-1] == third[-4:]
    assert first[4:8] == second[4:] == third[3::-1]
    assert first[:4] == third[7:3:-1]


def test_long_parts_come_first() -> None:
    parts = [FilePart(OTHER, file) for file in ("tests/a.py", "tests/crash/b.py", "tests/c.py")]
    assert order_of(parts, 2) == [parts[1], parts[0], parts[2]]


def test_the_processes_run_every_test_once(tmp_path: Path) -> None:
    """Fixtures of a module end with its last test, and each process measures its own parts."""
    for name in "abcdefgh":
        (tmp_path / f"test_{name}.py").write_text(SUITE)
    share = tmp_path / "share"
    done = run_shared(tmp_path, share, "--capture=no")
    assert done.returncode == 0, done.stdout
    outputs = [done.stdout, *((share / f"log{number}").read_text() for number in (2, 3))]
    lines = [line for output in outputs for line in output.replace(".", "").splitlines()]
    ran = [line for line in lines if line.startswith(("ran", "module"))]
    each = [
        [*(f"ran test_{name} {i}" for i in range(3)), "module torn down"] for name in "abcdefgh"
    ]
    assert sorted(ran[i : i + 4] for i in range(0, len(ran), 4)) == each
    measured = [read_spent(share / f"spent{number}") for number in PROCESSES]
    parts = [part.file for spent in measured for part in spent if part.kind == OTHER]
    assert sorted(parts) == [f"test_{name}.py" for name in "abcdefgh"]
    assert [START in {part.kind for part in spent} for spent in measured] == [True, False, False]


def test_a_failure_in_a_forked_process_fails_the_run(tmp_path: Path) -> None:
    """Each of the tests waits for the other, so two processes run them; one that was forked fails."""
    (tmp_path / "conftest.py").write_text(
        "import os\nfrom pathlib import Path\n\nPath('first').write_text(str(os.getpid()))\n"
    )
    for name in "ab":
        (tmp_path / f"test_{name}.py").write_text(MEETING)
    share = tmp_path / "share"
    done = run_shared(tmp_path, share, "--capture=fd")
    assert done.returncode == 1, done.stdout
    logs = "".join((share / f"log{number}").read_text() for number in (2, 3))
    assert "1 failed" in logs
    assert "printed by a test" in logs
    assert "2 passed" in done.stdout
    assert "printed by a test" not in done.stdout


def run_shared(folder: Path, share: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the tests in a folder as `make test` does."""
    share.mkdir()
    plugin = ["-p", "tests.durations", f"--share={share}"]
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, *options]
    return subprocess.run(
        [*words, "--rootdir", str(folder), "-c", os.devnull, "."],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_summary_has_processes_folders_and_files() -> None:
    first = {
        FilePart(START, "start and collection"): Spent(1.0, 1.0),
        FilePart(SESSION, "tests/x/a.py"): Spent(2.0, 3.0),
    }
    second = {
        FilePart(OTHER, "tests/y/b.py"): Spent(1.0, 1.0),
        FilePart(OTHER, "tests/y/c.py"): Spent(4.0, 1.0),
    }
    lines = list(summary([first, second]))
    assert [line.split() for line in lines[1:4]] == [
        ["5.0", "2.0", "3.0", "process", "2", "of", "2"],
        ["3.0", "4.0", "0.0", "process", "1", "of", "2"],
        [],
    ]
    assert "    5.0        2.0      3.0  tests/y/" in lines
    assert "    2.0        3.0      0.0  tests/x/a.py (JVM)" in lines
    assert lines.count("    1.0        1.0      0.0  start and collection") == 2
