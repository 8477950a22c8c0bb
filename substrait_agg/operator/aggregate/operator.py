"""The operators that keep groups: aggregates, and rows of a view with their weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.flow.graph.graph import COMPUTED
from substrait_agg.operator.aggregate.eviction import closed_schema, most_evicted, to_look_at
from substrait_agg.operator.aggregate.pending import due, most_due, pending_schema
from substrait_agg.operator.aggregate.step import step
from substrait_agg.operator.common.emission import Emission
from substrait_agg.operator.common.names import (
    CLOSED,
    GROUP,
    PENDING,
    POSITION,
    ROWS,
    WEIGHT,
    entries_tree,
)
from substrait_agg.operator.common.protocol import (
    EstimatedWork,
    InitialGroups,
    Layouts,
    OperatorResult,
    Runs,
    StatefulOperator,
    StateReader,
    SumOverflow,
)
from substrait_agg.operator.common.spec import InputSpec, OperatorSpec, TreeSpec
from substrait_agg.operator.measures.row_partials import split_rows
from substrait_agg.operator.numeric.delta import decimal_overflow
from substrait_agg.state.entries import TreeLayout
from substrait_agg.state.run import HASH_MAX
from substrait_agg.state.tree import KeyedLayout


@dataclass(frozen=True, slots=True)
class GroupOperator(StatefulOperator):
    """The operator for groups with accumulators and ordered trees.

    For a multiset the groups are rows with their weights.
    """

    spec: OperatorSpec

    @property
    def groups(self) -> OperatorSpec | None:
        """Return the spec: all groups can be rewritten."""
        return self.spec

    def state_schema(self, *, final: bool = True) -> Layouts:
        """Return the layouts of the group, pending, ordered and closed trees.

        Only the view and returning groups read closed groups.
        """
        spec, keys = self.spec, len(self.spec.keys)
        schema: dict[str, KeyedLayout | TreeLayout] = {
            GROUP: KeyedLayout(spec.layout.schema, keys),
            PENDING: KeyedLayout(pending_schema(spec.keys), keys),
            **{
                entries_tree(i): tree.layout
                for i, tree in enumerate(spec.trees)
                if tree.within is None
            },
        }
        if final or spec.forget == "keep":
            schema[CLOSED] = KeyedLayout(closed_schema(spec), keys)
        return schema

    def receive(
        self, batch: pa.RecordBatch, *, raw: bool, emission: Emission
    ) -> tuple[pa.RecordBatch, int]:
        """Convert rows of the exchange to delta rows."""
        spec = self.spec
        if raw:
            batch = with_masked(batch, spec)
            counted: pa.Array = pa.array(np.ones(batch.num_rows, np.int64))
            # With a guard, rows are split later, once it is known which of them count.
            rows = batch if spec.guard is not None else split_rows(batch, spec)
        else:
            name = ROWS if spec.weight != "append_only" else "w_0"
            counted = batch.column(name)
            rows = batch.drop_columns([ROWS]) if ROWS in batch.schema.names else batch
            if spec.trees:
                rows = rows.append_column(WEIGHT, counted)
            if decimal_overflow(rows, spec):
                raise SumOverflow
        rows = with_key_types(rows, spec)
        if not emission.all:  # the emission rules count input rows
            rows = rows.append_column(ROWS, counted.cast(pa.int64()))
        return rows, pc.sum(counted).as_py() or 0

    def apply(
        self, ports: Sequence[pa.Table], state: StateReader, emission: Emission
    ) -> OperatorResult:
        """Apply a slice; see `operator.aggregate.step.step`."""
        (rows,) = ports
        return step(self.spec, rows, state, emission)

    def expected(
        self, runs: Mapping[str, Runs], emission: Emission, low: int = 0, high: int = HASH_MAX
    ) -> EstimatedWork:
        """Estimate the number of pending groups to emit and of groups to scan for eviction."""
        return EstimatedWork(
            most_due(runs.get(PENDING, ()), emission, low, high),
            most_evicted(runs.get(GROUP, ()), emission, low, high),
        )

    def wake(
        self,
        state: StateReader,
        emission: Emission,
        low: int = 0,
        high: int = HASH_MAX,
        initial_groups: InitialGroups = (),
    ) -> tuple[list[pa.Table], Mapping[str, int]]:
        """Return delta rows for pending groups, candidates for eviction, and initial groups."""
        parts = list(due(state.open_keyed(PENDING), emission, low, high))
        # If all groups are emitted, a step does not look up the pending tree: count here.
        waited = sum(rows.num_rows for rows in parts) if emission.all else 0
        parts += to_look_at(self.spec, state.open_keyed(GROUP), emission, low, high)
        inside = [(hash_, index) for hash_, index in initial_groups if low <= hash_ <= high]
        if inside:
            parts.append(_initial_group_rows(inside, self.spec))
        return [rows for rows in parts if rows.num_rows], {"waiting": -waited}

    def complete(self, parts: Sequence[pa.Table], emission: Emission) -> pa.Table:
        """Concatenate the rows; missing columns add nothing."""
        table = pa.concat_tables(parts, promote_options="default")
        if not emission.all and ROWS not in table.column_names:
            table = table.append_column(ROWS, pa.nulls(table.num_rows, pa.int64()))
        return _with_columns(table, self.spec)

    def list_cleared(self, emission: Emission) -> frozenset[str]:
        """Return the pending tree if all groups are emitted: none waits then."""
        return frozenset({PENDING}) if emission.all else frozenset()


def with_masked(batch: pa.RecordBatch, spec: OperatorSpec) -> pa.RecordBatch:
    """Add the arguments that the exchange left out (`MaskedArgument`)."""
    for masked in spec.masked:
        if f"x{masked.argument}" in batch.schema.names:
            continue
        value = batch.column(f"x{masked.value}")
        holds = batch.column(f"x{masked.condition}").is_valid()
        column = pc.if_else(holds, value, pa.scalar(None, value.type))
        batch = batch.append_column(f"x{masked.argument}", column)
    return batch


def with_key_types(batch: pa.RecordBatch, spec: InputSpec) -> pa.RecordBatch:
    """Cast the keys of rows to the types of the state."""
    for i, type_ in enumerate(spec.keys):
        ordinal = batch.schema.get_field_index(f"k{i}")
        column = batch.column(ordinal)
        if column.type != type_:
            batch = batch.set_column(ordinal, f"k{i}", column.cast(type_))
    return batch


def _initial_group_rows(groups: InitialGroups, spec: OperatorSpec) -> pa.Table:
    """Return rows of the initial groups: keys are null except for the index of the grouping set."""
    columns = {"hash": pa.array([h for h, _ in groups], pa.uint64())}
    for i, type_ in enumerate(spec.keys):
        columns[f"k{i}"] = pa.nulls(len(groups), type_)
    if spec.keys:
        columns[f"k{len(spec.keys) - 1}"] = pa.array([i for _, i in groups], spec.keys[-1])
    return pa.table(columns)


def _with_columns(table: pa.Table, spec: OperatorSpec) -> pa.Table:
    """Return the table with every column that a step reads; missing columns add nothing."""
    names = ["w_0"]
    present = {name.partition("_")[0] for name in table.column_names}
    for i, accumulator in enumerate(spec.accumulators):
        if accumulator.tree is not None:
            continue
        names += [f"b{i}"] if accumulator.floating else []
        if f"a{i}" not in present:
            names += (
                [f"a{i}_0_0", f"a{i}_1_0", f"a{i}_2_0"]
                if accumulator.kind == "decimal"
                else [f"a{i}_0"]
            )
    for name in names:
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(table.num_rows, pa.int64()))
    if spec.trees and WEIGHT not in table.column_names:
        table = table.append_column(WEIGHT, pa.nulls(table.num_rows, pa.int64()))
        if spec.by_arrival:
            table = table.append_column(POSITION, pa.nulls(table.num_rows, pa.int64()))
        for tree in spec.trees:
            if tree.follows is None:
                table = _with_arguments(table, tree)
    return table


def _with_arguments(table: pa.Table, tree: TreeSpec) -> pa.Table:
    for argument, component in zip(tree.arguments, tree.layout.components, strict=True):
        if argument < COMPUTED and f"x{argument}" not in table.column_names:
            type_ = pa.list_(component.type) if tree.elements else component.type
            table = table.append_column(f"x{argument}", pa.nulls(table.num_rows, type_))
    if tree.present is not None and f"x{tree.present}" not in table.column_names:
        nulls = pa.nulls(table.num_rows, pa.bool_())
        table = table.append_column(f"x{tree.present}", nulls)
    return table
