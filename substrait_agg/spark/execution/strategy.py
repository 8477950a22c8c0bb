"""Choose how a batch is computed, from the results of earlier batches.

The choices are: sum rows before the exchange or not, how to sum decimals, and whether the driver
computes the batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from substrait_agg.commit.tasks.task_plan import TaskResult
from substrait_agg.flow.graph.nodes import Node
from substrait_agg.functions.aggregates.accumulators import DIGIT_BITS
from substrait_agg.operator.common.spec import InputSpec
from substrait_agg.plan.types import INTEGER_BITS
from substrait_agg.spark.execution.task_runner import HANDED_OVER
from substrait_agg.spark.session.errors import SPARK_ERRORS, batch_failed

FEW_GROUPS = 1 << 12
"""Number of groups in a batch up to which the driver collects the partial sums of the next batch.
"""
ALIKE = 16
"""Size ratio to the previous batch up to which a batch is expected to have as few groups."""
UNWEIGHED_BYTES = 1 << 24
"""Bytes per Arrow batch when Spark does not measure row sizes, for rows as long as those of the
previous batch."""
_FIXED = frozenset({
    *INTEGER_BITS, "bool", "fp32", "fp64", "decimal", "date", "precision_time", "precision_timestamp",
    "precision_timestamp_tz", "interval_year", "interval_day",
})  # fmt: skip
"""Types whose values all have the same size."""
_REPEATED = 2
"""How often keys must repeat at least, so that rows are summed before grouping sets."""
_HASHES = 2
_LIMBS = {"count": 1, "float": 5, "decimal": 2}
"""Columns of the partial sum of an accumulator; for a float, its bin and four limbs."""


@dataclass(frozen=True, slots=True)
class BatchStrategy:
    """How a batch of an operator is computed.

    Attributes:
        repartition: exchange partial sums once more, by partition. Once a batch needs it, it stays
            set for the run.
        split_decimals: sum decimals in parts that cannot overflow. Once a batch needs it, it stays
            set for the run.
        split_weights: multiply values and weights in halves, so that weights may be any int64. A batch
            with large weights sets it; the next batch without them resets it.
        skip_preaggregation: exchange rows without summing them first. It is chosen after every
            batch, from how often keys repeat.
        sum_before_sets: sum rows with equal keys before they are repeated for every grouping set. It
            is chosen after every batch, from how often keys repeat.
        on_driver: collect the partial sums on the driver. It is chosen after every batch, from the
            number of groups touched.
        row_bytes: average row length in the previous batch, in bytes; 0 if unknown.
        size: bytes of the previous batch, as Spark estimated them before reading.
    """

    repartition: bool = False
    split_decimals: bool = False
    split_weights: bool = False
    skip_preaggregation: bool = False
    sum_before_sets: bool = False
    on_driver: bool = False
    row_bytes: int = 0
    size: int = 0

    def of_size(self, size: int) -> BatchStrategy:
        """Return the strategy for a batch of `size` bytes.

        A batch that is much larger than the previous one may have many more groups, so the driver
        does not take it.
        """
        return replace(self, size=size, on_driver=self.on_driver and size <= ALIKE * self.size)


def repeat_strategy(strategy: BatchStrategy, results: Sequence[TaskResult]) -> BatchStrategy:
    """Return the strategy that the batch needs after these results.

    If it differs from `strategy`, the batch is computed again.

    Args:
        strategy: the batch strategy used.
        results: of all tasks.
    """
    return replace(
        strategy,
        repartition=strategy.repartition or any(r.misplaced for r in results),
        split_decimals=strategy.split_decimals or any(r.decimal_overflow for r in results),
        split_weights=strategy.split_weights or any(r.large_weights for r in results),
    )


def next_strategy(
    spec: InputSpec, results: Sequence[TaskResult], strategy: BatchStrategy
) -> BatchStrategy:
    """Return the strategy for the next batch, assuming that it resembles this one.

    Args:
        spec: the operator.
        results: of all tasks.
        strategy: the batch strategy used.
    """
    rows = sum(r.counters.get("input_rows", 0) for r in results)
    groups = sum(r.counters.get("touched", 0) for r in results)
    if not rows:
        return strategy
    raw = should_skip_preaggregation(spec, rows, groups, raw=strategy.skip_preaggregation)
    received_rows = sum(r.counters.get("partial_rows", 0) for r in results)
    row_bytes = -(-sum(r.received for r in results) // max(1, received_rows))
    return replace(
        strategy,
        split_weights=any(r.large_weights for r in results),
        skip_preaggregation=raw,
        # The groups of all sets are at least as many as the distinct keys of rows.
        sum_before_sets=bool(spec.sets) and _REPEATED * groups * len(spec.sets) <= rows,
        on_driver=groups <= FEW_GROUPS,
        row_bytes=row_bytes,
    )


def _is_fixed(node: Node) -> bool:
    """Return whether all input rows of the operator have the same length."""
    arguments = (value.type for value, _ in node.arguments if value is not None)
    return all(type_.kind in _FIXED for type_ in (*node.key_types, *arguments))


def rows_per_arrow_batch(node: Node, strategy: BatchStrategy) -> int | None:
    """Return the rows per Arrow batch if Spark need not measure row sizes; None if it must."""
    if _is_fixed(node):
        return HANDED_OVER
    return (
        min(HANDED_OVER, UNWEIGHED_BYTES // strategy.row_bytes) or None
        if strategy.row_bytes
        else None
    )


def may_skip_preaggregation(spec: InputSpec) -> bool:
    """Return whether the rows of an operator can be exchanged without summing them first."""
    return not spec.is_global


def should_skip_preaggregation(spec: InputSpec, rows: int, groups: int, *, raw: bool) -> bool:
    """Return whether it is cheaper to exchange a batch like this one row by row.

    The cost is the number of cells: those of its rows against those of the partial sums of its
    groups. With many measures a row is much narrower than a partial sum, and Spark sums many
    columns slowly.

    Args:
        spec: the operator.
        rows: number of rows of the batch.
        groups: number of groups that they touched.
        raw: whether this batch was exchanged row by row; a change needs a larger gain than staying.
    """
    if not may_skip_preaggregation(spec):
        return False
    cells = groups * _partial_cells(spec)
    return (2 * cells if raw else cells) > rows * row_cells(spec)


def _partial_cells(spec: InputSpec) -> int:
    sums = sum(
        _LIMBS.get(accumulator.kind) or accumulator.bits // DIGIT_BITS
        for accumulator in spec.accumulators
        if accumulator.tree is None
    )
    return _HASHES + len(spec.keys) + 1 + sums + len(spec.extremes)


def row_cells(spec: InputSpec) -> int:
    """Return the number of cells of a row that is exchanged."""
    weight = 0 if spec.weight == "append_only" else 1
    read = {a.argument for a in spec.accumulators if a.tree is None}
    read |= {a for tree in spec.trees for a in tree.arguments}
    left_out = {masked.argument for masked in spec.masked}
    masked_arguments = {
        a for m in spec.masked if m.argument in read for a in (m.value, m.condition)
    }
    return _HASHES + len(spec.keys) + len((read | masked_arguments) - left_out) + weight


LOOKED_AT = 1 << 16
"""Number of rows whose keys are sampled."""
LARGE_BYTES = 1 << 26
"""Batch size from which sampling is worth a job of its own, in bytes as Spark estimates them."""
_UNKNOWN_BYTES = 1 << 50
"""Spark reports at least this size where it has no estimate."""
_CELL_BYTES = 8


def sample_cardinality(spec: InputSpec, frame: DataFrame, strategy: BatchStrategy) -> BatchStrategy:
    """Choose the strategy for the first batch of an operator by sampling its keys.

    Args:
        spec: the operator.
        frame: its rows, with the keys ``k*``.
        strategy: the batch strategy for a batch of this size.

    Raises:
        RunFailed: Spark could not read the rows.
    """
    decided = (
        strategy.row_bytes or strategy.skip_preaggregation or not may_skip_preaggregation(spec)
    )
    if decided or not LARGE_BYTES <= strategy.size < _UNKNOWN_BYTES or _is_observed(frame):
        return strategy
    try:
        drawn, distinct = _draw(frame, len(spec.keys))
    except SPARK_ERRORS as error:
        raise batch_failed(error) from error
    rows = max(drawn, strategy.size // (_CELL_BYTES * row_cells(spec)))
    groups = expected_groups(rows, drawn, distinct)
    return replace(
        strategy, skip_preaggregation=should_skip_preaggregation(spec, rows, groups, raw=False)
    )


def _is_observed(frame: DataFrame) -> bool:
    """Return whether the frame collects metrics, such as event times.

    Such a frame must be read completely and only once.
    """
    return "CollectMetrics" in str(frame._jdf.queryExecution().analyzed().toString())


def _draw(frame: DataFrame, keys: int) -> tuple[int, int]:
    """Return the number of sampled rows and the number of distinct keys among them."""
    names = [f"k{i}" for i in range(keys) if f"k{i}" in frame.columns]
    # One task reads, and stops after the limit.
    first = frame.select(*names).coalesce(1).limit(LOOKED_AT)
    per_key = first.groupBy(*names).count()
    totals = per_key.agg(F.sum("count"), F.count("count")).collect()[0]
    return int(totals[0] or 0), int(totals[1])


def expected_groups(rows: int, drawn: int, distinct: int) -> int:
    """Estimate the distinct keys of `rows` rows from a sample of `drawn` rows with `distinct` keys.

    The estimate assumes that all keys are equally frequent. Of K keys, n rows then contain K (1 -
    exp(-n / K)) on average. The function solves this equation for K by bisection.
    """
    if not drawn:
        return 0

    def distinct_in(keys: float, sampled: int) -> float:
        return -keys * math.expm1(-sampled / keys)

    # With more keys than the upper bound, the sample would contain no repetition.
    low, high = float(distinct), float(max(distinct, 1)) * drawn
    for _ in range(64):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if distinct_in(middle, drawn) < distinct else (low, middle)
    return round(distinct_in(high, rows))
