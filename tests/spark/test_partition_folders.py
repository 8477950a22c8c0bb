"""Columns in the names of folders have the types and values that Spark reads."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

import substrait_agg as sa
from substrait_agg.plan.plannable import plannable
from substrait_agg.spark.sources.inferred_columns import inferred_columns

LAYOUTS = (
    ("p=1", "p=2"),
    ("p=1", "p=3000000000"),
    ("p=1", "p=ab"),
    ("p=2024-01-02", "p=2024-02-03"),
    ("p=2024-01-02", "p=x"),
    ("p=2024-01-02 03%3A04%3A05",),
    ("p=1", "p=__HIVE_DEFAULT_PARTITION__"),
    ("p=__HIVE_DEFAULT_PARTITION__",),
    ("p=1/q=a", "p=1/q=b", "p=2/q=a"),
    ("p=a%2Fb", "p=c%20d", "p=\u00fc"),
    ("p=01", "p=002"),
    ("p=1.5", "p=2"),
    ("p=12345678901234567890123",),
    ("p=true",),
    ("P=1",),
    ("a=7", "a=8"),
    ("p q=1",),
)
"""The folders of a table with the columns a and b."""


def _write(root: Path, folders: tuple[str, ...], format: str) -> None:
    for number, folder in enumerate(folders):
        file = root / folder / f"f.{format}"
        file.parent.mkdir(parents=True)
        if format == "parquet":
            pq.write_table(pa.table({"a": [number], "b": ["x"]}), file)
        elif format == "json":
            file.write_text(f'{{"a": {number}, "b": "x"}}\n')
        else:
            file.write_text(f"a,b\n{number},x\n")
        os.utime(file, (1_700_000_000 + number,) * 2)


@pytest.mark.spark
@pytest.mark.parametrize("format", ["parquet", "json", "csv"])
def test_types_of_folders(spark: SparkSession, tmp_path: Path, format: str) -> None:
    for number, folders in enumerate(LAYOUTS):
        root = tmp_path / str(number)
        _write(root, folders, format)
        reader = spark.read.option("header", "true").option("inferSchema", "true")
        schema = reader.format(format).load(str(root)).schema
        expected = plannable(to_arrow_schema(schema, timezone="UTC"))
        columns = inferred_columns(f"{format}:{root}", "t", lambda: spark)
        assert columns.names == expected.names
        for column, of_spark in zip(columns, expected, strict=True):
            wider = pa.int64() if of_spark.type == pa.int32() else of_spark.type
            assert column.type in (of_spark.type, wider), (folders, column)


@pytest.mark.spark
@pytest.mark.parametrize("format", ["parquet", "json", "csv"])
def test_values_of_folders(spark: SparkSession, tmp_path: Path, format: str) -> None:
    """Without CREATE TABLE; a folder per batch."""
    folders = (
        "p=1/q=a%2Fb",
        "p=__HIVE_DEFAULT_PARTITION__/q=c d",
        "p=3/q=__HIVE_DEFAULT_PARTITION__",
    )
    _write(tmp_path / "in", folders, format)
    source = {"t": f"{format}:{tmp_path / 'in'}?batch-files=1"}
    plan = sa.sql("SELECT a, p, q, count(*) AS n FROM t GROUP BY a, p, q ORDER BY a", source)
    sa.run(plan, source, checkpoint=tmp_path / "c", spark=spark, outputs=["none"]).wait()
    rows = [tuple(row.values()) for row in sa.open_view(tmp_path / "c").to_arrow().to_pylist()]
    assert sorted(rows) == [(0, 1, "a/b", 1), (1, None, "c d", 1), (2, 3, None, 1)]


@pytest.mark.spark
def test_a_column_without_a_type_has_nulls(spark: SparkSession, tmp_path: Path) -> None:
    _write(tmp_path / "in", ("p=__HIVE_DEFAULT_PARTITION__",), "parquet")
    source = {"t": f"parquet:{tmp_path / 'in'}"}
    plan = sa.sql("SELECT a, b, p, count(*) AS n FROM t GROUP BY a, b, p", source)
    sa.run(plan, source, checkpoint=tmp_path / "c", spark=spark, outputs=["none"]).wait()
    (row,) = sa.open_view(tmp_path / "c").to_arrow().to_pylist()
    assert list(row.values()) == [0, "x", None, 1]
