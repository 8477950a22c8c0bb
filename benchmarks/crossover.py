"""Whether ``--refresh auto`` chooses the cheaper way, over pairs of a plan and the size of a batch.

``python -m benchmarks.crossover --rows 100000 --json FILE`` builds the state of each plan, and then
computes one more batch from copies of the same checkpoint: by changes, and again from all rows, in
turns. The choice is the one that the run would make from the costs of its own batches. Python workers
are started before anything is measured, or the way that needs them first would be charged with that.

The constants of the cost model are chosen with the pairs of ``--set tune``. The pairs of ``--set check``
have other plans, other sizes of batches and other rows, and are only looked at to check the model.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
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
from substrait_agg.flow.passes.lower import lower
from substrait_agg.operator.registry import operator_of
from substrait_agg.refresh.checks import RunConditions
from substrait_agg.refresh.chooser import RefreshChooser
from substrait_agg.refresh.cost_model import BatchCost, CostHistory, InputSize
from substrait_agg.refresh.policies import parse_refresh
from substrait_agg.spark.execution.driver import DRIVER_BYTES, RowAccess, limit_times
from substrait_agg.spark.session.session import DRIVER_BYTES_SETTING

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

TUNED: Mapping[str, str] = {
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
"""The plans that the constants were chosen with, by name."""

CHECKED: Mapping[str, str] = {
    "one group": "SELECT count(*) n, sum(amount) s, max(size) m FROM facts",
    "distinct buyers": "SELECT part, count(DISTINCT buyer) d FROM facts GROUP BY part",
    "two keys": "SELECT part, buyer % 10 b, sum(amount) s, avg(size) a FROM facts GROUP BY part, buyer % 10",
    "filtered": "SELECT buyer, sum(amount) FILTER (WHERE size > 0.5) s, count(*) n FROM facts WHERE amount > 100 "
    "GROUP BY buyer",
    "rollup": "SELECT part % 20 p, buyer % 20 b, count(*) n FROM facts GROUP BY ROLLUP (part % 20, buyer % 20)",
    "outer join": "SELECT p.class, count(f.id) n, sum(f.amount) s FROM parts p LEFT JOIN facts f ON f.part = p.id "
    "GROUP BY p.class",
    "rows": "SELECT id, buyer, amount FROM facts WHERE size > 0.9",
    "least": "SELECT buyer, min(size) a FROM facts GROUP BY buyer",
}
"""The plans that the model is checked with, by name."""


@dataclass(frozen=True)
class PairSet:
    """Pairs of a plan and a size of a batch.

    Attributes:
        queries: the plans by name.
        deltas: rows of the last batch, to the rows of the table.
        seed: of the rows.
    """

    queries: Mapping[str, str]
    deltas: tuple[float, ...]
    seed: int


SETS: Mapping[str, PairSet] = {
    "tune": PairSet(TUNED, (0.001, 0.03, 0.3, 1.0, 3.0), 1),
    "check": PairSet(CHECKED, (0.005, 0.05, 0.5, 1.5, 2.5), 2),
}


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
        seed: of the random numbers.
    """

    def __init__(self, folder: Path, rows: int, seed: int = 1) -> None:
        self._folder, self._rows = folder, rows
        self._random = np.random.default_rng(seed)
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
    made.add_argument("--set", choices=SETS, default="check", help="which pairs")
    made.add_argument("--plans", help="names of plans; default: all of the set")
    made.add_argument("--deltas", help="rows of a batch, to the table; default: those of the set")
    made.add_argument("--repeat", type=int, default=2, help="times that each way is measured")
    made.add_argument("--json", type=Path, help="file that figures are kept in")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and show; the exit status is 1 if the views of both ways differ."""
    options = parser().parse_args(arguments)
    pairs = SETS[options.set]
    if options.deltas:
        pairs = replace(pairs, deltas=tuple(float(d) for d in options.deltas.split(",")))
    done: list[Pair] = []
    for plan in options.plans.split(",") if options.plans else pairs.queries:
        try:
            for pair in measure(plan, pairs, options.rows, options.repeat):
                done.append(pair)
                figures = f"{pair.incremental:.2f} s incremental, {pair.full:.2f} s full"
                print(f"  {plan} {pair.delta:.1%}: {figures}", file=sys.stderr, flush=True)
        except WrongView as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        if options.json:
            kept = {
                "machine": machine(),
                "rows": options.rows,
                "set": options.set,
                "pairs": [asdict(p) for p in done],
            }
            options.json.write_text(json.dumps(kept, indent=1))
    print(table(done))
    return 0


def measure(plan: str, pairs: PairSet, rows: int, repeat: int) -> Iterator[Pair]:
    """Measure a plan with batches of several sizes.

    Raises:
        WrongView: both ways give different views.
    """
    query = pairs.queries[plan]
    words = set(query.replace(",", " ").split())
    used = [name for name in SCHEMAS if name in words]
    made = sa.sql(query, {name: SCHEMAS[name] for name in used})
    flow = lower(made.bind())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables = ChangedTables(folder / "tables", rows, pairs.seed)
        sources = {table: tables.sources[table] for table in used}
        for share in HISTORY:
            tables.add(share)
        with _in_workers():
            _run(made, sources, folder / "workers", "auto")
        for warm in ("warm", "base"):
            _run(made, sources, folder / warm, "auto")
        newest = Checkpoint(folder / "base").newest_snapshot()
        if newest is None:
            raise RuntimeError("nothing is committed")
        history = CostHistory(newest.refresh.costs)
        limit = DRIVER_BYTES * limit_times(RowAccess.FILES, map(operator_of, flow.operators))
        chooser = RefreshChooser(flow, parse_refresh("auto"), RunConditions(), limit)
        for delta in pairs.deltas:
            live = tables.live
            tables.add(delta)
            known = _size(folder / "tables", used)
            choice = chooser.choose(history, known)
            if choice.estimate is None:
                raise RuntimeError("no batch has been measured")
            seconds = _measured(made, sources, folder, repeat)
            _compare(plan, delta, folder)
            yield Pair(
                plan, delta, seconds["incremental"], seconds["full"],
                "full" if choice.operators else "incremental",
                (choice.estimate.incremental / 1e6, choice.estimate.full / 1e6), known, history.costs,
            )  # fmt: skip
            tables.undo(live)


def _size(folder: Path, used: Sequence[str]) -> InputSize:
    """Return the bytes of the last file of some tables, and of all their files."""
    files = [sorted((folder / name).glob("*.parquet")) for name in used]
    last = sum(of_table[-1].stat().st_size for of_table in files)
    return InputSize(last, sum(file.stat().st_size for of_table in files for file in of_table))


@contextmanager
def _in_workers() -> Iterator[None]:
    """Let Python workers compute all batches, so that they are started."""
    settings = on_spark.session().conf
    settings.set(DRIVER_BYTES_SETTING, "0")
    try:
        yield
    finally:
        settings.unset(DRIVER_BYTES_SETTING)


def _measured(
    plan: sa.Plan, sources: Mapping[str, str], folder: Path, repeat: int
) -> dict[str, float]:
    """Return the median seconds of the last batch by way, computed in turns from copies of the checkpoint."""
    seconds: dict[str, list[float]] = {"incremental": [], "full": []}
    for turn in range(repeat):
        for way in list(seconds)[:: -1 if turn % 2 else 1]:
            copy = folder / way
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(folder / "base", copy)
            seconds[way].append(_run(plan, sources, copy, way))
    return {way: statistics.median(taken) for way, taken in seconds.items()}


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
