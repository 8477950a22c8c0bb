"""The stored form of exact numbers of fixed size: the digits of a row that are not 0 in all rows.

The column ``fixed`` has all digits of a row, 4 bytes each, lowest first. The column ``fixed_MASK`` has
the digits whose bits are set in the hexadecimal number MASK; the others are 0 in all rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.functions.numbers.exact import Digits, zeros

FIXED = "fixed"
_SOME = "fixed_"
_BYTES = 4
_ROWS_IN_CACHE = 1 << 10  # rows that are transposed at once
Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)
Indices = npt.NDArray[np.int64]


def digits_at(schema: pa.Schema) -> int | None:
    """Return the place of the column of digits; None without one."""
    names = enumerate(schema.names)
    return next((i for i, name in names if name == FIXED or name.startswith(_SOME)), None)


def is_stored_form(stored: pa.Schema, schema: pa.Schema) -> bool:
    """Return whether stored rows have the columns of a schema, with any of its digits.

    Args:
        stored: the columns of the rows.
        schema: the columns that they should have; their digits may be those of other rows.
    """
    place = digits_at(stored)
    if place is None or place != digits_at(schema):
        return place is None and bool(stored.equals(schema))
    digits, target = stored.field(place), schema.field(place)
    if not (_is_packed(digits) and _is_packed(target)):
        return False
    if target.name == FIXED and not _is_part(digits, target):
        return False
    return bool(stored.set(place, target).equals(schema))


def _is_part(digits: pa.Field, whole: pa.Field) -> bool:
    if digits.name == FIXED:
        return bool(digits.type == whole.type)
    return bool(_positions(digits)[-1] < len(_positions(whole)))


def _is_packed(field: pa.Field) -> bool:
    """Return whether the name and the type of a column of digits state the same digits."""
    if not pa.types.is_fixed_size_binary(field.type):
        return False
    if field.name == FIXED:
        return bool(field.type.byte_width > 0 and field.type.byte_width % _BYTES == 0)
    if not re.fullmatch("[1-9a-f][0-9a-f]*", field.name.removeprefix(_SOME)):
        return False
    return bool(field.type.byte_width == _BYTES * len(_positions(field)))


def pack_digits(digits: Digits) -> tuple[pa.Field, pa.Array]:
    """Return carried digits in stored form: the column of a run and its values."""
    used = np.asarray(digits.any(axis=1))
    used[0] = True  # a column of no bytes has no number of rows
    stored, rows = np.flatnonzero(used), digits.shape[1]
    packed = np.empty((rows, len(stored)), np.int32)
    for start in range(0, rows, _ROWS_IN_CACHE):
        part = slice(start, start + _ROWS_IN_CACHE)
        packed[part] = digits[stored, part].T
    return _column(None if used.all() else _mask(stored), packed)


def unpack_digits(rows: pa.Table, digits: int, at: Indices | None = None) -> Digits:
    """Return numbers from their stored form.

    Args:
        rows: stored rows; at least one if `at` is given.
        digits: number of digits to return, the lowest ones.
        at: the row of each number, -1 for a number that is 0; None for all rows in order.
    """
    place = digits_at(rows.schema)
    if place is None:
        raise ValueError("rows without digits")
    positions, stored = _find_digits(rows.column(place), rows.schema.field(place))
    keep = positions < digits
    positions, stored = positions[keep], stored if keep.all() else stored[:, keep]
    if at is None:
        at = np.arange(len(stored))
    unpacked = zeros(digits, len(at))
    for start in range(0, len(at), _ROWS_IN_CACHE):
        part = at[start : start + _ROWS_IN_CACHE]
        numbers = stored[part]
        numbers[part < 0] = 0
        unpacked[positions, start : start + len(part)] = numbers.T
    return unpacked


def with_digits_of(schema: pa.Schema, stored: Sequence[pa.Schema]) -> pa.Schema:
    """Return a schema with the digits that rows with other schemas have, if there are any."""
    fields = [other.field(place) for other in stored if (place := digits_at(other)) is not None]
    place = digits_at(schema)
    if place is None or not fields:
        return schema
    if len({field.name for field in fields}) == 1:
        return schema.set(place, fields[0])
    positions = np.unique(np.concatenate([_positions(field) for field in fields]))
    whole = next((field for field in fields if field.name == FIXED), None)
    field = _field(_mask(positions), len(positions)) if whole is None else whole
    return schema.set(place, field)


def fit(rows: Rows, schema: pa.Schema) -> Rows:
    """Return rows with the digits of a schema, 0 for those that they do not have.

    Raises:
        ValueError: the schema lacks digits that they have.
    """
    place = digits_at(schema)
    if place is None or rows.schema.field(place).name == schema.field(place).name:
        return rows
    positions, stored = _find_digits(rows.column(place), rows.schema.field(place))
    target = schema.field(place)
    digits = _positions(target)
    if not np.isin(positions, digits).all():
        raise ValueError(f"{target.name} lacks digits of the rows")
    wide = np.zeros((rows.num_rows, len(digits)), np.int32)
    wide[:, np.searchsorted(digits, positions)] = stored
    return rows.set_column(place, target, _values(wide))


def _find_digits(
    column: pa.Array | pa.ChunkedArray, field: pa.Field
) -> tuple[Indices, npt.NDArray[np.int32]]:
    """Return the positions of the stored digits, and the digits of each row."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    positions = _positions(field)
    if not len(values):
        return positions, np.zeros((0, len(positions)), np.int32)
    end = values.offset + len(values)
    raw = np.frombuffer(values.buffers()[1], np.int32, count=len(positions) * end)
    return positions, raw.reshape(-1, len(positions))[values.offset :]


def _positions(field: pa.Field) -> Indices:
    if field.name == FIXED:
        return np.arange(field.type.byte_width // _BYTES)
    mask = int(field.name.removeprefix(_SOME), 16)
    return np.array([i for i in range(mask.bit_length()) if mask >> i & 1], np.int64)


def _mask(positions: Indices) -> int:
    return sum(1 << int(position) for position in positions)


def _field(mask: int | None, digits: int) -> pa.Field:
    return pa.field(FIXED if mask is None else f"{_SOME}{mask:x}", pa.binary(_BYTES * digits))


def _column(mask: int | None, packed: npt.NDArray[np.int32]) -> tuple[pa.Field, pa.Array]:
    return _field(mask, packed.shape[1]), _values(packed)


def _values(packed: npt.NDArray[np.int32]) -> pa.Array:
    rows, digits = packed.shape
    return pa.Array.from_buffers(pa.binary(_BYTES * digits), rows, [None, pa.py_buffer(packed)])
