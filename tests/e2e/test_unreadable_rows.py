"""The error for a row that does not parse has file, line, column and value, on Spark and on the driver."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import substrait_agg as sa
from tests.e2e.plans import Builder, aggregate, column, projected, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = {"k": "string", "x": "i64", "d": "date"}


def plan(*, grouped: bool = True) -> str:
    builder = Builder()
    source = read("t", COLUMNS)
    if not grouped:
        return builder.plan(projected(source, 3, *map(column, range(3))), "k", "x", "d")
    measures = [
        builder.measure("sum", (column(1), "i64"), output="i64"),
        builder.measure("count", (column(2), "date"), output="i64!"),
    ]
    return builder.plan(aggregate(source, [column(0)], measures), "k", "s", "n")


@pytest.fixture(params=["driver", "tasks"])
def place(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where the batch is computed."""
    from substrait_agg.spark.execution.driver import Driver
    from tests.executors import drivers

    with drivers(Driver() if request.param == "driver" else Driver(batch_bytes=0)):
        yield str(request.param)


def failure(spark: SparkSession, folder: Path, source: str, **options: Any) -> Any:
    with pytest.raises(sa.SubstraitAggError) as caught:
        sa.run(plan(**options), {"t": source}, checkpoint=folder / "checkpoint", spark=spark).wait()
    return caught.value


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", "k,x,d\na,1,2024-01-01\nb,abc,2024-01-02\n", ("line 3 of table t cannot be read: column x has the "
                                                                "value 'abc', which is not a valid i64 (the row is "
                                                                "'b,abc,2024-01-02')")),
        ("a b%2c.csv", "d,more,k,x\n2024-01-01,?,a,1\n2024-13-01,?,b,2\n", ("line 3 of table t cannot be read: "
                                                                            "column d has the value '2024-13-01', "
                                                                            "which is not a valid date")),
        ("a.json", '{"k": "a", "x": 1, "d": "2024-01-01"}\n{"k": "b", "x": "abc"}\n', ("line 2 of table t cannot be "
                                                                                       "read: column x has the "
                                                                                       "value 'abc', which is not a "
                                                                                       "valid i64")),
        ("a.json", '{"k": "a", "x": 1, "d": "2024-01-01"}\nnot json\n', "line 2 of table t cannot be read: it is not a JSON object (the row is 'not json')"),
    ],
    ids=["csv", "other columns", "json", "no json"],
)  # fmt: skip
def test_file_line_column_and_value_are_named(
    spark: SparkSession, tmp_path: Path, place: str, name: str, content: str, said: str
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / name).write_text(content)
    spec = f"{name.rpartition('.')[2]}:{folder}" + ("?header=true" if "csv" in name else "")
    error = failure(spark, tmp_path, spec)
    assert error.code == "ROW_UNREADABLE"
    assert said in error.message
    assert Path(error.path.removeprefix("file:")) == folder / name
    assert "nothing of the batch was committed" in error.help


def test_a_row_of_a_view_without_an_aggregate_and_of_a_later_file(
    spark: SparkSession, tmp_path: Path, place: str
) -> None:
    """The first file is committed. The error names the row of the second file, which is compressed."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "0.csv").write_text("k,x,d\na,1,2024-01-01\n")
    with gzip.open(folder / "1.csv.gz", "wt") as file:
        file.write("k,x,d\na,1,2024-01-01\nb,2\n")
    os.utime(folder / "0.csv", (1, 1))
    spec = f"csv:{folder}?header=true&batch-files=1"
    error = failure(spark, tmp_path, spec, grouped=False)
    assert error.code == "ROW_UNREADABLE"
    assert error.path.endswith("1.csv.gz")
    said = "add multiLine=true to the source (the row is 'b,2')"
    assert said in error.message
    assert sa.open_view(tmp_path / "checkpoint").to_arrow().num_rows == 1


@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="takes another Python")
def test_workers_with_another_python_are_told_before_the_first_batch(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A session whose workers run a Python without our packages is refused before the first batch."""
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    python = bare / "bin" / "python"
    (tmp_path / "in.csv").write_text("k,x,d\na,1,2024-01-01\n")
    # Where a session that was started with PYSPARK_PYTHON has it.
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    error = failure(spark, tmp_path, f"csv:{tmp_path}/in.csv?header=true", grouped=True)
    assert error.code == "WORKER_PYTHON_DIFFERS"
    assert str(python) in error.message
    assert sys.executable in error.message
    assert f"PYSPARK_PYTHON={sys.executable}" in error.help
    assert not (tmp_path / "checkpoint").exists()


def test_the_python_of_this_process_is_known_by_its_links(tmp_path: Path) -> None:
    from substrait_agg.spark.execution.worker_python import is_this_python

    assert is_this_python(sys.executable)
    assert is_this_python(str(Path(sys.executable).parent / "python3"))
    (tmp_path / "python").symlink_to(Path(sys.executable).resolve())
    for other in (tmp_path / "python", tmp_path / "none", "no-such-python"):
        assert not is_this_python(str(other))


GROUPED = "CREATE TABLE t (a string, b int); SELECT a, count(*) AS n FROM t GROUP BY a"
MISREAD = {
    "csv": (b"a,b\nx,1\n", b'a,b\nx,1\n"p\nq,z",2\n', "ROW_UNREADABLE"),
    "csv?bad-rows=quarantine": (b"a,b\nx,1\n", b"a,b\n\xe4,1\n\xf6,1\n", "TEXT_ENCODING_INVALID"),
    "json": (b'{"a":"x"}', b'{"A":"y"}\n', "ROW_UNREADABLE"),
    "json?bad-rows=quarantine": (b'{"a":"x"}', b'{"a":"y"} {"a":"z"}', "SOURCE_UNREADABLE"),
    "json?cdc=debezium": (
        b'{"op":"c","after":{"a":"x","b":1}}',
        b'{"op":"c","after":{"a":"\xff","b":1}}',
        "TEXT_ENCODING_INVALID",
    ),
}


@pytest.mark.parametrize("source", MISREAD)
def test_texts_that_spark_would_read_as_others_fail_their_batch(
    spark: SparkSession, tmp_path: Path, source: str
) -> None:
    """The first file is committed; the second one is refused with its name."""
    form, _, options = source.partition("?")
    good, bad, code = MISREAD[source]
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "0").write_bytes(good)
    (folder / "1").write_bytes(bad)
    os.utime(folder / "0", (1, 1))
    spec = f"{form}:{folder}?batch-files=1&{options}".rstrip("&")
    with pytest.raises(sa.SubstraitAggError) as refused:
        sa.run(sa.sql(GROUPED), {"t": spec}, checkpoint=tmp_path / "c", spark=spark).wait()
    assert refused.value.code == code
    assert sa.open_view(tmp_path / "c").to_arrow().to_pylist() == [{"a": "x", "n": 1}]
    if "cdc" in options:
        return
    assert refused.value.path == (folder / "1").as_uri()
    static = {"t": f"{form}:{folder}?static=true"}
    with pytest.raises(sa.InputRefused) as again:
        sa.run(sa.sql(GROUPED), static, checkpoint=tmp_path / "d", spark=spark)
    assert again.value.code == code
