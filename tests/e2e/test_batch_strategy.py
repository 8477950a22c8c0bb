"""Special ways to sum a batch are used only when they are needed, and give the same exact result."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import substrait_agg as sa
from substrait_agg.commit.tasks.task_plan import TaskResult
from substrait_agg.spark.execution import operator_job, partial_aggregation
from tests.e2e.feeds import Feed, check
from tests.e2e.files import write_in_order
from tests.e2e.plans import Builder, aggregate, column, read
from tests.e2e.rows import Bag, bag, plain
from tests.e2e.running import Views, check_versions, maintain, observed_strategy
from tests.operator.measures_reference import measured
from tests.sampling import sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("on_spark")]

COLUMNS = {"k": "i64", "x": "fp64", "m": "decimal<38,0>"}
BIG, LESS, LOW = Decimal(10**38 - 1), Decimal(10**38 - 2), Decimal(1 - 10**38)


def _plan() -> str:
    builder = Builder()
    measures = [
        builder.measure("sum", (column(1), "fp64"), output="fp64"),
        builder.measure("avg", (column(2), "decimal<38,0>"), output="decimal<38,0>"),
        builder.measure("count", (column(2), "decimal<38,0>"), output="i64!"),
    ]
    return builder.plan(aggregate(read("t", COLUMNS), [column(0)], measures), "k", "s", "m", "n")


def _wanted(rows: Bag) -> Bag:
    groups: dict[Any, list[tuple[tuple[Any, ...], int]]] = {}
    for row, weight in rows.items():
        groups.setdefault(row[0], []).append((row, weight))
    return Counter(
        (
            plain(key),
            plain(measured("sum", [(r[1], w) for r, w in members], "fp64")),
            measured("avg", [(r[2], w) for r, w in members], "decimal<38,0>"),
            measured("count", [(r[2], w) for r, w in members], "i64"),
        )
        for key, members in groups.items()
        if sum(w for _, w in members) > 0
    )


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
        check(spark, tmp_path, _plan(), [feed], _wanted, partitions=4)
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
        check(spark, tmp_path, _plan(), [feed], _wanted, partitions=4)
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
        check(spark, tmp_path, _plan(), [feed], _wanted, partitions=2)
    assert [care.split_decimals for care in seen] == [False, False, True, True, True]
    assert seen[-1].repartition


def _sums_plan() -> tuple[str, dict[str, str]]:
    """A float, an integer and a narrow decimal."""
    columns = {"k": "i64", "x": "fp64", "i": "i64", "m": "decimal<9,2>"}
    builder = Builder()
    measures = [
        builder.measure("sum", (column(1), "fp64"), output="fp64"),
        builder.measure("sum", (column(2), "i64"), output="decimal<38,0>"),
        builder.measure("count", (column(2), "i64"), output="i64!"),
        builder.measure("sum", (column(3), "decimal<9,2>"), output="decimal<38,2>"),
    ]
    read_all = aggregate(read("t", columns), [column(0)], measures)
    return builder.plan(read_all, "k", "s", "t", "n", "m"), columns


def _summed(rows: Bag) -> Bag:
    groups: dict[Any, list[tuple[tuple[Any, ...], int]]] = {}
    for row, weight in rows.items():
        groups.setdefault(row[0], []).append((row, weight))
    return Counter(
        (
            key,
            plain(measured("sum", [(r[1], w) for r, w in members], "fp64")),
            measured("sum", [(r[2], w) for r, w in members], "decimal<38,0>"),
            measured("count", [(r[2], w) for r, w in members], "i64"),
            measured("sum", [(r[3], w) for r, w in members], "decimal<38,2>"),
        )
        for key, members in groups.items()
        if sum(w for _, w in members) > 0
    )


def test_large_weights_are_multiplied_in_halves(spark: SparkSession, tmp_path: Path) -> None:
    """Only batches with large weights are summed in halves; all others cost the same as changes of
    weight 1.
    """
    plan, columns = _sums_plan()
    most, cents = 2**63 - 1, Decimal("9999999.99")
    rows = [
        (k, x, i, m)
        for k in range(5)
        for x, i, m in ((1e300, most, cents), (-0.1, -most - 1, -cents), (3.5, None, None))
    ]
    weights = [[1, 1, -1, 1, 0], [1, 2**31, 0, -1, 1], [-(2**40), 2**31, 3], [1, -1, 1], [2, 1]]
    batches = [[(row, w) for row in rows for w in kinds] for kinds in weights]
    with observed_strategy() as seen:
        check(spark, tmp_path, plan, [Feed("t", columns, "weight", batches)], _summed)
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
    builder = Builder()
    measures = [builder.measure("sum", (column(1), "i64"), output="decimal<38,0>")]
    plan = builder.plan(aggregate(read("t", columns), [column(0)], measures), "k", "s")
    batch = [((1, 2**63 - 1), 2**29)] * 16 + [((1, -(2**63)), 1)]
    (total,) = {sum(row[1] * w for row, w in batch)}
    collect, tried = operator_job._collect, []

    def observed(*arguments: Any) -> list[TaskResult]:
        tried.append(arguments[3].split_weights)
        return collect(*arguments)

    monkeypatch.setattr(operator_job, "_collect", observed)
    check(
        spark, tmp_path, plan, [Feed("t", columns, "weight", [batch])],
        lambda rows: Counter({(1, Decimal(total)): 1} if rows else {}),
    )  # fmt: skip
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
    builder = Builder()
    measures = [
        builder.measure("sum", (column(1), "fp64"), output="fp64"),
        builder.measure("avg", (column(2), "decimal<38,0>"), output="decimal<38,0>"),
        builder.measure("count", (column(2), "decimal<38,0>"), output="i64!"),
    ]
    plan = builder.plan(aggregate(read("t", columns), [column(0)], measures), "k", "s", "m", "n")
    with observed_strategy() as seen:
        check(spark, tmp_path, plan, [Feed("t", columns, weights, batches)], _wanted)
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
        check(spark, tmp_path, _plan(), [Feed("t", COLUMNS, "op", batches)], _wanted)
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
        views |= maintain(spark, _plan(), source, tmp_path / "checkpoint", partitions=partitions)
    every = [_wanted(feed.after(version)) for version in range(6)]
    check_versions(tmp_path / "checkpoint", views, every)
    assert bag(sa.open_view(tmp_path / "checkpoint").to_arrow()) == every[-1]


@pytest.mark.parametrize("how", sample(["weight", "one"], "one"))
def test_rows_that_repeat_are_summed_before_grouping_sets(
    spark: SparkSession, tmp_path: Path, how: str
) -> None:
    """From the second batch on, and not after a batch whose rows differ; the sums are the same."""
    columns = {"a": "i64", "b": "fp64", "x": "fp64", "i": "i64"}
    sets = ((0, 1), (0,), (1,), ())
    builder = Builder()
    kinds = ["sum fp64", "sum i64", "count i64!"] + (["max i64"] if how == "one" else [])
    measures = []
    for kind, output in (k.split() for k in kinds):
        argument = (column(2), "fp64") if output == "fp64" else (column(3), "i64")
        measures.append(builder.measure(kind, argument, output=output))
    body = aggregate(read("t", columns), [column(0), column(1)], measures)
    body["aggregate"]["groupings"] = [{"expressionReferences": list(s)} for s in sets]
    names = [f"m{i}" for i in range(len(kinds))]
    plan = builder.plan(body, "a", "b", *names, "set")
    keys = [(a, b) for a in (1, None) for b in (math.nan, -0.0, 0.0, None)]
    values = [(1.5, 3), (-1e300, None), (None, -7), (5e-324, 2**40), (math.inf, 0), (0.1, 1)]
    repeated = [((*k, *v), 1) for k in keys for v in values * 2]
    apart = [((n, float(n), 0.1, n), 1) for n in range(20)]
    batches: list[list[tuple[Any, int]]] = [repeated, repeated, apart, repeated]
    if how == "weight":
        batches[3] = [(row, -2) for row, _ in repeated]

    def wanted(rows: Bag) -> Bag:
        groups: dict[Any, list[tuple[tuple[Any, ...], int]]] = {(None, None, 3): []}
        for row, weight in rows.items():
            for index, chosen in enumerate(sets):
                key = [plain(row[k]) if k in chosen else None for k in (0, 1)]
                groups.setdefault((*key, index), []).append((row, weight))
        return Counter(
            (*key[:2], *(plain(value) for value in _of_group(kinds, members)), key[2])
            for key, members in groups.items()
            if key[2] == 3 or sum(w for _, w in members) > 0
        )

    with observed_strategy() as seen:
        check(spark, tmp_path, plan, [Feed("t", columns, how, batches)], wanted, partitions=2)
    ways = [care.sum_before_sets for care in seen]
    assert ways[-4:] == [True, True, False, True]


def _of_group(kinds: list[str], members: list[tuple[tuple[Any, ...], int]]) -> list[Any]:
    """The measures over the rows of a group."""
    made = []
    for kind, output in (k.split() for k in kinds):
        values = [(row[2] if output == "fp64" else row[3], w) for row, w in members]
        if kind == "max":
            made.append(max((v for v, _ in values if v is not None), default=None))
        else:
            made.append(measured(kind, values, output.strip("!")))
    return made
