"""Map hashes to state partitions, and compute the sort hash.

Spark sends a row to partition ``murmur3(keys) mod n`` of n. The high bits of the sort hash are the
bits of that murmur3 hash in reverse order. If n is a power of two, each partition is therefore one
contiguous range of sort hashes. The same sorted runs serve any number of partitions, and Spark's
own exchange delivers each row to the partition that owns its range.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from substrait_agg.errors import UsageError
from substrait_agg.state.run import HASH_MAX, RunFile

MAX_PARTITIONS = 1 << 16


def sort_hash(
    murmur: npt.NDArray[np.int32], other: npt.NDArray[np.int32]
) -> npt.NDArray[np.uint64]:
    """Return the 64-bit sort hash of keys, computed from two independent 32-bit hashes of them."""
    bits = murmur.view(np.uint32).copy()
    for mask, shift in ((0x55555555, 1), (0x33333333, 2), (0x0F0F0F0F, 4), (0x00FF00FF, 8)):
        low, step = np.uint32(mask), np.uint32(shift)
        bits = ((bits >> step) & low) | ((bits & low) << step)
    bits = (bits >> np.uint32(16)) | (bits << np.uint32(16))
    high = bits.astype(np.uint64) << np.uint64(32)
    return np.asarray(high | other.view(np.uint32).astype(np.uint64))


def partition_range(partition: int, partitions: int) -> tuple[int, int]:
    """Return the least and the greatest sort hash of a partition."""
    bits = partitions.bit_length() - 1
    place = int(f"{partition:0{bits}b}"[::-1], 2) if bits else 0
    size = 1 << (64 - bits)
    return place * size, place * size + size - 1


def check_partitions(partitions: int) -> int:
    """Return the number of partitions if it is valid.

    Raises:
        UsageError: PARTITIONS_INVALID unless it is a power of two up to `MAX_PARTITIONS`.
    """
    if 0 < partitions <= MAX_PARTITIONS and partitions & (partitions - 1) == 0:
        return partitions
    raise UsageError(
        "PARTITIONS_INVALID",
        f"{partitions} state partitions: the number must be a power of two and at most {MAX_PARTITIONS}",
        help="use 1, 2, 4, 8, ...",
        path="--partitions",
    )


def clip(files: Iterable[RunFile], low: int, high: int) -> tuple[RunFile, ...]:
    """Restrict runs to the hashes from `low` to `high`, in the same order."""
    return tuple(
        file
        if low <= file.low and file.high <= high
        else replace(file, low=max(low, file.low), high=min(high, file.high))
        for file in files
        if file.low <= high and file.high >= low
    )


def outside(files: Iterable[RunFile], ranges: Iterable[tuple[int, int]]) -> tuple[RunFile, ...]:
    """Restrict runs to the hashes outside all `ranges` ranges, in the same order within a range."""
    rest: list[tuple[int, int]] = []
    start = 0
    for low, high in sorted(ranges):
        if start < low:
            rest.append((start, low - 1))
        start = high + 1
    if start <= HASH_MAX:
        rest.append((start, HASH_MAX))
    all_files = list(files)
    return tuple(piece for low, high in rest for piece in clip(all_files, low, high))
