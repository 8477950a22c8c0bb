"""A publication with an unknown outcome is resolved by reading, and is never undone."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from substrait_agg.commit.documents.files import DRAFT, FolderFiles, OutcomeUnknown
from substrait_agg.commit.documents.snapshot import ChangeFile, OperatorState, Snapshot
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.fence import claim
from substrait_agg.errors import CommitConflict, RunFailed
from substrait_agg.files.filesystem import FileSystem
from substrait_agg.files.locations import Location
from substrait_agg.state.run import RunFile
from tests.commit.test_checkpoint import DOCUMENT, made, snapshot
from tests.filesystem import use_filesystem

Link = Callable[[Path, Path], None]


class Linking(FileSystem):
    """Links as a test defines; reads may be refused."""

    def __init__(self, link: Link, *, readable: bool = True) -> None:
        self._link = link
        self._readable = readable

    def link(self, draft: Path, target: Path) -> None:
        self._link(draft, target)

    def read(self, path: Location) -> bytes:
        if not self._readable:
            raise OSError(errno.EIO, "unreadable")
        return super().read(path)


def fails(_draft: Path, _target: Path) -> None:
    raise OSError(errno.EIO, "planted")


def done_and_fails(draft: Path, target: Path) -> None:
    os.link(draft, target)
    raise OSError(errno.EIO, "planted")


def done_twice(draft: Path, target: Path) -> None:
    os.link(draft, target)
    os.link(draft, target)


def another_was_first(draft: Path, target: Path) -> None:
    target.write_bytes(b"another's")
    os.link(draft, target)


@pytest.mark.parametrize("link", [done_and_fails, done_twice])
def test_an_error_after_the_link_is_a_success(tmp_path: Path, link: Link) -> None:
    """The file has the published content, so it is ours."""
    files = FolderFiles(tmp_path)
    with use_filesystem(Linking(link)):
        assert files.publish("a", b"ours")
    assert files.names() == ["a"]


def test_another_content_is_anothers(tmp_path: Path) -> None:
    """A file with other content belongs to another run and stays unchanged."""
    files = FolderFiles(tmp_path)
    with use_filesystem(Linking(another_was_first)):
        assert not files.publish("a", b"ours")
    assert files.read("a") == b"another's"


def test_an_error_before_the_link_is_told(tmp_path: Path) -> None:
    """An error before the link says that nothing was written."""
    files = FolderFiles(tmp_path)
    with use_filesystem(Linking(fails)), pytest.raises(OSError, match="planted"):
        files.publish("a", b"ours")
    assert files.names() == []


@pytest.mark.parametrize("link", [fails, done_and_fails])
def test_what_cannot_be_read_stays_unknown(tmp_path: Path, link: Link) -> None:
    """If the file cannot be read back, the commit is unknown and nothing is undone, because the
    file may exist.
    """
    files = FolderFiles(tmp_path)
    with use_filesystem(Linking(link, readable=False)), pytest.raises(OutcomeUnknown):
        files.publish("a", b"ours")
    assert files.names() == (["a"] if link is done_and_fails else [])


def test_two_drivers_with_the_same_version_are_told_apart(tmp_path: Path) -> None:
    """Versions of two drivers differ at least in the id of the attempt."""
    first, second = made(tmp_path), Checkpoint(tmp_path)
    first.publish(snapshot(0))
    with pytest.raises(CommitConflict):
        second.publish(snapshot(0))


def test_an_unknown_commit_has_a_code(tmp_path: Path) -> None:
    """An unknown commit ends the run with its own code; the next run reads what exists."""
    checkpoint = made(tmp_path)
    assert checkpoint.identity  # a run knows it long before
    with (
        use_filesystem(Linking(done_and_fails, readable=False)),
        pytest.raises(RunFailed) as failed,
    ):
        checkpoint.publish(snapshot(0))
    assert failed.value.code == "COMMIT_UNKNOWN"
    assert Checkpoint(tmp_path).versions() == [0]


def versioned(checkpoint: Checkpoint) -> Snapshot:
    """Version 0 with a run and a change file, both written."""
    run, change = "group-0-000000000000-a.arrow", "000000000000-0-b.parquet"
    for files, name in ((checkpoint.state, run), (checkpoint.changes, change)):
        with files.create(name) as sink:
            sink.write(b"abc")
    state = OperatorState({"group": (RunFile(run, 1, 3, 0),)})
    return replace(snapshot(0), operators=(state,), changes=(ChangeFile(change, 1, 3, 0),))


def test_files_are_durable_before_a_snapshot_names_them(tmp_path: Path) -> None:
    """The new files, their folders and the draft are flushed, then the link is made, then its folder is flushed."""
    done: list[str] = []

    class Noting(FileSystem):
        def sync(self, path: Path) -> None:
            done.append("draft" if path.name.startswith(DRAFT) else path.name)

        def link(self, draft: Path, target: Path) -> None:
            super().link(draft, target)
            done.append("link")

    checkpoint = made(tmp_path)
    version = versioned(checkpoint)
    names = {version.operators[0].runs[0].name, version.changes[0].name}
    with use_filesystem(Noting()):
        checkpoint.publish(version)
    assert set(done[:5]) == {"draft", *names, "state", "changes"}
    assert done[5:] == ["link", "snapshots"]


def test_a_file_that_cannot_be_flushed_is_not_committed(tmp_path: Path) -> None:
    """All other files are flushed nevertheless, so that nothing of the attempt goes on."""
    done: list[str] = []

    class Broken(FileSystem):
        def sync(self, path: Path) -> None:
            if path.name.startswith("group-"):
                raise OSError(errno.EIO, "planted")
            done.append(path.name)

    checkpoint = made(tmp_path)
    version = versioned(checkpoint)
    with use_filesystem(Broken()), pytest.raises(RunFailed) as failed:
        checkpoint.publish(version)
    assert failed.value.code == "CHECKPOINT_NOT_WRITTEN"
    assert {"state", "changes"} <= set(done)
    assert checkpoint.versions() == []


@pytest.mark.parametrize("spoil", [os.unlink, lambda path: os.truncate(path, 2)])
def test_files_that_the_driver_does_not_find_are_not_committed(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    """Files that executors wrote to a disk of their own are not committed."""
    checkpoint = made(tmp_path)
    version = versioned(checkpoint)
    spoil(tmp_path / "changes" / version.changes[0].name)
    with pytest.raises(RunFailed) as failed:
        checkpoint.publish(version)
    assert failed.value.code == "STATE_NOT_SHARED"
    assert checkpoint.versions() == []


def test_the_newest_claim_owns_the_checkpoint(tmp_path: Path) -> None:
    """A run with an older claim can neither commit nor enter a block that changes shared files."""
    first, second = made(tmp_path), Checkpoint(tmp_path)
    first.claim()
    first.publish(snapshot(0))
    second.claim()
    with pytest.raises(CommitConflict):
        first.publish(snapshot(1))
    with pytest.raises(CommitConflict), first.fence.guard():
        pass
    second.publish(snapshot(1))
    with second.fence.guard():
        pass
    assert len(list((tmp_path / "owners").glob("*.json"))) == 1


def test_a_claim_waits_for_a_block_to_end_and_then_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim waits for a run that is suspended in a block with shared files, then gives up."""
    monkeypatch.setattr("substrait_agg.commit.log.fence.LOCK_SECONDS", 0.05)
    checkpoint = made(tmp_path)
    checkpoint.claim()
    with checkpoint.fence.guard():
        with pytest.raises(CommitConflict) as busy:
            claim(FolderFiles(tmp_path / "owners"))
        assert busy.value.code == "CHECKPOINT_BUSY"
        assert str(os.getpid()) in busy.value.message
    claim(FolderFiles(tmp_path / "owners"))


def test_a_checkpoint_that_was_being_made_can_be_begun_again(tmp_path: Path) -> None:
    """A checkpoint can be created again after a kill that left only a draft."""
    (tmp_path / "draft-0123").write_bytes(b"{")
    Checkpoint(tmp_path).create(DOCUMENT)


def test_what_was_said_of_time_comes_back(tmp_path: Path) -> None:
    """The options of event time in a plan document are read back as they were written."""
    document = replace(DOCUMENT, watermarks=("t.at",), forget="keep")
    Checkpoint(tmp_path).create(document)
    Checkpoint(tmp_path).check(document)
    assert Checkpoint(tmp_path).document() == document
