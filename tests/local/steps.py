"""Linear steps, late rows and input rows of operators on Arrow tables, as `substrait_agg.spark.inputs` on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from substrait_agg.bind.bound import Call
from substrait_agg.evaluation.hashes import normalise
from substrait_agg.files.filesystem import FileSystem
from substrait_agg.files.locations import Location
from substrait_agg.flow.graph.graph import Branch, FilterStep, Step, TableOrigin, UnnestStep
from substrait_agg.flow.graph.nodes import Node
from substrait_agg.flow.passes.upserts import output_names
from substrait_agg.operator.common.completeness import KeyBound, complete, instants
from substrait_agg.operator.common.names import PORT, TIME, WEIGHT
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.runtime.left_out import Lateness
from substrait_agg.spark.inputs.linear_steps import FOREVER, is_hop
from tests.local.evaluation import evaluate, hop_windows, whole

ROW = "__row"
"""The number of the row in its origin, which steps pass on."""
PASSED_ON = (WEIGHT, TIME, ROW)


@dataclass
class ArrowBranch:
    """The rows of one branch in one batch, without late rows: a `BranchInput`.

    Attributes:
        table: name of the table that the rows come from.
        prepared: the input rows of the operator.
        late: the late rows as their source delivered them, with their weights.
    """

    table: str
    prepared: pa.Table
    late: pa.Table

    def count(self) -> int:
        """Return the number of late rows."""
        return int(self.late.num_rows)

    def rows(self) -> pa.Table:
        """Return the late rows."""
        return self.late


def branch_rows(
    node: Node,
    branch: Branch,
    rows: pa.Table,
    lateness: Lateness,
    table: str = "",
    names: Sequence[str] = (),
) -> ArrowBranch:
    """Apply the steps of a branch and leave out late rows.

    Args:
        node: the operator.
        branch: the branch to it.
        rows: ``c0``, ``c1``, ..., the weight, and the event time if there is one.
        lateness: the tests for late rows.
        table: the table that the rows come from.
        names: its columns.
    """
    numbered = rows.append_column(ROW, pa.array(np.arange(rows.num_rows)))
    stepped = apply_steps(numbered, branch.steps)
    late = _late(node, branch, stepped, lateness)
    origin = rows.take(whole(stepped.filter(pa.array(late)), ROW))
    columns = {name: origin.column(f"c{i}") for i, name in enumerate(names)}
    weight = origin.column(WEIGHT) if WEIGHT in rows.column_names else _ones(origin.num_rows)
    left = pa.table({**columns, WEIGHT: weight})
    kept = stepped.filter(pa.array(~late))
    return ArrowBranch(table, prepare(kept, node, branch.port, lateness.limits), left)


def apply_steps(rows: pa.Table, steps: Sequence[Step]) -> pa.Table:
    """Return the rows after filters, projections and lists that become rows."""
    for step in steps:
        if isinstance(step, FilterStep):
            rows = rows.filter(evaluate(step.condition, rows))
            continue
        if isinstance(step, UnnestStep):
            lists = evaluate(step.values, rows)
            rows = rows.take(pc.list_parent_indices(lists))
            place = sum(name not in PASSED_ON for name in rows.column_names)
            rows = rows.add_column(place, f"c{place}", pc.list_flatten(lists))
            continue
        columns = {f"c{i}": evaluate(e, rows) for i, e in enumerate(step.expressions)}
        rows = pa.table(
            {**columns, **{n: rows.column(n) for n in PASSED_ON if n in rows.column_names}}
        )
    return rows


def _late(node: Node, branch: Branch, rows: pa.Table, lateness: Lateness) -> Any:
    """Return a mask of the late rows."""
    keys = node.inputs[branch.port].keys
    late = np.zeros(rows.num_rows, np.bool_)
    for limit in lateness.limits:
        key = keys[limit.key]
        if is_hop(key) and isinstance(key, Call):
            row, windows = hop_windows(key, rows)
            still = np.zeros(rows.num_rows, np.bool_)
            still[row[_open(windows, limit)]] = True
            late |= ~still
        else:
            values = evaluate(key, rows)
            bound = KeyBound(0, limit.end, limit.value)
            late |= complete([values], [bound], rows.num_rows)
    if lateness.idle is not None and TIME in rows.column_names:
        late |= _true(pc.less_equal(whole(rows, TIME), lateness.idle))
    if lateness.ended is not None:
        times, valid = instants(evaluate(node.timed_by[0], rows))
        late |= valid & (times < lateness.ended)
    return late


def _open(windows: pa.Array, limit: KeyBound) -> Any:
    ends, valid = instants(windows.flatten()[1])
    return ~valid | (ends >= limit.value)


def _true(mask: pa.Array) -> Any:
    return pc.fill_null(mask, False).to_numpy(zero_copy_only=False)


def _ones(count: int) -> pa.Array:
    return pa.array(np.ones(count, np.int64))


def prepare(rows: pa.Table, node: Node, port: int, limits: Sequence[KeyBound] = ()) -> pa.Table:
    """Return the input rows of an operator: keys, arguments, weight, time, port."""
    into = node.inputs[port]
    before = sum(len(other.arguments) for other in node.inputs[:port])
    others: dict[str, pa.Array] = {}
    for i, (value, condition) in enumerate(into.arguments, before):
        column = (
            pa.array(np.ones(rows.num_rows, np.bool_)) if value is None else evaluate(value, rows)
        )
        if condition is not None:
            column = pc.if_else(
                pc.fill_null(evaluate(condition, rows), False),
                column,
                pa.nulls(len(column), column.type),
            )
        others[f"x{i}"] = column
    if node.weight != "append_only":
        others[WEIGHT] = (
            whole(rows, WEIGHT) if WEIGHT in rows.column_names else _ones(rows.num_rows)
        )
    if node.timed:
        none = pa.array(np.full(rows.num_rows, FOREVER, np.int64))
        others[TIME] = pc.coalesce(whole(rows, TIME), none) if TIME in rows.column_names else none
    if len(node.inputs) > 1:
        others[PORT] = pa.array(np.full(rows.num_rows, port, np.int8))
    if not others and not into.keys:
        others["x"] = pa.array(np.ones(rows.num_rows, np.bool_))
    sets = node.sets or (tuple(range(len(into.keys))),)
    parts = [_of_set(rows, node, port, limits, index, others) for index in range(len(sets))]
    return pa.concat_tables(parts)


def _of_set(
    rows: pa.Table,
    node: Node,
    port: int,
    limits: Sequence[KeyBound],
    index: int,
    others: dict[str, pa.Array],
) -> pa.Table:
    """Return the input rows of one grouping set."""
    keys = node.inputs[port].keys
    inside = node.sets[index] if node.sets else range(len(keys))
    row, columns = np.arange(rows.num_rows), dict[str, pa.Array]()
    for i, key in enumerate(keys):
        if i in inside and is_hop(key) and isinstance(key, Call):
            row, windows = hop_windows(key, rows)
            for limit in limits:
                if limit.key == i:
                    kept = _open(windows, limit)
                    row, windows = row[kept], windows.filter(pa.array(kept))
            columns[f"k{i}"] = windows
    for i, key in enumerate(keys):
        if f"k{i}" not in columns:
            outside = pa.nulls(len(row), to_arrow(key.type))
            columns[f"k{i}"] = (
                normalise(evaluate(key, rows)).take(pa.array(row)) if i in inside else outside
            )
    columns = {f"k{i}": columns[f"k{i}"] for i in range(len(keys))}
    if node.sets:
        columns[f"k{len(keys)}"] = pa.array(np.full(len(row), index, np.int32))
    taken = {name: column.take(pa.array(row)) for name, column in others.items()}
    return pa.table({**columns, **taken})


class ArrowSteps:
    """The `LinearSteps` of a local executor."""

    def changes(
        self,
        below: Node,
        node: Node,
        branch: Branch,
        paths: Sequence[Location],
        lateness: Lateness,
    ) -> ArrowBranch:
        """Return the changes of another operator as input rows."""
        rows = pa.concat_tables(_change_files(below, paths))
        if below.time is not None:
            times, valid = instants(whole(rows, f"c{below.time}"))
            rows = rows.append_column(TIME, pa.array(times, mask=~valid))
        if not below.passes_late:
            return branch_rows(node, branch, rows, Lateness())
        if not below.is_source:
            return branch_rows(node, branch, rows, lateness)
        origin = below.branches[0].origin
        table = ".".join(origin.table) if isinstance(origin, TableOrigin) else ""
        return branch_rows(node, branch, rows, lateness, table, tuple(output_names(below)))


def _change_files(below: Node, paths: Sequence[Location]) -> Iterator[pa.Table]:
    names = [f"c{i}" for i in range(len(below.types))]
    for path in paths:
        yield FileSystem().map(path, pq.read_table).select([*names, WEIGHT])
