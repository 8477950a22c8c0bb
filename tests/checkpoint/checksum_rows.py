"""Rows with every type that a view can have, and values whose texts differ between engines."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

NAN, INFINITY = float("nan"), float("inf")

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, False]),
    "tiny": (pa.int8(), [-128, 127, 0]),
    "short": (pa.int16(), [-32768, 32767]),
    "medium": (pa.int32(), [-(2**31), 2**31 - 1]),
    "long one": (pa.int64(), [-(2**63), 2**63 - 1, -1]),
    "single": (pa.float32(), [0.1, -0.0, NAN, INFINITY, 1e-40]),
    "double": (pa.float64(), [0.1, -0.0, NAN, -INFINITY, 5e-324, 1e300, 1e16, 0.001]),
    "price": (pa.decimal128(10, 2), [Decimal("0.05"), Decimal("-0.05"), Decimal("12345678.90")]),
    "share": (pa.decimal128(9, 9), [Decimal("0.000000001"), Decimal("-0.5"), Decimal("0.123456789")]),
    "exact": (pa.decimal128(38, 20), [Decimal("0.00000000000000000001"), Decimal("-123456789012345678")]),
    "whole": (pa.decimal128(38, 0), [Decimal(10**37), Decimal(-3)]),
    'a "text"': (pa.string(), ["", "a|b", "null", "grün 😀", "x" * 300, "3:abc"]),
    "bytes": (pa.binary(), [b"", b"\x00\xff|", b"abc"]),
    "day": (pa.date32(), [date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31)]),
    "local": (pa.timestamp("us"), [datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2024, 2, 29)]),
    "instant": (pa.timestamp("us", "UTC"), [datetime(1900, 1, 1, tzinfo=UTC), datetime(2024, 3, 31, 1, 30, tzinfo=UTC)]),
    "list": (pa.list_(pa.string()), [[], ["a", None, "b,c"], [None]]),
    "numbers": (pa.list_(pa.list_(pa.float64())), [[[0.1, NAN], None, []]]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("b", 1), ("a", None)], []]),
    "struct": (pa.struct([("x y", pa.int32()), ("z", pa.list_(pa.date32()))]), [{"x y": 1, "z": [date(2000, 1, 1)]}, {"x y": None, "z": None}]),
}  # fmt: skip
"""Per column its type and values, besides null."""

FINER: dict[str, tuple[pa.DataType, list[Any]]] = {
    "clock": (pa.time64("ns"), [time(0, 0), time(23, 59, 59, 999999)]),
    "nanos": (pa.timestamp("ns"), [-1, 1_700_000_000_123_456_789]),
    "lasted": (pa.duration("us"), [-1, 90_000_000_001, 0]),
}
"""Columns that Spark has no type for in every release."""


def rows_of(columns: dict[str, tuple[pa.DataType, list[Any]]]) -> pa.Table:
    """Return rows that have each value of each column, and null."""
    longest = max(len(values) for _, values in columns.values()) + 1
    return pa.table(
        {
            name: pa.array([(values[i % len(values)] if i < longest - 1 else None) for i in range(longest)], type_)
            for name, (type_, values) in columns.items()
        }
    )  # fmt: skip
