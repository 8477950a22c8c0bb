"""Groups that are forgotten once they have been idle for long, through Spark: by event time and by the clock."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

import substrait_agg as sa
from substrait_agg.commit.log.checkpoint import Checkpoint
from tests.e2e.event_model import SECOND, Change, Row, Rule, Table, drawn, watermarks
from tests.e2e.rows import Bag, bag, running_sums
from tests.e2e.running import starting
from tests.e2e.stored_state import stored_operators
from tests.windowed import COUNT, MAX, SUM, Windows, aggregate, column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from substrait_agg.metrics import Progress


MEASURES = (COUNT, SUM, MAX)
Key = tuple[str | None, int | None]
"""Team and number: some of them come often, others seldom."""


def by_team_and_number() -> str:
    """Count, sum and maximum per team and number."""
    windows = Windows()
    relation = aggregate(windows.read(), [column(0), column(2)], MEASURES)
    return windows.plan(relation, "team", "n", "c", "s", "m")


def by_count() -> str:
    """The number of groups per count: an aggregate over groups that are evicted."""
    windows = Windows()
    inner = aggregate(windows.read(), [column(0), column(2)], (COUNT,))
    return windows.plan(aggregate(inner, [column(2)], (COUNT,)), "rows", "groups")


# --- the model ------------------------------------------------------------------------------------


@dataclass
class Memory:
    """Groups with their numbers and the newest event time of their rows, as they should be.

    Attributes:
        after: seconds for which a group is remembered.
        keep: whether the row of a forgotten group stays.
        groups: rows per group.
        newest: newest time per group, microseconds.
        kept: the rows of forgotten groups.
        idle: up to where groups have been forgotten, microseconds.
        late: rows that were late.
    """

    after: int
    keep: bool = False
    groups: dict[Key, int] = field(default_factory=dict)
    newest: dict[Key, int] = field(default_factory=dict)
    kept: dict[Key, int] = field(default_factory=dict)
    idle: int | None = None
    late: int = 0

    def take(self, changes: Sequence[Change], instant: int | None = None) -> None:
        """A batch; `instant` is its time where rows have none of their own."""
        for row, weight in changes:
            time = _time(row) if instant is None else instant
            if instant is None and self.idle is not None and time <= self.idle:
                self.late += 1
                continue
            key = row[0], row[2]
            self.kept.pop(key, None)
            self.groups[key] = self.groups.get(key, 0) + weight
            self.newest[key] = max(time, self.newest.get(key, time))

    def pass_to(self, now: int | None) -> None:
        """Advance time to an instant, in steps of an eighth of the TTL."""
        if now is None:
            return
        step = self.after * SECOND // 8
        reached = now // step * step - self.after * SECOND
        self.idle = reached if self.idle is None else max(self.idle, reached)
        for key in [k for k, at in self.newest.items() if at <= self.idle]:
            count = self.groups.pop(key)
            del self.newest[key]
            if self.keep and count > 0:
                self.kept[key] = count

    def shown(self) -> Bag:
        """The view."""
        rows: Bag = Counter()
        for (team, n), count in {**self.groups, **self.kept}.items():
            if count > 0:
                rows[(team, n, count, None if n is None else n * count, n)] = 1
        return rows


FOREVER = 1 << 62


def _time(row: Row) -> int:
    return FOREVER if row[1] is None else row[1] * SECOND


def start(folder: Path, plan: str, spark: SparkSession | None = None, **options: Any) -> Any:
    """Start a run over the files that are there, on Spark or on the local executor."""
    sources = {"goals": f"parquet:{folder / 'goals'}?op=op&batch-files=1"}
    return starting(spark)(plan, sources, checkpoint=folder / "checkpoint", partitions=2, **options)


def views(folder: Path) -> list[Bag]:
    """The view of every version, as the sum of the changes; no change may retract a missing row."""
    view = sa.open_view(folder / "checkpoint")
    sums = running_sums(view.changes(), view.versions())
    assert bag(view.to_arrow()) == sums[view.version]
    return [sums[version] for version in view.versions()]


# --- by event time --------------------------------------------------------------------------------

GOALS = Table("goals", drawn(31, batches=8, rows=12, disorder=200), Rule(behind=10))


@pytest.mark.parametrize("word", ["", ":keep"])
def test_forgotten_by_event_time(word: str, tmp_path: Path) -> None:
    """Groups come, are evicted or kept, and return; every version and the state equal a recomputation."""
    memory = Memory(100, keep=word == ":keep")
    reached = watermarks([GOALS])
    wanted, late = [memory.shown()], [0]
    for batch, watermark in zip(GOALS.batches, reached[1:], strict=True):
        memory.take(batch)
        memory.pass_to(None if watermark is None else watermark * SECOND)
        wanted.append(memory.shown())
        late.append(memory.late)
    assert memory.late > 5
    GOALS.write(tmp_path)
    seen: list[Progress] = []
    rules = {"goals.t": "max-diff:10s"}
    start(
        tmp_path, by_team_and_number(), watermark=rules, ttl=f"100s{word}", progress=seen.append
    ).wait()  # fmt: skip
    found = views(tmp_path)
    assert len(found) == len(wanted)
    for version, rows in enumerate(wanted):
        assert found[version] == rows, version
    assert [p.late_rows for p in seen] == late
    (stored,) = stored_operators(tmp_path / "checkpoint")
    there = {key: count for key, count in memory.groups.items() if count}
    assert stored.groups == len(there)
    assert stored.closed == len(memory.kept)
    assert stored.entries == (sum(n is not None for _, n in there),)


def test_an_aggregate_above_follows(tmp_path: Path) -> None:
    """Rows of groups that are evicted below are retracted above."""
    memory = Memory(100)
    wanted: list[Bag] = [Counter()]
    for batch, watermark in zip(GOALS.batches, watermarks([GOALS])[1:], strict=True):
        memory.take(batch)
        memory.pass_to(None if watermark is None else watermark * SECOND)
        counts = Counter(row[2] for row in memory.shown())
        wanted.append(Counter(dict.fromkeys(counts.items(), 1)))
    GOALS.write(tmp_path)
    start(
        tmp_path, by_count(), watermark={"goals.t": "max-diff:10s"}, ttl="100s"
    ).wait()  # fmt: skip
    assert views(tmp_path) == wanted
    below, _above = stored_operators(tmp_path / "checkpoint")
    assert below.groups == sum(count != 0 for count in memory.groups.values())


def test_a_group_that_waits_is_emitted_before_it_is_forgotten(tmp_path: Path) -> None:
    """An evicted pending group is first emitted, so that its last values stay in the view."""
    files = [[(("a", 1, 5), 1)], [(("a", 2, 5), 1)], [(("b", 500, 6), 1)]]
    table = Table("goals", files, Rule(behind=0))
    table.write(tmp_path)
    options: dict[str, Any] = {
        "watermark": {"goals.t": "max-diff:0s"},
        "emit": "count:10",
        "ttl": "60s:keep",
    }
    start(tmp_path, by_team_and_number(), **options).wait()
    assert views(tmp_path)[3] == Counter({("a", 5, 2, 10, 5): 1})
    assert views(tmp_path)[-1] == Counter({("a", 5, 2, 10, 5): 1, ("b", 6, 1, 6, 6): 1})


# --- by the clock ---------------------------------------------------------------------------------

NOON = 1_700_000_000 * SECOND


@pytest.mark.parametrize("word", ["", ":keep"])
def test_forgotten_by_the_clock(word: str, tmp_path: Path) -> None:
    """Without a watermark the instant of a batch is the time of its rows."""
    memory = Memory(60, keep=word == ":keep")
    wanted = [memory.shown()]
    for number, batch in enumerate(GOALS.batches):
        instant = NOON + number * 25 * SECOND
        memory.take(batch, instant)
        memory.pass_to(instant)
        wanted.append(memory.shown())
    GOALS.write(tmp_path)
    seen: list[Progress] = []
    clock = lambda: NOON + max(0, len(seen) - 1) * 25 * SECOND  # noqa: E731
    start(
        tmp_path, by_team_and_number(), ttl=f"60s{word}", progress=seen.append, clock=clock
    ).wait()
    found = views(tmp_path)
    for version, rows in enumerate(wanted):
        assert found[version] == rows, version
    (stored,) = stored_operators(tmp_path / "checkpoint")
    assert stored.groups == sum(count != 0 for count in memory.groups.values())
    assert stored.closed == len(memory.kept)


def reached(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert done()


def test_time_passes_though_no_rows_come(spark: SparkSession, tmp_path: Path) -> None:
    """An endless run evicts groups when they are due, without new rows, and is idle afterwards."""
    Table("goals", [[(("a", 1, 5), 1), (("b", 2, 6), 1)]]).write(tmp_path)
    told: list[tuple[int, int]] = []
    started = start(
        tmp_path, by_team_and_number(), spark, ttl="2s", until="100ms",
        on_changes=lambda changes, version: told.append((version, changes.num_rows)),
    )  # fmt: skip
    reached(lambda: len(told) == 2)
    started.stop()
    assert [rows for _, rows in told] == [2, 2]
    assert views(tmp_path)[-1] == Counter()
    (stored,) = stored_operators(tmp_path / "checkpoint")
    assert (stored.groups, stored.entries, stored.closed) == (0, (0,), 0)


def test_a_batch_that_is_computed_again_has_the_time_of_the_next_run(tmp_path: Path) -> None:
    """A batch that was not committed has not happened."""
    batches = [[(("a", 1, 5), 1)], [(("b", 2, 6), 1)], [(("c", 2, 7), 1)]]
    Table("goals", batches).write(tmp_path)
    publish = Checkpoint.publish

    def failing(checkpoint: Checkpoint, snapshot: Any) -> None:
        if snapshot.version == 2:
            raise OSError("the disk is full")
        publish(checkpoint, snapshot)

    plan, later = by_team_and_number(), NOON + 4 * SECOND
    with patch.object(Checkpoint, "publish", failing), pytest.raises(Exception, match="disk"):
        start(tmp_path, plan, ttl="3s", clock=lambda: NOON).wait()
    start(tmp_path, plan, ttl="3s", clock=lambda: later).wait()
    memory = Memory(3)
    wanted = [memory.shown()]
    for instant, batch in zip((NOON, later, later), batches, strict=True):
        memory.take(batch, instant)
        memory.pass_to(instant)
        wanted.append(memory.shown())
    assert [len(rows) for rows in wanted] == [0, 1, 1, 2]
    assert views(tmp_path) == wanted
