"""Keys of variable width: values as bytes with the same order.

Every encoding except that of a `raw` value ends with a terminator: no encoding is a prefix of
another, so encodings can be concatenated.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.state.keys.fixed_keys import Part, Words, fixed_parts, null_flags, pack, width

# A zero byte in a string becomes 00 FF, its end is 00 00: a prefix comes before longer strings.
_ZERO, _ESCAPED, _END = b"\x00", b"\x00\xff", b"\x00\x00"
_ELEMENT, _LAST = b"\x01", b"\x00"


def variable_bytes(
    array: pa.Array, *, nullable: bool, descending: bool, nulls_first: bool, raw: bool
) -> pa.Array:
    """Encode a column as pa.binary() without nulls: the null flag, then the value.

    Raises:
        ValueError: a null in a column that is not nullable.
    """
    if array.null_count and not nullable:
        raise ValueError("a null in a key column that is not nullable")
    value = _value(array, raw=raw)
    if descending:
        value = _invert(value)
    if not nullable:
        return value
    return join(
        parts_as_bytes([(null_flags(array, nulls_first=nulls_first), 1)], len(array)), value
    )


def order_bytes(array: pa.Array) -> pa.Array:
    """Return bytes that compare like the values of a column; those of a null are some bytes."""
    return _value(array)


def join(*parts: pa.Array | bytes) -> pa.Array:
    """Concatenate binary columns or constants, row by row."""
    if len(parts) == 1:
        return parts[0]
    scalars = [pa.scalar(p, pa.binary()) if isinstance(p, bytes) else p for p in parts]
    return pc.binary_join_element_wise(*scalars, pa.scalar(b"", pa.binary()))


def parts_as_bytes(parts: list[Part], length: int) -> pa.Array:
    """Return parts of fixed width as pa.binary()."""
    size = sum(s for _, s in parts)
    packed = np.stack(pack(parts, length), axis=1).astype(">u8").view(np.uint8)
    data = np.ascontiguousarray(packed[:, :size])
    return _binary(np.arange(length + 1, dtype=np.int64) * size, data.reshape(-1))


def first_words(values: pa.Array, skipped: int = 0) -> Words:
    """Return the first 8 bytes of each value behind `skipped` ones as a word, big-endian.

    Missing bytes are zeros.
    """
    offsets, data = offsets_and_data(values)
    if len(data) < 8:
        data = np.concatenate([data, np.zeros(8 - len(data), np.uint8)])
    # View every place in the data as the start of a word. Words at its end begin too early.
    places = np.lib.stride_tricks.as_strided(
        data[:8].view(">u8"), shape=(len(data) - 7,), strides=(1,)
    )
    at = offsets[:-1] + skipped
    early = np.maximum(at - (len(data) - 8), 0)
    words = places[at - early].astype(np.uint64) << (np.minimum(early, 7) * 8).astype(np.uint64)
    missing = 8 - np.clip(np.diff(offsets) - skipped, 0, 8)
    masks = np.array([(1 << 64) - (1 << (8 * m)) for m in range(9)], np.uint64)
    return np.asarray(words & masks[missing])


_HASHED_BYTES = 1 << 22
_MULTIPLIER = 0x9E3779B97F4A7C15
_MIX = (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)


def byte_hashes(values: pa.Array) -> npt.NDArray[np.uint64]:
    """Hash binary values to 64 bits: a polynomial in their bytes, finalized as in MurmurHash3.

    Args:
        values: pa.binary() without nulls; none is empty.
    """
    offsets, data = offsets_and_data(values)
    hashes = np.empty(len(values), np.uint64)
    start = 0
    while start < len(values):
        # Hash at least one value at a time, so that a value of any length is hashed.
        end = max(start + 1, int(np.searchsorted(offsets, offsets[start] + _HASHED_BYTES)) - 1)
        bounds = offsets[start : end + 1]
        hashes[start:end] = _polynomials(data[bounds[0] : bounds[-1]], bounds - bounds[0])
        start = end
    for factor in _MIX:
        hashes ^= hashes >> np.uint64(33)
        hashes *= np.uint64(factor)
    hashes ^= hashes >> np.uint64(33)
    return hashes


def _polynomials(data: npt.NDArray[np.uint8], bounds: npt.NDArray[np.int64]) -> Words:
    lengths = np.diff(bounds)
    longest = int(lengths.max())
    powers = np.cumprod(np.full(longest, _MULTIPLIER, np.uint64))
    if longest * len(lengths) == len(data):  # all have one length
        table = data.reshape(-1, longest).astype(np.uint64)
        return np.asarray(np.einsum("ij,j->i", table, powers) + powers.sum())
    places = np.arange(len(data)) - np.repeat(bounds[:-1], lengths)
    terms = (data.astype(np.uint64) + np.uint64(1)) * powers[places]
    return np.asarray(np.add.reduceat(terms, bounds[:-1]))


def _value(array: pa.Array, *, raw: bool = False) -> pa.Array:
    size = width(array.type)
    if size is not None:
        return parts_as_bytes(fixed_parts(array, nullable=True)[1:], len(array))
    if pa.types.is_struct(array.type):
        return join(*(_encode_nested(field) for field in array.flatten()))
    if pa.types.is_map(array.type):
        return _map(array)
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        elements, bounds = elements_of(array, array.values)
        return _sequence(join(_ELEMENT, _encode_nested(elements)), bounds)
    strings = pc.fill_null(array.cast(pa.binary()), b"")
    return strings if raw else join(_escape(strings), _END)


def _encode_nested(array: pa.Array) -> pa.Array:
    """Encode a value inside another: ascending, null before all values."""
    return variable_bytes(array, nullable=True, descending=False, nulls_first=True, raw=False)


def _escape(strings: pa.Array) -> pa.Array:
    if not (offsets_and_data(strings)[1] == 0).any():
        return strings
    return pc.replace_substring(strings, pattern=_ZERO, replacement=_ESCAPED)


def elements_of(array: pa.Array, values: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Concatenate the elements of all lists.

    Returns:
        The elements, and the offsets of each list; a null list has no elements.
    """
    offsets = array.offsets.to_numpy().astype(np.int64)
    lengths = np.diff(offsets)
    if array.null_count:
        lengths = np.where(pc.is_null(array).to_numpy(zero_copy_only=False), 0, lengths)
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    if not array.null_count:
        return values.slice(int(offsets[0]), int(bounds[-1])), bounds
    at = np.repeat(offsets[:-1] - bounds[:-1], lengths) + np.arange(bounds[-1])
    return values.take(pa.array(at)), bounds


def _sequence(elements: pa.Array, bounds: npt.NDArray[np.int64]) -> pa.Array:
    """Concatenate encoded elements per list; their bytes are already adjacent."""
    offsets, data = offsets_and_data(elements)
    return join(_binary(offsets[bounds], data), _LAST)


def map_entries(array: pa.Array) -> tuple[pa.Array, pa.Array, npt.NDArray[np.int64], pa.Array]:
    """Return the entries of all maps: keys, items, offsets, and their order by map and key."""
    keys, bounds = elements_of(array, array.keys)
    items, _ = elements_of(array, array.items)
    return keys, items, bounds, entry_order(_entries(keys, items), bounds)


def _entries(keys: pa.Array, items: pa.Array) -> pa.Array:
    return join(_ELEMENT, _encode_nested(keys), _encode_nested(items))


def entry_order(entries: pa.Array, bounds: npt.NDArray[np.int64]) -> pa.Array:
    """Return the order of the entries of all maps by map and by their bytes."""
    owner = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    table = pa.table({"owner": owner, "entry": entries})
    return pc.sort_indices(table, sort_keys=[("owner", "ascending"), ("entry", "ascending")])


def _map(array: pa.Array) -> pa.Array:
    keys, bounds = elements_of(array, array.keys)
    items, _ = elements_of(array, array.items)
    entries = _entries(keys, items)
    return _sequence(entries.take(entry_order(entries, bounds)), bounds)


def _invert(values: pa.Array) -> pa.Array:
    offsets, data = offsets_and_data(values)
    return _binary(offsets, ~data)


def offsets_and_data(values: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return offsets from 0 on, and the data they point into, of a pa.binary() column."""
    _, starts, data = values.buffers()
    if not len(values) or starts is None:
        return np.zeros(len(values) + 1, np.int64), np.zeros(0, np.uint8)
    offsets = np.frombuffer(starts, np.int32, count=len(values) + 1, offset=4 * values.offset)
    length = int(offsets[-1] - offsets[0])
    if not length:
        return np.zeros(len(values) + 1, np.int64), np.zeros(0, np.uint8)
    content = np.frombuffer(data, np.uint8, count=length, offset=int(offsets[0]))
    return offsets.astype(np.int64) - int(offsets[0]), content


def _binary(offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]) -> pa.Array:
    if int(offsets[-1]) > np.iinfo(np.int32).max:
        raise pa.ArrowCapacityError("the keys of a column exceed 2 GiB")
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
