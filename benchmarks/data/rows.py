"""Random rows that only come: a key, an integer and a float; wide rows; values of lists.

Floats are multiples of 1/1024 and small, so that every order of adding them up gives the same sum: then any engine's answer can be
compared to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.data.data_sets import LOAD, ChangeFile

LOAD_ROWS = 2_000_000
"""Rows of a file that is loaded before anything is measured."""

Int64s = npt.NDArray[np.int64]


def with_key(
    keys: int, held: int, batches: Sequence[tuple[str, int]], hot: float = 0.0, seed: int = 1
) -> Iterator[ChangeFile]:
    """Columns k (int64), i (int64), x (float64).

    Args:
        keys: keys are drawn from this many.
        held: rows loaded first, each key in turn.
        batches: kind and number of rows of each.
        hot: share of the rows that have key 0.
        seed: of the random numbers.
    """
    random = np.random.default_rng(seed)
    for first in range(0, held, LOAD_ROWS):
        taken = np.arange(first, min(first + LOAD_ROWS, held), dtype=np.int64) % keys
        yield ChangeFile(LOAD, keyed_rows(random, taken))
    for kind, rows in batches:
        drawn = random.integers(0, keys, rows)
        yield ChangeFile(kind, keyed_rows(random, np.where(random.random(rows) < hot, 0, drawn)))


def keyed_rows(random: np.random.Generator, keys: Int64s) -> pa.Table:
    """Rows of `with_key` for these keys."""
    rows = len(keys)
    floats = random.integers(0, 10_000_000, rows) / 1024
    return pa.table({"k": keys, "i": random.integers(-1000, 1000, rows), "x": floats})


def many(keys: int, rows: int, files: int, kind: str, seed: int = 1) -> Iterator[ChangeFile]:
    """Columns as of `with_key`: one load cut into files of equal size, all of one kind."""
    yield from with_key(keys, 0, [(kind, rows // files)] * files, seed=seed)


def wide(keys: int, batches: Sequence[tuple[str, int]], seed: int = 1) -> Iterator[ChangeFile]:
    """Columns k (int64), f (int64 below 100), c0 to c9 (int64), a to d (int64 below 8)."""
    random = np.random.default_rng(seed)
    for kind, rows in batches:
        columns = {"k": random.integers(0, keys, rows), "f": random.integers(0, 100, rows)}
        columns |= {f"c{i}": random.integers(-(10**6), 10**6, rows) for i in range(10)}
        columns |= {name: random.integers(0, 8, rows) for name in "abcd"}
        yield ChangeFile(kind, pa.table(columns))


def lists(
    groups: int, values: int, touched: int, each: int, kinds: Sequence[str], seed: int = 1
) -> Iterator[ChangeFile]:
    """Columns g (int64), v (int64), s (string).

    Args:
        groups: all of them are loaded.
        values: that each holds.
        touched: groups that a batch adds to.
        each: values that it adds to each of them.
        kinds: of the batches.
        seed: of the random numbers.
    """
    random = np.random.default_rng(seed)
    whole = np.repeat(np.arange(groups, dtype=np.int64), values)
    random.shuffle(whole)
    for first in range(0, len(whole), LOAD_ROWS):
        yield ChangeFile(LOAD, _listed(random, whole[first : first + LOAD_ROWS]))
    for kind in kinds:
        chosen = random.choice(groups, touched, replace=False).astype(np.int64)
        yield ChangeFile(kind, _listed(random, np.repeat(chosen, each)))


def _listed(random: np.random.Generator, groups: Int64s) -> pa.Table:
    values = random.integers(0, 10**9, len(groups))
    texts = pa.array(values).cast(pa.string())
    return pa.table({"g": groups, "v": values, "s": texts})
