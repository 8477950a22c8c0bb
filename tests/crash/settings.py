"""The settings of the crash matrix: two plans with their rows, which together use every kind of
file.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import substrait_agg as sa
from substrait_agg.bind.plan.views import bound_views, one_view
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.flow.passes.lower import lower
from substrait_agg.operator.common.names import PORT, WEIGHT
from substrait_agg.operator.common.policy import EVERY_BATCH, EmitPolicy
from substrait_agg.operator.common.watermarks import EventTimeStats
from substrait_agg.runtime.event_sources import event_sources
from substrait_agg.runtime.event_state import BatchTimes, EventOptions
from substrait_agg.spark.inputs.event_time_setup import event_columns
from tests.e2e import plans

BATCHES = 5
DAY = 86_400_000_000
"""Microseconds."""

Rows = Any
"""A `pyarrow.Table` of prepared rows of an operator: ``k*``, ``x*``, ``__weight``."""


@dataclass(frozen=True)
class Setting:
    """A plan and the rows of its batches.

    Attributes:
        flow: of the plan.
        policy: when groups are emitted.
        events: the sources with a watermark.
        batches: the rows of each batch for the lowest operator: some are deleted in a later one.
        greatest: per batch its greatest event time; empty without a watermark.
        other: the flow of another plan with which it goes on when it is started again; None where it does not.
        first: the rows of a static table for the lowest operator; None without one.
    """

    flow: Flow
    policy: EmitPolicy
    events: EventOptions
    batches: tuple[Rows, ...]
    greatest: tuple[int, ...] = ()
    other: Flow | None = None
    first: Rows | None = None

    def times(self, batch: int) -> BatchTimes[Rows] | None:
        """The event times of a batch."""
        if not self.greatest:
            return None
        heard = EventTimeStats(self.batches[batch].num_rows, self.greatest[batch])
        return BatchTimes(batch + 1, lambda: (heard,))


@cache
def chained() -> Setting:
    """Two chained aggregates: by (k, g), then by k over the result.

    The lower aggregate computes sums and keeps one shared tree and one tree of its own; it emits a
    group only after some rows.
    """
    b = plans.Builder()
    table = plans.read("t", {"k": "i64", "g": "i64", "x": "i64", "y": "fp64"})
    x, y = (plans.column(2), "i64"), (plans.column(3), "fp64")
    measures = [
        b.measure("count", output="i64!"),
        b.measure("sum", x, output="i64"),
        b.measure("sum", y, output="fp64"),
        b.measure("min", x, output="i64"),
        b.measure("max", x, output="i64"),
        b.measure("median", y, output="fp64"),
    ]
    groups = plans.aggregate(table, [plans.column(0), plans.column(1)], measures)
    above = [
        b.measure("count", output="i64!"),
        b.measure("sum", (plans.column(3), "i64"), output="i64"),
        b.measure("max", (plans.column(6), "i64"), output="i64"),
        b.measure("median", (plans.column(7), "fp64"), output="fp64"),
    ]
    whole = plans.aggregate(groups, [plans.column(0)], above)
    text = b.plan(whole, "k", "groups", "total", "greatest", "middle")
    flow = lower(sa.load(text.encode()).bind(), {("t",): "changelog"})
    return Setting(flow, EmitPolicy(rows=6), EventOptions(), _chained_rows())


@cache
def two_views() -> Setting:
    """A view by (k, g), and a view by k that reads it: both have the changes of every version."""
    b, c = plans.Builder(), plans.Builder()
    table = plans.read("t", {"k": "i64", "g": "i64", "x": "i64", "y": "fp64"})
    x, y = (plans.column(2), "i64"), (plans.column(3), "fp64")
    measures = [b.measure("sum", x, output="i64"), b.measure("median", y, output="fp64")]
    groups = plans.aggregate(table, [plans.column(0), plans.column(1)], measures)
    read = plans.read("groups", {"k": "i64", "g": "i64", "total": "i64", "middle": "fp64"})
    above = [c.measure("count", output="i64!"), c.measure("max", x, output="i64")]
    texts = {
        "groups": b.plan(groups, "k", "g", "total", "middle"),
        "tops": c.plan(plans.aggregate(read, [plans.column(0)], above), "k", "groups", "top"),
    }
    views = bound_views({name: sa.load(text.encode()).bind() for name, text in texts.items()})
    flow = lower(views, {("t",): "changelog"})
    assert [view.shared for view in flow.views] == [True, False]
    return Setting(flow, EVERY_BATCH, EventOptions(), _chained_rows())


@cache
def hidden() -> Setting:
    """An aggregate by k of which only the number of rows is shown: rows of different groups are equal, so changes are consolidated."""
    b = plans.Builder()
    table = plans.read("t", {"k": "i64", "g": "i64", "x": "i64", "y": "fp64"})
    groups = plans.aggregate(
        table, [plans.column(0), plans.column(1)], [b.measure("count", output="i64!")]
    )
    text = b.plan(plans.projected(groups, 3, plans.column(2)), "rows")
    flow = lower(sa.load(text.encode()).bind(), {("t",): "changelog"})
    rows = tuple(batch.select(["k0", "k1", WEIGHT]) for batch in _chained_rows())
    return Setting(flow, EVERY_BATCH, EventOptions(), rows)


@cache
def subtracting() -> Setting:
    """The rows of a table minus those of another; a row is emitted after some changes only."""
    b = plans.Builder()
    columns = {"k": "i64", "g": "i64"}
    tables = [plans.read(name, columns) for name in ("t", "u")]
    text = b.plan(plans.set_operation("minus_primary_all", *tables), "k", "g")
    flow = lower(sa.load(text.encode()).bind(), {("t",): "changelog", ("u",): "changelog"})
    batches = []
    for number, rows in enumerate(_chained_rows()):
        ports = pa.array([(number + i) % 3 == 0 for i in range(rows.num_rows)]).cast(pa.int8())
        batches.append(rows.select(["k0", "k1", WEIGHT]).append_column(PORT, ports))
    return Setting(flow, EmitPolicy(rows=2), EventOptions(), tuple(batches))


@cache
def matching() -> Setting:
    """The number of rows per g of a full join of two tables by k; a kill can happen between join
    and aggregate.
    """
    b = plans.Builder()
    t, u = (plans.read(name, {"k": "i64", "g": "i64"}) for name in ("t", "u"))
    on = b.call("equal:any_any", plans.COMPARISON, plans.column(0), plans.column(2), output="bool")
    counts = plans.aggregate(
        plans.joined("outer", t, u, on), [plans.column(1)], [b.measure("count", output="i64!")]
    )
    plan = sa.load(b.plan(counts, "g", "n").encode()).bind()
    flow = lower(plan, {("t",): "changelog", ("u",): "changelog"})
    batches = []
    for rows in _chained_rows():
        ports = pc.bit_wise_and(rows["x0"], 1).cast(pa.int8())  # a deletion is one of its own table
        of_left = pc.if_else(pc.equal(ports, 0), rows["k1"], None)
        sides = pa.table({"k0": rows["k0"], "x0": of_left, WEIGHT: rows[WEIGHT], PORT: ports})
        batches.append(sides)
    return Setting(flow, EVERY_BATCH, EventOptions(), tuple(batches))


@cache
def looking_up() -> Setting:
    """The number of rows per g of the static table that the rows of a stream are joined with by k."""
    b = plans.Builder()
    t, u = plans.read("t", {"k": "i64"}), plans.read("u", {"k": "i64", "g": "i64"})
    on = b.call("equal:any_any", plans.COMPARISON, plans.column(0), plans.column(1), output="bool")
    counts = plans.aggregate(
        plans.joined("inner", t, u, on), [plans.column(2)], [b.measure("count", output="i64!")]
    )
    plan = sa.load(b.plan(counts, "g", "n").encode()).bind()
    flow = lower(plan, {("t",): "changelog"}, static={("u",)})

    def side(port: int, keys: Any, groups: Any, weights: Any) -> Rows:
        ports = pa.array([port] * len(keys), pa.int8())
        return pa.table({"k0": keys, "x0": groups, WEIGHT: weights, PORT: ports})

    batches = [
        side(0, rows["k0"], pa.nulls(rows.num_rows, pa.int64()), rows[WEIGHT])
        for rows in _chained_rows()
    ]
    first = side(1, *map(pa.array, ([0, 1, 2, 3, 3], [7, 8, 8, 9, 7], [1] * 5)))
    return Setting(flow, EVERY_BATCH, EventOptions(), tuple(batches), first=first)


@cache
def evolving() -> Setting:
    """The same, continued with other measures: some from an existing tree, the upper ones from the rows of the lower ones."""
    b = plans.Builder()
    table = plans.read("t", {"k": "i64", "g": "i64", "x": "i64", "y": "fp64"})
    x, y = (plans.column(2), "i64"), (plans.column(3), "fp64")
    measures = [
        b.measure("median", x, output="i64"),
        b.measure("count", output="i64!"),
        b.measure("median", y, output="fp64"),
        b.measure("max", x, output="i64"),
        b.measure("sum", x, output="i64"),
    ]
    groups = plans.aggregate(table, [plans.column(0), plans.column(1)], measures)
    above = [
        b.measure("sum", (plans.column(6), "i64"), output="i64"),
        b.measure("max", (plans.column(2), "i64"), output="i64"),
        b.measure("count", output="i64!"),
    ]
    whole = plans.aggregate(groups, [plans.column(0)], above)
    text = b.plan(whole, "k", "total", "middle", "groups")
    other = lower(sa.load(text.encode()).bind(), {("t",): "changelog"})
    return replace(chained(), policy=EVERY_BATCH, other=other)


def _chained_rows() -> tuple[Rows, ...]:
    rng = random.Random(5)
    alive: list[tuple[int, int, int, float]] = []
    batches = []
    for _ in range(BATCHES):
        gone = [alive.pop(rng.randrange(len(alive))) for _ in range(min(4, len(alive) // 2))]
        new = [
            (rng.randrange(5), rng.randrange(3), rng.randrange(100), rng.random() * 8)
            for _ in range(12)
        ]
        alive += new
        rows = [(*row, -1) for row in gone] + [(*row, 1) for row in new]
        columns = [pa.array(column) for column in zip(*rows, strict=True)]
        batches.append(pa.table(columns, names=["k0", "k1", "x0", "x1", WEIGHT]))
    return tuple(batches)


@cache
def ranked() -> Setting:
    """A fetch over groups: ranks 3 to 8 by their totals."""
    b = plans.Builder()
    table = plans.read("t", {"k": "i64", "g": "i64", "x": "i64", "y": "fp64"})
    measures = [
        b.measure("sum", (plans.column(2), "i64"), output="i64"),
        b.measure("max", (plans.column(3), "fp64"), output="fp64"),
    ]
    groups = plans.aggregate(table, [plans.column(0), plans.column(1)], measures)
    best = plans.fetched(plans.ordered(groups, (plans.column(2), True)), 6, 2)
    text = b.plan(best, "k", "g", "total", "greatest")
    flow = lower(sa.load(text.encode()).bind(), {("t",): "changelog"})
    return Setting(flow, EVERY_BATCH, EventOptions(), _chained_rows())


@cache
def windowed() -> Setting:
    """Running and moving values of groups by their totals."""
    # The plan of: SELECT k, g, s, sum(s) OVER w AS running, lag(m) OVER w AS before, dense_rank() OVER w
    # AS place, avg(m) OVER (PARTITION BY k ORDER BY s DESC ROWS 2 PRECEDING) AS moving, count(*) OVER
    # (PARTITION BY k ORDER BY s DESC RANGE 3 PRECEDING) AS near FROM (SELECT k, g, sum(x) AS s,
    # max(y) AS m FROM t GROUP BY k, g) WINDOW w AS (PARTITION BY k ORDER BY s DESC)
    text = Path(__file__).with_name("windowed.json").read_bytes()
    flow = lower(sa.load(text).bind(), {("t",): "changelog"})
    return Setting(flow, EVERY_BATCH, EventOptions(), _chained_rows())


@cache
def timed() -> Setting:
    """An aggregate by day with a watermark: groups wait for it, are closed by it, and every version has a second pass."""
    b = plans.Builder()
    table = plans.read("t", {"d": "date", "x": "i64"})
    x = plans.column(1), "i64"
    measures = [
        b.measure("count", output="i64!"),
        b.measure("sum", x, output="i64"),
        b.measure("max", x, output="i64"),
    ]
    whole = plans.aggregate(table, [plans.column(0)], measures)
    plan = sa.load(b.plan(whole, "d", "n", "total", "greatest").encode()).bind()
    events = EventOptions(event_sources(one_view(plan), {"t.d": "max-diff:48h"}))
    policy = EmitPolicy(watermark=True, rows=9)
    flow = lower(plan, {("t",): "changelog"}, events=event_columns({}, events))
    batches, greatest = _timed_rows()
    return Setting(flow, policy, events, batches, greatest)


def _timed_rows() -> tuple[tuple[Rows, ...], tuple[int, ...]]:
    """Batch n has rows of the three days from n + 1 on; the watermark that it leaves behind is n + 1, so no row is late."""
    rng = random.Random(6)
    alive: list[tuple[int, int]] = []
    batches, greatest = [], []
    for number in range(BATCHES):
        alive = [row for row in alive if row[0] > number]
        gone = [alive.pop(rng.randrange(len(alive))) for _ in range(min(3, len(alive) // 2))]
        new = [(number + 1 + i % 3, rng.randrange(100)) for i in range(12)]
        alive += new
        rows = [(*row, -1) for row in gone] + [(*row, 1) for row in new]
        days, values, weights = zip(*rows, strict=True)
        columns = [pa.array(days, pa.date32()), pa.array(values), pa.array(weights)]
        batches.append(pa.table(columns, names=["k0", "x0", WEIGHT]))
        greatest.append((number + 3) * DAY)
    return tuple(batches), tuple(greatest)
