"""Values whose type in files differs from the type that outputs show."""

from __future__ import annotations

import json
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from substrait_agg.changes.formats.encode import change_lines, csv_lines, row_lines, table_lines
from substrait_agg.plan.arrow import arrow_schema
from substrait_agg.plan.types import STRING, Type

ID = uuid.UUID(int=5)
UUID, U64, TIME = Type("uuid"), Type("u64"), Type("precision_time", params=(6,))
LARGEST = 2**64 - 1

CASES: list[tuple[Type, Any, Any]] = [
    (UUID, ID.bytes, str(ID)),
    (U64, Decimal(LARGEST), LARGEST),
    (TIME, 1_000, "00:00:00.000001"),
    (Type("list", children=(UUID,)), [ID.bytes, None], [str(ID), None]),
    (Type("struct", children=(U64, STRING)), {"f0": Decimal(7), "f1": "x"}, {"f0": 7, "f1": "x"}),
    (Type("map", children=(UUID, U64)), [(ID.bytes, Decimal(3))], [{"key": str(ID), "value": 3}]),
    (
        Type("list", children=(Type("map", children=(STRING, TIME)),)),
        [[("a", 0)], None, []],
        [[{"key": "a", "value": "00:00:00.000000"}], None, []],
    ),
]


def table(type_: Type, *values: Any) -> pa.Table:
    return pa.Table.from_pylist([{"v": v} for v in values], schema=arrow_schema(["v"], [type_]))


@pytest.mark.parametrize(("type_", "value", "wanted"), CASES, ids=[str(c[0]) for c in CASES])
def test_json(type_: Type, value: Any, wanted: Any) -> None:
    """Values are converted in columns with nulls, in slices and over several chunks."""
    rows = table(type_, value, None, value)
    found = [json.loads(line)["v"] for line in "".join(row_lines(rows)).splitlines()]
    assert found == [wanted, None, wanted]
    later = pa.concat_tables([rows.slice(1), rows.slice(2)])
    found = [json.loads(line)["v"] for line in "".join(row_lines(later)).splitlines()]
    assert found == [None, wanted, wanted]


def test_text_of_columns() -> None:
    rows = table(UUID, ID.bytes, None)
    assert "".join(csv_lines(rows)) == f"v\n{ID}\n\n"
    assert str(ID) in "".join(table_lines(rows))
    numbers = table(U64, Decimal(LARGEST))
    assert "".join(csv_lines(numbers)) == f"v\n{LARGEST}\n"
    assert "".join(table_lines(numbers)).splitlines()[2] == str(LARGEST)


def test_changes() -> None:
    extra = {"__version": pa.array([4], pa.int64()), "__weight": pa.array([-1], pa.int64())}
    changes = table(UUID, ID.bytes)
    for name, column in extra.items():
        changes = changes.append_column(name, column)
    assert json.loads("".join(change_lines(changes))) == {
        "version": 4, "weight": -1, "row": {"v": str(ID)},
    }  # fmt: skip


def test_bytes_that_are_no_uuid_stay_base64() -> None:
    assert json.loads("".join(row_lines(table(Type("binary"), ID.bytes))))["v"].endswith("==")
