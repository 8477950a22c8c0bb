"""How a batch is computed, as the batches before have shown: whether rows are summed before they are exchanged, how carefully, and where."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from substrait_agg.commit.runtime.task_plan import TaskResult
from substrait_agg.flow.graph.nodes import Node
from substrait_agg.functions.aggregates.accumulators import DIGIT_BITS
from substrait_agg.operator.common.spec import InputSpec
from substrait_agg.plan.types import INTEGER_BITS
from substrait_agg.spark.execution.task_runner import HANDED_OVER
from substrait_agg.spark.session.errors import SPARK_ERRORS, batch_failed

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
class BatchStrategy:
    """How carefully an operator's input is summed; what a batch has shown to be needed stays for the run.

    Attributes:
        place: exchange rows once more by partition.
        parts: sum decimals in parts.
        raw: exchange rows without summing them first; chosen anew after every batch, by how often keys repeat.
        few: let the driver take the partial sums; chosen anew after every batch, by how many groups it touched.
        row_bytes: how long rows are on average, of the last batch; 0 where that is not known.
        size: bytes of the last batch, as far as Spark knew before it read it.
    """

    repartition: bool = False
    split_decimals: bool = False
    skip_preaggregation: bool = False
    on_driver: bool = False
    row_bytes: int = 0
    size: int = 0

    def of_size(self, size: int) -> BatchStrategy:
        """The care for a batch of this size: one that is much larger than the last may have many more groups."""
        return replace(self, size=size, on_driver=self.on_driver and size <= ALIKE * self.size)


def repeat_strategy(care: BatchStrategy, results: Sequence[TaskResult]) -> BatchStrategy:
    """The care with which a batch has to be computed, again where it is more than it was."""
    return replace(
        care,
        repartition=care.repartition or any(r.misplaced for r in results),
        split_decimals=care.split_decimals or any(r.decimal_overflow for r in results),
    )


def next_strategy(
    spec: InputSpec, results: Sequence[TaskResult], care: BatchStrategy
) -> BatchStrategy:
    """The care for the next batch, which may be like this one."""
    rows = sum(r.counters.get("input_rows", 0) for r in results)
    groups = sum(r.counters.get("touched", 0) for r in results)
    if not rows:
        return care
    raw = should_skip_preaggregation(spec, rows, groups, raw=care.skip_preaggregation)
    came = sum(r.counters.get("partial_rows", 0) for r in results)
    row_bytes = -(-sum(r.received for r in results) // max(1, came))
    return replace(
        care, skip_preaggregation=raw, on_driver=groups <= FEW_GROUPS, row_bytes=row_bytes
    )


def _is_fixed(node: Node) -> bool:
    """Whether no row of its input is longer than another."""
    arguments = (value.type for value, _ in node.arguments if value is not None)
    return all(type_.kind in _FIXED for type_ in (*node.key_types, *arguments))


def rows_per_arrow_batch(node: Node, care: BatchStrategy) -> int | None:
    """How many rows Spark hands over at once, however long they are; None where it has to weigh them."""
    if _is_fixed(node):
        return HANDED_OVER
    return min(HANDED_OVER, UNWEIGHED_BYTES // care.row_bytes) or None if care.row_bytes else None


def may_skip_preaggregation(spec: InputSpec) -> bool:
    """Whether rows are ever exchanged as they are, though they could be summed first."""
    return not spec.is_global and spec.weight != "any"


def should_skip_preaggregation(spec: InputSpec, rows: int, groups: int, *, raw: bool) -> bool:
    """Whether a batch like this one is better exchanged row by row.

    What is compared are the cells of its rows and those of the partial sums of its groups: with many measures a row is much
    narrower than a partial sum, and Spark adds up many columns slowly.

    Args:
        spec: the operator.
        rows: of the batch.
        groups: that they touched.
        raw: how this batch was exchanged; a little more is asked for to change than to stay.
    """
    if not may_skip_preaggregation(spec):
        return False
    cells = groups * _partial_cells(spec)
    return (2 * cells if raw else cells) > rows * row_cells(spec)


def _partial_cells(spec: InputSpec) -> int:
    sums = sum(
        _LIMBS.get(accumulator.kind) or accumulator.bits // DIGIT_BITS
        for accumulator in spec.accumulators
        if accumulator.tree < 0
    )
    return _HASHES + len(spec.keys) + 1 + sums + len(spec.extremes)


def row_cells(spec: InputSpec) -> int:
    """How many cells a row has that is exchanged."""
    weight = 0 if spec.weight == "one" else 1
    read = {a.argument for a in spec.accumulators if a.tree < 0}
    read |= {a for tree in spec.trees for a in tree.arguments}
    return _HASHES + len(spec.keys) + len(read) + weight


LOOKED_AT = 1 << 16
"""Rows whose keys are looked at."""
LARGE_BYTES = 1 << 26
"""Bytes of a batch, as far as Spark knows, from which on it is worth a job of its own."""
_UNKNOWN_BYTES = 1 << 50
"""Spark says of what it knows nothing that it is this large, or larger."""
_CELL_BYTES = 8


def sample_cardinality(spec: InputSpec, frame: DataFrame, care: BatchStrategy) -> BatchStrategy:
    """The care for a batch of which no batch before tells anything.

    Args:
        spec: the operator.
        frame: its rows, with the keys ``k*``.
        care: for a batch of this size.

    Raises:
        RunFailed: Spark could not read the rows.
    """
    known = care.row_bytes or care.skip_preaggregation or not may_skip_preaggregation(spec)
    if known or not LARGE_BYTES <= care.size < _UNKNOWN_BYTES or _is_observed(frame):
        return care
    try:
        drawn, distinct = _drawn(frame, len(spec.keys))
    except SPARK_ERRORS as error:
        raise batch_failed(error) from error
    rows = max(drawn, care.size // (_CELL_BYTES * row_cells(spec)))
    groups = expected_groups(rows, drawn, distinct)
    return replace(
        care, skip_preaggregation=should_skip_preaggregation(spec, rows, groups, raw=False)
    )


def _is_observed(frame: DataFrame) -> bool:
    """Whether it is noted what is read, such as event times: then the rows may be read once only, and all of them."""
    return "CollectMetrics" in str(frame._jdf.queryExecution().analyzed().toString())


def _drawn(frame: DataFrame, keys: int) -> tuple[int, int]:
    """How many rows were looked at, and how many different keys they have."""
    names = [f"k{i}" for i in range(keys)]
    # In one task, which stops reading when it has them.
    first = frame.select(*names).coalesce(1).limit(LOOKED_AT)
    per_key = first.groupBy(*names).count()
    found = per_key.agg(F.sum("count"), F.count("count")).collect()[0]
    return int(found[0] or 0), int(found[1])


def expected_groups(rows: int, drawn: int, distinct: int) -> int:
    """How many different keys `rows` rows have, of which `drawn` have `distinct`, if all keys come as often.

    Where the keys drawn hardly repeat, how many there are shows in how often they do: of K keys, n rows are expected to have
    K (1 - exp(-n / K)).
    """
    if not drawn:
        return 0

    def met(keys: float, n: int) -> float:
        return -keys * math.expm1(-n / keys)

    low, high = float(distinct), float(max(distinct, 1)) * drawn  # with more, not even one repeats
    for _ in range(64):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if met(middle, drawn) < distinct else (low, middle)
    return round(met(high, rows))
