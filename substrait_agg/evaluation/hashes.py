"""Compute Spark's hashes of keys, bit for bit: ``hash`` (Murmur3) and ``xxhash64``.

Both start with the seed 42 and hash column after column, each with the hash so far as its seed, and
the fields of a struct likewise. A null leaves the hash unchanged. Keys are normalised first, as by `spark.types.keys.with_normalised_keys`: every
NaN has the same bits, and -0.0 is 0.0.

Source: Spark's ``Murmur3_x86_32`` (whose tail differs from the original: every byte is mixed as an
int of its own) and ``XXH64``; ``HashExpression`` for the bits of each type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.evaluation.columns import INTEGERS_OF, Numbers, numbers, per_value

Words = npt.NDArray[np.uint32]
Longs = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
Hash = npt.NDArray[np.int32]

SEED = 42
LOW_31_BITS = 0x7FFFFFFF
_LONG_DIGITS = 18
"""Digits of the decimals that Spark stores as int64; longer ones are bytes."""
_DECIMAL_BYTES = 16
_SAMPLE = 1 << 10
"""Number of rows whose keys are looked at to find out whether keys repeat."""
_REPEATED = 2
"""How often keys must repeat at least, in the sample and in all rows, to be hashed once."""


@dataclass(frozen=True, slots=True)
class _Texts:
    """Byte strings: where each begins in `data`, and its length. `data` ends with 8 more bytes."""

    data: npt.NDArray[np.uint8]
    starts: Ints
    lengths: Ints

    def words(self, size: int) -> Any:
        """Return the unsigned little-endian number of `size` bytes that begins at each byte."""
        count = len(self.data) - size + 1
        return np.ndarray((count,), f"<u{size}", self.data.data, strides=(1,))

    def take(self, rows: Any) -> _Texts:
        """Return some of the strings."""
        return _Texts(self.data, self.starts[rows], self.lengths[rows])


@dataclass(frozen=True, slots=True)
class _Family:
    """A family of hashes: functions of values and seeds for each physical type."""

    of_int: Callable[[Any, Any], Any]
    of_long: Callable[[Any, Any], Any]
    of_bytes: Callable[[_Texts, Any], Any]


def key_hashes(columns: Sequence[pa.Array], rows: int) -> tuple[Hash, Hash]:
    """Return the two hashes by which Spark exchanges rows: Murmur3, and 31 bits of xxhash64.

    Equal keys with texts are hashed once if keys repeat. Rows without keys have the hash 0.

    Args:
        columns: columns of types that `can_hash` accepts, normalised.
        rows: number of rows.
    """
    if not columns:
        return np.zeros(rows, np.int32), np.zeros(rows, np.int32)
    has_bytes = any(map(_has_bytes, columns)) and not any(map(_is_struct, columns))
    distinct = _distinct_keys(columns, rows) if has_bytes else None
    if distinct is None:
        return murmur3(columns, rows), (xxhash64(columns, rows) & LOW_31_BITS).astype(np.int32)
    first, codes = distinct
    indices = pa.array(first)
    murmur, other = key_hashes([column.take(indices) for column in columns], len(first))
    return murmur[codes], other[codes]


def _has_bytes(column: pa.Array) -> bool:
    """Return whether values are hashed as byte strings, which takes longer than finding equal ones."""
    type_ = column.type
    long_decimal = pa.types.is_decimal(type_) and type_.precision > _LONG_DIGITS
    return bool(long_decimal or pa.types.is_string(type_) or pa.types.is_binary(type_))


def _is_struct(column: pa.Array) -> bool:
    return bool(pa.types.is_struct(column.type))


def _distinct_keys(columns: Sequence[pa.Array], rows: int) -> tuple[Ints, Ints] | None:
    """Return the first row of each distinct key, and the ordinal of the key of each row.

    None if keys hardly repeat, as a sample shows.
    """
    sample = [column[:_SAMPLE] for column in columns]
    if rows < 2 * _SAMPLE or _REPEATED * len(_codes(sample)[0]) > _SAMPLE:
        return None
    first, codes = _codes(columns)
    return (first, codes) if _REPEATED * len(first) <= rows else None


def _codes(columns: Sequence[pa.Array]) -> tuple[Ints, Ints]:
    codes, count = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        values = len(encoded.dictionary)
        codes = codes * values + encoded.indices.to_numpy()
        codes, count = _without_gaps(codes, count * values)
    first = np.zeros(count, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return first, codes


def _without_gaps(codes: Ints, bound: int) -> tuple[Ints, int]:
    """Return codes from 0 to below the number of different ones, and that number.

    So the products of the next column fit 64 bits. No code reaches `bound`.
    """
    if bound > len(codes):
        encoded = pa.array(codes).dictionary_encode()
        return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)
    used = np.zeros(bound, np.bool_)
    used[codes] = True
    count = int(used.sum())
    return (codes if count == bound else (np.cumsum(used) - 1)[codes]), count


def can_hash(type_: pa.DataType) -> bool:
    """Return whether keys of an Arrow type can be hashed."""
    types = pa.types
    if types.is_struct(type_):
        return all(can_hash(field.type) for field in type_)
    return bool(
        types.is_boolean(type_)
        or types.is_signed_integer(type_)
        or type_ in (pa.float32(), pa.float64(), pa.string(), pa.binary())
        or types.is_decimal128(type_)
        or type_.id in INTEGERS_OF
    )


def murmur3(
    columns: Sequence[pa.Array], rows: int, seeds: Words | None = None
) -> npt.NDArray[np.int32]:
    """Return ``hash(columns)``.

    Args:
        columns: columns of types that `can_hash` accepts.
        rows: number of rows.
        seeds: what the hash of each row begins with; None for that of ``hash``.
    """
    hashes = np.full(rows, SEED, np.uint32) if seeds is None else seeds
    result: npt.NDArray[np.int32] = _chain(_MURMUR, columns, hashes).view(np.int32)
    return result


def xxhash64(columns: Sequence[pa.Array], rows: int) -> npt.NDArray[np.int64]:
    """Return ``xxhash64(columns)``, with the arguments of `murmur3`."""
    hashes = np.full(rows, SEED, np.uint64)
    result: npt.NDArray[np.int64] = _chain(_XXHASH, columns, hashes).view(np.int64)
    return result


def normalise(column: pa.Array) -> pa.Array:
    """Return the column with one representation for all NaN and for both zeros."""
    if _is_struct(column):
        parts = [normalise(part) for part in column.flatten()]
        nulls = pc.is_null(column)
        return pa.StructArray.from_arrays(parts, fields=[*column.type], mask=nulls)
    if not pa.types.is_floating(column.type):
        return column
    return per_value(_normal, column.type, column)


def _normal(values: Numbers) -> Numbers:
    plain: Numbers = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
    plain += np.array(0, values.dtype)
    return plain


def _chain(family: _Family, columns: Sequence[pa.Array], hashes: Any) -> Any:
    for column in columns:
        chained = _hash_column(family, column, hashes)
        if column.null_count:
            is_valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
            chained = np.where(is_valid, chained, hashes)
        hashes = chained
    return hashes


def _hash_column(family: _Family, column: pa.Array, seeds: Any) -> Any:
    type_ = column.type
    if _is_struct(column):
        return _chain(family, column.flatten(), seeds)
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return family.of_bytes(_strings(column), seeds)
    if pa.types.is_decimal(type_):
        halves = _halves(column)
        if type_.precision <= _LONG_DIGITS:
            return family.of_long(halves[:, 0], seeds)
        return family.of_bytes(_decimals(halves), seeds)
    values = _bits(column)
    if values.dtype.itemsize == np.dtype(np.int64).itemsize:
        return family.of_long(values.view(np.uint64), seeds)
    return family.of_int(values.astype(np.int32).view(np.uint32), seeds)


def _bits(column: pa.Array) -> Numbers:
    """Return the integers that Spark hashes for numbers, booleans and points in time."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int32())
    values = numbers(column)
    if not pa.types.is_floating(column.type):
        return values
    bits: Numbers = _normal(values).view(f"i{values.dtype.itemsize}")
    return bits


# --- byte strings -------------------------------------------------------------------------------


def _strings(column: pa.Array) -> _Texts:
    """Return the bytes of strings; those of nulls are arbitrary."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4).astype(np.int64)
    first, last = (int(ends[0]), int(ends[-1])) if len(ends) else (0, 0)
    size = last - first
    padded = np.zeros(size + 8, np.uint8)
    if size:
        padded[:size] = np.frombuffer(data, np.uint8, size, first)
    return _Texts(padded, ends[:-1] - first, np.diff(ends))


def _halves(column: pa.Array) -> Longs:
    """Return the low and high 64 bits of decimals."""
    data, at = column.buffers()[1], column.offset * _DECIMAL_BYTES
    return np.frombuffer(data, np.uint64, 2 * len(column), at).reshape(-1, 2)


def _decimals(halves: Longs) -> _Texts:
    """Return unscaled values as the shortest big-endian bytes in two's complement."""
    count = len(halves)
    data = np.zeros(count * _DECIMAL_BYTES + 8, np.uint8)
    table = data[: count * _DECIMAL_BYTES].reshape(count, _DECIMAL_BYTES)
    table[:] = (
        np.ascontiguousarray(halves[:, ::-1])
        .view(np.uint64)
        .byteswap()
        .view(np.uint8)
        .reshape(count, _DECIMAL_BYTES)
    )
    sign = np.where(table[:, :1] >= 0x80, 0xFF, 0)
    # A leading byte says nothing if it repeats the sign bit of the byte after it.
    spare = (table[:, :-1] == sign) & ((table[:, 1:] >= 0x80) == (sign == 0xFF))
    skipped = np.logical_and.accumulate(spare, axis=1).sum(axis=1).astype(np.int64)
    starts = np.arange(count, dtype=np.int64) * _DECIMAL_BYTES + skipped
    return _Texts(data, starts, _DECIMAL_BYTES - skipped)


def _longest_first(
    hash_: Callable[[_Texts, Any], Any],
) -> Callable[[_Texts, Any], Any]:
    """Return a function that calls `hash_` with the strings ordered by length.

    The strings that have a further block are then the first ones.
    """

    def hash_texts(texts: _Texts, seeds: Any) -> Any:
        """Return the hashes in the order of the texts."""
        order = np.argsort(-texts.lengths, kind="stable")
        result = np.empty_like(seeds)
        result[order] = hash_(texts.take(order), seeds[order])
        return result

    return hash_texts


def _active(lengths: Ints, size: int) -> list[int]:
    """Return how many strings have a first, second, ... block of `size` bytes, in this order."""
    blocks = int(lengths[0]) // size if len(lengths) else 0
    counts = np.searchsorted(-(lengths // size), -np.arange(blocks), side="left")
    return [int(count) for count in counts]


# --- Murmur3 ------------------------------------------------------------------------------------


def _rotate(values: Any, bits: int) -> Any:
    size = values.dtype.itemsize * 8
    kind = values.dtype.type
    return (values << kind(bits)) | (values >> kind(size - bits))


def _mix(hashes: Words, words: Words) -> Words:
    scrambled = _rotate(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    mixed: Words = _rotate(hashes ^ scrambled, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    return mixed


def _murmur_end(hashes: Words, lengths: Any) -> Words:
    hashes = hashes ^ lengths
    hashes = (hashes ^ (hashes >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    hashes = (hashes ^ (hashes >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return hashes ^ (hashes >> np.uint32(16))


def _murmur_long(values: Longs, seeds: Words) -> Words:
    low = values.astype(np.uint32)
    high = (values >> np.uint64(32)).astype(np.uint32)
    return _murmur_end(_mix(_mix(seeds, low), high), np.uint32(8))


def _murmur_bytes(texts: _Texts, seeds: Words) -> Words:
    hashes, words, lengths = seeds.copy(), texts.words(4), texts.lengths
    for block, count in enumerate(_active(lengths, 4)):
        hashes[:count] = _mix(hashes[:count], words[texts.starts[:count] + 4 * block])
    after = texts.starts + lengths // 4 * 4
    for place in range(3):
        rows = np.flatnonzero(lengths % 4 > place)
        signed = texts.data[after[rows] + place].view(np.int8).astype(np.int32)
        hashes[rows] = _mix(hashes[rows], signed.view(np.uint32))
    return _murmur_end(hashes, lengths.astype(np.uint32))


_MURMUR = _Family(
    lambda values, seeds: _murmur_end(_mix(seeds, values), np.uint32(4)),
    _murmur_long,
    _longest_first(_murmur_bytes),
)

# --- XXH64 --------------------------------------------------------------------------------------

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)  # fmt: skip


def _scramble(words: Longs) -> Any:
    return _rotate(words * _P2, 31) * _P1


def _with_long(hashes: Longs, words: Longs) -> Any:
    return _rotate(hashes ^ _scramble(words), 27) * _P1 + _P4


def _with_int(hashes: Longs, words: Longs) -> Any:
    return _rotate(hashes ^ (words * _P1), 23) * _P2 + _P3


def _xxhash_end(hashes: Longs) -> Longs:
    hashes = (hashes ^ (hashes >> np.uint64(33))) * _P2
    hashes = (hashes ^ (hashes >> np.uint64(29))) * _P3
    return hashes ^ (hashes >> np.uint64(32))


def _xxhash_int(values: Words, seeds: Longs) -> Longs:
    return _xxhash_end(_with_int(seeds + _P5 + np.uint64(4), values.astype(np.uint64)))


def _xxhash_long(values: Longs, seeds: Longs) -> Longs:
    return _xxhash_end(_with_long(seeds + _P5 + np.uint64(8), values))


def _stripes(texts: _Texts, seeds: Longs) -> Longs:
    """Return the hashes of the stripes of 32 bytes; `texts` all have one."""
    words = texts.words(8)
    lanes = [seeds + _P1 + _P2, seeds + _P2, seeds.copy(), seeds - _P1]
    for block, count in enumerate(_active(texts.lengths, 32)):
        for lane, state in enumerate(lanes):
            read = words[texts.starts[:count] + (32 * block + 8 * lane)]
            state[:count] = _rotate(state[:count] + read * _P2, 31) * _P1
    hashes: Longs = sum((_rotate(s, b) for s, b in zip(lanes[1:], (7, 12, 18), strict=True)),
                        _rotate(lanes[0], 1))  # fmt: skip
    for state in lanes:
        hashes = (hashes ^ _scramble(state)) * _P1 + _P4
    return hashes


def _xxhash_bytes(texts: _Texts, seeds: Longs) -> Longs:
    lengths = texts.lengths
    hashes = seeds + _P5
    long = int(np.count_nonzero(lengths >= 32))
    if long:
        hashes[:long] = _stripes(texts.take(slice(long)), seeds[:long])
    hashes = hashes + lengths.astype(np.uint64)
    at, left = texts.starts + lengths // 32 * 32, lengths % 32
    words, ints = texts.words(8), texts.words(4)
    for block in range(3):
        rows = np.flatnonzero(left >= 8 * (block + 1))
        hashes[rows] = _with_long(hashes[rows], words[at[rows] + 8 * block])
    at, left = at + left // 8 * 8, left % 8
    rows = np.flatnonzero(left >= 4)
    hashes[rows] = _with_int(hashes[rows], ints[at[rows]].astype(np.uint64))
    at, left = at + left // 4 * 4, left % 4
    for place in range(3):
        rows = np.flatnonzero(left > place)
        mixed = hashes[rows] ^ (texts.data[at[rows] + place].astype(np.uint64) * _P5)
        hashes[rows] = _rotate(mixed, 11) * _P1
    return _xxhash_end(hashes)


_XXHASH = _Family(_xxhash_int, _xxhash_long, _longest_first(_xxhash_bytes))
