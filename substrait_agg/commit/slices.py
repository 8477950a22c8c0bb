"""Delta rows made ready for a step: in the types of the state, with every column that a step reads."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from substrait_agg.flow.graph import COMPUTED
from substrait_agg.operator.names import POSITION, WEIGHT
from substrait_agg.operator.spec import OperatorSpec, TreeSpec


def with_key_types(batch: pa.RecordBatch, spec: OperatorSpec) -> pa.RecordBatch:
    """Rows whose keys have the types of the state."""
    for i, wanted in enumerate(spec.keys):
        ordinal = batch.schema.get_field_index(f"k{i}")
        column = batch.column(ordinal)
        if column.type != wanted:
            batch = batch.set_column(ordinal, f"k{i}", column.cast(wanted))
    return batch


def seed_rows(seeds: Sequence[tuple[int, int]], spec: OperatorSpec) -> pa.Table:
    """The rows of groups that are always shown: keys are null but for the set index."""
    columns = {"hash": pa.array([h for h, _ in seeds], pa.uint64())}
    for i, type_ in enumerate(spec.keys):
        columns[f"k{i}"] = pa.nulls(len(seeds), type_)
    if spec.keys:
        columns[f"k{len(spec.keys) - 1}"] = pa.array([i for _, i in seeds], spec.keys[-1])
    return pa.table(columns)


def complete(table: pa.Table, spec: OperatorSpec) -> pa.Table:
    """The table with every column that a step reads; those missing add nothing."""
    wanted = ["w_0"]
    for i, accumulator in enumerate(spec.accumulators):
        if accumulator.tree >= 0:
            continue
        wanted += [f"b{i}"] if accumulator.floating else []
        if not any(n == f"a{i}" or n.startswith(f"a{i}_") for n in table.column_names):
            wanted += (
                [f"a{i}_0_0", f"a{i}_1_0", f"a{i}_2_0"]
                if accumulator.kind == "decimal"
                else [f"a{i}_0"]
            )
    for name in wanted:
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
    if tree.present >= 0 and f"x{tree.present}" not in table.column_names:
        nulls = pa.nulls(table.num_rows, pa.bool_())
        table = table.append_column(f"x{tree.present}", nulls)
    return table
