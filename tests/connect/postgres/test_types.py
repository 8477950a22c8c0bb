"""Values of every type are the same by COPY, by the stream and by psycopg2."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from substrait_agg.connect.postgres import types
from substrait_agg.errors import SubstraitAggError
from tests.connect.postgres.database import Database
from tests.connect.postgres.driver import Reader

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
NUMBERS = st.floats(allow_nan=True, allow_infinity=True)
YEARS = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)

STRATEGIES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int2": st.integers(-(2**15), 2**15 - 1),
    "int4": st.integers(-(2**31), 2**31 - 1),
    "int8": st.integers(-(2**63), 2**63 - 1),
    "float4": st.floats(width=32),
    "float8": NUMBERS,
    "numeric(38,9)": st.decimals(-(10**29) + 1, 10**29 - 1, places=9),
    "numeric(4,-2)": st.integers(-9999, 9999).map(lambda n: Decimal(n * 100)),
    "numeric(2,4)": st.integers(-99, 99).map(lambda n: Decimal(n).scaleb(-4)),
    "numeric": st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str),
    "date": st.dates(),
    "time": st.times(),
    "timestamp": st.datetimes(*YEARS),
    "timestamptz": st.datetimes(*YEARS, timezones=st.just(UTC)),
    "bytea": st.binary(max_size=20),
    "text": TEXT,
    "varchar": TEXT,
    "uuid": st.uuids().map(str),
    "jsonb": st.just('{"a": [1, null]}'),
    "money_domain": st.decimals(-1000, 1000, places=2),
    "mood": st.sampled_from(["sad", "happy"]),
    "json[]": st.just('{"{\\"a\\": 1}",NULL}'),
    "interval": st.just("P1DT2H"),
}
ELEMENTS = (
    *("bool", "int2", "int4", "int8", "float8", "numeric(38,9)", "date", "time", "timestamp"),
    *("timestamptz", "bytea", "text", "varchar", "uuid"),
)
STRATEGIES = {
    **{f"{name}[]": st.lists(st.none() | STRATEGIES[name], max_size=4) for name in ELEMENTS},
    **STRATEGIES,
}
AS_TEXT = {"numeric", "jsonb", "json[]", "mood", "uuid"}
OTHER = {**dict.fromkeys(AS_TEXT, "text"), "float4": "float8", "uuid[]": "text[]"}
"""Types that psycopg2 reads as others -> those; it reads the text of a float4 as a double."""
COLUMNS = [f"c{i}" for i in range(len(STRATEGIES))]


def bits(value: Any) -> Any:
    """Floats by their bits: nan is equal to itself, and -0 is not 0."""
    if isinstance(value, list):
        return [bits(v) for v in value]
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("d", value)
    return bytes(value) if isinstance(value, memoryview) else value


def test_all_types(database18: Database) -> None:
    database18.run("CREATE DOMAIN money_domain AS numeric(12,2) CHECK (value < 1e9)")
    database18.run("CREATE TYPE mood AS ENUM ('sad', 'happy')")
    fields = ", ".join(f"{c} {t}" for c, t in zip(COLUMNS, STRATEGIES, strict=True))
    database18.run(f"CREATE TABLE t (id serial, {fields}); ALTER TABLE t REPLICA IDENTITY FULL")
    database18.run("CREATE PUBLICATION p FOR TABLE t")
    rows: list[tuple[Any, ...]] = [(None,) * len(COLUMNS)]

    @settings(max_examples=60, deadline=None, database=None)
    @given(st.tuples(*STRATEGIES.values()))
    def collect(row: tuple[Any, ...]) -> None:
        rows.append(row)

    collect()
    row = ", ".join(f"CAST(%s AS {t})" for t in STRATEGIES)
    insert = f"INSERT INTO t ({', '.join(COLUMNS)}) VALUES ({row})"
    reader = Reader(database18, {"t": ["id", *COLUMNS]})
    source = reader.open()
    half = len(rows) // 2
    for values in rows[:half]:
        database18.run(insert, values)
    position = source.latest(None, math.inf)
    assert position is not None
    found = source.read(None, position)["t"].to_pylist()
    source.committed(position)
    for values in rows[half:]:
        database18.run(insert, values)
    until = source.latest(position, math.inf)
    while len(found) < len(rows):
        if until is not None:
            found += source.read(position, until)["t"].to_pylist()
            position = until
        until = source.latest(position, math.inf)
    source.close()
    text = [f"{c}::{OTHER.get(t, t)}" for c, t in zip(COLUMNS, STRATEGIES, strict=True)]
    text[-1] = f"{COLUMNS[-1]}::text"
    database18.run("SET intervalstyle = iso_8601; SET timezone = 'UTC'")
    expected = database18.run(f"SELECT {', '.join(text)} FROM t ORDER BY id")
    found.sort(key=lambda r: r["id"])
    for one, other in zip(found, expected, strict=True):
        assert [bits(one[c]) for c in COLUMNS] == [bits(v) for v in other]


OUT_OF_RANGE = {
    "date": ["infinity", "0044-03-15 BC", "10000-01-01"],
    "time": ["24:00:00"],
    "timestamp": ["-infinity", "0001-01-01 00:00:00 BC", "10000-01-01 00:00:00"],
    "timestamptz": ["infinity", "10000-01-01 00:00:00+00"],
    "numeric": ["NaN", "Infinity"],
    "int4[]": ["{{1,2},{3,4}}", "[0:2]={1,2,3}"],
    "date[]": ["{infinity}"],
}
OIDS = {
    "date": 1082,
    "time": 1083,
    "timestamp": 1114,
    "timestamptz": 1184,
    "numeric": 1700,
    "int4[]": 1007,
    "date[]": 1182,
}


@pytest.mark.parametrize(("name", "text"), [(n, t) for n, ts in OUT_OF_RANGE.items() for t in ts])
def test_a_value_that_no_column_can_have(name: str, text: str) -> None:
    modifier = (10 << 16 | 2) + 4 if name == "numeric" else -1
    column = types.PublishedColumn("c", OIDS[name], modifier, OIDS[name], modifier)
    with pytest.raises(SubstraitAggError, match="VALUE_OUT_OF_RANGE"):
        types.convert(pa.array([text]), column, "t")


@given(st.lists(st.none() | st.binary(max_size=9)), st.integers(0, 3))
def test_bytes(values: list[bytes | None], start: int) -> None:
    texts = pa.array([None if v is None else "\\x" + v.hex() for v in values], pa.string())
    column = types.PublishedColumn("c", types.BYTEA, -1, types.BYTEA, -1)
    converted = types.convert(texts[start:], column, "t")
    converted.validate(full=True)
    assert converted.to_pylist() == values[start:]


PARSED: dict[int, Callable[[Any], str]] = {
    types.DATE: date.isoformat,
    types.TIME: time.isoformat,
    types.TIMESTAMP: lambda v: v.isoformat(" "),
}


@given(st.data(), st.sampled_from(sorted(PARSED)))
def test_times(data: st.DataObject, oid: int) -> None:
    drawn = {types.DATE: st.dates(), types.TIME: st.times(), types.TIMESTAMP: st.datetimes(*YEARS)}
    values = data.draw(st.lists(st.none() | drawn[oid]))
    texts = pa.array([None if v is None else PARSED[oid](v) for v in values], pa.string())
    assert (
        types.convert(texts, types.PublishedColumn("c", oid, -1, oid, -1), "t").to_pylist()
        == values
    )
