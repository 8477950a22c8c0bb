"""How a batch is computed, as the batches before have shown: whether rows are summed before they are exchanged, how carefully, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from substrait_agg.commit.task_plan import TaskResult
from substrait_agg.flow.nodes import Node
from substrait_agg.functions.accumulators import DIGIT_BITS
from substrait_agg.operator.spec import InputSpec
from substrait_agg.plan.types import INTEGER_BITS
from substrait_agg.spark.answers import HANDED_OVER

FEW_GROUPS = 1 << 12
"""Groups of a batch up to which the driver takes the partial sums of the next."""
ALIKE = 16
"""How many times as large as the last a batch may be that is taken to be like it."""
UNWEIGHED_BYTES = 1 << 24
"""Bytes of rows that Spark hands over at once without weighing them, should they be as long as those of the batch before."""
_FIXED = frozenset({
    *INTEGER_BITS, "bool", "fp32", "fp64", "decimal", "date", "precision_time", "precision_timestamp",
    "precision_timestamp_tz", "interval_year", "interval_day",
})  # fmt: skip
"""Types whose values all have one size."""
_HASHES = 2
_LIMBS = {"count": 1, "float": 5, "decimal": 2}
"""Columns of an accumulator's partial sum; of a float its bin and four limbs."""


@dataclass(frozen=True, slots=True)
class Care:
    """How carefully an operator's input is summed; what a batch has shown to be needed stays for the run.

    Attributes:
        place: exchange rows once more by partition.
        parts: sum decimals in parts.
        raw: exchange rows without summing them first; chosen anew after every batch, by how often keys repeat.
        few: let the driver take the partial sums; chosen anew after every batch, by how many groups it touched.
        row_bytes: how long rows are on average, of the last batch; 0 where that is not known.
        size: bytes of the last batch, as far as Spark knew before it read it.
    """

    place: bool = False
    parts: bool = False
    raw: bool = False
    few: bool = False
    row_bytes: int = 0
    size: int = 0

    def of_size(self, size: int) -> Care:
        """The care for a batch of this size: one that is much larger than the last may have many more groups."""
        return replace(self, size=size, few=self.few and size <= ALIKE * self.size)


def needed(care: Care, results: Sequence[TaskResult]) -> Care:
    """The care with which a batch has to be computed, again where it is more than it was."""
    return replace(
        care,
        place=care.place or any(r.misplaced for r in results),
        parts=care.parts or any(r.decimal_overflow for r in results),
    )


def next_care(spec: InputSpec, results: Sequence[TaskResult], care: Care) -> Care:
    """The care for the next batch, which may be like this one."""
    rows = sum(r.counters.get("input_rows", 0) for r in results)
    groups = sum(r.counters.get("touched", 0) for r in results)
    if not rows:
        return care
    raw = better_raw(spec, rows, groups, raw=care.raw)
    came = sum(r.counters.get("partial_rows", 0) for r in results)
    row_bytes = -(-sum(r.received for r in results) // max(1, came))
    return replace(care, raw=raw, few=groups <= FEW_GROUPS, row_bytes=row_bytes)


def _is_fixed(node: Node) -> bool:
    """Whether no row of its input is longer than another."""
    arguments = (value.type for value, _ in node.arguments if value is not None)
    return all(type_.kind in _FIXED for type_ in (*node.key_types, *arguments))


def at_once(node: Node, care: Care) -> int | None:
    """How many rows Spark hands over at once, however long they are; None where it has to weigh them."""
    if _is_fixed(node):
        return HANDED_OVER
    return min(HANDED_OVER, UNWEIGHED_BYTES // care.row_bytes) or None if care.row_bytes else None


def may_be_raw(spec: InputSpec) -> bool:
    """Whether rows are ever exchanged as they are, though they could be summed first."""
    return not spec.is_global and spec.weight != "any"


def better_raw(spec: InputSpec, rows: int, groups: int, *, raw: bool) -> bool:
    """Whether a batch like this one is better exchanged row by row.

    What is compared are the cells of its rows and those of the partial sums of its groups: with many measures a row is much
    narrower than a partial sum, and Spark adds up many columns slowly.

    Args:
        spec: the operator.
        rows: of the batch.
        groups: that they touched.
        raw: how this batch was exchanged; a little more is asked for to change than to stay.
    """
    if not may_be_raw(spec):
        return False
    cells = groups * _partial_cells(spec)
    return (2 * cells if raw else cells) > rows * row_cells(spec)


def _partial_cells(spec: InputSpec) -> int:
    sums = sum(
        _LIMBS.get(accumulator.kind) or accumulator.bits // DIGIT_BITS
        for accumulator in spec.accumulators
        if accumulator.tree < 0
    )
    return _HASHES + len(spec.keys) + 1 + sums + len(spec.ends)


def row_cells(spec: InputSpec) -> int:
    """How many cells a row has that is exchanged."""
    weight = 0 if spec.weight == "one" else 1
    read = {a.argument for a in spec.accumulators if a.tree < 0}
    read |= {a for tree in spec.trees for a in tree.arguments}
    return _HASHES + len(spec.keys) + len(read) + weight
