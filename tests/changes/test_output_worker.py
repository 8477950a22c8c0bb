"""Delivery in the background: a slow, failing or hanging output does not delay others, and loses no version."""

from __future__ import annotations

import io
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from substrait_agg.changes import Delivery, Sink
from substrait_agg.changes.delivery import output_cursor
from substrait_agg.changes.delivery.output_worker import OutputWorkers, SharedView, check_free
from substrait_agg.changes.outputs import sinks
from substrait_agg.changes.records import Record
from substrait_agg.errors import StateRefused, UsageError
from substrait_agg.metrics import Progress
from substrait_agg.notices import Notice


@dataclass
class GrowingView:
    """A checkpoint whose versions are committed one by one; version `n` has one row, `n`. It keeps ten states."""

    newest: int = -1
    swept: set[int] = field(default_factory=set)

    @property
    def version(self) -> int:
        return self.newest

    def versions(self) -> list[int]:
        return list(range(self.newest + 1))

    def changes(self, since: int | None = None, until: int | None = None) -> Any:
        last = self.newest if until is None else until
        versions = list(range(0 if since is None else since + 1, last + 1))
        extra = {"__version": pa.array(versions), "__weight": pa.array([1] * len(versions))}
        return pa.table({"n": pa.array(versions, pa.int64()), **extra})

    def late(self, since: int | None = None, until: int | None = None) -> Any:
        """Versions 3, 7, 11 and so on leave out the row that is their number."""
        rows = self.changes(since, until)
        kept = rows.filter(pc.equal(pc.bit_wise_and(rows.column("n"), 3), 3))
        return {"s.t": kept} if kept.num_rows else {}

    def evolutions(self) -> list[Any]:
        return []

    def retractions(self, version: int) -> Any:
        raise NotImplementedError

    def to_arrow(self, version: int | None = None) -> Any:
        if version in self.swept:
            raise StateRefused("VERSION_EXPIRED", f"version {version} is no longer kept")
        return pa.table({"n": pa.array([self.newest if version is None else version])})


@dataclass(eq=False)
class RecordingSink(Sink):
    """Records the versions that it receives, after an action of the test."""

    takes_changes = True
    before: Callable[[int], None] = lambda _version: None
    taken: list[int] = field(default_factory=list)
    closed: bool = False

    def deliver(self, changes: Any, version: int) -> None:
        self.before(version)
        assert changes.column("n").to_pylist() == [version]
        self.taken.append(version)

    def close(self) -> None:
        self.closed = True


@dataclass(eq=False)
class RecordingScreen(Sink):
    """Records the versions that it shows."""

    takes_view = True
    live = True
    shows_every_version = True
    each_version: bool = True
    before: Callable[[int], None] = lambda _version: None
    shown: list[int] = field(default_factory=list)

    def finish(self, view: Any, version: int) -> None:
        self.before(version)
        assert view.column("n").to_pylist() == [version]
        self.shown.append(version)


@dataclass
class Rig:
    """The part of a run that delivers versions."""

    view: GrowingView
    output_workers: OutputWorkers
    fatal: list[BaseException] = field(default_factory=list)

    def commit(self, until: int) -> None:
        """Commit all versions up to one."""
        while self.view.newest < until:
            self.view.newest += 1
            self.output_workers.wake(Progress(version=self.view.newest))


@contextmanager
def rig(tmp_path: Path, *outputs: Any, show: bool = False, **options: Any) -> Iterator[Rig]:
    delivery = Delivery(outputs, checkpoint=tmp_path / "ckpt", **options)
    view = GrowingView()
    made = Rig(view, OutputWorkers([(delivery, lambda: view)], show=show))
    made.output_workers.begin(made.fatal.append)
    yield made
    made.output_workers.end(with_view=False, patience=0.0)


def until(what: Callable[[], Any], seconds: float = 20.0) -> None:
    """Wait for a condition that must become true."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_cursor, "FIRST_RETRY", 0.01)
    monkeypatch.setattr(output_cursor, "LONGEST_RETRY", 0.05)


def failing_at(version: int, times: int, error: Exception | None = None) -> Callable[[int], None]:
    """Fail the first attempts at a version."""
    left = [times]

    def before(now: int) -> None:
        if now == version and left[0]:
            left[0] -= 1
            raise error or OSError("no space")

    return before


def test_a_slow_output_holds_up_nobody(tmp_path: Path) -> None:
    """While one output is busy with its first version, all versions are committed and delivered to
    the other one.
    """
    gate = threading.Event()
    slow = RecordingSink(before=lambda _version: cast("None", gate.wait(20)))
    fast = RecordingSink()
    with rig(tmp_path, slow, fast) as run:
        run.commit(5)
        until(lambda: len(fast.taken) == 6)
        assert slow.taken == []
        behind, up_to_date = run.output_workers.progress(5)
        assert (behind.version, behind.lag, up_to_date.lag) == (-1, 6, 0)
        gate.set()
        run.output_workers.end(with_view=True)
        assert slow.taken == fast.taken == list(range(6))
        assert run.output_workers.list_undelivered() == []
    assert slow.closed
    assert fast.closed


def test_a_failing_output_is_tried_again_and_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A failing output is retried, reported once, gets every version exactly once and in order, and
    does not delay others.
    """
    flaky = RecordingSink(before=failing_at(2, 3))
    other = RecordingSink()
    with caplog.at_level(logging.WARNING, "substrait_agg"), rig(tmp_path, flaky, other) as run:
        run.commit(4)
        until(lambda: flaky.taken == list(range(5)))
        (progress, _) = run.output_workers.progress(4)
        assert (progress.failures, progress.delivered, progress.lag) == (3, 5, 0)
        run.output_workers.end(with_view=True)
        assert run.output_workers.list_undelivered() == []
    (told,) = [record.msg for record in caplog.records]
    assert isinstance(told, Notice)
    assert (told.code, told.message) == (
        "OUTPUT_FAILING",
        "output RecordingSink failed after version 1: OSError: no space",
    )


def test_it_is_tried_again_though_no_version_comes(tmp_path: Path) -> None:
    flaky = RecordingSink(before=failing_at(0, 2))
    with rig(tmp_path, flaky) as run:
        run.commit(0)
        until(lambda: flaky.taken == [0])


def test_the_end_is_the_last_chance_then_an_error_says_where_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_cursor, "FIRST_RETRY", 1000.0)
    monkeypatch.setattr(output_cursor, "LONGEST_RETRY", 1000.0)
    once = RecordingSink(before=failing_at(1, 1))
    always = RecordingSink(before=failing_at(3, 1000))
    with rig(tmp_path, once, always) as run:
        run.commit(4)
        until(lambda: all(p.failures for p in run.output_workers.progress(4)))
        run.output_workers.end(with_view=True)
        (error,) = run.output_workers.list_undelivered()
        assert once.taken == [0, 1, 2, 3, 4]
        assert always.taken == [0, 1, 2]
        assert error.code == "OUTPUT_NOT_DELIVERED"
        assert error.message == "output RecordingSink#2 has version 2 of 4: OSError: no space"
        assert isinstance(error.__cause__, OSError)


@pytest.mark.parametrize("refusal", [StateRefused, UsageError])
def test_what_trying_again_cannot_mend_is_not_tried_again(
    refusal: type[StateRefused | UsageError], tmp_path: Path
) -> None:
    error = refusal("OUTPUT_DAMAGED", "it was shortened")
    stuck = RecordingSink(before=failing_at(1, 1000, error))
    with rig(tmp_path, stuck) as run:
        run.commit(1)
        until(lambda: run.output_workers.progress(1)[0].failures)
        run.commit(3)
        time.sleep(0.1)
        run.output_workers.end(with_view=True)
        assert run.output_workers.progress(3)[0].failures == 1
        (told,) = run.output_workers.list_undelivered()
        assert (
            told.message
            == "output RecordingSink has version 0 of 3: [OUTPUT_DAMAGED]: it was shortened"
        )


def test_a_stop_does_not_wait_for_an_output_that_hangs(tmp_path: Path) -> None:
    """A run stops although an output hangs; no other run of the process may open the outputs until
    it returns, and the next run delivers the rest.
    """
    gate = threading.Event()
    ended: list[bool] = []
    hanging = RecordingSink(before=lambda _version: ended.append(gate.wait(60)))
    with rig(tmp_path, hanging) as run:
        run.commit(3)
        run.output_workers.end(with_view=True, patience=0.2)
        assert not ended, "the stop waited for the output"
        (told,) = run.output_workers.list_undelivered()
        assert told.message == "output RecordingSink has no version yet: it is still writing"
        with pytest.raises(UsageError) as refused:
            check_free(tmp_path / "ckpt")
        assert refused.value.code == "OUTPUT_BUSY"
        gate.set()
        until(lambda: hanging.closed)
        assert hanging.taken == [0], "it ends with the version that it was at"
    until(lambda: not any("RecordingSink" in thread.name for thread in threading.enumerate()))
    check_free(tmp_path / "ckpt")


def test_an_output_goes_on_where_an_earlier_run_left_it(tmp_path: Path) -> None:
    """After a failure and another run, a file output contains every version exactly once."""
    location = tmp_path / "out.jsonl"
    with rig(tmp_path, f"stream-json={location}") as run:
        run.commit(2)
        run.output_workers.end(with_view=True)
    with rig(tmp_path, f"stream-json={location}", since=2) as run:
        run.view.newest = 2
        run.commit(6)
        run.output_workers.end(with_view=True)
    lines = [json.loads(line) for line in location.read_text().splitlines()]
    assert [line["version"] for line in lines] == list(range(7))


@pytest.mark.parametrize("moment", ["write", "sync", "record"])
def test_a_file_has_a_version_once_though_its_first_attempts_failed(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a failed attempt wrote to a file is cut off before the next attempt."""
    location = tmp_path / "out.jsonl"
    left = [3]

    def failing(call: Callable[..., Any]) -> Callable[..., Any]:
        def fails(*arguments: Any) -> Any:
            if left[0]:
                left[0] -= 1
                raise OSError("no space")
            return call(*arguments)

        return fails

    encode = sinks.CHANGE_ENCODERS["stream-json"]

    def half(changes: Any) -> Iterator[str]:
        yield "x" * 3 * sinks.PIECE if left[0] else ""
        failing(lambda: None)()
        yield from encode(changes)

    with rig(tmp_path, f"stream-json={location}") as run:
        run.commit(1)
        until(lambda: not run.output_workers.progress(1)[0].lag)
        (post,) = run.output_workers._deliveries[0].cursors
        if moment == "write":
            monkeypatch.setattr(post.sink, "_encode", half)
        elif moment == "sync":
            monkeypatch.setattr(os, "fsync", failing(os.fsync))
        else:
            monkeypatch.setattr(Record, "write", failing(Record.write))
        run.commit(4)
        until(lambda: not run.output_workers.progress(4)[0].lag)
        assert run.output_workers.progress(4)[0].failures == 3
        run.output_workers.end(with_view=True)
    lines = [json.loads(line) for line in location.read_text().splitlines()]
    assert [line["version"] for line in lines] == list(range(5))


def test_a_fast_display_shows_every_version_and_a_slow_one_the_newest(tmp_path: Path) -> None:
    gate = threading.Event()
    fast, latest = (
        RecordingScreen(),
        RecordingScreen(each_version=False, before=lambda _v: cast("None", gate.wait(20))),
    )
    with rig(tmp_path, fast, latest) as run:
        for version in range(4):
            run.commit(version)
            until(lambda version=version: fast.shown == list(range(version + 1)))  # type: ignore[misc]
        gate.set()
        run.commit(30)
        run.output_workers.end(with_view=True)
    assert latest.shown[0] == 0
    assert latest.shown[-1] == fast.shown[-1] == 30
    assert len(latest.shown) < 10


def test_a_display_that_is_far_behind_is_not_stopped_by_states_that_are_gone(
    tmp_path: Path,
) -> None:
    gate = threading.Event()
    behind = RecordingScreen(before=lambda _version: cast("None", gate.wait(20)))
    with rig(tmp_path, behind) as run:
        run.commit(0)
        until(lambda: run.output_workers.progress(0)[0].delivered)
        run.view.swept = {1, 2}
        run.commit(3)
        gate.set()
        run.output_workers.end(with_view=True)
        assert run.output_workers.list_undelivered() == []
    assert behind.shown == [0, 3, 3]


def test_a_view_that_cannot_be_written_is_told_as_such(tmp_path: Path) -> None:
    broken = RecordingScreen(before=failing_at(0, 1000))
    broken.live = broken.shows_every_version = False
    with rig(tmp_path, broken) as run:
        run.commit(0)
        run.output_workers.end(with_view=True)
        (told,) = run.output_workers.list_undelivered()
    assert (
        told.message
        == "output RecordingScreen could not write the view of version 0: OSError: no space"
    )


def test_a_display_that_fails_is_behind(tmp_path: Path) -> None:
    """The lag of a failing display is counted from the version that it shows, because it has
    nothing to deliver.
    """
    broken = RecordingScreen(before=failing_at(2, 1000))
    with rig(tmp_path, broken) as run:
        run.commit(1)
        until(lambda: broken.shown == [0, 1])
        run.commit(3)
        until(lambda: run.output_workers.progress(3)[0].failures)
        (progress,) = run.output_workers.progress(3)
        assert (progress.version, progress.lag) == (1, 2)


def test_a_view_file_of_an_endless_run_ends_with_the_newest(tmp_path: Path) -> None:
    with rig(tmp_path, f"view-parquet={tmp_path / 'v'}", show=True) as run:
        run.commit(0)
        until((tmp_path / "v" / "view.parquet").exists)
        run.commit(20)
        run.output_workers.end(with_view=True)
    assert pq.read_table(tmp_path / "v").column("n").to_pylist() == [20]


def test_late_rows_go_to_a_folder_per_table(tmp_path: Path) -> None:
    """Each version with late rows writes one file per table, and a continued run writes none of
    them again.
    """
    folder = tmp_path / "late"
    for newest in (4, 8):
        with rig(tmp_path, f"late-parquet={folder}") as run:
            run.commit(newest)
            run.output_workers.end(with_view=True)
    files = sorted(folder.rglob("*.parquet"))
    assert [f.relative_to(folder).as_posix() for f in files] == [
        f"s.t/late-{version:020d}.parquet" for version in (3, 7)
    ]
    assert [pq.read_table(f).column("n").to_pylist() for f in files] == [[3], [7]]


def test_outputs_on_one_stream_do_not_mix(tmp_path: Path) -> None:
    """Outputs on one stream share a thread, and the view at the end comes after all changes."""
    stdout = io.StringIO()
    with rig(tmp_path, "batch-csv", "stream-json", stdout=stdout) as run:
        run.commit(3)
        run.output_workers.end(with_view=True)
        assert len({id(c.thread) for c in run.output_workers._workers}) == 1
    lines = stdout.getvalue().splitlines()
    assert [line for line in lines if not line.startswith("{")] == ["n", "3"]
    assert len(lines) == 6


def test_a_closed_pipe_ends_the_run(tmp_path: Path) -> None:
    """After `| head` no reader is left: the command ends, and this is not a failure to retry."""
    with rig(tmp_path, RecordingSink(before=failing_at(1, 1, BrokenPipeError()))) as run:
        run.commit(2)
        until(lambda: run.fatal)
        run.output_workers.end(with_view=True)
        assert isinstance(run.output_workers.broken, BrokenPipeError)


def test_outputs_at_the_same_version_read_it_once() -> None:
    """Outputs at the same version share the data, which is released after its last use."""
    reads: list[int | None] = []

    @dataclass
    class Counted(GrowingView):
        def changes(self, since: int | None = None, until: int | None = None) -> Any:
            reads.append(until)
            return super().changes(since, until)

    view = SharedView(lambda: Counted(newest=3))
    held = view.changes(since=1, until=2)
    assert view.changes(since=1, until=2) is held
    assert reads == [2]
    del held
    view.changes(since=1, until=2)
    assert reads == [2, 2]


def test_on_changes_is_called_by_one_thread_in_order(tmp_path: Path) -> None:
    calls: list[tuple[int, str]] = []

    def note(_changes: Any, version: int) -> None:
        calls.append((version, threading.current_thread().name))

    with rig(tmp_path, on_changes=note) as run:
        run.commit(9)
        run.output_workers.end(with_view=True)
    assert [version for version, _ in calls] == list(range(10))
    assert {name for _, name in calls} == {"output on_changes"}


def test_a_run_that_never_committed_closes_its_outputs(tmp_path: Path) -> None:
    noted = RecordingSink()
    with rig(tmp_path, noted) as run:
        run.output_workers.end(with_view=False, patience=1.0)
    assert noted.closed
