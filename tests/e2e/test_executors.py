"""The local executor computes what Spark does: equal views, changes and snapshots at every version."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import substrait_agg as sa
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.operator.common.watermarks import SourceTime
from tests.e2e import event_runs
from tests.e2e import test_early_retraction as early
from tests.e2e import test_emit as emit
from tests.e2e import test_event_time as timed
from tests.e2e import test_evolve as evolve
from tests.e2e import test_hidden_keys as hidden
from tests.e2e import test_set_operations as sets
from tests.e2e import test_top_k as fetch
from tests.e2e import test_ttl as ttl
from tests.e2e import test_upserts as upserts
from tests.e2e.event_model import Rule, Table, drawn
from tests.e2e.feeds import Feed
from tests.e2e.files import age, write_in_order
from tests.e2e.plans import Builder, fetched, set_operation
from tests.e2e.rows import Bag, bag, changes_by_version
from tests.e2e.stored_state import stored_operators
from tests.local.run import run
from tests.sampling import sample
from tests.windowed import Windows, aggregate, column, interval

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COUNTERS = (
    "bad", "early", "emitted", "input_rows", "inserted", "late", "quarantined", "retracted", "touched", "waiting",
)  # fmt: skip
"""Counters of a version that do not depend on how a batch is cut into tasks."""


@dataclass(frozen=True)
class Scenario:
    """Runs over one checkpoint.

    Attributes:
        plans: the plan of each run; a later one evolves the checkpoint.
        write: writes the files of a run, which is given by its number; returns the sources.
        options: further options of all runs.
    """

    plans: tuple[str | sa.Plan, ...]
    write: Callable[[Path, int], dict[str, str]]
    options: dict[str, Any] = field(default_factory=dict)

    def run(self, start: Callable[..., Any], folder: Path) -> Path:
        """Run to the end; returns the checkpoint."""
        checkpoint = folder / "checkpoint"
        for number, plan in enumerate(self.plans):
            sources = self.write(folder, number)
            evolves = number > 0 and plan != self.plans[number - 1]
            start(
                plan, sources, checkpoint=checkpoint, partitions=2, evolve=evolves, **self.options
            ).wait()
        return checkpoint


def over_tables(plan: str, *tables: Table, **options: Any) -> Scenario:
    """One run over tables with event times."""
    rules = {f"{t.name}.t": t.rule.text for t in tables if t.rule is not None}
    return Scenario(
        (plan,), lambda folder, _: {t.name: t.write(folder) for t in tables}, {"watermark": rules, **options}
    )  # fmt: skip


def over_feed(plan: str | sa.Plan, feed: Feed, **options: Any) -> Scenario:
    """Two runs over a table of changes, the second one with its last files."""

    def write(folder: Path, number: int) -> dict[str, str]:
        tables = feed.tables()
        half = len(tables) // 2
        write_in_order(folder / "t", tables[half:] if number else tables[:half], half * number)
        change = "" if feed.how == "one" else f"&{feed.how}=change"
        return {feed.table: f"parquet:{folder / 't'}?batch-files=1{change}"}

    return Scenario((plan, plan), write, options)


def over_rows(plan: str, **options: Any) -> Scenario:
    """One run over the rows of `test_emit`."""

    def write(folder: Path, _: int) -> dict[str, str]:
        emit.write(folder / "in", emit.BATCHES)
        return {"t": f"parquet:{folder / 'in'}?op=op&batch-files=1"}

    return Scenario((plan,), write, options)


def evolving(before: str, after: str) -> Scenario:
    """A run that continues with another plan."""
    feeds: dict[Path, evolve.Feed] = {}

    def write(folder: Path, _: int) -> dict[str, str]:
        if folder not in feeds:
            feeds[folder] = evolve.Feed(folder / "in")
        feeds[folder].write()
        for number, file in enumerate(sorted((folder / "in").iterdir())):
            age(file, number)
        return {"t": feeds[folder].spec}

    return Scenario((before, after), write)


def replacing() -> Scenario:
    """Rows that replace the row of their key, and deletions."""
    draw = upserts.Customers(7)

    def write(folder: Path, _: int) -> dict[str, str]:
        pick = random.Random(7)
        tables = []
        for _batch in range(3):
            rows = [
                {**draw.draw(pick.randrange(12)), "op": pick.choice(["+I", "+U", "-D"])}
                for _ in range(20)
            ]
            tables.append(upserts.parquet(rows))
        write_in_order(folder / "in", tables)
        return {"customers": f"parquet:{folder / 'in'}?op=op&key=id&batch-files=1"}

    return Scenario((upserts.by_region(),), write)


def in_sets() -> str:
    """Count, sum and maximum per team and window, and per window."""
    windows = Windows()
    keys = [column(0), windows.call("tumble_end", interval(60), interval(7))]
    relation = aggregate(windows.read(), keys, event_runs.MEASURES, sets=[[0, 1], [1]])
    return windows.plan(relation, "team", "w", "c", "s", "m", "set")


def fetching() -> Scenario:
    """The greatest rows of a table, and the rows behind the first ones."""
    plan = Builder().plan(fetched(fetch.BY_AMOUNT, 4, 2), *fetch.COLUMNS)
    return over_feed(plan, Feed("sales", fetch.COLUMNS, "op", fetch._changes(1, 4)))


def windowing() -> Scenario:
    """Values of other rows, of frames that reach any row and of frames that reach some."""
    query = """
        SELECT customer, amount, sum(amount) OVER w AS s, lag(amount, 2) OVER w AS l, ntile(3) OVER w AS n,
            max(amount) OVER (PARTITION BY city ORDER BY amount ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING) AS m
        FROM sales WINDOW w AS (PARTITION BY city ORDER BY amount)
    """
    types = {"string": pa.string(), "i64": pa.int64()}
    columns = pa.schema([(name, types[type_]) for name, type_ in fetch.COLUMNS.items()])
    plan = sa.sql(query, {"sales": columns})
    return over_feed(plan, Feed("sales", fetch.COLUMNS, "op", fetch._changes(1, 4)))


def subtracting() -> Scenario:
    """The rows of one table that are not in another one."""
    plan = Builder().plan(set_operation("minus_primary_all", *sets._tables("t", "u")), "a", "b")
    feeds = [sets._feed(4, "t", batches=4), sets._feed(5, "u", batches=4)]
    return Scenario((plan,), lambda folder, _: {f.table: f.write(folder) for f in feeds})


def hidden_keys(seed: int) -> Scenario:
    """A view without one of its keys, over rows that come and go."""
    rng = random.Random(f"hidden keys {seed}")
    case = hidden.drawn(rng)
    rows = [
        [((rng.choice("XYZ"), rng.choice([None, 1, 2]), rng.choice([None, 0, 1, 2]), rng.choice(hidden.FLOATS)), 1) for _ in range(6)]
        for _ in range(4)
    ]  # fmt: skip
    back = [
        [*new, *((row, -1) for row, _ in old[:3])]
        for old, new in zip(([], *rows), rows, strict=False)
    ]
    return over_feed(case.plan(), Feed("t", hidden.COLUMNS, "op", back))


def retracting(how: str, plan: str, policy: str) -> Scenario:
    """Retractions before their insertions."""
    feed = Feed("t", early.COLUMNS, how, early.changes(random.Random(f"{how} {policy}"), 4))
    return over_feed(plan, feed, early_retraction=policy)


SHORT = Table("goals", drawn(3, batches=4, rows=15), Rule(behind=20))
HOP = Table("goals", drawn(8, batches=4, rows=12, disorder=150), Rule(behind=5, by_team=True))
TWO = (
    Table("goals", drawn(5, batches=4, rows=12), Rule(behind=5)),
    Table("more", drawn(6, batches=4, rows=12, speed=50), Rule(percent=10, events=15)),
)
IDLE = Table("goals", drawn(31, batches=5, rows=12, disorder=200), Rule(behind=10))

SCENARIOS: dict[str, Callable[[], Scenario]] = {
    "tumbling windows": lambda: over_tables(timed.TUMBLE, SHORT),
    "windows emitted by watermark": lambda: over_tables(timed.TUMBLE, SHORT, emit="watermark"),
    "windows emitted by count and watermark": lambda: over_tables(timed.TUMBLE, SHORT, emit="count:4,watermark"),
    "hopping windows": lambda: over_tables(event_runs.plan_of("hop", interval(60), interval(20)), HOP),
    "sessions": lambda: over_tables(event_runs.plan_of("session", interval(15)), SHORT),
    "two tables and a filter": lambda: over_tables(
        event_runs.plan_of("tumble_end", interval(60), interval(7), tables=("goals", "more"), numbers=(1, 2)), *TWO
    ),
    "an aggregate over windows": lambda: over_tables(timed.chained_plan(), SHORT, emit="watermark"),
    "grouping sets over windows": lambda: over_tables(in_sets(), SHORT),
    "time to live": lambda: over_tables(ttl.by_team_and_number(), IDLE, ttl="100s"),
    "time to live, rows kept": lambda: over_tables(ttl.by_team_and_number(), IDLE, ttl="100s:keep"),
    "an aggregate over groups that are forgotten": lambda: over_tables(ttl.by_count(), IDLE, ttl="100s"),
    "emission by count": lambda: over_rows(emit.counting(), emit="count:2"),
    "emission at the end": lambda: over_rows(emit.counting(), emit="end"),
    "a filter over groups that wait": lambda: over_rows(emit.having(), emit="count:2"),
    "early retractions carried": lambda: retracting("op", early.measures_plan(), "carry"),
    "early retractions kept aside": lambda: retracting("op", early.measures_plan(), "quarantine"),
    "early retractions of weights": lambda: retracting("weight", early.measures_plan(), "quarantine"),
    "early retractions of rows": lambda: retracting("op", early.rows_plan(), "quarantine"),
    "upserts": replacing,
    "a fetch": fetching,
    "window functions": windowing,
    "a set operation": subtracting,
    "hidden keys": lambda: hidden_keys(0),
    "hidden keys in sets": lambda: hidden_keys(3),
    "evolution": lambda: evolving(*evolve.PLANS["measures"]),
    "evolution of a chain": lambda: evolving(*evolve.PLANS["chained"]),
    "evolution to a filter": lambda: evolving(*evolve.PLANS["having comes"]),
}  # fmt: skip


IN_TEST = (
    "windows emitted by count and watermark", "sessions", "two tables and a filter", "an aggregate over windows",
    "time to live, rows kept", "early retractions kept aside", "upserts", "a fetch", "window functions", "a set operation",
    "evolution",
)  # fmt: skip
"""At least one scenario per operator, per reason to wait and per policy; the others differ from these only in what operators
do, which their own tests show on the local executor."""


def described(checkpoint: Path) -> dict[str, Any]:
    """Return view and state of a checkpoint, without the parts that differ in every run: names, times and sizes of files."""
    view = sa.open_view(checkpoint)
    store = Checkpoint(checkpoint)
    snapshots = [store.snapshot(version) for version in view.versions()]
    return {
        "view": bag(view.to_arrow()),
        "changes": _changes(view),
        "begun": [change.version for change in view.evolutions()],
        "late": {table: bag(rows) for table, rows in view.late().items()},
        "quarantined": _quarantined(view),
        "counters": [{n: s.counters.get(n, 0) for n in COUNTERS} for s in snapshots],
        "watermarks": [(s.watermark, s.idle, [_timeless(t) for t in s.sources]) for s in snapshots],
        "state": stored_operators(checkpoint),
    }


def _timeless(source: SourceTime) -> SourceTime:
    """Leave out the instants at which rows came."""
    partitions = tuple(replace(p, last_rows_at=0) for p in source.partitions)
    return replace(source, last_rows_at=0, partitions=partitions)


def _changes(view: Any) -> list[dict[int, Bag]]:
    begun = {change.version for change in view.evolutions()}
    before = [None if v in begun or not v else v - 1 for v in view.versions()]
    changes = (view.changes(*pair) for pair in zip(before, view.versions(), strict=True))
    return [changes_by_version(rows) for rows in changes]


def _quarantined(view: Any) -> Any:
    try:
        return bag(view.quarantined())
    except sa.StateRefused as refused:
        return refused.code


@pytest.mark.parametrize("name", sample(SCENARIOS, *IN_TEST))
def test_both_executors_make_the_same_versions(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    scenario = SCENARIOS[name]()
    folders = {"local": tmp_path / "local", "spark": tmp_path / "spark"}
    for folder in folders.values():
        folder.mkdir()
    local = described(scenario.run(run, folders["local"]))
    on_spark = described(SCENARIOS[name]().run(partial(sa.run, spark=spark), folders["spark"]))
    assert any(any(part.values()) for part in local["changes"]), "nothing happens in the scenario"
    for part, found in local.items():
        assert found == on_spark[part], part
