"""Files that are no files, and inputs without an end: a code and an exit status, in bounded time and memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import bombs

resource = pytest.importorskip("resource", reason="limits of a process are set as Unix does")

ROOT = Path(__file__).parents[2]
MEMORY, SECONDS = 1 << 30, 60
COMMAND = [sys.executable, "-m", "substrait_agg_cli.main"]


def called(*arguments: str, given: int | bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run the command; `given` is its stdin: a file number or bytes."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))

    path = os.pathsep.join((str(ROOT), str(ROOT / "cli")))
    options: dict[str, Any] = {"input": given} if isinstance(given, bytes) else {"stdin": given}
    ended: subprocess.CompletedProcess[bytes] = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, check=False, preexec_fn=limited,
        env={**os.environ, "PYTHONPATH": path}, timeout=300, **options,
    )  # fmt: skip
    return ended


def refused(ended: subprocess.CompletedProcess[bytes], status: int) -> None:
    said = ended.stderr + ended.stdout
    assert ended.returncode == status, said[-2000:]
    assert b"Traceback" not in said
    assert b"INTERNAL" not in said
    assert b"error[" in said or b'"level": "error"' in said or b"<!doctype" in said.lower()


@pytest.fixture
def strange(tmp_path: Path) -> list[str]:
    """Things with a path that no plan can be read from, or not a whole one."""
    (tmp_path / "sub").mkdir()
    loop = tmp_path / "loop.bin"
    loop.symlink_to(loop)
    return [str(tmp_path / "sub"), str(loop), str(tmp_path / "none.bin"), "x" * 5000]


def test_paths_that_are_no_plan_files(strange: list[str]) -> None:
    """The call is wrong, not the plan: exit status 2."""
    refused(called("validate", *strange), 2)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="devices as Linux has them")
def test_devices_and_pseudo_files_are_read_to_the_limit() -> None:
    """/dev/zero never ends; what files under /proc claim to be is no plan."""
    names = [n for n in ("/dev/zero", "/dev/null", "/proc/self/status") if Path(n).exists()]
    refused(called("validate", *names), 1)


def test_pipes_without_an_end(tmp_path: Path) -> None:
    """A named pipe into which somebody writes for ever, and the same as stdin."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    forever = (
        "import os,sys\nfd=os.open(sys.argv[1],os.O_WRONLY)\nwhile True: os.write(fd,b'\\n'*65536)"
    )
    writer = subprocess.Popen([sys.executable, "-c", forever, str(pipe)], stderr=subprocess.DEVNULL)
    try:
        refused(called("validate", str(pipe)), 1)
    finally:
        writer.kill()
        writer.wait()
    with Path("/dev/zero").open("rb") as zero:
        refused(called("validate", "-", given=zero.fileno()), 1)


@pytest.mark.parametrize("form", ["text", "json", "sarif", "html"])
def test_every_form_of_report_of_broken_plans(form: str, tmp_path: Path) -> None:
    """Reports in every format state that a plan is too deep, too wide, truncated, or no plan at
    all.
    """
    contents = {
        name.replace(" ", "_"): bombs.NO_PLANS[name]
        for name in ("empty", "gzip", "zeros", "open braces", "UTF-8 that is none", "half a character",
                     "UTF-32", "a length beyond the end", "many keys", "null characters")
    }  # fmt: skip
    contents |= {b.__name__: b() for b in (bombs.deep_problems, bombs.relations_doubled)}
    for name, content in contents.items():
        (tmp_path / f"{name}.bin").write_bytes(content)
    refused(called("validate", "--format", form, str(tmp_path)), 1)


def test_explaining_what_is_no_plan() -> None:
    refused(called("explain", "-", given=bombs.NO_PLANS["open brackets"]), 1)
    refused(called("explain", "--format", "json", "-", given=b"\x00"), 1)
