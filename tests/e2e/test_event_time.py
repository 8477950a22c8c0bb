"""Event time through Spark: watermarks, late rows, triggers and closed windows against recomputation in plain Python."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import substrait_agg as sa
from tests.e2e import plans
from tests.e2e.event_model import (
    EPOCH,
    SECOND,
    Change,
    Groups,
    ModelResult,
    Rule,
    Table,
    Window,
    drawn,
    end,
    file_of,
    hopping,
    in_sessions,
    in_windows,
    instant,
    measured,
    struct,
    tumbling,
)
from tests.e2e.event_runs import (
    MEASURES,
    check_clock,
    check_every_batch,
    check_kept_aside,
    maintained,
    plan_of,
    start,
    views,
)
from tests.e2e.files import write_in_order
from tests.e2e.killing import Command
from tests.e2e.rows import Bag
from tests.e2e.stored_state import StoredOperator, snapshot, stored_operators
from tests.local.run import run
from tests.sampling import sample
from tests.windowed import COUNT, Windows, aggregate, column, interval

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from substrait_agg.metrics import Progress


# --- every version against the model --------------------------------------------------------------

TUMBLE = plan_of("tumble_end", interval(60), interval(7))
DISORDERLY = Table("goals", drawn(3), Rule(behind=20))


def test_a_window_closes_when_the_watermark_passes_it(tmp_path: Path) -> None:
    """A complete group is emitted once, then only its row is stored; later rows are late."""
    told = in_windows([DISORDERLY], tumbling(60, 7))
    assert told.late[-1] > 5, "the rows are in too good an order"
    seen = maintained(tmp_path, TUMBLE, [DISORDERLY], emit="watermark")
    check_clock(seen, told)
    *before, last = views(tmp_path)
    assert before == [measured(told.complete(v), end) for v in range(len(before))]
    assert last == measured(told.groups[-1], end)
    assert seen[-1].input_ended
    check_freed(stored_operators(tmp_path / "checkpoint")[-1], told, waits=0)


def check_freed(found: StoredOperator, told: ModelResult, *, waits: int | None = None) -> None:
    """Check that the state of an operator has no windows that the watermark has passed."""
    last = len(told.groups) - 1
    still = told.open(last)
    assert found.groups == len(still)
    assert found.closed == sum(measured(told.complete(last), end).values())
    # One ordered tree, of the maximum: an entry per value.
    values = sum(len([n for n in numbers if n is not None]) for numbers in still.values())
    assert found.entries == (values,)
    assert waits is None or found.pending == waits


def test_two_sources_have_watermarks_of_their_own(tmp_path: Path) -> None:
    """The least watermark of two sources counts; they advance with all rows, also those that the
    plan filters out.
    """
    tables = [
        Table("goals", drawn(5, rows=20), Rule(behind=5)),
        Table("more", drawn(6, rows=20, speed=50), Rule(percent=10, events=15)),
    ]
    told = in_windows(tables, tumbling(60, 7), lambda row: row[2] in (1, 2))
    assert told.late[-1] > 5
    names = [table.name for table in tables]
    plan = plan_of("tumble_end", interval(60), interval(7), tables=names, numbers=(1, 2))
    late = f"late-parquet={tmp_path / 'late'}"
    seen = maintained(tmp_path, plan, tables, emit="batch", outputs=[late])
    check_every_batch(tmp_path, seen, told, end)
    check_kept_aside(tmp_path, told)
    check_freed(stored_operators(tmp_path / "checkpoint")[-1], told)


def test_hopping_windows_close_one_after_the_other(tmp_path: Path) -> None:
    """A row whose first windows are closed counts in the later ones; each team is a partition, and
    the least watermark counts.
    """
    table = Table("goals", drawn(8, disorder=150), Rule(behind=5, by_team=True))
    told = in_windows([table], hopping(60, 20))
    assert told.late[-1] > 0
    plan = plan_of("hop", interval(60), interval(20))
    seen = maintained(tmp_path, plan, [table], emit="batch")
    check_every_batch(tmp_path, seen, told, struct)
    check_freed(stored_operators(tmp_path / "checkpoint")[-1], told)


def test_sessions_end(tmp_path: Path) -> None:
    """Sessions grow, merge and split until the watermark passes them; then their rows are dropped."""
    table = Table("goals", drawn(9, batches=7, rows=12), Rule(behind=10))
    told = in_sessions([table], 15)
    assert told.late[-1] > 3
    seen = maintained(tmp_path, plan_of("session", interval(15)), [table], emit="batch")
    check_every_batch(tmp_path, seen, told, struct)
    sessions, grouped = stored_operators(tmp_path / "checkpoint")
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
def test_an_aggregate_over_windows_closes_with_them(emit: str, tmp_path: Path) -> None:
    """The key of the upper aggregate depends on the event time of the lower one; both delete closed windows."""
    told = in_windows([DISORDERLY], tumbling(60, 7))
    seen = maintained(tmp_path, chained_plan(), [DISORDERLY], emit=emit)
    check_clock(seen, told)
    found = views(tmp_path)
    for version, groups in enumerate(told.groups):
        shown = groups if emit == "batch" else told.complete(version)
        assert found[version] == by_window(shown), version
    assert found[-1] == by_window(told.groups[-1])
    below, above = stored_operators(tmp_path / "checkpoint")
    still = told.open(len(told.groups) - 1)
    assert (below.groups, below.closed) == (len(still), 0)
    assert above.groups == len({window for _, window in still})


def test_rows_that_do_not_stream_are_never_late(spark: SparkSession, tmp_path: Path) -> None:
    """A static DataFrame is read before there is a watermark, and does not hold the watermark back."""
    once = [(("a", 1, 5), 1), (("b", 70, 6), 1), (("b", None, 7), 1)]
    told = in_windows([DISORDERLY], tumbling(60, 7))
    frame = spark.createDataFrame(file_of(once).drop_columns(["op"]))
    DISORDERLY.write(tmp_path)
    seen: list[Progress] = []
    sources = {"goals": f"parquet:{tmp_path / 'goals'}?op=op&batch-files=1", "more": frame}
    plan = plan_of("tumble_end", interval(60), interval(7), tables=("goals", "more"))
    sa.run(
        plan, sources, checkpoint=tmp_path / "checkpoint", spark=spark, partitions=2, progress=seen.append,
        watermark={"goals.t": "max-diff:20s"},
    ).wait()  # fmt: skip
    for groups in told.groups:
        for (team, at, n), _ in once:
            window = None if at is None else next(tumbling(60, 7)(at))
            groups.setdefault((team, window), Counter())[n] += 1
    check_every_batch(tmp_path, seen, told, end)


def test_dates_are_event_times(tmp_path: Path) -> None:
    """A day is complete when the watermark is at a later day."""
    days = [[1, 2], [1, 4], [2, 3], [9]]
    write_in_order(tmp_path / "visits", [pa.table({"day": pa.array(d, pa.date32())}) for d in days])
    build = plans.Builder()
    source = plans.read("visits", {"day": "date"})
    counts = plans.aggregate(source, [column(0)], [build.measure("count", output="i64!")])
    started = run(
        build.plan(counts, "day", "visits"),
        {"visits": f"parquet:{tmp_path / 'visits'}?batch-files=1"},
        checkpoint=tmp_path / "checkpoint",
        emit="watermark",
        watermark={"visits.day": "max-diff:1d"},
    )
    started.wait()
    shown = [{(row[0] - EPOCH.date()).days: row[1] for row in rows} for rows in views(tmp_path)]
    early, later = {1: 2, 2: 1}, {1: 2, 2: 1, 3: 1, 4: 1}
    assert shown == [{}, {}, early, early, later, {**later, 9: 1}]
    assert started.progress.late_rows == 1


def test_grouping_sets_close_together(tmp_path: Path) -> None:
    """Sets per team and window and per window both close by event time, and a late row counts once."""
    windows = Windows()
    keys = [column(0), windows.call("tumble_end", interval(60), interval(7))]
    relation = aggregate(windows.read(), keys, MEASURES, sets=[[0, 1], [1]])
    plan = windows.plan(relation, "team", "w", "c", "s", "m", "set")
    told = in_windows([DISORDERLY], tumbling(60, 7))
    seen = maintained(tmp_path, plan, [DISORDERLY], emit="watermark")
    check_clock(seen, told)

    def in_sets(groups: Groups) -> Bag:
        whole: Groups = {}
        for (_, window), numbers in groups.items():
            whole.setdefault((None, window), Counter()).update(numbers)
        parts = enumerate((groups, whole))
        return Counter(
            {(*row, i): n for i, part in parts for row, n in measured(part, end).items()}
        )

    *before, last = views(tmp_path)
    assert before == [in_sets(told.complete(v)) for v in range(len(before))]
    assert last == in_sets(told.groups[-1])
    still = told.open(len(told.groups) - 1)
    (stored,) = stored_operators(tmp_path / "checkpoint")
    assert stored.groups == len(still) + len({window for _, window in still})


@pytest.mark.parametrize("name", ["tumble_end", "session"])
def test_what_waits_for_its_insertion_goes_with_its_window(name: str, tmp_path: Path) -> None:
    """A deletion in quarantine is removed when its window closes, and is no longer reported."""
    batches: list[list[Change]] = [
        [(("a", 10, 5), -1), (("a", 11, 1), 1), (("b", 12, 3), -1)],
        [(("b", 12, 3), 1), (("c", 95, 4), -1)],
        [(("a", 100, 1), 1)],
    ]
    table = Table("goals", batches, Rule(behind=0))
    seen = maintained(
        tmp_path, plan_of(name, interval(60)), [table], early_retraction="quarantine"
    )  # fmt: skip
    assert [p.quarantined for p in seen] == [0, 2, 1, 1]
    view = sa.open_view(tmp_path / "checkpoint")
    assert view.quarantined().num_rows == 1
    shown = {(row[0], *row[2:]) for row in views(tmp_path)[-1]}
    assert shown == {("a", 1, 1, 1)}
    assert len(view.to_arrow()) == 2


WINDOWS: dict[str, tuple[Any, Callable[[Sequence[Table]], ModelResult], Callable[[Window], Any]]] = {
    "tumble_end": ((interval(45),), lambda tables: in_windows(tables, tumbling(45)), end),
    "tumble": (
        (interval(60), interval(-7)), lambda tables: in_windows(tables, tumbling(60, -7)), struct,
    ),
    "hop": (
        (interval(50), interval(20), interval(7)),
        lambda tables: in_windows(tables, hopping(50, 20, 7)),
        struct,
    ),
    "session": ((interval(20),), lambda tables: in_sessions(tables, 20), struct),
}  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("name", WINDOWS)
def test_random_streams(name: str, seed: int, tmp_path: Path) -> None:
    """Any window over one or two tables, by any rule, in any disorder, stopped once; every version against the model."""
    pick = random.Random(f"{name} {seed}")
    durations, model, shown = WINDOWS[name]
    tables = [
        Table(
            table,
            drawn(
                pick.randrange(10**6), rows=pick.randrange(3, 30), speed=pick.choice((10, 60, 300)),
                disorder=pick.choice((1, 60, 400)),
            ),
            pick.choice((
                Rule(behind=0), Rule(behind=30), Rule(behind=10, by_team=True),
                Rule(percent=0, events=3), Rule(percent=40, events=25),
            )),
        )
        for table in ("goals", "more")[: pick.choice((1, 2))]
    ]  # fmt: skip
    emit, stop = pick.choice(("batch", "watermark")), pick.randrange(1, 5)
    told = model(tables)
    for table in tables:
        table.write(tmp_path, last=stop)
    plan = plan_of(name, *durations, tables=[table.name for table in tables])
    late = f"late-parquet={tmp_path / 'late'}"
    started = start(tmp_path, plan, tables, emit=emit, outputs=[late], until="100ms")
    started.stop()
    for table in tables:
        table.write(tmp_path, first=stop)
    start(tmp_path, plan, tables, emit=emit, outputs=[late]).wait()
    check_kept_aside(tmp_path, told)
    found = views(tmp_path)
    for version, groups in enumerate(told.groups):
        now = groups if emit == "batch" else told.complete(version)
        assert found[version] == measured(now, shown), version
    assert found[-1] == measured(told.groups[-1], shown)
    grouped = stored_operators(tmp_path / "checkpoint")[-1]
    assert grouped.groups == len(told.open(len(told.groups) - 1))


# --- triggers -------------------------------------------------------------------------------------

IN_TIME = Table("goals", drawn(11, batches=4), Rule(behind=200))


@pytest.mark.parametrize(
    "emit",
    sample(
        [
            "batch",
            "watermark",
            "count:3",
            "delay:1h",
            "end",
            "count:4,watermark",
            "delay:1ms,count:2",
        ],
        "watermark",
        "count:4,watermark",
        "delay:1ms,count:2",
    ),
)
def test_every_policy_ends_in_the_same_view(emit: str, tmp_path: Path) -> None:
    """Without late rows all policies end with the same view, and each retraction is of the row last
    emitted.
    """
    told = in_windows([IN_TIME], tumbling(30))
    assert told.late[-1] == 0
    assert told.complete(4)
    plan = plan_of("tumble_end", interval(30))
    seen = maintained(tmp_path, plan, [IN_TIME], emit=emit)
    check_clock(seen, told)
    assert views(tmp_path)[-1] == measured(told.groups[-1], end)
    assert stored_operators(tmp_path / "checkpoint")[-1].pending == 0
    assert seen[-1].groups_waiting == 0


# --- stops, continuations, kills ------------------------------------------------------------------


def check_each_emitted_once(
    folder: Path, told: ModelResult, shown: Callable[[Window], Any]
) -> None:
    """Emitted by watermark, each version shows the windows that it has passed; the last one shows all."""
    *before, last = views(folder)
    assert before == [measured(told.complete(v), shown) for v in range(len(told.groups))]
    assert last == measured(told.groups[-1], shown)


def test_a_stop_in_between_changes_nothing(tmp_path: Path) -> None:
    """Two runs over one checkpoint make the versions of a single run: watermark, late rows, pending and closed groups continue."""
    told = in_windows([DISORDERLY], tumbling(60, 7))
    DISORDERLY.write(tmp_path, last=3)
    started = start(tmp_path, TUMBLE, [DISORDERLY], emit="watermark", until="100ms")
    started.stop()
    assert started.progress.late_rows == told.late[3]
    DISORDERLY.write(tmp_path, first=3)
    seen: list[Progress] = []
    start(
        tmp_path, TUMBLE, [DISORDERLY], emit="watermark", progress=seen.append
    ).wait()  # fmt: skip
    check_each_emitted_once(tmp_path, told, end)
    assert seen[-1].late_rows == told.late[-1] - told.late[3]
    check_freed(stored_operators(tmp_path / "checkpoint")[-1], told, waits=0)


def test_rows_behind_the_end_of_an_input_are_not_late(tmp_path: Path) -> None:
    """The end of the input emits everything with an infinite watermark; a continued run starts from
    the real watermark.
    """
    told = in_windows([DISORDERLY], tumbling(60, 7))
    DISORDERLY.write(tmp_path, last=3)
    first = start(tmp_path, TUMBLE, [DISORDERLY], emit="watermark")
    first.wait()
    assert first.progress.input_ended
    assert views(tmp_path)[-1] == measured(told.groups[3], end)
    assert snapshot(tmp_path / "checkpoint").watermark == (told.watermarks[3] or 0) * SECOND
    DISORDERLY.write(tmp_path, first=3)
    second = start(tmp_path, TUMBLE, [DISORDERLY], emit="watermark")
    second.wait()
    assert second.progress.late_rows == told.late[-1] - told.late[3]
    assert views(tmp_path)[-1] == measured(told.groups[-1], end)
    check_freed(stored_operators(tmp_path / "checkpoint")[-1], told, waits=0)


def killed(folder: Path, seed: int, kills: Sequence[int]) -> None:
    """Run the command over random rows of two tables, kill it after some numbers of versions, and
    check the final state.
    """
    rng = random.Random(seed)
    batches = sum(kills) + 6
    tables = [
        Table("goals", drawn(seed, batches, rows=20), Rule(behind=5)),
        Table("more", drawn(seed + 1, batches, rows=20, speed=50), Rule(percent=20, events=30)),
    ]
    names = [table.name for table in tables]
    (folder / "plan.json").write_text(
        plan_of("tumble_end", interval(60), interval(7), tables=names)
    )
    arguments = [str(folder / "plan.json"), "--emit", "watermark", "--no-progress"]
    arguments += ["--master", "local[2]", "--output", f"stream-json={folder / 'out.jsonl'}"]
    arguments += ["--output", f"late-parquet={folder / 'late'}"]
    for table in tables:
        arguments += ["--source", f"{table.name}={table.write(folder)}"]
        arguments += ["--watermark", f"{table.name}.t={table.rule.text if table.rule else ''}"]
    command = Command(tuple(arguments), folder / "checkpoint", folder / "log")
    for versions in kills:
        command.kill_after(versions, rng.uniform(0, 0.6))
    command.finish()
    told = in_windows(tables, tumbling(60, 7))
    assert told.late[-1] > 0
    check_each_emitted_once(folder, told, end)
    check_kept_aside(folder, told)
    check_freed(stored_operators(folder / "checkpoint")[-1], told, waits=0)
    lines = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert len(lines) == sa.open_view(folder / "checkpoint").changes().num_rows


@pytest.mark.soak
def test_a_kill_leaves_no_trace(tmp_path: Path) -> None:
    """After kills between emissions no window is lost, emitted twice, or emitted with late rows."""
    killed(tmp_path, 21, (3,))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(6))
def test_a_kill_after_every_version(seed: int, tmp_path: Path) -> None:
    killed(tmp_path, 100 + 10 * seed, (1,) * 8)


# --- idle sources ---------------------------------------------------------------------------------


def test_a_source_that_falls_idle_holds_the_watermark_no_longer(tmp_path: Path) -> None:
    """An idle source does not hold the watermark back; when it resumes, its old rows are late."""
    goals = Table("goals", [[(("a", 10, 1), 1)], [(("a", 200, 1), 1)]], Rule(behind=0))
    more = Table("more", [[(("b", 20, 1), 1)], [(("b", 30, 1), 1), (("b", 250, 1), 1)]])
    rules = {"goals.t": "max-diff:0s", "more.t": "max-diff:0s,idle:3s"}
    plan = plan_of("tumble_end", interval(60), tables=("goals", "more"))
    goals.write(tmp_path)
    more.write(tmp_path, last=1)
    now = [1_700_000_000 * SECOND]
    options: dict[str, Any] = {"emit": "watermark", "watermark": rules, "clock": lambda: now[0]}
    started = start(tmp_path, plan, [goals, more], until="100ms", **options)
    assert started.progress.watermark == 20 * SECOND
    now[0] += 2 * SECOND
    started.advance()
    assert started.progress.watermark == 20 * SECOND
    now[0] += SECOND
    started.advance()
    assert started.progress.watermark == 200 * SECOND
    started.stop()
    first = {row[:3] for row in views(tmp_path)[-1]}
    assert first == {("a", instant(60), 1), ("b", instant(60), 1)}
    more.write(tmp_path, first=1)
    again = start(tmp_path, plan, [goals, more], **options)
    again.wait()
    assert again.progress.late_rows == 1
    late = first | {("a", instant(240), 1), ("b", instant(300), 1)}
    assert {row[:3] for row in views(tmp_path)[-1]} == late


# --- what is refused ------------------------------------------------------------------------------

BY_TEAM = Windows().plan(aggregate(Windows().read(), [column(0)], (COUNT,)), "team", "c")
IN_ALL = Windows().plan(aggregate(Windows().read(), [], (COUNT,)), "c")
RIGHT = {"goals.t": "max-diff:5s"}

REFUSED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "no watermark to emit by": ("EVENT_TIME_MISSING", TUMBLE, {"emit": "watermark"}),
    "no key of event time": (
        "EVENT_TIME_MISSING", BY_TEAM, {"emit": "count:2,watermark", "watermark": RIGHT},
    ),
    "no such column": ("WATERMARK_COLUMN", TUMBLE, {"watermark": {"goals.time": "max-diff:5s"}}),
    "no such table": ("WATERMARK_COLUMN", TUMBLE, {"watermark": {"fouls.t": "max-diff:5s"}}),
    "no column at all": ("WATERMARK_COLUMN", TUMBLE, {"watermark": {"goals": "max-diff:5s"}}),
    "no time": ("WATERMARK_COLUMN", TUMBLE, {"watermark": {"goals.n": "max-diff:5s"}}),
    "no column of partitions": (
        "WATERMARK_COLUMN", TUMBLE, {"watermark": {"goals.t": "max-diff:5s,by:shard"}},
    ),
    "no rule": ("OPTION_INVALID", TUMBLE, {"watermark": {"goals.t": "5s"}}),
    "no duration": ("OPTION_INVALID", TUMBLE, {"watermark": {"goals.t": "max-diff:soon"}}),
    "no percentage": ("OPTION_INVALID", TUMBLE, {"watermark": {"goals.t": "percentile:100:5:5"}}),
    "partitions of a percentile": (
        "OPTION_INVALID", TUMBLE, {"watermark": {"goals.t": "percentile:10:5:5,by:team"}},
    ),
    "two rules of idleness": (
        "OPTION_INVALID", TUMBLE, {"watermark": {"goals.t": "max-diff:5s,idle:1m,idle:2m"}},
    ),
    "no time to live": ("OPTION_INVALID", BY_TEAM, {"ttl": "0s"}),
    "no way to forget": ("OPTION_INVALID", BY_TEAM, {"ttl": "1h:drop"}),
    "no groups to forget": ("TTL_MEANINGLESS", IN_ALL, {"ttl": "1h"}),
    "groups that close anyway": ("TTL_MEANINGLESS", TUMBLE, {"ttl": "1h", "watermark": RIGHT}),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_honoured_is_refused_before_anything(name: str, tmp_path: Path) -> None:
    """Invalid options of event time are refused before Spark starts or a folder is created."""
    code, plan, options = REFUSED[name]
    DISORDERLY.write(tmp_path, last=1)
    with pytest.raises(sa.UsageError) as refused:
        sa.run(
            plan,
            {"goals": f"parquet:{tmp_path / 'goals'}"},
            checkpoint=tmp_path / "checkpoint",
            **options,
        )
    assert refused.value.code == code
    assert refused.value.help
    assert not (tmp_path / "checkpoint").exists()


@pytest.mark.usefixtures("spark")
def test_a_table_of_a_union_without_a_watermark_is_named(tmp_path: Path) -> None:
    """The key of the groups follows the watermark of one table only."""
    text = (
        "CREATE TABLE goals (t timestamp, n int); CREATE TABLE fouls (t timestamp, n int);"
        "CREATE TABLE teams (t timestamp, n int);"
        "SELECT t, count(*) AS c FROM (SELECT * FROM goals UNION ALL SELECT * FROM fouls"
        " UNION ALL SELECT * FROM teams) GROUP BY t"
    )
    sources = {name: f"csv:{tmp_path / name}" for name in ("goals", "fouls")}
    sources["teams"] = f"csv:{tmp_path / 'teams'}?static=true"
    options: dict[str, Any] = {"checkpoint": tmp_path / "c", "emit": "watermark"}
    with pytest.raises(sa.UsageError) as refused:
        sa.run(sa.sql(text), sources, watermark=RIGHT, **options)
    assert refused.value.code == "EVENT_TIME_MISSING"
    assert "goals.t has a watermark, but fouls, read into the same groups, has none" in str(
        refused.value
    )
    assert "--watermark fouls.COLUMN" in str(refused.value.help)


def test_a_checkpoint_keeps_its_watermarks_and_how_it_forgets(tmp_path: Path) -> None:
    """Closed windows cannot be reopened, and groups without an event time cannot get one. Durations may change."""
    DISORDERLY.write(tmp_path, last=1)
    timed: dict[str, Any] = {"watermark": {"goals.t": "max-diff:20s"}, "ttl": "1h"}
    start(tmp_path, BY_TEAM, [DISORDERLY], **timed).wait()
    files = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    for code, options in (
        ("WATERMARK_DIFFERS", {**timed, "watermark": {}}),
        ("TTL_DIFFERS", {**timed, "ttl": "1h:keep"}),
        ("TTL_DIFFERS", {**timed, "ttl": None}),
    ):
        with pytest.raises(sa.StateRefused) as refused:
            start(tmp_path, BY_TEAM, [DISORDERLY], **options)
        assert refused.value.code == code
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == files
    DISORDERLY.write(tmp_path, first=1, last=2)
    longer = {"watermark": {"goals.t": "percentile:5:10:1"}, "ttl": "2h"}
    again = start(tmp_path, BY_TEAM, [DISORDERLY], **longer)
    again.wait()
    assert again.progress.version == 2
