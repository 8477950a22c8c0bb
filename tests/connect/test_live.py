"""Runs of the command over a real PostgreSQL while pgbench writes, killed again and again; and the live demo itself."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import substrait_agg as sa
from substrait_agg.errors import StateRefused
from substrait_agg_cli.demo_board import VersionSums
from substrait_agg_cli.demo_live import SQL, compare_rows, create_answers
from substrait_agg_cli.demo_postgres import TABLES, Server, serving
from tests.e2e.rows import Bag, bag, running_sums
from tests.kills.process_killer import strike

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}"}
PATIENCE = 600
SCALE = 2
VIEWS = ("top_tellers", "sums", "branches")
BRANCHES = """
CREATE VIEW branches AS
SELECT b.bid, b.bbalance, max(a.amount) AS accounts, max(t.amount) AS tellers
FROM pgbench_branches AS b
JOIN (SELECT bid, sum(abalance) AS amount FROM pgbench_accounts GROUP BY bid) AS a ON a.bid = b.bid
JOIN (SELECT bid, sum(tbalance) AS amount FROM pgbench_tellers GROUP BY bid) AS t ON t.bid = b.bid
GROUP BY b.bid, b.bbalance;
"""


class LiveRun:
    """The command over the tables of pgbench, started again and again.

    Args:
        folder: for its checkpoint and log.
        server: with the tables.
    """

    def __init__(self, folder: Path, server: Server) -> None:
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

    def wait(self, process: subprocess.Popen[bytes], reached: Callable[[], bool]) -> None:
        """Wait until a condition holds, while the process runs."""
        deadline = time.monotonic() + PATIENCE
        while not reached():
            assert process.poll() is None, self._log.read_text()
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
    folder: Path, kills: int, rate: int, pick: Callable[[LiveRun, Any, int], None]
) -> None:
    """Kill a run at moments that `pick` waits for, let it catch up, and check everything."""
    with serving(SCALE) as server:
        run = LiveRun(folder, server)
        with ExitStack() as pgbench:
            pgbench.enter_context(server.transactions(4, rate))
            for kill in range(kills):
                with run.running() as process:
                    pick(run, process, kill)
            newest = run.newest()
            with run.running() as process:
                run.wait(process, lambda: run.newest() > newest)
                pgbench.close()
                run.wait(process, run.has_all)
        run.check()


def test_three_kills_under_pgbench(tmp_path: Path) -> None:
    """Views and tables equal PostgreSQL's answer, and every version is that of a moment of PostgreSQL."""

    def pick(run: LiveRun, process: subprocess.Popen[bytes], _: int) -> None:
        newest = max(run.newest(), 0)
        run.wait(process, lambda: run.newest() > newest)
        time.sleep(random.uniform(0, 1))

    kill_and_resume(tmp_path, 3, 100, pick)


@pytest.mark.soak
def test_many_kills_under_pgbench(tmp_path: Path) -> None:
    """At any moment, also of the start and of the first version; a higher rate."""

    def pick(run: LiveRun, process: subprocess.Popen[bytes], kill: int) -> None:
        if kill % 3 == 0:
            time.sleep(random.uniform(0, 30))
            return
        newest = run.newest()
        run.wait(process, lambda: run.newest() > newest)
        time.sleep(random.choice([0, random.uniform(0, 0.2), random.uniform(0, 5)]))

    kill_and_resume(tmp_path, int(os.environ.get("LIVE_KILLS", "20")), 400, pick)


@pytest.mark.soak
def test_the_live_demo_passes_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """It ends with PASS, and its server and its folders are gone."""
    # PostgreSQL of root runs as another user, who must reach its folder.
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    try:
        result = subprocess.run(
            [sys.executable, "-m", "substrait_agg_cli.demo_live", "--seconds", "3", "--scale", "1"],
            cwd=tmp_path, env={**ENVIRONMENT, "TMPDIR": str(folder)}, capture_output=True,
            text=True, timeout=300, check=False,
        )  # fmt: skip
        assert (result.returncode, result.stderr) == (0, ""), result.stdout
        for line in ("top_tellers: 10 rows", "sums: 4 rows"):
            assert f"{line} equal in view, table and PostgreSQL: PASS" in result.stdout
        assert "FAIL" not in result.stdout
        assert result.stdout.splitlines()[-1].startswith("PASS in ")
        assert not list(folder.iterdir())
    finally:
        folder.rmdir()


@pytest.mark.parametrize("who", range(3))
@pytest.mark.parametrize(
    "other", [[(1, "a")], [(1, "a"), (2, "c")], [(1, "a"), (2, "b"), (3, "c")]]
)
def test_the_demo_finds_rows_that_differ(
    capsys: pytest.CaptureFixture[str], who: int, other: list[tuple[int, str]]
) -> None:
    """In the view, in the table, or in PostgreSQL: a missing row, another value, a row too many."""
    rows = [[(1, "a"), (2, "b")] for _ in range(3)]
    assert compare_rows("v", *rows)
    rows[who] = other
    assert not compare_rows("v", *rows)
    printed = capsys.readouterr().out
    assert "FAIL" in printed
    assert f"v, row {2 if len(other) == 3 else 1}: view " in printed
    assert not compare_rows("v", [], [], [])


def changes(*rows: tuple[int, int, str, int, int]) -> Any:
    """Changes of the view ``sums``: version, weight, name, total, number."""
    import pyarrow as pa

    names = ("__version", "__weight", "name", "total", "number")
    table = pa.table({name: [row[i] for row in rows] for i, name in enumerate(names)})
    times = {str(version): "2026-01-01T00:00:00+00:00" for version, *_ in rows}
    return table.replace_schema_metadata({"substrait_agg.committed": str(times).replace("'", '"')})


def test_the_demo_finds_a_version_whose_sums_differ(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also if the next version repairs it."""
    first = [(0, 1, name, 0, 5) for name in ("accounts", "tellers", "branches")]
    torn = [
        (1, -1, "accounts", 0, 5), (1, 1, "accounts", 7, 5), (1, -1, "tellers", 0, 5),
        (1, 1, "tellers", 7, 5), (1, 1, "history", 7, 1),
    ]  # fmt: skip
    repaired = [(2, -1, "branches", 0, 5), (2, 1, "branches", 7, 5)]

    class View:
        version = 2

        def changes(self, since: int | None) -> Any:
            assert since is None
            return changes(*first, *torn, *repaired)

    monkeypatch.setattr("substrait_agg_cli.demo_board.open_view", lambda *_: View())
    sums = VersionSums(tmp_path)
    sums.read()
    assert sums.different == ["version 1: accounts 7, tellers 7, branches 0, history 7"]
    assert (sums.equal, len(sums.committed)) == (2, 3)
