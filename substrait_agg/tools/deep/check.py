"""Compare the state of every operator of the newest version with that of the operators below.

The rows of tables are not stored. Of an operator over tables, only its own parts are compared,
unless the tables can be read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from substrait_agg.commit.documents.flow_document import parse_flow
from substrait_agg.commit.documents.plan_document import PlanDocument
from substrait_agg.commit.documents.snapshot import OperatorState
from substrait_agg.errors import RunFailed
from substrait_agg.flow.graph.graph import Branch, OperatorOrigin, RowsOrigin, TableOrigin
from substrait_agg.flow.graph.nodes import Flow, Node
from substrait_agg.operator.common.completeness import key_bounds
from substrait_agg.operator.registry import operator_of
from substrait_agg.state.storage import Storage
from substrait_agg.tools.checks.findings import CAUGHT, FindingCollector
from substrait_agg.tools.deep.inputs import (
    NotComputable,
    TableReader,
    check_computable,
    port_rows,
    table_rows,
    written_rows,
)
from substrait_agg.tools.deep.outputs import (
    InputRows,
    PortRows,
    StoredTrees,
    output_rows,
    passes_rows_on,
)
from substrait_agg.tools.deep.states import (
    Difference,
    against_input,
    against_itself,
    hashes_of_keys,
)

_NO_FLOW = "no action is needed; for this check, start a new --checkpoint"
_PARTLY = "no action is needed: the other checks of state verify cover these files"


def flow_of(document: PlanDocument, path: str, findings: FindingCollector) -> Flow | None:
    """Return the flow of a checkpoint; None with a note if the document has none to read."""
    if not document.flow:
        message = "the checkpoint was begun by a release that did not store the operators"
        findings.note("DEEP_NOT_CHECKED", path, message, _NO_FLOW)
        return None
    try:
        return parse_flow(document.flow)
    except CAUGHT as error:
        message = f"the operators cannot be read, another release has written them ({error})"
        findings.note("DEEP_NOT_CHECKED", path, message, _NO_FLOW)
        return None


def check_deep(
    flow: Flow,
    storage: Storage,
    states: Sequence[OperatorState],
    path: str,
    findings: FindingCollector,
    tables: TableReader | None = None,
    *,
    watermark: int | None = None,
) -> int:
    """Compare the states of all operators; return the number of comparisons.

    Args:
        flow: the operators.
        storage: where the runs are. Each of them is undamaged.
        states: the state of each operator.
        path: path of the snapshot, for findings.
        findings: takes the findings: an error per difference, a note per part that cannot be compared.
        tables: reads rows of tables again; None: they are not compared.
        watermark: the watermark of the version, in microseconds since 1970; None without one.
    """
    check = _Check(flow, storage, states, tables, watermark)
    done = 0
    for node in flow.operators:
        name = f"operator {node.id} ({node.describe().kind})"
        for comparison in (check.input, check.own, check.hashes):
            try:
                for difference in comparison(node):
                    message = f"{name}: {difference.what} differ in {difference.rows} rows"
                    findings.fault("DEEP_DIFFERS", path, message)
                done += 1
            except NotComputable as reason:
                findings.note("DEEP_NOT_CHECKED", path, f"{name}: {reason}", _PARTLY)
            except (RunFailed, *CAUGHT) as error:
                message = f"{name}: its state cannot be computed again ({error})"
                findings.fault("DEEP_DIFFERS", path, message)
    return done


@dataclass(frozen=True, slots=True)
class _Check:
    """The comparisons of one version."""

    flow: Flow
    storage: Storage
    states: Sequence[OperatorState]
    tables: TableReader | None
    watermark: int | None

    def input(self, node: Node) -> Iterator[Difference]:
        """Compare an operator with the output of the operators below."""
        inputs = partial(self._port, node)
        late = any(map(self._may_be_late, node.branches))
        limits = key_bounds(node.events, self.watermark)
        return against_input(node, self._trees(node), inputs, limits, late=late)

    def own(self, node: Node) -> Iterator[Difference]:
        """Compare the values of an operator with its numbers."""
        return against_itself(node, self._trees(node))

    def hashes(self, node: Node) -> Iterator[Difference]:
        """Compare the hashes of the keys of a join."""
        return hashes_of_keys(node, self._trees(node))

    def _may_be_late(self, branch: Branch) -> bool:
        """Return whether rows of a branch may be late for the operator that reads it."""
        origin = branch.origin
        if isinstance(origin, OperatorOrigin):
            return self.flow.operators[origin.operator].passes_late
        return isinstance(origin, TableOrigin) and not branch.static

    def _trees(self, node: Node) -> StoredTrees:
        try:
            operator = operator_of(node)
        except KeyError as error:
            message = f"the user-defined measure {error} is not registered here"
            raise NotComputable(message) from error
        return StoredTrees(self.storage, operator, self.states[node.id])

    def _port(self, node: Node, number: int) -> InputRows:
        """Return the input rows of a port."""
        branches = [branch for branch in node.branches if branch.port == number]
        if not branches:
            raise NotComputable("the input is not known")
        for branch in branches:
            check_computable(branch.origin.types, node, branch)
        rows: list[pa.Table] = []
        missing = ""
        for branch in branches:
            origin = branch.origin
            if isinstance(origin, RowsOrigin):
                rows += port_rows(node, branch, [written_rows(origin)])
            elif isinstance(origin, TableOrigin):
                rows += port_rows(node, branch, table_rows(origin, self.tables))
            elif isinstance(origin, OperatorOrigin):
                below = self.flow.operators[origin.operator]
                inputs = partial(self._port, below)
                output = output_rows(below, self._trees(below), inputs)
                rows += port_rows(node, branch, output)
                missing = missing or self._find_missing(below, node, inputs)
        return InputRows(rows, missing)

    def _find_missing(self, below: Node, node: Node, inputs: PortRows) -> str:
        """Return which output rows of an operator may be missing for the operator above it."""
        if passes_rows_on(below, inputs):
            return "rows with a null in the key of a join below"
        # Only the view needs the rows of groups that the watermark has closed. The groups above by
        # the same event time are closed, too.
        above = {(key.time_steps, key.end) for key in node.events}
        same = any((key.time_steps, key.end) in above for key in below.events)
        closes = bool(below.events) and not self.flow.shows(below.id)
        return "rows of closed groups" if closes and not same else ""
