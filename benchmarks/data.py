"""Input files of the benchmarks: random rows as Parquet, one file per batch, made once per folder."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def write_batches(
    folder: Path, batches: int, rows: int, keys: int, *, seed: int, distinct: bool = False
) -> Path:
    """Files of columns k (int64), i (int64), x (float64).

    Args:
        folder: where to; files there already are left alone.
        batches: number of files.
        rows: rows per file.
        keys: keys are drawn from this many.
        seed: of the random numbers.
        distinct: take the keys in turn, each once, instead of drawing them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    for batch in range(batches):
        path = folder / f"{batch:05d}.parquet"
        if path.exists():
            continue
        taken = np.arange(batch * rows, (batch + 1) * rows) % keys
        table = pa.table(
            {
                "k": taken if distinct else random.integers(0, keys, rows),
                "i": random.integers(-1000, 1000, rows),
                "x": random.random(rows) * 1e4,
            }
        )
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + batch, 1_700_000_000 + batch))
    return folder
