"""Compare sets of weighted rows: the weights of equal rows are added up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, zip_longest

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
"""Reads rows in pieces; the last column of each is the weight. It may be called several times."""


@dataclass(frozen=True, slots=True)
class DifferingRow:
    """A row that is not as often in one set of rows as in another.

    Attributes:
        text: its columns with their values.
        stored: how often the first set has it.
        computed: how often the second set has it.
    """

    text: str
    stored: int
    computed: int


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between two sets of rows.

    Attributes:
        rows: number of rows that differ.
        shown: some of them.
        compared: number of rows of the first set.
    """

    rows: int
    shown: tuple[DifferingRow, ...]
    compared: int


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


def compare_rows(stored: RowScan, computed: RowScan, most: int) -> Difference:
    """Compare two sets of rows.

    Args:
        stored: the first set.
        computed: the second set.
        most: the most rows to show.
    """
    compared = 0

    def first() -> Iterator[pa.Table]:
        """Yield the rows of the first set, and count them."""
        nonlocal compared
        for part in stored():
            compared += part.num_rows
            yield _signed(part, 1)

    # Where both come in the same order, equal rows cancel out soon.
    pairs = zip_longest(first(), (_signed(part, -1) for part in computed()))
    left = consolidate(part for part in chain.from_iterable(pairs) if part is not None)
    few = left.slice(0, most).drop_columns([WEIGHT])
    if not left.num_rows:
        return Difference(0, (), compared)
    found = [_find(few, scan) for scan in (stored, computed)]
    shown = (
        DifferingRow(texts[0] or texts[1], *(counts[i] for _, counts in found))
        for i, texts in enumerate(zip(*(texts for texts, _ in found), strict=True))
    )
    return Difference(left.num_rows, tuple(shown), compared)


def _signed(rows: pa.Table, sign: int) -> pa.Table:
    weights = rows.column(WEIGHT).to_numpy()
    return comparable_rows(rows.columns[:-1], pa.array(sign * weights))


def _find(few: pa.Table, scan: RowScan) -> tuple[list[str], list[int]]:
    """Return the text of some rows in a set, empty for one that it does not have, and how often it has each."""
    texts, counts = [""] * len(few), [0] * len(few)
    sought = few.append_column(WEIGHT, pa.array(np.zeros(len(few), np.int64)))
    for part in scan():
        rows = pa.concat_tables([sought, _signed(part, 1)])
        numbered = rows.append_column("at", pa.array(np.arange(len(rows))))
        groups = numbered.group_by(few.column_names).aggregate(
            [("at", "min"), ("at", "max"), (WEIGHT, "sum")]
        )
        places = [groups.column(f"at_{end}").to_numpy() for end in ("min", "max")]
        hits = np.flatnonzero((places[0] < len(few)) & (places[1] >= len(few)))
        of_part = _row_texts(part.drop_columns([WEIGHT]).take(pa.array(places[1][hits] - len(few))))
        sums = groups.column(f"{WEIGHT}_sum").to_numpy()[hits]
        for at, text, count in zip(places[0][hits], of_part, sums, strict=True):
            texts[at], counts[at] = text, counts[at] + int(count)
    return texts, counts


def _row_texts(rows: pa.Table) -> list[str]:
    """Return the columns and values of each row as text."""
    cells = [pc.utf8_slice_codeunits(c, 0, MOST_CHARACTERS).to_pylist() for c in cell_texts(rows)]
    return [
        ", ".join(f"{name}={cell}" for name, cell in zip(rows.column_names, row, strict=True))
        for row in zip(*cells, strict=True)
    ]
