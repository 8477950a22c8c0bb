"""Retention and vacuum: kept versions are complete and all other files are deleted, also after kills."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

import substrait_agg as sa
from substrait_agg.changes import Delivery
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.snapshot import Snapshot
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.locking import (
    check_unlocked,
    is_in_use,
    lock_for_run,
    lock_for_tool,
)
from substrait_agg.commit.log.retention import Retention, parse_retention
from substrait_agg.commit.log.sweep import state_files, sweep
from substrait_agg.errors import StateRefused, UsageError
from tests.checkpoint.local_checkpoint import filled
from tests.commit.test_checkpoint import made, snapshot
from tests.e2e.rows import bag

DAY = timedelta(days=1)


def run_name(version: int) -> str:
    """A run that a version writes and that stays live for three versions."""
    return f"group-0-{version:012d}-{version:032x}.arrow"


def kept_state(folder: Path) -> set[int]:
    """The versions whose runs exist."""
    return {int(p.name.split("-")[2]) for p in (folder / "state").iterdir()}


def simple(folder: Path, versions: int, age_of: dict[int, timedelta] | None = None) -> Checkpoint:
    """A checkpoint whose versions name their own run and those of the two versions before."""
    checkpoint = made(folder)
    for version in range(versions):
        (folder / "state" / run_name(version)).write_bytes(b"x")
        names = [run_name(v) for v in range(max(0, version - 2), version + 1)]
        created = datetime.now(UTC) - (age_of or {}).get(version, timedelta())
        checkpoint.publish(replace(snapshot(version, *names), created=created.isoformat()))
    return checkpoint


def newest(checkpoint: Checkpoint) -> Snapshot:
    """The newest version."""
    found = checkpoint.newest_snapshot()
    assert found is not None
    return found


def test_versions_are_kept_by_number(tmp_path: Path) -> None:
    """The newest versions keep their state, with the runs of earlier versions that they need."""
    checkpoint = simple(tmp_path, 20)
    sweep(checkpoint, newest(checkpoint), Retention(4))
    assert checkpoint.retention_state().state_from == 16
    assert kept_state(tmp_path) == set(range(14, 20))


def test_versions_are_kept_by_age(tmp_path: Path) -> None:
    """Young versions keep their state, however many they are, and so do the newest, however old
    they are.
    """
    checkpoint = simple(tmp_path, 20, {v: (20 - v) * DAY for v in range(20)})
    day = 86_400_000_000
    sweep(checkpoint, newest(checkpoint), Retention(2, 7 * day - 1))
    assert checkpoint.retention_state().state_from == 14
    sweep(checkpoint, newest(checkpoint), Retention(2, 1))
    assert checkpoint.retention_state().state_from == 18
    sweep(checkpoint, newest(checkpoint), Retention(19, 1))
    assert checkpoint.retention_state().state_from == 18, "what is gone does not come back"


def dying_after(count: int) -> Callable[[FolderFiles, str], None]:
    """A deletion that works some times; then the process dies."""
    left, delete = [count], FolderFiles.delete

    def dying(files: FolderFiles, name: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        delete(files, name)

    return dying


def test_a_killed_sweep_loses_nothing_and_the_rest_goes_later(tmp_path: Path) -> None:
    """A sweep that is killed before or after any deletion loses nothing, and the next one deletes
    the rest.
    """
    simple(tmp_path / "whole", 12)
    for step in range(12):
        folder = Path(shutil.copytree(tmp_path / "whole", tmp_path / f"copy-{step}"))
        checkpoint = Checkpoint(folder)
        with patch.object(FolderFiles, "delete", dying_after(step)), suppress(KeyboardInterrupt):
            sweep(checkpoint, newest(checkpoint), Retention(3))
        for version in range(checkpoint.retention_state().state_from, 12):
            assert all(
                checkpoint.state.exists(n) for n in state_files(checkpoint.snapshot(version))
            )
        (folder / "state" / run_name(12)).write_bytes(b"x")
        checkpoint.publish(snapshot(12, run_name(12)))
        sweep(checkpoint, newest(checkpoint), Retention(3))
        assert kept_state(folder) == {8, 9, 10, 11, 12}


def test_a_version_that_was_swept_is_told_from_damage(tmp_path: Path) -> None:
    """A swept version is reported as expired, not as damaged, also if it is swept while it is read."""
    folder = filled(tmp_path / "ckpt", 5).folder
    checkpoint = Checkpoint(folder)
    view = sa.open_view(folder)
    view.to_arrow(2)

    def swept(files: FolderFiles, name: str) -> None:
        del files, name
        sweep(checkpoint, newest(checkpoint), Retention(1))
        raise FileNotFoundError("it was there a moment ago")

    for path in (tmp_path / "other", tmp_path / "another"):
        shutil.copytree(folder, path)
    other = sa.open_view(tmp_path / "other")
    checkpoint = Checkpoint(tmp_path / "other")
    with patch.object(FolderFiles, "checksum", swept), pytest.raises(StateRefused) as refused:
        other.to_arrow(2)
    assert refused.value.code == "VERSION_EXPIRED"
    run = newest(Checkpoint(tmp_path / "another")).operators[0].runs[0]
    (tmp_path / "another" / "state" / run.name).unlink()
    with pytest.raises(StateRefused) as refused:
        sa.open_view(tmp_path / "another").to_arrow()
    assert refused.value.code == "STATE_DAMAGED"


def test_vacuum_deletes_what_is_not_needed(tmp_path: Path) -> None:
    """State of old versions, orphan files of any version, drafts; a dry run reports the same and deletes nothing."""
    folder = filled(tmp_path / "ckpt", 6).folder
    for name in (f"group-0-{3:012d}-{'0' * 32}.arrow", f"tree0-0-{99:012d}-{'0' * 32}.arrow"):
        (folder / "state" / name).write_text("left over")
    (folder / f"draft-{'0' * 32}").write_text("left over")
    (folder / "state" / "mine.txt").write_text("somebody's")
    before = {p for p in folder.rglob("*") if p.is_file()}
    dry = sa.open_state(folder).vacuum(keep=2, dry_run=True)
    assert {p for p in folder.rglob("*") if p.is_file()} - {folder / "lock"} == before
    done = sa.open_state(folder).vacuum(keep=2)
    assert done.files == dry.files
    assert done.files["drafts"] == 1
    assert done.state_from == 5
    gone = before - {p for p in folder.rglob("*") if p.is_file()}
    assert len(gone) == sum(done.files.values())
    assert (folder / "state" / "mine.txt").exists()
    found = sa.open_state(folder).verify()
    assert found.ok
    assert {f.path for f in found.findings} == {"state/mine.txt"}
    sa.open_view(folder).to_arrow(5)
    with pytest.raises(StateRefused):
        sa.open_view(folder).to_arrow(4)
    kept = {file.name for v in (5, 6) for file in Checkpoint(folder).snapshot(v).state_files}
    assert {p.name for p in (folder / "state").iterdir()} == kept | {"mine.txt"}


def test_vacuum_of_changes_waits_for_outputs(tmp_path: Path) -> None:
    """Undelivered versions stay; then old versions are deleted, and reading them is refused."""
    folder = filled(tmp_path / "ckpt", 8).folder
    lines = tmp_path / "lines.jsonl"
    delivery = Delivery([f"stream-json={lines}"], checkpoint=folder)
    delivery.close()
    done = sa.open_state(folder).vacuum(keep=2, changes=True)
    assert (done.changes_from, done.held_by) == (0, f"stream-json={lines}")
    delivery = Delivery([f"stream-json={lines}"], checkpoint=folder)
    delivery.deliver(sa.open_view(folder))
    delivery.close()
    view = sa.open_view(folder)
    whole, last = view.to_arrow(), view.changes(since=6)
    done = sa.open_state(folder).vacuum(keep=2, changes=True)
    assert (done.changes_from, done.held_by) == (7, "")
    view = sa.open_view(folder)
    assert view.versions() == [7, 8]
    assert bag(view.to_arrow()) == bag(whole)
    assert view.changes(since=6) == last
    with pytest.raises(StateRefused) as refused:
        view.changes()
    assert refused.value.code == "CHANGES_EXPIRED"
    verdict = sa.open_state(folder).verify()
    assert verdict.findings == ()
    assert verdict.checked["changes"]


@pytest.mark.parametrize("name", ["kept.json", "settings.json"])
def test_a_lost_note_is_no_matter(tmp_path: Path, name: str) -> None:
    """A lost retention or settings file is derived again or gets its default."""
    made = filled(tmp_path / "ckpt", 8)
    sa.open_state(made.folder).rescale(4)
    sa.open_state(made.folder).vacuum(keep=2, changes=True)
    (made.folder / name).unlink()
    assert sa.open_state(made.folder).verify().findings == ()
    checkpoint = Checkpoint(made.folder)
    sweep(checkpoint, newest(checkpoint), Retention(1))
    assert sa.open_state(made.folder).verify().findings == ()


def test_rescale_sets_a_number_and_nothing_else(tmp_path: Path) -> None:
    """Rescale accepts any power of two, and None to reset the setting."""
    folder = filled(tmp_path / "ckpt", 2).folder
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    state = sa.open_state(folder)
    assert state.rescale(8) is None
    assert state.rescale(None) == 8
    state.rescale(16)
    assert state.ls().partitions == 16
    assert {p: p.read_bytes() for p in before} == before
    for number in (0, 3, 12, 1 << 20):
        with pytest.raises(UsageError) as refused:
            state.rescale(number)
        assert refused.value.code == "PARTITIONS_INVALID"
    assert state.verify().findings == ()


@pytest.mark.parametrize(("versions", "age"), [(0, None), (None, "soon"), (None, "7")])
def test_retention_that_means_nothing_is_refused(versions: int | None, age: str | None) -> None:
    """An invalid retention is refused before anything is read."""
    with pytest.raises(UsageError) as refused:
        parse_retention(versions, age)
    assert refused.value.code == "OPTION_INVALID"


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    """A lock ends with its process, also after kill -9: the remaining file has no effect and no
    child process inherits the lock.
    """
    code = (
        "import sys, os, time, pathlib\n"
        "from substrait_agg.commit.log.locking import lock_for_run\n"
        "lock = lock_for_run(pathlib.Path(sys.argv[1]))\n"
        "child = os.fork()\n"
        "print('locked', flush=True) if child else None\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        assert is_in_use(tmp_path)
        with pytest.raises(StateRefused) as refused:
            lock_for_tool(tmp_path)
        assert refused.value.code == "CHECKPOINT_BUSY"
        assert f"process {process.pid}" in refused.value.message
        process.kill()
        process.wait()
        deadline = time.monotonic() + 10
        while is_in_use(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert (tmp_path / "lock").exists()
        with lock_for_tool(tmp_path), pytest.raises(StateRefused):
            lock_for_run(tmp_path)
        lock_for_run(tmp_path).release()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        if process.stdout is not None:
            process.stdout.close()


def test_a_second_run_or_tool_beside_a_run_is_refused(tmp_path: Path) -> None:
    """Also in the same process, whether it looks at the lock first or takes it."""
    with lock_for_run(tmp_path):
        for take in (lock_for_run, lock_for_tool, check_unlocked):
            with pytest.raises(StateRefused) as refused:
                take(tmp_path)
            assert refused.value.code == "CHECKPOINT_BUSY"
            assert f"process {os.getpid()} " in refused.value.message
        assert is_in_use(tmp_path)
    assert not is_in_use(tmp_path)
    check_unlocked(tmp_path)
