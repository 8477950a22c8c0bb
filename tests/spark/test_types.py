"""Every type as key, as column and as text: from a source through the state to the changes and the view."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from substrait_agg.bind.bound import Call, Column, Constant, Conversion, Expr, InList
from substrait_agg.changes.formats.encode import change_lines, csv_lines, row_lines
from substrait_agg.plan.types import BOOL, FP64, I32, I64, STRING, Type, decimal
from tests.e2e.plans import Json
from tests.spark.evaluating import constants, over_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from substrait_agg.commit.view.view import View

pytestmark = pytest.mark.spark

NULLABLE = {"nullability": "NULLABILITY_NULLABLE"}
UNSIGNED = ("u8", "u16", "u32", "u64")
ID, OTHER_ID = "00112233-4455-6677-8899-aabbccddeeff", "ffeeddcc-bbaa-9988-7766-554433221100"


def plain(kind: str, **params: Any) -> Json:
    return {kind: {**NULLABLE, **params}}


def unsigned(kind: str) -> Json:
    return {"userDefined": {**NULLABLE, "typeReference": UNSIGNED.index(kind) + 1}}


COLUMNS: dict[str, tuple[str, Json, str, str, Any, Any]] = {
    # name: Spark type of the source, type in the plan, two values in Spark's SQL, their JSON
    "bool": ("boolean", plain("bool"), "true", "false", True, False),
    "i8": ("tinyint", plain("i8"), "-128", "127", -128, 127),
    "i16": ("smallint", plain("i16"), "-1", "2", -1, 2),
    "i32": ("int", plain("i32"), "1", "2", 1, 2),
    "i64": ("bigint", plain("i64"), "1", "9223372036854775807", 1, 2**63 - 1),
    "u8": ("smallint", unsigned("u8"), "0", "255", 0, 255),
    "u16": ("int", unsigned("u16"), "0", "65535", 0, 65535),
    "u32": ("bigint", unsigned("u32"), "0", "4294967295", 0, 2**32 - 1),
    "u64": ("decimal(20,0)", unsigned("u64"), "0", "18446744073709551615", 0, 2**64 - 1),
    "fp32": ("float", plain("fp32"), "1.5", "'NaN'", 1.5, "NaN"),
    "fp64": ("double", plain("fp64"), "-0.0D", "'-Infinity'", 0.0, "-Infinity"),
    "decimal": (
        "decimal(38,2)", plain("decimal", precision=38, scale=2), "1.50", "-0.01", "1.50", "-0.01",
    ),
    "string": ("string", plain("string"), "'a'", "''", "a", ""),
    "varchar": ("string", plain("varchar", length=9), "'ä'", "'b'", "ä", "b"),
    "fixedchar": ("string", plain("fixedChar", length=2), "'ab'", "'cd'", "ab", "cd"),
    "binary": ("binary", plain("binary"), "X'00'", "X'FF'", "AA==", "/w=="),
    "fixedbinary": ("binary", plain("fixedBinary", length=1), "X'00'", "X'01'", "AA==", "AQ=="),
    "uuid": ("string", plain("uuid"), f"'{ID}'", f"'{OTHER_ID}'", ID, OTHER_ID),
    "date": ("date", plain("date"), "'2026-01-31'", "'0001-01-01'", "2026-01-31", "0001-01-01"),
    "time": (
        "time(6)", plain("precisionTime", precision=6), "'23:59:59.000001'", "'00:00:00'",
        "23:59:59.000001", "00:00:00.000000",
    ),
    "ts": (
        "timestamp_ntz", plain("precisionTimestamp", precision=6), "'2026-01-31 10:00:00.5'",
        "'1969-12-31 23:59:59'", "2026-01-31T10:00:00.500000", "1969-12-31T23:59:59.000000",
    ),
    "ts9": (
        "timestamp_ntz", plain("precisionTimestamp", precision=9), "'2026-01-31 10:00:00.5'",
        "'1969-12-31 23:59:59'", "2026-01-31T10:00:00.500000", "1969-12-31T23:59:59.000000",
    ),
    "tstz": (
        "timestamp", plain("precisionTimestampTz", precision=6), "'2026-01-31 10:00:00Z'",
        "'2026-01-31 10:00:00+01:00'", "2026-01-31T10:00:00.000000Z", "2026-01-31T09:00:00.000000Z",
    ),
    "months": (
        "interval year to month", plain("intervalYear"), "interval '1-2' year to month",
        "interval '-1' month", 14, -1,
    ),
    "seconds": (
        "interval day to second", plain("intervalDay", precision=6),
        "interval '1 00:00:00.5' day to second", "interval '-1' second", "PT86400.5S", "PT-1S",
    ),
    "list": (
        "array<double>", plain("list", type=plain("fp64")), "array(-0.0D, double('NaN'), null)",
        "array()", [0.0, "NaN", None], [],
    ),
    "ids": (
        "array<string>", plain("list", type=plain("uuid")), f"array('{ID}')", "array(null)", [ID], [None],
    ),
    "struct": (
        "struct<a:smallint,b:struct<c:string>>",
        plain("struct", types=[unsigned("u8"), plain("struct", types=[plain("string")])]),
        "named_struct('a', 255S, 'b', named_struct('c', 'x'))", "named_struct('a', null, 'b', null)",
        {"a": 255, "b": {"c": "x"}}, {"a": None, "b": None},
    ),
    "map": (
        "map<string,decimal(20,0)>", plain("map", key=plain("string"), value=unsigned("u64")),
        "map('b', 2, 'a', 1)", "map()",
        [{"key": "a", "value": 1}, {"key": "b", "value": 2}], [],
    ),
}  # fmt: skip
NAMES = list(COLUMNS)
FIELDS = [n for name in NAMES for n in (name, *(["a", "b", "c"] if name == "struct" else []))]


def plan(relation: Json, names: Sequence[str]) -> str:
    """A plan over table t, whose functions are count (1) and whose types are the unsigned ones."""
    types = [
        {"extensionType": {"extensionUrnReference": 1, "typeAnchor": i, "name": kind}}
        for i, kind in enumerate(UNSIGNED, 1)
    ]
    count = {"extensionUrnReference": 2, "functionAnchor": 1, "name": "count:"}
    urns = ("unsigned_integers", "functions_aggregate_generic")
    return json.dumps(
        {
            "version": {"minorNumber": 106},
            "extensionUrns": [
                {"extensionUrnAnchor": i, "urn": f"extension:io.substrait:{urn}"}
                for i, urn in enumerate(urns, 1)
            ],
            "extensions": [*types, {"extensionFunction": count}],
            "relations": [{"root": {"input": relation, "names": list(names)}}],
        }
    )


def table() -> Json:
    struct = {"types": [c[1] for c in COLUMNS.values()], "nullability": "NULLABILITY_REQUIRED"}
    return {
        "read": {
            "baseSchema": {"names": FIELDS, "struct": struct},
            "namedTable": {"names": ["t"]},
        }
    }


def counted() -> Json:
    """Every column as a key, and count(*)."""
    keys = [
        {"selection": {"directReference": {"structField": {"field": i}}, "rootReference": {}}}
        for i in range(len(NAMES))
    ]
    measure = {
        "functionReference": 1,
        "outputType": {"i64": {"nullability": "NULLABILITY_REQUIRED"}},
        "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
        "invocation": "AGGREGATION_INVOCATION_ALL",
    }
    return {
        "aggregate": {
            "input": table(),
            "groupingExpressions": keys,
            "groupings": [{"expressionReferences": list(range(len(keys)))}],
            "measures": [{"measure": measure}],
        }
    }


FIRST, SECOND, NULLS = 2, 3, None


def rows(spark: SparkSession, *given: tuple[int | None, int]) -> DataFrame:
    """Rows of first values, of second values or of nulls, each with its weight."""
    lines = []
    for position, weight in given:
        values = ["null" if position is None else str(c[position]) for c in COLUMNS.values()]
        casts = (
            f"cast({v} as {c[0]}) `{n}`" for v, (n, c) in zip(values, COLUMNS.items(), strict=True)
        )
        lines.append(f"select {', '.join(casts)}, {weight} w")
    return spark.sql(" union all ".join(lines)).coalesce(1)


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two batches: three kinds of rows, one twice; then one goes, one more comes, one comes again."""
    made = tmp_path_factory.mktemp("types") / "t"
    for batch in (
        rows(spark, (FIRST, 1), (SECOND, 1), (NULLS, 1), (FIRST, 1)),
        rows(spark, (SECOND, -1), (NULLS, 1), (FIRST, -1)),
    ):
        batch.write.mode("append").parquet(str(made))
    return made


def _json(position: int | None) -> dict[str, Any]:
    return {n: None if position is None else c[position + 2] for n, c in COLUMNS.items()}


def _frozen(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True)


@pytest.fixture(scope="module")
def views(spark: SparkSession, folder: Path) -> dict[str, View]:
    """The view of groups and the view of rows, after two batches."""
    made = {}
    for name, relation, names in (("groups", counted(), [*FIELDS, "n"]), ("rows", table(), FIELDS)):
        checkpoint = folder.parent / name
        source = f"parquet:{folder}?batch-files=1&weight=w"
        sa.run(plan(relation, names), {"t": source}, checkpoint=checkpoint, spark=spark).wait()
        made[name] = sa.open_view(checkpoint)
    return made


def test_every_type_is_a_key(views: dict[str, View]) -> None:
    """Groups with keys of every type are found in the next batch: counts change, and a group
    disappears.
    """
    found = [
        json.loads(line) for line in "".join(row_lines(views["groups"].to_arrow())).splitlines()
    ]
    assert {_frozen(r) for r in found} == {
        _frozen({**_json(FIRST), "n": 1}),
        _frozen({**_json(NULLS), "n": 2}),
    }


def test_every_type_is_a_column_of_the_view(views: dict[str, View]) -> None:
    text = "".join(row_lines(views["rows"].to_arrow()))
    found = sorted(_frozen(json.loads(line)) for line in text.splitlines())
    assert found == sorted([_frozen(_json(FIRST)), *[_frozen(_json(NULLS))] * 2])


def test_changes_add_up_to_the_view(views: dict[str, View]) -> None:
    sums: dict[str, int] = {}
    for line in "".join(change_lines(views["groups"].changes())).splitlines():
        change = json.loads(line)
        row = _frozen(change["row"])
        sums[row] = sums.get(row, 0) + change["weight"]
    shown = "".join(row_lines(views["groups"].to_arrow())).splitlines()
    assert {r: n for r, n in sums.items() if n} == {_frozen(json.loads(line)): 1 for line in shown}


def test_every_type_is_written_as_csv_and_parquet(views: dict[str, View]) -> None:
    table = views["rows"].to_arrow()
    lines = list(csv_lines(table))
    assert ID in lines[1]
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    assert pq.read_table(io.BytesIO(buffer.getvalue())).num_rows == table.num_rows


U8, U32, U64, UUID = (Type(kind) for kind in ("u8", "u32", "u64", "uuid"))
TIME = Type("precision_time", params=(6,))


def _cast(value: Any, source: Type, target: Type, *, to_null: bool = False) -> Conversion:
    return Conversion(target, Constant(source, value), to_null)


CASTS = [
    (_cast(255, I64, U8), 255),
    (_cast("18446744073709551615", STRING, U64), Decimal(2**64 - 1)),
    (_cast(1.9, FP64, U8), 1),
    (_cast(199, decimal(3, 2), U8), 1),
    (_cast(2**64 - 1, U64, FP64), float(2**64)),
    (_cast(7, U32, STRING), "7"),
    (_cast(256, I64, U8, to_null=True), None),
    (_cast(-1, I64, U64, to_null=True), None),
    (_cast("1.5", STRING, U8, to_null=True), None),
    (_cast("x", STRING, U8, to_null=True), None),
    (_cast(bytes(16), UUID, STRING), "00000000-0000-0000-0000-000000000000"),
    (_cast(ID.upper(), STRING, UUID), bytes.fromhex(ID.replace("-", ""))),
    (_cast("no", STRING, UUID, to_null=True), None),
    (_cast("10:00:00.5", STRING, TIME), dt.time(10, 0, 0, 500_000)),
    (_cast(1_999_999, TIME, Type("precision_time", params=(0,))), dt.time(0, 0, 1)),
]


def test_casts(spark: SparkSession) -> None:
    assert constants(spark, *(c for c, _ in CASTS)) == [wanted for _, wanted in CASTS]


@pytest.mark.parametrize(
    "wrong",
    [_cast(256, I64, U8), _cast(-1, I32, U64), _cast("1.5", STRING, U8), _cast("no", STRING, UUID)],
)
def test_casts_that_fail(spark: SparkSession, wrong: Conversion) -> None:
    with pytest.raises(Exception, match=r"VALUE_OUT_OF_RANGE|CAST_INVALID"):
        constants(spark, wrong)


def test_maps_are_compared_whatever_the_order_of_their_entries(spark: SparkSession) -> None:
    kind = Type("map", children=(STRING, FP64))
    left, right = Column(kind, 0), Column(kind, 1)
    exprs: list[Expr] = [
        Call(BOOL, "equal", (left, right)),
        Call(BOOL, "is_not_distinct_from", (left, right)),
        InList(BOOL, left, (right,)),
    ]
    a, b = (("a", 0.0), ("b", 1.0)), (("b", 1.0), ("a", -0.0))
    found = over_rows(spark, exprs, (kind, kind), [(a, b), (a, a[:1]), (None, None)])
    assert found == [(True, True, True), (False, False, False), (None, True, None)]


TEXTS = {
    "json": f'{{"id": "{ID}", "m": 14, "t": "10:00:00.5"}}\n',
    "csv": f"id,m,t\n{ID},14,10:00:00.5\n",
}


@pytest.mark.parametrize("form", TEXTS)
def test_files_of_text(spark: SparkSession, tmp_path: Path, form: str) -> None:
    """UUIDs, months and times are read as outputs write them."""
    (tmp_path / f"t.{form}").write_text(TEXTS[form])
    types = [plain("uuid"), plain("intervalYear"), plain("precisionTime", precision=6)]
    struct = {"types": types, "nullability": "NULLABILITY_REQUIRED"}
    schema = {"names": ["id", "m", "t"], "struct": struct}
    read = {"read": {"baseSchema": schema, "namedTable": {"names": ["t"]}}}
    source = f"{tmp_path}/t.{form}" + ("?header=true" if form == "csv" else "")
    sa.run(
        plan(read, ["id", "m", "t"]), {"t": source}, checkpoint=tmp_path / "c", spark=spark
    ).wait()
    found = json.loads("".join(row_lines(sa.open_view(tmp_path / "c").to_arrow())))
    assert found == {"id": ID, "m": 14, "t": "10:00:00.500000"}


def test_a_nested_value_outside_of_its_type_fails(spark: SparkSession, tmp_path: Path) -> None:
    """Ranges are checked inside of lists too: a u8 travels as a smallint."""
    types = {"u": {"list": {"type": unsigned("u8"), **NULLABLE}}}
    struct = {"types": list(types.values()), "nullability": "NULLABILITY_REQUIRED"}
    read = {
        "read": {"baseSchema": {"names": ["u"], "struct": struct}, "namedTable": {"names": ["t"]}}
    }
    frame = spark.sql("select array(cast(300 as smallint)) u")
    with pytest.raises(sa.SubstraitAggError, match="VALUE_OUT_OF_RANGE"):
        sa.run(plan(read, ["u"]), {"t": frame}, checkpoint=tmp_path / "c", spark=spark).wait()
