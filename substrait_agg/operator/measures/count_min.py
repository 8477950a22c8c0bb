"""Spark's count-min sketch, as bytes, from the distinct values themselves.

The counters of a group are computed from its values each time it is emitted, so values can be deleted.

Source: G. Cormode, S. Muthukrishnan: "An Improved Data Stream Summary: The Count-Min Sketch and its
Applications" (2005).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.evaluation.hashes import murmur3
from substrait_agg.operator.common.spec import MeasureSpec
from substrait_agg.operator.measures.contributors import Contributors, require_room
from substrait_agg.operator.numeric.numbers import integer_words
from substrait_agg.state.segments import Segments

Int64s = npt.NDArray[np.int64]

_VERSION = 1
_PRIME = (1 << 31) - 1


def count_min_sketch(segments: Segments, measure: MeasureSpec) -> pa.Array:
    """Return per group the sketch of its values; constants: rows and columns of counters, and the seed."""
    contributors = Contributors.of(segments, measure)
    depth, width, seed = (int(constant) for constant in measure.constants)
    layout = np.dtype(
        [
            ("version", ">i4"), ("total", ">i8"), ("depth", ">i4"), ("width", ">i4"),
            ("factors", ">i8", (depth,)), ("counters", ">i8", (depth, width)),
        ]
    )  # fmt: skip
    groups = len(contributors)
    require_room(measure, float(groups) * layout.itemsize, "bytes of sketches")
    factors = _factors(seed, depth)
    begins = np.repeat(np.arange(groups) * width, contributors.sizes)
    counters = np.zeros((depth, groups * width), np.int64)
    for row, columns in enumerate(_columns(contributors.values, factors, width)):
        np.add.at(counters[row], begins + columns, contributors.weights)
    sketches = np.zeros(groups, layout)
    sketches["version"], sketches["total"] = _VERSION, contributors.totals
    sketches["depth"], sketches["width"] = depth, width
    sketches["factors"] = factors
    sketches["counters"] = counters.reshape(depth, groups, width).transpose(1, 0, 2)
    offsets = np.arange(groups + 1, dtype=np.int32) * np.int32(layout.itemsize)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(sketches.tobytes())]
    return pa.Array.from_buffers(pa.binary(), groups, buffers)


def _columns(values: pa.Array, factors: Int64s, width: int) -> Iterator[Int64s]:
    """Yield the column of each value's counter, one row of counters after the other."""
    if pa.types.is_integer(values.type):
        words = integer_words(values)[:, 0]
        for factor in factors:
            product = words * factor
            yield ((product + (product >> np.int64(32))) & np.int64(_PRIME)) % width
        return
    first = murmur3([values], len(values), np.zeros(len(values), np.uint32))
    second = murmur3([values], len(values), first.view(np.uint32))
    for row in range(len(factors)):
        mixed = (first + np.int32(row) * second).astype(np.int64)
        yield np.abs(np.fmod(mixed, width))


def _factors(seed: int, depth: int) -> Int64s:
    """Return the first integers below the prime of Java's random numbers from a seed."""
    state = (seed ^ 0x5DEECE66D) & ((1 << 48) - 1)
    factors: list[int] = []
    while len(factors) < depth:
        state = (state * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
        if state >> 17 != _PRIME:
            factors.append(state >> 17)
    return np.array(factors, np.int64)
