"""The set operations of the specification over multisets of rows, written row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

Bag = Counter[tuple[Any, ...]]

COPIES: dict[str, Callable[[int, list[int]], int]] = {
    "minus_primary": lambda m, n: 1 if m and not any(n) else 0,
    "minus_primary_all": lambda m, n: max(0, m - sum(n)),
    "minus_multiset": lambda m, n: 0 if all(n) else m,
    "intersection_primary": lambda m, n: 1 if m and any(n) else 0,
    "intersection_multiset": lambda m, n: 1 if m and all(n) else 0,
    "intersection_multiset_all": lambda m, n: min(m, *n),
    "union_distinct": lambda m, n: 1 if m or any(n) else 0,
}
"""Operation -> number of copies of a row, from its number in the primary input and in the others."""


def expected(operation: str, inputs: Sequence[Bag]) -> Bag:
    """The rows of a set operation; an input has no row whose number is below zero."""
    result: Bag = Counter()
    for row in set().union(*inputs):
        first, *others = (max(0, rows[row]) for rows in inputs)
        result[row] = COPIES[operation](first, others)
    return +result
