"""Checkpoints are private to their owner with any umask, and nothing is written through a link."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from substrait_agg.commit.documents.files import FolderFiles, OutcomeUnknown
from tests.commit.full_checkpoint import made


@contextmanager
def masked(mask: int) -> Iterator[None]:
    """The process with another umask."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_all_that_driver_and_tasks_write_is_private(tmp_path: Path, mask: int) -> None:
    """Documents, runs, changes, late rows, records of outputs, and their folders."""
    (tmp_path / "in").mkdir()
    with masked(mask):
        folder = made(tmp_path / "in" / "checkpoint").folder
    paths = [folder, *folder.rglob("*")]
    assert len(paths) > 50
    for path in paths:
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.lstat().st_mode) == wanted, path.relative_to(folder)


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    """A link to a file of the user, at the name of the next file, is not followed."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    files = FolderFiles(tmp_path / "folder")
    files.make()
    (tmp_path / "folder" / "run.arrow").symlink_to(victim)
    with pytest.raises(FileExistsError), files.create("run.arrow"):
        pass
    with pytest.raises(OutcomeUnknown):
        files.publish("run.arrow", b"theirs")
    assert victim.read_bytes() == b"mine"
