"""Hash ranges: Spark's partitions are contiguous ranges of the sort hash."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from substrait_agg.commit.hash_ranges import (
    check_partitions,
    clip,
    outside,
    partition_range,
    sort_hash,
)
from substrait_agg.errors import UsageError
from substrait_agg.state.run import HASH_MAX, RunFile

INT32 = st.integers(-(2**31), 2**31 - 1)


@given(st.lists(st.tuples(INT32, INT32), min_size=1, max_size=50), st.integers(0, 8))
def test_a_row_is_in_the_range_of_the_partition_spark_sends_it_to(
    hashes: list[tuple[int, int]], bits: int
) -> None:
    """Spark's partition is the murmur3 hash modulo the number of partitions."""
    partitions = 1 << bits
    murmur = np.array([m for m, _ in hashes], np.int32)
    found = sort_hash(murmur, np.array([x for _, x in hashes], np.int32))
    for hashed, m in zip(found.tolist(), murmur.tolist(), strict=True):
        low, high = partition_range(m % partitions, partitions)
        assert low <= hashed <= high


@pytest.mark.parametrize("partitions", [1, 2, 8, 64])
def test_ranges_cover_every_hash_once(partitions: int) -> None:
    """No gap, no overlap."""
    ranges = sorted(partition_range(p, partitions) for p in range(partitions))
    assert ranges[0][0] == 0
    assert ranges[-1][1] == HASH_MAX
    assert all(a[1] + 1 == b[0] for a, b in pairwise(ranges))


@given(
    st.lists(st.tuples(st.integers(0, HASH_MAX), st.integers(0, HASH_MAX)), max_size=5),
    st.integers(0, 3),
    st.integers(2, 3),
    st.lists(st.integers(0, HASH_MAX), max_size=9),
)
def test_clipped_and_outside_together_are_the_whole(
    spans: list[tuple[int, int]], partition: int, bits: int, hashes: list[int]
) -> None:
    """A hash is live in exactly one of the clipped run and the rest."""
    files = [RunFile(f"r{i}", 1, 1, 1, min(s), max(s)) for i, s in enumerate(spans)]
    low, high = partition_range(partition, 1 << bits)
    inner, outer = clip(files, low, high), outside(files, [(low, high)])
    for hashed in [*hashes, low, high, HASH_MAX, 0]:
        there = sorted(f.name for f in (*inner, *outer) if f.low <= hashed <= f.high)
        assert there == sorted(f.name for f in files if f.low <= hashed <= f.high)


@pytest.mark.parametrize("partitions", [0, 3, -2, 6, 1 << 17])
def test_other_numbers_of_partitions_are_refused(partitions: int) -> None:
    """Only powers of two have contiguous ranges."""
    with pytest.raises(UsageError, match="power of two"):
        check_partitions(partitions)
