"""Keys of fixed width: values as unsigned integers of 1 to 8 bytes (parts) with the same order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Words = npt.NDArray[np.uint64]
Part = tuple[Words, int]  # values, and their size in bytes


def width(type: pa.DataType) -> int | None:
    """Return the number of bytes of a value in a key, None if it depends on the value.

    Raises:
        TypeError: values of the type have no order here.
    """
    if pa.types.is_struct(type):
        widths = [width(field.type) for field in type]
        return None if None in widths else sum(1 + (w or 0) for w in widths)
    if _is_variable(type):
        return None
    if pa.types.is_null(type):
        return 0
    if pa.types.is_boolean(type):
        return 1
    if any(test(type) for test, _ in _PARTS):
        return int(type.bit_width // 8)
    raise TypeError(f"values of type {type} have no order")


def _is_variable(type: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(type)
        or pa.types.is_large_string(type)
        or pa.types.is_string_view(type)
        or pa.types.is_binary(type)
        or pa.types.is_large_binary(type)
        or pa.types.is_binary_view(type)
        or pa.types.is_list(type)
        or pa.types.is_large_list(type)
        or pa.types.is_fixed_size_list(type)
        or pa.types.is_map(type)
    )


def fixed_parts(
    array: pa.Array, *, nullable: bool, descending: bool = False, nulls_first: bool = True
) -> list[Part]:
    """Return the parts of a column whose type has a `width`, the null flag first.

    Raises:
        ValueError: a null in a column that is not nullable.
    """
    valid = _valid(array)
    if valid is not None and not nullable:
        raise ValueError("a null in a key column that is not nullable")
    parts = _value_parts(array)
    if valid is not None:
        parts = [(np.where(valid, value, np.uint64(0)), size) for value, size in parts]
    if descending:
        parts = [(value ^ _ones(size), size) for value, size in parts]
    return [(null_flags(array, nulls_first=nulls_first), 1), *parts] if nullable else parts


def null_flags(array: pa.Array, *, nulls_first: bool) -> Words:
    """Return 1 for values; for nulls 0 if nulls come first, else 2."""
    valid = _valid(array)
    if valid is None:
        return np.ones(len(array), np.uint64)
    return np.where(valid, np.uint64(1), np.uint64(0 if nulls_first else 2))


def pack(parts: Sequence[Part], length: int) -> tuple[Words, ...]:
    """Concatenate parts in words of 8 bytes, most significant byte first, padded with zeros."""
    if len(parts) == 1 and parts[0][1] == 8:
        return (parts[0][0],)
    words = [np.zeros(length, np.uint64)]
    used = 0
    for value, size in parts:
        over = used + size - 8
        if size and used == 8:
            words.append(np.zeros(length, np.uint64))
            used, over = 0, size - 8
        if over <= 0:
            words[-1] |= value << np.uint64(-8 * over) if size else np.uint64(0)
            used += size
            continue
        words[-1] |= value >> np.uint64(8 * over)
        words.append(value << np.uint64(64 - 8 * over))
        used = over
    return tuple(words)


def _ones(size: int) -> np.uint64:
    return np.uint64((1 << (8 * size)) - 1)


def _valid(array: pa.Array) -> npt.NDArray[np.bool_] | None:
    if not array.null_count:
        return None
    return np.asarray(pc.is_valid(array).to_numpy(zero_copy_only=False), np.bool_)


def _value_parts(array: pa.Array) -> list[Part]:
    if pa.types.is_struct(array.type):
        return [p for field in array.flatten() for p in fixed_parts(field, nullable=True)]
    if pa.types.is_null(array.type):
        return []
    if pa.types.is_boolean(array.type):
        bits = pc.fill_null(array, False).cast(pa.uint8())
        return [(_raw(bits, np.dtype(np.uint8)).astype(np.uint64), 1)]
    return next(parts for test, parts in _PARTS if test(array.type))(array)


def _raw(array: pa.Array, dtype: np.dtype[Any], per_row: int = 1) -> npt.NDArray[Any]:
    """Return the values' buffer without a copy; values of nulls are arbitrary."""
    if not len(array):
        return np.zeros(0, dtype)
    start = array.offset * per_row * dtype.itemsize
    return np.frombuffer(array.buffers()[1], dtype, count=len(array) * per_row, offset=start)


def _encode_unsigned(array: pa.Array) -> list[Part]:
    size = array.type.bit_width // 8
    return [(_raw(array, np.dtype(f"u{size}")).astype(np.uint64), size)]


def _encode_signed(array: pa.Array) -> list[Part]:
    size = array.type.bit_width // 8
    values = _raw(array, np.dtype(f"u{size}")).astype(np.uint64)
    return [(values ^ np.uint64(1 << (8 * size - 1)), size)]


def _encode_floating(array: pa.Array) -> list[Part]:
    size = array.type.bit_width // 8
    bits = canonical_floats(_raw(array, np.dtype(f"f{size}"))).view(f"i{size}")
    # Invert all bits of negative numbers, and only the sign of other numbers.
    turned = bits ^ ((bits >> (8 * size - 1)) | np.iinfo(bits.dtype).min)
    return [(turned.view(f"u{size}").astype(np.uint64), size)]


def canonical_floats(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return floats with one zero and one NaN."""
    zero = values.dtype.type(0)
    # Set NaN afterwards: the bits of NaN after an addition depend on the processor.
    return np.asarray(np.where(np.isnan(values), values.dtype.type("nan"), values + zero))


def _wide_decimal(array: pa.Array) -> list[Part]:
    count = array.type.bit_width // 64
    digits = _raw(array, np.dtype(np.uint64), count).reshape(-1, count).astype(np.uint64)
    top = digits[:, -1] ^ np.uint64(1 << 63)
    return [(top, 8), *((digits[:, i].copy(), 8) for i in range(count - 2, -1, -1))]


def _fixed_binary(array: pa.Array) -> list[Part]:
    size = array.type.byte_width
    data = _raw(array, np.dtype(np.uint8), size).reshape(len(array), size)
    parts: list[Part] = []
    for start in range(0, size, 8):
        piece = data[:, start : start + 8]
        padded = np.zeros((len(array), 8), np.uint8)
        padded[:, 8 - piece.shape[1] :] = piece
        parts.append((padded.view(">u8")[:, 0].astype(np.uint64), piece.shape[1]))
    return parts


def _calendar_interval(array: pa.Array) -> list[Part]:
    layout = np.dtype([("months", "u4"), ("days", "u4"), ("nanoseconds", "u8")])
    values = _raw(array, layout)
    return [
        (values[name].astype(np.uint64) ^ np.uint64(1 << (8 * size - 1)), size)
        for name, size in (("months", 4), ("days", 4), ("nanoseconds", 8))
    ]


_PARTS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], list[Part]]], ...] = (
    (pa.types.is_interval, _calendar_interval),
    (pa.types.is_unsigned_integer, _encode_unsigned),
    (pa.types.is_signed_integer, _encode_signed),
    (pa.types.is_floating, _encode_floating),
    (pa.types.is_decimal128, _wide_decimal),
    (pa.types.is_decimal256, _wide_decimal),
    (pa.types.is_decimal, _encode_signed),
    (pa.types.is_temporal, _encode_signed),
    (pa.types.is_fixed_size_binary, _fixed_binary),
)
