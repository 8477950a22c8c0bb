"""Evolve a checkpoint to another plan, in a version of its own, before the query begins.

Operators over tables derive their state from stored state (`commit.evolution.task`). Operators
above do so too, or rebuild it from all rows of the operators below, which come as insertions. A join
that needs more columns, and an aggregate with measures of other values, are rebuilt from all rows of
their tables, if these can be read again.
Publishing the version is the evolution; the old plan is in force until then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Generic, Protocol

from substrait_agg.commit.documents.plan_document import PlanDocument, ViewSchema
from substrait_agg.commit.documents.snapshot import (
    ChangeFile,
    InputPlace,
    OperatorState,
    Snapshot,
    ViewVersion,
)
from substrait_agg.commit.evolution.planner import Evolution, Migration
from substrait_agg.commit.evolution.task import Columns, MigrationPlan, MigrationResult, state_after
from substrait_agg.commit.hash_ranges import partition_range
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.publishing import translate_write_errors
from substrait_agg.commit.log.retention import DEFAULT, Retention
from substrait_agg.commit.log.sweep import tidy
from substrait_agg.commit.view.schema import PlanChange
from substrait_agg.commit.view.version_checksums import with_checksums
from substrait_agg.commit.view.view import View
from substrait_agg.flow.graph.graph import Branch, OperatorOrigin
from substrait_agg.flow.graph.nodes import Flow, FlowView, Node
from substrait_agg.metrics.batch_stats import count_tasks
from substrait_agg.operator.common.emission import ALL
from substrait_agg.operator.common.names import PENDING
from substrait_agg.operator.registry import operator_of
from substrait_agg.recompute.whole_input import RowsByOperator
from substrait_agg.runtime.conflicts import conflict_behind
from substrait_agg.runtime.executor import BranchInput, Executor, Rows
from substrait_agg.runtime.job import OperatorJob, changes_of
from substrait_agg.runtime.left_out import Lateness, Rows_co
from substrait_agg.state.tree import tree_of


class RereadTables(Protocol[Rows_co]):
    """Reads the rows again that the tables of a checkpoint have given so far."""

    def unreadable(self) -> Mapping[str, str]:
        """Return the tables whose rows cannot be read again, and why."""

    def read(self, operators: Collection[int]) -> RowsByOperator[Rows_co]:
        """Return the rows that operators have from tables, and those written in the plan.

        Raises:
            RunFailed: the rows cannot be read.
        """


def evolutions(
    store: Checkpoint, document: PlanDocument, evolution: Evolution | None, view: str = ""
) -> list[PlanChange]:
    """Return the versions with which another plan of a view began, and the one about to be made.

    Raises:
        StateRefused: STATE_DAMAGED.
    """
    stored = store.document() if store.exists() else None
    if stored is None or stored.view_schema(view) is None:
        return []
    changes = View(store, view).evolutions()
    last = store.newest_snapshot() if evolution is not None else None
    if (
        last is not None
        and evolution is not None
        and not _is_unchanged(view, stored, document, evolution)
    ):
        changes.append(PlanChange.of(last.version + 1, stored, document, view))
    return changes


def _is_unchanged(
    view: str, stored: PlanDocument, document: PlanDocument, evolution: Evolution
) -> bool:
    """Return whether a named view continues unchanged: the same columns of the same state."""
    before, now = stored.view_schema(view), document.view_schema(view)
    if not view or before is None or now is None:
        return False
    migration = evolution.operators[now.operator]
    same = migration is not None and migration.same and migration.operator == before.operator
    return same and replace(before, operator=now.operator, positions=now.positions) == now


def evolve_to(
    document: PlanDocument,
    executor: Executor[Rows],
    flow: Flow,
    store: Checkpoint,
    partitions: int,
    *,
    inputs: tuple[InputPlace, ...] = (),
    retention: Retention = DEFAULT,
    tables: RereadTables[Rows] | None = None,
) -> Snapshot | None:
    """Evolve a checkpoint to another plan, if its current plan differs.

    Args:
        document: the document of the new plan.
        executor: computes the operators; one that has not computed a batch of the old plan.
        flow: the new plan.
        store: a checkpoint that this run has claimed.
        partitions: number of state partitions.
        inputs: locations of the tables.
        retention: which versions keep their state.
        tables: reads rows of tables again, for operators that need more columns; None: no rows can be
            read again.

    Returns:
        The version of the evolution; None if another run has made it meanwhile.

    Raises:
        StateRefused: EVOLVE_REFUSED, or as `Checkpoint.check`.
        RunFailed: nothing was committed.
        CommitConflict: another run committed this version.
    """
    # The order matters: if another version is published in between, this one cannot be published.
    unreadable = None if tables is None else tables.unreadable
    last = store.newest_snapshot()
    evolution = store.check(document, evolve=True, unreadable=unreadable)
    if evolution is None or last is None:
        return None
    store.add(document)
    evolving = _Evolution(executor, flow, store, document, evolution, last, partitions)
    try:
        again = evolution.reread
        rows = tables.read(again) if tables is not None and again else ({}, {})
        with translate_write_errors(store.folder, f"version {last.version + 1}"):
            evolving.run(rows)
        snapshot = replace(evolving.snapshot(), inputs=inputs)
        if any(last.of_view(name).checksum is not None for name in ("", *last.views)):
            snapshot = with_checksums(store, snapshot, last)
        store.publish(snapshot)
    except Exception as error:
        conflict = conflict_behind(store, last.version + 1, error)
        if conflict is None:
            raise
        raise conflict from error
    tidy(store, snapshot, evolving.served, sweeps=False, retention=retention)
    return snapshot


class _Evolution(Generic[Rows]):
    """Builds the state of every operator, and the change files that replace the view's rows."""

    def __init__(
        self,
        executor: Executor[Rows],
        flow: Flow,
        store: Checkpoint,
        document: PlanDocument,
        evolution: Evolution,
        last: Snapshot,
        partitions: int,
    ) -> None:
        self._executor, self._flow, self._store = executor, flow, store
        self._found, self._last = evolution, last
        self._partitions = partitions
        self._version = last.version + 1
        self._states: list[OperatorState] = []
        self._given: list[list[ChangeFile]] = []
        stored = store.document()
        self._new = {
            view.name: view
            for view in flow.views
            if not _is_unchanged(view.name, stored, document, evolution)
        }
        self._retracted = [view for view in stored.view_schemas if view.name in self._new]
        self._retractions: dict[str, list[ChangeFile]] = {}

    @property
    def served(self) -> Iterator[str]:
        """Return the change files between operators, which are no longer needed."""
        operators_of_views = {view.operator for view in self._new.values()}
        between = (files for o, files in enumerate(self._given) if o not in operators_of_views)
        return (file.name for files in between for file in files)

    def run(self, rows: RowsByOperator[Rows] = ({}, {})) -> None:
        """Build the state of all operators and the change files.

        Args:
            rows: the rows that operators to rebuild have from tables.

        Raises:
            RunFailed: a value does not fit, or Spark could not compute it.
        """
        moved = {m.operator for m in self._found.operators if m is not None}
        # The rows of one view are retracted while the state of its operator is read.
        along: dict[int, ViewSchema] = {}
        for view in self._retracted:
            if view.operator not in moved or view.operator in along:
                self._move(self._plans(view.operator, None, None, back=view), view)
            else:
                along[view.operator] = view
        for node, migration in zip(self._flow.operators, self._found.operators, strict=True):
            if migration is None:
                self._made_anew(node, *rows)
            else:
                back = along.get(migration.operator)
                done = self._move(self._plans(migration.operator, node, migration, back=back), back)
                before = self._last.operators[migration.operator]
                self._states.append(state_after(before, migration, done))
                self._given.append([file for m in done for file in m.inserted])

    def snapshot(self) -> Snapshot:
        """Return the snapshot of the version to publish."""
        last = self._last
        views = {view.name: self._of_view(view) for view in self._flow.views}
        return replace(
            last,
            version=self._version,
            plan=self._flow.fingerprint,
            operators=tuple(self._states),
            changes=views.pop("", ViewVersion()).changes,
            counters={**count_tasks((), last), "late": 0, "waiting": self._count_waiting()},
            created=datetime.now(UTC).isoformat(timespec="milliseconds"),
            late=(),
            begun=self._version,
            plan_before=last.plan,
            retractions=tuple(self._retractions.get("", ())),
            views=views,
        )

    def _of_view(self, view: FlowView) -> ViewVersion:
        """Return the part of the version for a view; an empty one for an unchanged view."""
        if view.name not in self._new:
            return ViewVersion(begun=self._last.of_view(view.name).begun)
        retractions = tuple(self._retractions.get(view.name, ()))
        return ViewVersion(tuple(self._given[view.operator]), self._version, retractions)

    def _count_waiting(self) -> int:
        """Return the number of pending groups, without those of dropped operators."""
        storage = self._store.state
        pending = (state[PENDING] for state in self._states)
        trees = (tree_of(storage, runs) for runs in pending if runs)
        return sum(part.num_rows for tree in trees for part in tree.scan(columns=[]))

    # --- from stored state -----------------------------------------------------------------------

    def _plans(
        self,
        old: int,
        node: Node | None,
        migration: Migration | None,
        *,
        back: ViewSchema | None,
    ) -> list[MigrationPlan]:
        """Return one task per hash range that has work.

        `back` is a view over the old operator whose rows are retracted.
        """
        spec = None if node is None else operator_of(node).groups
        state = self._last.operators[old]
        final = node is not None and self._flow.shows(node.id)
        shown = () if back is None else back.columns
        ranges = (partition_range(p, self._partitions) for p in range(self._partitions))
        plans = (
            MigrationPlan(
                checkpoint=str(self._store.folder),
                operator=old if node is None else node.id,
                version=self._version,
                low=low,
                high=high,
                state=state.within(low, high),
                spec=spec,
                migration=migration,
                columns=() if node is None else self._columns(node),
                final=final,
                retraction_columns=tuple((c.source, f"c{i}") for i, c in enumerate(shown)),
            )
            for low, high in ranges
        )
        return [plan for plan in plans if not plan.idle]

    def _columns(self, node: Node) -> Columns:
        """Return the columns of the file with all rows of an operator; none if nothing reads it."""
        shown = any(view.operator == node.id for view in self._new.values())
        ordinals = self._flow.change_columns(node.id)
        if not shown and node.id not in self._found.fed:
            return ()
        return tuple((node.columns[o], f"c{i}") for i, o in enumerate(ordinals))

    def _move(
        self, plans: Sequence[MigrationPlan], back: ViewSchema | None
    ) -> list[MigrationResult]:
        done = self._executor.migrate(plans)
        if back is not None:
            files = [file for moved in done for file in moved.retracted]
            self._retractions[back.name] = files
        return done

    # --- from the operators below -----------------------------------------------------------------

    def _made_anew(
        self, node: Node, rows: Mapping[int, Rows], tables: Mapping[int, BranchInput[Rows]]
    ) -> None:
        """Build the state of an operator from all its input rows."""
        inputs = [rows[node.id]] if node.id in rows else []
        branches = [tables[node.id]] if node.id in tables else []
        branch_rows = map(self._below(node), node.branches)
        branches += [part for part in branch_rows if part is not None]
        operator = operator_of(node)
        job = OperatorJob(
            node=node,
            operator=operator,
            checkpoint=str(self._store.folder),
            partitions=self._partitions,
            state=OperatorState(),
            version=self._version,
            emission=ALL,
            columns=self._columns(node),
            final=self._flow.shows(node.id),
            initial_groups=self._executor.initial_groups(operator.spec),
        )
        result = self._executor.run(job, inputs, branches)
        self._states.append(result.state)
        self._given.append(changes_of([result]))

    def _below(self, node: Node) -> Callable[[Branch], BranchInput[Rows] | None]:
        """Return a function from a branch to its rows: all rows that the operator below shows.

        It returns None for a branch from a table, and if there are no rows.
        """

        def rows(branch: Branch) -> BranchInput[Rows] | None:
            """Return the rows of the operator below; None if it shows none."""
            if not isinstance(branch.origin, OperatorOrigin):
                return None
            below = self._flow.operators[branch.origin.operator]
            paths = [self._store.changes.path(f.name) for f in self._given[below.id]]
            if not paths:
                return None
            return self._executor.changes(below, node, branch, paths, Lateness())

        return rows
