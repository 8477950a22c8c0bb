"""The rules of the set operations: how often the output has a row, from its numbers in the inputs.

Specification: Logical Relations, Set Operation Types. ``m`` is the number of times that a row
occurs in the primary input, ``n`` has a line per secondary input. A number below zero counts as
zero: the row was retracted before its insertion, so the input does not have it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from substrait_agg.plan.model import SetOperationKind

Int64s = npt.NDArray[np.int64]
Rule = Callable[[Int64s, Int64s], npt.NDArray[np.generic]]


def _minus_primary_all(m: Int64s, n: Int64s) -> Int64s:
    """Subtract input by input: the sum of the secondary inputs could leave 64 bits."""
    left = m
    for subtracted in n:
        left = np.maximum(left - subtracted, 0)
    return left


RULES: Mapping[SetOperationKind, Rule] = {
    "minus_primary": lambda m, n: (m > 0) & (n == 0).all(axis=0),
    "minus_primary_all": _minus_primary_all,
    "minus_multiset": lambda m, n: np.where((n > 0).all(axis=0), 0, m),
    "intersection_primary": lambda m, n: (m > 0) & (n > 0).any(axis=0),
    "intersection_multiset": lambda m, n: (m > 0) & (n > 0).all(axis=0),
    "intersection_multiset_all": lambda m, n: np.minimum(m, n.min(axis=0)),
    "union_distinct": lambda m, n: (m > 0) | (n > 0).any(axis=0),
}
"""The rule of each set operation; union all needs no state."""


def output_weights(operation: SetOperationKind, counts: Int64s) -> Int64s:
    """Return how often the output of a set operation has each row.

    Args:
        operation: the set operation.
        counts: a line per input, the primary one first, and a column per row.
    """
    live = np.maximum(counts, 0)
    return RULES[operation](live[0], live[1:]).astype(np.int64)
