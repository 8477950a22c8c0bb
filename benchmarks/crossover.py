"""Whether ``--refresh auto`` chooses the cheaper way, over pairs of a plan and the size of a batch.

``python -m benchmarks.crossover --rows 100000 --json FILE`` builds the state of each plan, and then
computes one more batch from copies of the same checkpoint: by changes, and again from all rows. The
choice is the one that the run would make from the costs of its own batches.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import substrait_agg as sa
from benchmarks.check import WrongView
from benchmarks.engines import on_spark
from benchmarks.results import machine
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.refresh.cost_model import BatchCost, CostHistory, InputSize

DELTAS = (0.001, 0.03, 0.3, 1.0, 3.0)
"""Rows of the last batch, to the rows of the table."""
HISTORY = (1.0, 0.002, 0.01, 0.05)
"""Rows of the batches before it, to the rows of the table."""
CLOSE = 1.2
"""A choice is right if it takes at most this many times the time of the better way."""
WANTED = 0.9
"""Share of right choices that is the target."""

FACTS, PARTS = "facts", "parts"
SCHEMAS: Mapping[str, pa.Schema] = {
    FACTS: pa.schema(
        [("id", pa.int64()), ("part", pa.int64()), ("buyer", pa.int64()), ("amount", pa.decimal128(12, 2)),
         ("size", pa.float64())]
    ),
    PARTS: pa.schema([("id", pa.int64()), ("class", pa.int64()), ("price", pa.int64())]),
}  # fmt: skip

QUERIES: Mapping[str, str] = {
    "few groups": "SELECT part % 50 g, count(*) n, sum(amount) s, avg(size) a FROM facts GROUP BY part % 50",
    "many groups": "SELECT buyer, count(*) n, sum(amount) s FROM facts GROUP BY buyer",
    "extremes": "SELECT part, min(amount) a, max(amount) z, count(DISTINCT buyer) d FROM facts GROUP BY part",
    "cube": "SELECT part % 20 p, buyer % 20 b, sum(amount) s FROM facts GROUP BY CUBE (part % 20, buyer % 20)",
    "stacked": "SELECT n, count(*) c, sum(s) s FROM (SELECT buyer, count(*) n, sum(amount) s FROM facts GROUP BY buyer) t "
    "GROUP BY n",
    "join": "SELECT p.class, sum(f.amount) s, count(*) n FROM facts f JOIN parts p ON f.part = p.id GROUP BY p.class",
    "joined rows": "SELECT f.id, f.amount, p.class FROM facts f JOIN parts p ON f.part = p.id WHERE p.price > 50",
    "greatest": "SELECT part, sum(amount) s FROM facts GROUP BY part ORDER BY s DESC, part LIMIT 100",
}  # fmt: skip
"""The plans by name."""


@dataclass(frozen=True)
class Pair:
    """A plan and a batch, computed in both ways.

    Attributes:
        plan: name of the plan.
        delta: rows of the batch, to the rows of the table.
        incremental: seconds by changes.
        full: seconds again from all rows.
        chosen: ``incremental`` or ``full``.
        estimated: the estimates that the choice compares, in seconds.
        size: bytes of the batch and of all input.
        costs: the costs that the choice knows.
    """

    plan: str
    delta: float
    incremental: float
    full: float
    chosen: str
    estimated: tuple[float, float]
    size: InputSize
    costs: tuple[BatchCost, ...]

    @property
    def right(self) -> bool:
        """Return whether the choice is close to the better way."""
        taken = self.full if self.chosen == "full" else self.incremental
        return taken <= CLOSE * min(self.incremental, self.full)


class ChangedTables:
    """Tables that change: a batch deletes some rows and inserts as many.

    Args:
        folder: a folder per table gets the files of the batches.
        rows: rows of the table of facts after the first batch.
    """

    def __init__(self, folder: Path, rows: int) -> None:
        self._folder, self._rows = folder, rows
        self._random = np.random.default_rng(1)
        self._live = {name: schema.empty_table() for name, schema in SCHEMAS.items()}
        self._next = dict.fromkeys(SCHEMAS, 0)
        self._files = 0

    @property
    def sources(self) -> dict[str, str]:
        """The sources, a file of each table per batch."""
        return {n: f"parquet:{self._folder / n}?op=op&batch-files=1" for n in SCHEMAS}

    def add(self, share: float) -> int:
        """Add a batch, and return the bytes of its files."""
        size = 0
        for name, whole in ((FACTS, self._rows), (PARTS, self._rows // 50)):
            live = self._live[name]
            count = max(int(whole * share), 2)
            gone = min(count // 2, live.num_rows)
            order = self._random.permutation(live.num_rows)
            deleted, kept = live.take(order[:gone]), live.take(order[gone:])
            inserted = self._inserted(name, count - gone)
            self._live[name] = pa.concat_tables([kept, inserted])
            words = pa.array(["delete"] * gone + ["insert"] * inserted.num_rows)
            rows = pa.concat_tables([deleted, inserted]).append_column("op", words)
            path = self._path(name, self._files)
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(rows, path)
            size += path.stat().st_size
        self._files += 1
        return size

    def undo(self, live: Mapping[str, pa.Table]) -> None:
        """Remove the last batch, before which the tables had these rows."""
        self._files -= 1
        self._live = dict(live)
        for name in SCHEMAS:
            self._path(name, self._files).unlink()

    @property
    def live(self) -> dict[str, pa.Table]:
        """The rows of the tables."""
        return dict(self._live)

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.stat().st_size for file in self._folder.glob("*/*.parquet"))

    def _path(self, name: str, number: int) -> Path:
        return self._folder / name / f"{number:04}.parquet"

    def _inserted(self, name: str, count: int) -> pa.Table:
        first, random = self._next[name], self._random
        self._next[name] += count
        ids = np.arange(first, first + count)
        parts = max(self._rows // 50, 1)
        columns: list[Any]
        if name == PARTS:
            columns = [ids % parts, random.integers(0, 25, count), random.integers(0, 100, count)]
        else:
            buyers = random.integers(0, self._rows // 4 + 1, count)
            cents = pa.array(random.integers(0, 100_000, count)).cast(pa.decimal128(19, 0))
            amounts = pa.Array.from_buffers(pa.decimal128(12, 2), count, cents.buffers())
            columns = [ids, random.integers(0, parts, count), buyers, amounts, random.random(count)]
        return pa.table([pa.array(column) for column in columns], schema=SCHEMAS[name])


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.crossover", description=__doc__.partition("\n")[0]
    )
    made.add_argument("--rows", type=int, default=100_000, help="rows of the greater table")
    made.add_argument("--plans", default=",".join(QUERIES), help="names of plans")
    made.add_argument(
        "--deltas", default=",".join(map(str, DELTAS)), help="rows of a batch, to the table"
    )
    made.add_argument("--repeat", type=int, default=1, help="times that each way is measured")
    made.add_argument("--json", type=Path, help="file that figures are kept in")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and show; the exit status is 1 if the views of both ways differ."""
    options = parser().parse_args(arguments)
    deltas = [float(delta) for delta in options.deltas.split(",")]
    done: list[Pair] = []
    for plan in options.plans.split(","):
        try:
            for pair in measure(plan, deltas, options.rows, options.repeat):
                done.append(pair)
                figures = f"{pair.incremental:.2f} s incremental, {pair.full:.2f} s full"
                print(f"  {plan} {pair.delta:.1%}: {figures}", file=sys.stderr, flush=True)
        except WrongView as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        if options.json:
            kept = {"machine": machine(), "rows": options.rows, "pairs": [asdict(p) for p in done]}
            options.json.write_text(json.dumps(kept, indent=1))
    print(table(done))
    return 0


def measure(plan: str, deltas: Sequence[float], rows: int, repeat: int) -> Iterator[Pair]:
    """Measure a plan with batches of several sizes.

    Raises:
        WrongView: both ways give different views.
    """
    query = QUERIES[plan]
    words = set(query.replace(",", " ").split())
    used = [name for name in SCHEMAS if name in words]
    made = sa.sql(query, {name: SCHEMAS[name] for name in used})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables = ChangedTables(folder / "tables", rows)
        sources = {table: tables.sources[table] for table in used}
        for share in HISTORY:
            tables.add(share)
        for warm in ("warm", "base"):
            _run(made, sources, folder / warm, "auto")
        costs = Checkpoint(folder / "base").newest_snapshot()
        if costs is None:
            raise RuntimeError("nothing is committed")
        history = CostHistory(costs.refresh.costs)
        for delta in deltas:
            live = tables.live
            size = tables.add(delta)
            known = InputSize(size, tables.bytes)
            found = history.estimate(known)
            if found is None:
                raise RuntimeError("no batch has been measured")
            seconds = {
                way: _measured(made, sources, folder, way, repeat)
                for way in ("incremental", "full")
            }
            _compare(plan, delta, folder)
            estimated = (found.incremental / 1e6, found.full / 1e6)
            chosen = "full" if found.full < found.incremental else "incremental"
            yield Pair(
                plan,
                delta,
                seconds["incremental"],
                seconds["full"],
                chosen,
                estimated,
                known,
                history.costs,
            )
            tables.undo(live)


def _measured(
    plan: sa.Plan, sources: Mapping[str, str], folder: Path, way: str, repeat: int
) -> float:
    """Return the median seconds of the last batch, computed in a way from copies of the checkpoint."""
    seconds = []
    for _ in range(repeat):
        copy = folder / way
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder / "base", copy)
        seconds.append(_run(plan, sources, copy, way))
    return statistics.median(seconds)


def _run(plan: sa.Plan, sources: Mapping[str, str], checkpoint: Path, refresh: str) -> float:
    """Run a plan over all files, and return the seconds of the last batch."""
    run = sa.run(
        plan, sources, checkpoint=checkpoint, spark=on_spark.session(), partitions=on_spark.CORES,
        refresh=refresh,
    )  # fmt: skip
    run.wait()
    return run.progress.batch_seconds


def _compare(plan: str, delta: float, folder: Path) -> None:
    views = [sa.open_view(folder / way).to_arrow() for way in ("incremental", "full")]
    first, second = (
        view.sort_by([(name, "ascending") for name in view.column_names]) for view in views
    )
    if not first.equals(second):
        raise WrongView(f"{plan} with {delta}: a full batch gives another view")


def table(pairs: Sequence[Pair]) -> str:
    """Return the pairs as Markdown, and the share of right choices."""
    lines = [
        "| plan | batch | incremental, s | full, s | chosen | right |",
        "|---|---|---|---|---|---|",
    ]
    for p in pairs:
        cells = (
            p.plan, f"{p.delta:.1%}", f"{p.incremental:.2f}", f"{p.full:.2f}", p.chosen,
            "yes" if p.right else "**no**",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    right = sum(pair.right for pair in pairs)
    met = "met" if right >= WANTED * len(pairs) else "missed"
    better = sum(pair.full < pair.incremental for pair in pairs)
    return "\n".join(
        [
            *lines,
            "",
            f"{right} of {len(pairs)} choices are right (target 9 of 10: {met}); full is faster in {better}.",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
