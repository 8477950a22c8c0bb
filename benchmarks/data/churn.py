"""Rows that are deleted and inserted again. Half of the deleted rows are the greatest of their group."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.data.data_sets import LOAD, ChangeFile, ops
from benchmarks.data.rows import LOAD_ROWS

Int64s = npt.NDArray[np.int64]


def churn(rows: int, groups: int, batch: int, pairs: int, seed: int = 1) -> Iterator[ChangeFile]:
    """Columns g (int64), v (int64), op, id; a batch of kind ``delete``, then one of kind ``insert`` that brings its rows back.

    Args:
        rows: loaded first.
        groups: that they are spread over.
        batch: rows of a batch; twice as many groups must be there.
        pairs: of batches.
        seed: of the random numbers.
    """
    random = np.random.default_rng(seed)
    group, value = random.integers(0, groups, rows), random.integers(0, 10**6, rows)
    for first in range(0, rows, LOAD_ROWS):
        chosen = np.arange(first, min(first + LOAD_ROWS, rows))
        yield ChangeFile(LOAD, _changes("insert", group, value, chosen))
    greatest = _greatest(group, value)
    for _ in range(pairs):
        tops = random.choice(greatest, batch // 2, replace=False)
        others = np.setdiff1d(random.choice(rows, batch, replace=False), tops)
        chosen = np.concatenate([tops, random.permutation(others)[: batch - len(tops)]])
        yield ChangeFile("delete", _changes("delete", group, value, chosen))
        yield ChangeFile("insert", _changes("insert", group, value, random.permutation(chosen)))


def _greatest(group: Int64s, value: Int64s) -> Int64s:
    """Per group the row with its greatest value."""
    order = np.lexsort((value, group))
    ends = np.flatnonzero(np.diff(group[order], append=-1))
    return order[ends]


def _changes(op: str, group: Int64s, value: Int64s, chosen: Int64s) -> pa.Table:
    columns = {"g": group[chosen], "v": value[chosen], "op": ops(op, len(chosen)), "id": chosen}
    return pa.table(columns)
