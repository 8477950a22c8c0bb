"""Frames of window functions by distances between values."""

from __future__ import annotations

import math
from calendar import monthrange
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Context, Decimal
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from substrait_agg.bind.bound import (
    BoundWindowFunction,
    Frame,
)
from substrait_agg.operator.window.frames import (
    PartitionRows,
    RowsBefore,
    peer_numbers,
)
from substrait_agg.required import require
from substrait_agg.state.keys.keys import Component
from tests.operator.measures_world import merging_soon
from tests.operator.test_top_k import (
    Row,
    Sort,
    World,
)
from tests.operator.windows import (
    NUMBERS,
    RUNNING,
    measure,
    neighbour,
    node_of,
    numbers,
    position,
    with_values,
)
from tests.sampling import examples

EXTREMES = [-(1 << 63), -(1 << 63) + 1, (1 << 63) - 2, (1 << 63) - 1]
SORT_VALUES = st.one_of(st.none(), st.integers(-6, 6), st.sampled_from(EXTREMES))
VALUE_DISTANCES = st.sampled_from([None, 0, 1, 3, -2, -5, (1 << 63) - 1, -(1 << 63) + 1])
KEY_TYPES: dict[str, tuple[pa.DataType, int]] = {
    "i64": (pa.int64(), 64),
    "i16": (pa.int16(), 16),
    "date": (pa.date32(), 32),
    "timestamp": (pa.timestamp("us"), 64),
    "zoned": (pa.timestamp("ns", "UTC"), 64),
    "decimal": (pa.decimal128(18, 3), 59),
    "wide decimal": (pa.decimal128(38, 3), 64),
    "months": (pa.int32(), 32),
    "duration": (pa.duration("us"), 64),
}


def of_units(values: Sequence[int | None], name: str) -> tuple[list[int | None], pa.Array]:
    """Numbers that fit a type, and the values that have so many least units."""
    type_, bits = KEY_TYPES[name]
    limit = 1 << (bits - 1)
    fitting = [v if v is None else max(min(v, limit - 1), -limit) for v in values]
    if pa.types.is_decimal(type_):
        exact = [None if v is None else Decimal(v).scaleb(-3, Context(prec=40)) for v in fitting]
        return fitting, pa.array(exact, type_)
    integers = pa.array(fitting, pa.int32() if bits == 32 else pa.int64())
    return fitting, integers.cast(type_)


@settings(max_examples=examples(500))
@given(
    st.lists(st.lists(SORT_VALUES, max_size=12), min_size=1, max_size=3),
    st.sampled_from(sorted(KEY_TYPES)),
    VALUE_DISTANCES,
    VALUE_DISTANCES,
    st.booleans(),
    st.booleans(),
)
def test_frames_by_distances_between_values(
    partitions: list[list[int | None]],
    name: str,
    lower: int | None,
    upper: int | None,
    descending: bool,
    nulls_first: bool,
) -> None:
    """Null is the peer of null only; sums beyond 64 bits are no other values."""
    flat: list[int | None] = []
    owners: list[int] = []
    for owner, values in enumerate(partitions):
        fitting, _ = of_units(values, name)
        numbers_only = sorted((v for v in fitting if v is not None), reverse=descending)
        nulls = [None] * (len(values) - len(numbers_only))
        flat += [*nulls, *numbers_only] if nulls_first else [*numbers_only, *nulls]
        owners += [owner] * len(values)
    _, column_ = of_units(flat, name)
    key = Component(column_.type, nullable=True, descending=descending, nulls_first=nulls_first)
    own = np.array(owners, np.int64)
    rows = PartitionRows.of(
        [column_],
        own,
        peer_numbers(own, [column_], [key]),
        RowsBefore(np.zeros(3, np.int64)),
        (key,),
    )
    frame = Frame(rows=False, lower=lower, upper=upper)
    low, high = rows.frames(frame)
    for at, value in enumerate(flat):
        expected = [
            other
            for other, number in enumerate(flat)
            if owners[other] == owners[at]
            and in_values(number, value, frame, descending, nulls_first)
        ]
        assert list(range(low[at], high[at])) == expected


def frames_of(values: pa.Array, frame: Frame, *, descending: bool) -> list[list[Any]]:
    """The values in the frame of each value of one partition, in order with nulls last."""
    key = Component(values.type, nullable=True, descending=descending, nulls_first=False)
    own = np.zeros(len(values), np.int64)
    before = RowsBefore(np.zeros(1, np.int64))
    rows = PartitionRows.of([values], own, peer_numbers(own, [values], [key]), before, (key,))
    low, high = rows.frames(frame)
    return [values.slice(a, b - a).to_pylist() for a, b in zip(low, high, strict=True)]


FLOAT_VALUES = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, -0.0, 0.1, 0.2, 0.3, 1e16, 1e308, -1e308, math.inf, -math.inf, math.nan]),
)


@settings(max_examples=examples(500))
@given(
    st.lists(FLOAT_VALUES, max_size=12),
    st.sampled_from([None, 0, -0.1, -1e300, 0.2, 1e308]),
    st.sampled_from([None, 0, 0.1, 0.3, -0.2, 1e308]),
    st.booleans(),
)
def test_distances_between_floats_are_added_as_floats_are(
    values: list[float], lower: float | None, upper: float | None, descending: bool
) -> None:
    """So 0.1 + 0.2 is beyond 0.3. NaN is the greatest number and at no distance."""
    ordered = sorted(values, key=lambda v: (math.isnan(v), v), reverse=descending)
    frame = Frame(rows=False, lower=lower, upper=upper)
    found = frames_of(pa.array(ordered, pa.float64()), frame, descending=descending)

    def moved(own: float, distance: float) -> float:
        return own - distance if descending else own + distance

    def is_not_above(a: float, b: float) -> bool:
        a, b = (b, a) if descending else (a, b)
        return math.isnan(b) or a <= b

    for own, shown in zip(ordered, found, strict=True):
        expected = [
            other
            for other in ordered
            if (lower is None or is_not_above(moved(own, lower), other))
            and (upper is None or is_not_above(other, moved(own, upper)))
        ]
        assert list(map(repr, shown)) == list(map(repr, expected))


def add_months(time: datetime, months: int) -> datetime:
    """A time in another month, on its last day if it has no such day."""
    years, month = divmod(time.year * 12 + time.month - 1 + months, 12)
    day = min(time.day, monthrange(years, month + 1)[1])
    return time.replace(year=years, month=month + 1, day=day)


DAYS = st.dates(date(2023, 11, 1), date(2024, 6, 30))
NEAR_ENDS = st.sampled_from([date(2024, m, d) for m in (1, 3, 5) for d in (28, 29, 30, 31)])
MONTHS = st.sampled_from([None, 0, -1, -3, 1, 13])


REST = st.sampled_from([0, 0, -1, 2, -40, 40])


@settings(max_examples=examples(500))
@given(st.lists(st.one_of(DAYS, NEAR_ENDS), max_size=12), MONTHS, MONTHS, REST, REST, st.booleans())
def test_months_end_with_their_last_day_and_days_are_added_then(
    days: list[date],
    lower: int | None,
    upper: int | None,
    lower_rest: int,
    upper_rest: int,
    descending: bool,
) -> None:
    ordered = sorted(days, reverse=descending)
    frame = Frame(False, lower, upper, True, lower_rest, upper_rest)
    found = frames_of(pa.array(ordered, pa.date32()), frame, descending=descending)
    turn = -1 if descending else 1

    def moved(own: date, months: int, rest: int) -> int:
        time = datetime(own.year, own.month, own.day)
        return add_months(time, turn * months).toordinal() * turn + rest

    for own, shown in zip(ordered, found, strict=True):
        assert shown == [
            other
            for other in ordered
            if (lower is None or other.toordinal() * turn >= moved(own, lower, lower_rest))
            and (upper is None or other.toordinal() * turn <= moved(own, upper, upper_rest))
        ]


def test_a_frame_by_months_ends_not_before_that_of_an_earlier_time() -> None:
    """As in Spark: a month after January 30 at noon is later than a month after January 31 at ten."""
    times = ["2024-01-30 12:00", "2024-01-31 10:00", "2024-02-29 11:00", "2024-02-29 12:00"]
    values = pa.array([datetime.fromisoformat(t) for t in times], pa.timestamp("us"))
    frame = Frame(rows=False, lower=0, upper=1, months=True)
    counts = [len(shown) for shown in frames_of(values, frame, descending=False)]
    assert counts == [4, 3, 2, 1]


def test_a_time_too_late_for_its_type_is_the_end_of_the_partition() -> None:
    values = pa.array([0, EXTREMES[-1]], pa.int64()).cast(pa.timestamp("us"))
    for months in (1, 12):
        frame = Frame(rows=False, lower=-months, upper=months, months=True)
        key = Component(values.type, nullable=True, descending=False, nulls_first=False)
        own = np.zeros(2, np.int64)
        rows = PartitionRows.of([values], own, np.arange(2), RowsBefore(own[:1]), (key,))
        low, high = rows.frames(frame)
        assert (low.tolist(), high.tolist()) == ([0, 1], [1, 2])


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.lists(st.tuples(st.one_of(st.none(), st.integers(-4, 4)), st.sampled_from([1, 1, 2, -1])), max_size=9),
        min_size=1, max_size=5,
    ),
    st.sampled_from([None, 0, -3, -1, 1]),
    st.sampled_from([None, 0, 2, -1]),
    st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_every_version_has_the_frames_of_values(
    batches: list[list[tuple[int | None, int]]],
    lower: int | None,
    upper: int | None,
    descending: bool,
    nulls_first: bool,
) -> None:
    frame = Frame(rows=False, lower=lower, upper=upper)
    functions = [measure("sum", NUMBERS, frame), measure("count", None, frame)]
    rows: Counter[int | None] = Counter()
    with TemporaryDirectory() as folder, merging_soon(4, 8):
        node = node_of([(NUMBERS, descending, nulls_first)], functions)
        world = World(Path(folder), node)
        for batch in batches:
            world.batch(numbers(*((n, None, weight) for n, weight in batch)))
            for number, weight in batch:
                rows[number] += weight
            live = [n for n, weight in rows.items() for _ in range(max(weight, 0))]
            expected: Counter[Row] = Counter()
            for own in live:
                frame_ = [n for n in live if in_values(n, own, frame, descending, nulls_first)]
                values = [n for n in frame_ if n is not None]
                expected[(own, None, None, sum(values) if values else None, len(frame_))] += 1
            assert world.log == expected


@settings(max_examples=examples(300))
@given(st.integers(0, 1 << 32))
def test_only_rows_within_the_distances_are_read(seed: int) -> None:
    """Frames of values beside functions of other reach, with sort keys at the ends of their type."""
    random = Random(seed)
    bounds = [None, -(1 << 63) + 1, -5, -2, -1, 0, 1, 2, 4]
    frames = [
        Frame(rows=False, lower=lower, upper=upper)
        for lower in random.sample(bounds, 3)
        for upper in random.sample(bounds, 2)
        if lower is None or upper is None or lower <= upper
    ] or [Frame(rows=False, lower=-3, upper=3)]
    functions = [
        measure(random.choice(["count", "max"]), NUMBERS, random.choice(frames)) for _ in range(2)
    ]
    functions += random.sample(
        [position("rank"), measure("count", None, RUNNING), neighbour("lag", NUMBERS, 2)],
        random.choice([0, 1, 1, 2]),
    )
    sort = (NUMBERS, random.random() < 0.5, random.random() < 0.5)
    numbers_of = [None, *range(40), *random.choice([EXTREMES, []])]
    live: Counter[int | None] = Counter()
    with TemporaryDirectory() as folder:
        world = World(Path(folder), node_of([sort], functions), page_rows=random.choice([4, 1000]))
        for count in (30, 3, 2, 1, 2):
            batch = Counter(random.choices(numbers_of, k=count))
            deleted = min(len(live), random.randint(0, count))
            batch.subtract(random.sample(sorted(live, key=str), deleted))
            world.batch(numbers(*((n, None, weight) for n, weight in batch.items())))
            live.update(batch)
            live = +live
            assert world.log == with_frames_of_values(live, sort, functions)


def with_frames_of_values(
    live: Counter[int | None], sort: Sort, functions: Sequence[BoundWindowFunction]
) -> Counter[Row]:
    """The rows with the values of functions, of which some have frames by distances."""
    rows = Counter({(n, None, None): weight for n, weight in live.items()})
    expected: Counter[Row] = Counter()
    plain = [f for f in functions if f.frame is None or f.frame == RUNNING]
    others = with_values(rows, [sort], plain)
    for row, weight in others.items():
        own, values = row[0], iter(row[3:])
        every = list(live.elements())
        shown = [
            next(values)
            if f in plain
            else of_frame(f, [n for n in every if in_values(n, own, require(f.frame), *sort[1:])])
            for f in functions
        ]
        expected[(*row[:3], *shown)] += weight
    return expected


def of_frame(function: BoundWindowFunction, values: Sequence[int | None]) -> Any:
    """The value of a count or a greatest value."""
    present = [n for n in values if n is not None]
    kind = require(function.measure).kind
    return len(present) if kind == "count" else max(present, default=None)


def in_values(
    other: int | None, own: int | None, frame: Frame, descending: bool, nulls_first: bool
) -> bool:
    """Whether a row is in the frame of a row. Null is at no distance, and beyond an open end."""
    if own is None and other is None:
        return True
    if own is None or other is None:
        before = nulls_first == (other is None)
        return (frame.lower if before else frame.upper) is None
    distance = own - other if descending else other - own
    return (frame.lower is None or distance >= frame.lower) and (
        frame.upper is None or distance <= frame.upper
    )
