"""Special ways to sum a batch are used only when they are needed, and give the same exact result."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import substrait_agg as sa
from substrait_agg.commit.tasks.task_plan import TaskResult
from substrait_agg.spark.execution import operator_job, partial_aggregation
from tests.e2e.feeds import Feed, Grouping, Measure, check
from tests.e2e.files import write_in_order
from tests.e2e.rows import bag
from tests.e2e.running import Views, check_versions, maintain, observed_strategy
from tests.sampling import sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("on_spark")]

COLUMNS = {"k": "i64", "x": "fp64", "m": "decimal<38,0>"}
BIG, LESS, LOW = Decimal(10**38 - 1), Decimal(10**38 - 2), Decimal(1 - 10**38)


MEASURES = (("sum", 1, "fp64"), ("avg", 2, "decimal<38,0>"), ("count", 2, "i64!"))
GROUPS = Grouping(COLUMNS, (0,), MEASURES)


def _rows(x: float | None, m: Decimal | None) -> list[tuple[tuple[Any, ...], int]]:
    return [((k, x, m), 1) for k in range(20)]


def _repeated(batches: list[list[tuple[Any, int]]]) -> list[list[tuple[Any, int]]]:
    """The batches with two more rows of nulls per key: keys that repeat are summed before the exchange."""
    return [[*batch, *_rows(None, None), *_rows(None, None)] for batch in batches]


def test_ordinary_values_need_no_care(spark: SparkSession, tmp_path: Path) -> None:
    """Ordinary floats, zeros, nulls and decimals whose sums fit are summed in the simple way."""
    values = (2.0**-32, -(2.0**32) + 1, 0.0, -0.0, None, 1 / 3)
    batch = [change for x in values for change in _rows(x, Decimal(7))]
    feed = Feed("t", COLUMNS, "op", [batch])
    with observed_strategy() as seen:
        check(spark, tmp_path, GROUPS.plan(), [feed], GROUPS.wanted, partitions=4)
    assert not any(care.repartition or care.split_decimals for care in seen)


def test_unusual_floats_are_placed_once_more(spark: SparkSession, tmp_path: Path) -> None:
    """Floats of unusual magnitude arrive in the wrong partition, so rows are exchanged once more
    from then on.
    """
    unusual = [2.0**32, 1e300, 5e-324, -1e-10, math.inf, math.nan]
    batches = [
        _rows(1.5, None),
        [change for x in unusual for change in _rows(x, None)],
        [(row, -1) for x in (1e300, math.inf, math.nan) for row, _ in _rows(x, None)],
        _rows(2.5, None),
    ]
    with observed_strategy() as seen:
        feed = Feed("t", COLUMNS, "op", _repeated(batches))
        check(spark, tmp_path, GROUPS.plan(), [feed], GROUPS.wanted, partitions=4)
    assert [care.repartition for care in seen] == [False, False, True, True, True]
    assert not any(care.skip_preaggregation for care in seen)


def test_decimals_beyond_38_digits_are_summed_in_parts(spark: SparkSession, tmp_path: Path) -> None:
    """Sums of decimals are exact in batches whose sum exceeds Spark's widest decimal, returns below
    it, or has negative weights.
    """
    batches = [
        _rows(None, BIG),
        [*_rows(None, BIG), *_rows(None, LESS), *_rows(1e-300, LOW)],
        [(row, -1) for row, _ in _rows(None, BIG)] * 2,
        [(row, -1) for row, _ in _rows(None, LESS)],
    ]
    with observed_strategy() as seen:
        feed = Feed("t", COLUMNS, "op", _repeated(batches))
        check(spark, tmp_path, GROUPS.plan(), [feed], GROUPS.wanted, partitions=2)
    assert [care.split_decimals for care in seen] == [False, False, True, True, True]
    assert seen[-1].repartition


def test_large_weights_are_multiplied_in_halves(spark: SparkSession, tmp_path: Path) -> None:
    """Only batches with large weights are summed in halves; all others cost the same as changes of
    weight 1.
    """
    columns = {"k": "i64", "x": "fp64", "i": "i64", "m": "decimal<9,2>"}
    groups = Grouping(
        columns, (0,),
        (("sum", 1, "fp64"), ("sum", 2, "decimal<38,0>"), ("count", 2, "i64!"), ("sum", 3, "decimal<38,2>")),
    )  # fmt: skip
    most, cents = 2**63 - 1, Decimal("9999999.99")
    rows = [
        (k, x, i, m)
        for k in range(5)
        for x, i, m in ((1e300, most, cents), (-0.1, -most - 1, -cents), (3.5, None, None))
    ]
    weights = [[1, 1, -1, 1, 0], [1, 2**31, 0, -1, 1], [-(2**40), 2**31, 3], [1, -1, 1], [2, 1]]
    batches = [[(row, w) for row in rows for w in kinds] for kinds in weights]
    with observed_strategy() as seen:
        feed = Feed("t", columns, "weight", batches)
        check(spark, tmp_path, groups.plan(), [feed], groups.wanted)
    assert [care.split_weights for care in seen] == [False, False, True, True, False, True]
    assert not any(care.skip_preaggregation for care in seen)


def test_sums_beyond_int64_are_computed_again_in_halves(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sum of many rows of one group can overflow int64 although each weight is small; the test
    raises the limit of small weights.
    """
    monkeypatch.setattr(partial_aggregation, "_SMALL_WEIGHT", 2**29)
    columns = {"k": "i64", "i": "i64"}
    groups = Grouping(columns, (0,), (("sum", 1, "decimal<38,0>"),))
    batch = [((1, 2**63 - 1), 2**29)] * 16 + [((1, -(2**63)), 1)]
    collect, tried = operator_job._collect, []

    def observed(*arguments: Any) -> list[TaskResult]:
        tried.append(arguments[3].split_weights)
        return collect(*arguments)

    monkeypatch.setattr(operator_job, "_collect", observed)
    feed = Feed("t", columns, "weight", [batch])
    check(spark, tmp_path, groups.plan(), [feed], groups.wanted)
    assert tried == [False, True]


@pytest.mark.parametrize("weights", sample(["op", "one"], "op"))
def test_keys_that_hardly_repeat_are_not_summed_first(
    spark: SparkSession, tmp_path: Path, weights: str
) -> None:
    """The way of summing changes with the batches and gives the same exact result for all values
    and keys.
    """
    odd = [2.0**32, -1e300, 5e-324, -1e-10, math.inf, math.nan, -0.0, None]
    columns = {**COLUMNS, "k": "fp64"}
    keys = [math.nan, -0.0, 0.0, None, 1.0, 2.0, math.inf]
    units = [BIG, LOW, None, LESS, *[Decimal(3)] * 3]
    spread = [((k, x, m), 1) for k, x, m in zip(keys, odd, units, strict=False)]
    often = [((k, 1.5, Decimal(n)), 1) for k in keys[:4] for n in range(8)]
    batches: list[list[tuple[Any, int]]] = [spread, spread, often, spread, spread]
    if weights == "op":
        batches[3] = [(row, -1) for row, _ in spread]
    groups = Grouping(columns, (0,), MEASURES)
    with observed_strategy() as seen:
        feed = Feed("t", columns, weights, batches)
        check(spark, tmp_path, groups.plan(), [feed], groups.wanted)
    assert [care.skip_preaggregation for care in seen] == [False, True, True, False, True, True]


def test_long_decimals_are_taken_back_exactly(spark: SparkSession, tmp_path: Path) -> None:
    """Deleting values of 38 digits restores the total exactly, although Spark's unary minus keeps
    only 34 digits.
    """
    long = [Decimal("12345678901234567890123456789012345678"), LOW, Decimal(-1)]
    batches = [
        [((k, None, m), 1) for k, m in enumerate(long)],
        [((k, None, Decimal(5)), 1) for k in range(3)],
        [((k, None, m), -1) for k, m in enumerate(long)],
    ]
    with observed_strategy() as seen:
        check(spark, tmp_path, GROUPS.plan(), [Feed("t", COLUMNS, "op", batches)], GROUPS.wanted)
    assert not any(care.split_decimals for care in seen)


def test_any_number_of_partitions_serves_the_same_state(
    spark: SparkSession, tmp_path: Path
) -> None:
    """1, 4, 2, 4, 1 partitions in runs of one checkpoint, one batch each; groups change in every run."""
    batches = [[*_rows(float(n), Decimal(n)), ((100 + n, 1.0, None), 1)] for n in range(5)]
    batches[3] = [(row, -1) for row, _ in batches[0]]
    feed = Feed("t", COLUMNS, "op", batches)
    tables = feed.tables()
    views: Views = {}
    for number, partitions in enumerate((1, 4, 2, 4, 1)):
        write_in_order(tmp_path / "t", tables[number : number + 1], number)
        source = {"t": f"parquet:{tmp_path / 't'}?op=change&batch-files=1"}
        views |= maintain(
            spark, GROUPS.plan(), source, tmp_path / "checkpoint", partitions=partitions
        )
    every = [GROUPS.wanted(feed.after(version)) for version in range(6)]
    check_versions(tmp_path / "checkpoint", views, every)
    assert bag(sa.open_view(tmp_path / "checkpoint").to_arrow()) == every[-1]


@pytest.mark.parametrize("how", sample(["weight", "one"], "one"))
def test_rows_that_repeat_are_summed_before_grouping_sets(
    spark: SparkSession, tmp_path: Path, how: str
) -> None:
    """From the second batch on, and not after a batch whose rows differ; the sums are the same."""
    columns = {"a": "i64", "b": "fp64", "x": "fp64", "i": "i64"}
    sets = ((0, 1), (0,), (1,), ())
    measures: list[Measure] = [("sum", 2, "fp64"), ("sum", 3, "i64"), ("count", 3, "i64!")]
    if how == "one":
        measures.append(("max", 3, "i64"))
    groups = Grouping(columns, (0, 1), tuple(measures), sets)
    keys = [(a, b) for a in (1, None) for b in (math.nan, -0.0, 0.0, None)]
    values = [(1.5, 3), (-1e300, None), (None, -7), (5e-324, 2**40), (math.inf, 0), (0.1, 1)]
    repeated = [((*k, *v), 1) for k in keys for v in values * 2]
    apart = [((n, float(n), 0.1, n), 1) for n in range(20)]
    batches: list[list[tuple[Any, int]]] = [repeated, repeated, apart, repeated]
    if how == "weight":
        batches[3] = [(row, -2) for row, _ in repeated]

    with observed_strategy() as seen:
        feed = Feed("t", columns, how, batches)
        check(spark, tmp_path, groups.plan(), [feed], groups.wanted, partitions=2)
    ways = [care.sum_before_sets for care in seen]
    assert ways[-4:] == [True, True, False, True]
