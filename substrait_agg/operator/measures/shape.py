"""Skewness and kurtosis of the values of each group, from their distances to the mean.

The values are taken in their order each time a group is emitted, so deleted ones leave no trace.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.operator.common.spec import MeasureSpec
from substrait_agg.operator.measures.contributors import Contributors, convert
from substrait_agg.operator.numeric.numbers import floats
from substrait_agg.state.segments import Segments

Floats = npt.NDArray[np.float64]


def _moments(contributors: Contributors, power: int) -> tuple[Floats, Floats, Floats]:
    """Return the count of each filled group, and its sums of squares and of powers of distances."""
    weights = contributors.weights.astype(np.float64)
    filled = contributors.filled
    owners = np.repeat(np.arange(len(filled)), contributors.sizes[filled])
    counts = contributors.reduce(np.add, weights)
    values = floats(contributors.values)
    # Equal values are at a distance of exactly 0 from the first one, and so from their mean.
    apart = values - values[contributors.offsets[:-1][filled]][owners]
    apart = apart - (contributors.reduce(np.add, apart * weights) / counts)[owners]
    squares = contributors.reduce(np.add, apart**2 * weights)
    return counts, squares, contributors.reduce(np.add, apart**power * weights)


def _values(contributors: Contributors, valid: Floats, values: Floats) -> pa.Array:
    """Return the values of the filled groups in which a condition is not 0; null for others."""
    result = np.zeros(len(contributors))
    missing = np.ones(len(contributors), np.bool_)
    result[contributors.filled] = values
    missing[contributors.filled] = valid == 0
    return convert(pa.array(result, mask=missing), contributors.measure)


def skewness(segments: Segments, measure: MeasureSpec) -> pa.Array:
    """Return the skewness of the population; null if the values do not vary."""
    contributors = Contributors.of(segments, measure)
    with np.errstate(all="ignore"):
        counts, squares, cubes = _moments(contributors, 3)
        return _values(contributors, squares, np.sqrt(counts) * cubes / np.sqrt(squares**3))


def kurtosis(segments: Segments, measure: MeasureSpec) -> pa.Array:
    """Return the excess kurtosis of the population; null if the values do not vary."""
    contributors = Contributors.of(segments, measure)
    with np.errstate(all="ignore"):
        counts, squares, fourths = _moments(contributors, 4)
        return _values(contributors, squares, counts * fourths / squares**2 - 3)
