"""The strategy of the next batch follows from the previous batch."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from substrait_agg.commit.documents.snapshot import OperatorState
from substrait_agg.commit.tasks.task_plan import TaskResult
from substrait_agg.functions.aggregates.accumulators import Accumulator
from substrait_agg.operator.common.spec import OperatorSpec
from substrait_agg.plan.types import Type
from substrait_agg.spark.execution.driver import (
    GROUPED_WITHOUT_JOB,
    IN_MEMORY,
    WITHOUT_JOB,
    Driver,
    RowAccess,
)
from substrait_agg.spark.execution.operator_job import takes_rows
from substrait_agg.spark.execution.strategy import (
    ALIKE,
    FEW_GROUPS,
    UNWEIGHED_BYTES,
    BatchStrategy,
    next_strategy,
    repeat_strategy,
    rows_per_arrow_batch,
)
from substrait_agg.spark.execution.task_runner import HANDED_OVER

FLOAT = Accumulator("float", 0, 0, 0)


def spec(accumulators: int = 1, **changed: Any) -> OperatorSpec:
    sums = tuple(replace(FLOAT, argument=i) for i in range(accumulators))
    made = OperatorSpec((pa.int64(),), sums, (), "append_only", is_global=False)
    return replace(made, **changed)


def after(
    rows: int, groups: int, care: BatchStrategy, told: OperatorSpec, received: int = 0
) -> BatchStrategy:
    counters = {"input_rows": rows, "touched": groups, "partial_rows": rows}
    return next_strategy(told, [TaskResult(0, 1, counters=counters, received=received)], care)


def test_rows_are_summed_first_where_their_keys_repeat() -> None:
    """Rows are summed first if keys repeat, exchanged raw if they rarely do, and in between the
    strategy stays.
    """
    told = spec()
    assert not after(1_000, 10, BatchStrategy(), told).skip_preaggregation
    assert after(1_000, 900, BatchStrategy(), told).skip_preaggregation
    between = [
        after(1_000, 400, BatchStrategy(skip_preaggregation=raw), told).skip_preaggregation
        for raw in (False, True)
    ]
    assert between == [False, True]


def test_many_measures_are_rather_exchanged_as_rows() -> None:
    """With many measures rows are exchanged raw, because partial sums are several times as wide."""
    assert not after(1_000, 350, BatchStrategy(), spec(1)).skip_preaggregation
    assert after(1_000, 350, BatchStrategy(), spec(20)).skip_preaggregation


def test_one_group_is_always_summed_first() -> None:
    """A single group is always summed first: otherwise one task would get all rows."""
    assert not after(2, 1, BatchStrategy(), spec(30, is_global=True)).skip_preaggregation


def test_rows_with_weights_of_any_size_may_be_exchanged_as_they_are() -> None:
    """A task multiplies large weights in pieces itself."""
    assert after(1_000, 1_000, BatchStrategy(), spec(30, weight="weighted")).skip_preaggregation


def test_a_batch_with_large_weights_is_summed_again_in_halves() -> None:
    """A batch with large weights is summed again in halves, and so are the next ones until one has
    no large weights.
    """
    refused = TaskResult(0, 1, large_weights=True)
    care = repeat_strategy(BatchStrategy(), [TaskResult(0, 1), refused])
    assert care == BatchStrategy(split_weights=True)
    assert repeat_strategy(care, [refused]) == care
    told = spec(weight="weighted")
    counters = {"input_rows": 100, "touched": 1}
    seen = next_strategy(told, [TaskResult(0, 1, counters=counters, large_weights=True)], care)
    assert seen.split_weights
    assert not next_strategy(told, [TaskResult(0, 1, counters=counters)], seen).split_weights


def test_the_driver_takes_the_sums_of_few_groups() -> None:
    """The driver computes few groups from partial sums and leaves many groups to the workers."""
    told = spec()
    assert after(10**6, FEW_GROUPS, BatchStrategy(), told).on_driver
    assert not after(10**6, FEW_GROUPS + 1, BatchStrategy(on_driver=True), told).on_driver


def test_few_groups_are_not_expected_of_a_much_larger_batch() -> None:
    """The number of groups in a thousand rows is not assumed for a million rows."""
    care = after(10**3, 10, BatchStrategy(size=1_000), spec())
    assert care.of_size(ALIKE * 1_000) == replace(care, size=ALIKE * 1_000)
    assert not care.of_size(ALIKE * 1_000 + 1).on_driver


def test_a_batch_without_rows_says_nothing() -> None:
    """A batch without rows does not change the strategy."""
    care = BatchStrategy(skip_preaggregation=True, on_driver=True, row_bytes=70)
    assert next_strategy(spec(), [], care) == care


@pytest.mark.parametrize(
    ("row_bytes", "rows"),
    [
        (0, None), (1, HANDED_OVER), (1 << 8, HANDED_OVER), (1 << 14, 1 << 10), (UNWEIGHED_BYTES, 1),
        (UNWEIGHED_BYTES + 1, None),
    ],
)  # fmt: skip
def test_rows_of_any_length_are_weighed_until_their_length_is_known(
    row_bytes: int, rows: int | None
) -> None:
    """Spark measures rows until their length is known; then as many are handed over as take a
    bounded number of bytes.
    """
    node: Any = type("Node", (), {"key_types": (Type("string"),), "arguments": ()})
    assert rows_per_arrow_batch(node, BatchStrategy(row_bytes=row_bytes)) == rows
    node.key_types = (Type("i64"), Type("decimal", params=(38, 0)))
    assert rows_per_arrow_batch(node, BatchStrategy(row_bytes=row_bytes)) == HANDED_OVER


def test_the_length_of_rows_is_that_of_all_that_came() -> None:
    """The length of rows in bytes is the average over all of them, rounded up so that it is not 0."""
    assert after(1_000, 10, BatchStrategy(), spec(), received=1).row_bytes == 1
    assert after(1_000, 10, BatchStrategy(row_bytes=9), spec(), received=64_001).row_bytes == 65


def test_rows_of_grouping_sets_count_once_for_each_set() -> None:
    """A file that is small may become many rows: the driver leaves them to Spark."""
    asked: list[tuple[int, int]] = []

    class WatchedDriver(Driver):
        def takes_rows(self, *arguments: Any, times: int = 1) -> bool:
            asked.append((arguments[1], times))
            return True

    every: tuple[tuple[tuple[int, ...], ...], ...] = ((), ((0,), (1,), ()))
    for sets in every:
        for groups in (None, spec()):
            operator = SimpleNamespace(groups=groups)
            job: Any = SimpleNamespace(
                spec=spec(sets=sets), operator=operator, watermark_pass=False, state=OperatorState()
            )
            session: Any = None
            for access in RowAccess:
                assert takes_rows(session, job, 100, WatchedDriver(), access)
    times = [IN_MEMORY, WITHOUT_JOB, 1, IN_MEMORY, GROUPED_WITHOUT_JOB, 1]
    assert asked == [(size, each) for size in (100, 300) for each in times]
