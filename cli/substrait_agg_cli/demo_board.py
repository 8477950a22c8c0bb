"""What the live demo measures and shows while it runs."""

from __future__ import annotations

import shutil
import sys
import time
from bisect import bisect_left
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from statistics import quantiles
from threading import Event, Thread

import pyarrow as pa

from substrait_agg import open_view
from substrait_agg.changes import table_lines
from substrait_agg.commit.documents.change_metadata import origin_of
from substrait_agg.errors import StateRefused
from substrait_agg_cli.demo_postgres import Server

SUMS = ("accounts", "tellers", "branches", "history")
SAMPLE_SECONDS = 0.02
PRINT_SECONDS = 10
"""How often the board is printed where it cannot be redrawn."""


class CommitSampler(Thread):
    """Note when PostgreSQL shows how many transactions, in a thread of its own.

    Args:
        server: the server.
    """

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._end = Event()
        self.samples: list[tuple[float, int]] = []
        """Time and number of transactions, whenever there are more than before."""

    def run(self) -> None:
        """Count until `stop`."""
        with self._server.connection() as cursor:
            while not self._end.wait(SAMPLE_SECONDS):
                cursor.execute("SELECT count(*) FROM pgbench_history")
                (number,) = cursor.fetchone()
                if not self.samples or number > self.samples[-1][1]:
                    self.samples.append((time.time(), number))

    def stop(self) -> None:
        """Count no more."""
        self._end.set()
        self.join()


class VersionSums:
    """The four sums of TPC-B in every version, from the changes of the view ``sums``.

    Args:
        checkpoint: of the run.
    """

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._rows: dict[str, tuple[int, int]] = {}
        self.version = -1
        self.equal = 0
        self.different: list[str] = []
        """Versions whose sums differ, and their sums."""
        self.numbers: list[int] = []
        self.committed: list[float] = []
        """Number of transactions and time of the commit, by version."""

    def read(self) -> None:
        """Read the versions that are new."""
        try:
            view = open_view(self._checkpoint, "sums")
            if view.version == self.version:
                return
            changes = view.changes(since=None if self.version < 0 else self.version)
        except StateRefused:
            return  # there is no checkpoint yet
        columns = changes.to_pydict()
        rows = sorted(
            zip(columns["__version"], columns["__weight"], columns["name"],
                columns["total"], columns["number"], strict=True)
        )  # fmt: skip
        place = 0
        for version, committed in sorted(origin_of(changes).committed.items()):
            if version <= self.version:
                continue
            while place < len(rows) and rows[place][0] == version:
                self._apply(*rows[place][1:])
                place += 1
            self._note(version, committed)

    def _apply(self, weight: int, name: str, total: int, number: int) -> None:
        """Apply a change. Those of a version come with its retractions first."""
        if weight > 0:
            self._rows[name] = total, number
        elif self._rows.pop(name, None) != (total, number):
            self.different.append(f"a row of {name} was retracted that the view did not have")

    def _note(self, version: int, committed: str) -> None:
        totals = [self._rows.get(name, (0, 0))[0] for name in SUMS]
        if len(set(totals)) == 1:
            self.equal += 1
        else:
            sums = ", ".join(f"{name} {total}" for name, total in zip(SUMS, totals, strict=True))
            self.different.append(f"version {version}: {sums}")
        self.version = version
        self.numbers.append(self._rows.get("history", (0, 0))[1])
        self.committed.append(datetime.fromisoformat(committed).timestamp())


class Board:
    """The state of the demo in a few lines, redrawn in place in a terminal.

    Args:
        server: the server.
        checkpoint: of the run.
        sampler: counts the transactions.
    """

    def __init__(self, server: Server, checkpoint: Path, sampler: CommitSampler) -> None:
        self._server = server
        self._sampler = sampler
        self.sums = VersionSums(checkpoint)
        self.killed: float | None = None
        """When the run was killed."""
        self._drawn = 0
        self._printed = 0.0

    def draw(self, *, always: bool = False) -> None:
        """Read everything and draw the board; outside of a terminal only every few seconds."""
        self.sums.read()
        terminal = sys.stdout.isatty()
        if not terminal and not always and time.monotonic() < self._printed + PRINT_SECONDS:
            return
        self._printed = time.monotonic()
        lines = ["", *self._lines()]
        if terminal:
            width = shutil.get_terminal_size().columns
            lines = [line[: width - 1] for line in lines]
            up = f"\x1b[{self._drawn}A\x1b[J" if self._drawn else ""
            sys.stdout.write(up)
            self._drawn = len(lines)
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()

    def leave(self) -> None:
        """Draw it once more, and the next time below what is printed now."""
        self.draw(always=True)
        self._drawn = 0

    def _lines(self) -> Iterator[str]:
        sums = self.sums
        committed = self._sampler.samples[-1][1] if self._sampler.samples else 0
        shown = sums.numbers[-1] if sums.numbers else 0
        yield f"  version {sums.version}: {shown:,} of {committed:,} transactions of PostgreSQL"
        yield f"  {self.sums_line()}"
        yield f"  {self.delay_line()}; WAL that the slot keeps: {self._describe_loss()}"
        yield ""
        yield from (f"  {line}" for line in self._table())

    def sums_line(self) -> str:
        """Say in how many versions the sums are equal."""
        versions = len(self.sums.committed)
        total = self._server.query("SELECT coalesce(sum(delta), 0) FROM pgbench_history")[0][0]
        return (
            f"sums of {', '.join(SUMS)} equal in {self.sums.equal:,} of {versions:,} versions"
            f" (now {total:,} in PostgreSQL)"
        )

    def delay_line(self) -> str:
        """Say how long it took from commits in PostgreSQL to the versions that have them."""
        delays = self._delays()
        if len(delays) < 2:
            return "commit to version: not measured yet"
        cuts = quantiles(delays, n=20)
        return (
            f"commit to version: median {cuts[9] * 1e3:.0f} ms, 95% within {cuts[18] * 1e3:.0f} ms"
        )

    def _delays(self) -> list[float]:
        """Return the delays of all samples that a version has, without the time after the kill."""
        sums = self.sums
        delays = []
        again = self.resume_instant()
        for seen, number in self._sampler.samples:
            place = bisect_left(sums.numbers, number)
            if place == len(sums.numbers):
                break
            committed = sums.committed[place]
            away = self.killed is not None and committed >= self.killed
            if not away or (again is not None and seen > again):
                delays.append(max(committed - seen, 0.0))
        return delays

    def resume_instant(self) -> float | None:
        """Return when the first version after the kill was committed."""
        if self.killed is None:
            return None
        place = bisect_left(self.sums.committed, self.killed)
        return self.sums.committed[place] if place < len(self.sums.committed) else None

    def _describe_loss(self) -> str:
        text = "SELECT max(pg_current_wal_lsn() - restart_lsn) FROM pg_replication_slots"
        held_bytes = self._server.query(text)[0][0]
        return "-" if held_bytes is None else f"{float(held_bytes) / (1 << 20):.1f} MiB"

    def _table(self) -> Iterator[str]:
        """Yield the lines of the top ten, as the output has written it to PostgreSQL."""
        with self._server.connection() as cursor:
            cursor.execute("SELECT to_regclass('public.top_tellers') IS NOT NULL")
            if not cursor.fetchone()[0]:
                return
            cursor.execute("SELECT * FROM public.top_tellers ORDER BY total DESC, teller")
            names = [column.name for column in cursor.description]
            rows = cursor.fetchall()
        shown = pa.table({name: [row[i] for row in rows] for i, name in enumerate(names)})
        for lines in table_lines(shown):
            yield from lines.splitlines()
