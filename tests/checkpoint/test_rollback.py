"""Rollback: the chosen version becomes the newest, the positions of the sources are its own, the outputs
end there, and a kill in between does no harm.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

import substrait_agg as sa
from substrait_agg.changes import Delivery
from substrait_agg.changes.records import Record
from substrait_agg.commit.documents.envelope import seal
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.locking import lock_for_run
from substrait_agg.commit.log.read_files import read_files
from substrait_agg.errors import StateRefused
from substrait_agg.tools.rollback import rollback as rolling
from substrait_agg.tools.rollback.sinks import cut_output
from substrait_agg.tools.state import State
from tests.checkpoint.local_checkpoint import Made, filled, some_rows
from tests.e2e.rows import bag


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of 24 versions, of which 15 keep their state."""
    return filled(tmp_path_factory.mktemp("whole") / "ckpt", 24).folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy of the checkpoint."""
    return Path(shutil.copytree(whole, tmp_path / "ckpt"))


def contents(folder: Path) -> dict[str, bytes]:
    """The content of every file except locks and claims; records without the number of their run."""
    files = {p.relative_to(folder): p for p in folder.rglob("*") if p.is_file()}
    return {
        re.sub(r"^(outputs/.+?)\.\d+\.json$", r"\1.json", name.as_posix()): path.read_bytes()
        for name, path in files.items()
        if name.parts[0] not in ("lock", "owners")
    }


def files_read(folder: Path) -> list[str]:
    """The files that the newest version has read, in the order of their times."""
    checkpoint = Checkpoint(folder)
    newest = checkpoint.newest_snapshot()
    assert newest is not None
    files = read_files(checkpoint.state, newest.positions.files["t"])
    return [file.uri for file in sorted(files, key=lambda file: file.modified)]


@pytest.mark.parametrize("to", [24, 23, 20, 19, 12, 11])
def test_everything_ends_at_the_version(folder: Path, to: int) -> None:
    """View, changes and files read end at the version, without faults and orphan files."""
    view = sa.open_view(folder)
    wanted, changes = bag(view.to_arrow(to)), view.changes(until=to)
    done = sa.open_state(folder).rollback(to)
    assert (done.to, done.newest) == (to, 24)
    view = sa.open_view(folder)
    assert view.version == to
    assert bag(view.to_arrow()) == wanted
    assert view.changes() == changes
    verdict = sa.open_state(folder).verify()
    assert verdict.findings == ()
    assert files_read(folder) == [f"file:///in/{n}.parquet" for n in range(1, to + 1)]


def test_a_version_whose_state_is_gone_is_refused(folder: Path) -> None:
    """A version without state or with damaged state is refused."""
    with pytest.raises(StateRefused) as refused:
        sa.open_state(folder).rollback(3)
    assert refused.value.code == "VERSION_EXPIRED"
    run = Checkpoint(folder).snapshot(15).operators[0].runs[0]
    (folder / "state" / run.name).write_bytes(b"x")
    with pytest.raises(StateRefused) as refused:
        sa.open_state(folder).rollback(15)
    assert refused.value.code == "STATE_DAMAGED"
    assert sa.open_view(folder).version == 24


def test_back_to_the_first_version_reads_everything_again(tmp_path: Path) -> None:
    """It has read nothing, and no list of files stays."""
    made = filled(tmp_path / "ckpt", 3)
    sa.open_state(made.folder).rollback(0)
    assert files_read(made.folder) == []
    assert not [*(made.folder / "state").glob("files-*")]
    assert sa.open_view(made.folder).to_arrow().num_rows == 0
    assert sa.open_state(made.folder).verify().findings == ()


def test_a_version_whose_list_of_files_is_damaged_is_refused(folder: Path) -> None:
    """The next run could not tell which files it has read; the rollback changes nothing."""
    names = Checkpoint(folder).snapshot(15).positions.lists[0]
    (folder / "state" / names.name).write_bytes(b"x")
    before = contents(folder)
    with pytest.raises(StateRefused) as refused:
        sa.open_state(folder).rollback(15)
    assert refused.value.code == "STATE_DAMAGED"
    assert names.name in str(refused.value)
    assert contents(folder) == before


def test_versions_made_again_are_as_if_nothing_had_been(folder: Path, tmp_path: Path) -> None:
    """The same batches after a rollback give the same view and the same changes."""
    made = Made(tmp_path / "other")
    random = Random(1)
    batches = [some_rows(random, 10) for _ in range(5)]
    states = []
    for rows in batches:
        made.batch(rows)
        states.append((made.world.now, dict(made.world.log)))
    view = sa.open_view(made.folder)
    wanted, changes = view.to_arrow(), view.changes()
    sa.open_state(made.folder).rollback(2)
    made.world.now = states[1][0]
    made.world.log.clear()
    made.world.log.update(states[1][1])
    for rows in batches[2:]:
        made.batch(rows)
    view = sa.open_view(made.folder)
    assert bag(view.to_arrow()) == bag(wanted)
    assert bag(view.changes()) == bag(changes)
    assert sa.open_state(made.folder).verify().findings == ()


def _deliver(folder: Path, out: Path, called: list[int]) -> None:
    out.mkdir(exist_ok=True)
    outputs = [
        f"stream-json={out / 'lines.jsonl'}",
        f"debezium-json={out / 'events.jsonl'}",
        f"changes-parquet={out / 'files'}",
    ]
    delivery = Delivery(
        outputs, checkpoint=folder, on_changes=lambda _, version: called.append(version)
    )
    delivery.deliver(sa.open_view(folder))
    delivery.close()


def test_outputs_that_are_ahead_are_named_and_refused(folder: Path, tmp_path: Path) -> None:
    """A rollback names all outputs that are ahead, refuses, and changes nothing."""
    _deliver(folder, tmp_path / "out", [])
    before = contents(folder)
    with pytest.raises(StateRefused) as refused:
        sa.open_state(folder).rollback(20)
    assert refused.value.code == "OUTPUT_AHEAD"
    for name in ("lines.jsonl", "events.jsonl", "files", "on_changes"):
        assert name in refused.value.message
    assert contents(folder) == before


def test_outputs_are_cut_back_exactly(folder: Path, whole: Path, tmp_path: Path) -> None:
    """With --force, files become what they were at the version, and a callback is called again."""
    called: list[int] = []
    out = tmp_path / "out"
    _deliver(folder, out, called)
    until = Path(shutil.copytree(whole, tmp_path / "until"))
    sa.open_state(until).rollback(20)
    _deliver(until, tmp_path / "wanted", [])
    dry = sa.open_state(folder).rollback(20, force=True, dry_run=True)
    assert {o.way for o in dry.outputs} == {"cut text", "delete files", "deliver again"}
    assert sa.open_view(folder).version == 24
    sa.open_state(folder).rollback(20, force=True)
    for wanted in (tmp_path / "wanted").rglob("*"):
        found = out / wanted.relative_to(tmp_path / "wanted")
        assert wanted.is_dir() or wanted.read_bytes() == found.read_bytes(), wanted.name
    files = {p.name for p in out.rglob("*")}
    assert files == {p.name for p in (tmp_path / "wanted").rglob("*")}
    assert sa.open_state(folder).rollback(20).outputs == ()


def test_a_file_that_the_record_does_not_tell_of_is_no_stranger(
    folder: Path, tmp_path: Path
) -> None:
    """After a kill between file and record, a rollback deletes the unrecorded file, so that the new
    version is written.
    """
    out = tmp_path / "out" / "files"
    earlier = Path(shutil.copytree(folder, tmp_path / "earlier"))
    sa.open_state(earlier).rollback(20)
    _deliver(folder, tmp_path / "out", [])
    for path in (folder / "outputs").iterdir():
        path.unlink()
    shutil.rmtree(tmp_path / "out")
    _deliver(earlier, tmp_path / "out", [])
    known = {p.name for p in out.iterdir()}
    for record in (earlier / "outputs").iterdir():
        body = json.loads(record.read_text())
        for name in ("crc", "format", "checkpoint"):
            del body[name]
        content = seal(body, format=2, checkpoint=Checkpoint(folder).identity)
        (folder / "outputs" / record.name).write_bytes(content)
    late = out / f"changes-{21:020d}.parquet"
    late.write_bytes(b"what version 21 was")
    mine = out / "changes-of-my-own.parquet"
    mine.write_bytes(b"")
    with pytest.raises(StateRefused) as refused:
        sa.open_state(folder).rollback(20)
    assert refused.value.code == "OUTPUT_AHEAD"
    (ahead,) = sa.open_state(folder).rollback(20, force=True).outputs
    assert (ahead.version, ahead.way) == (21, "delete files")
    assert {p.name for p in out.iterdir()} == known | {mine.name}


def test_a_table_that_may_have_had_the_next_version_is_given_it_under_another_name(
    folder: Path,
) -> None:
    """After a rollback a Delta table gets the next version with a new transaction id, because Delta
    skips known ones.
    """
    target = Record.of(folder, "spark=delta=/t")
    record = Record(target.path, "spark=delta:/t")
    name = folder / "outputs" / target.path.with_suffix(".id").name
    name.write_text("a name")
    record.write(21)
    with pytest.raises(StateRefused) as refused:
        sa.open_state(folder).rollback(20, force=True)
    assert refused.value.code == "OUTPUT_AHEAD"
    record.write(20)
    with pytest.raises(StateRefused):
        sa.open_state(folder).rollback(20)
    assert name.exists()
    (ahead,) = sa.open_state(folder).rollback(20, force=True).outputs
    assert (ahead.version, ahead.way) == (21, "deliver again")
    assert not name.exists()


def test_a_text_that_somebody_changed_is_not_cut(folder: Path, tmp_path: Path) -> None:
    """A rollback refuses to cut a text file whose end is not what was written to it."""
    _deliver(folder, tmp_path / "out", [])
    lines = tmp_path / "out" / "lines.jsonl"
    lines.write_bytes(lines.read_bytes()[:-3] + b"xx\n")
    with pytest.raises(StateRefused) as refused:
        sa.open_state(folder).rollback(20, force=True)
    assert refused.value.code == "OUTPUT_DAMAGED"


class Killed(BaseException):
    """The effect of a kill on the files of a process."""


def _killed_at(step: int) -> Any:
    """Patches under which the process dies at a change of a file."""
    left = [step]

    def counted(original: Any) -> Any:
        def work(*arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return original(*arguments, **options)

        return work

    return [
        patch.object(FolderFiles, "delete", counted(FolderFiles.delete)),
        patch.object(FolderFiles, "replace", counted(FolderFiles.replace)),
        patch.object(Path, "unlink", counted(Path.unlink)),
        patch.object(rolling, "cut_output", counted(cut_output)),
    ]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((0, 1, 2, 4, 7, 30, 50, 1000), id="some"),
        pytest.param(range(1000), id="all", marks=pytest.mark.soak),
    ],
)
def test_a_rollback_that_is_killed_is_finished_by_running_it_again(
    folder: Path, tmp_path: Path, steps: Sequence[int]
) -> None:
    """A kill at any change of a file: no run starts in between, and the result is the same."""
    _deliver(folder, tmp_path / "out", [])
    out, saved = tmp_path / "out", Path(shutil.copytree(tmp_path / "out", tmp_path / "saved"))
    undisturbed = Path(shutil.copytree(folder, tmp_path / "undisturbed"))
    sa.open_state(undisturbed).rollback(16, force=True)
    wanted, delivered = contents(undisturbed), contents(out)
    for step in steps:
        copy = Path(shutil.copytree(folder, tmp_path / f"copy-{step}"))
        shutil.rmtree(out)
        shutil.copytree(saved, out)
        patches = _killed_at(step)
        for one in patches:
            one.start()
        try:
            sa.open_state(copy).rollback(16, force=True)
            died = False
        except Killed:
            died = True
        finally:
            for one in patches:
                one.stop()
        if died and (copy / "rollback.json").exists():
            with pytest.raises(StateRefused) as refused:
                Checkpoint(copy).check_runnable()
            assert refused.value.code == "ROLLBACK_UNFINISHED"
            with pytest.raises(StateRefused):
                sa.open_state(copy).rollback(17, force=True)
        sa.open_state(copy).rollback(16, force=True)
        found = contents(copy)
        drafts = {name for name in found if "draft-" in name or name.endswith(".tmp")}
        assert {n: c for n, c in found.items() if n not in drafts} == wanted, step
        assert contents(out) == delivered
        shutil.rmtree(copy)
        if not died:
            break
    assert step > 50
    assert not died


def test_a_rollback_beside_a_run_is_refused(folder: Path) -> None:
    """The refused command changes nothing; after the end of the run it works."""
    lock = lock_for_run(folder)
    tools: tuple[Callable[[State], object], ...] = (
        lambda state: state.rollback(20),
        lambda state: state.vacuum(keep=1),
    )
    for work in tools:
        with pytest.raises(StateRefused) as refused:
            work(sa.open_state(folder))
        assert refused.value.code == "CHECKPOINT_BUSY"
    assert sa.open_state(folder).ls().in_use
    assert sa.open_state(folder).verify().ok
    lock.release()
    sa.open_state(folder).rollback(20)
