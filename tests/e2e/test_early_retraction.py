"""Early retractions on Spark are carried, refused, or quarantined, counted and listed, across
restarts and rescaling.
"""

from __future__ import annotations

import random
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from tests.e2e import plans
from tests.e2e.feeds import Change, Feed
from tests.e2e.files import write_in_order
from tests.e2e.plans import Builder, aggregate, column, filtered, literal, read, union_all
from tests.e2e.rows import Bag, net
from tests.e2e.running import check_versions
from tests.local.run import run
from tests.operator.measures_reference import measured

COLUMNS = {"k": "i64", "x": "i64", "z": "fp64"}
Batches = Sequence[Sequence[Change]]


def measures_plan() -> str:
    """Every class of state: totals, moments, ends of a tree, live entries, whole lists; z is read with a filter only."""
    build = Builder()
    x, z = (column(1), "i64"), (column(2), "fp64")
    positive = build.call(
        "gt:any_any", plans.COMPARISON, column(1), literal("i64", 0), output="bool"
    )
    distinct = build.measure("count", x, output="i64!")
    distinct["measure"]["invocation"] = "AGGREGATION_INVOCATION_DISTINCT"
    measures = [
        build.measure("count", output="i64!"),
        build.measure("sum", x, output="i64"),
        build.measure("min", x, output="i64"),
        distinct,
        build.measure("sum", z, output="fp64", where=positive),
        build.measure("variance", z, output="fp64"),
        build.measure("median", x, output="i64"),
    ]
    names = ["k", "n", "sum", "min", "distinct", "z", "var", "median"]
    return build.plan(aggregate(read("t", COLUMNS), [column(0)], measures), *names)


def measures_model(rows: Bag) -> Bag:
    """The view of `measures_plan` over rows with weights above zero."""
    groups: dict[Any, Bag] = {}
    for row, weight in rows.items():
        groups.setdefault(row[0], Counter())[row] += weight
    return Counter((key, *_values(rows)) for key, rows in groups.items())


def _values(rows: Bag) -> tuple[Any, ...]:
    xs = sorted(row[1] for row in rows.elements())
    zs = [row[2] for row in rows.elements()]
    variance = statistics.variance(zs) if len(zs) > 1 else None
    kept = [(row[2], weight) for row, weight in rows.items() if row[1] > 0]
    total = measured("sum", kept, "fp64")
    middle = (xs[(len(xs) - 1) // 2] + xs[len(xs) // 2]) / 2
    return len(xs), sum(xs), xs[0], len(set(xs)), total, variance, int(middle)


def read_model(rows: Bag) -> Bag:
    """The columns that `measures_plan` reads: key, x, z if the filter is true, z."""
    return Counter({(k, x, z if x > 0 else None, z): w for (k, x, z), w in rows.items()})


def rows_plan() -> str:
    """The rows for which x is above zero: no aggregate."""
    build = Builder()
    condition = build.call(
        "gt:any_any", plans.COMPARISON, column(1), literal("i64", 0), output="bool"
    )
    return build.plan(filtered(read("t", COLUMNS), condition), "k", "x", "z")


def rows_model(rows: Bag) -> Bag:
    """The view of `rows_plan`."""
    return Counter({row: weight for row, weight in rows.items() if row[1] > 0})


def changes(rng: random.Random, batches: int) -> list[list[Change]]:
    """Rows from a small domain come and go in any order; the last batch brings all that is missing."""
    domain = [(k, x, float(z)) for k in (1, 2, None) for x in (-2, 1, 4) for z in (0, 8)]
    made: list[list[Change]] = []
    for _ in range(batches - 1):
        size = rng.choice((1, 5, 20))
        made.append([(rng.choice(domain), rng.choice((1, 1, -1))) for _ in range(size)])
    balance = net(made)
    made.append(
        [(row, 1) for row, weight in balance.items() for _ in range(-weight)] or [(domain[0], 1)]
    )
    return made


def owed(batches: Batches) -> Bag:
    """Rows with a weight below zero."""
    return Counter({row: weight for row, weight in net(batches).items() if weight < 0})


def listing(table: pa.Table) -> Bag:
    """The rows of a listing with their weights."""
    found: Bag = Counter()
    for *values, weight in zip(*(c.to_pylist() for c in table.columns), strict=True):
        found[tuple(values)] += weight
    return found


class RecordedVersions:
    """What every version of a run showed, counted and listed."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.views: dict[int, Bag] = {}
        self.counts: dict[int, int] = {}
        self.lists: dict[int, Bag] = {}

    def __call__(self, progress: Any) -> None:
        view = sa.open_view(self.checkpoint)
        rows = view.to_arrow(progress.version).to_pylist()
        self.views[progress.version] = Counter(tuple(r.values()) for r in rows)
        self.counts[progress.version] = progress.quarantined
        self.lists[progress.version] = listing(view.quarantined(progress.version))


@pytest.mark.parametrize(
    ("plan", "model"),
    [(measures_plan, measures_model), (rows_plan, rows_model)],
    ids=["measures", "rows"],
)
@pytest.mark.parametrize("how", ["op", "weight"])
def test_quarantine_across_restarts_and_rescaling(
    how: str,
    plan: Callable[[], str],
    model: Callable[[Bag], Bag],
    tmp_path: Path,
) -> None:
    """View, counters and quarantined rows are correct at every version, with another number of
    partitions in each run.
    """
    rng = random.Random(f"{how} {plan.__name__}")
    batches = changes(rng, 7)
    feed = Feed("t", COLUMNS, how, batches)
    change = f"{how}=change"
    kept = RecordedVersions(tmp_path / "checkpoint")
    written = 0
    for partitions, count in ((1, 2), (4, 2), (2, 3)):
        write_in_order(tmp_path / "in", feed.tables()[written : written + count], written)
        written += count
        run(
            plan(),
            {"t": f"parquet:{tmp_path / 'in'}?batch-files=1&{change}"},
            checkpoint=kept.checkpoint,
            partitions=partitions,
            early_retraction="quarantine",
            progress=kept,
        ).wait()
    so_far = [batches[:v] for v in range(len(batches) + 1)]
    check_versions(kept.checkpoint, kept.views, [model(+net(b)) for b in so_far])
    waiting = [(rows_model if plan is rows_plan else read_model)(owed(b)) for b in so_far]
    assert [kept.lists[v] for v in range(len(so_far))] == waiting
    assert [kept.counts[v] for v in range(len(so_far))] == [-sum(w.values()) for w in waiting]
    assert sum(map(bool, waiting)) > 2
    assert not waiting[-1]


def test_carry_never_shows_a_negative_count(tmp_path: Path) -> None:
    """Groups with fewer insertions than retractions are not shown; in the end the view is that of the rows."""
    batches = changes(random.Random("carry"), 6)
    feed = Feed("t", COLUMNS, "op", batches)
    counts: list[Any] = []

    def keep(progress: Any) -> None:
        rows = sa.open_view(tmp_path / "checkpoint").to_arrow(progress.version)
        counts.extend([*rows.column("n").to_pylist(), *rows.column("distinct").to_pylist()])
        assert progress.quarantined == 0

    run(
        measures_plan(),
        {"t": feed.write(tmp_path)},
        checkpoint=tmp_path / "checkpoint",
        progress=keep,
    ).wait()
    assert min(counts) >= 0
    view = sa.open_view(tmp_path / "checkpoint").to_arrow().to_pylist()
    assert Counter(tuple(r.values()) for r in view) == measures_model(+net(batches))


@pytest.mark.parametrize("plan", [measures_plan, rows_plan], ids=["measures", "rows"])
def test_a_refused_batch_runs_once_its_file_is_corrected(
    plan: Callable[[], str], tmp_path: Path
) -> None:
    """Nothing of a refused batch is committed, and the checkpoint continues after its file is
    replaced under the same name.
    """
    row, other = (1, 4, 0.5), (2, 1, 8.0)
    batches = [[(row, 1), (other, 1)], [(other, 1), (row, -1), (row, -1)], [(other, -1)]]
    feed = Feed("t", COLUMNS, "op", batches)
    source = {"t": feed.write(tmp_path)}

    def again() -> None:
        run(plan(), source, checkpoint=tmp_path / "ck", early_retraction="refuse").wait()

    for _ in range(2):
        with pytest.raises(sa.RunFailed, match=r"the first is .*\b4, ") as caught:
            again()
        assert caught.value.code == "EARLY_RETRACTION"
        assert sa.open_view(tmp_path / "ck").versions() == [0, 1]
    corrected = [batches[0], [(other, 1), (row, -1)], batches[2]]
    table = replace(feed, batches=corrected).tables()[1]
    pq.write_table(table, tmp_path / "t" / "part-0001.parquet")
    again()
    view = sa.open_view(tmp_path / "ck")
    assert view.versions() == [0, 1, 2, 3]
    model = measures_model if plan is measures_plan else rows_model
    rows = view.to_arrow().to_pylist()
    assert Counter(tuple(r.values()) for r in rows) == model(+net(corrected))


def test_two_tables_are_listed_side_by_side(tmp_path: Path) -> None:
    """Each aggregate over a table has its own quarantine; aggregates above have none."""
    build = Builder()
    total = build.measure("sum", (column(1), "i64"), output="i64")
    small = {"k": "i64", "x": "i64"}
    both = union_all(*(aggregate(read(t, small), [column(0)], [total]) for t in ("a", "b")))
    again = aggregate(both, [], [build.measure("sum", (column(1), "i64"), output="i64")])
    feeds = [
        Feed("a", small, "op", [[((1, 5), -1), ((2, 1), 1)]]),
        Feed("b", small, "op", [[((3, 7), -1), ((3, 7), -1)]]),
    ]
    run(
        build.plan(again, "total"),
        {feed.table: feed.write(tmp_path) for feed in feeds},
        checkpoint=tmp_path / "ck",
        early_retraction="quarantine",
    ).wait()
    view = sa.open_view(tmp_path / "ck")
    assert view.to_arrow().to_pylist() == [{"total": 1}]
    assert view.quarantined().to_pylist() == [
        {"__operator": 0, "0.k": 1, "0.x": 5, "1.k": None, "1.x": None, "__weight": -1},
        {"__operator": 1, "0.k": None, "0.x": None, "1.k": 3, "1.x": 7, "__weight": -2},
    ]


def test_a_checkpoint_keeps_its_policy(tmp_path: Path) -> None:
    """The state depends on the policy; without retractions the policy has no effect."""
    feed = Feed("t", COLUMNS, "op", [[((1, 4, 0.0), 1)]])
    source = {"t": feed.write(tmp_path)}

    def run_with(policy: str, **more: Any) -> None:
        options = {"checkpoint": tmp_path / "ck", **more}
        run(
            measures_plan(), options.pop("source", source), early_retraction=policy, **options
        ).wait()

    run_with("refuse")
    for policy in ("carry", "quarantine"):
        with pytest.raises(sa.StateRefused, match="with --early-retraction refuse") as caught:
            run_with(policy)
        assert caught.value.code == "EARLY_RETRACTION_DIFFERS"
    with pytest.raises(sa.StateRefused, match="this checkpoint has no quarantine") as caught:
        sa.open_view(tmp_path / "ck").quarantined()
    assert caught.value.code == "NOT_QUARANTINED"
    inserts = {"t": f"parquet:{tmp_path / 't'}?batch-files=1"}
    run_with("refuse", source=inserts, checkpoint=tmp_path / "inserts")
    run_with("carry", source=inserts, checkpoint=tmp_path / "inserts")


def test_an_unknown_policy_is_a_wrong_call(tmp_path: Path) -> None:
    with pytest.raises(sa.UsageError, match="'drop' is not one of carry, refuse, quarantine"):
        sa.run(measures_plan(), {}, checkpoint=tmp_path / "ck", early_retraction="drop")
