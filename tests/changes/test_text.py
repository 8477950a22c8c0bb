"""Values as text: every value, in whole columns and in slices, reads back as the same value."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from substrait_agg.changes.formats.text import as_json, plain

VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "bool": (pa.bool_(), st.booleans()),
    "i64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "u64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "string": (pa.string(), st.text()),
    "list of strings": (pa.list_(pa.string()), st.lists(st.none() | st.text(), max_size=3)),
    "struct": (
        pa.struct([("a b", pa.int32()), ("c", pa.list_(pa.bool_()))]),
        st.fixed_dictionaries(
            {"a b": st.none() | st.integers(-5, 5), "c": st.none() | st.lists(st.booleans())}
        ),
    ),
}


@pytest.mark.parametrize("name", VALUES)
@given(data=st.data())
def test_json_reads_back_as_the_values(name: str, data: st.DataObject) -> None:
    kind, strategy = VALUES[name]
    values = data.draw(st.lists(st.none() | strategy, max_size=6))
    skip = data.draw(st.integers(0, len(values)))
    column = pa.array(values, kind).slice(skip)
    assert [json.loads(text) for text in as_json(column).to_pylist()] == values[skip:]


@given(st.lists(st.none() | st.floats()))
def test_floats_keep_every_bit_and_specials_are_strings(values: list[float | None]) -> None:
    texts = as_json(pa.array(values, pa.float64())).to_pylist()
    for value, text in zip(values, texts, strict=True):
        found = json.loads(text)
        if value is None:
            assert found is None
        elif math.isfinite(value):
            assert isinstance(found, float)
            assert (found, math.copysign(1, found)) == (value, math.copysign(1, value))
        else:
            special = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
            assert found == special


@given(st.data(), st.integers(0, 20))
def test_decimals_are_plain_digits_with_their_scale(data: st.DataObject, scale: int) -> None:
    unscaled = data.draw(st.lists(st.integers(-(10**37), 10**37)))
    values = [Decimal(n).scaleb(-scale) for n in unscaled]
    found = plain(pa.array(values, pa.decimal128(38, scale))).to_pylist()
    assert found == [f"{value:.{scale}f}" for value in values]


def test_a_negative_zero_point_something_keeps_its_sign() -> None:
    column = pa.array([Decimal("-0.05"), Decimal("0.05")], pa.decimal128(10, 2))
    assert plain(column).to_pylist() == ["-0.05", "0.05"]


@pytest.mark.parametrize(
    ("values", "kind", "texts"),
    [
        ([dt.date(2026, 1, 31)], pa.date32(), ["2026-01-31"]),
        ([0, -1], pa.timestamp("us"), ["1970-01-01T00:00:00.000000", "1969-12-31T23:59:59.999999"]),
        ([0], pa.timestamp("s"), ["1970-01-01T00:00:00"]),
        ([0], pa.timestamp("ms", "Asia/Tokyo"), ["1970-01-01T00:00:00.000Z"]),
        ([1], pa.time64("us"), ["00:00:00.000001"]),
        ([-90_500], pa.duration("ms"), ["PT-90.5S"]),
        ([(1, 2, 3_000_000_000)], pa.month_day_nano_interval(), ["P1M2DT3S"]),
        ([b"\x00\xff"], pa.binary(), [base64.b64encode(b"\x00\xff").decode()]),
        ([b"\x00\xff"], pa.binary(2), ["AP8="]),
    ],
)
def test_times_are_iso_8601_and_binary_is_base64(
    values: list[Any], kind: pa.DataType, texts: list[str]
) -> None:
    column = pa.array([*values, None], kind)
    assert plain(column).to_pylist() == [*texts, None]
    assert [json.loads(t) for t in as_json(column).to_pylist()] == [*texts, None]


def test_maps_are_lists_of_entries_in_slices_too() -> None:
    column = pa.array([[("a", 1)], None, [], [("b", None)]], pa.map_(pa.string(), pa.int64()))
    found = [json.loads(text) for text in as_json(column.slice(1)).to_pylist()]
    assert found == [None, [], [{"key": "b", "value": None}]]


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_every_form_of_strings_reads_the_same(kind: pa.DataType) -> None:
    column = pa.array(["a", None, 'quote " and \\ and \n'], pa.string()).cast(kind)
    assert [json.loads(t) for t in as_json(column).to_pylist()] == [
        "a",
        None,
        'quote " and \\ and \n',
    ]


def test_a_type_without_an_encoding_is_named() -> None:
    column = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    with pytest.raises(TypeError, match="sparse_union"):
        plain(column)
