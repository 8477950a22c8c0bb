"""Rows as columns: equality of keys, and grouping of rows by hash and key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.state.keys.fixed_keys import fixed_parts, pack, width
from substrait_agg.state.keys.variable_keys import byte_hashes, variable_bytes

Hashes = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def whole(table: pa.Table, name: str) -> pa.Array:
    """Return a column in one piece."""
    return one_array(table.column(name))


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece; `combine_chunks` also copies a single one."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def as_mask(values: pa.Array | pa.ChunkedArray) -> Mask:
    """Return a boolean Arrow array without nulls as a numpy array."""
    if isinstance(values, pa.ChunkedArray):
        values = one_array(values)
    if values.type != pa.bool_() or values.null_count:
        return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.bool_)
    return _unpack(values.buffers()[1], values)


def is_present(values: pa.Array) -> Mask:
    """Return a mask of the values that are not null."""
    validity = values.buffers()[0] if values.null_count else None
    return as_mask(values.is_valid()) if validity is None else _unpack(validity, values)


def _unpack(bits: pa.Buffer, values: pa.Array) -> Mask:
    """Return the bits of the values in a bitmap; ten times as fast as Arrow's conversion."""
    first, skipped = divmod(values.offset, 8)
    bytes_ = np.frombuffer(bits, np.uint8)[first:] if len(values) else np.zeros(0, np.uint8)
    bools = np.unpackbits(bytes_, count=skipped + len(values), bitorder="little")
    return bools[skipped:].view(np.bool_)


def fill_nulls(values: pa.Array) -> npt.NDArray[Any]:
    """Return numbers as a numpy array, with 0 for null."""
    if not values.null_count:
        return np.asarray(values.to_numpy(zero_copy_only=False))
    if values.type not in (pa.int64(), pa.float64()):
        return np.asarray(pc.fill_null(values, 0).to_numpy(zero_copy_only=False))
    # A product has no branch that the processor could predict wrongly.
    bits = _numbers(values, np.dtype(np.int64)) * is_present(values)
    return bits.view(values.type.to_pandas_dtype())


def _numbers(values: pa.Array, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the values of a column of fixed size without copying, arbitrary where they are null."""
    count = values.offset + len(values)
    return np.frombuffer(values.buffers()[1], dtype, count=count)[values.offset :]


def equal(left: pa.Array, right: pa.Array) -> Mask:
    """Compare element-wise; null equals null and NaN equals NaN (floats compare by bit pattern).

    Structs, lists and maps are equal if all their parts are. Inside them -0.0 equals 0.0, and the
    order of a map's entries does not matter.
    """
    if pa.types.is_nested(left.type):
        left, right = nested_bytes(left), nested_bytes(right)
    if pa.types.is_floating(left.type):
        bits = pa.int64() if left.type == pa.float64() else pa.int32()
        left, right = left.view(bits), right.view(bits)
    same = pc.equal(left, right)
    if left.null_count or right.null_count:
        both = pc.and_(pc.is_null(left), pc.is_null(right))
        same = pc.or_(pc.fill_null(same, False), both)
    return as_mask(same)


def rows_equal(left: Sequence[pa.Array], right: Sequence[pa.Array], length: int) -> Mask:
    """Return a mask of the rows that are equal in all columns, also where there are none."""
    result = np.ones(length, np.bool_)
    for left_column, right_column in zip(left, right, strict=True):
        result &= equal(left_column, right_column)
    return result


def take(columns: Sequence[pa.Array], indices: npt.NDArray[Any]) -> list[pa.Array]:
    """Return the rows `indices` of all columns."""
    places = pa.array(indices)
    return [
        _take(column, indices) if column.null_count and _is_plain(column) else column.take(places)
        for column in columns
    ]


def take_or_null(columns: Sequence[pa.Array], indices: Indices) -> list[pa.Array]:
    """Return the rows `indices` of all columns, null where the index is below 0."""
    missing = indices < 0
    if not missing.any():
        return take(columns, indices)
    places = pa.array(indices, mask=missing)
    return [
        _take(column, indices) if _is_plain(column) else column.take(places) for column in columns
    ]


def _is_plain(column: pa.Array) -> bool:
    type_ = column.type
    return bool(len(column) and pa.types.is_primitive(type_) and type_.bit_width in (32, 64))


def _take(column: pa.Array, indices: npt.NDArray[Any]) -> pa.Array:
    """Take numbers, null where the index is below 0. Arrow is slow for columns with nulls."""
    inside = np.maximum(indices, 0)
    numbers = _numbers(column, np.dtype(f"i{column.type.bit_width // 8}")).take(inside)
    present = is_present(column).take(inside) & (indices >= 0)
    bits = pa.py_buffer(np.packbits(present, bitorder="little"))
    return pa.Array.from_buffers(column.type, len(indices), [bits, pa.py_buffer(numbers)])


def beginnings(hashes: Hashes, collision_ids: npt.NDArray[np.uint16]) -> Indices:
    """Return the rows whose group differs from that of the row before."""
    new = np.ones(len(hashes), np.bool_)
    new[1:] = (hashes[1:] != hashes[:-1]) | (collision_ids[1:] != collision_ids[:-1])
    return np.flatnonzero(new)


def group_rows(hashes: Hashes, keys: Sequence[pa.Array]) -> tuple[Indices, Mask]:
    """Order rows by hash so that rows of one key are adjacent, in their original order.

    Returns:
        The order, and for each row in that order whether it is the first of its key. Different keys
        with one hash are separate groups: the keys decide, the hash only sorts.
    """
    order = stable_order(hashes)
    ordered = hashes[order]
    first = np.ones(len(order), np.bool_)
    same = np.flatnonzero(ordered[1:] == ordered[:-1])
    if not len(same):
        return order, first
    equal_keys = rows_equal(take(keys, order[same + 1]), take(keys, order[same]), len(same))
    if not equal_keys.all():
        chains = np.isin(ordered, ordered[same[~equal_keys]])
        order[chains] = _by_hash_and_key(hashes, keys, order[chains])
        equal_keys = rows_equal(take(keys, order[same + 1]), take(keys, order[same]), len(same))
    first[same[equal_keys] + 1] = False
    return order, first


def stable_order(numbers: npt.NDArray[np.uint64]) -> Indices:
    """Return the stable order of numbers that differ in their upper bits, such as hashes.

    Sorting values is several times faster than computing an order. Therefore the function sorts the
    upper bits of each number with its place in the lower bits. If numbers differ only in the lower
    bits, which is rare, a second sort follows.
    """
    if (numbers[1:] >= numbers[:-1]).all():
        return np.arange(len(numbers))
    count = np.uint64(len(numbers))
    places = (
        np.uint64((1 << max(1, int(count - np.uint64(1)).bit_length())) - 1) if count else count
    )
    keyed = numbers & ~places | np.arange(count, dtype=np.uint64)
    keyed.sort()
    order = (keyed & places).view(np.int64)
    ordered = numbers[order]
    if (ordered[1:] < ordered[:-1]).any():
        return np.argsort(numbers, kind="stable")
    return order


def _by_hash_and_key(hashes: Hashes, keys: Sequence[pa.Array], rows: Indices) -> Indices:
    # The caller passes only rows whose hash is shared by different keys.
    columns = {f"k{i}": column for i, column in enumerate(take(_bits(keys), rows))}
    table = pa.table({"hash": hashes[rows], **columns, "position": np.arange(len(rows))})
    by = [(name, "ascending") for name in table.column_names]
    return np.asarray(rows[pc.sort_indices(table, sort_keys=by).to_numpy()])


def _bits(keys: Sequence[pa.Array]) -> list[pa.Array]:
    """Return keys in types that Arrow sorts: bit patterns of floats, bytes of nested values."""
    return [sortable(key) for key in keys]


def sortable(key: pa.Array) -> pa.Array:
    """Convert a column to a type that Arrow sorts, such that equal values become adjacent."""
    sizes = {pa.float64(): pa.int64(), pa.float32(): pa.int32()}
    if key.type in sizes:
        return key.view(sizes[key.type])
    if pa.types.is_boolean(key.type):
        return key.cast(pa.int8())
    return nested_bytes(key) if pa.types.is_nested(key.type) else key


def nested_bytes(key: pa.Array) -> pa.Array:
    """Encode nested values as bytes with the same equality and order; null comes first."""
    return variable_bytes(key, nullable=True, descending=False, nulls_first=True, raw=False)


_MULTIPLIER, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)


def row_hashes(columns: Sequence[pa.Array], seed: Hashes) -> Hashes:
    """Hash rows to 64 bits. Equal rows (`equal`) have equal hashes.

    Args:
        columns: the columns of the rows.
        seed: a number per row that enters its hash.
    """
    hashes = seed * _MULTIPLIER
    for column in columns if len(seed) else ():
        for words in _words(column):
            hashes = (hashes ^ (hashes >> _SHIFT) ^ words) * _MULTIPLIER
    return hashes ^ (hashes >> _SHIFT)


def _words(column: pa.Array) -> Sequence[npt.NDArray[np.uint64]]:
    if width(column.type) is not None:
        return pack(fixed_parts(column, nullable=True), len(column))
    form = {"nullable": True, "descending": False, "nulls_first": True}
    return (byte_hashes(variable_bytes(column, raw=True, **form)),)
