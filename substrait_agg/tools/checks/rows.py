"""Compare sets of weighted rows: the weights of equal rows are added up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.changes.formats.encode import cell_texts
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.state.keys.rows import sortable

ROWS_AT_ONCE = 1 << 22
MOST_CHARACTERS = 80
"""Characters of a value that are shown."""

RowScan = Callable[[], Iterator[pa.Table]]
"""Reads rows in pieces. It may be called several times."""


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


def compare_rows(stored: RowScan, computed: RowScan, most: int) -> tuple[int, list[str]]:
    """Compare stored rows with those that should be stored.

    Returns:
        The number of rows that differ, and at most `most` of them as text.
    """
    # Where both come in the same order, equal rows cancel out soon.
    pairs = zip_longest(sign_rows(stored(), 1), sign_rows(computed(), -1))
    left = consolidate(part for part in chain.from_iterable(pairs) if part is not None)
    few = left.slice(0, most).drop_columns([WEIGHT])
    counted = _find(few, (stored, computed)) if left.num_rows else []
    return left.num_rows, [
        f"has {has} times, and should have {should} times: {text}" for text, has, should in counted
    ]


def sign_rows(parts: Iterable[pa.Table], sign: int) -> Iterator[pa.Table]:
    """Yield rows as `comparable_rows`, each with a weight."""
    for rows in parts:
        yield comparable_rows(rows.columns, pa.array(np.full(rows.num_rows, sign, np.int64)))


def _find(few: pa.Table, scans: Sequence[RowScan]) -> list[list[Any]]:
    """Return the text of each of some rows, and how often each set has it."""
    counted: list[list[Any]] = [["", *(0 for _ in scans)] for _ in range(len(few))]
    for number, scan in enumerate(scans, start=1):
        for part, (comparable,) in ((part, sign_rows([part], 1)) for part in scan()):
            rows = pa.concat_tables([few, comparable.drop_columns([WEIGHT])])
            numbered = rows.append_column("at", pa.array(np.arange(len(rows))))
            ends = [("at", "min"), ("at", "max"), ("at", "count")]
            groups = numbered.group_by(few.column_names).aggregate(ends)
            first, last, counts = (column.to_numpy() for column in groups.columns[-3:])
            hits = np.flatnonzero((first < len(few)) & (last >= len(few)))
            texts = _row_texts(part.take(pa.array(last[hits] - len(few))))
            for at, text, count in zip(first[hits], texts, counts[hits] - 1, strict=True):
                counted[at][0] = text
                counted[at][number] += int(count)
    return counted


def _row_texts(rows: pa.Table) -> list[str]:
    """Return the columns and values of each row as text."""
    cells = [pc.utf8_slice_codeunits(c, 0, MOST_CHARACTERS).to_pylist() for c in cell_texts(rows)]
    named = (
        [f"{name}={cell}" for cell in column]
        for name, column in zip(rows.column_names, cells, strict=True)
    )
    return list(map(", ".join, zip(*named, strict=True)))
