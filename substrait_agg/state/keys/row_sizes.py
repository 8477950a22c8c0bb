"""Sizes of rows, so that few enough are taken at once: a column of text holds at most 2 GiB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

TAKEN_BYTES = 1 << 28
"""Bytes of texts, lists and structs that are taken at once, or more if one row has more."""

_FIXED = 16
"""Most bytes of a value of fixed size."""

Indices = npt.NDArray[np.int64]


def slices_to_take(columns: Sequence[pa.Array], indices: Indices) -> Iterator[slice]:
    """Yield slices of `indices` whose rows take about `TAKEN_BYTES` at most.

    A few long rows that are repeated often can take more than a column holds.
    """
    sizes = [
        _sizes_at(column, indices)
        for column in columns
        if _is_variable(column.type) and len(indices) * column.nbytes > TAKEN_BYTES
    ]
    if not sizes:
        yield slice(0, len(indices))
        return
    part = np.cumsum(np.sum(sizes, axis=0)) // TAKEN_BYTES
    cuts = (np.flatnonzero(np.diff(part)) + 1).tolist()
    yield from map(slice, [0, *cuts], [*cuts, len(indices)])


def repeat(rows: pa.RecordBatch, counts: Indices) -> Iterator[pa.RecordBatch]:
    """Yield each row as often as its count says, few enough rows at once."""
    at = np.repeat(np.arange(len(counts)), counts)
    for part in slices_to_take(rows.columns, at):
        yield rows.take(pa.array(at[part]))


def _is_variable(type_: pa.DataType) -> bool:
    return bool(_is_text(type_) or pa.types.is_nested(type_))


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_binary(type_))


def _sizes_at(column: pa.Array, indices: Indices) -> Indices:
    """Return the bytes of some values."""
    if not _is_text(column.type):
        return _sizes(column)[indices]
    offsets = np.frombuffer(
        column.buffers()[1], np.int32, count=len(column) + 1, offset=4 * column.offset
    )
    return (offsets[indices + 1] - offsets[indices]).astype(np.int64)


def _sizes(column: pa.Array) -> Indices:
    """Return the bytes of every value of a column."""
    if not len(column) or not _is_variable(column.type):
        return np.full(len(column), _FIXED, np.int64)
    if _is_text(column.type):
        return _sizes_at(column, np.arange(len(column)))
    if pa.types.is_struct(column.type):
        return np.asarray(np.sum([_sizes(field) for field in column.flatten()], axis=0))
    if pa.types.is_map(column.type):
        elements = _sizes(column.keys) + _sizes(column.items)
    else:
        elements = _sizes(column.values)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(elements)])
    return np.asarray(np.diff(ends[column.offsets.to_numpy()]))
