"""A deleted file that Spark planned for a batch stops the run instead of being left out."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from substrait_agg.notices import LOGGER as NOTICES
from substrait_agg.spark.offsets import planned_files
from substrait_agg.spark.offsets.planned_files import (
    LoggedFile,
    PlannedSource,
    check_folders,
    forget_unplanned,
)
from substrait_agg.spark.refresh.files_so_far import FilesSoFar
from substrait_agg.spark.sources import files, readers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLAN = Path(__file__).parents[2] / "plans" / "bench" / "count_sum_avg.bin"


def _file(folder: Path, ordinal: int) -> Path:
    path = folder / f"{ordinal} a+b%.parquet"
    pq.write_table(pa.table({"k": [1, 2], "i": [ordinal, 5], "x": [1.0, 2.0]}), path)
    _date(path, ordinal)
    return path


def _date(path: Path, ordinal: int) -> None:
    # Spark takes files in order of their time of modification.
    os.utime(path, (1_700_000_000 + ordinal, 1_700_000_000 + ordinal))


def test_local_files_are_looked_for_without_spark(tmp_path: Path) -> None:
    path = tmp_path / "50% a+b#c?.parquet"
    path.touch()
    for uri, exists in ((path.as_uri(), True), (path.with_suffix("").as_uri(), False)):
        assert files.exists(None, uri) == exists  # type: ignore[arg-type]


@pytest.mark.spark
def test_a_file_lost_between_two_runs_is_missed(spark: SparkSession, tmp_path: Path) -> None:
    """A damaged file fails its batch; if it is deleted, it is named and refused; if it is restored,
    the run continues.
    """
    folder = tmp_path / "in"
    folder.mkdir()
    paths = [_file(folder, ordinal) for ordinal in range(3)]
    os.truncate(paths[1], 30)
    _date(paths[1], 1)
    source = {"t": f"parquet:{folder}?batch-files=1"}

    def run() -> None:
        sa.run(PLAN, source, checkpoint=tmp_path / "ckpt", spark=spark).wait()

    with pytest.raises(sa.RunFailed):
        run()
    paths[1].unlink()
    with pytest.raises(sa.InputRefused) as refused:
        run()
    assert refused.value.code == "SOURCE_FILE_GONE"
    assert "1%20a" in refused.value.path
    assert sa.open_view(tmp_path / "ckpt").version == 1
    _file(folder, 1)
    run()
    shown = sa.open_view(tmp_path / "ckpt").to_arrow().to_pydict()
    assert dict(zip(shown["k"], shown["s"], strict=True)) == {1: 3, 2: 15}


@pytest.mark.spark
def test_a_batch_with_and_without_partition_folders_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second file arrives after the source was opened. Spark alone would drop the rows of the
    first. With all folders read, the planned batch has both.
    """
    folder = tmp_path / "in"
    (folder / "p=1").mkdir(parents=True)
    _file(folder, 0)
    look_up = files.look_up

    def arriving(*arguments: Any) -> Any:
        found = look_up(*arguments)
        _file(folder / "p=1", 1)
        return found

    def run(options: str) -> None:
        source = {"t": f"parquet:{folder}{options}"}
        sa.run(PLAN, source, checkpoint=tmp_path / "ckpt", spark=spark).wait()

    monkeypatch.setattr(readers, "look_up", arriving)
    with pytest.raises(sa.InputRefused) as refused:
        run("")
    assert refused.value.code == "SOURCE_FILES_UNREAD"
    monkeypatch.undo()
    run("?recursiveFileLookup=true")
    shown = sa.open_view(tmp_path / "ckpt").to_arrow().to_pydict()
    assert dict(zip(shown["k"], shown["s"], strict=True)) == {1: 1, 2: 10}


def test_folders_that_are_streamed_are_known_by_path() -> None:
    """A slash at the end is not part of it. Globs, static tables and recursive reads are none."""
    given = ("parquet:s3a://bucket/in/", "csv:file:///data/in/", "json:/data/a b/")
    others = ("csv:/d?static=true", "csv:/d/*.csv", "csv:/d?recursiveFileLookup=true", "table:t")
    folders = readers.stream_folders((*given, *others))
    assert folders == ("/in", "/data/in", "/data/a b")
    mixed = ("s3a://bucket/in/x.parquet", "s3a://bucket/in/p%3D1/y.parquet")
    with pytest.raises(sa.InputRefused) as refused:
        check_folders([PlannedSource(False, mixed)], folders)
    assert refused.value.code == "SOURCE_FILES_UNREAD"
    assert "/in/x.parquet" in str(refused.value)


def test_files_seen_without_a_batch_are_taken_back(tmp_path: Path) -> None:
    """Only what no batch was planned of; compacted logs and the notes of other sources stay."""
    for name in ("offsets", "sources/0", "sources/1", "sources/2"):
        (tmp_path / name).mkdir(parents=True)
    for batch, offset in ((4, 2), (5, 3)):
        lines = ["v1", "{}", json.dumps({"logOffset": offset}), "-", '{"topic":{"0":7}}']
        (tmp_path / "offsets" / str(batch)).write_text("\n".join(lines))
    for name in ("0/2", "0/3", "0/4", "0/.4.crc", "0/9.compact", "1/0"):
        entry = json.dumps({"path": "file:///in/a.parquet", "timestamp": 1, "batchId": 4})
        (tmp_path / "sources" / name).write_text(f"v1\n{entry}")
    (tmp_path / "sources" / "2" / "0").write_text('v1\n{"topic":{"0":0}}')
    forget_unplanned(tmp_path)
    sources = tmp_path / "sources"
    left = sorted(str(path.relative_to(sources)) for path in sources.glob("*/*"))
    assert left == ["0/2", "0/3", "0/9.compact", "2/0"]


@pytest.mark.parametrize(
    ("log", "written", "damaged"),
    [
        ("offsets/4", None, "torn"),
        ("offsets/5", None, "torn"),
        ("sources/0/3", None, "torn"),
        ("offsets/5", '"logOffset": 3', '"logOffset": 1'),
        ("offsets/5", '"logOffset": 3', '"logOffset": 7'),
        ("sources/0/3", '"batchId": 3', '"batchId": 7'),
    ],
)
def test_a_batch_whose_logs_are_damaged_is_refused(
    tmp_path: Path, log: str, written: str | None, damaged: str
) -> None:
    """Its files would not be known, so some could be left out without an error."""
    for name in ("offsets", "sources/0"):
        (tmp_path / name).mkdir(parents=True)
    for batch, offset in ((4, 2), (5, 3)):
        lines = ["v1", "{}", json.dumps({"logOffset": offset})]
        (tmp_path / "offsets" / str(batch)).write_text("\n".join(lines))
    entry = json.dumps({"path": "file:///in/a.parquet", "timestamp": 1, "batchId": 3})
    (tmp_path / "sources" / "0" / "3").write_text(f"v1\n{entry}")
    assert planned_files.planned_batch(tmp_path, 5).sources[0].files == ("file:///in/a.parquet",)
    content = (tmp_path / log).read_text()
    (tmp_path / log).write_text(content.replace(written or content, damaged))
    with pytest.raises(sa.StateRefused) as refused:
        planned_files.planned_batch(tmp_path, 5)
    assert refused.value.code == "STATE_DAMAGED"
    (tmp_path / log).unlink()
    if log.startswith("sources"):
        with pytest.raises(sa.StateRefused, match="is missing"):
            planned_files.planned_batch(tmp_path, 5)
    assert planned_files.planned_batch(tmp_path, 7).sources == ()


@pytest.mark.spark
@pytest.mark.parametrize(
    ("format", "store"), [("parquet", False), ("json", False), ("parquet", True), ("json", True)]
)
def test_a_file_that_is_lost_before_its_batch_is_missed(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    format: str,
    store: bool,
) -> None:
    """Spark lists all files when the run starts, and would leave out one that is deleted later.

    In a store, it shows in what Spark lists to read the batch.
    """
    folder = tmp_path / "in"
    folder.mkdir()
    paths = [_file(folder, ordinal) for ordinal in range(3)]
    if format == "json":
        for ordinal, path in enumerate(paths):
            path.write_text(f'{{"k": 1, "i": {ordinal}, "x": 1.0}}\n')
            _date(path, ordinal)
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    conf.set(f"fs.viewfs.mounttable.{format}.link./in", folder.as_uri())
    place = f"viewfs://{format}/in" if store else folder
    source = {"t": f"{format}:{place}?batch-files=1"}

    def committed(_table: pa.Table, version: int) -> None:
        if version == 1:
            paths[2].unlink(missing_ok=True)

    def run() -> None:
        checkpoint = tmp_path / "ckpt"
        sa.run(PLAN, source, checkpoint=checkpoint, spark=spark, on_changes=committed).wait()

    asked: list[str] = []

    def exists(session: SparkSession, uri: str) -> bool:
        asked.append(uri)
        return files.exists(session, uri)

    monkeypatch.setattr(planned_files, "exists", exists)
    with pytest.raises(sa.InputRefused) as refused:
        run()
    assert refused.value.code == "SOURCE_FILE_GONE"
    assert sa.open_view(tmp_path / "ckpt").version == 2
    if store:
        assert [uri.rpartition("/")[2][:1] for uri in asked] == ["2"]


def test_files_that_were_modified_after_they_were_read_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Deleted files and files of stores are not."""
    paths = [_file(tmp_path, ordinal) for ordinal in range(4)]
    logged = [
        LoggedFile(path.as_uri(), 1_700_000_000_000 + i * 1000) for i, path in enumerate(paths)
    ]
    stored = LoggedFile("s3://bucket/a.parquet", 5)
    for ordinal in (1, 2):
        _date(paths[ordinal], 9)
    paths[3].unlink()
    monkeypatch.setattr(FilesSoFar, "_tables", (("t",),))
    monkeypatch.setattr(FilesSoFar, "_logged", lambda _: [(*logged, stored)])
    nothing: Any = None
    with caplog.at_level("WARNING", NOTICES.name):
        FilesSoFar(nothing, nothing, {}).warn_of_modified()
    (record,) = caplog.records
    told: Any = record.msg
    assert told.code == "SOURCE_FILE_CHANGED"
    assert f"{paths[1]} and 1 more, read for the table t" in told.message
