"""Spark's estimate of a number of distinct values, HyperLogLog++, from the distinct values themselves.

The registers of a group are computed from its values each time it is emitted, so values can be deleted.

Source: S. Heule, M. Nunkesser, A. Hall: "HyperLogLog in Practice" (2013), whose appendix has the estimates,
their biases and the thresholds of `hyperloglog.json`, per precision from 4 to 18.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.evaluation.hashes import normalise, xxhash64
from substrait_agg.operator.common.spec import MeasureSpec
from substrait_agg.operator.measures.contributors import Contributors, convert
from substrait_agg.state.segments import Segments

Floats = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]

_LEAST_PRECISION = 4
_WIDTH = 64
_NEIGHBOURS = 6
_ALPHAS = {4: 0.673, 5: 0.697, 6: 0.709}
_SHARES = np.float64(1) / np.left_shift(np.int32(1), np.arange(_WIDTH, dtype=np.int32) % 32)
"""What a register adds to the sum. Spark shifts an integer of 32 bits."""


@dataclass(frozen=True, slots=True)
class _Biases:
    """The mean errors of raw estimates of one precision.

    Attributes:
        threshold: number of values up to which empty registers are counted.
        estimates: raw estimates, ascending.
        biases: the mean error of each.
    """

    threshold: float
    estimates: Floats
    biases: Floats

    def correct(self, raw: Floats) -> Floats:
        """Return raw estimates less the mean error of the nearest ones in the table."""
        count = len(self.estimates)
        low = np.maximum(self._place(raw) - _NEIGHBOURS + 1, 0)
        while True:
            high = np.minimum(low + _NEIGHBOURS, count)
            further = self.estimates[np.minimum(high, count - 1)]
            nearer = (raw - further) ** 2 < (raw - self.estimates[low]) ** 2
            moved = (high < count) & nearer
            if not moved.any():
                break
            low = low + moved
        total = np.zeros(len(raw))
        for place in range(_NEIGHBOURS):
            at = low + place
            total += np.where(at < high, self.biases[np.minimum(at, count - 1)], 0.0)
        corrected: Floats = raw - total / (high - low)
        return corrected

    def _place(self, raw: Floats) -> Int64s:
        """Return where a binary search in the estimates ends; two of them are out of order."""
        low = np.zeros(len(raw), np.int64)
        high = np.full(len(raw), len(self.estimates) - 1)
        while (low <= high).any():
            middle = (low + high) >> 1
            pivot = self.estimates[np.clip(middle, 0, len(self.estimates) - 1)]
            searching = low <= high
            low, high = (
                np.where(searching & (pivot < raw), middle + 1, low),
                np.where(searching & (pivot >= raw), middle - 1, high),
            )
        return low


@cache
def _biases(precision: int) -> _Biases | None:
    """Return the table of a precision; None if it has none."""
    tables: dict[str, Any] = json.loads(
        files("substrait_agg.operator.measures").joinpath("hyperloglog.json").read_text("utf-8")
    )
    place = precision - _LEAST_PRECISION
    if place >= len(tables["thresholds"]):
        return None
    columns = (np.array(tables[name][place]) for name in ("estimates", "biases"))
    return _Biases(tables["thresholds"][place], *columns)


def precision_of(deviation: float) -> int:
    """Return the number of bits of a hash that choose a register, for a relative standard deviation.

    >>> precision_of(0.05)
    9
    """
    return math.ceil(2 * math.log(1.106 / deviation) / math.log(2))


def estimated_count(segments: Segments, measure: MeasureSpec) -> pa.Array:
    """Return per group Spark's ``approx_count_distinct`` of its values."""
    contributors = Contributors.of(segments, measure)
    precision = precision_of(float(measure.constants[0]))
    values = normalise(contributors.values)
    hashes = xxhash64([values], len(values)).view(np.uint64)
    groups = np.repeat(np.arange(len(contributors)), contributors.sizes)
    return convert(pa.array(_estimate(groups, hashes, precision, len(contributors))), measure)


def _estimate(groups: Int64s, hashes: Any, precision: int, count: int) -> Int64s:
    registers = 1 << precision
    owners, ranks = _registers(groups, hashes, precision)
    empty = (registers - np.bincount(owners, minlength=count)).astype(np.float64)
    total = np.bincount(owners, _SHARES[ranks], minlength=count) + empty
    alpha = _ALPHAS.get(precision, 0.7213 / (1 + 1.079 / registers))
    raw = alpha * registers * registers / total
    table = _biases(precision)
    corrected = raw
    if table is not None:
        corrected = np.where(raw < 5.0 * registers, table.correct(raw), raw)
    linear = registers * np.log(registers / np.maximum(empty, 1.0))
    few = raw <= 2.5 * registers
    if table is not None:
        few |= linear <= table.threshold
    result: Int64s = np.floor(np.where((empty > 0) & few, linear, corrected) + 0.5).astype(np.int64)
    return result


def _registers(groups: Int64s, hashes: Any, precision: int) -> tuple[Int64s, Int64s]:
    """Return the group and the rank of each register that is not empty."""
    shift = np.uint64(precision)
    index = (hashes >> np.uint64(_WIDTH - precision)).astype(np.int64)
    rest = (hashes << shift) | np.uint64(1 << (precision - 1))
    ranks = leading_zeros(rest) + 1
    ordered = np.sort(((groups << precision) | index) * _WIDTH + ranks)
    registers = ordered // _WIDTH
    last = np.flatnonzero(np.diff(registers, append=-1))
    return registers[last] >> precision, ordered[last] % _WIDTH


def leading_zeros(words: Any) -> Int64s:
    """Return the number of leading zero bits of words above 0."""
    zeros = np.zeros(len(words), np.int64)
    for bits in (32, 16, 8, 4, 2, 1):
        small = words < np.uint64(1 << (_WIDTH - bits))
        zeros += small * bits
        words = np.where(small, words << np.uint64(bits), words)
    return zeros
