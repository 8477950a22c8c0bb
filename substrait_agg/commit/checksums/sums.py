"""Add up the hashes of rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.commit.checksums.md5 import md5_words
from substrait_agg.commit.checksums.row_text import row_texts

MODULUS = 1 << 64
"""A checksum is a sum modulo this number."""

_AT_ONCE = 1 << 16
_UNUSED_BITS = np.uint64(4)
"""The hash of a row has 60 bits, 15 hexadecimal digits: SQL engines have signed integers of 64 bits."""


def add_rows(checksum: int, rows: pa.Table, weights: npt.NDArray[np.int64] | None = None) -> int:
    """Return a checksum after rows have been added.

    Args:
        checksum: the checksum before.
        rows: the rows, with the columns of the view.
        weights: how often each is added, below zero if it is taken back; None for once.
    """
    first = 0
    for batch in rows.to_batches(_AT_ONCE):
        hashes = md5_words(row_texts(batch.columns)) >> _UNUSED_BITS
        if weights is not None:
            hashes *= weights[first : first + batch.num_rows].astype(np.uint64)
        checksum += int(hashes.sum(dtype=np.uint64))
        first += batch.num_rows
    return checksum % MODULUS
