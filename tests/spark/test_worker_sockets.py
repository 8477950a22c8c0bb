"""A local Spark of the command connects its workers by Unix sockets in a private folder."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from substrait_agg.spark.session import session
from substrait_agg.spark.session.session import MAX_FOLDER, socket_settings

ENABLED = "spark.python.unix.domain.socket.enabled"
FOLDER = "spark.python.unix.domain.socket.dir"
PROCESS = f"""
import os
from substrait_agg.spark.session.session import socket_settings
folder = socket_settings("local")["{FOLDER}"]
open(os.path.join(folder, "socket"), "x").close()
if child := os.fork():
    os.waitpid(child, 0)
    print(len(os.listdir(folder)), oct(os.stat(folder).st_mode))
"""


@pytest.fixture
def local_files(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for local files with a short path. This process has no folder for sockets yet."""
    session._folder.cache_clear()
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        monkeypatch.setenv("SUBSTRAIT_AGG_CACHE", name)
        yield Path(name)
    session._folder.cache_clear()


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local[2, 3]"])
def test_a_local_spark_has_unix_sockets_in_one_folder(local_files: Path, master: str) -> None:
    settings = socket_settings(master)
    assert settings[ENABLED] == "true"
    assert Path(settings[FOLDER]).is_relative_to(local_files)
    assert socket_settings("local[1]") == settings


@pytest.mark.parametrize("master", ["local-cluster[1,1,1024]", "spark://local:7077", "yarn"])
def test_executors_in_other_processes_keep_tcp(local_files: Path, master: str) -> None:
    assert socket_settings(master) == {}
    assert not [*local_files.iterdir()]


def test_a_long_path_keeps_tcp(local_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = local_files / ("x" * MAX_FOLDER)
    monkeypatch.setenv("SUBSTRAIT_AGG_CACHE", str(deep))
    assert socket_settings("local") == {}
    assert not [*(deep / "runs").iterdir()]


def test_a_folder_that_others_can_read_keeps_tcp(local_files: Path) -> None:
    local_files.chmod(0o755)
    assert socket_settings("local") == {}


def test_the_folder_is_private_and_ends_with_its_process(local_files: Path) -> None:
    """A forked process that ends earlier leaves it."""
    environment = {**os.environ, "SUBSTRAIT_AGG_CACHE": str(local_files)}
    done = subprocess.run(
        [sys.executable, "-c", PROCESS], env=environment, check=True, capture_output=True, text=True
    )
    assert done.stdout == "1 0o40700\n"
    assert not [*(local_files / "runs").iterdir()]
