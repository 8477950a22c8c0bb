"""Sources read through Spark: columns by name, types checked, weights, and nothing silently null."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from substrait_agg.errors import InputRefused
from substrait_agg.flow.graph.graph import TableOrigin
from substrait_agg.plan.types import Type, decimal
from substrait_agg.spark.sources.format_options import NOT_TAKEN, OF_FOLDERS, OPTIONS
from substrait_agg.spark.sources.open import open_source, weight_kind
from substrait_agg.spark.sources.specs import parse_spec

pytestmark = pytest.mark.spark

I64, I32, STRING, FP64 = Type("i64"), Type("i32"), Type("string"), Type("fp64")
REQUIRED = Type("i64", nullable=False)


def origin(**columns: Type) -> TableOrigin:
    return TableOrigin(("db", "t"), tuple(columns), tuple(columns.values()))


def parquet(folder: Path, name: str, columns: Mapping[str, Any]) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table(dict(columns)), folder / f"{name}.parquet")


def drain(spark: SparkSession, frame: DataFrame) -> list[list[tuple[Any, ...]]]:
    """Rows per micro-batch of a stream that runs until its input ends."""
    batches: list[list[tuple[Any, ...]]] = []
    query = (
        frame.writeStream.foreachBatch(
            lambda df, _: batches.append([tuple(r) for r in df.collect()])
        )
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return batches


def rows(spark: SparkSession, source: Any, table: TableOrigin) -> list[tuple[Any, ...]]:
    opened = open_source(spark, source, table)
    if not opened.streaming:
        return sorted(tuple(r) for r in opened.frame.collect())
    return sorted(row for batch in drain(spark, opened.frame) for row in batch)


def refused(spark: SparkSession, source: Any, table: TableOrigin) -> InputRefused:
    with pytest.raises(InputRefused) as raised:
        open_source(spark, source, table)
    assert raised.value.help
    return raised.value


def fails(spark: SparkSession, source: Any, table: TableOrigin) -> str:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - Spark wraps it in several classes
        rows(spark, source, table)
    return str(raised.value)


def test_columns_are_taken_by_name_in_the_order_of_the_plan(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Position in the file does not matter; upper-case plans find lower-case columns."""
    parquet(tmp_path / "in", "a", {"x": [1], "unused": ["u"], "y": ["s"]})
    opened = open_source(spark, f"parquet:{tmp_path}/in", origin(Y=STRING, X=I64))
    assert opened.frame.columns == ["c0", "c1", "__weight"]
    assert opened.weight == "append_only"
    assert drain(spark, opened.frame) == [[("s", 1, 1)]]


def test_an_exact_name_wins_over_one_of_another_case(spark: SparkSession) -> None:
    """With `a` and `A` in the source, the plan's spelling chooses."""
    frame = spark.createDataFrame([(1, 2)], "a long, A long")
    assert rows(spark, frame, origin(A=I64, a=I64)) == [(2, 1, 1)]


def test_two_columns_of_another_case_are_ambiguous(spark: SparkSession) -> None:
    """Neither is taken at random."""
    frame = spark.createDataFrame([(1, 2)], "ab long, aB long")
    assert refused(spark, frame, origin(AB=I64)).code == "COLUMN_AMBIGUOUS"


def test_a_missing_column_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """The message names the column and those that exist."""
    parquet(tmp_path / "in", "a", {"x": [1]})
    error = refused(spark, f"parquet:{tmp_path}/in", origin(z=I64))
    assert error.code == "COLUMN_MISSING"
    assert "no column z" in error.message
    assert "x" in error.message


@pytest.mark.parametrize(
    "spec", ["parquet:{}/none", "{}/none.csv?header=true", "json:{}/no*", "table:nowhere"]
)
def test_a_source_that_is_not_there_is_refused(
    spark: SparkSession, tmp_path: Path, spec: str
) -> None:
    """A wrong path is an error at the start, not an empty stream."""
    assert refused(spark, spec.format(tmp_path), origin(x=I64)).code == "SOURCE_NOT_FOUND"


def test_an_unknown_format_is_refused(spark: SparkSession) -> None:
    """Spark's reason is passed on."""
    assert refused(spark, "nosuchformat:x", origin(x=I64)).code == "SOURCE_UNREADABLE"


WIDENED = [
    (pa.array([1, -2], pa.int8()), I64, [1, -2]),
    (pa.array([1, -2], pa.int32()), I64, [1, -2]),
    (pa.array([1, -2], pa.int16()), Type("i16"), [1, -2]),
    (pa.array([1, 255], pa.uint8()), Type("u8"), [1, 255]),
    (pa.array([1, 2**32 - 1], pa.uint32()), Type("u32"), [1, 2**32 - 1]),
    (pa.array([1, 2**64 - 1], pa.uint64()), Type("u64"), [Decimal(1), Decimal(2**64 - 1)]),
    (pa.array([1, -2], pa.int32()), decimal(12, 2), [Decimal("1.00"), Decimal("-2.00")]),
    (pa.array([Decimal("1.50")] * 2, pa.decimal128(5, 2)), decimal(38, 10), [Decimal("1.5")] * 2),
    (pa.array([1.5, -0.0], pa.float32()), FP64, [1.5, -0.0]),
    (pa.array([1, 2], pa.int32()), FP64, [1.0, 2.0]),
    (pa.array(["a", "b"]), Type("fixedchar", params=(1,)), ["a", "b"]),
    (pa.array([b"a", b"b"]), Type("fixedbinary", params=(1,)), [b"a", b"b"]),
    (pa.array([dt.date(1, 1, 1)] * 2), Type("date"), [dt.date(1, 1, 1)] * 2),
    (
        pa.array([dt.datetime(1900, 1, 1, 0, 0, 0, 1)] * 2, pa.timestamp("us")),
        Type("precision_timestamp", params=(6,)),
        [dt.datetime(1900, 1, 1, 0, 0, 0, 1)] * 2,
    ),
    (
        pa.array([dt.datetime(1900, 1, 1, 0, 0, 0, 1)] * 2, pa.timestamp("us", "UTC")),
        Type("precision_timestamp", params=(6,)),
        [dt.datetime(1900, 1, 1, 0, 0, 0, 1)] * 2,
    ),
    (
        pa.array([[1, 2], []], pa.list_(pa.int32())),
        Type("list", children=(I64,)),
        [[1, 2], []],
    ),
]


@pytest.mark.parametrize(
    ("values", "type_", "expected"), WIDENED, ids=lambda v: str(getattr(v, "type", ""))
)
def test_parquet_types_are_widened_without_loss(
    spark: SparkSession, tmp_path: Path, values: pa.Array, type_: Type, expected: list[Any]
) -> None:
    """The types of a file may be narrower than those of the plan; the values stay the same."""
    parquet(tmp_path / "in", "a", {"x": values, "n": [1, 2]})
    found = rows(spark, f"parquet:{tmp_path}/in", origin(n=I64, x=type_))
    assert [r[1] for r in found] == expected


NARROWED = [
    (pa.array([1], pa.int64()), I32, "bigint"),
    (pa.array([1], pa.uint32()), I32, "bigint"),
    (pa.array([1], pa.int64()), FP64, "bigint"),
    (pa.array([1.0]), Type("fp32"), "double"),
    (pa.array([1.0]), I64, "double"),
    (pa.array(["1"]), I64, "string"),
    (pa.array([1]), STRING, "bigint"),
    (pa.array([Decimal("1.50")], pa.decimal128(5, 2)), decimal(5, 1), "decimal(5,2)"),
    (pa.array([Decimal("1.50")], pa.decimal128(5, 2)), decimal(5, 3), "decimal(5,2)"),
    (pa.array([1], pa.int64()), decimal(18, 0), "bigint"),
    (pa.array([dt.datetime(2020, 1, 1)], pa.timestamp("us")), Type("date"), "timestamp_ntz"),
    (pa.array([[1]]), Type("list", children=(STRING,)), "array<bigint>"),
]


@pytest.mark.parametrize(
    ("values", "type_", "shown"), NARROWED, ids=lambda v: str(getattr(v, "type", ""))
)
def test_a_type_that_could_lose_something_is_refused(
    spark: SparkSession, tmp_path: Path, values: pa.Array, type_: Type, shown: str
) -> None:
    """The message names column, type in the source and type in the plan."""
    parquet(tmp_path / "in", "a", {"x": values})
    error = refused(spark, f"parquet:{tmp_path}/in", origin(x=type_))
    assert error.code == "COLUMN_TYPE_MISMATCH"
    assert "column x of db.t" in error.message
    assert shown in error.message
    assert str(type_) in error.message


LATER = [
    (pa.array([1], pa.int64()), pa.array(["1"]), I64),
    (pa.array([1], pa.int64()), pa.array([1.5]), I64),
    (pa.array([1], pa.int8()), pa.array([300], pa.int32()), Type("i8")),
    (pa.array([1], pa.int32()), pa.array([2**40], pa.int64()), I32),
    (pa.array(["a"]), pa.array([1]), STRING),
    (pa.array([1.5], pa.float32()), pa.array([1.1], pa.float64()), Type("fp32")),
    (
        pa.array([Decimal("1.5")], pa.decimal128(5, 1)),
        pa.array([Decimal("1.55")], pa.decimal128(5, 2)),
        decimal(5, 1),
    ),
]


@pytest.mark.parametrize(
    ("first", "later", "type_"), LATER, ids=lambda v: str(getattr(v, "type", ""))
)
def test_a_later_file_of_another_type_fails_the_batch(
    spark: SparkSession, tmp_path: Path, first: pa.Array, later: pa.Array, type_: Type
) -> None:
    """Only the first file is looked at in advance: a value that does not fit must not become null or be cut off."""
    parquet(tmp_path / "in", "a", {"x": first})
    parquet(tmp_path / "in", "b", {"x": later})
    assert fails(spark, f"parquet:{tmp_path}/in", origin(x=type_))


def test_a_later_file_that_is_wider_but_fits_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """Files may change the width of integers, as long as the values fit the plan's type."""
    parquet(tmp_path / "in", "a", {"x": pa.array([1], pa.int16())})
    parquet(tmp_path / "in", "b", {"X": pa.array([2], pa.int64())})
    assert rows(spark, f"parquet:{tmp_path}/in", origin(x=Type("i16"))) == [(1, 1), (2, 1)]


def test_an_empty_parquet_folder_may_be_filled_later(spark: SparkSession, tmp_path: Path) -> None:
    """The plan gives the schema where no file does."""
    (tmp_path / "in").mkdir()
    opened = open_source(spark, f"parquet:{tmp_path}/in", origin(x=I32, y=decimal(9, 2)))
    parquet(tmp_path / "in", "a", {"y": pa.array([Decimal("1.50")], pa.decimal128(9, 2)), "x": pa.array([7], pa.int32())})  # fmt: skip
    assert drain(spark, opened.frame) == [[(7, Decimal("1.50"), 1)]]


def test_a_single_file_is_a_source(spark: SparkSession, tmp_path: Path) -> None:
    """A file path reads that file, not its neighbours."""
    parquet(tmp_path / "in", "a", {"x": [1]})
    parquet(tmp_path / "in", "a[1]", {"x": [2]})
    assert rows(spark, f"{tmp_path}/in/a.parquet", origin(x=I64)) == [(1, 1)]


def test_csv_is_read_by_header_in_the_types_of_the_plan(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Columns the plan does not name are skipped; empty fields are null."""
    (tmp_path / "a.csv").write_text("skip,B,a\nu,1.50,7\nv,,8\n")
    for spec in (f"csv:{tmp_path}/", f"csv:{tmp_path}/?Header=true"):
        found = rows(spark, spec, origin(a=I64, b=decimal(9, 2)))
        assert found == [(7, Decimal("1.50"), 1), (8, None, 1)]


def test_csv_without_a_header_is_read_by_position(spark: SparkSession, tmp_path: Path) -> None:
    """Columns behind those of the plan have Spark's names."""
    (tmp_path / "a.csv").write_text("1,x,-D\n2,y,+I\n")
    spec = replace(parse_spec(f"csv:{tmp_path}/?header=false&op=_c2"), columns=("number", "unread"))
    assert rows(spark, spec, origin(number=I64)) == [(1, -1), (2, 1)]
    assert rows(spark, spec, origin(unread=STRING)) == [("x", -1), ("y", 1)]
    wider = replace(spec, columns=("a", "b", "c", "d"))
    assert refused(spark, wider, origin(a=I64)).code == "COLUMN_MISSING"


def test_a_csv_file_that_begins_with_a_row_has_no_header(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("1,x\n2,y\n")
    found = refused(spark, f"csv:{tmp_path}/", origin(number=I64))
    assert found.code == "CSV_HEADER_MISSING"
    assert "1, x" in found.message
    assert "header=false" in found.help


ZONELESS = Type("precision_timestamp", params=(6,))
DAY = Type("date")


@pytest.mark.parametrize(
    ("options", "text", "columns", "wanted"),
    [
        ("sep=;", "a;b\n1;x\n", {"a": I64, "b": STRING}, (1, "x")),
        ("quote='", "a,b\n1,'x,y'\n", {"a": I64, "b": STRING}, (1, "x,y")),
        ("escape=!", 'a,b\n1,"x!"y"\n', {"a": I64, "b": STRING}, (1, 'x"y')),
        ("nullValue=NA", "a,b\nNA,x\n", {"a": I64, "b": STRING}, (None, "x")),
        ("multiLine=true", 'a,b\n1,"x\ny"\n', {"a": I64, "b": STRING}, (1, "x\ny")),
        ("comment=%23", "a,b\n# none\n1,x\n", {"a": I64, "b": STRING}, (1, "x")),
        ("encoding=ISO-8859-1", "a,b\n1,ä\n", {"a": I64, "b": STRING}, (1, "ä")),
        ("ignoreLeadingWhiteSpace=true", "a,b\n1,  x\n", {"a": I64, "b": STRING}, (1, "x")),
        ("dateFormat=dd.MM.yyyy", "a\n31.12.2024\n", {"a": DAY}, (dt.date(2024, 12, 31),)),
        ("timestampFormat=dd.MM.yyyy HH:mm", "a\n31.12.2024 23:59\n", {"a": ZONELESS}, (dt.datetime(2024, 12, 31, 23, 59),)),
        ("timestampNTZFormat=dd.MM.yyyy HH:mm", "a\n31.12.2024 23:59\n", {"a": ZONELESS}, (dt.datetime(2024, 12, 31, 23, 59),)),
        ("locale=de&dateFormat=d. MMMM yyyy", "a\n3. März 2024\n", {"a": DAY}, (dt.date(2024, 3, 3),)),
        ("nanValue=none", "a\nnone\n", {"a": FP64}, ("nan",)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("policy", ["fail", "quarantine"])
def test_options_of_csv_are_honoured(
    spark: SparkSession, tmp_path: Path, options: str, text: str, columns: dict[str, Type], wanted: tuple[Any, ...], policy: str
) -> None:  # fmt: skip
    encoding = "latin-1" if "8859" in options else "utf-8"
    (tmp_path / "a.csv").write_text(text, encoding=encoding)
    (found,) = rows(spark, f"csv:{tmp_path}/?{options}&bad-rows={policy}", origin(**columns))
    values = tuple("nan" if str(v) == "nan" else v for v in found[: len(columns)])
    assert values == wanted
    assert policy == "fail" or found[-1] is None


@pytest.mark.parametrize(
    ("options", "row"),
    [
        ("dateFormat=dd.MM.yyyy", "2024-12-31"),
        ("dateFormat=dd.MM.yyyy", "31.02.2024"),
        ("dateFormat=yyyy-MM-dd", "2024-12-31T00:00"),
    ],
)
def test_a_date_of_another_format_is_bad(
    spark: SparkSession, tmp_path: Path, options: str, row: str
) -> None:
    """A row is strictly in the format that is given."""
    (tmp_path / "a.csv").write_text(f"a\n{row}\n")
    assert fails(spark, f"csv:{tmp_path}/?{options}", origin(a=DAY))
    ((day, _, record),) = rows(
        spark, f"csv:{tmp_path}/?{options}&bad-rows=quarantine", origin(a=DAY)
    )
    assert day is None
    assert f"'{row}', which is not a valid date" in record.message


@pytest.mark.parametrize(
    ("options", "text", "columns", "wanted"),
    [
        ("multiLine=true", '[{"a": 1},\n {"a": 2}]', {"a": I64}, [(1, 1), (2, 1)]),
        ("allowComments=true", '{"a": /* one */ 1}', {"a": I64}, [(1, 1)]),
        ("allowSingleQuotes=false", "{'a': 1}", {"a": I64}, None),
        ("dateFormat=dd.MM.yyyy", '{"a": "31.12.2024"}', {"a": DAY}, [(dt.date(2024, 12, 31), 1)]),
        ("timestampFormat=dd.MM.yyyy HH:mm", '{"a": "31.12.2024 23:59"}', {"a": ZONELESS}, [(dt.datetime(2024, 12, 31, 23, 59), 1)]),
        ("lineSep=;", '{"a": 1};{"a": 2}', {"a": I64}, [(1, 1), (2, 1)]),
    ],
)  # fmt: skip
def test_options_of_json_are_honoured(
    spark: SparkSession, tmp_path: Path, options: str, text: str, columns: dict[str, Type], wanted: Any
) -> None:  # fmt: skip
    (tmp_path / "a.json").write_text(text)
    spec = f"json:{tmp_path}/?{options}"
    if wanted is None:
        with pytest.raises((InputRefused, PySparkException)):
            rows(spark, spec, origin(**columns))
    else:
        assert rows(spark, spec, origin(**columns)) == wanted


def test_merge_schema_finds_columns_of_later_files(spark: SparkSession, tmp_path: Path) -> None:
    parquet(tmp_path / "in", "a", {"x": [1]})
    parquet(tmp_path / "in", "b", {"x": [2], "y": [3]})
    found = rows(spark, f"parquet:{tmp_path}/in?mergeSchema=true", origin(x=I64, y=I64))
    assert sorted(found, key=str) == [(1, None, 1), (2, 3, 1)]


@pytest.mark.parametrize(
    ("format_", "name"),
    [
        ("csv", "org.apache.spark.sql.catalyst.csv.CSVOptions"),
        ("json", "org.apache.spark.sql.catalyst.json.JSONOptions"),
        ("parquet", "org.apache.spark.sql.execution.datasources.parquet.ParquetOptions"),
    ],
)
def test_every_option_that_spark_lists_is_taken_or_refused_with_a_reason(
    spark: SparkSession, format_: str, name: str
) -> None:
    jvm: Any = spark._jvm
    loader = jvm.Thread.currentThread().getContextClassLoader()
    options = loader.loadClass(f"{name}$").getField("MODULE$").get(None).getAllOptions()
    names = {str(options.toSeq().apply(i)) for i in range(options.size())}
    refused_here = {n.lower() for n in NOT_TAKEN}
    known = {n.lower() for n in OPTIONS[format_]} | refused_here
    assert {n for n in names if n.lower() not in known and "." not in n} == set()
    listed = {n.lower() for n in names}
    assert {n for n in OPTIONS[format_] if n.lower() not in listed} <= {*OF_FOLDERS, *ALIASES}


ALIASES = {"delimiter", "charset", "timeFormat", "enableDateTimeParsingFallback"}
"""Options that Spark takes without listing them for every format."""


@pytest.mark.parametrize(
    "text",
    ["a,b\nx,1\n", "a,b\n1.5,1\n", "a,b\n99999999999999999999,1\n", "b,a\n1,2\n",
     "a,b\n1\n", "a,b\n1,2,3\n", 'a,b\n1,"2\n3"\n'],
)  # fmt: skip
def test_a_malformed_csv_row_or_another_header_fails(
    spark: SparkSession, tmp_path: Path, text: str
) -> None:
    """Spark would otherwise read null, or the wrong column."""
    (tmp_path / "0.csv").write_text("a,b\n1,2\n")
    (tmp_path / "1.csv").write_text(text)
    assert fails(spark, f"csv:{tmp_path}/?header=true", origin(a=I64))


def test_csv_without_files_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """What columns it has is not known."""
    assert refused(spark, f"csv:{tmp_path}/", origin(a=I64)).code == "SOURCE_EMPTY"


def test_json_keys_are_found_without_regard_to_case(spark: SparkSession, tmp_path: Path) -> None:
    """JSON keys match in any case; Spark's reader alone is case-sensitive and would read null."""
    (tmp_path / "a.json").write_text('{"k": 1, "v": 1.5}\n{"k": 2}\n')
    (tmp_path / "b.json").write_text('{"k": 3, "late": "x"}\n')
    found = rows(spark, f"json:{tmp_path}/", origin(K=I64, V=FP64, LATE=STRING))
    assert found == [(1, 1.5, None, 1), (2, None, None, 1), (3, None, "x", 1)]


@pytest.mark.parametrize(
    "text", ['{"k": "x"}', '{"k": 1.5}', '{"k": 99999999999999999999}', '{"k": ']
)
def test_a_malformed_json_row_fails(spark: SparkSession, tmp_path: Path, text: str) -> None:
    """A value of another type must not become null."""
    (tmp_path / "a.json").write_text('{"k": 1}\n')
    (tmp_path / "b.json").write_text(text + "\n")
    assert fails(spark, f"json:{tmp_path}/", origin(k=I64))


def test_a_json_key_that_no_row_has_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    """A misspelt column is not a column of nulls."""
    (tmp_path / "a.json").write_text('{"k": 1}\n')
    assert refused(spark, f"json:{tmp_path}/", origin(kk=I64)).code == "COLUMN_MISSING"


def test_a_table_of_the_catalogue_is_a_source(spark: SparkSession) -> None:
    """`table:NAME` streams from a table."""
    spark.sql("drop table if exists agg_source")
    spark.sql("create table agg_source (k int, v string) using parquet")
    spark.sql("insert into agg_source values (1, 'a'), (2, null)")
    assert rows(spark, "table:agg_source", origin(K=I64, V=STRING)) == [(1, "a", 1), (2, None, 1)]
    spark.sql("drop table agg_source")


def test_other_formats_are_passed_to_spark(spark: SparkSession) -> None:
    """Any streaming format by name, with its own schema checked."""
    opened = open_source(spark, "rate:?rowsPerSecond=1", origin(value=I64))
    assert opened.streaming
    assert (
        refused(spark, "rate:?rowsPerSecond=1", origin(value=STRING)).code == "COLUMN_TYPE_MISMATCH"
    )


def test_orc_files_are_a_source(spark: SparkSession, tmp_path: Path) -> None:
    """File formats with a schema of their own are read by it."""
    spark.createDataFrame([(1, "a")], "k int, v string").write.orc(f"{tmp_path}/in.orc")
    assert rows(spark, f"{tmp_path}/in.orc", origin(v=STRING, k=I64)) == [("a", 1, 1)]


def test_static_and_streaming_dataframes(spark: SparkSession) -> None:
    """A static DataFrame is one batch, and a column `__weight` contains weights."""
    plain = spark.createDataFrame([(1,)], "x int")
    opened = open_source(spark, plain, origin(x=I64))
    assert (opened.streaming, opened.weight, weight_kind(plain)) == (
        False,
        "append_only",
        "append_only",
    )
    weighted = spark.createDataFrame([(1, 5), (2, -3)], "x int, __weight int")
    assert weight_kind(weighted) == "weighted"
    assert rows(spark, weighted, origin(x=I64)) == [(1, 5), (2, -3)]
    stream = spark.readStream.format("rate").load()
    assert open_source(spark, stream, origin(value=I64)).streaming


WORDS = {
    "insert": 1, "update_postimage": 1, "update_preimage": -1, "delete": -1,
    "+I": 1, "+U": 1, "-U": -1, "-D": -1, "c": 1, "r": 1, "u": 1, "d": -1,
}  # fmt: skip


def test_every_operation_word_has_its_sign(spark: SparkSession, tmp_path: Path) -> None:
    """All three vocabularies of changes are read."""
    parquet(tmp_path / "in", "a", {"x": list(range(len(WORDS))), "Op": list(WORDS)})
    found = rows(spark, f"parquet:{tmp_path}/in?op=op", origin(x=I64))
    assert [weight for _, weight in found] == list(WORDS.values())


@pytest.mark.parametrize(
    ("word", "shown"), [("upsert", "'upsert'"), ("Insert", "'Insert'"), (None, "null")]
)
def test_an_unknown_operation_fails_the_batch(
    spark: SparkSession, tmp_path: Path, word: str | None, shown: str
) -> None:
    """It is named, and never taken for an insert."""
    parquet(tmp_path / "in", "a", {"x": [1], "op": pa.array([word], pa.string())})
    message = fails(spark, f"parquet:{tmp_path}/in?op=op", origin(x=I64))
    assert "OPERATION_UNKNOWN" in message
    assert shown in message


def test_weights_are_taken_from_their_column(spark: SparkSession, tmp_path: Path) -> None:
    """Any integer is a weight; a null is not."""
    (tmp_path / "a.csv").write_text("x,w\n1,3\n2,-4\n3,0\n")
    spec = f"csv:{tmp_path}/?header=true&weight=W"
    assert rows(spark, spec, origin(x=I64)) == [(1, 3), (2, -4), (3, 0)]
    (tmp_path / "b.csv").write_text("x,w\n1,\n")
    assert "WEIGHT_IS_NULL" in fails(spark, spec, origin(x=I64))


def test_weight_and_operation_columns_are_checked_like_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A missing one or one of another type is refused before a row is read."""
    parquet(tmp_path / "in", "a", {"x": [1], "w": ["1"]})
    base = f"parquet:{tmp_path}/in"
    assert refused(spark, f"{base}?weight=w", origin(x=I64)).code == "COLUMN_TYPE_MISMATCH"
    assert refused(spark, f"{base}?op=x", origin(x=I64)).code == "COLUMN_TYPE_MISMATCH"
    assert refused(spark, f"{base}?weight=nope", origin(x=I64)).code == "COLUMN_MISSING"


@pytest.mark.parametrize("spec", ["", "?weight=w"])
def test_a_null_in_a_required_column_fails_even_if_the_column_is_not_used(
    spark: SparkSession, tmp_path: Path, spec: str
) -> None:
    """count(x) shares the counter of count(*) where the plan says x is never null, so Spark must not prune the check."""
    parquet(tmp_path / "in", "a", {"y": [1, 2], "x": [1, None], "w": [1, 1]})
    opened = open_source(spark, f"parquet:{tmp_path}/in{spec}", origin(y=REQUIRED, x=REQUIRED))
    with pytest.raises(Exception, match=r"NULL_IN_REQUIRED_COLUMN\] column x of table db\.t"):
        drain(spark, opened.frame.select(F.lit(1)))


def test_a_null_in_a_required_struct_field_fails(spark: SparkSession) -> None:
    """Fields of a struct can be required too; a null struct has no fields."""
    inner = Type("struct", True, children=(REQUIRED,))
    good = spark.createDataFrame([((1,),), (None,)], "s struct<a: long>")
    opened = open_source(spark, good, origin(s=Type("struct", True, children=(I64,))))
    assert opened.frame.count() == 2
    bad = spark.createDataFrame([((None,),)], "s struct<a: long>")
    assert "NULL_IN_REQUIRED_COLUMN] column s.0" in fails(spark, bad, origin(s=inner))


def test_uuid_columns_take_bytes_and_text(spark: SparkSession) -> None:
    """Text is parsed; anything else in it fails."""
    value = uuid4()
    text = spark.createDataFrame([(str(value),)], "x string")
    assert [UUID(bytes=bytes(r[0])) for r in rows(spark, text, origin(x=Type("uuid")))] == [value]
    bad = spark.createDataFrame([("abc",)], "x string")
    assert "VALUE_OUT_OF_RANGE" in fails(spark, bad, origin(x=Type("uuid")))


def test_unsigned_columns_refuse_negative_values(spark: SparkSession) -> None:
    """A signed source column can have values that do not fit the type of the plan."""
    frame = spark.createDataFrame([(-1,)], "x short")
    assert "VALUE_OUT_OF_RANGE" in fails(spark, frame, origin(x=Type("u8")))


def test_zones_of_the_callers_session_change_nothing(spark: SparkSession) -> None:
    """A DataFrame keeps its own session, whose settings may be anything."""
    own = spark.newSession()
    own.conf.set("spark.sql.session.timeZone", "America/New_York")
    own.conf.set("spark.sql.ansi.enabled", "false")
    frame = own.sql(
        "select timestamp'2020-01-01 00:00:00Z' as t, timestamp_ntz'2020-01-01 00:00:00' as n"
    )
    table = origin(t=Type("precision_timestamp", params=(6,)), n=Type("precision_timestamp_tz", params=(6,)))  # fmt: skip
    opened = open_source(spark, frame, table).frame.selectExpr("c0", "unix_micros(c1)")
    assert [tuple(r) for r in opened.collect()] == [(dt.datetime(2020, 1, 1), 1577836800000000)]


def test_a_first_file_whose_name_has_wildcards_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """Spark takes paths as globs, and the first file decides about the columns."""
    for format, text in (("csv", "a\n1\n"), ("json", '{"a":1}\n')):
        folder = tmp_path / format
        folder.mkdir()
        (folder / f"a[b]{{c}}*.{format}").write_text(text)
        opened = open_source(spark, f"{format}:{folder}?static=true", origin(a=I64))
        assert opened.frame.collect() == [(1, 1)]


@pytest.mark.parametrize("format_", ["json", "parquet"])
def test_columns_whose_names_differ_in_case_alone_have_a_code(
    spark: SparkSession, tmp_path: Path, format_: str
) -> None:
    """Spark cannot infer the columns of such files."""
    if format_ == "json":
        (tmp_path / "a.json").write_text('{"A": 1, "a": 2}\n')
    else:
        pq.write_table(pa.table({"A": [1], "a": [2]}), tmp_path / "a.parquet")
    assert refused(spark, f"{format_}:{tmp_path}", origin(a=I64)).code == "COLUMN_AMBIGUOUS"
