"""Run plans on the local executor, with the options of `substrait_agg.run`.

Sources are SPECs of folders of Parquet files: a batch is the next file of every table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import substrait_agg as sa
from substrait_agg.api.runs import bound_to_run
from substrait_agg.bind.plan.views import bound_views, one_view
from substrait_agg.changes import Delivery
from substrait_agg.commit.documents.positions import FilesPosition, Positions, ReadFile
from substrait_agg.commit.documents.snapshot import Snapshot
from substrait_agg.commit.log.read_files import read_files, with_files
from substrait_agg.evaluation import hashes
from substrait_agg.flow.graph.graph import RowsOrigin, TableOrigin
from substrait_agg.metrics import Progress
from substrait_agg.operator.common.completeness import instants
from substrait_agg.operator.common.names import TIME, WEIGHT
from substrait_agg.operator.common.watermarks import EventTimeStats
from substrait_agg.plan.arrow import by_position, to_arrow
from substrait_agg.recompute.evolve import evolve_to
from substrait_agg.recompute.whole_input import RowsByOperator, WholeInput, input_size
from substrait_agg.run_options import RunOptions
from substrait_agg.runtime.batch.microbatch import MicroBatches
from substrait_agg.runtime.batch.settings import BatchSettings
from substrait_agg.runtime.event_sources import EventSource
from substrait_agg.runtime.event_state import BatchTimes
from substrait_agg.runtime.join_watch import JoinWatch
from substrait_agg.runtime.left_out import Lateness
from substrait_agg.runtime.local_executor import Hashes, LocalExecutor, key_hashes
from substrait_agg.spark.query.handle import CheckedRun
from substrait_agg.spark.query.start import checked_run
from substrait_agg.spark.query.static_tables import changed_tables, stored_inputs, with_contents
from substrait_agg.spark.refresh.files_so_far import FilesSoFar
from substrait_agg.spark.sources.open import is_static
from substrait_agg.spark.sources.specs import OPERATIONS, SourceSpec, as_spec
from substrait_agg.spark.sources.upserts import PREIMAGES
from tests.crash.scenario import deliver
from tests.local.evaluation import evaluate
from tests.local.steps import ArrowBranch, ArrowSteps, branch_rows

_NEVER = Lateness()


def spark_hashes(keys: Sequence[pa.Array]) -> Hashes:
    """Return the hashes that Spark has of rows of keys, where the driver can compute them.

    So Spark can compute the state of a run again.
    """
    columns = list(map(hashes.normalise, keys))
    if all(hashes.can_hash(column.type) for column in columns):
        return hashes.key_hashes(columns, len(columns[0]))
    return key_hashes(keys)


@contextmanager
def quick_disk() -> Iterator[None]:
    """Do not wait for disks: no test of these runs loses power."""
    with patch("os.fsync", lambda _descriptor: None):
        yield


class LocalRun:
    """A run on the local executor. Options are those of `substrait_agg.run`.

    Args:
        plan: the plan, or several plans by the names of their views.
        sources: per table a SPEC, or a table that is read once.
        clock: returns the current instant, in microseconds since 1970.
        options: further options; `spark` is left out.
    """

    def __init__(
        self,
        plan: Any,
        sources: Mapping[str, Any],
        clock: Callable[[], int] | None = None,
        **options: Any,
    ) -> None:
        options.pop("spark", None)
        given = RunOptions(**options).with_declared(plan)
        if isinstance(plan, sa.Plan) and len(plan.views()) > 1:
            plan = plan.views()
        views = (
            bound_views(
                {name: bound_to_run(_loaded(one), sources, given) for name, one in plan.items()},
                getattr(plan, "temporary", ()),
                sources,
            )
            if isinstance(plan, Mapping)
            else one_view(bound_to_run(_loaded(plan), sources, given))
        )
        checked = checked_run(views, dict(sources), given)
        store, flow = checked.store, checked.flow
        places = with_contents(checked.source_locations, checked.sources, flow, store, None)
        changed = changed_tables(
            store, places, flow, accept=given.accept_source_change, evolves=checked.evolves
        )
        self._checked = replace(checked, source_locations=places, changed=changed)
        self._clock = clock or (lambda: time.time_ns() // 1000)
        self._batches, self._deliveries = self._begin()

    @quick_disk()
    def _begin(self) -> tuple[MicroBatches[pa.Table], list[Delivery]]:
        checked, options = self._checked, self._checked.options
        store = checked.store
        tables = _Tables(self, FilesSoFar(store, checked.flow, checked.sources))
        store.create(checked.document, evolve=options.evolve, unreadable=tables.unreadable)
        store.claim()
        partitions = options.partitions or 2
        versions = store.versions()
        if checked.evolves:
            evolve_to(
                checked.document, LocalExecutor(ArrowSteps(), spark_hashes), checked.flow, store, partitions,
                inputs=checked.source_locations, retention=options.retention, tables=tables,
            )  # fmt: skip
        deliveries = [
            Delivery(
                view.outputs, checkpoint=store.folder, since=versions[-1] if versions else None,
                on_changes=view.on_changes, fence=store.fence, view=view.view,
            )
            for view in checked.outputs
        ]  # fmt: skip
        settings = BatchSettings(
            checked.flow, store, LocalExecutor(ArrowSteps(), spark_hashes), partitions, options.emit_policy,
            checked.events, clock=self._clock, retention=options.retention, refresh=checked.refresh,
            joins=JoinWatch(options.most_join_rows), checksum=options.checksum,
        )  # fmt: skip
        batches = MicroBatches(settings, self._committed)
        batches.inputs = checked.source_locations
        if batches.last is None:
            first = [(n, rows) for n, _, rows in _first_rows(checked)]
            batches.run(_by_operator(first))
        elif checked.changed:
            batches.run(_difference(checked, batches.last))
        return batches, deliveries

    @property
    def progress(self) -> Progress:
        """Return the progress of the newest version."""
        return self._batches.progress

    def _deliver(self, *, last: bool = False) -> None:
        for delivery in self._deliveries:
            deliver(self._checked.store, delivery, last=last)

    def _close(self) -> None:
        for delivery in self._deliveries:
            delivery.close()

    def _committed(self, progress: Progress) -> None:
        if self._checked.options.progress is not None:
            self._checked.options.progress(progress)

    @quick_disk()
    def batch(self) -> bool:
        """Compute the next batch; False if there are no more files."""
        before = _counts(self._batches.positions)
        tables, counts = _read(self._checked, before)
        if not tables:
            return False
        positions = self._positions(before, counts)
        instant = self._clock()
        lateness = self._batches.event_state.lateness(self._checked.flow)
        parts = list(self._branches(tables, lateness))
        nodes = dict.fromkeys(node for node, _ in parts)
        rows = {n: _together(p.prepared for node, p in parts if node == n) for n in nodes}
        stats = tuple(_stats(event, tables) for event in self._checked.events.sources)
        times = BatchTimes(instant, lambda: stats, tuple(part for _, part in parts))
        whole = self._whole(before, counts, positions)
        self._batches.run(rows, times, whole=whole, positions=positions)
        self._deliver()
        return True

    def _positions(self, before: Mapping[str, int], counts: Mapping[str, int]) -> Positions:
        """Return the positions after the first files of every table."""
        store, files = self._checked.store, dict(self._batches.positions.files)
        for ordinal, (table, paths) in enumerate(_files(self._checked, counts).items()):
            name = ".".join(table)
            added = map(_read_file, paths[before.get(name, 0) :])
            position = files.get(name, FilesPosition())
            version = self._batches.next_version
            files[name] = with_files(store.state, position, added, ordinal, version)
        return Positions(files)

    def _whole(
        self, before: Mapping[str, int], counts: Mapping[str, int], positions: Positions
    ) -> WholeInput[pa.Table]:
        """Return all rows up to and including a batch."""
        earlier, files = (
            list(map(_read_file, chain(*_files(self._checked, each).values())))
            for each in (before, counts)
        )
        size, lost = input_size(
            {f.uri for f in files} - {f.uri for f in earlier}, self._read_again(positions)
        )
        return WholeInput(size, lost, partial(self.rows_of_files, counts))

    def _read_again(self, positions: Positions) -> Iterator[ReadFile]:
        """Yield all files that have been read, with the times that they had."""
        for position in positions.files.values():
            yield from read_files(self._checked.store.state, position)

    def rows_of_files(
        self, counts: Mapping[str, int], operators: Collection[int]
    ) -> RowsByOperator[pa.Table]:
        """Return the rows that operators have from the first files of every table."""
        tables = {
            table: _table_of(self._checked, table, paths)
            for table, paths in _files(self._checked, counts).items()
            if paths
        }
        nothing = [Lateness()] * len(self._checked.flow.operators)
        streamed = ((n, branch.prepared) for n, branch in self._branches(tables, nothing))
        first = ((n, rows) for n, _, rows in _first_rows(self._checked))
        parts = [part for part in (*streamed, *first) if part[0] in operators]
        return _by_operator(parts), {}

    def counts_so_far(self) -> dict[str, int]:
        """Return how many files of each table the newest version has read."""
        last = self._checked.store.newest_snapshot()
        return {} if last is None else _counts(last.positions)

    def _branches(
        self, tables: Mapping[Any, pa.Table], lateness: Sequence[Lateness]
    ) -> Iterator[tuple[int, ArrowBranch]]:
        events = {event.table: event for event in self._checked.events.sources}
        for node in self._checked.flow.operators:
            for branch in node.branches:
                origin = branch.origin
                if isinstance(origin, TableOrigin) and origin.table in tables:
                    rows = _of_origin(tables[origin.table], origin, events.get(origin.table))
                    name = ".".join(origin.table)
                    late = lateness[node.id]
                    yield node.id, branch_rows(node, branch, rows, late, name, origin.names)

    @quick_disk()
    def advance(self) -> None:
        """Let time pass without rows, as the timer of an endless run does."""
        self._batches.advance()
        self._batches.emit_waiting(all=False)
        self._deliver()

    def stop(self) -> None:
        """Compute all files that are there, and stop without emitting what waits."""
        while self.batch():
            pass
        self._close()

    @quick_disk()
    def wait(self) -> None:
        """Run to the end of the input."""
        try:
            while self.batch():
                pass
            self._batches.end()
            self._deliver(last=True)
        finally:
            self._close()


class _Tables:
    """Reads the rows of files again for an evolution.

    Args:
        run: the run that evolves.
        files: the files that its checkpoint has read.
    """

    def __init__(self, run: LocalRun, files: FilesSoFar) -> None:
        self._run, self._files = run, files

    def unreadable(self) -> dict[str, str]:
        """Return the tables whose rows cannot be read again, and why."""
        return self._files.unreadable()

    def read(self, operators: Collection[int]) -> RowsByOperator[pa.Table]:
        """Return the rows of operators."""
        return self._run.rows_of_files(self._run.counts_so_far(), operators)


def run(plan: Any, sources: Mapping[str, Any], **options: Any) -> LocalRun:
    """Start a run as `substrait_agg.run` does; an endless one has computed all files that are there."""
    started = LocalRun(plan, sources, **options)
    if options.get("until", "done") != "done":
        while started.batch():
            pass
    return started


def _loaded(plan: Any) -> sa.Plan:
    if isinstance(plan, sa.Plan):
        return plan
    return sa.load(plan.encode() if isinstance(plan, str) else plan)


def _counts(positions: Positions) -> dict[str, int]:
    return {table: position.count for table, position in positions.files.items()}


def _read_file(path: Path) -> ReadFile:
    return ReadFile(path.resolve().as_uri(), path.stat().st_mtime_ns // 1_000_000)


def _together(tables: Iterable[pa.Table]) -> pa.Table:
    """Concatenate the rows of all ports; each has only the columns of its own side of a join."""
    return pa.concat_tables(tables, promote_options="default")


def _read(
    checked: CheckedRun, done: Mapping[str, int]
) -> tuple[dict[Any, pa.Table], dict[str, int]]:
    """Read the next files of every table.

    Args:
        checked: the run.
        done: how many files of each table have been read.

    Returns:
        The rows of each table, empty ones where only other tables have more, and how many files have been read then.
    """
    tables, counts = {}, dict(done)
    for table, source in checked.sources.items():
        if is_static(source):
            continue
        spec = as_spec(source) if isinstance(source, (str, SourceSpec)) else None
        if spec is None:
            raise TypeError("rows that do not stream are read by Spark")
        name = ".".join(table)
        files = sorted(Path(spec.location).glob("*.parquet"))
        begin = counts.get(name, 0)
        chosen = files[begin : begin + (spec.batch_files or len(files))]
        rows = pa.concat_tables(
            [pq.ParquetFile(file).read(use_threads=False) for file in chosen or files[:1]]
        )
        tables[table] = _weighted(rows if chosen else rows.slice(0, 0), spec)
        counts[name] = begin + len(chosen)
    return (tables, counts) if counts != dict(done) else ({}, counts)


def _files(checked: CheckedRun, counts: Mapping[str, int]) -> dict[Any, list[Path]]:
    """Return the first files of every streaming table."""
    found = {}
    for table, source in checked.sources.items():
        if not is_static(source):
            files = sorted(Path(_spec(source).location).glob("*.parquet"))
            found[table] = files[: counts.get(".".join(table), 0)]
    return found


def _table_of(checked: CheckedRun, table: Any, files: Iterable[Path]) -> pa.Table:
    rows = pa.concat_tables([pq.ParquetFile(file).read(use_threads=False) for file in files])
    return _weighted(rows, _spec(checked.sources[table]))


def _spec(source: Any) -> SourceSpec:
    return as_spec(source)


def _weighted(rows: pa.Table, spec: SourceSpec) -> pa.Table:
    """Return the rows of a file with their weights."""
    if spec.change == "weight":
        return rows.append_column(WEIGHT, rows.column(spec.change_column).cast(pa.int64()))
    if spec.change != "op":
        return rows.append_column(WEIGHT, pa.array(np.ones(rows.num_rows, np.int64)))
    words = rows.column(spec.change_column).to_pylist()
    weighted = rows.append_column(WEIGHT, pa.array([OPERATIONS[w] for w in words], pa.int64()))
    if spec.upsert is None:
        return weighted
    return weighted.filter(pa.array([word not in PREIMAGES for word in words], pa.bool_()))


def _of_origin(rows: pa.Table, origin: TableOrigin, event: EventSource | None) -> pa.Table:
    """Return the columns that a branch reads, the weight, and the event time."""
    names = {name.lower(): name for name in rows.column_names}
    columns = {
        f"c{i}": _fields_by_position(rows.column(names[name.lower()])).cast(to_arrow(type_))
        for i, (name, type_) in enumerate(zip(origin.names, origin.types, strict=True))
    }
    columns[WEIGHT] = rows.column(WEIGHT)
    if event is not None:
        times, valid = instants(rows.column(event.column).combine_chunks())
        columns[TIME] = pa.array(times, mask=~valid)
    return pa.table(columns)


def _fields_by_position(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column whose struct fields are named by their positions; a cast goes by names."""
    type_ = by_position(column.type)
    if column.type == type_:
        return column
    return pa.chunked_array([chunk.view(type_) for chunk in column.chunks], type_)


def _stats(event: EventSource, tables: Mapping[Any, pa.Table]) -> EventTimeStats:
    """Return the event times of a batch of a table."""
    rows = tables.get(event.table)
    if rows is None:
        return EventTimeStats()
    times, valid = instants(rows.column(event.column).combine_chunks())
    known = times[valid]
    if not len(known):
        return EventTimeStats()
    latest = () if event.rule.percent is None else tuple(map(int, known[-event.rule.events :]))
    partitions: dict[str, int] | None = None
    if event.rule.by:
        partitions = {}
        named = np.array(rows.column(event.rule.by).to_pylist(), dtype=object)[valid]
        for name, instant in zip(named, known, strict=True):
            text = "" if name is None else str(name)
            partitions[text] = max(int(instant), partitions.get(text, int(instant)))
    return EventTimeStats(len(known), int(known.max()), latest, partitions)


def _first_rows(checked: CheckedRun) -> Iterator[tuple[int, int, pa.Table]]:
    """Yield the rows of the first version: operator, port, rows of the plan or of a static table."""
    for node in checked.flow.operators:
        for branch in node.branches:
            origin = branch.origin
            if isinstance(origin, RowsOrigin):
                rows = _rows_of(origin)
            elif isinstance(origin, TableOrigin) and is_static(checked.sources[origin.table]):
                rows = _of_origin(_static_rows(checked.sources[origin.table]), origin, None)
            else:
                continue
            yield node.id, branch.port, branch_rows(node, branch, rows, _NEVER).prepared


def _static_rows(source: Any) -> pa.Table:
    spec = as_spec(source)
    files = sorted(Path(spec.location).glob("*.parquet"))
    return _weighted(
        pa.concat_tables([pq.ParquetFile(file).read(use_threads=False) for file in files]), spec
    )


def _difference(checked: CheckedRun, last: Snapshot) -> dict[int, pa.Table]:
    """Return the rows of changed static tables, and retractions of the stored ones."""
    parts: list[tuple[int, pa.Table]] = []
    folder = str(checked.store.folder)
    for node, stored in stored_inputs(checked.flow, last, folder, checked.changed):
        present = [r for n, p, r in _first_rows(checked) if (n, p) == (node.id, stored.port)]
        parts += [(node.id, rows) for rows in (*present, *stored.retract())]
    return _by_operator(parts)


def _by_operator(parts: Iterable[tuple[int, pa.Table]]) -> dict[int, pa.Table]:
    tables: dict[int, list[pa.Table]] = {}
    for node, rows in parts:
        tables.setdefault(node, []).append(rows)
    return {node: _together(rows) for node, rows in tables.items()}


def _rows_of(origin: RowsOrigin) -> pa.Table:
    one = pa.table({"x": [True]})
    schema = pa.schema([(f"c{i}", to_arrow(t)) for i, t in enumerate(origin.types)])
    rows = [pa.table([evaluate(e, one) for e in row], schema=schema) for row in origin.rows]
    table = pa.concat_tables(rows) if rows and len(schema) else schema.empty_table()
    weights = pa.array(np.ones(len(origin.rows), np.int64))
    return pa.table({**dict(zip(table.column_names, table.columns, strict=True)), WEIGHT: weights})
