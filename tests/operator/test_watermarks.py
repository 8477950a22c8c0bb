"""Watermarks from the event times of batches: against the definitions, however the rows are cut into batches."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from substrait_agg.errors import RunFailed, UsageError
from substrait_agg.operator.common import watermarks
from substrait_agg.operator.common.watermarks import (
    EventTimeStats,
    SourceTime,
    Ttl,
    WatermarkRule,
    idle_at,
    move,
    parse_rule,
    parse_ttl,
    watermark_of,
)

SECOND = 1_000_000
Times = list[list[int]]
batches = st.lists(st.lists(st.integers(-50, 50), max_size=6), max_size=8)


def stats(times: list[int], events: int = 0) -> EventTimeStats:
    latest = tuple(times[-events:]) if events else ()
    return EventTimeStats(len(times), max(times, default=None), latest)


@given(batches, st.integers(0, 20))
def test_max_diff_is_the_greatest_time_so_far_less_the_allowance(
    given_: Times, offset: int
) -> None:
    rule, at, seen = WatermarkRule(offset=offset), None, []
    for times in given_:
        at = move(rule, at, stats(times), 0)
        seen += times
        assert at.watermark == (max(seen) - offset if seen else None)


@given(batches, st.integers(0, 99), st.integers(1, 7), st.integers(1, 9))
def test_a_percentile_leaves_no_more_than_so_many_above_it(
    given_: Times, percent: int, events: int, frequency: int
) -> None:
    """Of the latest rows at the end of a batch; it never goes back, and begins with the FREQUENCYth row."""
    rule = WatermarkRule(percent=percent, events=events, frequency=frequency)
    at: SourceTime | None = None
    seen: list[int] = []
    before: int | None = None
    for times in given_:
        at = move(rule, at, stats(times, events), 0)
        seen += times
        latest = seen[-events:]
        if times and len(seen) >= frequency:
            reached = min(
                t for t in latest if sum(x > t for x in latest) * 100 <= percent * len(latest)
            )
            before = reached if before is None else max(before, reached)
        assert at.watermark == before


def test_the_watermark_of_a_run_is_the_least_of_its_sources_and_never_goes_back() -> None:
    rules = (WatermarkRule(), WatermarkRule())
    known, other = SourceTime(watermark=7), SourceTime(watermark=5)
    assert watermark_of(rules, (known, SourceTime()), None, 0) is None
    assert watermark_of(rules, (known, other), None, 0) == 5
    assert watermark_of(rules, (known, other), 6, 0) == 6


def test_an_idle_source_does_not_hold_the_watermark_until_it_speaks_again() -> None:
    rules = (WatermarkRule(), WatermarkRule(idle=10))
    busy = SourceTime(watermark=100, last_rows_at=50)
    quiet = SourceTime(watermark=20, last_rows_at=45)
    assert watermark_of(rules, (busy, quiet), None, 54) == 20
    assert watermark_of(rules, (busy, quiet), None, 55) == 100
    assert idle_at(rules, (busy, quiet), 54) == 55
    assert idle_at(rules, (busy, quiet), 55) is None
    spoken = move(rules[1], quiet, stats([30]), 60)
    assert watermark_of(rules, (busy, spoken), 100, 60) == 100  # it does not go back
    never = move(rules[1], None, EventTimeStats(), 40)
    assert watermark_of(rules, (busy, never), None, 49) is None
    assert watermark_of(rules, (busy, never), None, 50) == 100


def test_all_sources_idle_leave_the_watermark_where_it_is() -> None:
    rules = (WatermarkRule(idle=1),)
    assert watermark_of(rules, (SourceTime(watermark=9, last_rows_at=0),), 9, 99) == 9


def test_of_partitions_the_one_that_is_furthest_behind_counts() -> None:
    rule = WatermarkRule(offset=2, by="device", idle=10)
    at = move(rule, None, EventTimeStats(3, 30, (), {"a": 30, "b": 12}), 0)
    assert watermark_of((rule,), (at,), None, 0) == 10
    at = move(rule, at, EventTimeStats(1, 25, (), {"a": 25}), 5)
    assert watermark_of((rule,), (at,), 10, 9) == 10
    assert (
        watermark_of((rule,), (at,), 10, 10) == 28
    )  # b is idle, and of a the greatest time counts
    assert idle_at((rule,), (at,), 9) == 10
    at = move(rule, at, EventTimeStats(1, 40, (), {"b": 40}), 12)
    assert watermark_of((rule,), (at,), 28, 12) == 28


def test_a_column_with_too_many_values_tells_no_partitions_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A column with too many values gives no partitions, because each partition is part of every
    snapshot.
    """
    monkeypatch.setattr(watermarks, "MOST_PARTITIONS", 2)
    rule = WatermarkRule(by="device")
    at = move(rule, None, EventTimeStats(2, 2, (), {"a": 1, "b": 2}), 0)
    with pytest.raises(RunFailed) as failed:
        move(rule, at, EventTimeStats(1, 3, (), {"c": 3}), 0)
    assert failed.value.code == "WATERMARK_PARTITIONS"


@given(st.integers(8, 10**6), st.lists(st.integers(0, 10**7), min_size=1, max_size=20))
def test_a_group_is_forgotten_once_it_was_idle_and_at_most_an_eighth_later(
    after: int, instants: list[int]
) -> None:
    ttl = Ttl(after)
    for instant in instants:
        newest = ttl.idle(instant)
        assert instant - after - after // 8 < newest <= instant - after
        assert ttl.idle(ttl.next(instant)) > newest
        assert ttl.idle(ttl.next(instant) - 1) == newest


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("max-diff:5s", WatermarkRule(offset=5 * SECOND)),
        ("max-diff:0s", WatermarkRule()),
        ("max-diff:1000000d", WatermarkRule(offset=10**6 * 86_400 * SECOND)),
        ("max-diff:1m, idle:30s", WatermarkRule(offset=60 * SECOND, idle=30 * SECOND)),
        ("max-diff:1s,by:device", WatermarkRule(offset=SECOND, by="device")),
        ("percentile:20:5:1", WatermarkRule(percent=20, events=5, frequency=1)),
        ("percentile:0:1:9,idle:1d", WatermarkRule(0, 0, 1, 9, 86_400 * SECOND)),
    ],
)  # fmt: skip
def test_rules_are_read(text: str, rule: WatermarkRule) -> None:
    assert parse_rule(text) == rule


@pytest.mark.parametrize(
    "text",
    ["", "max-diff", "max-diff:", "max-diff:5", "max-diff:-1s", "maxdiff:5s", "percentile", "percentile:20:5",
     "percentile:100:5:1", "percentile:20:0:1", "percentile:20:10001:1", "percentile:20:5:0", "percentile:a:5:1",
     "max-diff:5s,idle", "max-diff:5s,idle:0s", "max-diff:5s,by:", "max-diff:5s,late:1s", "percentile:20:5:1,by:x",
     "max-diff:5s,idle:1s,idle:2s", "max-diff:5s,", "max-diff:1000001d", "max-diff:999999999999h",
     "max-diff:5s,idle:1000001d"],
)  # fmt: skip
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_rule(text)
    assert (refused.value.code, refused.value.path) == ("OPTION_INVALID", "watermark")


def test_times_to_live_are_read() -> None:
    hour = Ttl(3600 * SECOND)
    assert [parse_ttl(t) for t in ("1h", "1h:retract", "1h:keep")] == [
        hour,
        hour,
        replace(hour, keep=True),
    ]
    for text in ("", "0s", "1", "1h:", "1h:drop", ":keep"):
        with pytest.raises(UsageError) as refused:
            parse_ttl(text)
        assert (refused.value.code, refused.value.path) == ("OPTION_INVALID", "ttl")
