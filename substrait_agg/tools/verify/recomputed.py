"""Compare the views and the state of a version with the same, computed again from the sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from substrait_agg.commit.documents.file_names import snapshot_name
from substrait_agg.commit.documents.flow_document import parse_flow
from substrait_agg.commit.documents.plan_document import PlanDocument
from substrait_agg.commit.documents.snapshot import OperatorState, Snapshot
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.view.view import View
from substrait_agg.errors import StateRefused, UsageError
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.functions.aggregates.accumulators import MET
from substrait_agg.functions.numbers.stored_digits import FIXED, fit
from substrait_agg.operator.common.names import CLOSED, PENDING
from substrait_agg.operator.common.protocol import StatefulOperator
from substrait_agg.operator.common.spec import OperatorSpec
from substrait_agg.operator.registry import operator_of
from substrait_agg.state.arrangement import Arrangement, ArrangementLayout
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.storage import Storage
from substrait_agg.state.tree import KeyedLayout, KeyedTree
from substrait_agg.tools.checks.findings import CAUGHT, FindingCollector
from substrait_agg.tools.checks.rows import RowScan, compare_rows
from substrait_agg.tools.verify.sample import GroupSample
from substrait_agg.tools.verify.view import view_rows

MOST_SHOWN = 10
"""Differing rows of a view, or of a tree, that are shown."""

QUERY_FAILED = "QUERY_FAILED"
"""The code of a query that another engine cannot compute, or that has other columns."""

_VIEW = "the view {}"
_NO_FLOW = "no action is needed; for this check, start a new --checkpoint"
_NOT_DONE = "give --source as for the run if it is missing; the other checks of state verify cover these files"
_UNCOMPARED = {"dead", "chain", "cum"}
"""Columns of runs that depend on the batches in which rows have come."""


@dataclass(frozen=True, slots=True)
class Recomputed:
    """Views that are computed again, in a checkpoint of their own.

    Attributes:
        store: that checkpoint; None if no view can be computed again.
        flow: its views and operators.
        operators: the id that each of these operators has in the checkpoint that is verified.
        reasons: the views that cannot be computed again, and why.
        rows: rows of views that another engine computes, of which a sample is compared.
    """

    store: Checkpoint | None
    flow: Flow
    operators: tuple[int, ...]
    reasons: Mapping[str, str]
    rows: Mapping[str, RowScan] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EngineQuery:
    """A query by which another engine computes a view.

    Attributes:
        engine: ``duckdb`` or ``spark``.
        view: the name of the view, as documents have it.
        text: the query, over the tables of the sources.
    """

    engine: str
    view: str
    text: str


Recompute = Callable[[Flow, Snapshot], AbstractContextManager[Recomputed]]
"""Computes the views of a flow again, from the rows that a version has read."""


def check_recomputed(
    checkpoint: Checkpoint,
    flow: Flow,
    version: Snapshot,
    recompute: Recompute,
    findings: FindingCollector,
) -> int:
    """Compare a version with the same, computed again; return the number of comparisons.

    Args:
        checkpoint: its runs are undamaged.
        flow: the operators of the version.
        version: the newest version.
        recompute: computes it again.
        findings: takes an error per row that differs, and a note per view that cannot be compared.
    """
    path, done = f"snapshots/{snapshot_name(version.version)}", 0
    with recompute(flow, version) as again:
        for view, reason in again.reasons.items():
            findings.note(
                "DEEP_NOT_CHECKED", path, f"{_VIEW.format(view).rstrip()}: {reason}", _NOT_DONE
            )
        try:
            for where, stored, computed in _pairs(checkpoint, version, again):
                rows, shown = compare_rows(stored, computed, MOST_SHOWN)
                done += 1
                for row in shown:
                    findings.fault("DEEP_DIFFERS", path, f"{where} {row}")
                if rows > MOST_SHOWN:
                    more = f"differs in {rows} rows; {MOST_SHOWN} of them are shown"
                    findings.fault("DEEP_DIFFERS", path, f"{where} {more}")
        except UsageError as error:
            if error.code != QUERY_FAILED:
                raise
            findings.fault(error.code, path, error.message, error.help)
        except StateRefused:
            if version.version >= checkpoint.retention_state().state_from:
                raise
            message = "a run has deleted the state of the version during the check"
            findings.note("DEEP_NOT_CHECKED", path, message, "run the check again")
    return done


def flow_of(document: PlanDocument, path: str, findings: FindingCollector) -> Flow | None:
    """Return the flow of a checkpoint; None with a note if the document has none to read."""
    try:
        return parse_flow(document.flow)
    except CAUGHT as error:
        message = f"the operators cannot be read, another release has written them ({error})"
        findings.note("DEEP_NOT_CHECKED", path, message, _NO_FLOW)
        return None


def _pairs(
    checkpoint: Checkpoint, version: Snapshot, again: Recomputed
) -> Iterator[tuple[str, RowScan, RowScan]]:
    """Yield what is compared: its name, the stored rows and the computed ones."""
    for name, computed in again.rows.items():
        yield from _sampled_pair(View(checkpoint, name), version.version, computed)
    last = None if again.store is None else again.store.newest_snapshot()
    if again.store is None or last is None:
        return
    sides = ((checkpoint, version), (again.store, last))
    for view in again.flow.views:
        rows = [partial(view_rows, View(store, view.name), of.version) for store, of in sides]
        yield _VIEW.format(view.name).rstrip(), rows[0], rows[1]
    of_version = tuple(version.operators[ordinal] for ordinal in again.operators)
    states = (checkpoint.state, of_version), (again.store.state, last.operators)
    yield from state_pairs(again.flow, again.operators, *states)


def _sampled_pair(
    view: View, version: int, computed: RowScan
) -> Iterator[tuple[str, RowScan, RowScan]]:
    """Yield sampled rows of a view, and the rows of another engine with the same keys."""
    count = sum(part.num_rows for part in view_rows(view, version))
    sample = GroupSample.of(version, count, view.key_columns)
    yield (
        _VIEW.format(view.name).rstrip(),
        lambda: sample.take(view_rows(view, version)),
        lambda: sample.take(_with_types(computed(), view.schema)),
    )


def _with_types(parts: Iterator[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the result of a query with the names and types of the view.

    Raises:
        UsageError: QUERY_FAILED if it has other columns.
    """
    for part in parts:
        try:
            yield part.rename_columns(schema.names).cast(schema)
        except (ValueError, pa.ArrowException) as error:
            columns = ", ".join(f"{column.name} {column.type}" for column in schema)
            raise UsageError(
                QUERY_FAILED,
                f"the result of the query does not have the columns of the view ({error})",
                help=f"let the query return these columns, in this order: {columns}",
                path="--query",
            ) from error


States = tuple[Storage, Sequence[OperatorState]]
"""The states of the operators of a flow, and where their runs are."""


def state_pairs(
    flow: Flow, operators: Sequence[int], *states: States
) -> Iterator[tuple[str, RowScan, RowScan]]:
    """Yield the trees of two states: a name, the rows of the first and those of the second.

    Args:
        flow: the operators.
        operators: the numbers by which the names mean them.
        states: the two states.
    """
    for node, ordinal in zip(flow.operators, operators, strict=True):
        operator, kind = operator_of(node), node.describe().kind
        for tree in operator.state_schema():
            if tree in (PENDING, CLOSED):
                continue
            rows = [partial(_tree_rows, files, operator, of[node.id], tree) for files, of in states]
            yield f"{tree} of operator {ordinal} ({kind})", rows[0], rows[1]


def _tree_rows(
    storage: Storage, operator: StatefulOperator, state: OperatorState, tree: str
) -> Iterator[pa.Table]:
    """Yield the rows of a tree in the columns that depend on the rows of the input alone."""
    layout, runs = operator.state_schema()[tree], state[tree]
    scan: Iterable[pa.Table]
    if isinstance(layout, KeyedLayout):
        rows = KeyedTree(storage, runs, layout.schema, layout.keys).scan()
        scan = (fit(part, layout.schema) for part in rows)
    elif isinstance(layout, ArrangementLayout):
        scan = Arrangement(storage, runs, layout).scan()
    else:
        scan = OrderedTree(storage, runs, layout).scan()
    omitted, spec = _UNCOMPARED, operator.spec
    if isinstance(spec, OperatorSpec) and any(a.kind == MET for a in spec.accumulators):
        omitted = {*omitted, FIXED}
    for part in scan if runs else ():
        yield part.select([n for n in part.column_names if n not in omitted])
