"""Verification: an undamaged checkpoint has no fault, and any change of one of its files is
reported.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import zlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import substrait_agg as sa
from substrait_agg.changes import row_lines
from substrait_agg.changes.records import Record
from substrait_agg.commit.documents.file_names import snapshot_name
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.positions import (
    FileList,
    FilesPosition,
    Positions,
    StreamPosition,
)
from substrait_agg.commit.documents.snapshot import OperatorState, Snapshot
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.retention import KEPT, Retention
from substrait_agg.errors import StateRefused
from substrait_agg.explanation.tree import NumberColumns, OperatorColumns
from substrait_agg.functions.aggregates.accumulators import WeightKind
from substrait_agg.operator.common.emission import ALL, NONE
from substrait_agg.state.run import RunFile, open_pages
from substrait_agg.tools.checks.findings import FindingCollector
from substrait_agg.tools.state import State
from substrait_agg.tools.verify import verify
from substrait_agg.tools.verify.verify import check_operator
from substrait_agg.tools.verify.view import check_view
from tests.checkpoint.local_checkpoint import Made, filled, some_rows
from tests.operator.measures_draw import Stream, random_node
from tests.sampling import seeds

WEIGHTS: tuple[WeightKind, ...] = ("append_only", "changelog", "weighted")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undamaged checkpoint, which no test changes."""
    return filled(tmp_path_factory.mktemp("whole") / "ckpt").folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy of the checkpoint."""
    return Path(shutil.copytree(whole, tmp_path / "ckpt"))


def faults(folder: Path) -> dict[str, set[str]]:
    """Codes by file."""
    found: dict[str, set[str]] = {}
    for finding in sa.open_state(folder).verify().errors:
        assert finding.message
        assert finding.help
        found.setdefault(finding.path, set()).add(finding.code)
    return found


def rewritten(folder: Path, version: int, change: Any) -> None:
    """Replace a version by a changed one with a correct checksum."""
    checkpoint = Checkpoint(folder)
    made: Snapshot = change(checkpoint.snapshot(version))
    (folder / "snapshots" / snapshot_name(version)).write_bytes(made.to_bytes(checkpoint.identity))


def test_a_whole_checkpoint_has_no_fault(whole: Path) -> None:
    """An undamaged checkpoint has no fault, with one partition and after merges over four, and
    every file is checked.
    """
    verdict = sa.open_state(whole).verify()
    assert verdict.ok
    assert not verdict.findings
    assert verdict.checked["versions"] == 7
    assert all(verdict.checked.values())


def test_a_checkpoint_whose_groups_wait_has_no_fault(tmp_path: Path) -> None:
    """Pending groups are no fault, although changes and view lag behind the state."""
    made = filled(tmp_path / "ckpt", 2)
    made.batch(some_rows(Random(5), 10), emission=NONE)
    verdict = sa.open_state(made.folder).verify()
    assert verdict.findings == ()


@pytest.mark.parametrize("seed", seeds(4, 12))
def test_any_operator_is_whole_and_can_be_shown(tmp_path: Path, seed: int) -> None:
    """Operators with random measures, keys, grouping sets, weights and emissions have no fault, and
    every tree can be shown.
    """
    random = Random(seed)
    weight = random.choice(WEIGHTS)
    made = Made(tmp_path / "ckpt", node=random_node(random, weight))
    stream = Stream(random, weight, early=weight != "append_only" and random.random() < 0.5)
    for _ in range(4):
        made.batch(stream.batch(), random.choice((1, 2, 4)), random.choice((None, ALL, NONE)))
    state = sa.open_state(made.folder)
    assert state.verify().findings == ()
    for tree in state.ls().trees:
        assert list(row_lines(state.show(tree.tree)[tree.tree])) or not tree.rows
    groups = state.show(limit=None)["group"]
    keys = len(made.world.spec.keys)
    lines = "".join(row_lines(groups)).splitlines()
    for line in lines[:3]:
        group = json.loads(line)
        key = {name: group[name] for name in groups.column_names[:keys]}
        found = "".join(row_lines(state.show(key=key)["group"])).splitlines()
        assert line in found


def test_any_flipped_byte_is_named(folder: Path) -> None:
    """A flipped byte in any file that a version names, or in the version, is reported."""
    random = Random(3)
    files = [p for name in ("state", "changes", "snapshots") for p in (folder / name).iterdir()]
    for path in random.sample(files, 25):
        content = path.read_bytes()
        place = random.randrange(len(content))
        flipped = bytearray(content)
        flipped[place] ^= 1 << random.randrange(8)
        path.write_bytes(bytes(flipped))
        name = path.relative_to(folder).as_posix()
        assert name in faults(folder), (name, place)
        path.write_bytes(content)
    assert not faults(folder)


@pytest.mark.parametrize("kind", ["state", "changes", "snapshots"])
def test_a_lost_or_cut_file_is_named(folder: Path, kind: str) -> None:
    """Missing, truncated and empty files are reported."""
    named = {run.name for run in Checkpoint(folder).snapshot(6).operators[0].runs}
    files = sorted(p for p in (folder / kind).iterdir() if kind != "state" or p.name in named)
    path = files[1]
    content, name = path.read_bytes(), path.relative_to(folder).as_posix()
    path.unlink()
    wanted = {"SNAPSHOT_MISSING"} if kind == "snapshots" else {"FILE_MISSING"}
    assert faults(folder)[name] == wanted
    for left in (content[: len(content) // 2], b""):
        path.write_bytes(left)
        assert name in faults(folder)


def test_swapped_files_are_named(folder: Path) -> None:
    """Two swapped runs, change files or versions are reported."""
    for kind in ("changes", "snapshots"):
        one, other = sorted((folder / kind).iterdir())[-2:]
        contents = one.read_bytes(), other.read_bytes()
        one.write_bytes(contents[1])
        other.write_bytes(contents[0])
        names = {p.relative_to(folder).as_posix() for p in (one, other)}
        assert names <= faults(folder).keys()
        one.write_bytes(contents[0])
        other.write_bytes(contents[1])
    assert not faults(folder)


@pytest.mark.parametrize("name", ["plan.json", "kept.json", "settings.json"])
def test_a_damaged_document_is_named(folder: Path, name: str) -> None:
    """A damaged document is reported, and the rest is still verified."""
    (folder / name).write_text("{")
    assert name in faults(folder)


def test_a_version_that_tells_wrong_ranges_is_named(folder: Path) -> None:
    """A version with a correct checksum is reported if it lists a run twice or without hashes."""

    def changed(run: RunFile, *others: RunFile) -> Any:
        def change(snapshot: Snapshot) -> Snapshot:
            state = snapshot.operators[0]
            group = (run, *others, *state["group"][1:])
            changed = OperatorState.of({**state.trees, "group": group})
            return replace(snapshot, operators=(changed,))

        return change

    first = Checkpoint(folder).snapshot(6).operators[0]["group"][0]
    path = f"snapshots/{snapshot_name(6)}"
    for made, code in (
        (changed(first, first), "RANGES_OVERLAP"),
        (changed(replace(first, low=first.high, high=first.low)), "RUN_METADATA_WRONG"),
        (changed(replace(first, rows=0)), "RUN_METADATA_WRONG"),
    ):
        content = (folder / path).read_bytes()
        rewritten(folder, 6, made)
        assert code in faults(folder)[path]
        (folder / path).write_bytes(content)


def _rerun(folder: Path, tree: str, change: Any) -> str:
    """Replace the newest run of a tree by one with other rows, and put its checksum into the newest
    version.
    """
    checkpoint = Checkpoint(folder)
    state = checkpoint.snapshot(6).operators[0]
    run = state["group" if tree == "group" else "tree0"][0]
    reader, _ = open_pages(pa.memory_map(str(folder / "state" / run.name)))
    rows = reader.read_all()
    rows = change(rows)
    path = folder / "state" / run.name
    path.unlink()
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    content = path.read_bytes()
    told = {"bytes": len(content), "crc": zlib.crc32(content), "rows": rows.num_rows}

    def renamed(runs: tuple[RunFile, ...]) -> tuple[RunFile, ...]:
        return tuple(replace(r, **told) if r.name == run.name else r for r in runs)

    made = OperatorState({name: renamed(runs) for name, runs in state.trees.items()})
    rewritten(folder, 6, lambda snapshot: replace(snapshot, operators=(made,)))
    return f"state/{run.name}"


def _with(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), values)


@pytest.mark.parametrize(
    ("tree", "change", "code"),
    [
        ("group", lambda r: r.take(list(range(r.num_rows))[::-1]), "RUN_ORDER_WRONG"),
        ("group", lambda r: pa.concat_tables([r.slice(0, 1), r]), "KEY_REPEATED"),
        ("tree", lambda r: r.take(list(range(r.num_rows))[::-1]), "RUN_ORDER_WRONG"),
        ("tree", lambda r: pa.concat_tables([r.slice(0, 1), r]), "RUN_ORDER_WRONG"),
        ("tree", lambda r: _with(r, "cum", pa.array([7] * r.num_rows)), "RUNNING_SUM_WRONG"),
        ("tree", lambda r: r.rename_columns(["x", *r.column_names[1:]]), "RUN_DAMAGED"),
    ],
)
def test_a_run_with_wrong_content_is_named(folder: Path, tree: str, change: Any, code: str) -> None:
    """A run with wrong rows and a correct checksum is reported."""
    path = _rerun(folder, tree, change)
    assert code in faults(folder).get(path, set())


def test_a_tree_that_lost_entries_is_found_by_their_counters(folder: Path) -> None:
    """A tree with fewer entries than its groups count is reported."""
    rewritten(
        folder,
        6,
        lambda s: replace(s, operators=(OperatorState.of({**s.operators[0].trees, "tree0": ()}),)),
    )  # fmt: skip
    assert faults(folder)[f"snapshots/{snapshot_name(6)}"] == {"COUNTS_DIFFER"}


def test_a_view_that_is_not_the_sum_of_its_changes_is_found(folder: Path) -> None:
    """A version without one of its change files is reported."""
    rewritten(folder, 6, lambda s: replace(s, changes=s.changes[1:]))
    assert faults(folder)[f"snapshots/{snapshot_name(6)}"] == {"VIEW_DIFFERS"}


def test_a_counter_that_is_wrong_is_found(folder: Path) -> None:
    """A counter of pending groups that differs from the pending tree is reported."""
    rewritten(folder, 6, lambda s: replace(s, counters={**s.counters, "waiting": 3}))
    assert faults(folder)[f"snapshots/{snapshot_name(6)}"] == {"COUNTS_DIFFER"}


def _behind(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, positions=Positions({"t": FilesPosition()}))


def _ahead(snapshot: Snapshot) -> Snapshot:
    streams = StreamPosition(batch=snapshot.version + 3)
    return replace(snapshot, positions=replace(snapshot.positions, streams=streams))


@pytest.mark.parametrize(
    "change",
    [lambda s: replace(s, plan="0" * 64), _behind, _ahead],
    ids=["another plan", "fewer files", "streams ahead"],
)
def test_a_broken_chain_is_found(folder: Path, change: Any) -> None:
    """A version with another plan, and one that has read more than the next, are reported."""
    rewritten(folder, 3, change)
    assert any("CHAIN_BROKEN" in codes for codes in faults(folder).values())


def lists_of(folder: Path) -> list[FileList]:
    """The lists of files of the newest version."""
    lists = Checkpoint(folder).snapshot(6).positions.lists
    assert lists
    return list(lists)


@pytest.mark.parametrize("way", ["gone", "cut", "a pipe"])
def test_a_lost_or_damaged_list_of_files_is_named(folder: Path, way: str) -> None:
    """The next run could not tell which files it has read."""
    name = f"state/{lists_of(folder)[-1].name}"
    path = folder / name
    content = path.read_bytes()
    path.unlink()
    if way == "cut":
        path.write_bytes(content[:-1])
    elif way == "a pipe":
        os.mkfifo(path)
    assert faults(folder)[name] <= {"FILE_MISSING", "FILE_DAMAGED"}
    assert faults(folder)[name]


@pytest.mark.parametrize(
    "rows", [{"uri": ["a"], "modified": [1]}, {"x": [1]}], ids=["too few", "other columns"]
)
def test_a_list_of_files_with_wrong_content_is_named(folder: Path, rows: dict[str, Any]) -> None:
    """A list of other rows or columns, and a correct checksum, is reported."""
    *longer, last = lists_of(folder)
    table, path = pa.table(rows), folder / "state" / last.name
    path.unlink()
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    size, crc = FolderFiles(folder / "state").checksum(last.name)
    forged = replace(last, bytes=size, crc=crc)

    def change(snapshot: Snapshot) -> Snapshot:
        position = replace(snapshot.positions.files["t"], lists=(*longer, forged))
        return replace(snapshot, positions=Positions({"t": position}))

    rewritten(folder, 6, change)
    assert "STATE_DAMAGED" in faults(folder)[f"state/{last.name}"]


def test_strange_files_are_notes(folder: Path) -> None:
    """Unknown files are reported as notes, not as faults."""
    (folder / "notes.txt").write_text("x")
    (folder / "state" / "mine.arrow").write_text("x")
    left = f"group-0-{3:012d}-{'0' * 32}.arrow"
    (folder / "state" / left).write_text("x")
    (folder / f"draft-{'0' * 32}").write_text("x")
    verdict = sa.open_state(folder).verify()
    assert verdict.ok
    assert {(f.path, f.code) for f in verdict.findings} == {
        ("notes.txt", "FILE_UNKNOWN"),
        ("state/mine.arrow", "FILE_UNKNOWN"),
        (f"state/{left}", "FILE_LEFT_OVER"),
        (f"draft-{'0' * 32}", "FILE_LEFT_OVER"),
    }
    assert json.dumps(verdict.to_json())


class Expired(Exception):
    """A version was swept while it was read."""


def shown(state: State) -> None:
    """Show a version that was the newest a moment ago; the only allowed failure is that it was
    swept since.
    """
    try:
        state.show(version=state.at().version, limit=None)
    except StateRefused as refused:
        raise (Expired if refused.code == "VERSION_EXPIRED" else AssertionError) from refused


def test_readers_beside_a_run_find_no_fault(tmp_path: Path) -> None:
    """Listing, showing and verifying find no fault while a run creates and sweeps versions."""
    made = filled(tmp_path / "ckpt", 3, retention=Retention(2))
    done, verified = threading.Event(), 0

    def go_on() -> None:
        random = Random(9)
        for _ in range(15):
            made.batch(some_rows(random, 5))
        done.set()

    run = threading.Thread(target=go_on)
    run.start()
    while not done.is_set():
        state = sa.open_state(made.folder)
        verdict = state.verify()
        assert verdict.ok, verdict.errors
        assert state.ls(limit=3).versions
        with suppress(Expired):
            shown(state)
        verified += 1
    run.join()
    assert verified > 1
    assert sa.open_state(made.folder).verify().ok


def test_verify_ignores_a_version_that_a_run_deletes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time verify is about to read the view, a run commits versions and deletes that one."""
    made, random = filled(tmp_path / "ckpt", 3, retention=Retention(2)), Random(4)

    def check_after_commits(*arguments: Any) -> int:
        for _ in range(4):
            made.batch(some_rows(random, 5))
        return check_view(*arguments)

    monkeypatch.setattr(verify, "check_view", check_after_commits)
    verdict = sa.open_state(made.folder).verify()
    assert verdict.ok, verdict.errors


def test_verify_reports_a_retention_record_that_expires_every_version(folder: Path) -> None:
    """The newest version always keeps its state: without it no view can be read."""
    checkpoint = Checkpoint(folder)
    newest = checkpoint.versions()[-1]
    claim = replace(checkpoint.retention_state(), state_from=newest + 1)
    (folder / KEPT).write_bytes(claim.to_bytes(checkpoint.identity))
    assert faults(folder)["snapshots"] == {"VERSION_UNKNOWN"}


@pytest.mark.parametrize("content", [b"", b"{", b'{"output": 1}', None])
def test_a_damaged_record_of_an_output_is_named(folder: Path, content: bytes | None) -> None:
    """A damaged record, with which the next run would be refused, is reported."""
    record = Record.of(folder, f"stream-json={folder.parent}/out.jsonl")
    record.write(6)
    assert sa.open_state(folder).verify().findings == ()
    path = folder / "outputs" / record.path.name
    if content is None:
        path.unlink()
        os.mkfifo(path)
    else:
        path.write_bytes(content)
    found = faults(folder)
    assert found == {f"outputs/{record.path.name}": {"OUTPUT_RECORD_DAMAGED"}}


def test_an_output_that_is_ahead_of_all_versions_is_named(folder: Path) -> None:
    """An output that contains a version which the checkpoint does not have is reported."""
    record = Record.of(folder, f"stream-json={folder.parent}/out.jsonl")
    record.write(7)
    assert faults(folder) == {f"outputs/{record.path.name}": {"OUTPUT_AHEAD"}}


def test_entries_where_none_are_kept_are_a_fault(tmp_path: Path) -> None:
    """Runs of a tree of which only the extremes are kept are reported."""
    number = NumberColumns("whether it has had a value", "met", 2, tree=1)
    shape = OperatorColumns("aggregate", (), (), (number,))
    run = RunFile("tree1.arrow", 1, 1, 0, 0, 1, 2)
    for tree, codes in (("", []), ("tree0", []), ("tree1", ["COUNTS_DIFFER"])):
        found = FindingCollector()
        state = OperatorState({tree: (run,)} if tree else {})
        assert check_operator(FolderFiles(str(tmp_path)), state, shape, "p", found) == 0
        assert [finding.code for finding in found] == codes
