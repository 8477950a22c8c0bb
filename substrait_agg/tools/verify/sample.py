"""Choose the rows of a view that another engine's result is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from substrait_agg.commit.checksums.md5 import md5_words
from substrait_agg.commit.checksums.row_text import row_texts

PARTS = 100
"""A large view is compared in so many parts, one per version."""
WHOLE_ROWS = 10_000
"""A view of at most so many rows is compared as a whole."""

_INEXACT_BITS = 24
"""The last bits of a float depend on the order in which an engine adds: they are not compared."""


@dataclass(frozen=True, slots=True)
class GroupSample:
    """A sample of the groups of a view.

    Attributes:
        keys: ordinals of the columns that identify a group; all columns if there are none.
        part: the part of the groups, by the hash of their keys; None for all groups.
    """

    keys: tuple[int, ...]
    part: int | None

    @staticmethod
    def of(version: int, rows: int, keys: tuple[int, ...] | None) -> GroupSample:
        """Return the sample of a version. Versions that follow each other have different parts."""
        return GroupSample(keys or (), None if rows <= WHOLE_ROWS else version % PARTS)

    def take(self, parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yield the rows of the sample, with floats as they are compared."""
        for rows in parts:
            comparable = pa.table([_rounded(c) for c in rows.columns], rows.schema)
            yield comparable if self.part is None else comparable.filter(self._chosen(comparable))

    def _chosen(self, rows: pa.Table) -> pa.Array:
        keys = [c.combine_chunks() for c in rows.select(self.keys or rows.column_names).columns]
        return pa.array(md5_words(row_texts(keys)) % np.uint64(PARTS) == self.part)


def _rounded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column; of a 64-bit float without the bits that are not compared."""
    if not pa.types.is_float64(column.type):
        return column
    bits = column.fill_null(0.0).to_numpy().view(np.int64)
    compared = (bits + (1 << _INEXACT_BITS - 1)) >> _INEXACT_BITS << _INEXACT_BITS
    return pa.chunked_array([pa.array(compared.view(np.float64), mask=column.is_null().to_numpy())])
