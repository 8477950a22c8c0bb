"""The order of the rows of a view: by hash of their key, or by the sort keys of the plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.commit.documents.plan_document import ViewSort
from substrait_agg.state.keys.rows import nested_bytes
from substrait_agg.state.run import HASH_MAX, RunFile

_SPARE = 4
"""How many times as many rows as are needed the first range has, and how much wider each next one is."""


def hash_ranges(files: Sequence[RunFile], rows: int | None) -> Iterator[tuple[int, int]]:
    """Yield ranges of hashes that cover all, ascending, for a reader that stops after some rows.

    Args:
        files: the runs of a tree.
        rows: how many rows the reader needs; None: all.

    Yields:
        The least and the greatest hash of each range.
    """
    total = max(1, sum(file.rows for file in files))
    width = HASH_MAX if rows is None else max(1, HASH_MAX * rows * _SPARE // total)
    low = 0
    while low <= HASH_MAX:
        high = min(HASH_MAX, low + width)
        yield low, high
        low, width = high + 1, width * _SPARE


def sort_rows(table: pa.Table, sorts: tuple[ViewSort, ...]) -> pa.Table:
    """Sort rows: nulls first or last as each key says, NaN above all numbers."""
    if not sorts or not table.num_rows:
        return table
    columns: dict[str, pa.ChunkedArray] = {}
    keys: list[tuple[str, str]] = []
    for i, sort in enumerate(sorts):
        column = table.column(sort.ordinal)
        way = "descending" if sort.descending else "ascending"
        columns[f"null{i}"] = pc.cast(pc.is_null(column), pa.int8())
        keys.append((f"null{i}", "descending" if sort.nulls_first else "ascending"))
        if pa.types.is_floating(column.type):
            columns[f"nan{i}"] = pc.cast(pc.fill_null(pc.is_nan(column), False), pa.int8())
            keys.append((f"nan{i}", way))
        if pa.types.is_boolean(column.type):
            column = pc.cast(column, pa.int8())
        if pa.types.is_nested(column.type):
            column = nested_bytes(column.combine_chunks())
        columns[f"value{i}"] = column
        keys.append((f"value{i}", way))
    return table.take(pc.sort_indices(pa.table(columns), sort_keys=keys))
