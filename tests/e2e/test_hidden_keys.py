"""Views without some keys: the changes of every version are consolidated by the shown rows, across
tasks.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from tests.e2e.feeds import Feed, Grouping, Measure, check, churn
from tests.e2e.plans import Builder, column, projected
from tests.e2e.rows import Bag, plain
from tests.e2e.running import starting
from tests.sampling import sample, seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


COLUMNS = {"a": "string", "b": "i64", "x": "i64", "y": "fp64"}
FLOATS = [None, 0.0, -0.0, 1.5, float("nan")]
TOTALS: dict[str, Measure] = {
    "count": ("count", 2, "i64!"), "sum": ("sum", 2, "i64"), "sum0": ("sum0", 2, "i64!"),
}  # fmt: skip


@dataclass(frozen=True)
class HiddenKeys:
    """Groups by some keys, in one or several sets, of which the view shows only some columns.

    Attributes:
        groups: the aggregate over the table.
        shown: ordinals of its columns in the view.
    """

    groups: Grouping
    shown: tuple[int, ...]

    def plan(self) -> str:
        """The plan as JSON."""
        builder = Builder()
        relation = self.groups.relation(builder)
        root = projected(relation, self.groups.width, *map(column, self.shown))
        return builder.plan(root, *(f"c{i}" for i in range(len(self.shown))))

    def wanted(self, rows: Bag) -> Bag:
        """The view over the rows."""
        view: Bag = Counter()
        for whole, weight in self.groups.wanted(rows).items():
            view[tuple(whole[o] for o in self.shown)] += weight
        return view


def drawn(rng: random.Random) -> HiddenKeys:
    """Plans that leave out at least one key, or the index of the set."""
    keys = rng.choice([(0,), (0, 1), (1, 0)])
    every = tuple(range(len(keys)))
    sets = rng.choice([(every,), (every,), (every, (0,)), (every, ()), (every, (0,), ())])
    measures = tuple(rng.sample(list(TOTALS), rng.randint(1, 2)))
    width = len(keys) + len(measures) + (len(sets) > 1)
    hidden = rng.choice([*every, *([width - 1] if len(sets) > 1 else [])])
    others = [o for o in range(width) if o != hidden]
    shown = rng.sample(others, rng.randint(1, len(others)))
    groups = Grouping(COLUMNS, keys, tuple(TOTALS[m] for m in measures), sets)
    return HiddenKeys(groups, tuple(shown))


def check_consolidated(checkpoint: Path) -> None:
    """Check that no output has the same row twice in a version."""
    changes = sa.open_view(checkpoint).changes()
    rows = Counter(str(row) for row in changes.drop_columns(["__weight"]).to_pylist())
    assert not [row for row, times in rows.items() if times > 1]


@pytest.fixture(params=["this process", pytest.param("tasks", marks=pytest.mark.spark)])
def place(request: pytest.FixtureRequest) -> Iterator[SparkSession | None]:
    """Where changes are consolidated: a Spark whose tasks do it, or None for the local executor."""
    if request.param == "this process":
        yield None
        return
    from substrait_agg.spark.execution.driver import Driver
    from tests.executors import drivers

    spark = request.getfixturevalue("spark")
    with drivers(Driver(rows=0)):
        yield spark


def swapped() -> tuple[str, Feed]:
    """Two groups exchange their rows in one version: X 1 -> 2 and Y 2 -> 1; Z changes from 2 to 3."""
    plan = HiddenKeys(Grouping(COLUMNS, (0,), (TOTALS["sum"],)), (1,)).plan()
    batches = [
        [(("X", 0, 1, 0.0), 1), (("Y", 0, 2, 0.0), 1), (("Z", 0, 2, 0.0), 1)],
        [(("X", 0, 1, 0.0), -1), (("X", 0, 2, 0.0), 1), (("Y", 0, 2, 0.0), -1), (("Y", 0, 1, 0.0), 1), (("Z", 0, 1, 0.0), 1)],
    ]  # fmt: skip
    return plan, Feed("t", COLUMNS, "op", batches)


@pytest.mark.parametrize("partitions", sample([1, 2, 4], 2))
def test_groups_that_exchange_their_values_change_nothing(
    tmp_path: Path, place: SparkSession | None, partitions: int
) -> None:
    """The old and the new row of different groups cancel in every output."""
    plan, feed = swapped()
    source = {"t": feed.write(tmp_path)}
    checkpoint, given = tmp_path / "checkpoint", []
    outputs = ["stream-json", "debezium-json", "changes-parquet"]
    told = [f"{kind}={tmp_path / kind}" for kind in outputs]
    starting(place)(
        plan, source, checkpoint=checkpoint, partitions=partitions, outputs=told,
        on_changes=lambda changes, _: given.extend(changes.to_pylist()),
    ).wait()  # fmt: skip
    wanted = Counter({(1, 1, 1): 1, (1, 2, 2): 1, (2, 2, -1): 1, (2, 3, 1): 1})

    def counted(rows: list[dict[str, Any]]) -> Bag:
        return Counter((r["__version"], r["c0"], r["__weight"]) for r in rows)

    assert counted(sa.open_view(checkpoint).changes().to_pylist()) == wanted
    assert counted(given) == wanted
    assert counted(pq.read_table(tmp_path / "changes-parquet").to_pylist()) == wanted
    lines = [json.loads(line) for line in (tmp_path / "stream-json").read_text().splitlines()]
    assert Counter((e["version"], e["row"]["c0"], e["weight"]) for e in lines) == wanted
    events = [json.loads(line) for line in (tmp_path / "debezium-json").read_text().splitlines()]
    pairs = [((e.get("payload") or e)["op"], (e.get("payload") or e)) for e in events]
    assert Counter(op for op, _ in pairs) == {"c": 4, "d": 1}
    # What was consolidated is not left behind, nor what the driver began and tasks computed again.
    snapshots = [_snapshot(checkpoint, version) for version in (0, 1, 2)]
    left = {p.name for p in (checkpoint / "changes").iterdir()}
    assert left == {c.name for s in snapshots[1:] for c in s.changes}
    left = {p.name for p in (checkpoint / "state").iterdir()}
    assert left <= {r.name for s in snapshots for o in s.operators for r in o.runs}


def _snapshot(checkpoint: Path, version: int) -> Any:
    from substrait_agg.commit.log.checkpoint import Checkpoint

    return Checkpoint(checkpoint).snapshot(version)


def test_progress_counts_what_is_consolidated(tmp_path: Path, place: SparkSession | None) -> None:
    plan, feed = swapped()
    run = starting(place)(
        plan, {"t": feed.write(tmp_path)}, checkpoint=tmp_path / "c", partitions=2
    )
    run.wait()
    assert (run.progress.changes, run.progress.retracted, run.progress.inserted) == (4, 1, 3)


def _random(spark: SparkSession | None, folder: Path, seed: object) -> None:
    rng = random.Random(f"hidden keys {seed}")
    case = drawn(rng)

    def row() -> tuple[Any, ...]:
        return (rng.choice("XYZ"), rng.choice([None, 1, 2]), rng.choice([None, 0, 1, 2]),
                rng.choice(FLOATS))  # fmt: skip

    feed = Feed("t", COLUMNS, "op", churn(rng, row, 5, rng.randint(2, 12)))
    how: dict[str, Any] = {"partitions": rng.choice([1, 2, 4])}
    if rng.random() < 0.3:
        how["early_retraction"] = "quarantine"
        feed = Feed("t", COLUMNS, "op", _on_time(feed.batches))
    checkpoint = check(spark, folder, case.plan(), [feed], case.wanted, **how)
    check_consolidated(checkpoint)


def _on_time(batches: Any) -> Any:
    """The batches without the retractions that come before their insertions, and without these."""
    there: Bag = Counter()
    kept = []
    for batch in batches:
        # Within a batch the order does not matter: insertions first.
        ordered = sorted(batch, key=lambda change: -change[1])
        now = []
        for row, weight in ordered:
            if there[_key(row)] + weight >= 0:
                there[_key(row)] += weight
                now.append((row, weight))
        kept.append(now)
    return kept


def _key(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(map(plain, row))


@pytest.mark.parametrize("seed", seeds(8, 60))
def test_changes_are_consolidated_and_add_up(tmp_path: Path, seed: int) -> None:
    """Random keys, sets, measures, shown columns, cuts and partitions: every version adds up to its view, each row changing once."""
    _random(None, tmp_path, f"driver {seed}")


@pytest.mark.parametrize("seed", seeds(1, 60))
def test_changes_are_consolidated_by_tasks(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """The same where Spark exchanges the changes."""
    from substrait_agg.spark.execution.driver import Driver
    from tests.executors import drivers

    with drivers(Driver(rows=0)):
        _random(spark, tmp_path, f"tasks {seed}")


def test_views_that_show_their_keys_pay_nothing(tmp_path: Path) -> None:
    """A view that shows its keys needs no consolidation, so no change is read again."""
    from substrait_agg.spark.query.spark_executor import SparkExecutor
    from tests.executors import executors

    class Refusing(SparkExecutor):
        def consolidate(self, *_: Any) -> Any:
            raise AssertionError("changes are consolidated")

    _, feed = swapped()
    case = HiddenKeys(Grouping(COLUMNS, (0, 1), (TOTALS["sum"],)), (2, 1, 0))
    with executors(Refusing):
        check(None, tmp_path, case.plan(), [feed], case.wanted, partitions=2)
