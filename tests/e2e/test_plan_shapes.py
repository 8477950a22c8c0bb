"""Shapes of plans: aggregates over aggregates, unions, rows above an aggregate, distinct rows, rows in the plan."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.e2e.feeds import Change, Feed, Grouping, check, churn
from tests.e2e.plans import (
    ARITHMETIC,
    COMPARISON,
    Builder,
    column,
    filtered,
    literal,
    projected,
    read,
    union_all,
    virtual,
)
from tests.e2e.rows import Bag
from tests.e2e.running import check_versions, maintain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


COLUMNS = {"a": "string", "b": "i32", "x": "i64"}


def _feed(seed: int, table: str = "t", how: str = "op", batches: int = 5) -> Feed:
    rng = random.Random(seed)

    def make() -> tuple[Any, ...]:
        x = None if rng.random() < 0.5 else rng.randint(-9, 9)
        return rng.choice(["p", "q", None]), rng.randint(0, 2), x

    return Feed(table, COLUMNS, how, churn(rng, make, batches, 6))


SUMS = Grouping(COLUMNS, (0, 1), (("sum", 2, "i64"), ("count", None, "i64!")))
"""SELECT a, b, sum(x), count(*) FROM t GROUP BY a, b."""
OF_SUMS = {"a": "string", "b": "i32", "s": "i64", "n": "i64!"}


def test_groups_go_and_come_and_nulls_come_back(tmp_path: Path) -> None:
    """Groups disappear and return, sums become null again, and an early retraction is carried."""
    check(None, tmp_path, SUMS.plan(), [_feed(1, batches=6)], SUMS.wanted)


def test_sum_of_sums(tmp_path: Path) -> None:
    """An aggregate by a over an aggregate by a, b: the changes of one are the input of the other in the same batch."""
    builder = Builder()
    outer = Grouping(OF_SUMS, (0,), (("sum", 2, "i64"), ("count", 2, "i64!"), ("sum", 3, "i64")))
    plan = builder.plan(outer.relation(builder, SUMS.relation(builder)), "a", "s", "c", "n")
    check(None, tmp_path, plan, [_feed(2)], lambda rows: outer.wanted(SUMS.wanted(rows)))


def test_count_of_groups(tmp_path: Path) -> None:
    """A global aggregate over a grouped one has one row at every version, also where there is no group."""
    builder = Builder()
    outer = Grouping(OF_SUMS, (), (("count", None, "i64!"), ("sum", 2, "i64"), ("avg", 3, "fp64")))
    plan = builder.plan(outer.relation(builder, SUMS.relation(builder)), "groups", "s", "mean")
    check(None, tmp_path, plan, [_feed(3)], lambda rows: outer.wanted(SUMS.wanted(rows)))


def test_union_of_two_tables(tmp_path: Path) -> None:
    """Two sources, one with operations and one with weights, that move on together."""
    builder = Builder()
    source = union_all(read("t", COLUMNS), read("u", COLUMNS))
    plan = builder.plan(SUMS.relation(builder, source), "a", "b", "s", "n")
    row = ("q", 1, 7)
    weights: list[list[Change]] = [
        [(row, 3), (row, -1)],
        [(row, 0)],
        [(row, -5), (("p", 0, None), 2)],
        [(row, 4)],
    ]
    feeds = [_feed(4), Feed("u", COLUMNS, "weight", weights)]

    def wanted(left: Bag, right: Bag) -> Bag:
        total = Counter(left)
        total.update(right)
        return SUMS.wanted(total)

    check(None, tmp_path, plan, feeds, wanted)


def test_union_of_a_table_with_itself(tmp_path: Path) -> None:
    """Both sides see the same batch, one of them filtered."""
    builder = Builder()
    condition = builder.call("gt:any_any", COMPARISON, column(1), literal("i32", 0), output="bool")
    source = union_all(read("t", COLUMNS), filtered(read("t", COLUMNS), condition))
    plan = builder.plan(SUMS.relation(builder, source), "a", "b", "s", "n")

    def wanted(rows: Bag) -> Bag:
        total = Counter(rows)
        total.update({row: w for row, w in rows.items() if row[1] > 0})
        return SUMS.wanted(total)

    check(None, tmp_path, plan, [_feed(6)], wanted)


def test_a_table_that_feeds_two_operators(spark: SparkSession, tmp_path: Path) -> None:
    """UNION ALL of an aggregate and of the table itself: both operators take the same batch, once."""
    builder = Builder()
    by_a = Grouping(COLUMNS, (0,), (("sum0", 2, "i64!"),))
    plan = builder.plan(
        union_all(by_a.relation(builder), projected(read("t", COLUMNS), 3, column(0), column(2))),
        "a",
        "s",
    )

    def wanted(rows: Bag) -> Bag:
        result = by_a.wanted(rows)
        for row, weight in rows.items():
            result[row[0], row[2]] += weight
        return +result

    check(spark, tmp_path, plan, [_feed(7)], wanted)


def test_having_and_computed_columns(tmp_path: Path) -> None:
    """A filter and a projection above an aggregate: equal rows of several groups are shown as often as they occur."""
    builder = Builder()
    condition = builder.call("gt:any_any", COMPARISON, column(3), literal("i64", 1), output="bool")
    halved = builder.call(
        "multiply:i64_i64", ARITHMETIC, column(3), literal("i64", 2), output="i64!"
    )
    source = filtered(SUMS.relation(builder), condition)
    plan = builder.plan(projected(source, 4, column(0), halved), "a", "double")

    def wanted(rows: Bag) -> Bag:
        result: Bag = Counter()
        for row in SUMS.wanted(rows):
            if row[3] > 1:
                result[row[0], row[3] * 2] += 1
        return result

    check(None, tmp_path, plan, [_feed(8)], wanted)


def test_select_distinct(tmp_path: Path) -> None:
    """Keys without measures."""
    keys = Grouping(COLUMNS, (0, 2), ())
    check(None, tmp_path, keys.plan(), [_feed(9)], keys.wanted)


def test_no_aggregate_at_all(spark: SparkSession, tmp_path: Path) -> None:
    """A filter and a projection over weighted rows: the view is the multiset, weights below zero are not shown."""
    builder = Builder()
    condition = builder.call("gt:any_any", COMPARISON, column(1), literal("i32", 0), output="bool")
    source = filtered(read("t", COLUMNS), condition)
    plan = builder.plan(projected(source, 3, column(2), column(0)), "x", "a")
    row, other, left_out = ("p", 1, None), ("q", 2, 4), ("p", 0, 1)
    batches: list[list[Change]] = [
        [(row, 3), (other, -2)],
        [(row, -1), (other, 5), (left_out, 9)],
        [(row, -2), (other, 2)],
        [(other, -2)],
    ]

    def wanted(rows: Bag) -> Bag:
        return Counter({(r[2], r[0]): w for r, w in rows.items() if r[1] > 0 and w > 0})

    check(spark, tmp_path, plan, [Feed("t", COLUMNS, "weight", batches)], wanted)


def test_rows_written_in_the_plan(spark: SparkSession, tmp_path: Path) -> None:
    """Rows of the plan are in the view from version 0 on, beside the rows of a table."""
    builder = Builder()
    rows = [("p", 0, 5), ("p", 0, 5), ("z", 1, 1)]
    written = [[literal("string", a), literal("i32", b), literal("i64", x)] for a, b, x in rows]
    source = union_all(virtual(COLUMNS, written), read("t", COLUMNS))
    plan = builder.plan(SUMS.relation(builder, source), "a", "b", "s", "n")

    def wanted(changes: Bag) -> Bag:
        total = Counter(changes)
        total.update(rows)
        return SUMS.wanted(total)

    check(spark, tmp_path, plan, [_feed(10, batches=3)], wanted)


def test_any_name_of_the_checkpoint_will_do(tmp_path: Path) -> None:
    """Paths with spaces, brackets and percent signs, and views with equal column names."""
    builder = Builder()
    outer = Grouping(OF_SUMS, (0,), (("count", None, "i64!"),))
    plan = builder.plan(outer.relation(builder, SUMS.relation(builder)), "a", "a")
    folder = tmp_path / "a b%20 [x] {1,2} \u00e4 *?"
    feed = _feed(11, batches=3)
    source = feed.write(tmp_path)
    views = maintain(None, plan, {"t": source}, folder)
    check_versions(folder, views, [outer.wanted(SUMS.wanted(feed.after(v))) for v in range(4)])
