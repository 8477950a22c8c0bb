"""Event time through Spark: watermarks, late rows, triggers and closed windows against recomputation in plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import substrait_agg as sa
from tests.e2e import plans
from tests.e2e.event_model import (
    SECOND,
    Groups,
    Rule,
    Table,
    Told,
    Window,
    drawn,
    end,
    hopping,
    in_sessions,
    in_windows,
    measured,
    struct,
    tumbling,
)
from tests.e2e.held import Held, held
from tests.e2e.rows import Bag, bag, running_sums
from tests.windowed import COUNT, MAX, SUM, Windows, aggregate, column, interval

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from substrait_agg.metrics import Progress

pytestmark = pytest.mark.spark

MEASURES = (COUNT, SUM, MAX)


def plan_of(name: str, *durations: Any, tables: Sequence[str] = ("goals",)) -> str:
    """Count, sum and maximum per team and window over one table, or over all rows of several."""
    windows = Windows()
    reads = [windows.read(table) for table in tables]
    source = reads[0] if len(reads) == 1 else plans.union_all(*reads)
    relation = aggregate(source, [column(0), windows.call(name, *durations)], MEASURES)
    parts = () if name.startswith("tumble_") else ("start", "end")
    return windows.plan(relation, "team", "w", *parts, "c", "s", "m")


def start(
    spark: SparkSession, folder: Path, plan: str, tables: Sequence[Table], **options: Any
) -> Any:
    """Start a run over files that are there; the sources' rules are those of the tables."""
    sources = {t.name: f"parquet:{folder / t.name}?op=op&batch-files=1" for t in tables}
    rules = {f"{t.name}.t": t.rule.text for t in tables if t.rule is not None}
    return sa.run(
        plan,
        options.pop("sources", sources),
        checkpoint=options.pop("checkpoint", folder / "checkpoint"),
        spark=spark,
        watermark=options.pop("watermark", rules),
        partitions=2,
        **options,
    )


def maintained(
    spark: SparkSession, folder: Path, plan: str, tables: Sequence[Table], **options: Any
) -> list[Progress]:
    """Run to the end of the input; the progress of every version."""
    for table in tables:
        table.write(folder)
    seen: list[Progress] = []
    start(spark, folder, plan, tables, progress=seen.append, **options).wait()
    return seen


def views(folder: Path) -> list[Bag]:
    """The view of every version, as the sum of the changes; none may retract what is not there."""
    view = sa.open_view(folder / "checkpoint")
    sums = running_sums(view.changes(), view.versions())
    assert bag(view.to_arrow()) == sums[view.version]
    return [sums[version] for version in view.versions()]


def check_clock(seen: Sequence[Progress], told: Told) -> None:
    """Watermark and late rows of every version with rows."""
    versions = len(told.watermarks)
    wanted = [None if w is None else w * SECOND for w in told.watermarks]
    assert [p.watermark for p in seen[:versions]] == wanted
    assert [p.late_rows for p in seen[:versions]] == told.late
    assert {p.late_rows for p in seen[versions:]} <= {told.late[-1]}


def check_every_batch(
    folder: Path, seen: Sequence[Progress], told: Told, shown: Callable[[Window], Any]
) -> None:
    """Emitted with every batch, each version is what the rows up to it make that were not late."""
    check_clock(seen, told)
    found = views(folder)
    assert len(found) == len(told.groups)
    for version, groups in enumerate(told.groups):
        assert found[version] == measured(groups, shown), version


# --- every version against the model --------------------------------------------------------------

TUMBLE = plan_of("tumble_end", interval(60), interval(7))
DISORDERLY = Table("goals", drawn(3), Rule(behind=20))


def test_a_window_closes_when_the_watermark_passes_it(spark: SparkSession, tmp_path: Path) -> None:
    """Emitted once, and then nothing is kept of it but what the view shows; what comes later is late."""
    told = in_windows([DISORDERLY], tumbling(60, 7))
    assert told.late[-1] > 5, "the rows are in too good an order"
    seen = maintained(spark, tmp_path, TUMBLE, [DISORDERLY], emit="watermark")
    check_clock(seen, told)
    *before, last = views(tmp_path)
    assert before == [measured(told.complete(v), end) for v in range(len(before))]
    assert last == measured(told.groups[-1], end)
    assert seen[-1].input_ended
    check_freed(held(tmp_path / "checkpoint")[-1], told, waits=0)


def check_freed(found: Held, told: Told, *, waits: int | None = None) -> None:
    """What an operator holds: nothing of windows that the watermark has passed."""
    last = len(told.groups) - 1
    still = told.open(last)
    assert found.groups == len(still)
    assert found.closed == sum(measured(told.complete(last), end).values())
    # One ordered tree, of the maximum: an entry per value.
    values = sum(len([n for n in numbers if n is not None]) for numbers in still.values())
    assert found.entries == (values,)
    assert waits is None or found.pending == waits


def test_two_sources_have_watermarks_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    """The least of them counts, one by percentile, and a third table has no say; every version is as recomputed."""
    tables = [
        Table("goals", drawn(5, rows=20), Rule(behind=5)),
        Table("more", drawn(6, rows=20, speed=50), Rule(percent=10, events=15)),
    ]
    told = in_windows(tables, tumbling(60, 7))
    assert told.late[-1] > 5
    plan = plan_of("tumble_end", interval(60), interval(7), tables=("goals", "more"))
    seen = maintained(spark, tmp_path, plan, tables, emit="batch")
    check_every_batch(tmp_path, seen, told, end)
    check_freed(held(tmp_path / "checkpoint")[-1], told)


def test_hopping_windows_close_one_after_the_other(spark: SparkSession, tmp_path: Path) -> None:
    """A row whose first windows are closed still counts in the later ones; the teams are partitions with watermarks of
    their own, of which the least counts."""
    table = Table("goals", drawn(8, disorder=150), Rule(behind=5, by_team=True))
    told = in_windows([table], hopping(60, 20))
    assert told.late[-1] > 0
    plan = plan_of("hop", interval(60), interval(20))
    seen = maintained(spark, tmp_path, plan, [table], emit="batch")
    check_every_batch(tmp_path, seen, told, struct)
    check_freed(held(tmp_path / "checkpoint")[-1], told)


def test_sessions_end(spark: SparkSession, tmp_path: Path) -> None:
    """Sessions grow, join and split as rows come and go, until the watermark passes them; then their rows are dropped."""
    table = Table("goals", drawn(9, batches=7, rows=12), Rule(behind=10))
    told = in_sessions([table], 15)
    assert told.late[-1] > 3
    seen = maintained(spark, tmp_path, plan_of("session", interval(15)), [table], emit="batch")
    check_every_batch(tmp_path, seen, told, struct)
    sessions, grouped = held(tmp_path / "checkpoint")
    last = len(told.groups) - 1
    assert grouped.groups == len(told.open(last))
    assert grouped.closed == len(told.complete(last))
    timed = sum(sum(n.values()) for (_, w), n in told.open(last).items())
    assert 0 < sessions.entries[0] <= timed


def by_window(groups: Groups) -> Bag:
    """Per window: how many teams, their rows."""
    teams: dict[Window, list[int]] = {}
    for (_, window), numbers in groups.items():
        if sum(numbers.values()) > 0:
            teams.setdefault(window, []).append(sum(numbers.values()))
    return Counter({(end(w), len(rows), sum(rows), max(rows)): 1 for w, rows in teams.items()})


def chained_plan() -> str:
    """Per window, the teams and their rows, over rows per team and window."""
    windows = Windows()
    keys = [column(0), windows.call("tumble_end", interval(60), interval(7))]
    inner = aggregate(windows.read(), keys, (COUNT,))
    outer = aggregate(inner, [column(1)], MEASURES)
    return windows.plan(outer, "w", "teams", "rows", "most")


@pytest.mark.parametrize("emit", ["batch", "watermark"])
def test_an_aggregate_over_windows_closes_with_them(
    emit: str, spark: SparkSession, tmp_path: Path
) -> None:
    """The key of the aggregate above tells the event time of the one below; both keep nothing of closed windows."""
    told = in_windows([DISORDERLY], tumbling(60, 7))
    seen = maintained(spark, tmp_path, chained_plan(), [DISORDERLY], emit=emit)
    check_clock(seen, told)
    found = views(tmp_path)
    for version, groups in enumerate(told.groups):
        shown = groups if emit == "batch" else told.complete(version)
        assert found[version] == by_window(shown), version
    assert found[-1] == by_window(told.groups[-1])
    below, above = held(tmp_path / "checkpoint")
    still = told.open(len(told.groups) - 1)
    assert (below.groups, below.closed) == (len(still), 0)
    assert above.groups == len({window for _, window in still})


def test_rows_that_do_not_stream_are_never_late(spark: SparkSession, tmp_path: Path) -> None:
    """A DataFrame that is read once comes before any watermark, and does not hold it either."""
    from tests.e2e.event_model import _file

    once = [(("a", 1, 5), 1), (("b", 70, 6), 1), (("b", None, 7), 1)]
    static = Table("more", [])
    told = in_windows([DISORDERLY], tumbling(60, 7))
    frame = spark.createDataFrame(_file(once).drop_columns(["op"]))
    DISORDERLY.write(tmp_path)
    seen: list[Progress] = []
    sources = {"goals": f"parquet:{tmp_path / 'goals'}?op=op&batch-files=1", "more": frame}
    plan = plan_of("tumble_end", interval(60), interval(7), tables=("goals", "more"))
    start(
        spark, tmp_path, plan, [DISORDERLY, static], sources=sources, progress=seen.append
    ).wait()  # fmt: skip
    for groups in told.groups:
        for (team, at, n), _ in once:
            window = None if at is None else next(tumbling(60, 7)(at))
            groups.setdefault((team, window), Counter())[n] += 1
    check_every_batch(tmp_path, seen, told, end)


# --- triggers -------------------------------------------------------------------------------------

IN_TIME = Table("goals", drawn(11, batches=4), Rule(behind=200))


@pytest.mark.parametrize(
    "emit",
    ["batch", "watermark", "count:3", "delay:1h", "end", "count:4,watermark", "delay:1ms,count:2"],
)
def test_every_policy_ends_in_the_same_view(emit: str, spark: SparkSession, tmp_path: Path) -> None:
    """Where no row is late; and on the way each retraction is of the row last emitted."""
    told = in_windows([IN_TIME], tumbling(30))
    assert told.late[-1] == 0
    assert told.complete(4)
    plan = plan_of("tumble_end", interval(30))
    seen = maintained(spark, tmp_path, plan, [IN_TIME], emit=emit)
    check_clock(seen, told)
    assert views(tmp_path)[-1] == measured(told.groups[-1], end)
    assert held(tmp_path / "checkpoint")[-1].pending == 0
    assert seen[-1].groups_waiting == 0
