"""A run of the command over a real PostgreSQL while pgbench writes; the run, the server or both are killed again and again."""

from __future__ import annotations

import logging
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Literal

import substrait_agg as sa
from substrait_agg.errors import RunFailed, StateRefused
from substrait_agg_cli.demo_live import SQL, create_answers
from substrait_agg_cli.demo_postgres import TABLES, Server, serve
from tests.connect.server import BINARIES
from tests.e2e.rows import Bag, bag, running_sums
from tests.kills.process_killer import strike

LOG = logging.getLogger(__name__)
ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}"}
PATIENCE = 600
SCALE = 2
CLIENTS = 4
VIEWS = ("top_tellers", "sums", "branches")
BRANCHES = """
CREATE VIEW branches AS
SELECT b.bid, b.bbalance, max(a.amount) AS accounts, max(t.amount) AS tellers
FROM pgbench_branches AS b
JOIN (SELECT bid, sum(abalance) AS amount FROM pgbench_accounts GROUP BY bid) AS a ON a.bid = b.bid
JOIN (SELECT bid, sum(tbalance) AS amount FROM pgbench_tellers GROUP BY bid) AS t ON t.bid = b.bid
GROUP BY b.bid, b.bbalance;
"""
TRANSFER = """
\\set one random(1, 100000 * :scale)
\\set other random(1, 100000 * :scale)
\\set low least(:one, :other)
\\set high greatest(:one, :other)
\\set amount random(1, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance - :amount WHERE aid = :low;
UPDATE pgbench_accounts SET abalance = abalance + :amount WHERE aid = :high;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)
VALUES (1, 1, :low, -:amount, now()), (2, 1, :high, :amount, now());
END;
"""
"""Money between two accounts, in one order so that no two of them wait for each other; the sums of TPC-B stay equal."""

Victim = Literal["driver", "server", "both"]
"""The processes of the command, those of PostgreSQL, or all of them."""

Pick = Callable[["LiveRun", "subprocess.Popen[bytes]", int], bool]
"""Wait for the moment of a kill; whether the run still runs."""

NOT_REACHABLE = {"SOURCE_NOT_REACHABLE", "OUTPUT_NOT_REACHABLE"}
"""Codes with which a run may end after a kill of the server; the user starts it again."""


class LiveServer(Server):
    """A server that crashes while pgbench writes.

    Args:
        major: 18 or 16.
    """

    def __init__(self, major: int) -> None:
        super().__init__(BINARIES[major])
        self._script = self._folder / "transfer.sql"
        self._script.write_text(TRANSFER)
        self._clients = ExitStack()

    def write(self, rate: int) -> None:
        """Let pgbench execute TPC-B transactions and transfers from now on."""
        scripts = ("--builtin=tpcb-like", f"--file={self._script}")
        self._clients.enter_context(self.transactions(CLIENTS, rate, *scripts))

    def rest(self) -> None:
        """Let pgbench end."""
        self._clients.close()

    def crash(self, *, immediate: bool) -> None:
        """Stop it immediately, or kill the postmaster; pgbench loses its connections and ends."""
        if immediate:
            self._call("pg_ctl", "-D", self._data, "-w", "-m", "immediate", "stop")
        else:
            process = Path(self._data) / "postmaster.pid"
            os.kill(int(process.read_text().split()[0]), signal.SIGKILL)
        with suppress(RunFailed):
            self.rest()

    def recover(self) -> None:
        """Start it; without its postmaster, other processes of it may live for a moment and prevent that."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self.start()
            except RunFailed:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)


class LiveRun:
    """The command over the tables of pgbench, started again and again.

    Args:
        folder: for its checkpoint and log.
        server: with the tables.
    """

    def __init__(self, folder: Path, server: LiveServer) -> None:
        self.checkpoint = folder / "checkpoint"
        self.server = server
        self.sql = folder / "views.sql"
        self.sql.write_text(SQL.read_text() + BRANCHES)
        self._log = folder / "log"

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """Start it, and kill all its processes at the end of the block."""
        command = [sys.executable, "-m", "substrait_agg_cli.main", "run", "--sql", str(self.sql)]
        command += [f"--source={table}=postgres:public.{table}" for table in TABLES]
        command += [f"--output={view}=postgres=public.{view}" for view in VIEWS]
        command += ["--checkpoint", str(self.checkpoint), "--every", "0", "--no-progress"]
        environment = {**ENVIRONMENT, **self.server.variables}
        with self._log.open("wb") as log:
            process = subprocess.Popen(
                [*command, "--page", "0", "--master", "local[2]"], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, env=environment, start_new_session=True,
            )  # fmt: skip
        try:
            yield process
        finally:
            strike(process.pid, "all")
            process.wait()

    def wait(self, process: subprocess.Popen[bytes], reached: Callable[[], bool]) -> bool:
        """Wait until a condition holds. Return False if the run ended as it lost the server.

        Args:
            process: of the run.
            reached: the condition.
        """
        deadline = time.monotonic() + PATIENCE
        while True:
            if process.poll() is not None:
                codes = re.findall(r"^error\[(\w+)\]", self._log.read_text(), re.MULTILINE)
                assert codes, self._log.read_text()
                assert set(codes) <= NOT_REACHABLE, self._log.read_text()
                LOG.info("the run ended:\n%s", self._log.read_text())
                return False
            if reached():
                return True
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.05)

    def newest(self) -> int:
        """The newest version; -1 if there is none."""
        try:
            return sa.open_view(self.checkpoint, "sums").version
        except StateRefused:
            return -1

    def has_all(self) -> bool:
        """Whether a version has all transactions, and the tables have that version."""
        (number,) = self.server.query("SELECT count(*) FROM pgbench_history")[0]
        rows = sa.open_view(self.checkpoint, "sums").to_arrow().to_pylist()
        if {row["number"] for row in rows if row["name"] == "history"} != {number}:
            return False
        found = self.server.query("SELECT version FROM public.substrait_agg_versions")
        return found == [(self.newest(),)] * len(VIEWS)

    def check(self) -> None:
        """Compare views, tables and the answer of PostgreSQL; check what holds in every version."""
        create_answers(self.server, self.sql.read_text())
        for name in VIEWS:
            view = sa.open_view(self.checkpoint, name)
            columns = ", ".join(view.names)
            shown = bag(view.to_arrow())
            for schema in ("public", "answer"):
                found = self.server.query(f"SELECT {columns} FROM {schema}.{name}")
                assert Counter(found) == shown, (schema, name)
            versions = view.versions()
            assert versions == list(range(self.newest() + 1))
            for version, rows in running_sums(view.changes(), versions).items():
                if version:
                    INVARIANTS[name](rows)


def check_sums(rows: Bag) -> None:
    """Accounts, tellers, branches and history have the same sum."""
    totals = {name: total for name, total, _ in rows}
    assert len({totals.get("history", 0), *totals.values()}) == 1, totals
    assert {"accounts", "tellers", "branches"} <= set(totals)


def check_branches(rows: Bag) -> None:
    """A transaction takes an account, a teller and a branch at random, so the sums of all branches are equal."""
    sums = [sum(row[column] for row in rows) for column in (1, 2, 3)]
    assert len(rows) == SCALE
    assert len(set(sums)) == 1, rows


def check_top(rows: Bag) -> None:
    assert max(rows.values(), default=1) == 1
    assert len(rows) <= 10


INVARIANTS: dict[str, Callable[[Bag], None]] = {
    "top_tellers": check_top,
    "sums": check_sums,
    "branches": check_branches,
}


def kill_and_resume(
    folder: Path, major: int, victims: Sequence[Victim], rate: int, pick: Pick
) -> None:
    """Kill victims at moments that `pick` waits for, let the run catch up, and check everything.

    A run that lost the server connects again, or ends with a code and is started again, once for each kill at most.
    """
    left = deque(enumerate(victims))
    ends = 0

    def follow(process: subprocess.Popen[bytes]) -> bool:
        """Kill until the run is gone, or none is left; whether a run has everything."""
        nonlocal ends
        while left:
            if not pick(run, process, left[0][0]):
                ends += 1
                return False
            kill, victim = left.popleft()
            LOG.info("kill %d: %s after version %d", kill, victim, run.newest())
            strike_victim(process, server, victim, rate)
            if victim != "server":
                return False
        newest = run.newest()
        if not run.wait(process, lambda: run.newest() > newest):
            ends += 1
            return False
        server.rest()
        return run.wait(process, run.has_all)

    with serve(LiveServer(major), SCALE) as server:
        run = LiveRun(folder, server)
        server.write(rate)
        caught_up = False
        while not caught_up:
            with run.running() as process:
                caught_up = follow(process)
        LOG.info("%s, %d versions, %d ends with a code", Counter(victims), run.newest(), ends)
        assert ends <= victims.count("server")
        run.check()


def strike_victim(
    process: subprocess.Popen[bytes], server: LiveServer, victim: Victim, rate: int
) -> None:
    """Kill, in any order if it is both; the server is back after a moment."""
    strikes: list[Callable[[], object]] = []
    if victim != "server":
        strikes.append(lambda: strike(process.pid, "all"))
    if victim != "driver":
        strikes.append(lambda: server.crash(immediate=random.random() < 0.5))
    random.shuffle(strikes)
    for act in strikes:
        act()
    if victim != "driver":
        time.sleep(random.choice([0, random.uniform(0, 1), random.uniform(0, 5)]))
        server.recover()
        server.write(rate)
