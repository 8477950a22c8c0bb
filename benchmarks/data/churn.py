"""Rows that leave: those that are deleted and inserted again, half of them the greatest of their group, and random ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.data.data_sets import ID, LOAD, OP, WEIGHT, ChangeFile, ops
from benchmarks.data.rows import LOAD_ROWS, keyed_rows

Int64s = npt.NDArray[np.int64]


def churn(
    rows: int, groups: int, batch: int, pairs: int, seed: int = 1, *, weighted: bool = False
) -> Iterator[ChangeFile]:
    """Columns g (int64), v (int64), op, id; a batch of kind ``delete``, then one of kind ``insert`` that brings its rows back.

    Args:
        rows: loaded first.
        groups: that they are spread over.
        batch: rows of a batch; twice as many groups must be there.
        pairs: of batches.
        seed: of the random numbers.
        weighted: whether there is a column w too.
    """
    for kind, rows_in in _churned(rows, groups, batch, pairs, seed):
        yield ChangeFile(kind, _weighted(rows_in) if weighted else rows_in)


def with_deletions(
    keys: int, batches: Sequence[tuple[str, int]], seed: int = 1
) -> Iterator[ChangeFile]:
    """Columns k (int64), i (int64), x (float64), op, w, id; a third of the rows of each batch but the first delete earlier ones.

    Args:
        keys: keys are drawn from this many.
        batches: kind and number of rows of each.
        seed: of the random numbers.
    """
    random = np.random.default_rng(seed)
    alive: pa.Table | None = None
    made = 0
    for kind, rows in batches:
        gone = 0 if alive is None else rows // 3
        fresh = rows - gone
        new = keyed_rows(random, random.integers(0, keys, fresh))
        new = new.append_column(ID, pa.array(np.arange(made, made + fresh)))
        made += fresh
        if alive is None:
            parts, alive = [_with_op("insert", new)], new
        else:
            order = random.permutation(alive.num_rows)
            parts = [_with_op("insert", new), _with_op("delete", alive.take(order[:gone]))]
            alive = pa.concat_tables([alive.take(order[gone:]), new])
        yield ChangeFile(kind, _weighted(pa.concat_tables(parts).take(random.permutation(rows))))


def _churned(
    rows: int, groups: int, batch: int, pairs: int, seed: int
) -> Iterator[tuple[str, pa.Table]]:
    random = np.random.default_rng(seed)
    group, value = random.integers(0, groups, rows), random.integers(0, 10**6, rows)
    for first in range(0, rows, LOAD_ROWS):
        chosen = np.arange(first, min(first + LOAD_ROWS, rows))
        yield LOAD, _changes("insert", group, value, chosen)
    greatest = _greatest(group, value)
    for _ in range(pairs):
        tops = random.choice(greatest, batch // 2, replace=False)
        others = np.setdiff1d(random.choice(rows, batch, replace=False), tops)
        chosen = np.concatenate([tops, random.permutation(others)[: batch - len(tops)]])
        yield "delete", _changes("delete", group, value, chosen)
        yield "insert", _changes("insert", group, value, random.permutation(chosen))


def _greatest(group: Int64s, value: Int64s) -> Int64s:
    """Per group the row with its greatest value."""
    order = np.lexsort((value, group))
    ends = np.flatnonzero(np.diff(group[order], append=-1))
    return order[ends]


def _changes(op: str, group: Int64s, value: Int64s, chosen: Int64s) -> pa.Table:
    columns = {"g": group[chosen], "v": value[chosen], "op": ops(op, len(chosen)), "id": chosen}
    return pa.table(columns)


def _with_op(op: str, rows: pa.Table) -> pa.Table:
    return rows.append_column(OP, ops(op, rows.num_rows))


def _weighted(rows: pa.Table) -> pa.Table:
    deleted = np.asarray(pc.equal(rows.column(OP), "delete"))
    return rows.append_column(WEIGHT, pa.array(np.where(deleted, -1, 1)))
