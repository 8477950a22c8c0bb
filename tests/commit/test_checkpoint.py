"""Checkpoints: one commit per version, named damage, no access outside the folder, sweeps of old
state.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

from substrait_agg.commit.documents.file_names import snapshot_name
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.plan_document import PlanDocument, ViewColumn, ViewSort
from substrait_agg.commit.documents.snapshot import (
    FORMAT,
    ChangeFile,
    OperatorState,
    Snapshot,
    parse_snapshot,
)
from substrait_agg.commit.log import reader
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.reader import REMEMBERED_VERSIONS
from substrait_agg.commit.log.retention import KEEP_VERSIONS
from substrait_agg.commit.log.sweep import sweep
from substrait_agg.commit.view.row_order import sort_rows
from substrait_agg.commit.view.view import View
from substrait_agg.errors import CommitConflict, StateRefused
from substrait_agg.files.filesystem import FileSystem
from substrait_agg.files.locations import Location
from substrait_agg.state.run import RunFile
from tests.filesystem import use_filesystem

DOCUMENT = PlanDocument("f" * 64, ("append_only",), (ViewColumn("k0", "k"),), "", (), 1, 1)


def snapshot(version: int, *runs: str) -> Snapshot:
    """A version that names runs."""
    files = tuple(RunFile(name, 1, 1, 1) for name in runs)
    return Snapshot(version, "f" * 64, (OperatorState.of({"group": files}),), ())


def made(folder: Path) -> Checkpoint:
    """A checkpoint with its plan document."""
    checkpoint = Checkpoint(folder)
    checkpoint.create(DOCUMENT)
    return checkpoint


def test_a_version_is_committed_once(tmp_path: Path) -> None:
    """The second run that publishes a version gets a conflict and changes nothing."""
    first, second = made(tmp_path), Checkpoint(tmp_path)
    first.publish(snapshot(0, "a"))
    with pytest.raises(CommitConflict):
        second.publish(snapshot(0, "b"))
    found = second.newest_snapshot()
    assert found is not None
    assert found.operators[0]["group"][0].name == "a"
    assert list((tmp_path / "snapshots").iterdir()) == [tmp_path / "snapshots" / snapshot_name(0)]


def test_a_snapshot_comes_back_as_it_was(tmp_path: Path) -> None:
    """Every field of a snapshot survives writing and reading."""
    written = replace(
        snapshot(3, "a", "b"),
        changes=(ChangeFile("c", 1, 2, 3),),
        counters={"touched": 4},
        created="2026-01-31T00:00:00.000+00:00",
    )
    checkpoint = made(tmp_path)
    checkpoint.publish(written)
    read = Checkpoint(tmp_path).snapshot(3)
    assert read.attempt
    assert replace(read, attempt="") == written
    assert checkpoint.snapshot(3) == read


def test_a_published_version_is_parsed_only_if_its_file_has_changed(tmp_path: Path) -> None:
    """A run does not parse its own versions, but notices what happens to their files."""
    checkpoint = made(tmp_path)
    for version in range(REMEMBERED_VERSIONS + 2):
        checkpoint.publish(snapshot(version, "a"))
    newest = checkpoint.snapshots.path(snapshot_name(version))
    with patch.object(reader, "parse_snapshot", wraps=parse_snapshot) as parsed:
        assert checkpoint.snapshot(version).version == version
        parsed.assert_not_called()
        assert checkpoint.snapshot(0).version == 0
        parsed.assert_called_once()
    assert isinstance(newest, Path)
    newest.write_bytes(newest.read_bytes().replace(b"attempt", b"attemqt"))
    with pytest.raises(StateRefused):
        checkpoint.snapshot(version)
    with pytest.raises(StateRefused):
        checkpoint.publish(snapshot(version + 1))


def test_any_flipped_byte_of_a_snapshot_is_noticed() -> None:
    """Every flipped byte of a snapshot is reported as damage."""
    whole = snapshot(7, "run-1", "run-2")
    content = whole.to_bytes()
    for place in range(len(content)):
        for bit in (1, 4, 128):
            damaged = bytearray(content)
            damaged[place] ^= bit
            with pytest.raises(StateRefused):
                parse_snapshot(bytes(damaged), "x.json")


def test_a_snapshot_of_a_newer_format_is_refused() -> None:
    """The error differs from the error for damage."""
    body = json.loads(snapshot(0).to_bytes()) | {"format": 99}
    with pytest.raises(StateRefused) as refused:
        parse_snapshot(json.dumps(body).encode(), "x.json")
    assert refused.value.code == "STATE_FORMAT_UNKNOWN"


def test_a_snapshot_of_an_older_format_is_refused() -> None:
    """A snapshot of an older format is refused, although it is not damaged."""
    body = json.loads(snapshot(0).to_bytes()) | {"format": FORMAT - 1}
    del body["crc"]
    crc = zlib.crc32(json.dumps(body, sort_keys=True, separators=(",", ":")).encode())
    with pytest.raises(StateRefused) as refused:
        parse_snapshot(json.dumps({**body, "crc": crc}).encode(), "x.json")
    assert refused.value.code == "STATE_FORMAT_UNKNOWN"


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", "", ".hidden", "a\0b", "a\n"])
def test_names_cannot_leave_the_folder(tmp_path: Path, name: str) -> None:
    """Names in documents cannot lead out of the folder, because the files may have been altered."""
    with pytest.raises(StateRefused):
        FolderFiles(tmp_path).path(name)


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    """A folder with other content is no checkpoint and does not become one."""
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(StateRefused) as refused:
        Checkpoint(tmp_path).create(DOCUMENT)
    assert refused.value.code == "NOT_A_CHECKPOINT"
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("place", ["mine.txt", "mine.txt/below", "mine.txt/far/below"])
def test_a_file_is_no_folder_for_a_checkpoint(tmp_path: Path, place: str) -> None:
    """The run refuses a wrong path before it begins; the error does not speak of the disk."""
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(StateRefused, match=r"is not a folder") as refused:
        Checkpoint(tmp_path / place).check_usable()
    assert refused.value.code == "NOT_A_CHECKPOINT"
    assert (tmp_path / "mine.txt").read_text() == "x"


@pytest.mark.parametrize("content", ["", "x", "{}", '{"relations": []}', '{"format": 1, "crc": 5}'])
def test_a_folder_with_another_plan_json_is_no_checkpoint(tmp_path: Path, content: str) -> None:
    """A foreign plan.json is not reported as a damaged document."""
    (tmp_path / "plan.json").write_text(content)
    checkpoint = Checkpoint(tmp_path)
    for use in (checkpoint.document, lambda: checkpoint.create(DOCUMENT), lambda: View(checkpoint)):
        with pytest.raises(StateRefused) as refused:
            use()
        assert refused.value.code == "NOT_A_CHECKPOINT"
        assert "plan.json" in refused.value.message
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]


def test_a_damaged_plan_json_of_a_checkpoint_is_damage(tmp_path: Path) -> None:
    Checkpoint(tmp_path).create(DOCUMENT)
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(StateRefused) as refused:
        View(Checkpoint(tmp_path))
    assert refused.value.code == "STATE_DAMAGED"


@pytest.mark.parametrize(
    ("other", "code"),
    [
        (replace(DOCUMENT, plan="0" * 64), "PLAN_DIFFERS"),
        (replace(DOCUMENT, layout=("weighted",)), "WEIGHTS_DIFFER"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(
    tmp_path: Path, other: PlanDocument, code: str
) -> None:
    """A checkpoint of another plan, or of other kinds of weights, is refused."""
    made(tmp_path)
    with pytest.raises(StateRefused) as refused:
        Checkpoint(tmp_path).check(other)
    assert refused.value.code == code


def test_sweeping_keeps_what_kept_versions_name(tmp_path: Path) -> None:
    """State of the newest versions stays, older state and leftovers of failed attempts go, later attempts stay."""
    checkpoint = made(tmp_path)
    state = tmp_path / "state"
    names = [f"group-0-{v:012d}-x.arrow" for v in range(KEEP_VERSIONS + 3)]
    others = ["group-0-000000000099-next.arrow", "notes.txt"]
    for name in [*names, "group-0-000000000001-orphan.arrow", *others]:
        (state / name).write_bytes(b"x")
    for version, name in enumerate(names):
        checkpoint.publish(snapshot(version, name))
    newest = checkpoint.newest_snapshot()
    assert newest is not None
    sweep(checkpoint, newest)
    left = sorted(p.name for p in state.iterdir())
    assert left == [*names[-KEEP_VERSIONS:], *others]


def test_sweeping_removes_changes_of_failed_attempts(tmp_path: Path) -> None:
    """Changes of all versions stay, and those of the version that may be under way."""
    checkpoint = made(tmp_path)
    changes = tmp_path / "changes"
    for version in range(3):
        name = f"{version:012d}-0-named.parquet"
        for written in (name, f"{version:012d}-0-failed.parquet"):
            (changes / written).write_bytes(b"x")
        checkpoint.publish(replace(snapshot(version), changes=(ChangeFile(name, 1, 1, 1),)))
    (changes / f"{3:012d}-0-next.parquet").write_bytes(b"x")
    newest = checkpoint.newest_snapshot()
    assert newest is not None
    sweep(checkpoint, newest)
    left = sorted(p.name.split("-")[2] for p in changes.iterdir())
    assert left == ["named.parquet", "named.parquet", "named.parquet", "next.parquet"]


def test_rows_are_shown_in_the_order_of_the_plan() -> None:
    """Rows are sorted by all keys of the plan, with nulls first or last per key, and NaN above all
    numbers.
    """
    nan = float("nan")
    rows = pa.table({"a": [1.0, nan, None, 1.0, -2.0], "b": [False, True, True, True, None]})
    up = sort_rows(rows, (ViewSort(0, False, True), ViewSort(1, True, False)))
    assert [str(v) for v in up.column("a").to_pylist()] == ["None", "-2.0", "1.0", "1.0", "nan"]
    assert up.column("b").to_pylist() == [True, None, True, False, True]
    down = sort_rows(rows, (ViewSort(0, True, False),))
    assert [str(v) for v in down.column("a").to_pylist()] == ["nan", "1.0", "1.0", "-2.0", "None"]


def test_a_checkpoint_that_another_run_makes_meanwhile_is_not_damaged(tmp_path: Path) -> None:
    """A run that finds no plan document, and later finds versions, does not report damage: another
    run created all of them in between.
    """
    other = tmp_path / "checkpoint"

    class Sleeps(FileSystem):
        def names(self, folder: Location, *, folders: bool = False) -> list[str]:
            if folder.name == "snapshots" and not other.exists():
                with use_filesystem(FileSystem()):
                    made(other).publish(snapshot(0))
            return super().names(folder, folders=folders)

    with use_filesystem(Sleeps()):
        Checkpoint(other).check(DOCUMENT)
    assert Checkpoint(other).versions() == [0]
    (other / "plan.json").unlink()
    with pytest.raises(StateRefused) as refused:
        Checkpoint(other).check(DOCUMENT)
    assert refused.value.code == "STATE_DAMAGED"
