"""Run one task of an evolution: migrate the groups of one hash range.

The results are runs of the new state, and the rows of the view as changes. `rewriter` computes
them. This code runs on executors and does not use Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import pyarrow as pa

from substrait_agg.commit.documents.file_names import run_name
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.snapshot import ChangeFile, OperatorState
from substrait_agg.commit.evolution.planner import Migration
from substrait_agg.commit.evolution.rewriter import (
    OldState,
    closed_as,
    entries_read,
    in_order,
    migrate_groups,
    pieces,
    shown_rows,
)
from substrait_agg.commit.tasks.change_writer import ChangeWriter
from substrait_agg.commit.tasks.surrogates import Surrogates
from substrait_agg.operator.aggregate.eviction import closed_schema
from substrait_agg.operator.common.names import (
    CLOSED,
    GROUP,
    PENDING,
    arrangement_tree,
    entries_tree,
)
from substrait_agg.operator.common.spec import OperatorSpec
from substrait_agg.state.arrangement import Arrangement, ArrangementLayout, consolidate_rows
from substrait_agg.state.entries import Entries, TreeLayout
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.run import RunFile, RunWriter, open_run
from substrait_agg.state.tree import tree_of

READ_ENTRIES = 1 << 20  # entries of whole groups that are read at once

Columns = tuple[tuple[str, str], ...]
"""Per column of a change file its operator column and its name."""


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """The plan of a migration task.

    Attributes:
        checkpoint: folder of the checkpoint.
        operator: id of the operator in the new plan; in the old plan if rows are only retracted.
        version: the version being made.
        low: least sort hash of the range.
        high: greatest sort hash of the range.
        state: the old state of the range.
        spec: the operator of the new plan.
        migration: where its parts come from; None: the state is dropped.
        columns: columns of the file that inserts all new rows; empty: the file does not exist.
        final: whether that file is for the view, else for the operators above.
        retraction_columns: columns of the file that retracts all old rows; empty: the file does not exist.
    """

    checkpoint: str
    operator: int
    version: int
    low: int
    high: int
    state: OperatorState
    spec: OperatorSpec | None = None
    migration: Migration | None = None
    columns: Columns = ()
    final: bool = False
    retraction_columns: Columns = ()

    @property
    def rewrites(self) -> bool:
        """Whether groups are rewritten."""
        return self.migration is not None and not self.migration.same

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        has_work = self.rewrites or self.columns or self.retraction_columns
        return not has_work or not (self.state[GROUP] or self.state[CLOSED] or self.ports)

    @property
    def ports(self) -> Sequence[int]:
        """Return the ports whose stored rows are rewritten."""
        columns = () if self.migration is None else self.migration.ports
        return [port for port in range(len(columns)) if self.state[arrangement_tree(port)]]


@dataclass(frozen=True, slots=True)
class MigrationResult:
    """The result of a migration task.

    Attributes:
        state: new runs by name of tree.
        inserted: files of insertions.
        retracted: files of retractions.
    """

    state: OperatorState = field(default_factory=OperatorState)
    inserted: tuple[ChangeFile, ...] = ()
    retracted: tuple[ChangeFile, ...] = ()


def migrate(plan: MigrationPlan) -> MigrationResult:
    """Run a migration task.

    Raises:
        RunFailed: RESULT_OVERFLOW, WEIGHT_OVERFLOW, TOTAL_OVERFLOW or USER_MEASURE_FAILED.
        StateRefused: STATE_DAMAGED.
    """
    return _MigrationTask(plan).run()


class _MigrationTask:
    def __init__(self, plan: MigrationPlan) -> None:
        self._plan = plan
        self._state = FolderFiles(f"{plan.checkpoint}/state")
        self._writers: dict[str, RunWriter] = {}
        keys = Surrogates(plan.version, plan.low, plan.high)
        self._before = OldState(self._old_tree, self._open_tree, keys)

    def run(self) -> MigrationResult:
        """Run the task, as `migrate`."""
        plan = self._plan
        with ExitStack() as stack:
            inserted = self._changes(plan.columns, stack, final=plan.final)
            retracted = self._changes(plan.retraction_columns, stack, final=True)
            for old, new in self._rows():
                if plan.retraction_columns:
                    retracted.write(shown_rows(old, -1))
                if plan.columns:
                    inserted.write(shown_rows(new, 1))
            for port in plan.ports:
                self._rewrite_port(port)
            files = inserted.close(), retracted.close()
        trees = {name: self._close(writer) for name, writer in self._writers.items()}
        return MigrationResult(OperatorState.of(trees), *files)

    def _rows(self) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Yield rows of groups, then of closed groups: the old and the new rows of each part."""
        plan = self._plan
        for part in self._scan(plan.state[GROUP]):
            yield from self._groups(part)
        for part in self._scan(plan.state[CLOSED]):
            if plan.migration is None or plan.spec is None or not plan.rewrites:
                yield part, part
                continue
            rewritten = closed_as(part, plan.migration, closed_schema(plan.spec))
            self._write(CLOSED, rewritten)
            yield part, rewritten

    def _rewrite_port(self, port: int) -> None:
        """Write the stored rows of a port with other columns; rows that are equal then become one."""
        plan = self._plan
        if plan.migration is None:
            raise TypeError(port)
        name = arrangement_tree(port)
        runs = plan.state[name]
        layout = ArrangementLayout.of_run(open_run(self._state, runs[0]).schema)
        ordinals = plan.migration.ports[port]
        types = tuple(layout.value_types[at] for at in ordinals)
        new_layout = ArrangementLayout(layout.key_types, types)
        columns = [f.name for f in layout.schema if not f.name.startswith("v")]
        columns += [f"v{at}" for at in ordinals]
        for rows in Arrangement(self._state, runs, layout).scan(plan.low, plan.high):
            part = rows.select(columns).rename_columns(new_layout.schema.names)
            self._write(name, consolidate_rows(part))

    def _groups(self, part: pa.Table) -> Iterator[tuple[pa.Table, pa.Table]]:
        plan = self._plan
        if plan.migration is None or plan.spec is None or not plan.rewrites:
            yield part, part
            return
        rows = in_order(part)
        sizes = entries_read(plan.migration, plan.spec, rows)
        for piece in pieces(rows, sizes, READ_ENTRIES):
            rewritten = migrate_groups(plan.spec, plan.migration, piece, self._before)
            self._write(GROUP, rewritten.rows)
            for i, entries in enumerate(rewritten.trees):
                if entries is not None:
                    self._write(entries_tree(i), entries)
            yield piece, rewritten.rows

    def _scan(self, files: Sequence[RunFile]) -> Iterator[pa.Table]:
        if files:
            yield from tree_of(self._state, files).scan(self._plan.low, self._plan.high)

    # --- trees of the old state ------------------------------------------------------------------

    def _old_tree(self, ordinal: int) -> OrderedTree | None:
        files = self._plan.state[entries_tree(ordinal)]
        if not files:
            return None
        layout = TreeLayout.of_run(open_run(self._state, files[0]).schema)
        return OrderedTree(self._state, files, layout)

    def _open_tree(self, ordinal: int, extra: Entries | None) -> OrderedTree:
        plan = self._plan
        if plan.spec is None or plan.migration is None:
            raise TypeError("a tree without a plan")
        at = plan.migration.trees[ordinal]
        files = () if at is None else plan.state[entries_tree(plan.migration.runs[at][0])]
        first = plan.spec.together(ordinal)[0]
        return OrderedTree(self._state, files, plan.spec.trees[first].layout, extra)

    # --- files -----------------------------------------------------------------------------------

    def _changes(self, columns: Columns, stack: ExitStack, *, final: bool) -> ChangeWriter:
        plan = self._plan
        files = FolderFiles(f"{plan.checkpoint}/changes")
        return ChangeWriter(files, plan.operator, plan.version, columns, stack, final=final)

    def _write(self, tree: str, rows: pa.Table) -> None:
        plan = self._plan
        if tree not in self._writers:
            name = run_name(tree, plan.operator, plan.version)
            pages = {} if plan.spec is None else {"page_rows": plan.spec.page_rows}
            groups = plan.spec if tree == GROUP else None
            schema = rows.schema if groups is None else groups.layout.schema
            self._writers[tree] = RunWriter(self._state, name, schema, **pages)
        self._writers[tree].write(rows)

    def _close(self, writer: RunWriter) -> tuple[RunFile, ...]:
        run, low, high = writer.close(), self._plan.low, self._plan.high
        return () if run is None else (replace(run, low=low, high=high, span=high - low + 1),)


def state_after(
    before: OperatorState, migration: Migration, done: Sequence[MigrationResult]
) -> OperatorState:
    """Return the state of an operator after all its tasks."""
    if migration.same:
        return before
    rewritten = OperatorState.union(moved.state for moved in done)
    if migration.ports:
        return rewritten
    trees = {name: rewritten[name] for name in (GROUP, CLOSED)} | {PENDING: before[PENDING]}
    for i, at in enumerate(migration.trees):
        name = entries_tree(i)
        trees[name] = rewritten[name] if at is None else before[entries_tree(at)]
    return OperatorState.of(trees)
