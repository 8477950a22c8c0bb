"""Run one task: apply the partial sums of one hash range to its state.

The results are runs and a change file. This code runs on executors and does not use Spark.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.commit.documents.file_names import change_name, run_name
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.snapshot import ChangeFile, OperatorState, Runs
from substrait_agg.commit.hash_ranges import sort_hash
from substrait_agg.commit.tasks.change_writer import ChangeWriter, Keep
from substrait_agg.commit.tasks.consolidate import write_joined
from substrait_agg.commit.tasks.join_rows import RowCounter
from substrait_agg.commit.tasks.spill import Buckets
from substrait_agg.commit.tasks.surrogates import Surrogates
from substrait_agg.commit.tasks.task_plan import TaskPlan, TaskResult
from substrait_agg.errors import RunFailed
from substrait_agg.operator.common.names import LARGE, PORT, WEIGHT
from substrait_agg.operator.common.protocol import OperatorResult, StateReader, SumOverflow
from substrait_agg.operator.numeric.delta import from_halves
from substrait_agg.state.arrangement import Arrangement, ArrangementLayout
from substrait_agg.state.entries import Entries, TreeLayout
from substrait_agg.state.keys.rows import Hashes
from substrait_agg.state.merging import MergeSpan, after_merges, budget_for, spans_to_merge
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.run import RunFile, RunWriter
from substrait_agg.state.tree import KeyedLayout, KeyedTree, LookupResult

COUNTERS = (
    "input_rows", "partial_rows", "touched", "emitted", "retracted", "inserted", "early", "quarantined",
    "waiting", "beyond", "probes", "matches", "run_probes", "page_reads", "merges", "merged_rows", "merged_bytes", "written_bytes",
    "merge_us", "fold_us", "lookup_us", "write_us",
)  # fmt: skip
"""Counters of rows, groups, files and bytes, and timers in microseconds.

``quarantined``, ``waiting`` and ``beyond`` are differences: by how much the number of such rows or groups
grows.
"""


class TaskCounters(dict[str, int]):
    """The counters of one task by name."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(COUNTERS, 0))

    @contextmanager
    def measure_time(self, counter: str) -> Iterator[None]:
        """Add the time of a block, in microseconds."""
        began = time.monotonic_ns()
        yield
        self[counter] += (time.monotonic_ns() - began) // 1000

    def add(self, counters: Mapping[str, int]) -> None:
        """Add counters by name."""
        for name, count in counters.items():
            self[name] += count

    def count_changes(self, changes: pa.Table) -> None:
        """Count the rows of changes."""
        weights = changes.column(WEIGHT).to_numpy()
        self["retracted"] += int((weights < 0).sum())
        self["inserted"] += int((weights > 0).sum())

    def count_merged(self, runs: Iterable[RunFile | None]) -> None:
        """Count the runs that merges wrote."""
        for run in runs:
            if run is not None:
                self["merges"] += 1
                self["merged_rows"] += run.rows
                self["merged_bytes"] += run.bytes
                self["written_bytes"] += run.bytes

    def close_run(self, writer: RunWriter) -> RunFile | None:
        """Close a run, and measure the time."""
        with self.measure_time("write_us"):
            run = writer.close()
        self["written_bytes"] += run.bytes if run is not None else 0
        return run


MURMUR, OTHER = "__m", "__x"
"""Columns of partial sums besides those of `operator.numeric.delta`: two hashes of the keys."""


class _Retry(Exception):
    """Raised when the driver must compute the partial sums in another way.

    Attributes:
        misplaced: whether rows are outside the range of the task.
        overflow: whether a partial sum of decimals has overflowed.
        large_weights: whether a weight is too large for the way in which the rows were summed.
    """

    def __init__(
        self, *, misplaced: bool = False, overflow: bool = False, large_weights: bool = False
    ) -> None:
        super().__init__()
        self.misplaced = misplaced
        self.overflow = overflow
        self.large_weights = large_weights


def run_task(
    plan: TaskPlan, batches: Iterable[pa.RecordBatch], keep: Keep | None = None
) -> TaskResult:
    """Apply `batches` (partial sums with their hashes) to the trees of a range.

    Args:
        plan: the task.
        batches: its rows.
        keep: takes the changes instead of a file, if they are few and not those of a view.
    """
    try:
        return _Task(plan, keep).run(batches)
    except _Retry as retry:
        return TaskResult(
            plan.low,
            plan.high,
            misplaced=retry.misplaced,
            decimal_overflow=retry.overflow,
            large_weights=retry.large_weights,
        )


class _TimedTree(KeyedTree):
    """A keyed tree that measures and counts lookups."""

    def __init__(self, counters: TaskCounters, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._counters = counters

    def lookup(self, hashes: Hashes, keys: Sequence[pa.Array]) -> LookupResult:
        """Look up keys as `Tree.lookup`."""
        probes, pages = self.run_probes, self.page_reads
        with self._counters.measure_time("lookup_us"):
            result = super().lookup(hashes, keys)
        self._counters["run_probes"] += self.run_probes - probes
        self._counters["page_reads"] += self.page_reads - pages
        return result


class _Task:
    def __init__(self, plan: TaskPlan, keep: Keep | None) -> None:
        self._plan, self._keep = plan, keep
        self._operator = plan.operator
        self._files = FolderFiles(f"{plan.checkpoint}/state", flushes=plan.flushes)
        self._changes = FolderFiles(f"{plan.checkpoint}/changes", flushes=plan.flushes)
        self._schema = plan.operator.state_schema(final=plan.final)
        self._counters = TaskCounters()
        self._rows = RowCounter(plan.join_rows)
        self._received = 0
        self._large_weights = False
        schemas = self._schema.items()
        self._writers = {name: self._writer(name, layout.schema) for name, layout in schemas}
        self._keyed = cache(self._open_keyed)
        self._ordered = cache(self._open_ordered)
        surrogates = Surrogates(plan.version, plan.low, plan.high, again=plan.watermark_pass)
        self._state = StateReader(
            self._keyed, self._ordered_with, self._open_arranged, surrogates, plan.version
        )

    def _writer(self, tree: str, schema: pa.Schema) -> RunWriter:
        plan = self._plan
        name = run_name(tree, plan.node, plan.version)
        return RunWriter(self._files, name, schema, plan.operator.spec.page_rows)

    def _open_keyed(self, name: str) -> KeyedTree:
        layout = self._schema[name]
        if not isinstance(layout, KeyedLayout):
            raise TypeError(name)
        runs = self._plan.state[name]
        return _TimedTree(self._counters, self._files, runs, layout.schema, layout.keys)

    def _ordered_with(self, name: str, extra: Entries | None) -> OrderedTree:
        return self._ordered(name).plus(extra)

    def _open_ordered(self, name: str) -> OrderedTree:
        layout = self._schema[name]
        if not isinstance(layout, TreeLayout):
            raise TypeError(name)
        return OrderedTree(self._files, self._plan.state[name], layout)

    def _open_arranged(self, name: str) -> Arrangement:
        layout = self._schema[name]
        if not isinstance(layout, ArrangementLayout):
            raise TypeError(name)
        return Arrangement(self._files, self._plan.state[name], layout)

    def run(self, batches: Iterable[pa.RecordBatch]) -> TaskResult:
        """Apply all rows, write and merge the trees, and return the result."""
        plan, operator = self._plan, self._operator
        with ExitStack() as stack:
            changes = ChangeWriter(
                self._changes, plan.node, plan.version, plan.columns, stack,
                final=plan.final, keep=self._keep,
            )  # fmt: skip
            for slice_ in self._slices(batches, stack):
                with self._counters.measure_time("fold_us"):
                    result = operator.apply(self._ports(slice_), self._state, plan.emission)
                self._write(result, changes)
            if not self._counters["partial_rows"]:  # only a pass without rows sees the whole state
                for result in operator.advance(self._state, plan.emission, plan.low, plan.high):
                    self._write(result, changes)
            with self._counters.measure_time("write_us"):
                own = changes.close()
                change_files, joined = self._join_changes(own)
            joined_bytes = sum(file.bytes for file in change_files) if joined else 0
            self._counters["written_bytes"] += joined_bytes or changes.written_bytes
        done = TaskResult(
            plan.low,
            plan.high,
            state=self._state_after(),
            changes=change_files,
            joined=joined,
            received=self._received,
            large_weights=self._large_weights,
        )
        # Take the counters last: writing and merging the trees changes them.
        return replace(done, counters=dict(self._counters))

    def _join_changes(self, own: tuple[ChangeFile, ...]) -> tuple[tuple[ChangeFile, ...], bool]:
        """Combine the change files of both passes; return them and whether both passes have any."""
        plan = self._plan
        if not own or not plan.earlier:
            return own, False
        name = change_name(plan.version, plan.node)
        together = write_joined(self._changes, name, plan.earlier, own)
        for file in own:
            self._changes.delete(file.name)
        return together, True

    def _ports(self, slice_: pa.Table) -> tuple[pa.Table, ...]:
        """Return the rows of a slice by input port.

        Rows without a port, of woken groups, go to port 0.
        """
        if self._operator.ports == 1:
            return (slice_,)
        if PORT not in slice_.column_names:
            slice_ = slice_.append_column(PORT, pa.nulls(slice_.num_rows, pa.int8()))
        port = pc.fill_null(slice_.column(PORT), 0).to_numpy()
        numbers = np.arange(self._operator.ports + 1)
        if (port[1:] >= port[:-1]).all():  # the branches of a batch come one after the other
            ends = port.searchsorted(numbers).tolist()
            return tuple(slice_.slice(a, b - a) for a, b in pairwise(ends))
        return tuple(slice_.filter(pa.array(port == i)) for i in numbers[:-1])

    def _write(self, result: OperatorResult, changes: ChangeWriter) -> None:
        """Write the rows that an operator adds to its trees, and its changes."""
        with self._counters.measure_time("write_us"):
            for name, rows in result.trees.items():
                if name in self._writers:
                    self._writers[name].write(rows)
        for part in chain((result.changes,), result.more_changes):
            self._counters.count_changes(part)
            self._rows.add(part.num_rows, result.count_pairs)
            changes.write(part)
        # A join counts matches while its changes are read.
        self._counters.add(result.counters)

    def _slices(self, batches: Iterable[pa.RecordBatch], stack: ExitStack) -> Iterator[pa.Table]:
        buffered: list[pa.RecordBatch] = []
        rows = size = 0
        plan, most_bytes = self._plan, self._operator.spec.slice_bytes
        most = self._operator.rows_at_once(self._state)
        work = self._operator.expected(plan.state.trees, plan.emission, plan.low, plan.high)
        many = max(work.rows, work.visited) > most
        buckets = Buckets(plan.low, plan.high, stack) if many else None
        for batch in batches:
            self._received += batch.nbytes
            checked = self._check(batch)
            self._counters["partial_rows"] += checked.num_rows
            buffered.append(checked)
            rows, size = rows + checked.num_rows, size + checked.nbytes
            if rows > most or size > most_bytes:
                buckets = buckets or Buckets(plan.low, plan.high, stack)
                buckets.add(_together(buffered))
                buffered, rows, size = [], 0, 0
        if buckets is None:
            whole = _together(buffered) if rows else None
            yield from self._complete(whole, plan.low, plan.high)
            return
        if buffered:
            buckets.add(_together(buffered))
        for table, low, high in buckets.tables():
            yield from self._complete(table, low, high)

    def _check(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        plan = self._plan
        _check_texts(batch, plan.node)
        hashes = sort_hashes(batch)
        if len(hashes) and (int(hashes.min()) < plan.low or int(hashes.max()) > plan.high):
            raise _Retry(misplaced=True)
        try:
            rows, count = self._operator.receive(
                self._summable(_replace_hashes(batch, hashes)),
                raw=plan.unaggregated,
                emission=plan.emission,
            )
        except SumOverflow as error:
            raise _Retry(overflow=True) from error
        self._counters["input_rows"] += count
        return rows

    def _summable(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return partial sums with coefficients at distances of 32 bits, after a check of weights."""
        if LARGE not in batch.schema.names:
            return batch
        large = bool(pc.any(pc.greater(batch.column(LARGE), 0)).as_py())
        sums = batch.drop_columns([LARGE])
        rows = from_halves(sums)
        if large and rows is sums:
            raise _Retry(large_weights=True)
        self._large_weights |= large
        return rows

    def _complete(self, table: pa.Table | None, low: int, high: int) -> Iterator[pa.Table]:
        # Groups that act without input (wake) join the slice as rows that add nothing.
        plan = self._plan
        parts = [table] if table is not None and table.num_rows else []
        woken, counted = self._operator.wake(
            self._state, plan.emission, low, high, plan.initial_groups
        )
        self._counters.add(counted)
        if parts or woken:
            yield self._operator.complete([*parts, *woken], plan.emission)

    def _state_after(self) -> OperatorState:
        """Return the trees of the range with the new runs, after merges."""
        before, cleared = self._plan.state, self._operator.list_cleared(self._plan.emission)
        trees = dict(before.trees)
        for name, writer in self._writers.items():
            if name in cleared:
                writer.close()
                trees[name] = ()
            elif (run := self._counters.close_run(writer)) is not None:
                trees[name] = self._merge_runs(name, run, before[name])
        return OperatorState.of(trees)

    def _merge_runs(self, name: str, new: RunFile, before: Runs) -> Runs:
        """Return the runs of a tree with a new one, after the merges that are due."""
        low, high = self._plan.low, self._plan.high
        files = (replace(new, low=low, high=high, span=high - low + 1), *before)
        spans = spans_to_merge(files, low, high, budget_for(new.rows))
        with self._counters.measure_time("merge_us"):
            merged = [(span, self._merge(name, span)) for span in spans]
        self._counters.count_merged(run for _, run in merged)
        after = after_merges(files, merged)
        if all(file.name != new.name for file in after):
            self._files.delete(new.name)
        return after

    def _merge(self, name: str, span: MergeSpan) -> RunFile | None:
        layout, files = self._schema[name], span.files
        schema = layout.schema
        if isinstance(layout, KeyedLayout):
            tree = KeyedTree(self._files, files, schema, layout.keys)
            schema, pages = tree.schema, tree.scan(span.low, span.high, dead=not span.bottom)
        elif isinstance(layout, ArrangementLayout):
            pages = Arrangement(self._files, files, layout).scan(span.low, span.high)
        else:
            pages = OrderedTree(self._files, files, layout).scan(span.low, span.high)
        writer = self._writer(name, schema)
        for rows in pages:
            writer.write(rows)
        return writer.close()


def sort_hashes(batch: pa.RecordBatch) -> Hashes:
    """Return the sort hash of each row, from the two hashes of its key."""
    return sort_hash(batch.column(MURMUR).to_numpy(), batch.column(OTHER).to_numpy())


def _replace_hashes(batch: pa.RecordBatch, hashes: Hashes) -> pa.RecordBatch:
    """Replace the two hashes of exchanged rows by their sort hash."""
    names = [n for n in batch.schema.names if n not in (MURMUR, OTHER)]
    columns = [pa.array(hashes), *(batch.column(n) for n in names)]
    return pa.RecordBatch.from_arrays(columns, ["hash", *names])


def _together(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Concatenate delta rows; those of batches with large weights have more coefficients."""
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    return pa.concat_tables(tables, promote_options="default")


def _check_texts(batch: pa.RecordBatch, operator: int) -> None:
    """Check that texts are UTF-8. Spark does not check those of binary formats.

    Raises:
        RunFailed: TEXT_ENCODING_INVALID.
    """
    for column in batch.columns:
        if not (pa.types.is_string(column.type) or pa.types.is_nested(column.type)):
            continue
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise RunFailed(
                "TEXT_ENCODING_INVALID",
                f"a text that operator {operator} reads is not UTF-8",
                help="write the column of the source as UTF-8, or declare it as binary; nothing of the batch was "
                "committed",
            ) from error
