"""Checkpoints in a store: URLs, required guarantees of the store, and interactions of runs on several machines."""

from __future__ import annotations

import sys
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fsspec.registry import _registry as fsspec_registry

import substrait_agg as sa
from substrait_agg.changes.records import Record
from substrait_agg.commit.documents.positions import FilesPosition, ReadFile
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.fence import claim
from substrait_agg.commit.log.read_files import MOST_RECENT, read_files, with_files
from substrait_agg.commit.log.retention import Retention, RetentionState
from substrait_agg.commit.log.sweep import sweep
from substrait_agg.errors import CommitConflict, RunFailed, StateRefused, UsageError
from substrait_agg.files import object_store
from substrait_agg.files.locations import Remote
from substrait_agg_cli.main import main
from tests.commit.test_checkpoint import DOCUMENT, snapshot
from tests.stores.emulator import KEYS, Emulator


@pytest.fixture
def where(s3: Emulator) -> str:
    """The location of a checkpoint."""
    return f"{s3.bucket(f'checkpoint-{uuid.uuid4().hex[:12]}')}/ckpt"


def made(where: str) -> Checkpoint:
    checkpoint = Checkpoint(where)
    checkpoint.create(DOCUMENT)
    checkpoint.claim()
    return checkpoint


def code(error: pytest.ExceptionInfo[Any]) -> str:
    return str(error.value.code)


# --- where -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("s3://", "CHECKPOINT_URL_INVALID"),
        ("s3:///x", "NOT_A_CHECKPOINT"),
        ("s3://me:hunter22@bucket/x", "CHECKPOINT_URL_INVALID"),
        ("s3://bucket/x?secret=hunter22", "CHECKPOINT_URL_INVALID"),
        ("s3://bucket/../x", "CHECKPOINT_URL_INVALID"),
        ("ftp://host/x", "STORE_NOT_SUPPORTED"),
        ("nowhere://bucket/x", "STORE_NOT_SUPPORTED"),
    ],
)
def test_urls_that_are_not_taken_say_why(s3: Emulator, url: str, wanted: str) -> None:
    """Invalid URLs are refused with a code and a remedy and without the password, also by the
    command.
    """
    with pytest.raises((UsageError, StateRefused)) as refused:
        sa.open_view(url)
    assert code(refused) == wanted
    assert refused.value.help
    shown = CliRunner().invoke(main, ["state", "ls", url])
    assert shown.exit_code != 0
    assert wanted in shown.output
    assert "hunter22" not in f"{refused.value} {refused.value.help} {shown.output}"


def test_a_url_in_a_path_is_no_folder_of_that_name() -> None:
    """A URL in a `Path`, which merges the two slashes, is refused instead of creating a folder
    ``s3:``.
    """
    with pytest.raises(UsageError) as refused:
        sa.open_view(Path("s3://bucket/x"))
    assert code(refused) == "CHECKPOINT_URL_INVALID"


@pytest.mark.parametrize(
    ("scheme", "package"), [("s3", "stores"), ("gs", "gcsfs"), ("abfs", "adlfs")]
)
def test_a_package_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, scheme: str, package: str
) -> None:
    """The error for a missing package contains the command that installs it."""
    for module in ("s3fs", "gcsfs", "adlfs"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(fsspec_registry, scheme, raising=False)
    object_store._system.cache_clear()
    with pytest.raises(UsageError) as refused:
        sa.open_view(f"{scheme}://a-bucket/x")
    assert code(refused) == "STORE_PACKAGE_MISSING"
    assert "pip install" in refused.value.help
    assert package in refused.value.help


def test_a_bucket_that_is_not_there_is_told(s3: Emulator) -> None:
    """A missing bucket is no checkpoint for a reader, and a run cannot write to it."""
    with pytest.raises(StateRefused) as refused:
        sa.open_view("s3://no-such-bucket/x")
    assert code(refused) == "NOT_A_CHECKPOINT"
    with pytest.raises(RunFailed) as failed:
        made("s3://no-such-bucket/x")
    assert code(failed) == "CHECKPOINT_NOT_WRITTEN"
    assert "bucket" in failed.value.message


def test_other_prefixes_are_left_alone(where: str, s3: Emulator) -> None:
    """A prefix with other files is no checkpoint."""
    Checkpoint(where).root.replace("data.csv", b"1")
    with pytest.raises(StateRefused) as refused:
        made(where)
    assert code(refused) == "NOT_A_CHECKPOINT"


# --- what a store has to do --------------------------------------------------------------------------


def test_a_store_that_overlooks_conditions_is_refused(where: str, s3: Emulator) -> None:
    """A store without conditional writes is refused before anything is written, and the test object
    is removed.
    """
    s3.unconditional = True
    try:
        with pytest.raises(StateRefused) as refused:
            made(where)
    finally:
        s3.unconditional = False
    assert code(refused) == "STORE_NOT_ATOMIC"
    assert s3.keys(where.split("/")[2]) == []


def test_a_store_that_does_not_list_what_it_has_is_refused(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store whose list lacks a name that was just written is refused."""
    monkeypatch.setattr(object_store, "names", lambda _folder, **_: [])
    with pytest.raises(StateRefused) as refused:
        made(where)
    assert code(refused) == "STORE_NOT_CONSISTENT"


def test_no_key_comes_into_the_checkpoint(where: str, s3: Emulator) -> None:
    """No access key is written to the checkpoint or to the error of a failed request."""
    checkpoint = made(where)
    checkpoint.publish(snapshot(0))
    bucket = where.split("/")[2]
    for key in s3.keys(bucket):
        content = s3.client().get_object(Bucket=bucket, Key=key)["Body"].read()
        assert KEYS["AWS_SECRET_ACCESS_KEY"].encode() not in content
    with (
        s3.broken(lambda _method, _path: "before"),
        pytest.raises(OSError, match="planted") as told,
    ):
        checkpoint.root.replace("x", b"")
    assert KEYS["AWS_SECRET_ACCESS_KEY"] not in str(told.value)


# --- runs on other machines ---------------------------------------------------------------------------


def test_a_version_is_committed_once(where: str) -> None:
    """The second writer gets an error, and the content is that of the first."""
    first, second = made(where), Checkpoint(where)
    first.publish(snapshot(0))
    with pytest.raises(CommitConflict) as conflict:
        second.publish(snapshot(0))
    assert code(conflict) == "COMMIT_CONFLICT"
    assert second.versions() == [0]


def test_the_commit_is_made_though_no_answer_says_so(where: str, s3: Emulator) -> None:
    """A snapshot that the server creates while it answers with errors is recognized as ours."""
    checkpoint = made(where)
    with s3.broken(
        lambda method, path: "after" if method == "PUT" and "/snapshots/" in path else ""
    ):
        checkpoint.publish(snapshot(0))
    assert checkpoint.versions() == [0]


def test_a_commit_that_nobody_answers_is_unknown(where: str, s3: Emulator) -> None:
    """A commit without an answer is unknown, because the request may still arrive; the next attempt
    finds out.
    """
    checkpoint = made(where)
    with (
        s3.broken(
            lambda method, path: "before" if method == "PUT" and "/snapshots/" in path else ""
        ),
        pytest.raises(RunFailed) as failed,
    ):
        checkpoint.publish(snapshot(0))
    assert code(failed) == "COMMIT_UNKNOWN"
    checkpoint.publish(snapshot(0))


def test_a_store_that_fails_is_no_damage(where: str, s3: Emulator) -> None:
    """An object that cannot be read for now is not reported as damaged."""
    checkpoint = made(where)
    checkpoint.publish(snapshot(0))
    with s3.broken(lambda *_: "before"), pytest.raises(StateRefused) as failed:
        checkpoint.snapshot(0)
    assert code(failed) == "STORE_FAILED"
    assert checkpoint.snapshot(0).version == 0


def test_who_claims_later_owns_the_checkpoint(where: str) -> None:
    """The later claim owns the checkpoint, and the first run notices it at its next commit."""
    first = made(where)
    second = made(where)
    with pytest.raises(CommitConflict):
        first.publish(snapshot(0))
    second.publish(snapshot(0))
    assert claim(second._owners, second.identity).epoch == 3


def test_an_old_note_of_what_is_kept_does_not_come_back(where: str) -> None:
    """Of two machines that derive a retention record from the same one, the second writer gets an
    error.
    """
    first = made(where)
    before = first.retention_state()
    first.keep(replace(before, state_from=5))
    late = Checkpoint(where)
    late.fence = first.fence
    with pytest.raises(BlockingIOError):
        late.keep(replace(before, state_from=2))
    assert first.retention_state() == RetentionState(5, 0, -1, revision=1)
    first.keep(replace(first.retention_state(), state_from=6))
    assert first.retention_state().state_from == 6
    assert [name for name in first.root.names() if name.startswith("kept")] == [
        "kept-000000000002.json"
    ]


def test_a_run_that_slept_notes_nothing(where: str) -> None:
    """A suspended run writes no record after another run has taken over, even before that one
    writes.
    """
    sleeper = made(where)
    made(where)
    with pytest.raises(CommitConflict):
        sleeper.keep(RetentionState(3, 3))
    assert sleeper.retention_state() == RetentionState()


def test_records_of_outputs_are_those_of_the_newest_run(where: str) -> None:
    """Records that a suspended run still writes are not read, as in a folder."""
    first = made(where)
    first.publish(snapshot(0))
    record = Record.of(first.folder, "stream-json=/out.jsonl", first.fence)
    record.take_over(None)
    second = made(where)
    taken = replace(record, fence=second.fence)
    taken.take_over(0, 10)
    record.write(0, 99)
    assert taken.read() == (0, 10)
    assert isinstance(record.path, Remote)


# --- lists of files --------------------------------------------------------------------------------------


def test_lists_of_files_are_read_from_the_store(where: str, s3: Emulator) -> None:
    """Another machine reads them; a list that the store does not have is named, a store that fails
    is no damage.
    """
    files = [ReadFile(f"s3://in/{n}", n) for n in range(MOST_RECENT + 1)]
    position = with_files(made(where).state, FilesPosition(), files, 0, 1)
    state = Checkpoint(where).state
    state.forget(position.lists[0].name)
    with s3.broken(lambda *_: "before"), pytest.raises(StateRefused) as failed:
        list(read_files(state, position))
    assert code(failed) == "STORE_FAILED"
    assert sorted(read_files(state, position)) == sorted(files)
    state.delete(position.lists[0].name)
    with pytest.raises(StateRefused) as damaged:
        list(read_files(state, position))
    assert code(damaged) == "STATE_DAMAGED"


# --- tools -------------------------------------------------------------------------------------------------


def test_tools_that_change_a_checkpoint_want_to_be_told_that_no_run_goes_on(where: str) -> None:
    """In a store no lock excludes runs elsewhere, so tools need a confirmation; runs of this
    machine are still detected.
    """
    from substrait_agg.commit.log.locking import is_in_use, lock_for_run, lock_for_tool

    checkpoint = made(where)
    with pytest.raises(StateRefused) as refused:
        sa.open_state(where).vacuum()
    assert code(refused) == "CHECKPOINT_NOT_LOCKED"
    assert "--no-run" in refused.value.help
    assert not is_in_use(checkpoint.folder)
    with lock_for_run(checkpoint.folder):
        assert is_in_use(checkpoint.folder)
        with pytest.raises(StateRefused) as busy:
            lock_for_tool(checkpoint.folder, alone=True)
        assert code(busy) == "CHECKPOINT_BUSY"
    lock_for_tool(checkpoint.folder, alone=True).release()
    checkpoint.publish(snapshot(0))
    sweep(checkpoint, snapshot(0), Retention(1))
    assert sa.open_state(where).vacuum(no_run=True).state_from == 0
