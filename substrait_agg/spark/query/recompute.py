"""Compute the views of a checkpoint again, in one batch over all rows that a version has read.

`state verify --deep` compares the views with those of the version.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from substrait_agg.bind.plan.table_sources import find_table
from substrait_agg.commit.documents.snapshot import Snapshot
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.errors import InputRefused, SubstraitAggError, UsageError
from substrait_agg.flow.graph.nodes import Flow, Node, operators_below
from substrait_agg.flow.passes.relations import WIDTH
from substrait_agg.functions.aggregates.accumulators import WeightKind
from substrait_agg.operator.common.names import PENDING
from substrait_agg.operator.registry import operator_of
from substrait_agg.refresh.checks import RunConditions, not_recomputable
from substrait_agg.refresh.ownership import select_views, tables_read
from substrait_agg.runtime.batch.microbatch import MicroBatches
from substrait_agg.runtime.batch.settings import BatchSettings
from substrait_agg.spark.execution.task_runner import ARROW_ROWS, HANDED_OVER
from substrait_agg.spark.execution.worker_python import check_worker_python
from substrait_agg.spark.inputs.inputs import Inputs
from substrait_agg.spark.inputs.source_identity import input_locations
from substrait_agg.spark.query.document import plan_document
from substrait_agg.spark.query.spark_executor import SparkExecutor
from substrait_agg.spark.query.static_tables import changed_tables, with_contents
from substrait_agg.spark.refresh.files_so_far import FilesSoFar, SparkTables
from substrait_agg.spark.session.errors import SPARK_ERRORS, batch_failed
from substrait_agg.spark.session.session import (
    PARTITIONS,
    active_session,
    default_partitions,
    get_session,
)
from substrait_agg.spark.sources.open import weight_kind
from substrait_agg.spark.sources.specs import SourceSpec, Table, as_spec
from substrait_agg.tools.verify.recomputed import Recomputed


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
    def __call__(self, flow: Flow, version: Snapshot) -> Iterator[Recomputed]:
        """Provide the views of a version, computed again; they are deleted in the end."""
        obstacles = {view.name: self.reasons(flow, view.name, version) for view in flow.views}
        reasons = {name: "; ".join(dict.fromkeys(why)) for name, why in obstacles.items() if why}
        names = [name for name, why in obstacles.items() if not why]
        part, operators = select_views(flow, names)
        with tempfile.TemporaryDirectory(prefix="substrait-agg-verify-") as folder:
            store = Checkpoint(f"{folder}/checkpoint") if names else None
            try:
                if store is not None:
                    self._compute(part, version, store)
            except (SubstraitAggError, *SPARK_ERRORS) as error:
                failed = batch_failed(error) if isinstance(error, SPARK_ERRORS) else error
                if isinstance(failed, UsageError):
                    raise
                why = f"it cannot be computed again ({failed.message})"
                reasons, store = reasons | dict.fromkeys(names, why), None
            yield Recomputed(store, part, operators, reasons)

    def reasons(self, flow: Flow, view: str, version: Snapshot) -> list[str]:
        """Return why a view cannot be computed again."""
        part, ids = select_views(flow, [view])
        try:
            list(map(operator_of, part.operators))
        except KeyError as error:
            return [f"the user-defined measure {error} is not registered here"]
        document = self._store.document_of(version.plan)
        operators = range(len(part.operators))
        conditions = RunConditions(
            bool(document.watermarks or document.forget),
            any(version.operators[operator][PENDING] for operator in ids),
            self._unreadable(part, version),
            beside=False,
        )
        return [obstacle.reason for obstacle in not_recomputable(part, operators, conditions)]

    def _unreadable(self, flow: Flow, version: Snapshot) -> dict[Table, str]:
        """Return the tables whose rows cannot be read as the version has read them, and why."""
        specs, missing = self._sources(flow), "--source {}=... is not given"
        tables = tables_read(flow, range(len(flow.operators)))
        if specs.keys() != tables:
            return {t: missing.format(".".join(t)) for t in tables - specs.keys()}
        before = {place.table: place.place for place in version.inputs}
        unreadable: dict[Table, str] = {}
        for node in flow.operators:
            if node.early != "quarantine" and node.weight != _input_weight(flow, node, specs):
                why = "it was read with other options for changes than are given"
                unreadable |= dict.fromkeys(tables_read(flow, [node.id]), why)
        for name, why in FilesSoFar(self._store, flow, specs, version).unreadable().items():
            unreadable[tuple(name.split("."))] = why
        for table, spec in specs.items():
            (now,) = input_locations({table: spec})
            if before.get(now.table) != now.place:
                unreadable[table] = "it was read from another location"
            elif spec.static != (now.table in self._store.document_of(version.plan).static):
                unreadable[table] = "it was read with another static= than is given"
        return unreadable

    def _sources(self, flow: Flow) -> dict[Table, SourceSpec]:
        """Return the given sources of the tables that a flow reads."""
        tables = tables_read(flow, range(len(flow.operators)))
        return {table: spec for table, spec in self._specs.items() if table in tables}

    def files(
        self, flow: Flow, version: Snapshot
    ) -> dict[Table, tuple[SourceSpec, tuple[str, ...]]]:
        """Return the source of each table that a flow reads, and the files that a version has read of it.

        Raises:
            SubstraitAggError: they cannot be read as the version has read them.
        """
        specs = self._sources(flow)
        places = with_contents(input_locations(specs), specs, flow, self._store, None)
        changed_tables(self._store, places, flow, accept=False, evolves=False)
        read = FilesSoFar(self._store, flow, specs, version).read()
        files = {}
        for table, spec in specs.items():
            uris = tuple(file.uri for file in read.get(table, ()))
            if spec.static and spec.format == "parquet":
                uris = tuple(map(str, sorted(Path(spec.location).rglob("*.parquet"))))
            if not uris:
                raise InputRefused(
                    "SOURCE_NOT_FOUND",
                    f"no Parquet file of the table {'.'.join(table)} has been read",
                    help="use state verify without --against",
                )
            files[table] = spec, uris
        return files

    def _compute(self, flow: Flow, version: Snapshot, store: Checkpoint) -> None:
        """Compute a flow in one batch over all rows that a version has read."""
        specs = self._sources(flow)
        session = get_session(log=self._log)
        places = with_contents(input_locations(specs), specs, flow, self._store, session)
        changed_tables(self._store, places, flow, accept=False, evolves=False)
        check_worker_python(session)
        partitions = default_partitions(session)
        session.conf.set(PARTITIONS, str(partitions))
        session.conf.set(ARROW_ROWS, str(HANDED_OVER))
        with active_session(session):
            inputs = Inputs(session, flow, specs, store.changes)
            inputs.check_static_files()
            store.create(plan_document(flow))
            files = FilesSoFar(self._store, flow, specs, version)
            rows, tables = SparkTables(files, inputs, lambda: None).read(range(len(flow.operators)))
            settings = BatchSettings(flow, store, SparkExecutor(session), partitions)
            MicroBatches(settings, lambda _: None).run(rows, tables=tables)


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
    below = (flow.operators[operator].output_weight for operator in operators_below(node))
    tables = (weight_kind(specs[table]) for table in tables_read(flow, [node.id]))
    return max((*below, *tables), key=WIDTH.index, default="append_only")
