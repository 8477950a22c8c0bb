"""Apply linear steps to Arrow rows, and make the input rows of operators."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.evaluation.columns import null_unless
from substrait_agg.evaluation.expressions import evaluate, supports
from substrait_agg.flow.graph.graph import FilterStep, Step, UnnestStep, step_expressions
from substrait_agg.flow.graph.nodes import Argument, Node


def supports_steps(steps: Sequence[Step]) -> bool:
    """Return whether `apply_steps` can apply all steps."""
    return all(supports(e) for step in steps for e in step_expressions(step))


def apply_steps(table: pa.Table, steps: Sequence[Step], *, carried: Sequence[str] = ()) -> pa.Table:
    """Return the rows after the steps.

    Args:
        table: the columns ``c0``, ``c1``, ... in order, and those of `carried`.
        steps: steps for which `supports_steps` is true.
        carried: names of columns that pass through unchanged, such as weights.

    Returns:
        The columns ``c0``, ``c1``, ... after the last step, then those of `carried`.

    Raises:
        RunFailed: a value cannot be computed.
    """
    carried_names = [name for name in table.column_names if name in carried]
    own = [name for name in table.column_names if name not in carried]
    table = table.select([*own, *carried_names])
    for step in steps:
        width = table.num_columns - len(carried_names)
        columns = [whole(table.column(i)) for i in range(width)]
        if isinstance(step, FilterStep):
            table = table.filter(evaluate(step.condition, columns, table.num_rows))
            continue
        if isinstance(step, UnnestStep):
            table = _unnest(table, evaluate(step.values, columns, table.num_rows), width)
            continue
        values = [evaluate(e, columns, table.num_rows) for e in step.expressions]
        names = [*(f"c{i}" for i in range(len(values))), *carried_names]
        table = _table(
            [*values, *(table.column(name) for name in carried_names)], names, table.num_rows
        )
    return table


def _unnest(table: pa.Table, lists: pa.Array, width: int) -> pa.Table:
    """Return a row per element of the lists, with the element after the first `width` columns."""
    elements = pc.list_flatten(lists)
    repeated = table.take(pc.list_parent_indices(lists))
    return repeated.add_column(width, f"c{width}", elements)


def _table(columns: list[pa.Array | pa.ChunkedArray], names: list[str], rows: int) -> pa.Table:
    if columns:
        return pa.table(columns, names=names)
    # A table without columns has no rows, but its rows still count.
    return pa.table({"": pa.nulls(rows)}).select([])


def whole(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    chunks = column.combine_chunks()
    return chunks.combine_chunks() if isinstance(chunks, pa.ChunkedArray) else chunks


def argument_values(
    arguments: Sequence[Argument], columns: Sequence[pa.Array], rows: int
) -> list[pa.Array]:
    """Return the values of arguments, null where their filter is not true.

    A filter of several arguments is evaluated once.
    """
    every, filters, results = pa.repeat(pa.scalar(True), rows), dict[str, pa.Array](), []
    for value, condition in arguments:
        result = every if value is None else evaluate(value, columns, rows)
        if condition is not None:
            text = repr(condition)  # 0.0 and -0.0 are equal, but not the same filter
            if text not in filters:
                filters[text] = pc.fill_null(evaluate(condition, columns, rows), False)
            result = null_unless(filters[text], result)
        results.append(result)
    return results


def with_sets(rows: pa.Table, node: Node) -> pa.Table:
    """Return the rows once per grouping set, with null in the keys outside of the set.

    Rows that have the index of their set already stay as they are.
    """
    if not node.sets or f"k{len(node.keys)}" in rows.column_names:
        return rows
    names, parts = [f"k{i}" for i in range(len(node.keys))], []
    for index, inside in enumerate(node.sets):
        part = rows
        for i, name in enumerate(names):
            if i not in inside:
                place = part.column_names.index(name)
                part = part.set_column(place, name, pa.nulls(part.num_rows, part.field(name).type))
        number = pa.repeat(pa.scalar(index, pa.int32()), part.num_rows)
        parts.append(part.add_column(len(names), f"k{len(names)}", number))
    return pa.concat_tables(parts)
