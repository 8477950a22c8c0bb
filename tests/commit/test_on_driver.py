"""Tasks in this process: failed file operations, and when their files are durable."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.errors import RunFailed
from substrait_agg.files.filesystem import FileSystem
from substrait_agg.files.locations import Location
from substrait_agg.runtime.local_executor import LocalExecutor
from tests.crash.scenario import PlainSteps, World, run
from tests.crash.settings import chained, timed
from tests.filesystem import use_filesystem
from tests.local.run import run as local_run

pytestmark = pytest.mark.usefixtures("spark")

Opened = TypeVar("Opened")


class FullDisk(FileSystem):
    """A disk without space for state files."""

    def create(self, path: Any, *given: Any, **named: Any) -> Any:
        """Refuse to create a state file."""
        if "state" in str(path):
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().create(path, *given, **named)


class FlushedFiles(FileSystem):
    """Records which files are flushed when a snapshot gets its name.

    Attributes:
        flushed: paths of the flushed files and folders.
        at: per snapshot, the paths that were flushed before.
    """

    def __init__(self) -> None:
        self.flushed: set[str] = set()
        self.at: dict[int, set[str]] = {}

    @contextmanager
    def create(
        self,
        path: Location,
        opened: Callable[[Path], AbstractContextManager[Opened]],
        *,
        durable: bool = True,
    ) -> Iterator[Opened]:
        """Create a file."""
        with super().create(path, opened, durable=durable) as sink:
            yield sink
        if durable:
            self.flushed.add(str(path))

    def sync(self, path: Path) -> None:
        """Flush a file or a folder."""
        self.flushed.add(str(path))

    def link(self, draft: Path, target: Path) -> None:
        """Publish a document."""
        if target.parent.name == "snapshots":
            self.at[int(target.stem)] = {*self.flushed}
            assert str(draft) in self.flushed
        super().link(draft, target)


def test_a_full_disk_under_a_batch_in_this_process(tmp_path: Path) -> None:
    """A full disk fails the batch with a code that names the remedy, and nothing is committed."""
    with use_filesystem(FullDisk()), pytest.raises(RunFailed) as refused:
        run(World(tmp_path, delivers=False, executor=lambda: LocalExecutor(PlainSteps())))
    assert refused.value.code == "CHECKPOINT_NOT_WRITTEN"
    assert len(list((tmp_path / "checkpoint" / "snapshots").glob("*.json"))) == 1


@pytest.mark.parametrize("setting", [chained, timed])
def test_all_files_of_a_version_are_flushed_before_its_snapshot(
    tmp_path: Path, setting: Callable[[], Any]
) -> None:
    """Their folders too; with two operators, and with a second pass whose changes join the first ones."""
    disk = FlushedFiles()
    with use_filesystem(disk):
        run(World(tmp_path, setting(), executor=lambda: LocalExecutor(PlainSteps())))
    store = Checkpoint(tmp_path / "checkpoint")
    named: set[str] = set()
    for version, flushed in sorted(disk.at.items()):
        snapshot = store.snapshot(version)
        runs = {str(store.state.path(f.name)) for o in snapshot.operators for f in o.runs}
        changes = {str(store.changes.path(f.name)) for f in snapshot.change_files}
        new = (runs | changes) - named
        assert new <= flushed
        assert {str(Path(path).parent) for path in new} <= flushed
        named |= new
    assert len(disk.at) > 3
    assert any("changes" in path for path in named)


@pytest.mark.parametrize("query", ["SELECT k, count(*) FROM t GROUP BY k", "SELECT max(k) FROM t"])
def test_a_text_that_is_not_utf_8_fails_its_batch(tmp_path: Path, query: str) -> None:
    """Spark does not check the texts of Parquet files. No reader of the view could show them."""
    for number, text in enumerate((b"a", b"\xff\xfe")):
        texts = pa.array([text], pa.binary()).view(pa.string())
        pq.write_table(pa.table({"k": texts}), tmp_path / f"{number}.parquet")
    source = {"t": f"parquet:{tmp_path}?batch-files=1"}
    started = local_run(sa.sql(query, source), source, checkpoint=tmp_path / "c", outputs=["none"])
    with pytest.raises(RunFailed, match="not UTF-8") as failed:
        started.wait()
    assert failed.value.code == "TEXT_ENCODING_INVALID"
    assert sa.open_view(tmp_path / "c").version == 1
