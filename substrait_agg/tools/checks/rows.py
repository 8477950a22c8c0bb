"""Compare sets of weighted rows: the weights of equal rows are added up."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.state.keys.rows import sortable

ROWS_AT_ONCE = 1 << 22


def comparable_rows(columns: Iterable[pa.ChunkedArray], weights: pa.Array) -> pa.Table:
    """Return rows in types that can be grouped. They are equal where the rows are equal."""
    chunks = [sortable(_whole(column)) for column in columns]
    names = [f"c{i}" for i in range(len(chunks))]
    return pa.table([*chunks, weights], [*names, WEIGHT])


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def consolidate(parts: Iterable[pa.Table]) -> pa.Table:
    """Consolidate rows in pieces: add up weights and leave out rows of weight 0."""
    buffered: list[pa.Table] = [pa.table({WEIGHT: pa.array([], pa.int64())})]
    rows, most = 0, ROWS_AT_ONCE
    for part in parts:
        if not part.num_rows:
            continue
        buffered = [*buffered, part] if rows else [part]
        rows += part.num_rows
        if rows > most:
            buffered = [_collapse(buffered)]
            rows = buffered[0].num_rows
            most = max(ROWS_AT_ONCE, 2 * rows)
    return _collapse(buffered)


def _collapse(parts: list[pa.Table]) -> pa.Table:
    rows = pa.concat_tables(parts)
    if not rows.num_rows:
        return rows
    names = rows.column_names[:-1]
    sums = rows.group_by(names).aggregate([(WEIGHT, "sum")])
    columns = [*(sums.column(name) for name in names), sums.column(f"{WEIGHT}_sum")]
    table = pa.table(columns, rows.column_names)
    return table.filter(pa.array(table.column(WEIGHT).to_numpy() != 0))
