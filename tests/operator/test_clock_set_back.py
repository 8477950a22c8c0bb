"""The clock is set back: no group is emitted, evicted or late by mistake, and none waits for the old time."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import substrait_agg as sa
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.retention import Retention
from substrait_agg.commit.log.sweep import expire
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.flow.passes.lower import lower
from substrait_agg.operator.common.policy import EVERY_BATCH, EmitPolicy
from substrait_agg.operator.common.watermarks import (
    EventTimeStats,
    SourceTime,
    Ttl,
    WatermarkRule,
    idle_at,
    move,
    watermark_of,
)
from substrait_agg.runtime.batch.microbatch import MicroBatches
from substrait_agg.runtime.batch.settings import BatchSettings
from substrait_agg.runtime.event_state import BatchTimes, EventOptions
from substrait_agg.spark.inputs.event_time_setup import event_columns, read_forget
from substrait_agg.spark.query.document import plan_document
from tests.checkpoint.test_retention import newest, simple
from tests.crash.scenario import local_executor, quick_batches
from tests.crash.settings import chained
from tests.e2e import plans

SECOND = 1_000_000
YEAR = 365 * 86_400 * SECOND
NOW = 50 * YEAR


def flow(events: EventOptions) -> Flow:
    """Rows counted by (k, g)."""
    b = plans.Builder()
    table = plans.read("t", {"k": "i64", "g": "i64", "x": "i64", "y": "fp64"})
    measures = [
        b.measure("sum", (plans.column(2), "i64"), output="i64"),
        b.measure("sum", (plans.column(3), "fp64"), output="fp64"),
    ]
    whole = plans.aggregate(table, [plans.column(0), plans.column(1)], measures)
    return lower(
        sa.load(b.plan(whole, "k", "g", "x", "y").encode()).bind(),
        {("t",): "changelog"},
        events=event_columns({}, events),
        forget=read_forget(events),
    )


class Run:
    """A run whose clock is set by hand; it can end and begin again."""

    def __init__(
        self,
        folder: Path,
        policy: EmitPolicy = EVERY_BATCH,
        events: EventOptions = EventOptions(),  # noqa: B008 - it is frozen
    ) -> None:
        self.folder, self.now = folder, NOW
        self._flow = flow(events)
        self._policy, self._events = policy, events
        Checkpoint(folder).create(plan_document(self._flow, events))
        self.begin()
        self.batches.run({})

    def begin(self) -> None:
        """Begin, or begin again."""
        settings = BatchSettings(
            self._flow, Checkpoint(self.folder), local_executor(), 2, self._policy, self._events, lambda: self.now
        )  # fmt: skip
        self.batches = MicroBatches(settings, lambda _: None)

    def batch(self, number: int) -> None:
        """Process the rows of a batch now."""
        rows = {0: chained().batches[number]}
        self.batches.run(rows, BatchTimes(self.now))

    def time_passes(self) -> None:
        """Do what the timer of a run does when it fires."""
        self.batches.advance()
        self.batches.emit_waiting(all=False)

    def rows(self) -> int:
        """Rows of the view."""
        return int(sa.open_view(self.folder).to_arrow().num_rows)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("back", [3 * SECOND, 3600 * SECOND, YEAR])
def test_groups_that_wait_for_a_delay_are_emitted(tmp_path: Path, back: int, again: bool) -> None:
    """Pending groups are emitted at once if the clock was set back by more than the delay, else
    within twice the delay.
    """
    with quick_batches():
        run = Run(tmp_path, EmitPolicy(delay=5 * SECOND))
        run.batch(0)
        assert run.rows() == 0
        run.now -= back
        if again:
            run.begin()
        due = run.batches.due()
        assert due is not None
        assert due - run.now <= 10 * SECOND
        run.now = due
        run.time_passes()
        assert run.rows() > 0
        assert run.batches.due() is None


def test_a_group_that_waits_is_not_emitted_early(tmp_path: Path) -> None:
    """With a normal clock a group is not emitted before its delay is over."""
    with quick_batches():
        run = Run(tmp_path, EmitPolicy(delay=5 * SECOND))
        run.batch(0)
        run.now += 5 * SECOND - 1
        run.time_passes()
        assert run.rows() == 0


@pytest.mark.parametrize("keep", [False, True])
def test_new_rows_are_not_forgotten_by_a_clock_that_was_ahead(tmp_path: Path, keep: bool) -> None:
    """Rows that arrive after the clock was a year ahead are evicted only after their TTL."""
    with quick_batches():
        ttl = Ttl(60 * SECOND, keep)
        run = Run(tmp_path, events=EventOptions(ttl=ttl))
        run.batch(0)
        run.now += 120 * SECOND  # all are forgotten
        run.time_passes()
        assert bool(run.rows()) == keep
        run.now -= YEAR
        run.begin()
        run.batch(1)
        shown = run.rows()
        assert shown > 0
        held = sa.open_state(tmp_path).show("group", operator=0)["group"].num_rows
        assert held > 0
        run.now += 3600 * SECOND
        run.time_passes()
        assert run.rows() == shown
        run.now += YEAR  # the clock is there again, and they have been idle for long
        run.time_passes()
        assert keep or run.rows() == 0


def test_a_source_falls_idle_by_the_clock_as_it_is_now() -> None:
    """A source with rows from the future becomes idle by the current clock."""
    rules = (WatermarkRule(), WatermarkRule(idle=10))
    sources = (
        SourceTime(watermark=100, last_rows_at=1000),
        SourceTime(watermark=20, last_rows_at=1000),
    )
    assert watermark_of(rules, sources, 20, 50) == 20
    assert idle_at(rules, sources, 50) == 50  # the clock has gone back, and that is noted
    noted = tuple(move(r, s, EventTimeStats(), 50) for r, s in zip(rules, sources, strict=True))
    assert [s.last_rows_at for s in noted] == [50, 50]
    assert idle_at(rules, noted, 51) == 60
    assert watermark_of(rules, noted, 20, 59) == 20
    assert watermark_of(rules, noted, 20, 60) == 100


def test_partitions_fall_idle_by_the_clock_as_it_is_now() -> None:
    rule = WatermarkRule(by="d", idle=10)
    at = move(rule, None, EventTimeStats(2, 30, (), {"a": 30, "b": 12}), 1000)
    at = move(rule, at, EventTimeStats(1, 40, (), {"a": 40}), 50)
    assert [p.last_rows_at for p in at.partitions] == [50, 50]
    assert watermark_of((rule,), (at,), 12, 59) == 12
    assert watermark_of((rule,), (at,), 12, 60) == 12  # all are idle: it stays


def test_a_watermark_never_goes_back() -> None:
    rule = WatermarkRule(offset=1)
    at = move(rule, move(rule, None, EventTimeStats(1, 90), 1000), EventTimeStats(1, 40), 50)
    assert at.watermark == 89
    assert watermark_of((rule,), (at,), 95, 50) == 95


def test_versions_from_the_future_are_as_old_as_those_after_them(tmp_path: Path) -> None:
    """Versions with a future time expire together with the first later version that is too old."""
    ahead = {v: timedelta(days=-365) for v in range(5)}
    then = {v: timedelta(hours=30 - v) for v in range(5, 30)}
    checkpoint = simple(tmp_path, 30, {**ahead, **then})
    day = Retention(2, 24 * 3600 * SECOND)
    assert expire(checkpoint, newest(checkpoint), day).state_from == 7
    two_days = Retention(2, 48 * 3600 * SECOND)
    assert expire(checkpoint, newest(checkpoint), two_days).state_from == 0


@pytest.mark.parametrize(("hours", "first"), [(1, 0), (50, 4)])
def test_all_but_the_newest_come_from_the_future(tmp_path: Path, hours: int, first: int) -> None:
    ages = {v: timedelta(days=-365) for v in range(4)} | {4: timedelta(hours=hours)}
    checkpoint = simple(tmp_path, 5, ages)
    day = Retention(1, 24 * 3600 * SECOND)
    assert expire(checkpoint, newest(checkpoint), day).state_from == first
