"""A checkpoint continues with another plan on Spark: every later version equals that of a run that
had the plan from the beginning.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from substrait_agg.errors import StateRefused
from substrait_agg.spark.execution.driver import Driver
from tests.e2e import plans
from tests.e2e.files import age
from tests.e2e.killing import Command
from tests.e2e.rows import bag, running_sums
from tests.e2e.running import maintain, starting
from tests.executors import drivers
from tests.sampling import sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


FILES = 3
X, Y = (plans.column(1), "i64"), (plans.column(2), "fp64")
Make = Callable[[plans.Builder], dict[str, Any]]

COUNT: Make = lambda b: b.measure("count", output="i64!")  # noqa: E731
LEAST: Make = lambda b: b.measure("min", X, output="i64")  # noqa: E731
MOST: Make = lambda b: b.measure("max", X, output="i64")  # noqa: E731
TOTAL: Make = lambda b: b.measure("sum", X, output="i64")  # noqa: E731
REAL: Make = lambda b: b.measure("sum", Y, output="fp64")  # noqa: E731
MIDDLE: Make = lambda b: b.measure("median", X, output="i64")  # noqa: E731


def grouped(b: plans.Builder, *measures: Make) -> dict[str, Any]:
    """Measures by k."""
    table = plans.read("t", {"k": "i64", "x": "i64", "y": "fp64"})
    return plans.aggregate(table, [plans.column(0)], [make(b) for make in measures])


def plain(*measures: Make) -> str:
    """A plan of one aggregate."""
    b = plans.Builder()
    return b.plan(grouped(b, *measures), "k", *(f"m{i}" for i in range(len(measures))))


def chained(*measures: Make, upper: str, column: int) -> str:
    """An aggregate over another: groups per count, and a measure of a measure."""
    b = plans.Builder()
    above = [
        b.measure("count", output="i64!"),
        b.measure(upper, (plans.column(column), "i64"), output="i64"),
    ]
    whole = plans.aggregate(grouped(b, *measures), [plans.column(1)], above)
    return b.plan(whole, "count", "groups", upper)


def having(*measures: Make, column: int, more: int) -> str:
    """Groups of two rows and more, with one measure and a sum of it and a number."""
    b = plans.Builder()
    below = grouped(b, *measures)
    least = b.call(
        "gt:any_any", plans.COMPARISON, plans.column(1), plans.literal("i64", 1), output="bool"
    )
    sum_ = b.call(
        "add:i64_i64",
        plans.ARITHMETIC,
        plans.column(column),
        plans.literal("i64", more),
        output="i64",
    )
    rows = plans.projected(
        plans.filtered(below, least), 1 + len(measures), plans.column(0), plans.column(column), sum_
    )
    return b.plan(rows, "k", "measure", "more")


PLANS: dict[str, tuple[str, str]] = {
    "measures": (plain(COUNT, LEAST, REAL), plain(MIDDLE, REAL, COUNT, TOTAL)),
    "chained": (
        chained(COUNT, LEAST, upper="sum", column=2),
        chained(COUNT, LEAST, MOST, upper="max", column=3),
    ),
    "only the lower one": (
        chained(COUNT, LEAST, upper="sum", column=2),
        chained(COUNT, LEAST, TOTAL, upper="sum", column=2),
    ),
    "having": (having(COUNT, LEAST, column=2, more=1), having(COUNT, MOST, column=2, more=7)),
    "having is left out": (having(COUNT, LEAST, column=2, more=1), plain(COUNT, TOTAL)),
    "having comes": (plain(COUNT, LEAST), having(COUNT, MIDDLE, column=2, more=1)),
}  # fmt: skip


class Feed:
    """Files of changes, the same in every test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.random = random.Random(3)
        self.there: list[tuple[int, int | None, float]] = []
        folder.mkdir()
        self.count = 0

    @property
    def spec(self) -> str:
        """As a source."""
        return f"parquet:{self.folder}?op=op&batch-files=1"

    def write(self, files: int = FILES) -> None:
        """More files: rows come, some go."""
        for _ in range(files):
            gone = [self.there.pop(self.random.randrange(len(self.there))) for _ in self.there[:4]]
            values = (None, *range(9))
            new = [
                (self.random.randrange(5), self.random.choice(values), self.random.random())
                for _ in range(9)
            ]
            self.there += new
            rows = [(*row, "delete") for row in gone] + [(*row, "insert") for row in new]
            columns = [pa.array(c) for c in zip(*rows, strict=True)]
            table = pa.table(columns, names=["k", "x", "y", "op"])
            path = self.folder / f"{self.count:03}.parquet"
            pq.write_table(table, path)
            age(path, self.count)
            self.count += 1


@pytest.mark.parametrize("what", PLANS)
def test_every_version_is_that_of_a_run_from_the_beginning(tmp_path: Path, what: str) -> None:
    """View and changes equal those of a run with the new plan from the beginning."""
    check_evolution(None, tmp_path, *PLANS[what])


@pytest.mark.parametrize("what", sample(PLANS, "chained", "having comes"))
def test_tasks_migrate_the_state(spark: SparkSession, tmp_path: Path, what: str) -> None:
    """The same with the file source of Spark, and with Spark tasks that migrate the state."""
    with drivers(Driver(rows=-1)):
        check_evolution(spark, tmp_path, *PLANS[what])


def check_evolution(spark: SparkSession | None, folder: Path, before: str, after: str) -> None:
    """Evolve a checkpoint, and compare it with a run from the beginning on the local executor."""
    feed = Feed(folder / "in")
    feed.write()
    checkpoint, options = folder / "ck", {"outputs": ["none"], "partitions": 2}
    maintain(spark, before, {"t": feed.spec}, checkpoint, **options)
    feed.write()
    views = maintain(spark, after, {"t": feed.spec}, checkpoint, evolve=True, **options)
    wanted = maintain(None, after, {"t": feed.spec}, folder / "fresh", **options)
    begun = FILES + 1
    assert {*range(begun + 1, 2 * FILES + 2)} <= views.keys()
    for version, rows in views.items():
        assert rows == wanted[version - 1], version
    assert sa.open_view(checkpoint).versions() == list(range(2 * FILES + 2))
    view = sa.open_view(checkpoint)
    assert bag(view.to_arrow(begun)) == wanted[FILES]
    versions = view.versions()[begun:]
    sums = running_sums(view.changes(), versions)
    assert all(sums[version] == wanted[version - 1] for version in versions)
    verdict = sa.open_state(checkpoint).verify()
    assert verdict.ok, verdict.errors


def replayed(path: Path) -> Counter[str]:
    """The rows that the lines of a file of changes add up to."""
    found: Counter[str] = Counter()
    for line in path.read_text().splitlines():
        change = json.loads(line)
        found[json.dumps(change["row"])] += change["weight"]
        assert found[json.dumps(change["row"])] >= 0
    return +found


def shown(checkpoint: Path) -> Counter[str]:
    """The view, as lines have its rows."""
    return Counter(json.dumps(row) for row in sa.open_view(checkpoint).to_arrow().to_pylist())


@pytest.mark.soak
def test_killed_on_the_way_and_run_again(tmp_path: Path) -> None:
    """The command is killed before or right after the evolution; the changes that consumers
    received add up.
    """
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    before.write_text(plain(COUNT, LEAST))
    after.write_text(plain(MOST, COUNT, TOTAL))
    feed = Feed(tmp_path / "in")
    feed.write()
    checkpoint = tmp_path / "ck"
    rest = (
        "--source",
        f"t={feed.spec}",
        "--output",
        f"stream-json={tmp_path / 'out.jsonl'}",
        "--master",
        "local[2]",
        "--no-progress",
    )

    def command(plan: Path, *more: str) -> Command:
        return Command((str(plan), *rest, *more), checkpoint, tmp_path / "log")

    command(before).finish()
    feed.write()
    assert command(after).start().wait(240) == 2
    assert "PLAN_DIFFERS" in (tmp_path / "log").read_text()
    assert "with --evolve" in (tmp_path / "log").read_text()
    command(after, "--evolve").kill_after(1, 0)
    command(after, "--evolve").finish()
    assert replayed(tmp_path / "out.jsonl") == shown(checkpoint)
    assert sa.open_view(checkpoint).versions() == list(range(2 * FILES + 2))
    assert sa.open_state(checkpoint).verify().ok


def test_back_to_the_plan_before(tmp_path: Path) -> None:
    """After a rollback before the evolution the old plan is in force, and lines are removed; then the new plan can be applied again."""
    before, after = plain(COUNT, LEAST), plain(TOTAL, COUNT)
    feed, checkpoint, lines = Feed(tmp_path / "in"), tmp_path / "ck", tmp_path / "out.jsonl"
    options: dict[str, Any] = {"outputs": [f"stream-json={lines}"], "partitions": 2}
    feed.write()
    maintain(None, before, {"t": feed.spec}, checkpoint, **options)
    old = bag(sa.open_view(checkpoint).to_arrow()), lines.read_text()
    feed.write(1)
    maintain(None, after, {"t": feed.spec}, checkpoint, evolve=True, **options)
    assert replayed(lines) == shown(checkpoint)
    new = lines.read_text()
    sa.open_state(checkpoint).rollback(FILES, force=True)
    assert (bag(sa.open_view(checkpoint).to_arrow()), lines.read_text()) == old
    assert not list(checkpoint.glob("plan-*"))
    with pytest.raises(StateRefused) as refused:
        starting(None)(after, {"t": feed.spec}, checkpoint=checkpoint)
    assert refused.value.code == "PLAN_DIFFERS"
    maintain(None, after, {"t": feed.spec}, checkpoint, evolve=True, **options)
    assert sorted(lines.read_text().splitlines()) == sorted(new.splitlines())
    verdict = sa.open_state(checkpoint).verify()
    assert verdict.ok, verdict.errors


def test_outputs_that_hold_one_set_of_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Outputs with fixed columns are refused before anything is written; a new output begins with
    the new columns.
    """
    before, after, sorted_ = (
        plain(COUNT, LEAST),
        plain(COUNT, LEAST, TOTAL),
        tmp_path / "order.json",
    )
    feed, checkpoint = Feed(tmp_path / "in"), tmp_path / "ck"
    feed.write(1)
    source, out = {"t": feed.spec}, f"changes-parquet={tmp_path / 'out'}"
    calls: list[tuple[int, list[str], int]] = []

    def called(changes: pa.Table, version: int) -> None:
        weights = changes.column("__weight").to_pylist()
        calls.append((version, changes.column_names[:-2], sum(weights)))

    sink = sa.SparkSink(lambda frame, version: None)
    maintain(spark, before, source, checkpoint, outputs=[out, sink], on_changes=called)
    for held in (out, sa.SparkSink(lambda frame, version: None)):
        files = sorted(checkpoint.rglob("*"))
        with pytest.raises(StateRefused) as refused:
            sa.run(after, source, checkpoint=checkpoint, spark=spark, evolve=True, outputs=[held])
        assert refused.value.code == "OUTPUT_OF_OTHER_PLAN"
        assert sorted(checkpoint.rglob("*")) == files
    b = plans.Builder()
    falling = plans.ordered(grouped(b, COUNT, LEAST), (plans.column(0), True))
    sorted_.write_text(b.plan(falling, "k", "m0", "m1"))
    maintain(spark, sorted_, source, checkpoint, outputs=[out], on_changes=called, evolve=True)
    keys = sa.open_view(checkpoint).to_arrow().column("k").to_pylist()
    assert keys == sorted(keys, reverse=True)
    assert len(list((tmp_path / "out").iterdir())) == 1
    new = tmp_path / "new"
    maintain(
        spark,
        after,
        source,
        checkpoint,
        outputs=[f"changes-parquet={new}"],
        on_changes=called,
        evolve=True,
    )
    (file,) = new.iterdir()
    assert pq.read_table(file).num_rows == len(keys)
    names = [["k", "m0", "m1"], ["k", "m0", "m1", "m2"]]
    assert calls == [(1, names[0], len(keys)), (3, names[0], -len(keys)), (3, names[1], len(keys))]
    with pytest.raises(StateRefused) as refused:
        sa.open_view(checkpoint).changes(since=0)
    assert refused.value.code == "CHANGES_OF_TWO_PLANS"
    assert sa.open_view(checkpoint).changes(since=0, until=1).column_names[:-2] == names[0]
