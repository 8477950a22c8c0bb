"""Unusual calls and folders: each is answered correctly or refused with a code, and no call waits
forever.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import substrait_agg as sa
from substrait_agg.commit.documents.file_names import version_of
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.log import locking
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.fence import claim
from substrait_agg.commit.log.locking import LOCK, is_in_use, lock_for_run, lock_for_tool
from substrait_agg.commit.log.sweep import sweep
from substrait_agg.errors import StateRefused, SubstraitAggError, UsageError
from substrait_agg.files.filesystem import MOST_READ, FileSystem
from substrait_agg.tools.showing import key_values, parse_key
from tests.checkpoint.local_checkpoint import filled


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undamaged checkpoint, which no test changes."""
    return filled(tmp_path_factory.mktemp("whole") / "ckpt").folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy of the checkpoint."""
    return Path(shutil.copytree(whole, tmp_path / "ckpt"))


@contextmanager
def soon() -> Iterator[None]:
    """Fail an operation that takes more than half a minute: it waits for an event that never
    happens.
    """

    def late(*_: object) -> None:
        raise AssertionError("nobody should be kept waiting")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(30)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def suppress_refusal(refused: list[SubstraitAggError]) -> Iterator[None]:
    """Record a refusal and continue."""
    try:
        yield
    except SubstraitAggError as error:
        refused.append(error)


@pytest.mark.parametrize("limit", [1 << 63, 10**30])
def test_a_limit_beyond_all_rows_shows_them_all(whole: Path, limit: int) -> None:
    """A limit that is larger than any machine word shows all groups, or all entries of a group."""
    state = sa.open_state(whole)
    for tree in ("group", "tree0"):
        assert state.show(tree, limit=limit) == state.show(tree, limit=None)
        assert state.show(tree, key=1, limit=limit) == state.show(tree, key=1, limit=None)


@pytest.mark.parametrize("version", [10**20, 10**250])
def test_a_version_without_a_name_is_unknown(whole: Path, version: int) -> None:
    """An unknown version is refused as unknown, not as damage."""
    for ask in (sa.open_view(whole).to_arrow, lambda v: sa.open_state(whole).show(version=v)):
        with pytest.raises(StateRefused) as refused:
            ask(version)
        assert refused.value.code == "VERSION_UNKNOWN"


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" + "1" * 5000 + "]", ""])
def test_a_key_that_is_no_json_is_refused(text: str) -> None:
    """A key that is no JSON is refused briefly, at any depth of nesting."""
    with pytest.raises(UsageError) as refused:
        parse_key(text)
    assert refused.value.code == "KEY_INVALID"
    assert len(refused.value.message) < 1000


@pytest.mark.parametrize("key", [1.5, "1.5", True, "1", [[1]]])
def test_a_key_is_not_rounded(key: Any) -> None:
    """A key that would have to be rounded is refused instead of showing the group of another key."""
    given = parse_key(key) if key == "1.5" else key
    with pytest.raises(UsageError):
        key_values(given, ["k"], [pa.int64()])
    assert key_values(parse_key("2.0"), ["k"], [pa.int64()])[0].to_pylist() == [2]


@pytest.mark.parametrize("key", [5, None, True, "x"])
def test_a_nested_key_takes_no_plain_value(key: Any) -> None:
    """A nested key accepts no plain value except null, which every type has."""
    types = [pa.struct([("a", pa.int64())])]
    if key is None:
        assert key_values(key, ["s"], types)[0].to_pylist() == [None]
        return
    with pytest.raises(UsageError) as refused:
        key_values(key, ["s"], types)
    assert refused.value.code == "KEY_INVALID"


def test_an_age_before_the_calendar_keeps_everything(whole: Path) -> None:
    """An age of a million days, the longest duration, keeps all versions."""
    done = sa.open_state(whole).vacuum(keep=1, older_than="1000000d", dry_run=True)
    assert done.state_from == 0


def test_a_wrong_age_is_told_by_the_name_of_its_option(whole: Path) -> None:
    """The error names the option of the command, not that of a run."""
    with pytest.raises(UsageError) as refused:
        sa.open_state(whole).vacuum(older_than="soon")
    assert refused.value.path == "--older-than"


@pytest.mark.parametrize("left", ["the middle", "none"])
def test_missing_versions_are_told_by_every_look(folder: Path, left: str) -> None:
    """ls and verify report missing versions instead of listing only the remaining ones."""
    names = sorted((folder / "snapshots").iterdir())
    for path in names[3:4] if left == "the middle" else names:
        path.unlink()
    with pytest.raises(StateRefused) as refused:
        sa.open_state(folder).ls()
    assert refused.value.code == "STATE_DAMAGED"
    assert not sa.open_state(folder).verify().ok


STRANGE = (
    "group-0-000000000001-0123456789abcdef0123456789abcdef.arrow (copy)",
    "group-0-000000000001-0123456789abcdef0123456789abcdef.arrow~",
    "000000000001-0-0123456789abcdef0123456789abcdef.parquet.bak",
    "group-0-" + chr(0x661) * 12 + "-0123456789abcdef0123456789abcdef.arrow",
)
OURS = "group-0-000000000001-0123456789abcdef0123456789abcdef.arrow"


@pytest.mark.parametrize("name", STRANGE)
def test_copies_that_somebody_put_beside_our_files_stop_nothing(folder: Path, name: str) -> None:
    """Foreign copies beside the files of a checkpoint are neither deleted nor do they disturb a
    sweep.
    """
    assert version_of(OURS) == 1
    assert version_of(name) is None
    for place in ("state", "changes"):
        (folder / place / name).write_bytes(b"mine")
    store = Checkpoint(folder)
    newest = store.newest_snapshot()
    assert newest is not None
    sweep(store, newest, whole=True)
    sa.open_state(folder).vacuum(keep=1)
    assert sa.open_state(folder).verify().ok
    assert (folder / "state" / name).read_bytes() == b"mine"


@pytest.mark.parametrize("what", ["a folder", "a link that leads nowhere"])
def test_a_vacuum_passes_over_what_is_no_file(folder: Path, what: str) -> None:
    """A vacuum keeps a folder in the place of an unneeded run and deletes a link."""
    path = folder / "state" / OURS
    if what == "a folder":
        path.mkdir()
    else:
        path.symlink_to(folder / "nowhere")
    sa.open_state(folder).vacuum(keep=1)
    assert path.is_dir() == (what == "a folder")
    assert not path.is_symlink()


def _pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def _link(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


def _folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


@pytest.mark.parametrize("put", [_pipe, _link, _folder])
def test_nobody_waits_for_what_is_in_place_of_the_lock(
    folder: Path, put: Callable[[Path], None]
) -> None:
    """Readers need no lock, and commands that need it report what is wrong with the lock file
    instead of waiting.
    """
    put(folder / LOCK)
    with soon():
        assert not sa.open_state(folder).ls().in_use
        for take in (lock_for_run, lock_for_tool):
            with pytest.raises(StateRefused) as refused:
                take(folder)
            assert refused.value.code == "STATE_DAMAGED"


def test_looking_whether_a_checkpoint_is_used_is_in_nobodys_way(folder: Path) -> None:
    """The check holds the lock for a moment, and a run or tool that starts in that moment tries
    again.
    """
    (folder / LOCK).touch()
    for take in (lock_for_run, lock_for_tool):
        handle = os.open(folder / LOCK, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
        threading.Timer(locking.GLANCE_SECONDS / 4, os.close, (handle,)).start()
        take(folder).release()
    assert not is_in_use(folder)


def test_a_tool_that_is_in_the_way_is_named(folder: Path) -> None:
    """The error names the process of the tool, not that of a run that ended earlier."""
    lock_for_run(folder).release()
    (folder / LOCK).write_text(json.dumps({"process": 1, "host": "gone", "since": "long ago"}))
    with lock_for_tool(folder), pytest.raises(StateRefused) as refused:
        sa.open_state(folder).vacuum()
    assert refused.value.code == "CHECKPOINT_BUSY"
    assert f"process {os.getpid()} " in refused.value.message


@pytest.mark.parametrize(
    "name", ["²", "²²²²²²²²²²²².json", "٣.json", "000000000001", ".nfs0000000000000001"]
)
def test_strange_names_among_claims_are_passed_over(folder: Path, name: str) -> None:
    """Names with Unicode digits that are no numbers are ignored."""
    (folder / "owners" / name).write_text("x")
    assert claim(FolderFiles(folder / "owners")).epoch > 0
    sa.open_state(folder).rollback(3, dry_run=True)


@pytest.mark.parametrize("name", ["plan.json", "kept.json", "snapshots/00000000000000000002.json"])
def test_a_huge_file_is_not_read_as_a_whole(folder: Path, name: str) -> None:
    """A huge sparse file is refused without reading it into memory."""
    path = folder / name
    os.truncate(path, MOST_READ + 1)
    asks = (lambda: sa.open_state(folder).rollback(3, dry_run=True), sa.open_state(folder).ls)
    refused: list[SubstraitAggError] = []
    with soon():
        for ask in asks:
            with suppress_refusal(refused):
                ask()
    assert refused
    assert {error.code for error in refused} == {"STATE_DAMAGED"}


def test_a_run_that_has_grown_is_not_read_to_its_end(folder: Path) -> None:
    """A run with a wrong size is refused by its size, without a checksum of all its bytes."""
    run = Checkpoint(folder).snapshot(6).operators[0].runs[0]
    change = Checkpoint(folder).snapshot(6).changes[0]
    os.truncate(folder / "state" / run.name, 1 << 40)
    os.truncate(folder / "changes" / change.name, 1 << 40)
    with soon():
        for ask in (sa.open_view(folder).to_arrow, sa.open_view(folder).changes):
            with pytest.raises(StateRefused) as refused:
                ask()
            assert refused.value.code == "STATE_DAMAGED"
        found = {f.path for f in sa.open_state(folder).verify().errors}
    assert {f"state/{run.name}", f"changes/{change.name}"} <= found


def test_a_rescale_beside_a_sweep_is_not_torn(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rescale succeeds although a sweep deletes its draft as that of an ended run: it writes the
    draft again.
    """
    left, original = [2], FileSystem.replace

    def swept(self: FileSystem, draft: Path, target: Path) -> None:
        if left[0]:
            left[0] -= 1
            draft.unlink()
        original(self, draft, target)

    monkeypatch.setattr(FileSystem, "replace", swept)
    sa.open_state(folder).rescale(16)
    assert sa.open_state(folder).ls().partitions == 16
