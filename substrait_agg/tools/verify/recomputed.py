"""Compare the views and the state of a version with the same, computed again from the sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from substrait_agg.commit.documents.flow_document import parse_flow
from substrait_agg.commit.documents.plan_document import PlanDocument
from substrait_agg.commit.documents.snapshot import OperatorState, Snapshot
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.view.view import View
from substrait_agg.errors import StateRefused
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.functions.aggregates.accumulators import MET
from substrait_agg.functions.numbers.stored_digits import FIXED, fit
from substrait_agg.operator.common.names import CLOSED, GROUP, PENDING, WEIGHT
from substrait_agg.operator.common.protocol import StatefulOperator
from substrait_agg.operator.common.spec import OperatorSpec
from substrait_agg.operator.registry import operator_of
from substrait_agg.state.arrangement import Arrangement, ArrangementLayout
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.storage import Storage
from substrait_agg.state.tree import KeyedLayout, KeyedTree
from substrait_agg.tools.checks.findings import CAUGHT, FindingCollector
from substrait_agg.tools.checks.rows import Difference, RowScan, compare_rows

MOST_SHOWN = 10
"""Differing rows of a view, or of a tree, that are shown."""

_NO_FLOW = "no action is needed; for this check, start a new --checkpoint"
_NOT_DONE = "no action is needed: the other checks of state verify cover these files"
_UNCOMPARED = {"dead", "chain", "cum"}
"""Columns of runs that depend on the batches in which rows have come."""


@dataclass(frozen=True, slots=True)
class Recomputed:
    """Views that are computed again, in a checkpoint of their own.

    Attributes:
        store: that checkpoint; None if no view can be computed again.
        views: the names of its views.
        flow: its operators.
        operators: the id that each of these operators has in the checkpoint that is verified.
        reasons: the views that cannot be computed again, and why.
    """

    store: Checkpoint | None
    views: tuple[str, ...]
    flow: Flow
    operators: tuple[int, ...]
    reasons: Mapping[str, str]


Recompute = Callable[[Flow, Snapshot, PlanDocument], AbstractContextManager[Recomputed]]
"""Computes the views of a flow again, from the rows that a version has read."""


def check_recomputed(
    checkpoint: Checkpoint,
    flow: Flow,
    version: tuple[Snapshot, PlanDocument],
    recompute: Recompute,
    path: str,
    findings: FindingCollector,
) -> int:
    """Compare a version with the same, computed again; return the number of rows that were compared.

    Args:
        checkpoint: its runs are undamaged.
        flow: the operators of the version.
        version: the newest version, and its plan.
        recompute: computes it again.
        path: path of the snapshot, for findings.
        findings: takes an error per row that differs, and a note per view that cannot be compared.
    """
    done = 0
    with recompute(flow, *version) as again:
        for view, reason in again.reasons.items():
            findings.note("DEEP_NOT_CHECKED", path, f"{_label(view)}: {reason}", _NOT_DONE)
        if again.store is None:
            return 0
        try:
            for where, stored, computed in _pairs(checkpoint, version[0], again, again.store):
                found = compare_rows(stored, computed, MOST_SHOWN)
                _report(where, found, path, findings)
                done += found.compared
        except StateRefused as error:
            if error.code != "VERSION_EXPIRED":
                raise
            message = "a run has deleted the state of the version during the check"
            findings.note("DEEP_NOT_CHECKED", path, message, "run the check again")
    return done


def flow_of(document: PlanDocument, path: str, findings: FindingCollector) -> Flow | None:
    """Return the flow of a checkpoint; None with a note if the document has none to read."""
    message = "the checkpoint was begun by a release that did not store the operators"
    try:
        if document.flow:
            return parse_flow(document.flow)
    except CAUGHT as error:
        message = f"the operators cannot be read, another release has written them ({error})"
    findings.note("DEEP_NOT_CHECKED", path, message, _NO_FLOW)
    return None


def _label(view: str) -> str:
    return f"the view {view}" if view else "the view"


def _pairs(
    checkpoint: Checkpoint, version: Snapshot, again: Recomputed, computed: Checkpoint
) -> Iterator[tuple[str, RowScan, RowScan]]:
    """Yield what is compared: its name, the stored rows and the computed ones."""
    for name in again.views:
        views = View(checkpoint, name), View(computed, name)
        yield (
            _label(name),
            partial(_view_rows, views[0], version.version),
            partial(_view_rows, views[1], None),
        )
    last = computed.newest_snapshot()
    if last is not None:
        kept = tuple(version.operators[ordinal] for ordinal in again.operators)
        states = (checkpoint.state, kept), (computed.state, last.operators)
        yield from state_pairs(again.flow, again.operators, *states)


States = tuple[Storage, Sequence[OperatorState]]
"""The states of the operators of a flow, and where their runs are."""


def state_pairs(
    flow: Flow, operators: Sequence[int], stored: States, computed: States
) -> Iterator[tuple[str, RowScan, RowScan]]:
    """Yield the trees of two states: a name, the rows of the first and those of the second.

    Args:
        flow: the operators.
        operators: the numbers by which the names mean them.
        stored: the first states.
        computed: the second states.
    """
    for node, ordinal in zip(flow.operators, operators, strict=True):
        operator, kind = operator_of(node), node.describe().kind
        for tree in operator.state_schema():
            if tree not in (PENDING, CLOSED):
                scans = (
                    partial(_tree_rows, storage, operator, states[node.id], tree)
                    for storage, states in (stored, computed)
                )
                yield f"{tree} of operator {ordinal} ({kind})", *scans


def _view_rows(view: View, version: int | None) -> Iterator[pa.Table]:
    for batch in view.to_reader(version):
        yield _each_once(pa.Table.from_batches([batch]))


def _each_once(rows: pa.Table) -> pa.Table:
    return rows.append_column(WEIGHT, pa.array(np.ones(rows.num_rows, np.int64)))


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
    if (
        tree == GROUP
        and isinstance(spec, OperatorSpec)
        and any(a.kind == MET for a in spec.accumulators)
    ):
        omitted = {*omitted, FIXED}
    for part in scan if runs else ():
        yield _each_once(part.select([n for n in part.column_names if n not in omitted]))


def _report(where: str, found: Difference, path: str, findings: FindingCollector) -> None:
    for row in found.shown:
        message = (
            f"{where} has {row.stored} times, and should have {row.computed} times: {row.text}"
        )
        findings.fault("DEEP_DIFFERS", path, message)
    if found.rows > len(found.shown):
        message = f"{where} differs in {found.rows} rows; {len(found.shown)} of them are shown"
        findings.fault("DEEP_DIFFERS", path, message)
