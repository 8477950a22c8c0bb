"""The work of one task: the partial sums of one hash range in, a run and a change file out. Runs on executors, free of Spark."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.commit.buckets import Buckets
from substrait_agg.commit.change_writer import ChangeWriter
from substrait_agg.commit.counters import TaskCounters
from substrait_agg.commit.files import FolderFiles
from substrait_agg.commit.passes import write_joined
from substrait_agg.commit.ranges import sort_hash
from substrait_agg.commit.slices import complete, seed_rows, with_key_types
from substrait_agg.commit.snapshot import ChangeFile
from substrait_agg.commit.surrogates import Surrogates
from substrait_agg.commit.task_plan import TaskPlan, TaskResult
from substrait_agg.operator.delta import decimal_overflow
from substrait_agg.operator.emission import Emission, due, most_due, pending_schema
from substrait_agg.operator.latest import latest_step
from substrait_agg.operator.leaving import closed_schema, most_leaving, to_look_at
from substrait_agg.operator.names import ROWS, WEIGHT
from substrait_agg.operator.session import drop_rows, finished_rows, session_step
from substrait_agg.operator.spec import OperatorSpec
from substrait_agg.operator.split import split_rows
from substrait_agg.operator.step import State, StepResult, step
from substrait_agg.state.entries import Entries
from substrait_agg.state.merging import MergeSpan, after_merges, budget_for, spans_to_merge
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.rows import Hashes
from substrait_agg.state.run import RunFile, RunWriter
from substrait_agg.state.tree import Found, Tree

MURMUR, OTHER = "__m", "__x"
"""Columns of partial sums besides those of `operator.delta`: two hashes of the keys."""


class _Retry(Exception):
    """The partial sums cannot be used as they came."""

    def __init__(self, *, misplaced: bool, overflow: bool) -> None:
        super().__init__()
        self.misplaced = misplaced
        self.overflow = overflow


def run_task(plan: TaskPlan, batches: Iterable[pa.RecordBatch]) -> TaskResult:
    """Fold the rows of `batches` (partial sums with their hashes) into the range's trees."""
    try:
        return _Task(plan).run(batches)
    except _Retry as retry:
        return TaskResult(
            plan.low, plan.high, misplaced=retry.misplaced, decimal_overflow=retry.overflow
        )


Step = Callable[[OperatorSpec, pa.Table, State, Emission], StepResult]


def _step_of(spec: OperatorSpec) -> Step:
    if spec.session:
        return session_step
    return latest_step if spec.latest else step


class _TimedTree(Tree):
    """The group tree, with the time that lookups take."""

    def __init__(self, counters: TaskCounters, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._counters = counters

    def lookup(self, hashes: Hashes, keys: Sequence[pa.Array]) -> Found:
        """As `Tree.lookup`."""
        with self._counters.timed("lookup_us"):
            return super().lookup(hashes, keys)


class _Task:
    def __init__(self, plan: TaskPlan) -> None:
        self._plan = plan
        self._state = FolderFiles(f"{plan.checkpoint}/state")
        self._schemas = {
            "group": plan.spec.layout.schema,
            "pending": pending_schema(plan.spec.keys),
            "closed": closed_schema(plan.spec),
        }
        self._counters = TaskCounters()
        self._received = 0
        self._tree = _TimedTree(self._counters, *self._files("group", plan.group))
        self._rows = self._writer("group")
        self._held, self._pending = self._keyed("pending", plan.pending), self._writer("pending")
        self._left, self._closed = self._keyed("closed", plan.closed), self._writer("closed")
        self._entries = [self._tree_writer(i) for i in range(len(plan.spec.trees))]

    def _name(self, tree: str) -> str:
        # Unique to the attempt: a failed or duplicate attempt can never overwrite what a snapshot names.
        plan = self._plan
        return f"{tree}-{plan.operator}-{plan.version:012d}-{uuid.uuid4().hex}.arrow"

    def _keyed(self, name: str, files: tuple[RunFile, ...]) -> Tree:
        return Tree(*self._files(name, files))

    def _files(
        self, name: str, files: tuple[RunFile, ...]
    ) -> tuple[FolderFiles, tuple[RunFile, ...], pa.Schema, int]:
        return self._state, files, self._schemas[name], len(self._plan.spec.keys)

    def _writer(self, name: str) -> RunWriter:
        return RunWriter(
            self._state, self._name(name), self._schemas[name], self._plan.spec.page_rows
        )

    def _tree_writer(self, ordinal: int) -> RunWriter:
        spec = self._plan.spec
        name, schema = self._name(f"tree{ordinal}"), spec.trees[ordinal].layout.schema
        return RunWriter(self._state, name, schema, spec.page_rows)

    def _open_tree(self, ordinal: int, extra: Entries | None) -> OrderedTree:
        plan = self._plan
        files = plan.trees[ordinal] if plan.trees else ()
        return OrderedTree(self._state, files, plan.spec.trees[ordinal].layout, extra)

    def run(self, batches: Iterable[pa.RecordBatch]) -> TaskResult:
        """Take up all rows, then write, merge and say what was done."""
        plan = self._plan
        keys = Surrogates(plan.version, plan.low, plan.high, again=plan.again)
        state = State(self._tree, self._open_tree, keys, self._held, plan.version, self._left)
        take = _step_of(plan.spec)
        with ExitStack() as stack:
            changes = ChangeWriter(
                FolderFiles(f"{plan.checkpoint}/changes"), plan.operator, plan.version, plan.columns,
                stack, final=plan.final,
            )  # fmt: skip
            for slice_ in self._slices(batches, stack):
                changes.write(self._take_up(take, slice_, state))
            for rows in self._finished(state):
                changes.write(self._take_up(drop_rows, rows, state))
            with self._counters.timed("write_us"):
                own = changes.close()
                change_files, joined = self._joined(own)
            self._counters["written_bytes"] += sum(file.bytes for file in change_files)
        done = TaskResult(
            plan.low,
            plan.high,
            group=self._merged_keyed("group", self._rows, plan.group),
            pending=self._still_pending(),
            changes=change_files,
            trees=tuple(self._merged_tree(i, w) for i, w in enumerate(self._entries)),
            closed=self._merged_keyed("closed", self._closed, plan.closed),
            joined=joined,
            received=self._received,
        )
        # Only now are all trees written and merged, and all that counted.
        return replace(done, counters=dict(self._counters))

    def _joined(self, own: tuple[ChangeFile, ...]) -> tuple[tuple[ChangeFile, ...], bool]:
        """The changes of both passes as one, and whether both have any."""
        plan = self._plan
        if not own or not plan.earlier:
            return own, False
        files = FolderFiles(f"{plan.checkpoint}/changes")
        name = f"{plan.version:012d}-{plan.operator}-{uuid.uuid4().hex}.parquet"
        together = write_joined(files, name, plan.earlier, own)
        for file in own:
            files.delete(file.name)
        return together, True

    def _take_up(self, take: Step, slice_: pa.Table, state: State) -> pa.Table:
        """Let a step take up a slice and write what it made; returns its changes."""
        with self._counters.timed("fold_us"):
            result = take(self._plan.spec, slice_, state, self._plan.emission)
        self._counters.stepped(result)
        with self._counters.timed("write_us"):
            self._rows.write(result.rows)
            for writer, rows in zip(self._entries, result.trees, strict=True):
                writer.write(rows)
            self._pending.write(result.pending)
            if self._keeps_closed:
                self._closed.write(result.closed)
        return result.changes

    @property
    def _keeps_closed(self) -> bool:
        """Whether anybody reads closed groups: the view does, and groups that can come back."""
        return self._plan.final or self._plan.spec.forget == "keep"

    def _finished(self, state: State) -> Iterator[pa.Table]:
        """Rows of finished sessions; only a pass without rows sees the whole state."""
        plan = self._plan
        watermark = plan.emission.watermark
        if plan.spec.session and watermark is not None and not self._counters["partial_rows"]:
            yield from finished_rows(plan.spec, state, watermark, plan.low, plan.high)

    def _slices(self, batches: Iterable[pa.RecordBatch], stack: ExitStack) -> Iterator[pa.Table]:
        held: list[pa.RecordBatch] = []
        rows = size = 0
        plan, spec = self._plan, self._plan.spec
        most = self._tree.rows_at_once(spec.slice_rows)  # each may bring what is kept of its group
        many = most_due(plan.pending, plan.emission, plan.low, plan.high) > most
        many |= most_leaving(plan.group, plan.emission, plan.low, plan.high) > most
        buckets = Buckets(plan.low, plan.high, stack) if many else None
        for batch in batches:
            self._received += batch.nbytes
            checked = self._checked(batch)
            self._counters["partial_rows"] += checked.num_rows
            held.append(checked)
            rows, size = rows + checked.num_rows, size + checked.nbytes
            if rows > most or size > spec.slice_bytes:
                buckets = buckets or Buckets(plan.low, plan.high, stack)
                buckets.add(pa.Table.from_batches(held))
                held, rows, size = [], 0, 0
        if buckets is None:
            whole = pa.Table.from_batches(held) if rows else None
            yield from self._completed(whole, plan.low, plan.high)
            return
        if held:
            buckets.add(pa.Table.from_batches(held))
        for table, low, high in buckets.tables():
            yield from self._completed(table, low, high)

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        plan = self._plan
        hashes = sort_hash(batch.column(MURMUR).to_numpy(), batch.column(OTHER).to_numpy())
        if len(hashes) and (int(hashes.min()) < plan.low or int(hashes.max()) > plan.high):
            raise _Retry(misplaced=True, overflow=False)
        if plan.raw:
            self._counters["input_rows"] += batch.num_rows
            rows = self._hashed(batch, hashes)
            # With either of these only the rows that count are split, once it is known which.
            if plan.spec.guard < 0 and plan.spec.latest is None:
                rows = split_rows(rows, plan.spec)
            return self._counting(with_key_types(rows, plan.spec), np.ones(len(hashes), np.int64))
        counted = batch.column(ROWS if plan.spec.weight != "one" else "w_0")
        self._counters["input_rows"] += pc.sum(counted).as_py() or 0
        checked = self._hashed(batch, hashes)
        if plan.spec.trees:
            checked = checked.append_column(WEIGHT, counted)
        if decimal_overflow(checked, plan.spec):
            raise _Retry(misplaced=False, overflow=True)
        return self._counting(with_key_types(checked, plan.spec), counted)

    def _counting(self, batch: pa.RecordBatch, rows: Any) -> pa.RecordBatch:
        """The delta rows with the input rows that each stands for, where that decides what is emitted."""
        if self._plan.emission.all:
            return batch
        return batch.append_column(ROWS, pa.array(rows).cast(pa.int64()))

    def _hashed(self, batch: pa.RecordBatch, hashes: Hashes) -> pa.RecordBatch:
        names = [n for n in batch.schema.names if n not in (MURMUR, OTHER, ROWS)]
        columns = [pa.array(hashes), *(batch.column(n) for n in names)]
        return pa.RecordBatch.from_arrays(columns, ["hash", *names])

    def _completed(self, table: pa.Table | None, low: int, high: int) -> Iterator[pa.Table]:
        # Pending keys and seeds join the slice as rows that add nothing.
        plan = self._plan
        parts = [table] if table is not None and table.num_rows else []
        for rows in due(self._held, plan.emission, low, high):
            parts += [rows] if rows.num_rows else []
            if plan.emission.all:  # then a step does not ask which groups waited
                self._counters["waiting"] -= rows.num_rows
        leave = to_look_at(plan.spec, self._tree, plan.emission, low, high)
        parts += [rows for rows in leave if rows.num_rows]
        seeds = [(h, index) for h, index in plan.seeds if low <= h <= high]
        if seeds:
            parts.append(seed_rows(seeds, plan.spec))
        if parts:
            whole = pa.concat_tables(parts, promote_options="default")
            if not plan.emission.all and ROWS not in whole.column_names:
                whole = whole.append_column(ROWS, pa.nulls(whole.num_rows, pa.int64()))
            yield complete(whole, plan.spec) if plan.spec.latest is None else whole

    def _merged(
        self,
        new: RunFile | None,
        before: tuple[RunFile, ...],
        merge: Callable[[MergeSpan], RunFile | None],
    ) -> tuple[RunFile, ...]:
        plan = self._plan
        if new is None:
            return before
        files = (self._in_range(new), *before)
        spans = spans_to_merge(files, plan.low, plan.high, budget_for(new.rows))
        with self._counters.timed("merge_us"):
            merged = [(span, merge(span)) for span in spans]
        self._counters.merged(run for _, run in merged)
        after = after_merges(files, merged)
        if all(file.name != new.name for file in after):
            self._state.delete(new.name)
        return after

    def _merged_keyed(
        self, name: str, writer: RunWriter, before: tuple[RunFile, ...]
    ) -> tuple[RunFile, ...]:
        def merge(span: MergeSpan) -> RunFile | None:
            merged = self._writer(name)
            tree = self._keyed(name, span.files)
            tree.merge(merged, bottom=span.bottom, low=span.low, high=span.high)
            return merged.close()

        return self._merged(self._counters.closed(writer), before, merge)

    def _merged_tree(self, ordinal: int, writer: RunWriter) -> tuple[RunFile, ...]:
        layout = self._plan.spec.trees[ordinal].layout

        def merge(span: MergeSpan) -> RunFile | None:
            merged = self._tree_writer(ordinal)
            OrderedTree(self._state, span.files, layout).merge(merged, span.low, span.high)
            return merged.close()

        before = self._plan.trees[ordinal] if self._plan.trees else ()
        return self._merged(self._counters.closed(writer), before, merge)

    def _in_range(self, run: RunFile) -> RunFile:
        low, high = self._plan.low, self._plan.high
        return replace(run, low=low, high=high, span=high - low + 1)

    def _still_pending(self) -> tuple[RunFile, ...]:
        plan = self._plan
        if not plan.emission.all:
            return self._merged_keyed("pending", self._pending, plan.pending)
        self._pending.close()  # nothing waits where all is emitted
        return ()
