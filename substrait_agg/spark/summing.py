"""Whether rows are summed per key before they are exchanged, or exchanged as they are."""

from __future__ import annotations

from substrait_agg.functions.accumulators import DIGIT_BITS
from substrait_agg.operator.spec import OperatorSpec

_HASHES = 2
_LIMBS = {"count": 1, "float": 5, "decimal": 2}
"""Columns of an accumulator's partial sum; of a float its bin and four limbs."""


def better_raw(spec: OperatorSpec, rows: int, groups: int, *, raw: bool) -> bool:
    """Whether a batch like this one is better exchanged row by row.

    What is compared are the cells of its rows and those of the partial sums of its groups: with many measures a row is much
    narrower than a partial sum, and Spark adds up many columns slowly.

    Args:
        spec: the operator.
        rows: of the batch.
        groups: that they touched.
        raw: how this batch was exchanged; a little more is asked for to change than to stay.
    """
    if spec.is_global or spec.weight == "any":
        return False
    cells = groups * _partial_cells(spec)
    return (2 * cells if raw else cells) > rows * _row_cells(spec)


def _partial_cells(spec: OperatorSpec) -> int:
    sums = sum(
        _LIMBS.get(accumulator.kind) or accumulator.bits // DIGIT_BITS
        for accumulator in spec.accumulators
    )
    return _HASHES + len(spec.keys) + 1 + sums


def _row_cells(spec: OperatorSpec) -> int:
    weight = 0 if spec.weight == "one" else 1
    return _HASHES + len(spec.keys) + len({a.argument for a in spec.accumulators}) + weight
