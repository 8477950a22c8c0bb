"""Tables of PostgreSQL and Delta into an aggregate, through whole runs.

``python -m benchmarks.connected`` starts a server from a wheel, as ``make demo-live`` does, and prints: rows per second of an
initial load and of one large transaction, the time from a commit to the version that has it at 1,000 transactions per second,
and rows per second of appends to a Delta table with a change data feed. All times are by the clock.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

import substrait_agg as sa
from substrait_agg.metrics import Progress
from substrait_agg_cli.demo_postgres import Server, serve

GROUPS = 1_000
POLL_SECONDS = 0.002
SECONDS = 12
CLIENTS = 4
TOTALS = "SELECT k, sum(x) AS s, count(*) AS n, max(x) AS m FROM t GROUP BY k"


class Watched:
    """A run over one table, of which every version is noted.

    Attributes:
        begun: when the run was started.
        versions: when each version came, and the rows read until then.
    """

    def __init__(self, source: str, folder: Path, query: str = TOTALS) -> None:
        self.versions: list[tuple[float, int]] = []
        sources = {"t": source}
        plan = sa.sql(query, sources)
        self.begun = time.perf_counter()
        self._run = sa.run(
            plan, sources, checkpoint=folder, until="0", outputs=["none"], progress=self._note
        )

    def _note(self, progress: Progress) -> None:
        self.versions.append((time.perf_counter(), progress.input_rows))

    def wait_for(self, rows: int) -> float:
        """Return when the version came that has this many rows."""
        while not self.versions or self.versions[-1][1] < rows:
            time.sleep(POLL_SECONDS)
        return next(at for at, read in self.versions if read >= rows)

    def stop(self) -> None:
        """End the run."""
        self._run.stop()


def load(server: Server, folder: Path, rows: int) -> None:
    """Print the rates of an initial load and of one transaction."""
    values = "SELECT i % {}, i, 'text ' || i % 7 FROM generate_series(1, {}) i"
    with server.connection() as cursor:
        cursor.execute("CREATE TABLE t (k int, x bigint, p text)")
        cursor.execute("ALTER TABLE t REPLICA IDENTITY FULL")
        cursor.execute("ALTER PUBLICATION substrait_agg ADD TABLE t")
        cursor.execute("INSERT INTO t " + values.format(GROUPS, rows))
        run = Watched("postgres:public.t", folder / "load")
        seconds = run.wait_for(rows) - run.versions[0][0]
        print(f"initial load of {rows:,} rows: {rows / seconds:,.0f} rows/s")
        cursor.execute("INSERT INTO t " + values.format(GROUPS, rows // 2))
        committed = time.perf_counter()
        seconds = run.wait_for(rows + rows // 2) - committed
        print(f"{rows // 2:,} inserts in one transaction: {rows / 2 / seconds:,.0f} changes/s")
        run.stop()


def follow(server: Server, folder: Path, rate: int) -> None:
    """Print the time from a commit to the version that has it."""
    with server.connection() as cursor:
        cursor.execute("CREATE TABLE log (k int, x bigserial)")
        cursor.execute("ALTER TABLE log REPLICA IDENTITY FULL")
        cursor.execute("ALTER PUBLICATION substrait_agg ADD TABLE log")
    run = Watched("postgres:public.log", folder / "follow")
    run.wait_for(0)
    commits: list[float] = []
    end = time.perf_counter() + SECONDS
    clients = [
        threading.Thread(target=_write, args=(server, end, CLIENTS / rate, commits))
        for _ in range(CLIENTS)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    run.wait_for(len(commits))
    run.stop()
    commits.sort()
    waits: list[float] = []
    for at, read in run.versions:
        waits += [at - commit for commit in commits[len(waits) : read]]
    median, late = statistics.median(waits), sorted(waits)[int(0.95 * len(waits))]
    print(
        f"{len(commits) / SECONDS:,.0f} transactions/s: from commit to version "
        f"{median * 1000:.0f} ms (median), {late * 1000:.0f} ms (95 %)"
    )


def _write(server: Server, end: float, pause: float, commits: list[float]) -> None:
    with server.connection() as cursor:
        cursor.execute("SET synchronous_commit = off")
        due = time.perf_counter()
        while due < end:
            cursor.execute("INSERT INTO log (k) VALUES (1)")
            commits.append(time.perf_counter())
            due += pause
            time.sleep(max(0.0, due - time.perf_counter()))


def append(folder: Path, rows: int) -> None:
    """Print the rates of appends to a Delta table."""
    random, table = np.random.default_rng(1), str(folder / "table")

    def made(count: int) -> pa.Table:
        return pa.table({n: random.integers(0, GROUPS, count) for n in ("k", "x")})

    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(table, made(GROUPS), configuration=feed)
    run = Watched(f"delta:{table}", folder / "delta")
    run.wait_for(GROUPS)
    for number in range(1, 4):
        write_deltalake(table, made(rows), mode="append")
        committed = time.perf_counter()
        seconds = run.wait_for(GROUPS + number * rows) - committed
        print(f"append of {rows:,} rows to a Delta table: {rows / seconds:,.0f} rows/s")
    run.stop()


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a line for each number."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=1_000)
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name, serve(Server(), 1) as server:
        os.environ.update(server.variables)
        load(server, Path(name), chosen.rows)
        follow(server, Path(name), chosen.rate)
        append(Path(name), chosen.rows)


if __name__ == "__main__":
    main(sys.argv[1:])
