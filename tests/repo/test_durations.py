"""The processes of `make test` share all tests, and neither of the first two waits while there are some."""

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


def test_every_part_is_taken_once(tmp_path: Path) -> None:
    """Also by processes that take parts by turns."""
    queues = [Queue(order_of(PARTS, process), tmp_path) for process in PROCESSES]
    parts = [queue.take() for _ in PARTS for queue in queues]
    assert sorted(part for part in parts if part) == sorted(PARTS)


@pytest.mark.parametrize(
    ("process", "kinds"),
    [(1, {SESSION, COMMAND, OTHER}), (2, {COMMAND, OTHER}), (3, {SESSION, COMMAND})],
)
def test_what_is_left_is_taken_by_the_other_process(
    process: int, kinds: set[str], tmp_path: Path
) -> None:
    """The first runs everything if it is alone; the second has no Spark session, the third nothing else."""
    queue = Queue(order_of(PARTS, process), tmp_path)
    parts = set(iter(queue.take, None))
    assert parts == {part for part in PARTS if part.kind in kinds}


def test_each_process_begins_with_what_is_its_own() -> None:
    first, second, third = (order_of(PARTS, process) for process in PROCESSES)
    assert [part.kind for part in first] == [SESSION] * 4 + [COMMAND] * 4 + [OTHER] * 4
    assert [part.kind for part in second] == [OTHER] * 4 + [COMMAND] * 4
    assert [part.kind for part in third] == [COMMAND] * 4 + [SESSION] * 4
    assert first[-4:] == second[3::-1]
    assert first[4:8] == second[4:] == third[3::-1]
    assert first[:4] == third[:3:-1]


def test_long_parts_come_first() -> None:
    parts = [FilePart(OTHER, file) for file in ("tests/a.py", "tests/crash/b.py", "tests/c.py")]
    assert order_of(parts, 2) == [parts[1], parts[0], parts[2]]


def test_two_processes_run_every_test_once(tmp_path: Path) -> None:
    """Fixtures of a module end with its last test."""
    for name in ("a", "b", "c"):
        (tmp_path / f"test_{name}.py").write_text(SUITE)
    queue = tmp_path / "queue"
    queue.mkdir()
    ran: list[str] = []
    for process in (1, 2):
        (queue / "other-test_b.py").touch() if process == 1 else (
            queue / "other-test_b.py"
        ).unlink()
        output = run_share(tmp_path, process, queue)
        ran += [line for line in output.splitlines() if line.startswith(("ran", "module"))]
    each = [[*(f"ran test_{name} {i}" for i in range(3)), "module torn down"] for name in "cab"]
    assert ran == [line for lines in each for line in lines]


def test_the_third_process_imports_only_modules_about_spark(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(SUITE.replace("import pytest", "import nothing_such"))
    (tmp_path / "test_b.py").write_text(f"{SUITE}\npytestmark = pytest.mark.spark\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = spark\n")
    (tmp_path / "queue").mkdir()
    output = run_share(tmp_path, 3, tmp_path / "queue", settings="pytest.ini")
    ran = [line for line in output.splitlines() if line.startswith("ran")]
    assert ran == [f"ran test_b {i}" for i in range(3)]


def run_share(folder: Path, process: int, queue: Path, settings: str = os.devnull) -> str:
    """Run the tests in a folder as one of the processes; return its output."""
    plugin = ["-p", "tests.durations", "--share", str(process), "--queue", str(queue)]
    words = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", *plugin]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [*words, "--rootdir", str(folder), "-c", settings, "."],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.replace("\n.", "\n").replace("..", "")


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
