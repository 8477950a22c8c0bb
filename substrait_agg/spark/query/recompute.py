"""Compute the views of a checkpoint again, in one batch over all rows that a version has read.

`state verify --deep` compares the views with those of the version.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO

from pyspark.sql import SparkSession

from substrait_agg.bind.plan.table_sources import find_table
from substrait_agg.commit.documents.plan_document import PlanDocument
from substrait_agg.commit.documents.snapshot import InputPlace, Snapshot
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.errors import InputRefused, RunFailed
from substrait_agg.flow.graph.graph import OperatorOrigin, TableOrigin
from substrait_agg.flow.graph.nodes import Flow, Node
from substrait_agg.flow.passes.relations import WIDTH
from substrait_agg.functions.aggregates.accumulators import WeightKind
from substrait_agg.operator.common.names import PENDING
from substrait_agg.operator.registry import operator_of
from substrait_agg.refresh.checks import RunConditions, not_recomputable
from substrait_agg.refresh.ownership import select_views, tables_read
from substrait_agg.spark.execution.task_runner import ARROW_ROWS, HANDED_OVER
from substrait_agg.spark.execution.worker_python import check_worker_python
from substrait_agg.spark.executors.spark_executor import SparkExecutor
from substrait_agg.spark.inputs.inputs import Inputs
from substrait_agg.spark.inputs.source_identity import input_locations
from substrait_agg.spark.query.document import plan_document
from substrait_agg.spark.query.microbatch import MicroBatches
from substrait_agg.spark.query.static_tables import with_contents
from substrait_agg.spark.refresh.files_so_far import FilesSoFar
from substrait_agg.spark.refresh.whole_input import with_sizes
from substrait_agg.spark.session.errors import SPARK_ERRORS, batch_failed
from substrait_agg.spark.session.session import (
    PARTITIONS,
    active_session,
    default_partitions,
    get_session,
)
from substrait_agg.spark.sources.open import weight_kind
from substrait_agg.spark.sources.readers import check_exists
from substrait_agg.spark.sources.specs import SourceSpec, Table, as_spec
from substrait_agg.tools.verify.recomputed import Recomputed

_NOTHING: tuple[str, ...] = ()


class Recomputation:
    """Computes views of a checkpoint again; a `Recompute`.

    Args:
        store: the checkpoint.
        sources: the SPEC of tables by name.
        log: as `spark_log` of `run`.

    Raises:
        UsageError: a SPEC is not valid.
        InputRefused: SOURCE_UNKNOWN: the checkpoint has no such table.
    """

    def __init__(
        self, store: Checkpoint, sources: Mapping[str, str], log: IO[bytes] | None = None
    ) -> None:
        self._store, self._log = store, log
        last = store.newest_snapshot() if sources else None
        tables = () if last is None else store.document_of(last.plan).inputs
        names = tuple(dict.fromkeys(schema.table for schema in tables))
        self._specs = {_table(name, names): as_spec(spec) for name, spec in sources.items()}

    @contextmanager
    def __call__(
        self, flow: Flow, version: Snapshot, document: PlanDocument
    ) -> Iterator[Recomputed]:
        """Provide the views of a version, computed again; they are deleted in the end."""
        reasons = self._view_reasons(flow, version, document)
        part, operators = _without(flow, reasons)
        if not part.views:
            yield Recomputed(None, _NOTHING, part, operators, reasons)
            return
        with tempfile.TemporaryDirectory(prefix="substrait-agg-verify-") as folder:
            store: Checkpoint | None = None
            try:
                session = get_session(log=self._log)
                reasons |= self._static_reasons(part, version, session)
                part, operators = _without(flow, reasons)
                if part.views:
                    store = Checkpoint(f"{folder}/checkpoint")
                    self._compute(part, version, store, session)
            except (InputRefused, RunFailed, *SPARK_ERRORS) as error:
                failed = batch_failed(error) if isinstance(error, SPARK_ERRORS) else error
                why = f"it cannot be computed again ({failed.message})"
                reasons |= {view.name: why for view in part.views}
                store, part = None, select_views(flow, ())[0]
            views = tuple(view.name for view in part.views)
            yield Recomputed(store if views else None, views, part, operators, reasons)

    def _view_reasons(
        self, flow: Flow, version: Snapshot, document: PlanDocument
    ) -> dict[str, str]:
        """Return the views that cannot be computed again, and why."""
        reasons = {
            view.name: list(self._reasons(select_views(flow, [view.name])[0], version, document))
            for view in flow.views
        }
        return {view: "; ".join(dict.fromkeys(found)) for view, found in reasons.items() if found}

    def _reasons(self, flow: Flow, version: Snapshot, document: PlanDocument) -> Iterator[str]:
        """Yield why a flow cannot be computed again."""
        for node in flow.operators:
            try:
                operator_of(node)
            except KeyError as error:
                yield f"the user-defined measure {error} is not registered here"
        operators = range(len(flow.operators))
        tables = tables_read(flow, operators)
        unreadable: dict[Table, str] = {}
        for table in sorted(tables - self._specs.keys()):
            name = ".".join(table)
            unreadable[table] = f"--source {name}=... is not given"
        if not unreadable:
            unreadable = self._unreadable(flow, version, document)
        conditions = RunConditions(
            bool(document.watermarks or document.forget),
            any(state[PENDING] for state in version.operators),
            unreadable,
        )
        yield from (o.reason for o in not_recomputable(flow, operators, conditions))

    def _unreadable(
        self, flow: Flow, version: Snapshot, document: PlanDocument
    ) -> dict[Table, str]:
        """Return the tables whose rows cannot be read as the version has read them, and why."""
        specs = self._sources(flow)
        places, now = _places(version), {p.table: p for p in input_locations(specs)}
        files = FilesSoFar(self._store, flow, specs, version).unreadable()
        unreadable: dict[Table, str] = {}
        for table, spec in specs.items():
            name = ".".join(table)
            if name not in places or places[name].place != now[name].place:
                unreadable[table] = "it was read from another location"
            elif spec.static != (name in document.static):
                unreadable[table] = "it was read with another static= than is given"
            elif name in files:
                unreadable[table] = files[name]
        for node in () if unreadable else flow.operators:
            if node.early != "quarantine" and node.weight != _input_weight(flow, node, specs):
                for table in tables_read(flow, [node.id]):
                    unreadable[table] = "it was read with other options for changes than are given"
        return unreadable

    def _sources(self, flow: Flow) -> dict[Table, SourceSpec]:
        tables = sorted(tables_read(flow, range(len(flow.operators))))
        return {table: self._specs[table] for table in tables}

    def _static_reasons(
        self, flow: Flow, version: Snapshot, session: SparkSession
    ) -> dict[str, str]:
        """Return the views with static tables that have other rows now."""
        specs, places = self._sources(flow), _places(version)
        for table, spec in specs.items():
            check_exists(spec, ".".join(table))
        now = with_contents(input_locations(specs), specs, flow, self._store, session)
        static = {".".join(table) for table, spec in specs.items() if spec.static}
        changed = {
            p.table for p in now if p.table in static and not places[p.table].same_content(p)
        }
        return {
            view.name: f"the static table {table} has changed since it was read"
            for view in flow.views
            for table in changed
            if tuple(table.split(".")) in self._sources(select_views(flow, [view.name])[0])
        }

    def _compute(
        self, flow: Flow, version: Snapshot, store: Checkpoint, session: SparkSession
    ) -> None:
        """Compute a flow in one batch over all rows that a version has read."""
        check_worker_python(session)
        specs = self._sources(flow)
        partitions = default_partitions(session)
        session.conf.set(PARTITIONS, str(partitions))
        session.conf.set(ARROW_ROWS, str(HANDED_OVER))
        with active_session(session):
            inputs = Inputs(session, flow, specs, store.changes)
            inputs.check_static_files()
            store.create(plan_document(flow))
            files = FilesSoFar(self._store, flow, specs, version).read()
            found = {table: with_sizes(read) for table, read in files.items()}
            rows, tables = inputs.rows_of_files(found, range(len(flow.operators)))
            batches = MicroBatches(flow, store, SparkExecutor(session), partitions, lambda _: None)
            batches.run(rows, tables=tables)


def _without(flow: Flow, views: Mapping[str, str]) -> tuple[Flow, tuple[int, ...]]:
    return select_views(flow, [view.name for view in flow.views if view.name not in views])


def _places(version: Snapshot) -> dict[str, InputPlace]:
    return {place.table: place for place in version.inputs}


def _table(name: str, tables: tuple[str, ...]) -> Table:
    """Return the table of a checkpoint that a name means."""
    table = find_table(name, (tuple(table.split(".")) for table in tables))
    if table is None:
        raise InputRefused(
            "SOURCE_UNKNOWN",
            f"the checkpoint has no table for the source {name}; it reads {', '.join(tables) or 'no table'}",
            help="use the name of one of these tables",
        )
    return table


def _input_weight(flow: Flow, node: Node, specs: Mapping[Table, SourceSpec]) -> WeightKind:
    """Return what is known about the weights of the input of an operator with some sources."""
    kinds: list[WeightKind] = ["append_only"]
    for branch in node.branches:
        match branch.origin:
            case TableOrigin(table=table):
                kinds.append(weight_kind(specs[table]))
            case OperatorOrigin(operator=operator):
                kinds.append(flow.operators[operator].output_weight)
    return max(kinds, key=WIDTH.index)
