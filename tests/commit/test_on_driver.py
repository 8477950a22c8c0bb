"""Failed file operations of a task are reported the same way in this process and in a worker."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from substrait_agg.errors import RunFailed
from substrait_agg.files.filesystem import FileSystem, using
from substrait_agg.spark.executors.local_executor import LocalExecutor
from tests.crash.scenario import PlainSteps, World, run


class FullDisk(FileSystem):
    """A disk without space for state files."""

    def create(self, path: Any, *given: Any, **named: Any) -> Any:
        """Refuse to create a state file."""
        if "state" in str(path):
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().create(path, *given, **named)


def test_a_full_disk_under_a_batch_in_this_process(tmp_path: Path) -> None:
    """A full disk fails the batch with a code that names the remedy, and nothing is committed."""
    with using(FullDisk()), pytest.raises(RunFailed) as refused:
        run(World(tmp_path, delivers=False, executor=lambda: LocalExecutor(PlainSteps())))
    assert refused.value.code == "CHECKPOINT_NOT_WRITTEN"
    assert len(list((tmp_path / "checkpoint" / "snapshots").glob("*.json"))) == 1
