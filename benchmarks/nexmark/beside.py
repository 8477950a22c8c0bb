"""Flink and Pathway beside ours: the same batches as CSV files, in processes of their own environments.

A batch of Flink ends with a checkpoint, as one of ours ends with a commit. Its tables have watermarks four seconds
behind the newest event, as those of Nexmark. Answers are those of a job that reads all batches at once, in which no
event is late.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.check import answered_rows
from benchmarks.conduct import ALONE
from benchmarks.data.data_sets import FOLDER
from benchmarks.data.nexmark import SIDE_INPUT
from benchmarks.memory import Peak
from benchmarks.nexmark.queries import for_duckdb, for_flink, tables_of
from benchmarks.peers import flink_sql
from benchmarks.peers.conversion import LAYOUTS, ChangeFiles, converted, names_for
from benchmarks.peers.flink_engine import MONITOR
from benchmarks.peers.peer_input import InputTable, PeerInput
from benchmarks.process import EngineFailed, Process

PEERS: Mapping[str, str] = {"flink": "flink-rocksdb", "pathway": "pathway"}
"""Name of a peer -> its engine."""
DELAY, NEVER_LATE = "'4' SECOND", "'9' DAY"
"""How far the watermark is behind the newest event: measured, and for answers."""
MEMORY = "3g"
LOGS = FOLDER / "logs"
"""Folder of what processes print."""


@dataclass
class Peer:
    """A peer, with the processes that run it.

    Args:
        name: a key of `PEERS`.
        python: that has its packages.
        folder: of the events as Parquet files, a folder per table.
        cores: threads of the engine.
    """

    name: str
    python: str
    folder: Path
    cores: int
    _processes: dict[str, Process] = field(default_factory=dict)

    def batches(self, name: str) -> tuple[list[float], list[float]]:
        """Return the seconds of each batch of a query, and those of processor time.

        Raises:
            EngineFailed: the peer cannot run the query.
        """
        given = self.input_of(name)
        seconds, cpu = list[float](), list[float]()
        with self._scratch() as scratch:
            process, names = self._process(name), _batches(given)
            clock = Peak(process.pid)
            try:
                for number, batch in enumerate(names):
                    used = clock.cpu()
                    last = number == len(names) - 1
                    job = {**self._job(name, given, Path(scratch)), "files": [batch], "last": last}
                    seconds += [taken["seconds"] for taken in process.run(job)]
                    cpu.append(clock.cpu() - used)
            except EngineFailed:
                self.end()  # its job may still run
                raise
            finally:
                self._end(name)
        return seconds, cpu

    def differing(self, name: str) -> tuple[int, list[Any]]:
        """Return the number of rows of an answer, and some that it has without DuckDB or DuckDB without it.

        Raises:
            EngineFailed: the peer cannot run the query.
        """
        given = self.input_of(name)
        with self._scratch() as scratch:
            answer = Path(scratch) / "answer"
            job = self._job(name, given, Path(scratch), delay=NEVER_LATE)
            process = self._process(name)
            try:
                process.run(
                    {**job, "files": _batches(given), "bounded": True, "answer": str(answer)}
                )
                return _compare(name, self.folder, answer, LAYOUTS[PEERS[self.name]])
            finally:
                self._end(name)

    def end(self) -> None:
        """End all processes."""
        while self._processes:
            self._processes.popitem()[1].end()

    def _scratch(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(prefix="beside-", dir=self.folder)

    def input_of(self, name: str) -> PeerInput:
        """Return the tables of a query as CSV files, written if they do not exist yet."""
        files = {
            table: {path.name: path for path in sorted((self.folder / table).glob("*.parquet"))}
            for table in tables_of(name)
        }
        first = min(batch for table in files if table != SIDE_INPUT for batch in files[table])
        if SIDE_INPUT in files:
            files[SIDE_INPUT] = dict(zip([first], files[SIDE_INPUT].values(), strict=True))
        layout = LAYOUTS[PEERS[self.name]]
        target = self.folder / f"{layout}-{'-'.join(files)}"
        return converted(layout, {t: ChangeFiles(f) for t, f in files.items()}, target)

    def _process(self, query: str) -> Process:
        engine = PEERS[self.name]
        key = query if engine in ALONE else ""
        if key not in self._processes:
            log = LOGS / f"nexmark-{self.name}{key}.log"
            LOGS.mkdir(parents=True, exist_ok=True)
            self._processes[key] = Process(engine, log, self.python, MEMORY)
        return self._processes[key]

    def _end(self, query: str) -> None:
        if query in self._processes:
            self._processes.pop(query).end()

    def _job(
        self, name: str, given: PeerInput, scratch: Path, *, delay: str = DELAY
    ) -> dict[str, Any]:
        tables = list(tables_of(name))
        return {
            "lane": f"{name}-{scratch.name}", "table": "", "sql": "", "plan": "", "folder": "", "batch_files": 1,
            "changes": False, "columns": {}, "checkpoint": str(scratch / "checkpoint"), "samples": 0,
            "partitions": self.cores, "query": f"nexmark_{name}", "tables": tables,
            "converted": str(given.folder), "script": flink_script(name, given, delay),
        }  # fmt: skip


def _batches(given: PeerInput) -> list[str]:
    return sorted({batch for table in given.tables.values() for batch in table.batches})


def flink_script(name: str, given: PeerInput, delay: str = DELAY) -> list[str]:
    """Return the statements that create the tables of a query in Flink, and its view.

    Args:
        name: the query.
        given: its tables.
        delay: of the watermark. With `NEVER_LATE` the tables are bounded.
    """
    monitor = "" if delay == NEVER_LATE else MONITOR
    tables = [_table(table, columns, monitor, delay) for table, columns in given.tables.items()]
    return [*tables, f"CREATE VIEW answer AS {for_flink(name)}"]


def _table(name: str, table: InputTable, monitor: str, delay: str) -> str:
    """Return the statement that creates a table of Flink, with a watermark if its rows have a time."""
    columns = [f"`{column}` {flink_sql.flink_type(kind)}" for column, kind in table.columns.items()]
    if "dateTime" in table.columns:
        columns += [
            "rowtime AS CAST(`dateTime` AS TIMESTAMP(3))",
            f"WATERMARK FOR rowtime AS rowtime - INTERVAL {delay}",
        ]
    options = {"connector": "filesystem", "path": f"file://{{folder}}/{name}", "format": "csv"}
    if monitor:
        options["source.monitor-interval"] = monitor
    given = ", ".join(f"'{option}' = '{value}'" for option, value in options.items())
    return f"CREATE TABLE {name} ({', '.join(columns)}) WITH ({given})"


def _compare(name: str, folder: Path, answer: Path, layout: str) -> tuple[int, list[Any]]:
    with duckdb.connect() as connection:
        for table in tables_of(name):
            connection.execute(
                f"CREATE VIEW {table} AS FROM read_parquet('{folder / table}/*.parquet')"
            )
        connection.execute(f"CREATE TABLE expected AS {for_duckdb(name)}")
        described = connection.execute("DESCRIBE expected").fetchall()
        names = names_for(layout, [column for column, *_ in described])
        types = {column: kind for column, (_, kind, *_) in zip(names, described, strict=True)}
        connection.execute(f"CREATE TABLE shown AS {answered_rows(answer, types)}")
        ((rows,),) = connection.execute("SELECT count(*) FROM shown").fetchall()
        differing: list[Any] = []
        for left, right in (("expected", "shown"), ("shown", "expected")):
            differing += connection.execute(
                f"SELECT '{left}', * FROM (FROM {left} EXCEPT ALL FROM {right}) LIMIT 2"
            ).fetchall()
    return int(rows), differing
