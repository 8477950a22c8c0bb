"""Window functions over a few columns: how to write them, and their values computed from all rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

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
from substrait_agg.flow.graph.window import Window
from substrait_agg.flow.passes.ordered_rows import ordered_rows_node
from substrait_agg.functions.aggregates.accumulators import WeightKind
from substrait_agg.functions.aggregates.kinds import MeasureKind
from substrait_agg.plan.types import Type
from tests.operator.test_top_k import (
    TYPES,
    Row,
    Sort,
    _compare,
    in_order,
    one_form,
)

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


def measure(
    name: MeasureKind, ordinal: int | None, frame: Frame, *, distinct: bool = False
) -> BoundWindowFunction:
    """An aggregate function over the frame."""
    arguments = () if ordinal is None else (column(ordinal),)
    own = I64 if ordinal is None else TYPES[ordinal]
    type_ = {"count": I64, "avg": FP64, "median": FP64}.get(name, own)
    constants = (",",) if name == "string_agg" else ()
    bound = BoundMeasure(
        name, arguments, None, type_, name, "p", distinct=distinct, constants=constants
    )
    return BoundWindowFunction("aggregate", (), 0, frame, bound, type_, name, "p")


def ignore_nulls(function: BoundWindowFunction) -> BoundWindowFunction:
    """The function, of the rows whose value is not null."""
    return replace(function, skip_nulls=True)


DISTANCES = st.sampled_from([None, -3, -1, 0, 0, 1, 2])
FRAMES = st.one_of(
    st.builds(Frame, st.just(True), DISTANCES, DISTANCES),
    st.builds(Frame, st.just(False), st.sampled_from([None, 0]), st.sampled_from([None, 0])),
)
COLUMNS = st.sampled_from([NUMBERS, TEXT, FLOATS])
OF_ROWS = st.one_of(
    st.builds(neighbour, st.sampled_from(["lag", "lead"]), COLUMNS, st.integers(-3, 3)),
    st.builds(lambda c, n: neighbour("lag", c, n, c), COLUMNS, st.integers(0, 2)),
    st.builds(place, st.sampled_from(["first_value", "last_value"]), COLUMNS, st.just(0), FRAMES),
    st.builds(place, st.just("nth_value"), COLUMNS, st.sampled_from([1, 2, 4, -1, -2]), FRAMES),
)
FUNCTIONS = st.one_of(
    OF_ROWS,
    OF_ROWS.map(ignore_nulls),
    st.builds(position, st.just("ntile"), st.integers(1, 5)),
    st.builds(position, st.sampled_from(["percent_rank", "cume_dist"])),
    st.builds(position, st.sampled_from(["rank", "dense_rank"])),
    st.builds(measure, st.sampled_from(["sum", "avg", "count"]), st.sampled_from([NUMBERS, FLOATS]), FRAMES),
    st.builds(measure, st.sampled_from(["min", "max"]), COLUMNS, FRAMES),
    st.builds(measure, st.just("count"), st.just(None), FRAMES),
    st.builds(measure, st.sampled_from(["median", "mode"]), st.just(NUMBERS), FRAMES),
    st.builds(measure, st.just("string_agg"), st.just(TEXT), FRAMES),
    st.builds(
        partial(measure, distinct=True),
        st.sampled_from(["count", "sum", "avg"]), st.just(NUMBERS), FRAMES,
    ),
    st.builds(partial(measure, distinct=True), st.sampled_from(["count", "string_agg"]), st.just(TEXT), FRAMES),
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
    "median": lambda values: middle(sorted(values)) if values else None,
    "mode": lambda values: min(values, key=lambda v: (-values.count(v), v), default=None),
    "string_agg": lambda values: ",".join(sorted(values)) if values else None,
}


def middle(values: Sequence[int]) -> float:
    """The value in the middle, or the point between the two."""
    return float(Fraction(values[(len(values) - 1) // 2] + values[len(values) // 2], 2))


def in_frame(frame: Frame, at: int, peers: Sequence[int]) -> range:
    """The places of the rows in the frame of a row; `peers` numbers the sort keys of each row."""
    count = len(peers)
    if frame.rows:
        low = 0 if frame.lower is None else at + int(frame.lower)
        high = count if frame.upper is None else at + int(frame.upper) + 1
    else:
        low = 0 if frame.lower is None else peers.index(peers[at])
        high = count if frame.upper is None else count - [*peers][::-1].index(peers[at])
    return range(max(low, 0), max(min(high, count), 0))


def columns_of(function: BoundWindowFunction) -> list[int]:
    """The columns that a function reads."""
    return [e.ordinal for e in function.expressions if isinstance(e, Column)]


def at_distance(function: BoundWindowFunction, rows: Sequence[Row], at: int) -> int | None:
    """The place of the row that ``lag`` or ``lead`` reads; None if there is none."""
    step = -function.number if function.function == "lag" else function.number
    others: Sequence[int] = range(at - 1, -1, -1) if step < 0 else range(at + 1, len(rows))
    if function.skip_nulls:
        (own, *_) = columns_of(function)
        others = [p for p in others if rows[p][own] is not None]
    if not step:
        return at
    return others[abs(step) - 1] if abs(step) <= len(others) else None


def position_of(function: BoundWindowFunction, at: int, peers: Sequence[int]) -> Any:
    """The value of a function of the position of a row alone."""
    count, name, number = len(peers), function.function, function.number
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
    return (count - [*peers][::-1].index(peers[at])) / count


def value_at(
    function: BoundWindowFunction, rows: Sequence[Row], at: int, peers: Sequence[int]
) -> Any:
    """The value of a function in the row at a place of its partition."""
    name, number = function.function, function.number
    own, *default = columns_of(function) or [0]
    if name in ("lag", "lead"):
        other = at_distance(function, rows, at)
        if other is not None:
            return rows[other][own]
        return rows[at][default[0]] if default else None
    if function.frame is None:
        return position_of(function, at, peers)
    places: Sequence[int] = in_frame(function.frame, at, peers)
    if function.measure is not None:
        if not function.measure.arguments:
            return len(places)
        values = [rows[p][own] for p in places if rows[p][own] is not None]
        values = [*{*values}] if function.measure.distinct else values
        return AGGREGATES[function.measure.kind](values)
    places = [p for p in places if not function.skip_nulls or rows[p][own] is not None]
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


# --- nodes ---------------------------------------------------------------------------------------


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


BY_NUMBER: list[Sort] = [(NUMBERS, False, False)]
RUNNING = Frame(rows=False, lower=None, upper=0)


def numbers(*weighted: tuple[int | None, float | None, int]) -> list[tuple[Row, int]]:
    """Rows with a number and a float, and their weights."""
    return [((number, None, value), weight) for number, value, weight in weighted]
