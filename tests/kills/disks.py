"""File systems of their own for tests: small ones, and folders that become read-only. Where the system makes none, the test is skipped."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def mount(*words: str) -> str:
    """Call ``mount`` and return its error output."""
    done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr or str(done.returncode)


@contextmanager
def disk_of(folder: Path, size: str) -> Iterator[Path]:
    """A file system of a size such as ``1m``, in memory."""
    folder.mkdir()
    try:
        refused = mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
    except FileNotFoundError:
        refused = "there is no mount"
    if refused:
        pytest.skip(f"no file system can be made here: {refused}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def resize(folder: Path, size: str) -> None:
    """Give it another size."""
    assert not mount("-o", f"remount,size={size}", str(folder))


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Make a folder read-only for everybody who looks for a path in it from now on; files that are open stay as they are."""
    try:
        refused = mount("--bind", str(folder), str(folder))
    except FileNotFoundError:
        refused = "there is no mount"
    if refused:
        pytest.skip(f"no folder can be made read-only here: {refused}")
    try:
        deadline = time.monotonic() + 60
        while refused := mount("-o", "remount,bind,ro", str(folder)):
            assert time.monotonic() < deadline, refused  # a file was being written just then
            time.sleep(0.001)
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
