"""Tables with a column of each nested type, and their rows at three versions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

NAN = float("nan")
PAIR = pa.struct([("a", pa.int32()), ("b", pa.float64())])
NUMBERS = pa.list_(pa.int32())
MAP = pa.map_(pa.string(), pa.int32())

VALUES: dict[str, tuple[pa.DataType, Sequence[Any], str]] = {
    "struct": (
        PAIR,
        [(1, 0.5), (1, NAN), (2, -0.0), (2, 0.0), (None, None), (1, None), None],
        "named_struct('a', 1, 'b', 0.5D)",
    ),
    "list": (
        pa.list_(pa.float64()),
        [[0.5], [], [NAN, 1.0], [-0.0], [0.0], [None], None],
        "array(0.5D)",
    ),
    "list of struct": (
        pa.list_(PAIR),
        [[(1, 0.5)], [], [(1, NAN), None], [(2, -0.0)], [(2, 0.0)], [(None, None)], None],
        "array(named_struct('a', 1, 'b', 0.5D))",
    ),
    "struct with list": (
        pa.struct([("a", pa.string()), ("b", pa.list_(NUMBERS))]),
        [("x", [[1], []]), ("x", []), ("y", None), (None, [None]), ("x", [[None]]), ("z", [[2, 1]]), None],
        "named_struct('a', 'x', 'b', array(array(1), array()))",
    ),
    "map": (
        MAP,
        [[("x", 1)], [], [("y", 2), ("x", 1)], [("x", 1), ("y", 2)], [("x", None)], [("z", 0)], None],
        "map('x', 1)",
    ),
    "map of list": (
        pa.map_(pa.string(), NUMBERS),
        [[("x", [1])], [], [("y", []), ("x", [None])], [("x", [None]), ("y", [])], [("x", None)], [("z", [3, 2])], None],
        "map('x', array(1))",
    ),
    "struct with map": (
        pa.struct([("a", pa.int32()), ("b", MAP)]),
        [(1, [("x", 1)]), (1, []), (2, None), (None, [("x", 1), ("y", 2)]), (None, [("y", 2), ("x", 1)]), (3, [("x", None)]), None],
        "named_struct('a', 1, 'b', map('x', 1))",
    ),
    "list of map": (
        pa.list_(MAP),
        [[[("x", 1)]], [], [None], [[("x", 1), ("y", 2)], []], [[("y", 2), ("x", 1)], []], [[("x", None)]], None],
        "array(map('x', 1))",
    ),
    "binary": (pa.binary(), [b"a", b"", b"\xff\x00", b"ab", b"\x00", b"b", None], "X'61'"),
    "decimal": (
        pa.decimal128(38, 10),
        [Decimal("0.5"), Decimal("-1e27") - Decimal("1e-10"), Decimal("9" * 28), Decimal(0), Decimal("0.1"), Decimal(7), None],
        "CAST(0.5 AS DECIMAL(38, 10))",
    ),
    "boolean": (pa.bool_(), [True, False, True, False, True, False, None], "true"),
}  # fmt: skip
"""Name of a type -> the type, its values, and the first value in SQL."""

IDS = {"t": ((0, 1, 2, 3, 4, 5, 6, 7, 8), (0, 2, 3, 6, 7, 9), (1, 3, 4, 5, 8, 9, 10)), "u": ((0, 1, 5, 6, 7), (1, 2, 3, 5, 6), (0, 2, 4, 5, 6))}  # fmt: skip
"""Name of a table -> numbers of its rows at each version."""
VERSIONS = 3


def schema(kind: str) -> pa.Schema:
    """Give the columns of the tables for a type."""
    return pa.schema(
        [("id", pa.int32()), ("g", pa.int32()), ("ts", pa.timestamp("us")), ("v", VALUES[kind][0])]
    )


def table(kind: str, numbers: Sequence[int]) -> pa.Table:
    """Give rows by their numbers."""
    type_, values, _ = VALUES[kind]
    start = datetime(2024, 1, 1)
    columns = [
        numbers,
        [n % 3 for n in numbers],
        [start + timedelta(minutes=n * n) for n in numbers],
        [_value(values[n % len(values)], type_) for n in numbers],
    ]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema(kind), strict=True)]
    return pa.table(arrays, schema(kind))


def _value(value: Any, type_: pa.DataType) -> Any:
    """Give a value with structs as dictionaries, which is how Arrow takes them."""
    if value is None:
        return None
    if pa.types.is_struct(type_):
        return {f.name: _value(v, f.type) for f, v in zip(type_, value, strict=True)}
    if pa.types.is_list(type_):
        return [_value(v, type_.value_type) for v in value]
    return value
