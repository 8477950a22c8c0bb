"""The window operator against a plain computation over all rows, at every version."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from substrait_agg.bind.bound import (
    BoundMeasure,
    BoundRows,
    BoundWindowFunction,
    BoundWindowValues,
    Column,
    Frame,
    MeasureSort,
    WindowKind,
)
from substrait_agg.errors import RunFailed
from substrait_agg.flow.graph.window import Window
from substrait_agg.flow.passes.ordered_rows import ordered_rows_node
from substrait_agg.functions.aggregates.accumulators import WeightKind
from substrait_agg.functions.aggregates.kinds import MeasureKind
from substrait_agg.operator.measures.row_partials import split_accumulator
from substrait_agg.operator.window import step as step_module
from substrait_agg.operator.window import sums as sums_module
from substrait_agg.operator.window.frames import (
    PartitionRows,
    RowsBefore,
    least_in_ranges,
    peer_numbers,
)
from substrait_agg.plan.types import Type
from substrait_agg.required import require
from substrait_agg.state.keys.keys import Component
from substrait_agg.state.ordered import OrderedTree
from tests.operator.measures_world import merging_soon
from tests.operator.test_top_k import (
    ROWS,
    SORTS,
    TYPES,
    WEIGHTS,
    Row,
    Sort,
    World,
    _compare,
    back,
    in_order,
    one_form,
)
from tests.sampling import examples

I64, FP64 = Type("i64"), Type("fp64")
NUMBERS, TEXT, FLOATS = 0, 1, 2
"""Columns of the rows."""


# --- functions -----------------------------------------------------------------------------------


def column(ordinal: int) -> Column:
    """A column of the rows."""
    return Column(TYPES[ordinal], ordinal)


def neighbour(
    name: WindowKind, ordinal: int, number: int, default: Any = ...
) -> BoundWindowFunction:
    """The value of the row at a distance."""
    own = column(ordinal)
    others = () if default is ... else (Column(TYPES[ordinal], default),)
    return BoundWindowFunction(name, (own, *others), number, None, None, own.type, name, "p")


def place(name: WindowKind, ordinal: int, number: int, frame: Frame) -> BoundWindowFunction:
    """The value of the row at a place of the frame."""
    own = column(ordinal)
    return BoundWindowFunction(name, (own,), number, frame, None, own.type, name, "p")


def position(name: WindowKind, number: int = 0) -> BoundWindowFunction:
    """A function of the position alone."""
    type_ = I64 if name in ("ntile", "rank", "dense_rank") else FP64
    return BoundWindowFunction(name, (), number, None, None, type_, name, "p")


def measure(name: MeasureKind, ordinal: int | None, frame: Frame) -> BoundWindowFunction:
    """An aggregate function over the frame."""
    arguments = () if ordinal is None else (column(ordinal),)
    own = I64 if ordinal is None else TYPES[ordinal]
    type_ = {"count": I64, "avg": FP64}.get(name, own)
    bound = BoundMeasure(name, arguments, None, type_, name, "p")
    return BoundWindowFunction("aggregate", (), 0, frame, bound, type_, name, "p")


DISTANCES = st.sampled_from([None, -3, -1, 0, 0, 1, 2])
FRAMES = st.one_of(
    st.builds(Frame, st.just(True), DISTANCES, DISTANCES),
    st.builds(Frame, st.just(False), st.sampled_from([None, 0]), st.sampled_from([None, 0])),
)
COLUMNS = st.sampled_from([NUMBERS, TEXT, FLOATS])
FUNCTIONS = st.one_of(
    st.builds(neighbour, st.sampled_from(["lag", "lead"]), COLUMNS, st.integers(-3, 3)),
    st.builds(lambda c, n: neighbour("lag", c, n, c), COLUMNS, st.integers(0, 2)),
    st.builds(place, st.sampled_from(["first_value", "last_value"]), COLUMNS, st.just(0), FRAMES),
    st.builds(place, st.just("nth_value"), COLUMNS, st.sampled_from([1, 2, 4, -1, -2]), FRAMES),
    st.builds(position, st.just("ntile"), st.integers(1, 5)),
    st.builds(position, st.sampled_from(["percent_rank", "cume_dist"])),
    st.builds(position, st.sampled_from(["rank", "dense_rank"])),
    st.builds(measure, st.sampled_from(["sum", "avg", "count"]), st.sampled_from([NUMBERS, FLOATS]), FRAMES),
    st.builds(measure, st.sampled_from(["min", "max"]), COLUMNS, FRAMES),
    st.builds(measure, st.just("count"), st.just(None), FRAMES),
)  # fmt: skip


# --- the definition ------------------------------------------------------------------------------


def least(values: Sequence[Any], sign: int) -> Any:
    """The least value, or the greatest for the sign -1; NaN is the greatest number."""
    result = None
    for value in values:
        order = _compare(value, result, descending=False, nulls_first=False)
        if result is None or order * sign < 0:
            result = value
    return result


def total(values: Sequence[Any], count: int = 1) -> Any:
    """The exact sum, divided and rounded once."""
    if isinstance(values[0], int) and count == 1:
        return sum(values)
    if not all(map(math.isfinite, values)):
        return sum(values)
    return float(sum(map(Fraction, values), Fraction(0)) / count)


AGGREGATES: dict[str, Callable[[list[Any]], Any]] = {
    "count": len,
    "sum": lambda values: total(values) if values else None,
    "avg": lambda values: total(values, len(values)) if values else None,
    "min": lambda values: least(values, 1),
    "max": lambda values: least(values, -1),
}


def in_frame(frame: Frame, at: int, peers: Sequence[int]) -> range:
    """The places of the rows in the frame of a row; `peers` numbers the sort keys of each row."""
    count = len(peers)
    if frame.rows:
        low = 0 if frame.lower is None else at + frame.lower
        high = count if frame.upper is None else at + frame.upper + 1
    else:
        low = 0 if frame.lower is None else peers.index(peers[at])
        high = count if frame.upper is None else count - [*peers][::-1].index(peers[at])
    return range(max(low, 0), max(min(high, count), 0))


def columns_of(function: BoundWindowFunction) -> list[int]:
    """The columns that a function reads."""
    return [e.ordinal for e in function.expressions if isinstance(e, Column)]


def value_at(
    function: BoundWindowFunction, rows: Sequence[Row], at: int, peers: Sequence[int]
) -> Any:
    """The value of a function in the row at a place of its partition."""
    count, name, number = len(rows), function.function, function.number
    own, *default = columns_of(function) or [0]
    if name in ("lag", "lead"):
        other = at - number if name == "lag" else at + number
        if 0 <= other < count:
            return rows[other][own]
        return rows[at][default[0]] if default else None
    if name == "ntile":
        length, longer = divmod(count, number)
        parts = [length + 1] * longer + [length] * (number - longer)
        return next(i + 1 for i in range(number) if at < sum(parts[: i + 1]))
    if name == "rank":
        return peers.index(peers[at]) + 1
    if name == "dense_rank":
        return len(set(peers[: at + 1]))
    if name == "percent_rank":
        return peers.index(peers[at]) / (count - 1) if count > 1 else 0.0
    if name == "cume_dist":
        return (count - [*peers][::-1].index(peers[at])) / count
    places = in_frame(require(function.frame), at, peers)
    if function.measure is not None:
        if not function.measure.arguments:
            return len(places)
        values = [rows[p][own] for p in places]
        return AGGREGATES[function.measure.kind]([v for v in values if v is not None])
    number = {"first_value": 1, "last_value": -1}.get(name, number)
    index = number - 1 if number > 0 else len(places) + number
    return rows[places[index]][own] if 0 <= index < len(places) else None


def with_values(
    rows: Counter[Row],
    sorts: Sequence[Sort],
    functions: Sequence[BoundWindowFunction],
    keys: int = 0,
) -> Counter[Row]:
    """The rows with the values of functions, computed from all rows."""
    shown: Counter[Row] = Counter()
    for group in {row[:keys] for row in rows}:
        mine = [row[keys:] for row in rows if row[:keys] == group]
        ordered = sorted(mine, key=in_order(sorts, len(TYPES)))
        expanded = [row for row in ordered for _ in range(max(rows[(*group, *row)], 0))]
        peers: list[int] = []
        for i, row in enumerate(expanded):
            same = i > 0 and all(
                _compare(row[c], expanded[i - 1][c], descending=False, nulls_first=False) == 0
                for c, _, _ in sorts
            )
            peers.append(peers[-1] if same else i)
        for at, row in enumerate(expanded):
            values = [value_at(function, expanded, at, peers) for function in functions]
            shown[one_form((*group, *row, *values))] += 1
    return shown


# --- the operator --------------------------------------------------------------------------------


def node_of(
    sorts: Sequence[Sort],
    functions: Sequence[BoundWindowFunction],
    *,
    keys: int = 0,
    weight: WeightKind = "weighted",
    last: int | None = None,
) -> Window:
    """Window functions over the columns; the first `keys` columns are the partition."""
    order = tuple(MeasureSort(Column(TYPES[c], c), d, n) for c, d, n in sorts)
    partitions = tuple(Column(Type("string"), 100 + i) for i in range(keys))
    source = BoundRows(TYPES, (), "relations[0]")
    types = (*TYPES, *(function.type for function in functions))
    relation = BoundWindowValues(
        source, order, partitions, tuple(functions), types, "relations[0]", last
    )
    node = ordered_rows_node(0, (), (weight, "carry"), relation)
    assert isinstance(node, Window)
    return node


BATCHES = st.lists(
    st.lists(st.tuples(st.sampled_from(["p", "q", None]), ROWS, WEIGHTS), max_size=12),
    min_size=1,
    max_size=5,
)


@settings(max_examples=examples(600), suppress_health_check=[HealthCheck.too_slow])
@given(
    BATCHES,
    SORTS,
    st.lists(FUNCTIONS, min_size=1, max_size=4),
    st.sampled_from([1, 4]),
    st.sampled_from([1, 16, 1 << 18]),
    st.sampled_from([1, 2, 256]),
)
@example(
    [[("p", (n, "a", n / 2), 1) for n in range(1, 9)], [("p", (3, "a", 1.5), -1)]],
    [(NUMBERS, True, False)],
    [
        neighbour("lead", FLOATS, 2),
        place("nth_value", NUMBERS, -2, Frame(rows=True, lower=-2, upper=1)),
        position("ntile", 3),
        position("cume_dist"),
    ],
    4,
    16,
    256,
)
def test_every_version_is_that_of_a_computation_of_all_rows(
    batches: list[list[tuple[str | None, Row, int]]],
    sorts: list[Sort],
    functions: list[BoundWindowFunction],
    partitions: int,
    at_once: int,
    block: int,
) -> None:
    with (
        TemporaryDirectory() as folder,
        merging_soon(4, 8),
        patch.object(step_module, "ROWS_AT_ONCE", at_once),
        patch.object(sums_module, "BLOCK_ROWS", block),
    ):
        world = World(Path(folder), node_of(sorts, functions, keys=1), spread=2)
        rows: Counter[Row] = Counter()
        for batch in batches:
            changes = world.batch([((key, *row), w) for key, row, w in batch], partitions)
            assert all(changes.values()), "a row is neither retracted nor inserted"
            for key, row, weight in batch:
                rows[(key, *one_form(row))] += weight
            rows = Counter({row: w for row, w in rows.items() if w})
            plain = Counter({back(row): w for row, w in rows.items()})
            assert world.log == with_values(plain, sorts, functions, keys=1)


NO_ROWS_AFTER = [Frame(rows=True, lower=None, upper=upper) for upper in (-2, 0, 1)]
RUNNING_FUNCTIONS = [
    function
    for frame in (*NO_ROWS_AFTER, Frame(rows=False, lower=None, upper=0))
    for function in (
        measure("sum", NUMBERS, frame), measure("avg", FLOATS, frame), measure("count", TEXT, frame),
        place("first_value", TEXT, 0, frame), place("last_value", TEXT, 0, frame),
        place("nth_value", NUMBERS, 3, frame), place("nth_value", FLOATS, -2, frame),
    )
] + [position("rank"), measure("sum", NUMBERS, Frame(rows=True, lower=-2, upper=0))]  # fmt: skip


@settings(max_examples=examples(200))
@given(st.integers(0, 1 << 32))
def test_running_frames_need_no_rows_before(seed: int) -> None:
    """All functions of the operator take the rows before the changes from sums and first rows."""
    random = Random(seed)
    functions = random.sample(RUNNING_FUNCTIONS, random.randint(1, 3))
    sorts: list[Sort] = [(NUMBERS, random.random() < 0.5, random.random() < 0.5)]
    blocks = patch.object(sums_module, "BLOCK_ROWS", random.choice([1, 2, 3]))
    live: Counter[Row] = Counter()
    with TemporaryDirectory() as folder, blocks:
        node = node_of(sorts, functions, keys=1)
        world = World(Path(folder), node, page_rows=random.choice([1, 4, 1000]))
        for count in (30, 3, 2, 2, 1):
            batch = Counter(random_row(random) for _ in range(count))
            deleted = min(len(live), random.randint(0, count))
            batch.subtract(random.sample(sorted(live, key=str), deleted))
            world.batch([*batch.items()])
            live.update(batch)
            live = +live
            assert world.log == with_values(live, sorts, functions, keys=1)


def random_row(random: Random) -> Row:
    """A row of one of two partitions."""
    number, text = random.choice([None, *range(20)]), random.choice([None, "", "a", "ä"])
    return (random.choice("ppq"), number, text, random.choice([None, math.inf, 0.1, -1.5, 1e200]))


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow])
@given(
    BATCHES,
    SORTS,
    st.sampled_from(["rank", "dense_rank"]),
    st.integers(1, 6),
    st.sampled_from([0, 2]),
)
def test_rows_up_to_a_rank(
    batches: list[list[tuple[str | None, Row, int]]],
    sorts: list[Sort],
    name: WindowKind,
    last: int,
    spare: int,
) -> None:
    function = position(name)
    with (
        TemporaryDirectory() as folder,
        merging_soon(4, 8),
        patch.object(step_module, "SPARE_ROWS", spare),
    ):
        world = World(Path(folder), node_of(sorts, [function], keys=1, last=last), spread=2)
        rows: Counter[Row] = Counter()
        for batch in batches:
            changes = world.batch([((key, *row), w) for key, row, w in batch], 1)
            assert all(changes.values()), "a row is neither retracted nor inserted"
            for key, row, weight in batch:
                rows[(key, *one_form(row))] += weight
            rows = Counter({row: w for row, w in rows.items() if w})
            plain = Counter({back(row): w for row, w in rows.items()})
            ranked = with_values(plain, sorts, [function], keys=1)
            assert world.log == Counter({r: w for r, w in ranked.items() if r[-1] <= last})


# --- distances between values --------------------------------------------------------------------

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


# --- cases ---------------------------------------------------------------------------------------

BY_NUMBER: list[Sort] = [(NUMBERS, False, False)]
RUNNING = Frame(rows=False, lower=None, upper=0)


def numbers(*weighted: tuple[int | None, float | None, int]) -> list[tuple[Row, int]]:
    """Rows with a number and a float, and their weights."""
    return [((number, None, value), weight) for number, value, weight in weighted]


def test_only_rows_whose_values_change_are_emitted(tmp_path: Path) -> None:
    world = World(tmp_path, node_of(BY_NUMBER, [measure("sum", NUMBERS, RUNNING)]))
    world.batch(numbers((1, None, 1), (5, None, 1), (9, None, 1)))
    assert world.batch(numbers((6, None, 1))) == Counter(
        {
            (6, None, None, 12): 1,
            (9, None, None, 15): -1,
            (9, None, None, 21): 1,
        }
    )


def test_sums_of_floats_are_exact(tmp_path: Path) -> None:
    """A running sum in floating point would lose the 1 after 1e300, and stay infinite."""
    three = Frame(rows=True, lower=-1, upper=0)
    world = World(tmp_path, node_of(BY_NUMBER, [measure("sum", FLOATS, three)]))
    world.batch(numbers((1, 1e300, 1), (2, 1.0, 1), (3, 2.0, 1), (4, math.inf, 1), (5, 1.0, 1), (6, 0.5, 1)))  # fmt: skip
    assert [row[3] for row in sorted(world.log, key=lambda row: row[0])] == [
        1e300, 1e300, 3.0, math.inf, math.inf, 1.5,
    ]  # fmt: skip


def test_a_sum_that_does_not_fit_fails(tmp_path: Path) -> None:
    world = World(tmp_path, node_of(BY_NUMBER, [measure("sum", NUMBERS, RUNNING)]))
    with pytest.raises(RunFailed) as error:
        world.batch(numbers(((1 << 63) - 1, None, 2)))
    assert error.value.code == "RESULT_OVERFLOW"


def test_a_partition_that_is_too_large_fails(tmp_path: Path) -> None:
    world = World(tmp_path, node_of(BY_NUMBER, [measure("sum", NUMBERS, RUNNING)]))
    with pytest.raises(RunFailed) as error:
        world.batch(numbers((1, None, 1 << 27)))
    assert error.value.code == "WINDOW_TOO_LARGE"


def trees_read(monkeypatch: pytest.MonkeyPatch) -> list[OrderedTree]:
    """The trees that are opened from now on."""
    read: list[OrderedTree] = []
    begin = OrderedTree.__init__

    def recorded(self: OrderedTree, *args: Any, **kwargs: Any) -> None:
        read.append(self)
        begin(self, *args, **kwargs)

    monkeypatch.setattr(OrderedTree, "__init__", recorded)
    return read


@pytest.mark.parametrize(
    "function",
    [
        neighbour("lag", NUMBERS, 2),
        measure("sum", NUMBERS, Frame(rows=True, lower=-3, upper=1)),
        measure("sum", NUMBERS, Frame(rows=False, lower=-6, upper=2)),
        place("last_value", NUMBERS, 0, Frame(rows=True, lower=-3, upper=-1)),
    ],
    ids=lambda function: function.name,
)
def test_a_limited_frame_reads_only_the_rows_around_a_change(
    function: BoundWindowFunction, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 20_000
    node = node_of(BY_NUMBER, [function])
    world = World(tmp_path, node, page_rows=256, slice_rows=count)
    pick = np.random.default_rng(3)
    world.batch(numbers(*((int(n) * 2, None, 1) for n in pick.permutation(count))))
    read = trees_read(monkeypatch)
    changes = world.batch(numbers((9_001, None, 1)))
    assert 2 <= sum(map(abs, changes.values())) <= 12
    assert sum(tree.rows_read for tree in read) < 2_000


@pytest.mark.parametrize(
    "function",
    [
        measure("sum", NUMBERS, RUNNING),
        measure("avg", FLOATS, Frame(rows=True, lower=None, upper=0)),
        measure("count", None, Frame(rows=True, lower=None, upper=-3)),
        place("first_value", NUMBERS, 0, RUNNING),
        place("last_value", NUMBERS, 0, RUNNING),
        place("nth_value", NUMBERS, 3, RUNNING),
    ],
    ids=lambda function: function.name,
)
def test_a_running_frame_reads_only_the_rows_behind_a_change(
    function: BoundWindowFunction, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sums of a page are computed once, so a later batch reads a few blocks of it."""
    count = 20_000
    world = World(tmp_path, node_of(BY_NUMBER, [function]), page_rows=512, slice_rows=count)
    pick = np.random.default_rng(3)
    world.batch(numbers(*((int(n) * 2, float(n), 1) for n in pick.permutation(count))))
    world.batch(numbers((39_901, 0.5, 1)))
    read, summed = trees_read(monkeypatch), []

    def recorded(*args: Any) -> dict[str, Any]:
        summed.append(len(args[-1].values))
        return split_accumulator(*args)

    monkeypatch.setattr(sums_module, "split_accumulator", recorded)
    changes = world.batch(numbers((39_801, 0.5, 1)))
    assert changes[next(row for row in changes if row[0] == 39_801)] == 1
    assert sum(tree.rows_read for tree in read) < 3_000
    assert sum(summed) < 3_000


@pytest.mark.parametrize(
    ("names", "at", "last"),
    [
        (["rank"], 39_001, None),
        (["rank"], 1, 5),
        (["dense_rank"], 1, 5),
    ],
)
def test_a_rank_reads_only_the_rows_that_it_changes(
    names: list[WindowKind],
    at: int,
    last: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count = 20_000
    node = node_of(BY_NUMBER, [position(name) for name in names], last=last)
    world = World(tmp_path, node, page_rows=256, slice_rows=count)
    pick = np.random.default_rng(3)
    world.batch(numbers(*((int(n) * 2, None, 1) for n in pick.permutation(count))))
    read = trees_read(monkeypatch)
    changes = world.batch(numbers((at, None, 1)))
    assert sum(map(abs, changes.values())) == (8 if last else 999)
    assert sum(tree.rows_read for tree in read) < 3_000


def test_a_distance_may_exceed_the_partition(tmp_path: Path) -> None:
    far = Frame(rows=True, lower=-(1 << 40), upper=1 << 40)
    functions = [measure("sum", NUMBERS, far), neighbour("lag", NUMBERS, 1 << 40)]
    world = World(tmp_path, node_of(BY_NUMBER, functions))
    world.batch(numbers((1, None, 1), (2, None, 1)))
    world.batch(numbers((4, None, 1)))
    assert {row[3:] for row in world.log} == {(7, None)}


def test_the_least_value_of_ranges() -> None:
    rng = np.random.default_rng(5)
    values = rng.integers(0, 50, 200)
    low = rng.integers(0, 201, 500)
    high = np.minimum(low + rng.integers(0, 80, 500), 200)
    expected = [int(values[a:b].min()) if b > a else 99 for a, b in zip(low, high, strict=True)]
    assert least_in_ranges(values, low, high, 99).tolist() == expected
