"""A whole run on the local executor, with real batches, commits, sweeps and outputs.

What is run is a `Setting`. Every batch reads one file, and quick runs write lists of the names of files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

import substrait_agg as sa
from substrait_agg.bind.bound import Column, Conversion
from substrait_agg.changes import Delivery, check_outputs
from substrait_agg.changes.delivery.evolved import check_outputs_go_on
from substrait_agg.changes.outputs.sinks import Sink
from substrait_agg.changes.outputs.view_outputs import outputs_by_view
from substrait_agg.commit.documents.positions import FilesPosition, Positions, ReadFile
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.read_files import read_files, with_files
from substrait_agg.commit.log.retention import Retention
from substrait_agg.commit.view.view import View
from substrait_agg.errors import RunFailed, SubstraitAggError
from substrait_agg.evaluation.constants import arrow_type
from substrait_agg.files.filesystem import FileSystem
from substrait_agg.files.locations import Location, Remote, location_of
from substrait_agg.flow.graph.graph import Branch, ProjectStep
from substrait_agg.flow.graph.nodes import Flow, Node
from substrait_agg.operator.common.names import VERSION, WEIGHT
from substrait_agg.recompute.evolve import evolutions, evolve_to
from substrait_agg.runtime.batch.microbatch import MicroBatches
from substrait_agg.runtime.batch.settings import BatchSettings
from substrait_agg.runtime.executor import BranchInput, Executor
from substrait_agg.runtime.job import JobResult, OperatorJob
from substrait_agg.runtime.left_out import Lateness
from substrait_agg.runtime.local_executor import LocalExecutor
from substrait_agg.spark.query.document import plan_document
from tests.crash.settings import BATCHES, Setting, chained

TABLE = "t"
FIRST = 2
"""Batches after which a run ends and another one goes on."""
PARTITIONS = 2
KEPT = 2
"""Versions that are kept: few, so that sweeps have something to do."""

Call = tuple[int, list[dict[str, Any]]]
"""What a callback was given: a version and its changes."""


# --- what Spark does in a run --------------------------------------------------------------------


@dataclass
class _BranchRows:
    """The changes of another operator as input rows; none of them is late."""

    table: str
    prepared: pa.Table

    def count(self) -> int:
        return 0

    def rows(self) -> pa.Table:
        raise AssertionError("no row is late")


class PlainSteps:
    """Linear steps of at most one projection to columns and conversions of them, without Spark."""

    def changes(
        self,
        _below: Node,
        node: Node,
        branch: Branch,
        paths: Sequence[Location],
        _lateness: Lateness,
    ) -> _BranchRows:
        """Read change files as input rows of an operator."""
        # On Spark it is the workers that read, with a disk of their own.
        table = pa.concat_tables([_read(path) for path in paths])
        chosen = [table.column(f"c{i}") for i in range(len(branch.origin.types))]
        for step in branch.steps:
            assert isinstance(step, ProjectStep)
            chosen = [_at(chosen, e) for e in step.expressions]
        columns = {f"k{i}": _at(chosen, e) for i, e in enumerate(node.keys)}
        columns |= {f"x{i}": _at(chosen, value) for i, (value, _) in enumerate(node.arguments)}
        return _BranchRows("", pa.table({**columns, WEIGHT: table.column(WEIGHT)}))


class WorkerErrors(LocalExecutor):
    """A local executor that reports system errors of tasks with rows as Spark reports those of its workers."""

    def run(
        self,
        job: OperatorJob,
        inputs: Sequence[pa.Table],
        changes: Sequence[BranchInput[pa.Table]] = (),
    ) -> JobResult:
        """Run an operator."""
        try:
            return super().run(job, inputs, changes)
        except Exception as error:
            cause = error.__cause__ if isinstance(error, SubstraitAggError) else error
            if not (inputs or changes) or cause is None or isinstance(cause, SubstraitAggError):
                raise
            raise RunFailed("BATCH_FAILED", str(cause)) from cause


def local_executor() -> LocalExecutor:
    """Return an executor that runs batches in this process."""
    return WorkerErrors(PlainSteps())


def _read(path: Location) -> pa.Table:
    return FileSystem().map(path, pq.read_table)


def _at(columns: Sequence[pa.ChunkedArray], expression: Any) -> pa.ChunkedArray:
    if isinstance(expression, Conversion):
        return _at(columns, expression.input).cast(arrow_type(expression.type))
    assert isinstance(expression, Column)
    return columns[expression.ordinal]


@contextmanager
def quick_batches() -> Iterator[None]:
    """Merge runs and lists of files in checkpoints of a few versions, and do not wait for disks."""
    with ExitStack() as stack:
        # The few versions have merges in them.
        stack.enter_context(patch("substrait_agg.state.merging.SMALL_WIDTH", 4))
        # Every second version writes a list.
        stack.enter_context(patch("substrait_agg.commit.log.read_files.MOST_RECENT", 1))
        # What a loss of power would lose is not what is looked at, and waiting for disks takes most of the time.
        stack.enter_context(patch("os.fsync", lambda _descriptor: None))
        yield


# --- a run ---------------------------------------------------------------------------------------


@dataclass
class World:
    """The shared state of runs: a folder, and the calls of a callback.

    Attributes:
        folder: of the checkpoint and of the outputs.
        setting: what is run.
        calls: per driver what its callback was given: version and changes.
        recorded_calls: called before and after the checkpoint goes on with another plan.
        bucket: URL of an object store that has the checkpoint instead of the folder, or empty.
        delivers: whether runs have outputs.
        executor: makes what computes the batches of a run.
    """

    folder: Path
    setting: Setting = field(default_factory=chained)
    recorded_calls: Callable[[], None] = lambda: None
    calls: dict[str, list[Call]] = field(default_factory=dict)
    bucket: str = ""
    delivers: bool = True
    executor: Callable[[], Executor[pa.Table]] = local_executor

    @property
    def checkpoint(self) -> Location:
        """The folder of the checkpoint."""
        return (location_of(self.bucket) if self.bucket else self.folder) / "checkpoint"


def run(world: World, until: int = BATCHES, name: str = "a", pause: Any = None) -> None:
    """One run: begins or goes on, and ends after batch `until` - 1; the last one delivers the view.

    Where the setting has another plan, that is a run with the first plan, and another one with the second.
    """
    flow, other = world.setting.flow, world.setting.other
    if other is None:
        _run(world, flow, until, name, pause)
        return
    made = len(list((Path(str(world.checkpoint)) / "snapshots").glob("*.json")))
    if made <= FIRST:
        _run(world, flow, min(until, FIRST), name, pause)
    if until > FIRST or made > FIRST + 1:
        _run(world, other, until, name, pause)


def _run(world: World, plan: Flow, until: int, name: str, pause: Any) -> None:
    """What `substrait_agg.spark.query.start` does, in the same order."""
    outputs = [
        *([] if world.setting.other else [f"changes-parquet={world.folder / 'out'}"]),
        f"stream-json={world.folder / 'out.jsonl'}",
        f"view-parquet={world.folder / 'view'}",
    ]
    outputs = outputs if world.delivers else []
    store = Checkpoint(world.checkpoint)
    document = plan_document(plan, world.setting.events)
    found = store.check(document, evolve=world.setting.other is not None)
    *_, newest_view = outputs_by_view(
        [(view, output) for output in outputs] if (view := plan.views[-1].name) else outputs,
        None,
        [v.name for v in plan.views],
    )
    specs = newest_view.outputs
    check_outputs(specs, world.checkpoint)
    known = evolutions(store, document, found, newest_view.view)
    check_outputs_go_on(specs, store.folder, known, _no_writer, newest_view.view)
    store.create(document, evolve=world.setting.other is not None)
    store.claim()
    newest = store.versions()
    if found is not None:
        world.recorded_calls()
        evolve_to(document, world.executor(), plan, store, PARTITIONS)
        world.recorded_calls()
    calls = world.calls.setdefault(name, [])

    def called(changes: pa.Table, version: int) -> None:
        calls.append((version, changes.to_pylist()))

    delivery = Delivery(
        specs,
        checkpoint=world.checkpoint,
        since=newest[-1] if newest else None,
        on_changes=called,
        stdout=StringIO(),
        fence=store.fence,
        view=newest_view.view,
    )
    try:
        _batches(world, plan, store, delivery, until, pause)
    finally:
        delivery.close()


def _no_writer(_target: object) -> Sink:
    raise AssertionError("Spark writes nothing here")


def _batches(
    world: World, plan: Flow, store: Checkpoint, delivery: Delivery, until: int, pause: Any
) -> None:
    instants = iter(range(1, 1000))
    settings = BatchSettings(
        plan,
        store,
        world.executor(),
        PARTITIONS,
        world.setting.policy,
        world.setting.events,
        clock=lambda: next(instants),
        retention=Retention(KEPT),
    )
    batches = MicroBatches(settings, lambda _: None)
    if batches.last is None:
        first = world.setting.first
        batches.run({} if first is None else {0: first})
    deliver(store, delivery)
    with _conflicts(batches):
        read = len(list(read_files(store.state, _position(batches))))
    for batch in range(read, until):
        with _conflicts(batches):
            added = [ReadFile(f"file:///in/{batch}.parquet", batch)]
            position = with_files(store.state, _position(batches), added, 0, batches.next_version)
        batches.run(
            {0: world.setting.batches[batch]},
            world.setting.times(batch),
            positions=Positions({TABLE: position}),
        )
        deliver(store, delivery)
        if pause is not None:
            pause(batch)
    if until == BATCHES:
        batches.end()
        deliver(store, delivery, last=True)


def _position(batches: MicroBatches[pa.Table]) -> FilesPosition:
    return batches.positions.files.get(TABLE, FilesPosition())


@contextmanager
def _conflicts(batches: MicroBatches[pa.Table]) -> Iterator[None]:
    """Raise a conflict behind an error, as a run does."""
    try:
        yield
    except Exception as error:
        conflict = batches.conflict(error)
        if conflict is None:
            raise
        raise conflict from error


def deliver(store: Checkpoint, delivery: Delivery, *, last: bool = False) -> None:
    """Bring every output up to date; one that fails is tried again, as in a run."""
    for post in delivery.cursors:
        view = View(store, delivery.context.view)
        work = partial(post.finish, view) if last else partial(post.catch_up, view, show=True)
        for _ in range(2):
            post.attempt(work)
            if post.error is None:
                break
        if post.error is not None:
            raise RunFailed("OUTPUT_NOT_DELIVERED", str(post.error)) from post.error


# --- what has to come out ------------------------------------------------------------------------


@dataclass(frozen=True)
class Ending:
    """The results of all runs, as a reader sees them."""

    view: list[dict[str, Any]]
    changes: list[list[dict[str, Any]]]
    retractions: dict[int, list[dict[str, Any]]]
    lines: str
    files: dict[str, list[dict[str, Any]]]
    shown: list[dict[str, Any]]
    others: list[tuple[list[dict[str, Any]], list[list[dict[str, Any]]]]]


def ending(world: World) -> Ending:
    """Read the result of all runs."""
    views = [view.name or None for view in world.setting.flow.views]
    *others, view = (sa.open_view(str(world.checkpoint), name) for name in views)
    versions = view.versions()
    assert versions == list(range(len(versions)))
    begun = {evolved.version for evolved in view.evolutions()}
    changes = _changes(view, versions, begun)
    files = {p.name: _sorted(pq.read_table(p)) for p in sorted((world.folder / "out").glob("*"))}
    lines = (world.folder / "out.jsonl").read_text()
    shown = _sorted(pq.read_table(world.folder / "view" / "view.parquet"))
    back = {version: _sorted(view.retractions(version)) for version in begun}
    more = [(_sorted(other.to_arrow()), _changes(other, versions, ())) for other in others]
    return Ending(_sorted(view.to_arrow()), changes, back, lines, files, shown, more)


def _changes(
    view: View, versions: Sequence[int], begun: Collection[int]
) -> list[list[dict[str, Any]]]:
    """The changes of every version, read once per plan; `begun` are the versions with another plan."""
    changes: list[list[dict[str, Any]]] = [[] for _ in versions]
    for last in [*(version - 1 for version in sorted(begun)), versions[-1]]:
        for row in _sorted(view.changes(None, last)):
            changes[row[VERSION]].append(row)
    return changes


def _in_order(row: dict[str, Any]) -> str:
    return str(row)


def _sorted(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=_in_order)


def check_calls(world: World, wanted: Ending, *, one_by_one: bool) -> None:
    """Every version that changed anything came at least once, as it is, in order.

    Args:
        world: the runs.
        wanted: how it should have ended.
        one_by_one: whether runs followed each other, so that none ever went back behind what was noted.
    """
    versions = [v for v, rows in enumerate(wanted.changes) if rows]
    given = {v for calls in world.calls.values() for v, _ in calls}
    assert given == set(versions), "a version was not delivered"
    for calls in world.calls.values():
        order = [v for v, _ in calls]
        assert order == sorted(order), f"out of order: {order}"
        for version, rows in calls:
            got = sorted(rows, key=_in_order)
            assert got in (wanted.changes[version], wanted.retractions.get(version))
    if one_by_one:
        order = [v for calls in world.calls.values() for v, _ in calls]
        assert order == sorted(order), f"out of order: {order}"


def check_left(world: World, *, slept: bool = False) -> None:
    """After one more start nothing is left of failed attempts.

    Args:
        world: the runs.
        slept: whether a run slept for so many versions that what it still wrote is not looked for any more.
    """
    run(world, 0, "the cleaner")
    store = Checkpoint(world.checkpoint)
    kept = [store.snapshot(v) for v in store.versions()]
    named = {file.name for s in kept[-KEPT:] for file in s.state_files}
    assert set(store.state.names()) == named, "state that no version names"
    changes = {c.name for s in kept for c in (*s.view_changes, *s.view_retractions)}
    assert slept or set(store.changes.names()) == changes, "change files that no version names"
    hidden = [
        p for p in world.folder.rglob("*") if p.name.startswith("draft-") or p.suffix == ".tmp"
    ]
    assert not hidden, hidden
    if isinstance(store.folder, Remote):
        left = store.root.names() + store.snapshots.names()
        assert not [name for name in left if name.startswith("draft-")], left
        verdict = sa.open_state(str(store.folder)).verify()
        assert not [f for f in verdict.findings if "/" in f.path], verdict.findings
