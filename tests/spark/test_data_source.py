"""The Spark data source: its options, schemas, partitions and offsets, called as Spark's workers call it, without a JVM."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles
from pyspark.sql.types import IntegerType, LongType, StringType, StructType
from pyspark_substrait_agg import DefaultSource

import substrait_agg as sa
from substrait_agg.commit.view import change_files
from substrait_agg.errors import UsageError
from substrait_agg.spark.data_source import partitions
from substrait_agg.spark.data_source.stream import ViewStreamReader
from tests.checkpoint.local_checkpoint import filled
from tests.checkpoint.stored import GOALS, unpacked
from tests.e2e.rows import Bag, bag
from tests.local.run import run as local_run
from tests.views.plans import ALL, BATCHES, sources, write_batches

AVAILABLE = ReadAllAvailable()


@pytest.fixture(scope="module")
def goals(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A checkpoint of three versions, of which the last two keep their state."""
    return str(unpacked(GOALS, tmp_path_factory.mktemp("goals")))


@pytest.fixture
def whole(tmp_path: Path) -> str:
    """A checkpoint of versions 0 to 8, with every measure."""
    return str(filled(tmp_path / "ckpt", 8).folder)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors of a data source set a variable for Spark."""
    monkeypatch.setenv(partitions.HIDE_TRACEBACK, "")


def has_code(code: str) -> Callable[[sa.SubstraitAggError], bool]:
    return lambda error: error.code == code


def source(folder: str, **options: object) -> DefaultSource:
    return DefaultSource({"path": folder, **{name: str(value) for name, value in options.items()}})


def rows_of(
    reader: DataSourceReader | DataSourceStreamReader,
    parts: list[InputPartition],
    schema: StructType,
) -> pa.Table:
    """The rows of partitions, read by a reader that was sent to a worker, with the types that Spark wants."""
    target = to_arrow_schema(schema, timezone="UTC")
    batches: list[pa.RecordBatch] = []
    for part in parts:
        sent, piece = pickle.loads(pickle.dumps((reader, part)))
        read: Iterator[pa.RecordBatch] = sent.read(piece)
        batches += read
    assert all(batch.schema.equals(target) for batch in batches)
    return pa.Table.from_batches(batches, target)


def read(folder: str, **options: object) -> pa.Table:
    """Read as Spark does without a schema of the user."""
    made = pickle.loads(pickle.dumps(source(folder, **options)))
    return read_columns(made, made.schema())


def read_columns(made: DefaultSource, schema: StructType) -> pa.Table:
    reader = made.reader(schema)
    return rows_of(reader, list(reader.partitions()), schema)


def as_spark(table: pa.Table, schema: StructType) -> Bag:
    return bag(table.cast(to_arrow_schema(schema, timezone="UTC"), safe=False))


def test_rows_of_every_version_with_state(goals: str, whole: str) -> None:
    for folder in (goals, whole):
        view = sa.open_view(folder)
        schema = source(folder).schema()
        assert schema.names == list(view.names)
        for version in (None, *view.versions()[1:]):
            options = {} if version is None else {"version": version}
            for parts in (1, 4):
                found = read(folder, numPartitions=parts, **options)
                assert bag(found) == as_spark(view.to_arrow(version), schema), (version, parts)


def test_changes_and_rows_as_changes(goals: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_files, "PART_ROWS", 1)
    view, schema = sa.open_view(goals), source(goals, changes="all").schema()
    assert schema.names == [*view.names, "__version", "__weight"]
    for since, until in ((None, None), (-1, None), (0, None), (0, 1), (2, None)):
        options = {} if until is None else {"until": until}
        found = read(goals, changes="all" if since is None else since, **options)
        assert bag(found) == as_spark(view.changes(since, until), schema), (since, until)
    found = read(goals, changes="rows", version=1)
    assert bag(found.drop_columns(["__version", "__weight"])) == as_spark(
        view.to_arrow(1), source(goals).schema()
    )
    assert set(found.column("__version").to_pylist()) == {1}
    assert set(found.column("__weight").to_pylist()) == {1}


def test_batches_are_small(whole: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, rows = source(whole), sa.open_view(whole).to_arrow()
    schema = made.schema()
    monkeypatch.setattr(partitions, "BATCH_BYTES", rows.nbytes // rows.num_rows * 2)
    reader = made.reader(schema)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert len(batches) > rows.num_rows // 8
    target = to_arrow_schema(schema, timezone="UTC")
    assert bag(pa.Table.from_batches(batches, target)) == as_spark(rows, schema)


def test_a_batch_is_sliced_by_its_size() -> None:
    numbers = pa.record_batch({"n": pa.array(range(200_000)), "text": pa.array(["a"] * 200_000)})
    pieces = list(partitions.slices(numbers))
    assert max(piece.nbytes for piece in pieces) <= partitions.BATCH_BYTES
    assert min(piece.nbytes for piece in pieces[:-1]) > partitions.BATCH_BYTES // 2
    assert pa.Table.from_batches(pieces) == pa.Table.from_batches([numbers])
    assert [piece.num_rows for piece in partitions.slices(numbers.select([]))] == [200_000]
    assert not list(partitions.slices(numbers.slice(0, 0)))


def test_a_schema_chooses_columns(goals: str) -> None:
    rows = sa.open_view(goals).to_arrow()
    chosen = StructType().add("s", LongType()).add("team", StringType())
    assert bag(read_columns(source(goals), chosen)) == bag(rows.select(["s", "team"]))
    chosen = StructType().add("__weight", LongType()).add("team", StringType())
    assert read_columns(source(goals, changes="rows"), chosen).num_rows == rows.num_rows
    for wrong in (StructType().add("s", IntegerType()), StructType().add("absent", LongType())):
        with pytest.raises(sa.UsageError, check=has_code("OPTION_INVALID")) as refused:
            read_columns(source(goals), wrong)
        assert any("choose from struct<team:string" in note for note in refused.value.__notes__)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"version": "two"}, "OPTION_INVALID"),
        ({"version": -1}, "OPTION_INVALID"),
        ({"changes": "none"}, "OPTION_INVALID"),
        ({"changes": -2}, "OPTION_INVALID"),
        ({"numPartitions": 0}, "OPTION_INVALID"),
        ({"absent": 1}, "OPTION_INVALID"),
        ({"path": ""}, "OPTION_INVALID"),
        ({"view": "absent"}, "VIEW_UNKNOWN"),
        ({"version": 1, "changes": 0}, "OPTION_CONFLICT"),
        ({"until": 1}, "OPTION_CONFLICT"),
        ({"changes": "rows", "until": 1}, "OPTION_CONFLICT"),
        ({"version": 9}, "VERSION_UNKNOWN"),
        ({"changes": 9}, "VERSION_UNKNOWN"),
    ],
)
def test_wrong_options_have_a_code_and_a_help(
    goals: str, options: Mapping[str, object], code: str
) -> None:
    with pytest.raises(sa.SubstraitAggError) as refused:
        read(str(options.get("path", goals)), **{k: v for k, v in options.items() if k != "path"})
    assert refused.value.code == code
    (note,) = refused.value.__notes__
    assert note.startswith("help: ")


def test_spark_shows_the_code_one_line_and_the_help(goals: str, tmp_path: Path) -> None:
    """Spark formats the exception as here, in a worker that then ends."""
    calls: dict[str, Callable[[], object]] = {
        "VERSION_UNKNOWN": lambda: source(goals, version=99).schema(),
        "OPTION_INVALID": lambda: source(goals, verison=1).schema(),
        "NOT_A_CHECKPOINT": lambda: source(str(tmp_path / "missing")).schema(),
        "VIEW_READ_ONLY": lambda: source(goals).writer(StructType(), False),
    }
    for code, call in calls.items():
        os.environ[partitions.HIDE_TRACEBACK] = ""
        with pytest.raises(sa.SubstraitAggError) as refused:
            call()
        assert os.environ[partitions.HIDE_TRACEBACK], code
        first, second = "".join(traceback.format_exception_only(refused.value)).splitlines()
        assert first.startswith(f"error[{code}]: ")
        assert second.startswith("help: ")
        assert refused.value.__suppress_context__
        assert refused.value.__cause__ is None


def test_names_of_options_are_in_any_case(goals: str) -> None:
    assert (
        read(goals, NUMPARTITIONS=2, Version=1).num_rows == sa.open_view(goals).to_arrow(1).num_rows
    )


def test_expired_changes_are_refused(whole: str) -> None:
    sa.open_state(whole).vacuum(keep=2, changes=True)
    with pytest.raises(sa.StateRefused, check=has_code("CHANGES_EXPIRED")):
        read(whole, changes="all")
    with pytest.raises(sa.StateRefused, check=has_code("CHANGES_EXPIRED")):
        read(whole, changes=1)


def test_a_version_that_expires_while_it_is_read_says_so(whole: str) -> None:
    made = source(whole, version=5)
    reader = made.reader(made.schema())
    (part,) = reader.partitions()
    sa.open_state(whole).vacuum(keep=1)
    with pytest.raises(sa.StateRefused, check=has_code("VERSION_EXPIRED")):
        list(reader.read(part))
    with pytest.raises(sa.StateRefused, check=has_code("VERSION_EXPIRED")):
        read(whole, version=5)


def test_one_of_several_views_is_read_by_its_name(tmp_path: Path) -> None:
    write_batches(tmp_path, BATCHES)
    folder = str(tmp_path / "ckpt")
    local_run(ALL, sources(tmp_path), checkpoint=folder, outputs=["none"]).wait()
    for name in ALL:
        view = sa.open_view(folder, name)
        schema = source(folder, view=name).schema()
        assert bag(read(folder, view=name)) == as_spark(view.to_arrow(), schema), name
        schema = source(folder, view=name, changes="all").schema()
        assert bag(read(folder, view=name, changes="all")) == as_spark(view.changes(), schema), name
    with pytest.raises(sa.UsageError, check=has_code("VIEW_NAME_MISSING")):
        read(folder)


# --- streams ----------------------------------------------------------------------------------


def stream(folder: str, **options: object) -> tuple[ViewStreamReader, StructType]:
    made = source(folder, **options)
    schema = made.schema()
    reader = made.streamReader(schema)
    assert isinstance(reader, ViewStreamReader)
    return reader, schema


def followed(folder: str, limit: Any = AVAILABLE, **options: object) -> tuple[list[int], pa.Table]:
    """The versions at which a stream of available data ends its batches, and all rows."""
    reader, schema = stream(folder, **options)
    reader.prepareForTriggerAvailableNow()
    start, ends, tables = reader.initialOffset(), [], []
    while (end := reader.latestOffset(start, limit)) != start:
        tables.append(rows_of(reader, list(reader.partitions(start, end)), schema))
        ends.append(end["version"])
        start = end
    assert reader.partitions(start, start) == []
    return ends, pa.concat_tables(tables)


def test_a_stream_reads_all_changes(whole: str) -> None:
    view = sa.open_view(whole)
    schema = source(whole, changes="all").schema()
    for since in ("all", -1):
        assert followed(whole, changes=since)[0] == [8]
        ends, rows = followed(whole, ReadMaxFiles(3), changes=since)
        assert ends == [2, 5, 8]
        assert bag(rows) == as_spark(view.changes(), schema)
    ends, rows = followed(whole, ReadMaxFiles(3), changes=4)
    assert ends == [7, 8]
    assert bag(rows) == as_spark(view.changes(4), schema)


def test_a_stream_begins_with_the_rows_of_the_view(whole: str) -> None:
    """Rows and changes add up to the newest version."""
    view = sa.open_view(whole)
    for version in (3, None):
        options = {} if version is None else {"version": version}
        ends, rows = followed(whole, changes="rows", **options)
        assert ends == ([8] if version is None else [version, 8])
        schema = source(whole, changes="rows").schema()
        added = bag(rows.drop_columns(["__version"]).filter(pa.compute.field("__weight") > 0))
        gone = bag(rows.drop_columns(["__version"]).filter(pa.compute.field("__weight") < 0))
        there = added - type(added)({(*row[:-1], 1): n for row, n in gone.items()})
        newest = view.to_arrow().append_column("__weight", pa.array([1] * view.to_arrow().num_rows))
        columns = StructType([f for f in schema if f.name != "__version"])
        assert there == as_spark(newest, columns)


def test_a_stream_has_a_limit_of_versions(whole: str) -> None:
    reader, _ = stream(whole, changes="all", maxVersionsPerTrigger=2)
    assert reader.getDefaultReadLimit() == ReadMaxFiles(2)
    assert stream(whole, changes="all")[0].getDefaultReadLimit() == AVAILABLE


def test_a_stream_of_rows_is_refused(whole: str) -> None:
    for options, code in (({}, "OPTION_INVALID"), ({"changes": 1, "until": 3}, "OPTION_CONFLICT")):
        made = source(whole, **options)
        with pytest.raises(sa.UsageError, check=has_code(code)):
            made.streamReader(made.schema())


def test_a_stream_stops_after_expired_changes_and_rollbacks(whole: str, tmp_path: Path) -> None:
    reader, _ = stream(whole, changes=2)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxFiles(4))
    assert end["version"] == 6
    copy = shutil.copytree(whole, tmp_path / "copy")
    sa.open_state(whole).vacuum(keep=1, changes=True)
    with pytest.raises(sa.StateRefused, check=has_code("CHANGES_EXPIRED")):
        reader.partitions(start, end)
    reader, _ = stream(str(copy), changes=2)
    sa.open_state(str(copy)).rollback(5, force=True)
    with pytest.raises(sa.StateRefused, check=has_code("VERSION_ROLLED_BACK")):
        reader.latestOffset(end, AVAILABLE)
    assert reader.latestOffset(reader.initialOffset(), AVAILABLE)["version"] == 5


def test_a_version_committed_again_after_a_rollback_is_another(whole: str) -> None:
    """The offset names the attempt that committed its version."""
    reader, _ = stream(whole, changes=2)
    end = reader.latestOffset(reader.initialOffset(), AVAILABLE)
    with pytest.raises(sa.StateRefused, check=has_code("VERSION_ROLLED_BACK")):
        reader.latestOffset({**end, "attempt": "0" * 32}, AVAILABLE)


def test_a_stream_waits_for_the_first_version(tmp_path: Path) -> None:
    from substrait_agg.commit.log.checkpoint import Checkpoint

    made = filled(tmp_path / "ckpt", 1)
    document = Checkpoint(made.folder).document()
    empty = Checkpoint(tmp_path / "empty")
    empty.create(document)
    for changes in ("rows", "all", "-1"):
        reader, _ = stream(str(tmp_path / "empty"), changes=changes)
        start = reader.initialOffset()
        assert reader.latestOffset(start, AVAILABLE) == start


JAVA = "import subprocess, sys; subprocess.run([sys.argv[1], '-c', sys.argv[2], *sys.argv[1:]], check=True)"
WORKER = (
    "from substrait_agg.spark.data_source.source import program_folder; print(program_folder())"
)


def test_a_relative_path_is_in_the_folder_of_the_program_that_started_java(tmp_path: Path) -> None:
    """A copy of Python is called java; it starts a worker in another folder."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    shutil.copy(Path(sys.executable).resolve(), java)
    called = [str(java), "-c", JAVA, sys.executable, WORKER]
    there = {
        **os.environ,
        "PYTHONPATH": str(Path(sa.__file__).parents[1]),
        "PYTHONHOME": sys.base_prefix,
    }
    found = subprocess.run(
        called, cwd=tmp_path, env=there, check=True, capture_output=True, text=True
    )
    assert found.stdout.strip() == str(Path.cwd())


def test_a_relative_path_of_an_unknown_program_is_refused(goals: str) -> None:
    for options in ({"path": "ckpt"}, {"PATH": "./ckpt"}, {"path": "ckpt", "changes": "all"}):
        with pytest.raises(UsageError, match="does not know the working folder") as refused:
            DefaultSource(options)
        assert refused.value.code == "OPTION_INVALID"
        assert any("absolute" in note for note in refused.value.__notes__)
    assert DefaultSource({"path": "s3://bucket/ckpt"}).options["path"] == "s3://bucket/ckpt"
    assert DefaultSource({"path": goals}).options["path"] == goals
