"""The server of the pages about PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.connect.server import Server, binaries, run, running


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    # Not a folder of pytest: another run of it closes the folder above to other users.
    with TemporaryDirectory(prefix="postgres") as folder, running(Path(folder) / "x") as server:
        yield server


@pytest.fixture
def postgres(server: Server) -> Iterator[dict[str, str]]:
    """Give the address of a server with an empty database ``shop``, and a path to its psql."""
    run(server.dsn(), "CREATE DATABASE shop")
    path = f"{binaries(18)}{os.pathsep}{os.environ['PATH']}"
    yield {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PATH": path}
    run(server.dsn(), "DROP DATABASE shop WITH (FORCE)")
