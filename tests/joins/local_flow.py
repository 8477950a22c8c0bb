"""Run a whole flow in this process: linear steps on Arrow, one task per operator, no Spark."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from substrait_agg.bind.bound import Expr
from substrait_agg.commit.documents.snapshot import OperatorState
from substrait_agg.commit.hash_ranges import sort_hash
from substrait_agg.commit.tasks.task import run_task
from substrait_agg.commit.tasks.task_plan import TaskPlan
from substrait_agg.evaluation import expressions
from substrait_agg.evaluation.steps import apply_steps, supports_steps, whole, with_sets
from substrait_agg.flow.graph.graph import (
    Branch,
    FeedbackOrigin,
    OperatorOrigin,
    RowsOrigin,
    Step,
    TableOrigin,
)
from substrait_agg.flow.graph.nodes import Flow, Node, Port
from substrait_agg.operator.common.names import PORT, POSITION, WEIGHT
from substrait_agg.operator.common.spec import InputSpec
from substrait_agg.operator.registry import operator_of
from substrait_agg.plan.arrow import by_position, to_arrow
from substrait_agg.state.keys.canonical import canonical
from substrait_agg.state.keys.rows import row_hashes
from substrait_agg.state.run import HASH_MAX
from tests.local import evaluation as with_spark
from tests.local import steps as steps_with_spark

Row = tuple[Any, ...]
Changes = Mapping[str, pa.Table]
"""Per table its changed rows: its columns by name, and ``__weight``."""


class LocalFlow:
    """A flow and its state.

    Attributes:
        view: the rows of the view with their weights: the sum of all changes so far.
    """

    def __init__(self, flow: Flow, folder: Path) -> None:
        self.flow, self.folder = flow, folder
        self.operators = [operator_of(node) for node in flow.operators]
        self.states = [OperatorState() for _ in flow.operators]
        self.version = -1
        self.view: Counter[Row] = Counter()
        for name in ("state", "changes"):
            (folder / name).mkdir(exist_ok=True)

    def batch(self, changes: Changes) -> None:
        """Apply the changes of some tables; the first version also inserts the plan's own rows."""
        self.version += 1
        made: list[pa.Table | None] = []
        for node in self.flow.operators:
            made.append(self._run(node, changes, made))
        last = made[-1]
        if last is not None:
            for *row, weight in _rows(last):
                self.view[tuple(row)] += weight
        self.view = Counter({row: n for row, n in self.view.items() if n})

    def _run(
        self, node: Node, changes: Changes, made: Sequence[pa.Table | None]
    ) -> pa.Table | None:
        final = self.flow.shows(node.id)
        chosen = self.flow.change_columns(node.id)
        operator = self.operators[node.id]
        spec = operator.spec
        plan = TaskPlan(
            checkpoint=str(self.folder),
            node=node.id,
            operator=operator,
            low=0,
            high=HASH_MAX,
            state=self.states[node.id],
            version=self.version,
            columns=tuple((node.columns[o], f"c{i}") for i, o in enumerate(chosen)),
            final=final,
            unaggregated=True,
            initial_groups=() if self.version else _initial_groups(spec),
        )
        rows = self._input(node, changes, made)
        done = run_task(plan, [] if rows is None else rows.to_batches())
        assert not done.misplaced
        self.states[node.id] = done.state
        if not done.changes:
            return None
        names = [*(f"c{i}" for i in range(len(chosen))), WEIGHT]
        tables = [pq.read_table(self.folder / "changes" / f.name) for f in done.changes]
        return pa.concat_tables(tables).select(names)

    def _input(
        self, node: Node, changes: Changes, made: Sequence[pa.Table | None]
    ) -> pa.Table | None:
        parts, before = [], 0
        for number, port in enumerate(node.inputs):
            for branch in port.branches:
                assert branch.port == number
                rows = self._origin(branch, changes, made)
                if rows is not None and rows.num_rows:
                    rows = _stepped(rows, branch.steps)
                    parts.append(_prepared(node, port, number, before, rows))
            before += len(port.arguments)
        if not parts:
            return None
        return pa.concat_tables(parts, promote_options="default").combine_chunks()

    def _origin(
        self, branch: Branch, changes: Changes, made: Sequence[pa.Table | None]
    ) -> pa.Table | None:
        origin = branch.origin
        if isinstance(origin, OperatorOrigin):
            return made[origin.operator]
        if isinstance(origin, RowsOrigin):
            return _written(origin) if self.version == 0 else None
        if isinstance(origin, FeedbackOrigin):
            raise NotImplementedError("this flow has no rounds: use tests.local.run")
        table = changes.get(".".join(origin.table))
        return None if table is None else _read(table, origin)


def _stepped(rows: pa.Table, steps: Sequence[Step]) -> pa.Table:
    if supports_steps(steps):
        try:
            return apply_steps(rows, steps, carried=(WEIGHT,))
        except expressions.ExpressionFailed as failed:
            with_spark.check_left_to_spark(failed)
    return steps_with_spark.apply_steps(rows, steps)


def evaluate(expression: Expr, columns: Sequence[pa.Array], count: int) -> pa.Array:
    """Return the values of an expression; what has no kernel is computed by the shared Spark."""
    if expressions.supports(expression):
        try:
            return expressions.evaluate(expression, columns, count)
        except expressions.ExpressionFailed as failed:
            with_spark.check_left_to_spark(failed)
    rows = pa.table(columns, [f"c{i}" for i in range(len(columns))])
    return with_spark.evaluate(expression, rows)


def _read(table: pa.Table, origin: TableOrigin) -> pa.Table:
    columns = [
        _fields_by_position(whole(table.column(name))).cast(to_arrow(type_))
        for name, type_ in zip(origin.names, origin.types, strict=True)
    ]
    names = [f"c{i}" for i in range(len(columns))]
    return pa.table([*columns, table.column(WEIGHT)], [*names, WEIGHT])


def _fields_by_position(column: pa.Array) -> pa.Array:
    type_ = by_position(column.type)
    return column if column.type == type_ else column.view(type_)


def _written(origin: RowsOrigin) -> pa.Table:
    one = pa.table({"one": [True]})
    rows = [[evaluate(e, [whole(one.column(0))], 1) for e in row] for row in origin.rows]
    columns = [pa.concat_arrays(column) for column in zip(*rows, strict=True)]
    weights = pa.array([1] * len(rows), pa.int64())
    return pa.table([*columns, weights], [*(f"c{i}" for i in range(len(columns))), WEIGHT])


def _prepared(node: Node, port: Port, number: int, before: int, rows: pa.Table) -> pa.Table:
    """Return rows as the exchange gives them."""
    count = rows.num_rows
    columns = [whole(rows.column(i)) for i in range(rows.num_columns - 1)]
    weights = whole(rows.column(WEIGHT))
    made: dict[str, Any] = {
        f"k{i}": canonical(evaluate(key, columns, count)) for i, key in enumerate(port.keys)
    }
    for i, (value, condition) in enumerate(port.arguments, before):
        column = (
            pa.array(np.ones(count, np.bool_)) if value is None else evaluate(value, columns, count)
        )
        if condition is not None:
            mask = evaluate(condition, columns, count).fill_null(False)
            column = column.take(pa.array(np.arange(count), mask=~np.asarray(mask)))
        made[f"x{i}"] = column
    if node.weight != "append_only":
        made[WEIGHT] = weights
    made[POSITION] = pa.array(np.arange(count))
    if len(node.inputs) > 1:
        made[PORT] = pa.array(np.full(count, number, np.int8))
    return _hashed(with_sets(pa.table(made), node))


def _hashed(rows: pa.Table) -> pa.Table:
    """Return prepared rows with the two hashes of their keys in front."""
    keys = [whole(rows.column(name)) for name in rows.column_names if name.startswith("k")]
    hashes = _hashes(keys, rows.num_rows)
    for name, part in (("__x", hashes & np.uint64(0x7FFFFFFF)), ("__m", hashes >> np.uint64(33))):
        rows = rows.add_column(0, name, pa.array(part.astype(np.int32)))
    return rows


def _hashes(keys: Sequence[pa.Array], count: int) -> Any:
    return row_hashes(keys, np.zeros(count, np.uint64)) if keys else np.zeros(count, np.uint64)


def _initial_groups(spec: InputSpec) -> tuple[tuple[int, int], ...]:
    """Return the sort hash and the set of every group that always exists."""
    if spec.is_global or not spec.always:
        return ((0, 0),) if spec.is_global else ()
    nulls = [pa.nulls(len(spec.always), type_) for type_ in spec.keys[:-1]]
    hashes = _hashes([*nulls, pa.array(spec.always, pa.int32())], len(spec.always))
    parts = (hashes >> np.uint64(33)).astype(np.int32), (hashes & np.uint64(0x7FFFFFFF)).astype(np.int32)  # fmt: skip
    return tuple((int(h), n) for h, n in zip(sort_hash(*parts), spec.always, strict=True))


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = (map(_hashable, column.to_pylist()) for column in table.columns)
    return list(zip(*columns, strict=True))


def _hashable(value: Any) -> Any:
    """Return lists and structs as tuples, and NaN as one object: Python's NaN equals only itself."""
    if isinstance(value, float) and math.isnan(value):
        return math.nan
    if isinstance(value, dict):
        value = list(value.values())
    return tuple(map(_hashable, value)) if isinstance(value, list) else value
