"""Change files between operators have the same values through Spark's workers as through Spark's
own reader.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from substrait_agg.files.filesystem import filesystem
from substrait_agg.files.locations import Remote, location_of
from substrait_agg.plan.arrow import field
from substrait_agg.plan.types import Type
from tests.stores.emulator import Emulator

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG = Type("i64", nullable=True)
TYPED: tuple[tuple[Type, Any], ...] = (
    (Type("bool", nullable=True), True),
    (Type("i8", nullable=True), -8),
    (Type("i16", nullable=True), -16),
    (Type("i32", nullable=True), -32),
    (LONG, -(2**60)),
    (Type("u8", nullable=True), 255),
    (Type("u64", nullable=True), Decimal(2**64 - 1)),
    (Type("fp32", nullable=True), 0.5),
    (Type("fp64", nullable=True), float("nan")),
    (Type("string", nullable=True), "ä"),
    (Type("binary", nullable=True), b"\0\xff"),
    (Type("uuid", nullable=True), bytes(range(16))),
    (Type("date", nullable=True), date(2024, 2, 29)),
    (Type("decimal", nullable=True, params=(38, 10)), Decimal("-1.0000000001")),
    (Type("precision_timestamp", nullable=True, params=(6,)), datetime(2024, 1, 1, 0, 0, 0, 1)),
    (
        Type("precision_timestamp_tz", nullable=True, params=(3,)),
        datetime(2024, 1, 1, tzinfo=UTC),
    ),
    (Type("list", nullable=True, children=(LONG,)), [1, None]),
    (Type("map", nullable=True, children=(Type("string"), LONG)), [("a", None)]),
    (
        Type("struct", nullable=True, children=(LONG, Type("string", nullable=True))),
        {"f0": 1, "f1": None},
    ),
)


@dataclass
class Typed:
    """An operator, as far as its columns have types."""

    types: tuple[Type, ...]


@pytest.mark.spark
def test_columns_of_every_type_come_as_spark_reads_them(
    spark_and_s3: SparkSession, s3: Emulator, tmp_path: Path
) -> None:
    """The same types and the same values, also nulls, of a file here and of one in a store."""
    from substrait_agg.spark.execution.checkpoint_files import read_changes

    node: Any = Typed(tuple(type_ for type_, _ in TYPED))
    fields = [field(f"c{i}", type_) for i, type_ in enumerate(node.types)]
    columns = [pa.array([value, None], f.type) for f, (_, value) in zip(fields, TYPED, strict=True)]
    schema = pa.schema([*fields, pa.field("__weight", pa.int64())])
    table = pa.Table.from_arrays([*columns, pa.array([1, -1])], schema=schema)
    local, remote = (
        tmp_path / "changes.parquet",
        location_of(s3.bucket("all-types")) / "changes.parquet",
    )
    pq.write_table(table, local, compression="none", use_dictionary=False, write_statistics=False)
    assert isinstance(remote, Remote)
    filesystem().put(remote, local.read_bytes())
    context = spark_and_s3.sparkContext
    context.setJobGroup("changes", "reading of change files")
    frames = [read_changes(spark_and_s3, node, [path]) for path in (local, remote)]
    context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    assert not context.statusTracker().getJobIdsForGroup("changes"), "a job has read a schema"
    frames.append(spark_and_s3.read.parquet(str(local)))
    assert len({frame.schema.simpleString() for frame in frames}) == 1
    rows = [sorted(map(str, frame.collect())) for frame in frames]
    assert rows[0] == rows[1] == rows[2]


@pytest.mark.spark
def test_times_and_intervals_come_as_the_plan_has_them(
    spark_and_s3: SparkSession, s3: Emulator
) -> None:
    """Parquet files have no such types for Spark's reader, and the schema that is declared has."""
    from substrait_agg.spark.execution.checkpoint_files import read_changes

    types = Type("precision_time", params=(6,)), Type("interval_day", params=(6,))
    fields = [field(f"c{i}", type_) for i, type_ in enumerate(types)]
    values = [pa.array([1_000], fields[0].type), pa.array([timedelta(days=1)], fields[1].type)]
    table = pa.Table.from_arrays(
        [*values, pa.array([1])], schema=pa.schema([*fields, pa.field("__weight", pa.int64())])
    )
    remote = location_of(s3.bucket("more-types")) / "changes.parquet"
    assert isinstance(remote, Remote)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    filesystem().put(remote, sink.getvalue().to_pybytes())
    node: Any = Typed(types)
    (row,) = read_changes(spark_and_s3, node, [remote]).collect()
    assert (str(row.c0), row.c1) == ("00:00:00.000001", timedelta(days=1))
