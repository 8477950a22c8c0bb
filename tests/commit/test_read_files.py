"""The files that sources have read: a set that grows over many versions, in few lists."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from substrait_agg.commit.documents.file_names import version_of
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.positions import FileList, FilesPosition, Positions, ReadFile
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.read_files import MOST_RECENT, read_files, with_files
from substrait_agg.commit.log.retention import Retention
from substrait_agg.commit.log.sweep import sweep
from substrait_agg.errors import RunFailed, StateRefused
from substrait_agg.files.filesystem import FileSystem
from tests.commit.test_checkpoint import made, snapshot
from tests.filesystem import use_filesystem
from tests.sampling import seeds


@pytest.fixture
def storage(tmp_path: Path) -> FolderFiles:
    """The folder of state."""
    return FolderFiles(tmp_path)


def some_files(first: int, count: int) -> list[ReadFile]:
    """Files whose names sort otherwise than their numbers."""
    return [ReadFile(f"file:///in/{n}%C3%A9.parquet", n * 7) for n in range(first, first + count)]


def listed(storage: FolderFiles) -> tuple[FilesPosition, FileList]:
    """A position with one list, and the list."""
    position = with_files(storage, FilesPosition(), some_files(0, MOST_RECENT + 1), 0, 1)
    return position, position.lists[0]


@pytest.mark.parametrize("seed", seeds(3, 20))
def test_a_position_has_the_files_of_all_versions(storage: FolderFiles, seed: int) -> None:
    """Each file once with its time, whatever the sizes of batches; few lists; few names in the version."""
    random, position, files = Random(seed), FilesPosition(), list[ReadFile]()
    for version in range(60):
        added = some_files(len(files), int(2 ** random.uniform(0, 10)))
        position = with_files(storage, position, added, 3, version)
        files += added
        assert position.count == len(files)
        assert len(position.recent) <= MOST_RECENT
        assert len(position.lists) <= math.log2(len(files))
        if version % 20 == 19:
            assert sorted(read_files(storage, position)) == sorted(files)
    for shorter, longer in zip(position.lists[1:], position.lists, strict=False):
        assert longer.rows >= 2 * shorter.rows
    for names in position.lists:
        rows = list(read_files(storage, FilesPosition((names,))))
        assert rows == sorted(rows)


def test_names_are_written_a_logarithmic_number_of_times(storage: FolderFiles) -> None:
    """One file per batch: the lists that were ever written have few names per file."""
    position, written, count = FilesPosition(), dict[str, int](), 20 * MOST_RECENT
    for version, file in enumerate(some_files(0, count)):
        position = with_files(storage, position, [file], 0, version)
        written |= {names.name: names.rows for names in position.lists}
    assert sum(written.values()) < count * math.log2(count)


def test_the_newest_files_are_in_the_order_in_which_they_were_read(storage: FolderFiles) -> None:
    """A batch of as many files as a version has itself writes nothing."""
    files = some_files(0, MOST_RECENT)[::-1]
    position = with_files(storage, FilesPosition(), files, 0, 1)
    assert position.recent == tuple(files)
    assert storage.names() == []


def test_a_list_has_a_name_that_sweeps_know(storage: FolderFiles) -> None:
    """The name has the version that writes it, and is unique to the attempt."""
    names = {listed(storage)[1].name for _ in range(2)}
    assert len(names) == 2
    assert {version_of(name) for name in names} == {1}


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8])


@pytest.mark.parametrize("damage", [_flip, _cut, Path.unlink])
def test_a_damaged_list_is_refused(
    storage: FolderFiles, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """By readers, and by a batch that would take it up in a new list."""
    position, names = listed(storage)
    damage(tmp_path / names.name)
    uses = (
        lambda: list(read_files(storage, position)),
        lambda: with_files(storage, position, some_files(1000, MOST_RECENT + 1), 0, 2),
    )
    for use in uses:
        with pytest.raises(StateRefused) as refused:
            use()
        assert refused.value.code == "STATE_DAMAGED"
        assert names.name in str(refused.value)


OTHER: dict[str, Any] = {
    "other columns": {"k0": [1, 2]},
    "a column too many": {"uri": ["a", "b"], "modified": [1, 2], "size": [1, 2]},
    "numbers as text": {"uri": ["a", "b"], "modified": ["1", "2"]},
    "nulls": {"uri": ["a", None], "modified": [1, 2]},
    "other rows": {"uri": ["a"], "modified": [1]},
}


@pytest.mark.parametrize("content", [*OTHER, "no table"])
def test_a_file_of_something_else_is_refused(
    storage: FolderFiles, tmp_path: Path, content: str
) -> None:
    """Its size and checksum are those of the version."""
    name = listed(storage)[1].name
    path = tmp_path / name
    path.unlink()
    if content == "no table":
        path.write_bytes(b"text")
    else:
        table = pa.table(OTHER[content])
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    names = FileList(name, 2, *storage.checksum(name))
    with pytest.raises(StateRefused) as refused:
        list(read_files(storage, FilesPosition((names,))))
    assert refused.value.code == "STATE_DAMAGED"


@pytest.mark.parametrize("name", ["../x.arrow", "/etc/passwd", ""])
def test_a_name_does_not_lead_out_of_the_folder(storage: FolderFiles, name: str) -> None:
    position, names = listed(storage)
    with pytest.raises(StateRefused) as refused:
        list(read_files(storage, replace(position, lists=(replace(names, name=name),))))
    assert refused.value.code == "STATE_DAMAGED"


def test_a_list_that_cannot_be_written_is_told(storage: FolderFiles) -> None:
    """The error says that nothing is lost, and what to check."""

    class Full(FileSystem):
        def create(self, *_arguments: Any, **_options: Any) -> Any:
            raise OSError("planted")

    with use_filesystem(Full()), pytest.raises(RunFailed) as failed:
        listed(storage)
    assert failed.value.code == "CHECKPOINT_NOT_WRITTEN"


def test_a_list_is_deleted_when_no_kept_version_names_it(tmp_path: Path) -> None:
    """A list that a newer one has taken up stays while a version whose state is kept names it."""
    checkpoint, position = made(tmp_path), FilesPosition()
    lists = []
    for version in range(8):
        added = some_files(version * 300, 300)
        position = with_files(checkpoint.state, position, added, 0, version)
        lists.append({names.name for names in position.lists})
        checkpoint.publish(replace(snapshot(version), positions=Positions({"t": position})))
    failed = with_files(checkpoint.state, position, some_files(9000, 300), 0, 7)
    assert len(set().union(*lists)) == 8
    sweep(Checkpoint(tmp_path), checkpoint.snapshot(7), Retention(2))
    assert set(checkpoint.state.names()) == lists[6] | lists[7]
    assert failed.lists[-1].name not in checkpoint.state.names()
