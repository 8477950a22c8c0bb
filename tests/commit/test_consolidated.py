"""Changes of a version that took two passes: rows that came and went in it are none, whatever their types."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from substrait_agg.commit.consolidated import consolidated
from substrait_agg.operator.names import WEIGHT

NAN = float("nan")
COLUMNS: dict[str, tuple[pa.DataType, tuple[Any, Any]]] = {
    "long": (pa.int64(), (1, 2)),
    "double": (pa.float64(), (NAN, 1.5)),
    "zeros": (pa.float64(), (0.0, -0.0)),
    "flag": (pa.bool_(), (True, False)),
    "text": (pa.string(), ("", "a")),
    "bytes": (pa.binary(), (b"", b"a")),
    "amount": (pa.decimal128(38, 2), (Decimal("1.50"), Decimal("-1.50"))),
    "day": (pa.date32(), (dt.date(1969, 1, 1), dt.date(2024, 1, 1))),
    "stamp": (pa.timestamp("us", "UTC"), (dt.datetime(1969, 1, 1, tzinfo=dt.UTC), None)),
    "list": (pa.list_(pa.int64()), ([1, None], [])),
    "struct": (pa.struct([("a", pa.int64())]), ({"a": None}, {"a": 1})),
    "map": (pa.map_(pa.string(), pa.int64()), ([("a", 1)], [])),
}


def table(type_: pa.DataType, values: list[Any], weights: list[int]) -> pa.Table:
    return pa.table({"c0": pa.array(values, type_), WEIGHT: pa.array(weights, pa.int64())})


@pytest.mark.parametrize("name", COLUMNS)
def test_equal_rows_are_one(name: str) -> None:
    """A row, another one and null, inserted by one pass; the second takes the first back, and half of the nulls."""
    type_, (one, other) = COLUMNS[name]
    before = table(type_, [one, other, None], [1, 1, 2])
    after = table(type_, [None, one], [-1, -1])
    found = consolidated([before, after])
    wanted = [other, None] if other is not None else [None]
    assert found.column("c0").combine_chunks() == pa.array(wanted, type_)
    assert found.column(WEIGHT).to_pylist() == ([1, 1] if other is not None else [2])


def test_nothing_may_be_left() -> None:
    rows = table(pa.int64(), [1], [1])
    assert consolidated([rows, table(pa.int64(), [1], [-1])]).num_rows == 0
    assert consolidated([rows.slice(0, 0), rows.slice(0, 0)]).num_rows == 0
