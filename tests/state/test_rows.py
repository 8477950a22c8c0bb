"""Equality and grouping of key columns of every type."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from substrait_agg.state.keys.rows import equal, group_rows

NAN = float("nan")
COLUMNS: list[tuple[pa.DataType, list[Any]]] = [
    # three different values and a null
    (pa.bool_(), [True, False, None]),
    (pa.float64(), [NAN, 1.0, None]),
    (pa.decimal128(20, 0), [Decimal(1), Decimal(2), None]),
    (pa.binary(), [b"", b"\x00", None]),
    (pa.duration("us"), [1, 2, None]),
    (pa.time64("ns"), [1000, 2000, None]),
    (pa.timestamp("us", "UTC"), [1, 2, None]),
    (pa.list_(pa.float64()), [[1.0, NAN, None], [], [None], None]),
    (
        pa.struct([("f0", pa.int32()), ("f1", pa.list_(pa.string()))]),
        [{"f0": 1, "f1": ["a", ""]}, {"f0": 1, "f1": ["a"]}, {"f0": None, "f1": None}, None],
    ),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1), ("b", None)], [("a", 1)], [], None]),
]


@pytest.mark.parametrize(("kind", "values"), COLUMNS, ids=[str(k) for k, _ in COLUMNS])
def test_values_are_equal_to_themselves_alone(kind: pa.DataType, values: list[Any]) -> None:
    n = len(values)
    left = pa.array(np.repeat(np.arange(n), n))
    right = pa.array(np.tile(np.arange(n), n))
    column = pa.array([values[0], *values], kind)[1:]
    found = equal(column.take(left), column.take(right))
    assert found.tolist() == np.eye(n, dtype=bool).reshape(-1).tolist()


def test_maps_are_equal_whatever_the_order_of_their_entries() -> None:
    kind = pa.map_(pa.string(), pa.float64())
    left = pa.array([[("a", 1.0), ("b", -0.0)]], kind)
    assert equal(left, pa.array([[("b", 0.0), ("a", 1.0)]], kind)).all()


@pytest.mark.parametrize(("kind", "values"), COLUMNS, ids=[str(k) for k, _ in COLUMNS])
def test_keys_of_one_hash_are_grouped_by_what_they_are(
    kind: pa.DataType, values: list[Any]
) -> None:
    column = pa.array([*values, *values, *values], kind)
    order, first = group_rows(np.zeros(len(column), np.uint64), [column])
    groups = np.split(order, np.flatnonzero(first)[1:])
    n = len(values)
    assert sorted(g.tolist() for g in groups) == [[i, i + n, i + 2 * n] for i in range(n)]
