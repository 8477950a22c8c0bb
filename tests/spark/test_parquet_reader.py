"""The driver reads Parquet files as Spark does, or leaves them to Spark."""

from __future__ import annotations

import os
import random
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import substrait_agg as sa
from substrait_agg.errors import InputRefused
from substrait_agg.flow.graph.graph import TableOrigin
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.plan.types import Type
from substrait_agg.spark.session.errors import SPARK_ERRORS
from substrait_agg.spark.sources.open import _shape
from substrait_agg.spark.sources.parquet_reader import ParquetReader, check_types, parquet_reader
from substrait_agg.spark.sources.readers import read_source
from substrait_agg.spark.sources.specs import OPERATIONS, SourceSpec, as_spec
from substrait_agg.spark.types.schema import to_spark
from tests.sampling import seeds

KINDS: dict[str, tuple[Type, list[tuple[pa.DataType, list[Any]]]]] = {
    "i8": (Type("i8"), [(pa.int8(), [-128, 127]), (pa.int32(), [5, 300]), (pa.int64(), [1])]),
    "i32": (Type("i32"), [(pa.int32(), [-(2**31), 7]), (pa.int16(), [9]), (pa.int64(), [2**31])]),
    "i64": (Type("i64"), [(pa.int64(), [-(2**63), 2**63 - 1]), (pa.int32(), [3])]),
    "bool": (Type("bool"), [(pa.bool_(), [True, False])]),
    "fp32": (Type("fp32"), [(pa.float32(), [1.5, -0.0, float("nan")])]),
    "fp64": (Type("fp64"), [(pa.float64(), [0.1, float("inf")]), (pa.float32(), [0.5])]),
    "string": (Type("string"), [(pa.string(), ["", "a", "\u00e4\U0001f600"]), (pa.large_string(), ["b"])]),
    "fixedchar": (Type("fixedchar", params=(3,)), [(pa.string(), ["abc", "x"])]),
    "binary": (Type("binary"), [(pa.binary(), [b"", b"\xff"])]),
    "date": (Type("date"), [(pa.date32(), [date(1970, 1, 1), date(9999, 12, 31), date(1200, 2, 3)])]),
    "decimal": (
        Type("decimal", params=(15, 2)),
        [(pa.decimal128(15, 2), [Decimal("1.25"), Decimal("-9999999999999.99")]), (pa.decimal128(9, 1), [Decimal("2.5")])],
    ),
    "timestamp": (
        Type("precision_timestamp", params=(6,)),
        [(pa.timestamp("us"), [datetime(2020, 1, 1, 1, 2, 3, 456789), datetime(1300, 1, 1)]), (pa.timestamp("ms"), [datetime(2020, 1, 1)])],
    ),
    "timestamp_tz": (
        Type("precision_timestamp_tz", params=(6,)),
        [(pa.timestamp("us", "UTC"), [datetime(2020, 1, 1, 1, 2, 3, 4, UTC), datetime(1800, 1, 1, tzinfo=UTC)])],
    ),
}  # fmt: skip
"""Kind -> its type in the plan, and types in files with some of their values."""


def source(folder: Path, name: str, rng: random.Random) -> tuple[SourceSpec, TableOrigin]:
    """Write two files of random columns, and return how they are read."""
    kinds = rng.sample(sorted(KINDS), rng.randint(1, 5))
    how = rng.choice(["none", "op", "weight"])
    place = folder / name
    place.mkdir()
    for file in range(2):
        rows = rng.randint(0, 6)
        columns = {}
        for kind in kinds:
            type_, values = rng.choice(KINDS[kind][1][: 1 if file == 0 else None])
            few = [rng.choice([*values, None]) for _ in range(rows)]
            if file == 0 or rng.random() < 0.9:
                named = kind if rng.random() < 0.95 or file == 0 else kind.upper()
                columns[named] = pa.array(few, type_)
        words = [*OPERATIONS, *(["?"] if rng.random() < 0.1 else [])]
        if how == "op":
            columns["change"] = pa.array([rng.choice(words) for _ in range(rows)], pa.string())
        elif how == "weight":
            columns["change"] = pa.array([rng.randint(-2, 2) for _ in range(rows)], pa.int64())
        columns["unread"] = pa.array([[1]] * rows, pa.list_(pa.int32()))
        pq.write_table(pa.table(columns), place / f"{file}.parquet", row_group_size=3)
    types = tuple(KINDS[kind][0].as_nullable(rng.random() < 0.9) for kind in kinds)
    spec = as_spec(f"parquet:{place}" + (f"?{how}=change" if how != "none" else ""))
    return spec, TableOrigin(("t",), tuple(kinds), types)


def by_spark(spark: SparkSession, spec: SourceSpec, origin: TableOrigin) -> Any:
    """Return what Spark reads, None if it refuses, and the reader of the source."""
    from substrait_agg.spark.sources.open import columns_to_read

    stream, _ = read_source(spark, spec, columns_to_read(spec, origin), "t")
    rows = spark.read.schema(stream.schema).parquet(spec.location)
    reader = parquet_reader(spec, stream.schema, origin)
    try:
        return _shape(rows, spec, origin, "t").toArrow(), reader
    except SPARK_ERRORS:
        return None, reader


def by_reader(reader: ParquetReader, spec: SourceSpec) -> pa.Table | None:
    """Return the rows that the driver reads; None if it does not read the files."""
    uris = [f"file://{path}" for path in sorted(Path(spec.location).iterdir())]
    planned = reader.open(uris)
    return None if planned is None else planned.read()


def bag(rows: pa.Table) -> Counter[str]:
    """Return rows as text with their number."""
    columns = [column.to_pylist() for column in rows.columns]
    return Counter(map(repr, zip(*columns, strict=True)))


@pytest.mark.parametrize("block", seeds(1, 16))
def test_the_driver_reads_what_spark_reads(spark: SparkSession, tmp_path: Path, block: int) -> None:
    """Random columns: the same rows, or none where Spark finds an error."""
    from substrait_agg.spark.session.session import isolate

    session, read, left = isolate(spark), 0, 0
    for seed in range(25 * block, 25 * block + 25):
        spec, origin = source(tmp_path, str(seed), random.Random(seed))
        theirs, reader = by_spark(session, spec, origin)
        ours = None if reader is None else by_reader(reader, spec)
        if ours is None:
            left += 1
            continue
        read += 1
        assert theirs is not None, f"{seed}: Spark refuses what the driver reads"
        assert ours.column_names[-1] == WEIGHT
        assert [f.type for f in ours.schema] == [f.type for f in theirs.schema], seed
        assert bag(ours) == bag(theirs), seed
    assert read >= 5
    assert left


@pytest.mark.parametrize(
    "uri", ["s3://bucket/a.parquet", "file:///data/day=1/a.parquet", "file:///missing.parquet"]
)
def test_files_that_spark_has_to_read(uri: str) -> None:
    """Spark has to read files in a store, partition folders, and deleted files."""
    from pyspark.sql import types as st

    schema = st.StructType([st.StructField("a", st.LongType())])
    origin = TableOrigin(("t",), ("a",), (Type("i64"),))
    reader = parquet_reader(as_spec("parquet:/data"), schema, origin)
    assert reader is not None
    assert reader.open([uri]) is None


def _misread_types() -> list[tuple[Any, pa.DataType, Any]]:
    """Return values and types of files that Spark reads as other values, and the types it reads."""
    from pyspark.sql import types as st

    return [
        (2**63, pa.uint64(), st.LongType()),
        (1, pa.timestamp("us"), st.LongType()),
        (1, pa.date32(), st.LongType()),
        (1, pa.time64("us"), st.LongType()),
        (1, pa.int32(), st.DateType()),
        (1, pa.uint8(), st.DateType()),
        (1, pa.time32("ms"), st.DateType()),
        (2**32 - 1, pa.uint32(), st.DoubleType()),
        (1, pa.time32("ms"), st.DoubleType()),
        (1, pa.date32(), st.DoubleType()),
        (Decimal(1), pa.decimal128(9, 2), st.BinaryType()),
        (40_000, pa.uint16(), st.ShortType()),
        (1, pa.time32("ms"), st.IntegerType()),
        (1, pa.timestamp("us"), st.DayTimeIntervalType()),
        (1, pa.date32(), st.YearMonthIntervalType()),
        (1, pa.timestamp("us", "UTC"), st.TimestampNTZType()),
        (1, pa.timestamp("us"), st.TimestampType()),
        *_refused_types(),
    ]


def _refused_types() -> list[tuple[Any, pa.DataType, Any]]:
    """Return values and types of files that Spark refuses in words of its own."""
    from pyspark.sql import types as st

    return [
        (Decimal("1.234"), pa.decimal128(4, 3), st.DecimalType(3, 2)),
        (Decimal("12.34"), pa.decimal128(4, 2), st.DecimalType(4, 3)),
        (1, pa.int32(), st.DecimalType(9, 0)),
        (1, pa.int64(), st.DecimalType(19, 0)),
        (1, pa.uint32(), st.DecimalType(38, 0)),
        (1, pa.uint64(), st.DecimalType(22, 2)),
        (1000, pa.timestamp("ns"), st.TimestampNTZType()),
        (1000, pa.timestamp("ns", "UTC"), st.TimestampType()),
        (1000, pa.time64("ns"), st.TimeType()),
        ([1], pa.list_(pa.int64()), st.LongType()),
        ({"u": 1}, pa.struct({"u": pa.int64()}), st.ArrayType(st.LongType())),
        (1, pa.int64(), st.StructType([st.StructField("u", st.LongType())])),
    ]


@pytest.mark.parametrize("case", range(29))
def test_types_of_a_later_file_that_spark_misreads_are_refused(tmp_path: Path, case: int) -> None:
    """Spark reads other values, such as negative floats above 2^31 and integers for times.

    Other types it refuses without a name of the column, and with advice about its settings.
    """
    from pyspark.sql import types as st

    value, in_file, read_as = _misread_types()[case]
    file = tmp_path / "p=1" / "b.parquet"
    file.parent.mkdir()
    column = pa.array([value], in_file)
    parts = {
        "A": (column, read_as),
        "S.v": (
            pa.StructArray.from_arrays([pa.array([1]), column], ["u", "v"]),
            st.StructType([st.StructField("V", read_as)]),
        ),
        "L.element": (pa.ListArray.from_arrays([0, 1], column), st.ArrayType(read_as)),
        "M.value": (
            pa.MapArray.from_arrays([0, 1], pa.array(["k"]), column),
            st.MapType(st.StringType(), read_as),
        ),
    }
    for part, (values, as_) in parts.items():
        pq.write_table(pa.table({part[0]: values}), file)
        schema = st.StructType([st.StructField(part[0].lower(), as_)])
        with pytest.raises(InputRefused, match=rf"column {part} is .* in the file") as refused:
            check_types(schema, [f"file://{file}"], _no_session)
        assert (refused.value.code, refused.value.path) == (
            "COLUMN_TYPE_MISMATCH",
            f"file://{file}",
        )
        assert as_.simpleString() in refused.value.message or part != "A"
        own = st.StructType([st.StructField("a", st.BooleanType())])
        check_types(own, [f"file://{file}"] if part != "A" else [], _no_session)


def _no_session() -> Any:
    raise AssertionError


@pytest.mark.parametrize(
    ("value", "in_file", "in_plan"),
    [
        (1, pa.uint64(), Type("i64")),
        (1, pa.date32(), Type("i32")),
        (1, pa.int32(), Type("date")),
        (Decimal("1.234"), pa.decimal128(4, 3), Type("decimal", params=(3, 2))),
        (1, pa.timestamp("ns"), Type("precision_timestamp", params=(6,))),
        (1, pa.timestamp("us", "UTC"), Type("precision_timestamp", params=(6,))),
        (1, pa.timestamp("us"), Type("precision_timestamp_tz", params=(6,))),
    ],
)
def test_the_reader_refuses_types_that_spark_misreads(
    tmp_path: Path, value: Any, in_file: pa.DataType, in_plan: Type
) -> None:
    from pyspark.sql import types as st

    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": pa.array([value], in_file)}), file, use_dictionary=False)
    in_spark = st.LongType() if in_plan.kind.startswith("i") else to_spark(in_plan)
    schema = st.StructType([st.StructField("a", in_spark)])
    origin = TableOrigin(("t",), ("a",), (in_plan,))
    reader = parquet_reader(as_spec("parquet:/data"), schema, origin)
    assert reader is not None
    with pytest.raises(InputRefused, match=r"column a is .* in the file") as refused:
        reader.open([file.as_uri()])
    assert (refused.value.code, refused.value.path) == ("COLUMN_TYPE_MISMATCH", file.as_uri())


def test_names_that_differ_in_case_alone_are_refused_if_they_are_read(tmp_path: Path) -> None:
    """Spark refuses such a file in words of its own, and reads its other columns."""
    from pyspark.sql import types as st

    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"A": [1], "a": [2], "b": [3]}), file)
    check_types(st.StructType().add("b", st.LongType()), [file.as_uri()], _no_session)
    with pytest.raises(InputRefused, match="A, a") as refused:
        check_types(st.StructType().add("a", st.LongType()), [file.as_uri()], _no_session)
    assert (refused.value.code, refused.value.path) == ("COLUMN_AMBIGUOUS", file.as_uri())


def test_times_of_the_old_type_are_zoned(tmp_path: Path) -> None:
    """Spark reads INT96 as instants, and refuses it as zoneless times; Arrow shows no time zone."""
    from pyspark.sql import types as st

    file = tmp_path / "a.parquet"
    times = pa.table({"a": pa.array([1000], pa.timestamp("us"))})
    pq.write_table(times, file, use_deprecated_int96_timestamps=True)
    check_types(st.StructType().add("a", st.TimestampType()), [file.as_uri()], _no_session)
    zoneless = st.StructType().add("a", st.TimestampNTZType())
    with pytest.raises(InputRefused, match="COLUMN_TYPE_MISMATCH"):
        check_types(zoneless, [file.as_uri()], _no_session)


@pytest.mark.spark
@pytest.mark.parametrize("options", ["", "?static=true"])
def test_later_files_in_stores_and_of_static_tables_are_checked(
    spark: SparkSession, tmp_path: Path, options: str
) -> None:
    """Spark would read -1 for the largest unsigned integer, also in structs of static tables."""
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    conf.set("fs.viewfs.mounttable.types.link./in", tmp_path.as_uri())
    for number, type_ in enumerate((pa.float64(), pa.uint32())):
        file = tmp_path / f"{number}.parquet"
        wide = {f"c{i:04}{'x' * 40}": pa.array([0]) for i in range(1500)}  # a long footer
        rows = pa.table({"x": pa.array([2**32 - 1], type_), **wide})
        pq.write_table(rows, file)
        os.utime(file, (1_700_000_000 + number,) * 2)
    place = str(tmp_path) if options else "viewfs://types/in"
    source = {"t": f"parquet:{place}{options}"}
    plan = sa.sql("SELECT sum(x) AS s FROM t", {"t": pa.schema({"x": pa.float64()})})
    with pytest.raises(InputRefused, match="column x is uint32") as refused:
        sa.run(plan, source, checkpoint=tmp_path / "ckpt", spark=spark).wait()
    assert refused.value.code == "COLUMN_TYPE_MISMATCH"
    assert refused.value.path.endswith("/1.parquet")


@pytest.mark.parametrize("text", ["csv:/data", "parquet:/data?datetimeRebaseMode=LEGACY", "parquet:/data?bad-rows=quarantine"])  # fmt: skip
def test_sources_that_spark_has_to_read(text: str) -> None:
    """Other formats, options that change values, rows that are set aside."""
    from pyspark.sql import types as st

    schema = st.StructType([st.StructField("a", st.LongType())])
    origin = TableOrigin(("t",), ("a",), (Type("i64"),))
    assert parquet_reader(as_spec(text), schema, origin) is None


def test_values_that_a_file_stores_once_count_as_in_memory(tmp_path: Path) -> None:
    """The limit of the driver must hold for files of few bytes with many rows."""
    from pyspark.sql import types as st

    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": pa.array([7] * 100_000)}), path)
    schema = st.StructType([st.StructField("a", st.LongType())])
    origin = TableOrigin(("t",), ("a",), (Type("i64"),))
    reader = parquet_reader(as_spec(f"parquet:{tmp_path}"), schema, origin)
    assert reader is not None
    planned = reader.open([f"file://{path}"])
    assert planned is not None
    assert path.stat().st_size < 10_000
    assert planned.bytes == 800_000


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])  # fmt: skip
@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("names", [("a",), ("a", "op")])
def test_operations_are_read_with_and_without_a_dictionary(
    tmp_path: Path, type_: pa.DataType, dictionary: bool, names: tuple[str, ...]
) -> None:
    """The encoding of a file, and a plan that reads the operations too, do not change the rows."""
    words = sorted(OPERATIONS) * 500
    table = pa.table({"a": range(len(words)), "op": pa.array(words, pa.string()).cast(type_)})
    pq.write_table(table, tmp_path / "a.parquet", use_dictionary=dictionary, row_group_size=700)
    reader = _by_operation(tmp_path, names)
    planned = reader.open([f"file://{tmp_path}/a.parquet"])
    if pa.types.is_dictionary(type_) and "op" in names:  # a column that only Spark reads
        assert planned is None
        return
    rows = None if planned is None else planned.read()
    assert rows is not None
    assert rows.column(WEIGHT).to_pylist() == [OPERATIONS[word] for word in words]
    assert rows.column("c0").to_pylist() == list(range(len(words)))
    if "op" in names:
        assert rows.column("c1").to_pylist() == words


@pytest.mark.parametrize("bad", [None, "x", "D "])
@pytest.mark.parametrize("dictionary", [True, False])
def test_wrong_operations_are_left_to_spark(
    tmp_path: Path, bad: str | None, dictionary: bool
) -> None:
    """Spark reports an operation that is missing or unknown."""
    words = [*sorted(OPERATIONS), bad]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": range(len(words)), "op": words}), path, use_dictionary=dictionary)
    planned = _by_operation(tmp_path, ("a",)).open([f"file://{path}"])
    assert planned is not None
    assert planned.read() is None


def _by_operation(folder: Path, names: tuple[str, ...]) -> ParquetReader:
    from pyspark.sql import types as st

    fields = {"a": (st.LongType(), Type("i64")), "op": (st.StringType(), Type("string"))}
    schema = st.StructType([st.StructField(name, type_) for name, (type_, _) in fields.items()])
    origin = TableOrigin(("t",), names, tuple(fields[name][1] for name in names))
    reader = parquet_reader(as_spec(f"parquet:{folder}?op=op"), schema, origin)
    assert reader is not None
    return reader
