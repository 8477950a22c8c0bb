"""Changes of operators below others: kept in memory if they are few, else written to a file."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.snapshot import ChangeFile
from substrait_agg.commit.tasks import change_writer
from substrait_agg.commit.tasks.change_writer import ChangeWriter, write_changes
from substrait_agg.plan.types import Type
from substrait_agg.runtime.left_out import Lateness
from substrait_agg.spark.inputs.arrow_inputs import read_changes
from substrait_agg.spark.query import spark_executor
from substrait_agg.spark.query.spark_executor import OperatorChanges

COLUMNS = (("amount", "c0"), ("name", "c1"))
BELOW: Any = SimpleNamespace(types=(Type("i64"), Type("string")), time=None)


def changes(rows: int) -> pa.Table:
    """Changes of an operator, in the order of its own columns."""
    texts = [None if i % 3 == 0 else f"name {i}" for i in range(rows)]
    numbers = pa.array(range(rows), pa.int64())
    return pa.table(
        {"name": texts, "amount": numbers, "__weight": pa.array([1] * rows, pa.int64())}
    )


def written(
    folder: Path, parts: list[pa.Table], *, final: bool = False
) -> tuple[tuple[ChangeFile, ...], dict[str, pa.Table], int]:
    """Return the described files, what was kept, and the bytes of files."""
    in_memory: dict[str, pa.Table] = {}
    with ExitStack() as stack:
        writer = ChangeWriter(
            FolderFiles(folder), 3, 7, COLUMNS, stack, final=final, keep=in_memory.__setitem__
        )
        for part in parts:
            writer.write(part)
        described = writer.close()
    return described, in_memory, writer.written_bytes


def test_few_changes_stay_in_memory_and_read_like_their_file(tmp_path: Path) -> None:
    """No file is written; if Spark needs one, it has the same rows."""
    (described,), in_memory, size = written(tmp_path, [changes(5), changes(0), changes(4)])
    assert not list(tmp_path.iterdir())
    assert (described.rows, size) == (9, 0)
    assert list(in_memory) == [described.name]
    path = tmp_path / described.name
    direct = read_changes(BELOW, [path], in_memory)
    write_changes(FolderFiles(tmp_path), described.name, in_memory[described.name])
    assert read_changes(BELOW, [path], {}).equals(direct)
    assert direct.column("c0").to_pylist() == [*range(5), *range(4)]


def test_kept_changes_are_written_once_if_spark_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two operators that Spark computes read the same file."""
    (described,), in_memory, _ = written(tmp_path, [changes(5)])
    path, none = tmp_path / described.name, None
    read: list[pa.Table] = []

    def by_spark(*arguments: Any) -> Any:
        read.append(read_changes(BELOW, arguments[4], {}))
        return SimpleNamespace(table="", prepared=None)

    monkeypatch.setattr(spark_executor, "operator_changes", by_spark)
    for _ in range(2):
        part = OperatorChanges(none, BELOW, none, none, [path], Lateness(), in_memory)  # type: ignore[arg-type]
        assert part.prepared is None
    assert [rows.num_rows for rows in read] == [5, 5]
    assert read[0].equals(read_changes(BELOW, [path], in_memory))
    assert [file.name for file in tmp_path.iterdir()] == [described.name]


def test_many_changes_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes that Spark will read anyway are written at once."""
    monkeypatch.setattr(change_writer, "KEPT_BYTES", 500)
    (described,), in_memory, size = written(tmp_path, [changes(100)])
    assert not in_memory
    assert (tmp_path / described.name).stat().st_size == described.bytes == size


def test_the_changes_of_a_view_are_always_written(tmp_path: Path) -> None:
    """Outputs and later readers need their file."""
    (described,), in_memory, size = written(tmp_path, [changes(2)], final=True)
    assert not in_memory
    assert (described.bytes, described.crc) == FolderFiles(tmp_path).checksum(described.name)
    assert size == described.bytes


def test_no_changes_have_no_file(tmp_path: Path) -> None:
    """An operator without changes passes nothing on."""
    assert written(tmp_path, [changes(0)]) == ((), {}, 0)
