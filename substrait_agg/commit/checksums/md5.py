"""Compute MD5 of many texts at once.

MD5 finds accidents, not attacks. It is used because every SQL engine has it.
"""

from __future__ import annotations

from hashlib import md5
from math import sin

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.state.keys.variable_keys import offsets_and_data

Words = npt.NDArray[np.uint32]
Hashes = npt.NDArray[np.uint64]
Offsets = npt.NDArray[np.int64]

_AT_ONCE = 1 << 13
"""Texts whose numbers stay in the cache of a processor."""
_FEW = 1 << 10
"""Fewer texts are hashed one by one: a round over arrays takes longer than they do."""
_BLOCK = 64
_MOST_BLOCKS = 4
"""Longer texts are hashed one by one: with so many bytes each, the library is faster."""

_START = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476)
_SHIFTS = ((7, 12, 17, 22), (5, 9, 14, 20), (4, 11, 16, 23), (6, 10, 15, 21))
_STEPS = ((1, 0), (5, 1), (3, 5), (7, 0))
"""Per round, in which order the words of a block are taken: factor and first."""
_SINES = tuple(np.uint32(int(abs(sin(i + 1)) * 2**32)) for i in range(64))

_KEPT = np.array([0, *((1 << 8 * n) - 1 for n in range(9))], np.uint64)
"""Which bits of a word belong to the text, by the bytes from its start to the end, plus 1."""
_ENDS = np.array([0, *(0x80 << 8 * n for n in range(8)), 0], np.uint64)
"""The bit behind the text, in the same order."""


def md5_words(texts: pa.Array) -> Hashes:
    """Return the first 8 bytes of the MD5 of each text, as a big-endian number.

    Args:
        texts: texts or bytes, without nulls.
    """
    offsets, data = offsets_and_data(texts)
    blocks = (np.diff(offsets) + 8) // _BLOCK + 1
    short = np.flatnonzero(blocks <= _MOST_BLOCKS)
    if len(short) < _FEW:
        return _one_by_one(texts)
    hashes = np.empty(len(texts), np.uint64)
    if len(short) < len(texts):
        long = np.flatnonzero(blocks > _MOST_BLOCKS)
        hashes[long] = _one_by_one(texts.take(pa.array(long)))
    padded = np.concatenate([data, np.zeros(2 * _BLOCK, np.uint8)])
    for first in range(0, len(short), _AT_ONCE):
        part = short[first : first + _AT_ONCE]
        hashes[part] = _hash(padded, offsets[part], offsets[part + 1] - offsets[part])
    return hashes


def _one_by_one(texts: pa.Array) -> Hashes:
    binary = texts.cast(pa.binary()).to_pylist()
    digests = b"".join(md5(text, usedforsecurity=False).digest()[:8] for text in binary)
    return np.frombuffer(digests, ">u8").astype(np.uint64)


def _hash(data: npt.NDArray[np.uint8], starts: Offsets, lengths: Offsets) -> Hashes:
    """Hash texts of few blocks; `data` has two blocks of zeros behind the last text."""
    blocks = (lengths + 8) // _BLOCK + 1
    state = [np.full(len(starts), word, np.uint32) for word in _START]
    for block in range(int(blocks.max())):
        active = np.flatnonzero(blocks > block)
        at, left = starts[active] + block * _BLOCK, lengths[active] - block * _BLOCK
        sizes = np.where(blocks[active] == block + 1, lengths[active] * 8, 0)
        before = [words[active] for words in state]
        for words, added in zip(
            state, _compress(before, _block(data, at, left, sizes)), strict=True
        ):
            words[active] += added
    high, low = (words.byteswap().astype(np.uint64) for words in state[:2])
    return np.asarray(high << np.uint64(32) | low)


def _block(data: npt.NDArray[np.uint8], at: Offsets, left: Offsets, sizes: Offsets) -> list[Words]:
    """Return the 16 words of one block of each text.

    Args:
        data: the texts, one behind the other.
        at: where the blocks begin.
        left: how many bytes of the texts come from there on.
        sizes: what the last words add up to: the bits of the text in its last block.
    """
    places = np.lib.stride_tricks.as_strided(
        data[:8].view("<u8"), shape=(len(data) - 7,), strides=(1,)
    )
    words: list[Words] = []
    for place in range(0, _BLOCK, 8):
        rest = np.clip(left - place, -1, 8) + 1
        word = places[at + place].astype(np.uint64) & _KEPT[rest] | _ENDS[rest]
        if place == _BLOCK - 8:
            word |= sizes.astype(np.uint64)
        words += [word.astype(np.uint32), (word >> np.uint64(32)).astype(np.uint32)]
    return words


def _compress(state: list[Words], words: list[Words]) -> tuple[Words, ...]:
    """Return the state after the four rounds over a block."""
    first, second, third, fourth = state
    for step in range(64):
        turn = step // 16
        mixed = _mix(turn, second, third, fourth)
        factor, begin = _STEPS[turn]
        mixed += first
        mixed += _SINES[step]
        mixed += words[(factor * step + begin) % 16]
        shift = _SHIFTS[turn][step % 4]
        high = mixed >> np.uint32(32 - shift)
        mixed <<= np.uint32(shift)
        mixed |= high
        mixed += second
        first, second, third, fourth = fourth, mixed, second, third
    return first, second, third, fourth


def _mix(turn: int, second: Words, third: Words, fourth: Words) -> Words:
    """Return a new array with the function of a round."""
    if turn == 0:
        mixed = third ^ fourth
        mixed &= second
        mixed ^= fourth
    elif turn == 1:
        mixed = second ^ third
        mixed &= fourth
        mixed ^= third
    elif turn == 2:
        mixed = second ^ third
        mixed ^= fourth
    else:
        mixed = ~fourth
        mixed |= second
        mixed ^= third
    return mixed
