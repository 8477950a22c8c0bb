"""The work of one task: the partial sums of one hash range in, a run and a change file out. Runs on executors, free of Spark."""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from substrait_agg.commit.files import LocalFiles
from substrait_agg.commit.ranges import sort_hash
from substrait_agg.commit.snapshot import ChangeFile
from substrait_agg.operator.delta import decimal_overflow
from substrait_agg.operator.spec import OperatorSpec
from substrait_agg.operator.split import split_rows
from substrait_agg.operator.step import WEIGHT, StepResult, step
from substrait_agg.state.merging import MergeSpan, after_merges, budget_for, spans_to_merge
from substrait_agg.state.rows import Hashes
from substrait_agg.state.run import RunFile, RunWriter, open_run
from substrait_agg.state.tree import Tree

VERSION = "__version"
MURMUR, OTHER = "__m", "__x"
ROWS = "__rows"
"""Columns of partial sums besides those of `operator.delta`: two hashes of the keys, and the rows summed."""
SPILL_BUCKETS = 64


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """What a task is told.

    Attributes:
        checkpoint: folder of the checkpoint.
        operator: id of the operator.
        spec: the operator.
        low: least sort hash of the range.
        high: greatest sort hash of the range.
        group: live runs of the group tree in the range, newest first.
        pending: live runs of the pending tree in the range.
        version: the version being made.
        emit: whether touched and pending groups are emitted.
        columns: per column of a change file its operator column and its name (``c0``, ``c1``, ... of the view).
        final: whether the changes are those of the view (then they carry the version).
        raw: whether rows come as they are, instead of summed per key.
    """

    checkpoint: str
    operator: int
    spec: OperatorSpec
    low: int
    high: int
    group: tuple[RunFile, ...]
    pending: tuple[RunFile, ...]
    version: int
    emit: bool
    columns: tuple[tuple[str, str], ...]
    final: bool
    raw: bool = False


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task did; `misplaced` and `decimal_overflow` ask the driver to sum this batch again, more carefully."""

    low: int
    high: int
    group: tuple[RunFile, ...] = ()
    pending: tuple[RunFile, ...] = ()
    changes: tuple[ChangeFile, ...] = ()
    counters: dict[str, int] = field(default_factory=dict)
    misplaced: bool = False
    decimal_overflow: bool = False

    def to_json(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> TaskResult:
        """From `to_json`."""
        body: dict[str, Any] = json.loads(text)
        for name, kind in (("group", RunFile), ("pending", RunFile), ("changes", ChangeFile)):
            body[name] = tuple(kind(**item) for item in body[name])
        return TaskResult(**body)


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


class _Task:
    def __init__(self, plan: TaskPlan) -> None:
        self._plan = plan
        self._state = LocalFiles(f"{plan.checkpoint}/state")
        self._tree = Tree(self._state, plan.group, plan.spec.layout.schema, len(plan.spec.keys))
        self._rows = RunWriter(
            self._state, self._name("group"), plan.spec.layout.schema, plan.spec.page_rows
        )
        self._pending = RunWriter(
            self._state, self._name("pending"), _pending_schema(plan.spec), plan.spec.page_rows
        )
        self._counters = dict.fromkeys(
            ("input_rows", "partial_rows", "touched", "retracted", "inserted"), 0
        )

    def _name(self, tree: str) -> str:
        # Unique to the attempt: a failed or duplicate attempt can never overwrite what a snapshot names.
        plan = self._plan
        return f"{tree}-{plan.operator}-{plan.version:012d}-{uuid.uuid4().hex}.arrow"

    def run(self, batches: Iterable[pa.RecordBatch]) -> TaskResult:
        """Take up all rows, then write, merge and say what was done."""
        plan = self._plan
        with ExitStack() as stack:
            changes = _Changes(plan, stack)
            for slice_ in self._slices(batches, stack):
                result = step(plan.spec, slice_, self._tree, emit=plan.emit)
                self._count(result)
                self._rows.write(result.rows)
                self._pending.write(result.pending)
                changes.write(result.changes)
            change_files = changes.close()
        return TaskResult(
            plan.low,
            plan.high,
            group=self._merged(self._rows.close()),
            pending=self._still_pending(self._pending.close()),
            changes=change_files,
            counters=self._counters,
        )

    def _count(self, result: StepResult) -> None:
        weights = result.changes.column(WEIGHT).to_numpy()
        self._counters["touched"] += result.touched
        self._counters["retracted"] += int((weights < 0).sum())
        self._counters["inserted"] += int((weights > 0).sum())

    def _slices(self, batches: Iterable[pa.RecordBatch], stack: ExitStack) -> Iterator[pa.Table]:
        held: list[pa.RecordBatch] = []
        rows = 0
        buckets: _Buckets | None = None
        for batch in batches:
            checked = self._checked(batch)
            self._counters["partial_rows"] += checked.num_rows
            held.append(checked)
            rows += checked.num_rows
            if rows > self._plan.spec.slice_rows:
                buckets = buckets or _Buckets(self._plan, stack)
                buckets.add(pa.Table.from_batches(held))
                held, rows = [], 0
        if buckets is None:
            whole = pa.Table.from_batches(held) if rows else self._first_of_global()
            yield from self._with_pending(whole, self._plan.low, self._plan.high)
            return
        if held:
            buckets.add(pa.Table.from_batches(held))
        for table, low, high in buckets.tables():
            yield from self._with_pending(table, low, high)

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        plan = self._plan
        hashes = sort_hash(batch.column(MURMUR).to_numpy(), batch.column(OTHER).to_numpy())
        if len(hashes) and (int(hashes.min()) < plan.low or int(hashes.max()) > plan.high):
            raise _Retry(misplaced=True, overflow=False)
        if plan.raw:
            self._counters["input_rows"] += batch.num_rows
            return _with_key_types(split_rows(self._hashed(batch, hashes), plan.spec), plan.spec)
        counted = batch.column(ROWS if plan.spec.weight != "one" else "w_0")
        self._counters["input_rows"] += pc.sum(counted).as_py() or 0
        checked = self._hashed(batch, hashes)
        if decimal_overflow(checked, plan.spec):
            raise _Retry(misplaced=False, overflow=True)
        return _with_key_types(checked, plan.spec)

    def _hashed(self, batch: pa.RecordBatch, hashes: Hashes) -> pa.RecordBatch:
        names = [n for n in batch.schema.names if n not in (MURMUR, OTHER, ROWS)]
        columns = [pa.array(hashes), *(batch.column(n) for n in names)]
        return pa.RecordBatch.from_arrays(columns, ["hash", *names])

    def _first_of_global(self) -> pa.Table | None:
        # A global aggregate has its one group from the first version on, also over no input.
        if not self._plan.spec.is_global or self._plan.group:
            return None
        return pa.table({"hash": pa.array([self._plan.low], pa.uint64())})

    def _with_pending(self, table: pa.Table | None, low: int, high: int) -> Iterator[pa.Table]:
        # Pending keys join the slice as rows that add nothing.
        parts = [table] if table is not None and table.num_rows else []
        if self._plan.emit and self._plan.pending:
            names = _pending_schema(self._plan.spec).names
            for file in self._plan.pending:
                rows = open_run(self._state, file).rows_between(low, high)
                parts.append(rows.select([n for n in names if n != "dead"]))
        if parts:
            yield _complete(pa.concat_tables(parts, promote_options="default"), self._plan.spec)

    def _merged(self, new: RunFile | None) -> tuple[RunFile, ...]:
        plan = self._plan
        if new is None:
            return plan.group
        files = (self._in_range(new), *plan.group)
        spans = spans_to_merge(files, plan.low, plan.high, budget_for(new.rows))
        after = after_merges(files, [(span, self._merge(span)) for span in spans])
        if all(file.name != new.name for file in after):
            self._state.delete(new.name)
        return after

    def _merge(self, span: MergeSpan) -> RunFile | None:
        spec = self._plan.spec
        tree = Tree(self._state, span.files, spec.layout.schema, len(spec.keys))
        writer = RunWriter(self._state, self._name("group"), spec.layout.schema, spec.page_rows)
        tree.merge(writer, bottom=span.bottom, low=span.low, high=span.high)
        return writer.close()

    def _in_range(self, run: RunFile) -> RunFile:
        low, high = self._plan.low, self._plan.high
        return replace(run, low=low, high=high, span=high - low + 1)

    def _still_pending(self, new: RunFile | None) -> tuple[RunFile, ...]:
        plan = self._plan
        if plan.emit:
            return ()
        added = () if new is None else (self._in_range(new),)
        return (*added, *plan.pending)


def _pending_schema(spec: OperatorSpec) -> pa.Schema:
    keys = [pa.field(f"k{i}", t) for i, t in enumerate(spec.keys)]
    return pa.schema([pa.field("hash", pa.uint64()), pa.field("dead", pa.bool_()), *keys])


def _with_key_types(batch: pa.RecordBatch, spec: OperatorSpec) -> pa.RecordBatch:
    for i, wanted in enumerate(spec.keys):
        ordinal = batch.schema.get_field_index(f"k{i}")
        column = batch.column(ordinal)
        if column.type != wanted:
            batch = batch.set_column(ordinal, f"k{i}", column.cast(wanted))
    return batch


def _complete(table: pa.Table, spec: OperatorSpec) -> pa.Table:
    """The table with every column that a step reads; those missing add nothing."""
    wanted = ["w_0"]
    for i, accumulator in enumerate(spec.accumulators):
        wanted += [f"b{i}"] if accumulator.kind == "float" else []
        if not any(n == f"a{i}" or n.startswith(f"a{i}_") for n in table.column_names):
            wanted += (
                [f"a{i}_0_0", f"a{i}_1_0", f"a{i}_2_0"]
                if accumulator.kind == "decimal"
                else [f"a{i}_0"]
            )
    for name in wanted:
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(table.num_rows, pa.int64()))
    return table


class _Buckets:
    """Rows set aside on local disk by ranges of the hash, so that they can be taken up in order of hash."""

    def __init__(self, plan: TaskPlan, stack: ExitStack) -> None:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="substrait-agg-"))
        self._files = LocalFiles(folder)
        self._stack = stack.enter_context(ExitStack())
        self._width = (plan.high - plan.low + SPILL_BUCKETS) // SPILL_BUCKETS
        self._low = plan.low
        self._high = plan.high
        self._writers: dict[int, pa.RecordBatchStreamWriter] = {}

    def add(self, table: pa.Table) -> None:
        """Set rows aside."""
        hashes = table.column("hash").to_numpy()
        bucket = (hashes - np.uint64(self._low)) // np.uint64(self._width)
        for b in np.unique(bucket):
            rows = table.filter(pa.array(bucket == b)).combine_chunks()
            self._writer(int(b), table.schema).write_table(rows)

    def _writer(self, bucket: int, schema: pa.Schema) -> pa.RecordBatchStreamWriter:
        if bucket not in self._writers:
            sink = self._stack.enter_context(self._files.create(f"bucket-{bucket}"))
            self._writers[bucket] = self._stack.enter_context(pa.ipc.new_stream(sink, schema))
        return self._writers[bucket]

    def tables(self) -> Iterator[tuple[pa.Table | None, int, int]]:
        """Per range of hashes, in order, its rows (None: there are none), its least and its greatest hash."""
        self._stack.close()
        for bucket in range(SPILL_BUCKETS):
            low = self._low + bucket * self._width
            high = min(self._high, low + self._width - 1)
            if low > self._high:
                return
            table = None
            if bucket in self._writers:
                with self._files.map(f"bucket-{bucket}") as source:
                    table = pa.ipc.open_stream(source).read_all()
            yield table, low, high


class _Changes:
    """Writes the change file of a task; nothing is created before the first change."""

    def __init__(self, plan: TaskPlan, stack: ExitStack) -> None:
        self._plan = plan
        self._stack = stack.enter_context(ExitStack())
        self._files = LocalFiles(f"{plan.checkpoint}/changes")
        self._name = f"{plan.version:012d}-{plan.operator}-{uuid.uuid4().hex}.parquet"
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0

    def write(self, changes: pa.Table) -> None:
        """Append changes (output columns and weight)."""
        if not changes.num_rows:
            return
        table = self._named(changes)
        if self._writer is None:
            sink = self._stack.enter_context(self._files.create(self._name))
            self._writer = pq.ParquetWriter(
                sink, table.schema, compression="none", use_dictionary=False, write_statistics=False
            )
        self._writer.write_table(table)
        self._rows += table.num_rows

    def _named(self, changes: pa.Table) -> pa.Table:
        columns = [changes.column(source) for source, _ in self._plan.columns]
        names = [name for _, name in self._plan.columns]
        if self._plan.final:
            columns.append(pa.array(np.full(changes.num_rows, self._plan.version, np.int64)))
            names.append(VERSION)
        return pa.Table.from_arrays([*columns, changes.column(WEIGHT)], [*names, WEIGHT])

    def close(self) -> tuple[ChangeFile, ...]:
        """Finish the file, if there is one."""
        if self._writer is None:
            return ()
        self._writer.close()
        self._stack.close()
        size, crc = self._files.checksum(self._name)
        return (ChangeFile(self._name, self._rows, size, crc),)
