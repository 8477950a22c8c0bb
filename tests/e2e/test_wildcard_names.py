"""Files and folders with the characters of a glob in their names are read once, as they are named."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from substrait_agg.errors import SubstraitAggError
from tests.e2e.plans import Builder, aggregate, column, read, union_all
from tests.e2e.rows import view_rows
from tests.e2e.running import maintain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

AT = "2024-01-01 12:00:00"
"""The event time of every row."""
NAMES = ("a", "b[1]", "c{x,y}", "d*", "e?", "f\\g", "h i%20")


def counts(*tables: str, partition: bool = False) -> str:
    """SELECT k, count(*) FROM tables GROUP BY k."""
    builder = Builder()
    columns = {"k": "string", "p": "string"} if partition else {"k": "string"}
    reads = [read(table, {**columns, "at": "timestamp"}) for table in tables]
    source = reads[0] if len(reads) == 1 else union_all(*reads)
    keys = [column(i) for i in range(len(columns))]
    return builder.plan(
        aggregate(source, keys, [builder.measure("count", output="i64!")]), *columns, "n"
    )


def csv(path: Path, key: str) -> None:
    path.with_name(f"{path.name}.csv").write_text(f'k,at\n"{key}",{AT}\n')


def json_lines(path: Path, key: str) -> None:
    path.with_name(f"{path.name}.json").write_text(json.dumps({"k": key, "at": AT}) + "\n")


def debezium(path: Path, key: str) -> None:
    event = {"op": "c", "before": None, "after": {"k": key, "at": AT}}
    path.with_name(f"{path.name}.json").write_text(json.dumps(event) + "\n")


def parquet(path: Path, key: str) -> None:
    table = pa.table({"k": [key], "at": pa.array([datetime.fromisoformat(AT)])})
    pq.write_table(table, path.with_name(f"{path.name}.parquet"))


Write = Callable[[Path, str], None]


@pytest.mark.parametrize("watermark", [False, True], ids=["", "watermark"])
@pytest.mark.parametrize(
    ("write", "format", "options"),
    [
        (csv, "csv", ""),
        (csv, "csv", "?bad-rows=quarantine"),
        (json_lines, "json", ""),
        (json_lines, "json", "?bad-rows=quarantine"),
        (debezium, "json", "?cdc=debezium&times=text"),
        (parquet, "parquet", ""),
        (parquet, "parquet", "?bad-rows=quarantine"),
    ],
)
def test_every_file_of_a_batch_is_read_once(
    spark: SparkSession, tmp_path: Path, write: Write, format: str, options: str, watermark: bool
) -> None:
    """Several files with such names are in one batch, and a later batch has others."""
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    folder.mkdir()
    for name in NAMES[:4]:
        write(folder / name, f"of {name}")
        write(folder / f"{name} too", "shared")
    source = {"t": f"{format}:{folder}{options}"}
    given: dict[str, Any] = {"conf": {"spark.substraitAgg.driverBytes": "0"}}
    if watermark:
        given["watermark"] = {"t.at": "max-diff:1h"}
    maintain(spark, counts("t"), source, checkpoint, **given)
    wanted = Counter({("shared", 4): 1}) + Counter((f"of {name}", 1) for name in NAMES[:4])
    assert view_rows(checkpoint) == wanted
    for name in NAMES[4:]:
        write(folder / name, f"of {name}")
    maintain(spark, counts("t"), source, checkpoint, **given)
    assert view_rows(checkpoint) == wanted + Counter((f"of {name}", 1) for name in NAMES[4:])


def test_a_table_without_files_in_the_batch_beside_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each batch has rows of one of the two tables alone."""
    for table in ("t", "u"):
        (tmp_path / table).mkdir()
        csv(tmp_path / table / "first", "both")
    sources = {table: f"csv:{tmp_path / table}" for table in ("t", "u")}
    plan, checkpoint = counts("t", "u"), tmp_path / "checkpoint"
    maintain(spark, plan, sources, checkpoint)
    csv(tmp_path / "t" / "b[1]", "t")
    csv(tmp_path / "t" / "b[2]", "t")
    maintain(spark, plan, sources, checkpoint)
    assert view_rows(checkpoint) == Counter({("both", 2): 1, ("t", 2): 1})


@pytest.mark.parametrize("static", ["", "?static=true"])
def test_a_folder_of_that_name_wins_over_a_glob(
    spark: SparkSession, tmp_path: Path, static: str
) -> None:
    """The folder that the name would match as a glob is not read."""
    for folder, key in (("in put [1]", "right"), ("in put 1", "wrong")):
        (tmp_path / folder).mkdir()
        csv(tmp_path / folder / "a", key)
        csv(tmp_path / folder / "b", key)
    source = {"t": f"csv:{tmp_path / 'in put [1]'}/{static}"}
    maintain(spark, counts("t"), source, tmp_path / "checkpoint")
    assert view_rows(tmp_path / "checkpoint") == Counter({("right", 2): 1})


def test_a_file_of_that_name_wins_over_a_glob(spark: SparkSession, tmp_path: Path) -> None:
    """A single file as a source, in a folder with such a name."""
    folder = tmp_path / "in [1]"
    folder.mkdir()
    csv(folder / "b[1]", "right")
    csv(folder / "b1", "wrong")
    maintain(spark, counts("t"), {"t": f"csv:{folder / 'b[1].csv'}"}, tmp_path / "checkpoint")
    assert view_rows(tmp_path / "checkpoint") == Counter({("right", 1): 1})


def test_partition_folders_in_a_folder_with_such_a_name(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The values in the names of the folders are read, also of a batch of one file."""
    for value in ("x", "y"):
        (tmp_path / "in [1]" / f"p={value}").mkdir(parents=True)
        csv(tmp_path / "in [1]" / f"p={value}" / "b", "k")
    source, checkpoint = {"t": f"csv:{tmp_path / 'in [1]'}"}, tmp_path / "checkpoint"
    plan = counts("t", partition=True)
    maintain(spark, plan, source, checkpoint)
    csv(tmp_path / "in [1]" / "p=x" / "c[1]", "k")
    maintain(spark, plan, source, checkpoint)
    assert view_rows(checkpoint) == Counter({("k", "x", 2): 1, ("k", "y", 1): 1})


def test_a_stream_of_the_caller_with_such_names_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Nothing of the batch is committed; a SPEC reads the files that the stream has not read."""
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    folder.mkdir()
    csv(folder / "a", "k")
    csv(folder / "c d[1]", "k")
    reader = spark.readStream.schema("k string, at timestamp").option("header", True)
    frame = reader.option("maxFilesPerTrigger", 1).csv(str(folder))
    maintain(spark, counts("t"), {"t": frame}, checkpoint)
    assert view_rows(checkpoint) == Counter({("k", 2): 1})
    csv(folder / "e", "k")
    csv(folder / "f[1]", "k")
    with pytest.raises(SubstraitAggError) as refused:
        maintain(
            spark,
            counts("t"),
            {"t": reader.option("maxFilesPerTrigger", 9).csv(str(folder))},
            checkpoint,
        )
    assert refused.value.code == "SOURCE_FILE_NAME"
    assert view_rows(checkpoint) == Counter({("k", 2): 1})
    spec = {"t": f"csv:{folder}"}
    for count in (4, 5):
        maintain(spark, counts("t"), spec, checkpoint, accept_source_change=True)
        assert view_rows(checkpoint) == Counter({("k", count): 1})
        csv(folder / "g", "k")
