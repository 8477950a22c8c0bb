"""Which keys follow event time, and the bound below which they get no more rows, compared with all
later times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import substrait_agg as sa
from substrait_agg.bind.bound import Call, Column, Constant, Conversion, Expr, NestedPart
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.flow.graph.time_steps import EventKey, TimeStep, compose
from substrait_agg.flow.passes.event_time import (
    EventColumns,
    EventTimePoint,
    EventTimeWindow,
    time_of_expression,
    with_event_keys,
)
from substrait_agg.flow.passes.lower import lower
from substrait_agg.flow.passes.upserts import UpsertDeclaration
from substrait_agg.plan.types import DATE, STRING, Type
from tests.windowed import COUNT, MAX, Windows, aggregate, column, interval

STAMP = Type("precision_timestamp", True, (6,))
SPAN = Type("struct", True, (), (STAMP, STAMP))
AT = Column(STAMP, 0)
EVENTS = EventColumns({("goals",): "t"})
DAY = 86_400_000_000


def duration(micros: int) -> Constant:
    """A constant interval."""
    return Constant(Type("interval_day", False, (6,)), divmod(micros, DAY))


def windows(instant: int, size: int, slide: int, offset: int) -> list[tuple[int, int]]:
    """All windows that an instant is in, by trying the starts around it."""
    starts = range(instant - size - slide, instant + slide + 1)
    return [(s, s + size) for s in starts if (s - offset) % slide == 0 and s <= instant < s + size]


def least_to_come(watermark: int, keys: Callable[[int], Sequence[int]], span: int) -> int:
    """The least key of all times from the watermark on."""
    return min(key for t in range(watermark, watermark + span) for key in keys(t))


small = st.integers(1, 12)
anywhere = st.integers(-60, 60)


@given(anywhere, small, small, st.integers(-15, 15))
def test_the_bound_of_a_window_is_the_first_end_that_may_still_come(
    watermark: int, size: int, slide: int, offset: int
) -> None:
    call = Call(SPAN, "hop", (AT, duration(size), duration(slide), duration(offset)))
    window = time_of_expression(call, [EventTimePoint()])
    assert isinstance(window, EventTimeWindow)
    assert window.start is not None
    for edge, grids in enumerate((window.start, window.end)):

        def edges(instant: int, edge: int = edge) -> list[int]:
            return [w[edge] for w in windows(instant, size, slide, offset)]

        assert compose(grids, watermark) == least_to_come(watermark, edges, 60)


@given(anywhere, small, st.integers(-15, 15), st.sampled_from(["tumble", "start", "end"]))
def test_the_bound_of_a_tumbling_window_is_that_of_the_window_of_the_watermark(
    watermark: int, size: int, offset: int, form: str
) -> None:
    arguments = (AT, duration(size), duration(offset))
    expression: Expr = Call(STAMP, f"tumble_{form}", arguments)
    if form == "tumble":
        expression = NestedPart(STAMP, Call(SPAN, "tumble", arguments), 0)
    found = time_of_expression(expression, [EventTimePoint()])
    ((start, end),) = windows(watermark, size, size, offset)
    assert isinstance(found, EventTimePoint)
    assert compose(found.time_steps, watermark) == (end if form == "end" else start)


def as_date(expression: Expr) -> Expr:
    return Conversion(DATE, expression)


@pytest.mark.parametrize(
    ("expression", "watermark", "bound"),
    [
        (AT, "2026-03-04 05:06:07.000001", "2026-03-04 05:06:07.000001"),
        (as_date(AT), "2026-03-04 23:59:59", "2026-03-04"),
        (as_date(AT), "1969-12-31 00:00:01", "1969-12-31"),
        (
            Conversion(replace(STAMP, params=(3,)), AT),
            "2026-03-04 05:06:07.123456",
            "2026-03-04 05:06:07.123",
        ),
        (Call(STAMP, "date_trunc", (Constant(STRING, "WEEK"), AT)), "2026-03-04 05:06", "2026-03-02"),
        (Call(STAMP, "date_trunc", (Constant(STRING, "hour"), AT)), "2026-03-04 05:06", "2026-03-04 05:00"),
        (Call(STAMP, "add", (AT, duration(3_600_000_000))), "2026-03-04 05:06", "2026-03-04 06:06"),
        (Call(STAMP, "subtract", (AT, duration(DAY))), "2026-03-04 05:06", "2026-03-03 05:06"),
        (
            as_date(Call(STAMP, "add", (AT, duration(3_600_000_000)))),
            "2026-03-04 23:30",
            "2026-03-05",
        ),
    ],
)  # fmt: skip
def test_functions_that_never_fall_while_time_rises(
    expression: Expr, watermark: str, bound: str
) -> None:
    found = time_of_expression(expression, [EventTimePoint()])
    assert isinstance(found, EventTimePoint)
    assert compose(found.time_steps, micros(watermark)) == micros(bound)


def micros(text: str) -> int:
    since = datetime.fromisoformat(text).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1)


@pytest.mark.parametrize(
    "expression",
    [
        Column(STAMP, 1),
        Call(STAMP, "date_trunc", (Constant(STRING, "month"), AT)),
        Call(STAMP, "date_trunc", (Column(STRING, 1), AT)),
        Call(STAMP, "add", (AT, Column(Type("interval_day", True, (6,)), 1))),
        Call(STAMP, "add", (AT, Constant(Type("interval_day", True, (6,)), None))),
        Call(STAMP, "add", (AT, Constant(Type("interval_year", False), 1))),
        Call(STAMP, "extract", (Constant(STRING, "HOUR"), AT)),
        Conversion(STRING, AT),
        Conversion(DATE, Column(STAMP, 1)),
        NestedPart(STAMP, Column(SPAN, 1), 1),
    ],
)
def test_what_may_fall_or_is_not_known_tells_nothing(expression: Expr) -> None:
    """Such a group might get a row after all, so it is never complete."""
    assert time_of_expression(expression, [EventTimePoint(), None]) is None


# --- through the plan ----------------------------------------------------------------------------


def flow_of(relation: dict[str, object], made: Windows, events: EventColumns = EVENTS) -> Flow:
    names = [f"c{i}" for i in range(12)]
    for count in range(1, 12):
        try:
            bound = sa.load(made.plan(relation, *names[:count])).bind()
        except sa.PlanRefused:
            continue
        return with_event_keys(lower(bound, {("goals",): "append_only"}), events)
    raise AssertionError(sa.validate(made.plan(relation, "a")).problems)


def tumbled(made: Windows, sets: object = None) -> dict[str, object]:
    keys = [column(0), made.call("tumble_end", interval(60))]
    return aggregate(made.read(), keys, [COUNT], sets)  # type: ignore[arg-type]


MINUTE = EventKey(1, (TimeStep(60_000_000, 0, 60_000_000),))


def test_a_window_is_followed_into_the_key() -> None:
    made = Windows()
    (node,) = flow_of(tumbled(made), made).operators
    assert node.events == (MINUTE,)


def test_without_a_watermark_no_key_tells_anything() -> None:
    made = Windows()
    (node,) = flow_of(tumbled(made), made, EventColumns({})).operators
    assert node.events == ()


def test_every_grouping_set_has_to_have_the_key() -> None:
    """Else rows of any time go to the groups of a set without it."""
    made = Windows()
    (node,) = flow_of(tumbled(made, [[0, 1], [1]]), made).operators
    assert node.events == (MINUTE,)
    made = Windows()
    (node,) = flow_of(tumbled(made, [[0, 1], [0]]), made).operators
    assert node.events == ()


def test_an_aggregate_above_knows_the_time_of_the_groups_below() -> None:
    made = Windows()
    below, above = flow_of(aggregate(tumbled(made), [column(1)], [COUNT]), made).operators
    assert (below.events, above.events) == ((MINUTE,), (replace(MINUTE, key=0),))


def test_a_measure_tells_nothing_of_event_time() -> None:
    """A measure is no event key: the greatest time of a group can decrease, because it depends on
    all its rows.
    """
    made = Windows()
    latest = aggregate(made.read(), [column(0)], [MAX])
    _, above = flow_of(aggregate(latest, [column(1)], [COUNT]), made).operators
    assert above.events == ()


def test_sessions_end_where_no_row_can_reach_them() -> None:
    made = Windows()
    key = made.call("session", interval(90))
    told_, total = flow_of(aggregate(made.read(), [column(0), key], [COUNT]), made).operators
    assert told_.events == (EventKey(None, ()),)
    assert total.events == (EventKey(1, (TimeStep(1, 0, 1),), end=True),)


def test_a_row_of_a_key_may_change_for_ever_but_its_window_does_not() -> None:
    """The upsert operator has no event key; an aggregate of its rows by time has one."""
    made = Windows()
    plan = sa.load(made.plan(tumbled(made), *"abc")).bind()
    flow = lower(
        plan, {("goals",): "changelog"}, "carry", {("goals",): UpsertDeclaration(("team",), ())}
    )
    keeper, node = with_event_keys(flow, EVENTS).operators
    assert (keeper.events, keeper.time is not None) == ((), True)
    assert node.events == (MINUTE,)


def test_inputs_have_to_tell_time_alike() -> None:
    made = Windows()
    one = aggregate(made.read(), [column(0), column(1)], [COUNT])
    both = {"set": {"inputs": [made.read(), made.read("other")], "op": "SET_OP_UNION_ALL"}}
    union = aggregate(both, [column(0), column(1)], [COUNT])
    assert flow_of(one, made).operators[0].events == (EventKey(1),)
    assert flow_of(union, made).operators[0].events == ()
    every = EventColumns({("goals",): "t", ("other",): "t"})
    assert flow_of(union, made, every).operators[0].events == (EventKey(1),)
    fixed = EventColumns({("goals",): "t"}, {("other",)})
    assert flow_of(union, made, fixed).operators[0].events == (EventKey(1),)
