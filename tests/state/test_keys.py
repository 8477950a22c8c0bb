"""Encoded keys compare like their values, for every type, against a Python sort."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cmp_to_key
from math import inf, isnan, nan
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from substrait_agg.state.keys.keys import (
    Component,
    EncodedKeys,
    compare,
    encode,
    key_form,
    sort_order,
)
from tests.sampling import examples

Rank = Callable[[Any], Any]


def of_float(value: float) -> tuple[int, float]:
    """By number, the zeros equal, NaN greatest."""
    return (1, 0.0) if isnan(value) else (0, value + 0.0)


def of_text(value: str) -> bytes:
    """By UTF-8 bytes."""
    return value.encode()


def inner(rank: Rank) -> Rank:
    """Nulls inside a value come first."""
    return lambda value: (0,) if value is None else (1, rank(value))


def of_list(rank: Rank) -> Rank:
    """Element by element; a beginning comes first."""
    return lambda value: tuple(inner(rank)(v) for v in value)


def of_struct(**ranks: Rank) -> Rank:
    """Field by field."""
    return lambda value: tuple(inner(rank)(value[name]) for name, rank in ranks.items())


def of_map(key: Rank, item: Rank) -> Rank:
    """Entries in order of key."""
    return lambda value: tuple(sorted((key(k), inner(item)(v)) for k, v in value))


def same(value: Any) -> Any:
    """Values that Python orders as documented."""
    return value


def ints(bits: int, *, signed: bool = True) -> st.SearchStrategy[int]:
    low = -(2 ** (bits - 1)) if signed else 0
    high = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
    return st.one_of(st.sampled_from([low, 0, high]), st.integers(low, high))


FLOATS = st.one_of(
    st.sampled_from([nan, -nan, 0.0, -0.0, inf, -inf, 5e-324, -5e-324]), st.floats(width=32)
)
TEXTS = st.one_of(
    st.sampled_from(["", "\0", "\0\0", "a", "a\0", "a\0b", "a\1", "a\U0001f600", "a\uffff"]),
    st.text("ab\0\x01\xff", max_size=20),
    st.text("a", min_size=7, max_size=10),
)
BINARIES = TEXTS.map(lambda text: text.encode("latin-1", "replace"))
LISTS = st.lists(st.none() | TEXTS, max_size=4)
DECIMAL = st.integers(-(10**38) + 1, 10**38 - 1).map(lambda i: Decimal(f"{i}e-2"))
SMALL = st.integers(-3, 3)
PAIR = pa.struct({"f": pa.float64(), "n": pa.int16()})
NAMED = pa.struct({"s": pa.string(), "l": pa.list_(pa.int32()), "p": PAIR})
PAIRS = st.fixed_dictionaries({"f": st.none() | FLOATS, "n": st.none() | SMALL})
NAMES = st.fixed_dictionaries(
    {
        "s": st.none() | TEXTS,
        "l": st.none() | st.lists(st.none() | SMALL, max_size=3),
        "p": st.none() | PAIRS,
    }
)
of_pair = of_struct(f=of_float, n=same)
DAY = timedelta(days=1)
DATES = st.dates(date(1900, 1, 1), date(2100, 1, 1))

TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any], Rank]] = {
    **{f"int{b}": (pa.type_for_alias(f"int{b}"), ints(b), same) for b in (8, 16, 32, 64)},
    **{
        f"uint{b}": (pa.type_for_alias(f"uint{b}"), ints(b, signed=False), same)
        for b in (8, 16, 32, 64)
    },
    "float64": (pa.float64(), FLOATS | st.floats(), of_float),
    "float32": (pa.float32(), FLOATS.filter(lambda v: abs(v) != 5e-324), of_float),
    "bool": (pa.bool_(), st.booleans(), same),
    "date": (pa.date32(), DATES, same),
    "timestamp": (
        pa.timestamp("us"),
        st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)),
        same,
    ),
    "time": (pa.time64("us"), st.times(), same),
    "duration": (pa.duration("us"), st.timedeltas(-9999 * DAY, 9999 * DAY), same),
    "decimal": (pa.decimal128(38, 2), DECIMAL, same),
    "decimal256": (pa.decimal256(60, 2), DECIMAL, same),
    "decimal64": (pa.decimal64(9, 2), SMALL.map(Decimal), same),
    "interval": (
        pa.month_day_nano_interval(),
        st.tuples(SMALL, SMALL, SMALL).map(pa.MonthDayNano),
        tuple,
    ),
    "null": (pa.null(), st.none(), same),
    "fixed3": (pa.binary(3), st.binary(min_size=3, max_size=3), same),
    "fixed16": (pa.binary(16), st.binary(min_size=16, max_size=16), same),
    "string": (pa.string(), TEXTS, of_text),
    "large_string": (pa.large_string(), TEXTS, of_text),
    "string_view": (pa.string_view(), TEXTS, of_text),
    "binary": (pa.binary(), BINARIES, same),
    "pair": (PAIR, PAIRS, of_pair),
    "struct": (NAMED, NAMES, of_struct(s=of_text, l=of_list(same), p=of_pair)),
    "list": (pa.list_(pa.string()), LISTS, of_list(of_text)),
    "large_list": (pa.large_list(pa.string()), LISTS, of_list(of_text)),
    "fixed_list": (
        pa.list_(pa.int32(), 2),
        st.lists(st.none() | SMALL, min_size=2, max_size=2),
        of_list(same),
    ),
    "list_of_lists": (
        pa.list_(pa.list_(pa.string())),
        st.lists(st.none() | LISTS, max_size=3),
        of_list(of_list(of_text)),
    ),
    "list_of_pairs": (
        pa.list_(PAIR),
        st.lists(st.none() | PAIRS, max_size=3),
        of_list(of_pair),
    ),
    "map": (
        pa.map_(pa.string(), pa.int64()),
        st.dictionaries(TEXTS, st.none() | SMALL, max_size=3).flatmap(
            lambda d: st.permutations(list(d.items()))
        ),
        of_map(of_text, same),
    ),
}


def array(values: list[Any], type: pa.DataType) -> pa.Array:
    """A slice whose offset is not 0, with a null before it."""
    return pa.array([None, *values, None], type)[1:-1]


def rank_of(component: Component, rank: Rank) -> Callable[[Any, Any], int]:
    """The documented comparison of two values of one column."""

    def compared(a: Any, b: Any) -> int:
        if a is None or b is None:
            order = (b is None) - (a is None)
            return order if component.nulls_first else -order
        x, y = rank(a), rank(b)
        order = int(x > y) - int(x < y)
        return -order if component.descending else order

    return compared


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[Component], list[tuple[Any, ...]]]:
    """Rows of one to three columns of any types and directions."""
    names = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=3))
    components, values = [], []
    for name in names:
        nullable = name == "null" or draw(st.booleans())
        component = Component(
            TYPES[name][0], nullable, draw(st.booleans()), nullable and draw(st.booleans())
        )
        components.append(component)
        values.append(st.none() | TYPES[name][1] if nullable else TYPES[name][1])
    pools = [draw(st.lists(v, min_size=1, max_size=5)) for v in values]
    rows = draw(st.lists(st.tuples(*map(st.sampled_from, pools)), min_size=1, max_size=12))
    return names, components, rows


@pytest.mark.parametrize("name", sorted(TYPES))
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
@settings(max_examples=examples(25), deadline=None)
@given(data=st.data())
def test_each_type_has_its_documented_order(
    name: str, descending: bool, nulls_first: bool, data: st.DataObject
) -> None:
    """Equal, less and greater for every pair, alone in its key."""
    type, values, rank = TYPES[name]
    rows = data.draw(st.lists(st.none() | values, min_size=1, max_size=12))
    component = Component(type, nullable=True, descending=descending, nulls_first=nulls_first)
    keys = encode([array(rows, type)], [component])
    check_order(keys, [component], [rank], [(row,) for row in rows])


@settings(max_examples=examples(300), deadline=None)
@given(table=tables())
def test_keys_of_several_columns_compare_column_by_column(
    table: tuple[list[str], list[Component], list[tuple[Any, ...]]],
) -> None:
    """The bytes after a string, a list or a map cannot be confused with its content."""
    names, components, rows = table
    columns = [array([row[i] for row in rows], c.type) for i, c in enumerate(components)]
    keys = encode(columns, components)
    check_order(keys, components, [TYPES[n][2] for n in names], rows)


def check_order(
    keys: EncodedKeys, components: list[Component], ranks: list[Rank], rows: list[tuple[Any, ...]]
) -> None:
    form = key_form(components)
    assert (len(keys.words), keys.rest is not None) == (form.words, form.rest)
    compared = [rank_of(c, r) for c, r in zip(components, ranks, strict=True)]

    def of_rows(a: tuple[Any, ...], b: tuple[Any, ...]) -> int:
        signs = [c(x, y) for c, x, y in zip(compared, a, b, strict=True)]
        return next((sign for sign in signs if sign), 0)

    left, right = (grid.reshape(-1) for grid in np.mgrid[: len(rows), : len(rows)])
    expected = [of_rows(rows[i], rows[j]) for i, j in zip(left, right, strict=True)]
    assert compare(keys.take(left), keys.take(right)).tolist() == expected
    group = np.arange(len(rows)) % 2
    order, first = sort_order([group], keys)
    wanted = sorted(
        range(len(rows)),
        key=lambda i: (group[i], cmp_to_key(of_rows)(rows[i]), i),
    )
    assert order.tolist() == wanted
    assert first.tolist() == [
        j == 0 or group[i] != group[wanted[j - 1]] or of_rows(rows[i], rows[wanted[j - 1]]) != 0
        for j, i in enumerate(wanted)
    ]


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 64), st.booleans()), min_size=1, max_size=3),
    st.integers(0, 70),
    st.integers(0, 2**32),
)
def test_numbers_of_any_range_are_sorted_by_all_their_bits(
    shapes: list[tuple[int, bool]], count: int, seed: int
) -> None:
    """Columns that fit one word together, those that do not, and those that leave no room for a place."""
    draw = np.random.default_rng(seed)
    columns = []
    for bits, signed in shapes:
        column = draw.integers(0, 2**bits, count, np.uint64, endpoint=bits < 64) if bits else None
        column = np.zeros(count, np.uint64) if column is None else column
        if count and bits:
            column[-1] = column[0] = 0
            column[count // 2] = 2**bits - 1
        columns.append(column.view(np.int64) if signed else column)
    order, first = sort_order(columns[:-1], EncodedKeys((columns[-1].view(np.uint64),), None))
    rows = list(
        zip(*(c.tolist() for c in [*columns[:-1], columns[-1].view(np.uint64)]), strict=True)
    )
    wanted = sorted(range(count), key=lambda i: (rows[i], i))
    assert order.tolist() == wanted
    ordered = [rows[i] for i in wanted]
    assert first.tolist() == [i == 0 or ordered[i] != ordered[i - 1] for i in range(count)]


def test_a_64_bit_column_without_nulls_is_one_word() -> None:
    """The usual key takes no more than the value itself; a flag byte makes it two."""
    assert key_form([Component(pa.int64())]).words == 1
    assert key_form([Component(pa.float64()), Component(pa.int64())]).words == 2
    assert key_form([Component(pa.int64(), nullable=True)]).words == 2
    assert key_form([Component(pa.int32(), nullable=True), Component(pa.int16())]).words == 1
    assert not key_form([Component(PAIR)]).rest
    assert key_form([Component(pa.int64()), Component(pa.string())]).rest


def test_no_rows_have_no_keys() -> None:
    """Empty columns of every type, also those without buffers."""
    for type, _, _ in TYPES.values():
        assert len(encode([pa.array([], type)], [Component(type, nullable=True)])) == 0


def test_null_lists_and_maps_may_hide_values() -> None:
    """Arrow allows a null list to point at elements: they are not part of the key."""
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 2, 3], pa.int32()), pa.array([7, 8, 9]), mask=pa.array([True, False])
    )
    component = Component(hidden.type, nullable=True)
    plain = encode([pa.array([None, [9]], hidden.type)], [component])
    assert compare(encode([hidden], [component]), plain).tolist() == [0, 0]


def test_a_null_where_none_is_expected_is_an_error() -> None:
    """A null in a column without nulls raises an error instead of being encoded as a value."""
    for type in (pa.int64(), pa.string()):
        with pytest.raises(ValueError, match="not nullable"):
            encode([pa.array([None], type)], [Component(type)])


def test_a_type_without_an_order_is_an_error() -> None:
    """Unions are the only such type that a column can have."""
    with pytest.raises(TypeError, match="no order"):
        key_form([Component(pa.sparse_union([pa.field("a", pa.int8())]))])
