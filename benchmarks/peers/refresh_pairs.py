"""Refresh pairs of TPC-H on peers: the seconds of a pair, and answers compared with DuckDB."""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.check import WrongView, answered_rows
from benchmarks.conduct import ALONE, EngineSettings
from benchmarks.data import refreshes, tpch
from benchmarks.peers.conversion import LAYOUTS, ChangeFiles, converted
from benchmarks.peers.peer_input import PeerInput
from benchmarks.process import EngineFailed, Process

CHECKED_PAIRS = 1
"""Pairs that a peer runs again with an answer."""


@dataclass(frozen=True)
class PeerTimes:
    """What peers took.

    Attributes:
        seconds: peer -> median seconds of a refresh pair.
        failed: peer -> why it has none.
    """

    seconds: Mapping[str, float] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)


def measure(
    query: int,
    data: refreshes.Refreshes,
    peers: Sequence[str],
    setting: EngineSettings,
    *,
    skipped: int,
) -> PeerTimes:
    """Run a query on peers, one after another.

    Args:
        query: number of the query.
        data: the tables.
        peers: names of engines.
        setting: how they are run.
        skipped: batches at the start that are not counted.

    Raises:
        WrongView: an answer is not what DuckDB computes.
    """
    seconds, failed = dict[str, float](), dict[str, str]()
    for peer in peers:
        try:
            seconds[peer] = _run(query, data, peer, setting, skipped)
        except EngineFailed as error:
            failed[peer] = str(error)
            print(f"  Q{query} {peer}: {error}", file=sys.stderr, flush=True)
    return PeerTimes(seconds, failed)


def peer_input(data: refreshes.Refreshes, layout: str) -> PeerInput:
    """Return all tables as the input of a peer."""
    tables = {
        name: ChangeFiles({p.name: p for p in sorted(data.changes(name).iterdir())}, keys)
        for name, keys in tpch.KEYS.items()
    }
    return converted(layout, tables, data.folder / layout)


def _run(
    query: int, data: refreshes.Refreshes, peer: str, setting: EngineSettings, skipped: int
) -> float:
    given = peer_input(data, LAYOUTS[peer])
    batches = sorted(given.tables["lineitem"].batches)
    log = setting.root / "logs" / f"Q{query}-{peer}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=setting.root) as scratch:
        folder = Path(scratch)
        python = setting.pythons.get(peer, sys.executable)
        started = Process(peer, log, python, setting.memory)
        again = (
            Process(peer, log.with_suffix(".check.log"), python, setting.memory)
            if peer in ALONE
            else started
        )
        try:
            taken = started.run(_job(query, given, batches, folder / "run"))
            checked = batches[: 1 + CHECKED_PAIRS]
            answer = folder / "check" / "answer"
            again.run({**_job(query, given, checked, folder / "check"), "answer": str(answer)})
        finally:
            started.end()
            if again is not started:
                again.end()
        _compare(query, data, len(checked), answer)
        shutil.rmtree(folder / "run", ignore_errors=True)
    seconds = [batch["seconds"] for batch in taken]
    print(
        f"  Q{query} {peer}: {' '.join(f'{s:.2f}' for s in seconds)}", file=sys.stderr, flush=True
    )
    return float(statistics.median(seconds[skipped:]))


def _job(query: int, given: PeerInput, batches: Sequence[str], folder: Path) -> dict[str, Any]:
    folder.mkdir(parents=True)
    return {
        "lane": folder.name,
        "table": "",
        "sql": tpch.sql(query),
        "plan": "",
        "folder": "",
        "files": list(batches),
        "batch_files": 1,
        "changes": True,
        "columns": {},
        "checkpoint": str(folder / "checkpoint"),
        "samples": 0,
        "query": f"tpch_q{query:02}",
        "tables": tpch.tables_of(query),
        "converted": str(given.folder),
    }


def _compare(query: int, data: refreshes.Refreshes, batches: int, answer: Path) -> None:
    """Compare an answer after some batches with DuckDB.

    Raises:
        WrongView: they differ.
    """
    with duckdb.connect() as connection:
        for name in tpch.tables_of(query):
            files = [str(p) for p in sorted(data.changes(name).iterdir())[:batches]]
            keys = ", ".join(tpch.KEYS[name])
            connection.execute(
                f"CREATE VIEW {name} AS SELECT * EXCLUDE (op) FROM read_parquet({files})"
                f" WHERE op = 'insert' AND ({keys}) NOT IN"
                f" (SELECT ({keys}) FROM read_parquet({files}) WHERE op = 'delete')"
            )
        text = tpch.sql(query).rstrip().rstrip(";")
        expected = connection.execute(text).fetchall()
        described = connection.execute(f"DESCRIBE {text}").fetchall()
        types = {name: kind for name, kind, *_ in described}
        found = connection.execute(answered_rows(answer, types)).fetchall()
    if not tpch.same_rows(found, expected):
        raise WrongView(f"query {query}: {answer} is not what DuckDB computes")
