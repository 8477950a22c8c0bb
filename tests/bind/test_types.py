"""Types of columns, literals and conversions: accepted, stored and refused ones."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from datafusion import SessionContext
from datafusion.substrait import Serde

from substrait_agg.bind import bind
from substrait_agg.bind.bound import BoundProject, Constant
from substrait_agg.bind.conversions import can_cast, convert
from substrait_agg.functions.signatures.derive import common_type
from substrait_agg.plan import decode
from substrait_agg.plan.model import ProjectRel
from substrait_agg.plan.types import DATE, FP32, FP64, I8, I32, I64, STRING, Type, decimal
from substrait_agg.problems import Problems
from tests.bind.build import ROOT, aggregate, at, bound, codes_of, lit, measure, read

COUNT = measure("count", output=I64.as_nullable(False))
U8, U16, U32, U64, UUID = (Type(kind) for kind in ("u8", "u16", "u32", "u64", "uuid"))
TIME, DAYS = Type("precision_time", params=(6,)), Type("interval_day", params=(6,))
LIST, STRUCT = Type("list", children=(FP64,)), Type("struct", children=(U8, STRING))
MAP = Type("map", children=(STRING, Type("list", children=(UUID,))))


@pytest.mark.parametrize(
    "type_",
    [U8, U16, U32, U64, UUID, TIME, Type("interval_year"), DAYS, LIST, STRUCT, MAP],
    ids=lambda t: t.kind,
)
def test_types_are_keys_and_columns(type_: Type) -> None:
    source = read({"k": type_})
    names = ["k"] + (["x", "y"] if type_.kind == "struct" else [])
    assert codes_of(source, *names) == {}
    assert bound(aggregate(source, (at(0),), (COUNT,)), *names, "n").root.types[0] == type_


def test_a_struct_without_fields_is_no_column() -> None:
    """No file can store it, but an unread column of a table may have it."""
    empty = Type("struct", children=())
    for type_ in (empty, Type("list", children=(empty,))):
        source = read({"a": I64, "k": type_})
        assert (
            codes_of(aggregate(source, (at(1),), (COUNT,)), "k", "n")["TYPE_NOT_SUPPORTED"]
            == "error"
        )
        assert "TYPE_NOT_SUPPORTED" not in codes_of(aggregate(source, (at(0),), (COUNT,)), "a", "n")


NANO = Type("precision_timestamp", params=(9,))
MICRO = Type("precision_timestamp", params=(6,))


def test_nine_digits_of_a_second_are_kept_as_six() -> None:
    inside = Type("list", children=(NANO,))
    source = read({"t": NANO, "l": inside})
    made = bound(source, "t", "l")
    assert [str(t) for t in made.root.types] == [str(MICRO), str(Type("list", children=(MICRO,)))]
    assert codes_of(source, "t", "l") == {"TIME_DIGITS_NOT_KEPT": "warning"}
    assert codes_of(source, "t", "l", mode="strict")["TIME_DIGITS_NOT_KEPT"] == "error"


def test_columns_that_are_masked_out_are_not_spoken_of() -> None:
    assert codes_of(read({"a": I64, "t": NANO}, projection=(0,)), "a") == {}


PAIR = Type("struct", children=(NANO, I64))


@pytest.mark.parametrize(
    ("value", "type_", "kept"),
    [
        (1_000_001_000, NANO, 1_000_001),
        (1_000, Type("precision_time", params=(9,)), 1),
        ((1, -2_000), Type("interval_day", params=(9,)), (1, -2)),
        ((2_000, 7), PAIR, (2, 7)),
        (((("k", 3_000),)), Type("map", children=(STRING, NANO)), (("k", 3),)),
        (1_000_001_001, NANO, None),
        ((1, 1), Type("interval_day", params=(9,)), None),
        ((1, 7), PAIR, None),
    ],
)
def test_literals_of_whole_microseconds(value: Any, type_: Type, kept: Any) -> None:
    """A digit that cannot be kept is refused, never cut off."""
    given = ProjectRel(read(), (lit(value, type_),), (8,), ROOT)
    names = ("a", "b", "c") if type_.kind == "struct" else ("a",)
    if kept is None:
        assert codes_of(given, *names)["TIME_TOO_FINE"] == "error"
        return
    root = bound(given, *names).root
    assert isinstance(root, BoundProject)
    assert isinstance(root.expressions[0], Constant)
    assert root.expressions[0].value == kept


COMMON = [
    ((U8, U32), "u32?"),
    ((U8, I8), "i16?"),
    ((U8, I32), "i32?"),
    ((U32, I64), "i64?"),
    ((U64, I8), "decimal?<20,0>"),
    ((U16, FP32), "fp64?"),
    ((U16, decimal(4, 2)), "decimal?<7,2>"),
    ((Type("precision_time", params=(0,)), TIME), "precision_time?<6>"),
    ((U8, STRING), "None"),
    ((UUID, STRING), "None"),
]


@pytest.mark.parametrize(("given", "wanted"), COMMON, ids=str)
def test_common_types_hold_all_values(given: tuple[Type, ...], wanted: str) -> None:
    assert str(common_type(given)) == wanted


@pytest.mark.parametrize(
    ("source", "target", "exists"),
    [
        (I64, U8, True), (U64, FP64, True), (STRING, U64, True), (U8, STRING, True),
        (UUID, STRING, True), (STRING, UUID, True), (TIME, STRING, True), (UUID, I64, False),
        (TIME, DATE, False), (LIST, STRING, False),
    ],
)  # fmt: skip
def test_casts(source: Type, target: Type, exists: bool) -> None:
    assert can_cast(source, target) is exists


def test_constants_are_folded_only_where_they_fit() -> None:
    assert convert(Constant(I64, 255), U8) == Constant(U8, 255)
    assert not isinstance(convert(Constant(I64, 256), U8), Constant)
    assert not isinstance(convert(Constant(I64, -1), U64), Constant)
    assert convert(Constant(U64, 2**64 - 1), decimal(20, 0)) == Constant(decimal(20, 0), 2**64 - 1)


COLUMNS = pa.schema(
    [
        ("a", pa.int32()), ("k", pa.int64()), ("u8", pa.uint8()), ("u16", pa.uint16()),
        ("u32", pa.uint32()), ("u64", pa.uint64()), ("ts", pa.timestamp("ns")),
        ("tz", pa.timestamp("ns", "UTC")), ("tm", pa.time64("ns")), ("s", pa.string()),
    ]
)  # fmt: skip
QUERIES = [
    ("select u8, u16, u32, u64 from t where u8 = 1 and u16 > 2 and u64 <> 7 and u8 < k and u64 > a",
     ["u8?", "u16?", "u32?", "u64?"]),
    ("select cast(u8 as bigint), cast(k as int unsigned), cast(u64 as double), cast(u32 as varchar) from t",
     ["i64?", "u32?", "fp64?", "string?"]),
    ("select case when u8 > 1 then u32 else 0 end, u8 between 1 and 3 from t", ["i64?", "bool?"]),
    ("select u8, u64, ts, tm, count(*) from t group by 1, 2, 3, 4",
     ["u8?", "u64?", "precision_timestamp?<6>", "precision_time?<6>", "i64"]),
    ("select tz from t where ts > timestamp '2020-01-01 00:00:00' and tm > time '10:00:00'",
     ["precision_timestamp_tz?<6>"]),
    ("select date_trunc('month', ts), ts + interval '1 day', cast(ts as date), cast(s as timestamp) from t",
     ["precision_timestamp?<6>", "precision_timestamp?<6>", "date?", "precision_timestamp?<6>"]),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "types"), QUERIES, ids=[sql for sql, _ in QUERIES])
def test_datafusion_plans_over_its_own_types(sql: str, types: list[str]) -> None:
    """DataFusion writes unsigned columns as type variations, and timestamps with nanoseconds by
    default.
    """
    session = SessionContext()
    session.register_record_batches("t", [[pa.RecordBatch.from_pylist([], schema=COLUMNS)]])
    problems = Problems()
    made = bind(decode(Serde.serialize_bytes(sql, session), problems), problems)
    assert made is not None, problems.errors
    assert [str(t) for t in made.root.types] == types
