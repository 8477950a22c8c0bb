"""Prepare rows of a table or changes of an operator as input rows on Arrow, without a Spark job.

The rows are those of `linear_steps.prepare` with the hashes of `partial_aggregation.unplaced_rows`,
for operators whose expressions `evaluation` supports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from substrait_agg.bind.bound import Call, Expr
from substrait_agg.bind.rewrite import call_durations
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.tasks.task import MURMUR, OTHER
from substrait_agg.evaluation.columns import refuse_value
from substrait_agg.evaluation.expressions import evaluate, supports
from substrait_agg.evaluation.hashes import can_hash, key_hashes, normalise
from substrait_agg.evaluation.steps import (
    apply_steps,
    argument_values,
    supports_steps,
    whole,
    with_sets,
)
from substrait_agg.evaluation.times import DAY, hop
from substrait_agg.files.locations import Location
from substrait_agg.flow.graph.graph import Branch
from substrait_agg.flow.graph.nodes import Node
from substrait_agg.functions.windows import windows_per_row
from substrait_agg.operator.common.names import PORT, TIME, WEIGHT
from substrait_agg.operator.common.spec import InputSpec
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.plan.types import Type
from substrait_agg.spark.inputs.linear_steps import FOREVER, is_hop
from substrait_agg.spark.types.schema import column_name

_MOST_WINDOWS = 64
"""Windows of one row that are made on the driver: each takes as much memory as the row."""


def can_prepare(types: Sequence[Type], node: Node, branch: Branch, spec: InputSpec) -> bool:
    """Return whether `prepared_rows` gives the rows that Spark would give.

    Args:
        types: types of the columns at the origin of the branch.
        node: the operator that reads the rows.
        branch: the branch to `node`.
        spec: the input of `node`.
    """
    # Spark numbers the rows of a batch by partition.
    expressions = _expressions(node, branch)
    return (
        not spec.by_arrival
        and all(_has_few_windows(key) and not node.sets for key in node.keys if is_hop(key))
        and all(_can_hold(e.type) for e in expressions)
        and all(map(_can_hold, types))
        and all(can_hash(to_arrow(key.type)) for key in node.inputs[branch.port].keys)
        and supports_steps(branch.steps)
        and all(map(supports, expressions))
    )


def _can_hold(type_: Type) -> bool:
    """Return whether values are simple, or structs of simple ones."""
    arrow = to_arrow(type_)
    return not pa.types.is_nested(arrow) or can_hash(arrow)


def _expressions(node: Node, branch: Branch) -> list[Expr]:
    """Return the keys and the arguments of a port; for a hopping window a tumbling one of its size."""
    port = node.inputs[branch.port]
    keys = [
        replace(key, function="tumble", arguments=key.arguments[:2]) if is_hop(key) else key
        for key in port.keys
    ]
    return [*keys, *(e for argument in port.arguments for e in argument if e is not None)]


def _has_few_windows(key: Call) -> bool:
    size, slide = call_durations(key.arguments)[:2]
    return windows_per_row(size, slide) <= _MOST_WINDOWS


def read_changes(
    below: Node, paths: Sequence[Location], in_memory: Mapping[str, pa.Table]
) -> pa.Table:
    """Read change files: columns ``c0``, ``c1``, ..., the weight, and the time if there is one.

    Args:
        below: the operator that made the changes.
        paths: the files.
        in_memory: changes by name of the file that they are kept instead of.

    Raises:
        OSError: a file cannot be read.
    """
    names = [column_name(i) for i in range(len(below.types))]
    fields = [pa.field(n, to_arrow(t)) for n, t in zip(names, below.types, strict=True)]
    schema = pa.schema([*fields, (WEIGHT, pa.int64())])
    tables = []
    for path in paths:
        if path.name in in_memory:
            tables.append(in_memory[path.name].select(schema.names).cast(schema))
            continue
        with pq.ParquetFile(FolderFiles(path.parent).map(path.name)) as file:
            tables.append(file.read(columns=schema.names).cast(schema))
    changes = pa.concat_tables(tables)
    if below.time is None:
        return changes
    time = _micros(changes.column(below.time), below.types[below.time])
    return changes.append_column(TIME, time)


def prepared_rows(rows: pa.Table, node: Node, branch: Branch) -> pa.Table:
    """Return rows as input rows of an operator, for which `can_prepare` is true.

    Args:
        rows: the columns ``c0``, ``c1``, ..., the weight, and the event time if there is one.
        node: the operator.
        branch: the branch to `node`.

    Raises:
        RunFailed: a value cannot be computed, or Spark might fail to compute it.
    """
    rows = apply_steps(rows, branch.steps, carried=(WEIGHT, TIME))
    port, count = node.inputs[branch.port], rows.num_rows
    columns = [whole(rows.column(n)) for n in rows.column_names if n not in (WEIGHT, TIME)]
    first = sum(len(other.arguments) for other in node.inputs[: branch.port])
    prepared = {
        f"k{i}": evaluate(key.arguments[0] if is_hop(key) else key, columns, count)
        for i, key in enumerate(port.keys)
    }
    for i, values in enumerate(argument_values(port.arguments, columns, count), first):
        prepared[f"x{i}"] = values
    if node.weight != "append_only":
        prepared[WEIGHT] = whole(rows.column(WEIGHT))
    if node.timed:
        prepared[TIME] = _time(rows)
    if len(node.inputs) > 1:
        prepared[PORT] = pa.repeat(pa.scalar(branch.port, pa.int8()), count)
    table = pa.table(prepared or {"x": pa.repeat(pa.scalar(True), count)})
    return with_sets(_with_hops(table, port.keys), node)


def _with_hops(rows: pa.Table, keys: Sequence[Expr]) -> pa.Table:
    """Return each row once per hopping window that its time is in; no two keys are such windows."""
    for i, key in enumerate(keys):
        if is_hop(key):
            try:
                ordinals, windows = hop(key, whole(rows.column(f"k{i}")))
            except pa.ArrowInvalid as error:
                raise refuse_value("hop", str(error)) from error
            return rows.take(ordinals).set_column(i, f"k{i}", windows)
    return rows


def _micros(column: pa.ChunkedArray, type_: Type) -> pa.Array:
    """Return dates and timestamps as microseconds since 1970."""
    if type_.kind == "date":
        days = pc.cast(whole(column).view(pa.int32()), pa.int64())
        return pc.multiply_checked(days, pa.scalar(DAY, pa.int64()))
    return whole(column).view(pa.int64())


def _time(rows: pa.Table) -> pa.Array:
    forever = pa.scalar(FOREVER, pa.int64())
    if TIME not in rows.column_names:
        return pa.repeat(forever, rows.num_rows)
    return pc.fill_null(whole(rows.column(TIME)), forever)


def with_hashes(tables: Sequence[pa.Table], spec: InputSpec) -> pa.Table:
    """Return prepared rows with their keys in normal form and the two hashes of the keys."""
    rows = pa.concat_tables(tables, promote_options="default").combine_chunks()
    count = rows.num_rows
    names = [f"k{i}" for i in range(len(spec.keys))]
    keys = [normalise(whole(rows.column(name))) for name in names]
    for name, key in zip(names, keys, strict=True):
        rows = rows.set_column(rows.column_names.index(name), name, key)
    murmur, other = key_hashes(keys, count)
    rows = rows.append_column(MURMUR, pa.array(murmur))
    return rows.append_column(OTHER, pa.array(other))
