"""The lease of a run: another machine is refused while the run lives, and goes on after it was killed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.log import lease, locking
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.lease import LEASE, lease_for_run
from substrait_agg.errors import StateRefused

ID = "1" * 8


@pytest.fixture
def files(tmp_path: Path) -> FolderFiles:
    return FolderFiles(tmp_path)


@contextmanager
def host(name: str, *, beat: float = 0.01, patience: float = 60.0) -> Iterator[None]:
    """Be another machine, which beats and waits as long as given."""
    with (
        patch.object(socket, "gethostname", lambda: name),
        patch.object(lease, "BEAT_SECONDS", beat),
        patch.object(lease, "PATIENCE_SECONDS", patience),
        patch.object(lease, "_LOOK_SECONDS", 0.01),
    ):
        yield


def test_a_run_on_another_machine_is_refused_while_the_first_one_lives(files: FolderFiles) -> None:
    with host("one"), lease_for_run(files, ID):
        before = files.names()
        with host("two"), pytest.raises(StateRefused, match="on one") as refused:
            lease_for_run(files, ID).__enter__()
        assert refused.value.code == "CHECKPOINT_BUSY"
        assert files.names() == before
    assert LEASE not in files.names()
    with host("two"), lease_for_run(files, ID):
        assert LEASE in files.names()


def test_a_run_that_was_killed_is_waited_for(files: FolderFiles) -> None:
    """Its lease does not change; on its own machine nobody waits, as its lock is free."""
    with host("one", beat=3600.0), lease_for_run(files, ID):
        left = files.read(LEASE)
    files.replace(LEASE, left)
    with host("two", patience=0.05), lease_for_run(files, ID):
        assert files.read(LEASE) != left
    files.replace(LEASE, left)
    with host("one", patience=3600.0), lease_for_run(files, ID):
        assert files.read(LEASE) != left


def test_a_run_that_ends_meanwhile(files: FolderFiles) -> None:
    with host("one", beat=3600.0):
        first = lease_for_run(files, ID)
        first.__enter__()
    with host("two", patience=3600.0):
        ending = threading.Timer(0.05, first.__exit__, (None, None, None))
        ending.start()
        with lease_for_run(files, ID):
            ending.join()


def test_a_run_that_was_suspended_leaves_the_lease_of_the_next_one(files: FolderFiles) -> None:
    with host("one", beat=3600.0):
        first = lease_for_run(files, ID)
        first.__enter__()
    with host("two", beat=3600.0, patience=0.05), lease_for_run(files, ID):
        own = files.read(LEASE)
        first.__exit__(None, None, None)
        assert files.read(LEASE) == own


def test_a_lease_that_cannot_be_read_is_waited_for(files: FolderFiles) -> None:
    files.replace(LEASE, b"{")
    with host("two", patience=0.05), lease_for_run(files, ID):
        assert files.read(LEASE) != b"{"


def test_a_folder_without_locks_has_a_lease(tmp_path: Path) -> None:
    """A lock of the operating system reaches all machines of a file system; there is no lease then."""
    checkpoint = Checkpoint(tmp_path)
    checkpoint._owners.make()
    vars(checkpoint)["identity"] = ID
    with checkpoint.hold():
        assert LEASE not in checkpoint._owners.names()
    with patch.object(locking, "_flock", side_effect=OSError(95, "not supported")):
        with checkpoint.hold():
            assert LEASE in checkpoint._owners.names()
        with host("two"), checkpoint.hold():
            pass
