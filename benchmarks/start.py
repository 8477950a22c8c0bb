"""How long a start takes: the first batch of a new process against its later ones, ours and Spark's own in turns.

``python -m benchmarks.start --rounds 3 --rows 1000,300000 --json FILE`` starts every contender in a new process per round, each
with a JVM of its own, and gives it the same few files. ``--tree before=FOLDER`` adds ours as another checkout has it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.data.data_sets import FOLDER, DataSet, make
from benchmarks.data.rows import with_key
from benchmarks.process import ROOT, Process
from benchmarks.queries import QUERIES, plan_of
from benchmarks.results import machine

QUERY = "count_sum_avg"
OURS, NATIVE = "ours", ("default", "rocksdb")
LATER = 3
"""Batches from which on they count as later ones: those before still compile."""


@dataclass(frozen=True)
class MeasuredStart:
    """One start of one contender.

    Attributes:
        contender: ``ours``, an engine of Spark's own, or the name of a tree.
        rows: of each batch.
        round: its number.
        first: seconds of the first batch, from its trigger to its commit.
        ready: seconds from the start of the query to the end of the first batch.
        later: median seconds of the later batches.
        processor: seconds of processor time of all processes, from their start to the end of the last batch.
    """

    contender: str
    rows: int
    round: int
    first: float
    ready: float
    later: float
    processor: float = 0.0


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.start", description=__doc__.partition("\n")[0]
    )
    made.add_argument("--rows", default="1000,300000", help="of each batch; several by commas")
    made.add_argument("--batches", type=int, default=6, help="of each start")
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument(
        "--contenders", default=f"{OURS},default", help=f"{OURS}, {', '.join(NATIVE)}"
    )
    made.add_argument("--tree", action="append", default=[], metavar="NAME=FOLDER")
    made.add_argument("--memory", default="2g", help="of each JVM")
    made.add_argument("--json", type=Path, help="file that figures are kept in")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and show."""
    options = parser().parse_args(arguments)
    trees = {name: Path(folder) for name, folder in (t.split("=", 1) for t in options.tree)}
    contenders = [*options.contenders.split(","), *trees]
    done: list[MeasuredStart] = []
    for rows in map(int, options.rows.split(",")):
        parameters = {"keys": 2 * rows, "held": 0, "batches": [("rows", rows)] * options.batches}
        data = make("keyed", with_key, parameters)
        for number in range(options.rounds):
            turn = number % len(contenders)
            for contender in (*contenders[turn:], *contenders[:turn]):
                root = trees.get(contender, ROOT)
                done.append(_started(contender, root, data, rows, number, options.memory))
                print(f"  {done[-1]}", file=sys.stderr, flush=True)
    if options.json:
        kept = {"machine": machine(), "starts": [asdict(start) for start in done]}
        options.json.write_text(json.dumps(kept, indent=1))
    print(table(done))
    return 0


def _started(
    contender: str, root: Path, data: DataSet, rows: int, number: int, memory: str
) -> MeasuredStart:
    engine = contender if contender in NATIVE else OURS
    log = FOLDER / "logs" / f"start-{contender}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    process = Process(engine, log, sys.executable, memory, root)
    try:
        with tempfile.TemporaryDirectory(prefix="scratch-", dir=FOLDER) as scratch:
            taken = process.run(_job(engine, data, Path(scratch)))
            spent = processor_seconds(process.pid)
    finally:
        process.end()
    later = statistics.median(batch["seconds"] for batch in taken[LATER:])
    first, ready = taken[0]["seconds"], taken[0]["since"]
    return MeasuredStart(contender, rows, number, first, ready, later, spent)


def processor_seconds(pid: int) -> float:
    """Seconds of processor time that a process and those below it have taken."""
    spent = 0.0
    root = psutil.Process(pid)
    for one in (root, *root.children(recursive=True)):
        with suppress(psutil.Error):  # it has ended meanwhile
            times = one.cpu_times()
            spent += times.user + times.system
    return spent


def _job(engine: str, data: DataSet, scratch: Path) -> dict[str, Any]:
    query = QUERIES[QUERY]
    return {
        "lane": engine,
        "table": query.table,
        "sql": query.for_spark(),
        "plan": str(plan_of(QUERY)),
        "folder": str(data.folder),
        "files": [file.name for file in data.files],
        "batch_files": 1,
        "changes": False,
        "columns": {field.name: str(field.type) for field in data.table},
        "checkpoint": str(scratch / "checkpoint"),
        "samples": 0,
    }


def table(starts: Sequence[MeasuredStart]) -> str:
    """Medians per contender as Markdown, with the ratios to Spark's own of the same round."""
    lines = [
        "| rows a batch | contender | first batch | later batch | first / later | until its end | first, to Spark's | until its end, to Spark's | processor |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for rows, contender in dict.fromkeys((s.rows, s.contender) for s in starts):
        own = [s for s in starts if (s.rows, s.contender) == (rows, contender)]
        first, later, ready, spent = (
            statistics.median(getattr(s, name) for s in own)
            for name in ("first", "later", "ready", "processor")
        )
        ratios = (_ratio(own, starts, name) for name in ("first", "ready"))
        cells = (
            f"{rows:,}", contender, f"{first:.2f}", f"{later:.2f}", f"{first / later:.1f}", f"{ready:.2f}", *ratios, f"{spent:.1f}"
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _ratio(own: Sequence[MeasuredStart], starts: Sequence[MeasuredStart], name: str) -> str:
    """The median ratio to the fastest of Spark's own in the same round."""
    ratios = []
    for start in own:
        beside = [
            getattr(s, name)
            for s in starts
            if (s.rows, s.round) == (start.rows, start.round) and s.contender in NATIVE
        ]
        if beside:
            ratios.append(getattr(start, name) / min(beside))
    return f"{statistics.median(ratios):.2f}" if ratios else "-"


if __name__ == "__main__":
    sys.exit(main())
