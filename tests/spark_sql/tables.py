"""Small tables with every kind of value, and three versions of changes with inserted and deleted rows."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Row = tuple[Any, ...]
VERSIONS = 3
NAN, INF = float("nan"), float("inf")


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _utc(text: str) -> datetime:
    return _at(text).replace(tzinfo=UTC)


SCHEMAS = {
    "t": pa.schema(
        [
            ("id", pa.int32()),
            ("k", pa.int32()),
            ("n", pa.int64()),
            ("d", pa.decimal128(10, 2)),
            ("x", pa.float64()),
            ("s", pa.string()),
            ("day", pa.date32()),
            ("ts", pa.timestamp("us", tz="UTC")),
            ("tn", pa.timestamp("us")),
            ("ok", pa.bool_()),
        ]
    ),
    "u": pa.schema(
        [
            ("id", pa.int32()),
            ("k", pa.int32()),
            ("name", pa.string()),
            ("amount", pa.decimal128(12, 3)),
            ("since", pa.date32()),
        ]
    ),
    "c": pa.schema(
        [
            ("id", pa.int32()),
            ("a", pa.list_(pa.int32())),
            ("w", pa.list_(pa.string())),
            ("m", pa.map_(pa.string(), pa.int32())),
            ("r", pa.struct([("p", pa.int32()), ("q", pa.string())])),
        ]
    ),
    "e": pa.schema(
        [
            ("id", pa.int32()),
            ("j", pa.string()),
            ("line", pa.string()),
            ("url", pa.string()),
            ("num", pa.string()),
            ("raw", pa.binary()),
        ]
    ),
}
"""Name of a table -> its columns."""

D = Decimal
_T: dict[int, Row] = {
    1: (1, 1, 10, D("1.50"), 0.5, "apple", date(2024, 2, 29), _utc("2024-02-29 12:30:45.123456"), _at("2024-02-29 12:30:45"), True),
    2: (2, 1, -7, D("-2.25"), NAN, "Äpfel über", date(1970, 1, 1), _utc("1970-01-01 00:00:00"), _at("1999-12-31 23:59:59.999999"), False),
    3: (3, 2, None, D("100.00"), -0.0, None, None, None, None, None),
    4: (4, 2, 4000000000, None, 1e300, "", date(2023, 12, 31), _utc("2023-12-31 23:59:59"), _at("2023-12-31 00:00:00"), True),
    5: (5, None, 3, D("0.01"), 2.5, "a,b;c", date(2024, 3, 1), _utc("2024-03-01 01:02:03"), _at("2024-03-01 01:02:03"), None),
    6: (6, 3, 3, D("0.01"), 0.0, "日本語", date(2000, 1, 3), _utc("2000-01-03 10:00:00"), _at("2000-01-03 10:00:00"), False),
    7: (7, 3, 0, D("12345678.90"), -INF, "  pad ", date(2024, 12, 30), _utc("2024-12-30 06:00:00"), None, True),
    8: (8, 3, 8, D("-0.50"), None, "APPLE", date(2024, 2, 29), _utc("2024-02-29 23:00:00"), _at("2024-02-29 23:00:00"), True),
    9: (9, 1, 5, D("7.77"), 3.75, "banana", date(2021, 6, 15), _utc("2021-06-15 08:09:10"), _at("2021-06-15 08:09:10"), False),
    10: (10, 2, 5, D("7.77"), NAN, "x😀y", date(2024, 5, 5), _utc("2024-05-05 05:05:05.5"), _at("2024-05-05 05:05:05.5"), True),
    11: (11, None, None, None, None, None, None, None, None, None),
    12: (12, 4, 100, D("55.55"), 1.25, "100%_x", date(1999, 2, 28), _utc("1999-02-28 13:14:15"), _at("1999-02-28 13:14:15"), False),
    13: (13, 4, -100, D("-55.55"), -1.25, "it's", date(2038, 1, 19), _utc("2038-01-19 03:14:07"), _at("2038-01-19 03:14:07"), True),
}  # fmt: skip
_U: dict[int, Row] = {
    1: (1, 1, "one", D("10.500"), date(2024, 1, 1)),
    2: (2, 2, "two", D("-3.125"), date(2024, 2, 29)),
    3: (3, None, "none", None, None),
    4: (4, 2, "two", D("0.000"), date(2023, 12, 31)),
    5: (5, 5, None, D("99.999"), date(2025, 7, 7)),
    6: (6, 3, "drei", D("1.000"), date(2024, 2, 29)),
    7: (7, 1, "one", D("2.000"), date(2024, 1, 1)),
    8: (8, 6, "six", D("6.600"), date(2020, 2, 2)),
}
_C: dict[int, Row] = {
    1: (1, [1, 2, 3], ["a", "b"], {"x": 1, "y": 2}, {"p": 1, "q": "one"}),
    2: (2, [], [], {}, {"p": None, "q": None}),
    3: (3, None, None, None, None),
    4: (4, [5, None, 5, 1], ["b", None, "ü", "b"], {"x": None}, {"p": 4, "q": ""}),
    5: (5, [3], ["z"], {"y": 5, "z": 0}, {"p": 1, "q": "uno"}),
    6: (6, [9, 8, 7, 6], ["long word", "A"], {"é": 6}, {"p": -2, "q": "two"}),
    7: (7, [2, 1], ["b", "a"], {"x": 7, "y": 2}, {"p": 1, "q": "one"}),
}
_E: dict[int, Row] = {
    1: (1, '{"a": 1, "b": {"c": ["x", "y"]}, "d": null}', "1,x,2.5", "https://u:p@ex.org:81/p/a?q=1&r=a%20b#top", "12", b"abc"),
    2: (2, '{"a": "two", "b": null}', "2,,", "http://ex.org", "1.50", b""),
    3: (3, None, None, None, None, None),
    4: (4, "[1, 2, 3]", "4,quote,-1", "ftp://h/path%2Fx", "abc", b"\xff\x00"),
    5: (5, "not json", "5,y,1e3", "https://ex.org/?k=v", " 7 ", "ü".encode()),
    6: (6, '{"a": 6, "b": {"c": []}}', "6,z,0", "mailto:a@b.c", "-3", b"spark"),
    7: (7, '{"a": 7.5, "z": true}', "7,w,", "https://ex.org:443/q?x=%C3%BC", "0", b"Spark SQL"),
}  # fmt: skip
ROWS = {"t": _T, "u": _U, "c": _C, "e": _E}
"""Name of a table -> its rows by number."""

CHANGES: dict[str, Sequence[tuple[Sequence[int], Sequence[int]]]] = {
    "t": (((1, 2, 3, 4, 5, 6, 7, 7), ()), ((8, 9, 10, 1), (2, 7, 5)), ((11, 12, 13, 2), (1, 3, 9))),
    "u": (((1, 2, 3, 4, 4), ()), ((5, 6), (3, 4)), ((7, 8, 3), (1, 6))),
    "c": (((1, 2, 3, 4, 4), ()), ((5, 6), (1, 4)), ((7, 1), (2, 6))),
    "e": (((1, 2, 3, 4), ()), ((5, 6), (1,)), ((7, 1, 1), (4, 2))),
}
"""Name of a table -> numbers of the inserted and of the deleted rows per version. A row may be there twice."""


def rows(name: str, version: int) -> pa.Table:
    """Give the rows of a table that are left after a version."""
    count: Counter[int] = Counter()
    for inserted, deleted in CHANGES[name][: version + 1]:
        count.update(inserted)
        count.subtract(deleted)
    return _table(name, sorted(count.elements()))


def write(folder: Path) -> dict[str, str]:
    """Write a file of changes per table and version, and give the source of each table."""
    sources = {}
    for name, versions in CHANGES.items():
        (folder / name).mkdir(parents=True)
        for version, (inserted, deleted) in enumerate(versions):
            weights = pa.array([1] * len(inserted) + [-1] * len(deleted), pa.int64())
            changes = _table(name, [*inserted, *deleted]).append_column("weight", weights)
            file = folder / name / f"{version}.parquet"
            pq.write_table(changes, file)
            os.utime(file, (version, version))  # batches take the oldest files first
        sources[name] = f"parquet:{folder / name}?weight=weight&batch-files=1"
    return sources


def _table(name: str, numbers: Sequence[int]) -> pa.Table:
    schema = SCHEMAS[name]
    columns = zip(*(ROWS[name][number] for number in numbers), strict=True)
    arrays = [pa.array(map(_pairs, c), f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema)


def _pairs(value: Any) -> Any:
    """Give a map as pairs, which is how Arrow takes it."""
    return list(value.items()) if isinstance(value, dict) and "p" not in value else value
