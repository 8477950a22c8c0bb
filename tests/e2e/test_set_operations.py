"""Set operations on Spark: two to four inputs, above and below aggregates, against a model and against DuckDB."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import substrait_agg as sa
from substrait_agg.operator.common.names import CLOSED, GROUP
from tests.e2e.event_model import Table, instant
from tests.e2e.feeds import Change, Feed, Grouping, check, churn, duck
from tests.e2e.plans import (
    ARITHMETIC,
    COMPARISON,
    Builder,
    Json,
    aggregate,
    column,
    filtered,
    literal,
    projected,
    read,
    set_operation,
    union_all,
)
from tests.e2e.rows import Bag, bag
from tests.e2e.running import Views, check_versions, maintain, starting
from tests.executors import ON_SPARK, drivers
from tests.sampling import sample
from tests.set_operations import COPIES, expected
from tests.windowed import Windows, interval

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


COLUMNS = {"a": "string", "b": "i32"}


def _feed(seed: int, table: str, how: str = "op", batches: int = 5) -> Feed:
    rng = random.Random(seed)

    def make() -> tuple[Any, ...]:
        return rng.choice(["p", "q", None]), rng.randint(0, 2)

    return Feed(table, COLUMNS, how, churn(rng, make, batches, 8))


def _tables(*names: str) -> list[Json]:
    return [read(name, COLUMNS) for name in names]


@pytest.mark.parametrize("operation", sample(COPIES, "union_distinct", "minus_primary_all"))
def test_every_operation_at_every_version(tmp_path: Path, operation: str) -> None:
    """Rows come and go in three inputs; one has weights, one only inserts, some rows are retracted a batch too early."""
    heavy: list[list[Change]] = [
        [(("p", 0), 3), (("q", 1), -1)],
        [(("p", 0), -1), (("q", 1), 2)],
        [((None, 2), 2)],
        [(("p", 0), -4)],
        [(("p", 0), 3)],
    ]
    inserts = [
        [(row, weight) for row, weight in batch if weight > 0][:3]
        for batch in _feed(3, "v").batches
    ]
    feeds = [_feed(1, "t"), Feed("u", COLUMNS, "weight", heavy), Feed("v", COLUMNS, "one", inserts)]
    plan = Builder().plan(set_operation(operation, *_tables("t", "u", "v")), "a", "b")

    def wanted(*inputs: Bag) -> Bag:
        return expected(operation, inputs)

    checkpoint = check(None, tmp_path, plan, feeds, wanted)
    assert sa.open_state(checkpoint).verify().ok


@pytest.mark.parametrize("operation", ["minus_primary", "intersection_multiset_all"])
def test_the_exchange_carries_the_input_of_each_row(
    spark: SparkSession, tmp_path: Path, operation: str
) -> None:
    """Every batch is computed in Spark jobs, in other numbers of partitions after a restart."""
    feeds = [_feed(4, "t", batches=6), _feed(5, "u", batches=6)]
    plan = Builder().plan(set_operation(operation, *_tables("t", "u")), "a", "b")
    checkpoint = tmp_path / "checkpoint"
    wanted = [expected(operation, [f.after(v) for f in feeds]) for v in range(7)]
    views: Views = {}
    with drivers(ON_SPARK):
        for batches, partitions in ((3, 4), (6, 1)):
            some = [Feed(f.table, COLUMNS, "op", f.batches[:batches]) for f in feeds]
            sources = {f.table: f.write(tmp_path) for f in some}
            views |= maintain(spark, plan, sources, checkpoint, partitions=partitions)
    check_versions(checkpoint, views, wanted)
    assert sa.open_state(checkpoint).verify().ok


# --- places in a plan -----------------------------------------------------------------------------


BY_A = Grouping(COLUMNS, (0,), (("count", None, "i64!"),))


def test_below_and_above_aggregates_and_within_each_other(tmp_path: Path) -> None:
    """Groups minus groups, united with rows of a table; the number of rows per a of all that, and an emit in between."""
    builder = Builder()
    t, u = _tables("t", "u")
    least = set_operation("minus_primary_all", BY_A.relation(builder, t), BY_A.relation(builder, u))
    wide = builder.call(
        "add:i64_i64", ARITHMETIC, literal("i64", 1), literal("i64", 0), output="i64!"
    )
    both = set_operation("union_distinct", least, projected(u, 2, column(0), wide))
    both["set"]["common"] = {"emit": {"outputMapping": [1, 0, 1]}}
    measures = [builder.measure("sum", (column(2), "i64!"), output="i64")]
    plan = builder.plan(aggregate(both, [column(1)], measures), "a", "s")

    def wanted(t: Bag, u: Bag) -> Bag:
        minus = expected("minus_primary_all", [BY_A.wanted(t), BY_A.wanted(u)])
        ones: Bag = Counter()
        for (a, _), weight in u.items():
            ones[a, 1] += weight
        sums: Counter[Any] = Counter()
        present = expected("union_distinct", [minus, ones])
        for a, number in present:
            sums[a] += number
        return Counter({(a, sums[a]): 1 for a, _ in present})

    checkpoint = check(None, tmp_path, plan, [_feed(6, "t"), _feed(7, "u")], wanted)
    assert sa.open_state(checkpoint).verify().ok


def test_columns_and_rows_are_chosen_above(tmp_path: Path) -> None:
    """A column is left out, so that rows of the view are equal; or a filter chooses rows, as often as they are there."""
    builder = Builder()
    united = union_all(*_tables("t", "u"))
    source = set_operation("minus_primary_all", united, read("v", COLUMNS))

    def left(t: Bag, u: Bag, v: Bag) -> Bag:
        both = Counter(t)
        both.update(u)
        return expected("minus_primary_all", [both, v])

    def names(*inputs: Bag) -> Bag:
        result: Bag = Counter()
        for (a, _), weight in left(*inputs).items():
            result[(a,)] += weight
        return result

    def positive(*inputs: Bag) -> Bag:
        return Counter({row: weight for row, weight in left(*inputs).items() if row[1] > 0})

    condition = builder.call("gt:any_any", COMPARISON, column(1), literal("i32", 0), output="bool")
    feeds = [_feed(8, "t", batches=4), _feed(9, "u", batches=4), _feed(10, "v", batches=4)]
    for number, (plan, wanted) in enumerate((
        (builder.plan(projected(source, 2, column(0)), "a"), names),
        (builder.plan(filtered(source, condition), "a", "b"), positive),
    )):  # fmt: skip
        check(None, tmp_path / str(number), plan, feeds, wanted)


def test_a_table_minus_its_own_rows(tmp_path: Path) -> None:
    """Both inputs see the same batch of the same table, one of them filtered."""
    builder = Builder()
    t = read("t", COLUMNS)
    condition = builder.call("gt:any_any", COMPARISON, column(1), literal("i32", 0), output="bool")
    plan = builder.plan(set_operation("minus_primary", t, filtered(t, condition)), "a", "b")

    def wanted(rows: Bag) -> Bag:
        return expected(
            "minus_primary", [rows, Counter({r: w for r, w in rows.items() if r[1] > 0})]
        )

    check(None, tmp_path, plan, [_feed(11, "t", batches=4)], wanted)


# --- against DuckDB -------------------------------------------------------------------------------

NUMBERS = {"x": "fp64", "d": "decimal<10,2>", "k": "i64"}
IN_SQL = {
    "union_distinct": "UNION",
    "minus_primary": "EXCEPT",
    "minus_primary_all": "EXCEPT ALL",
    "intersection_multiset": "INTERSECT",
    "intersection_multiset_all": "INTERSECT ALL",
}


def _of_duckdb(operation: str, inputs: Sequence[Bag]) -> Bag:
    """The result of DuckDB over the rows of two tables."""
    tables = [Feed(name, NUMBERS, "op", []) for name in ("l", "r")]
    query = f"SELECT * FROM l {IN_SQL[operation]} SELECT * FROM r"
    return duck(query, tables)(*(+Counter(rows) for rows in inputs))


@pytest.mark.parametrize("operation", IN_SQL)
def test_sql_agrees(tmp_path: Path, operation: str) -> None:
    """Nulls, NaN and -0.0 are equal to themselves and to 0.0, in rows that come in several forms."""
    _check_sql(None, tmp_path, operation)


def test_sql_agrees_on_spark(spark: SparkSession, tmp_path: Path, on_spark: None) -> None:
    """The exchange has one hash for all forms of a row."""
    _check_sql(spark, tmp_path, "intersection_multiset_all")


def _check_sql(spark: SparkSession | None, tmp_path: Path, operation: str) -> None:
    rng = random.Random(12)
    xs = [0.0, -0.0, math.nan, None, 1.5]
    ds = [Decimal("1.10"), None]

    def feed(table: str) -> Feed:
        alive: list[tuple[Any, ...]] = []
        batches: list[list[Change]] = []
        for _ in range(3):
            gone = [(alive.pop(rng.randrange(len(alive))), -1) for _ in range(len(alive) // 3)]
            new = [(rng.choice(xs), rng.choice(ds), rng.choice([1, None])) for _ in range(12)]
            alive += new
            batches.append([*gone, *((row, 1) for row in new)])
        return Feed(table, NUMBERS, "op", batches)

    source = set_operation(operation, read("t", NUMBERS), read("u", NUMBERS))
    feeds = [feed("t"), feed("u")]
    views = maintain(
        spark, Builder().plan(source, "x", "d", "k"),
        {f.table: f.write(tmp_path) for f in feeds}, tmp_path / "checkpoint",
    )  # fmt: skip
    wanted = [
        _of_duckdb(operation, [_alive(feed.batches[:version]) for feed in feeds])
        for version in range(4)
    ]
    check_versions(tmp_path / "checkpoint", views, wanted)


def _alive(batches: Sequence[Sequence[Change]]) -> Bag:
    """The net rows, of which NaN and zeros have one form: Python's NaN equals nothing."""
    total: Bag = Counter()
    for batch in batches:
        for (x, *rest), weight in batch:
            one = math.nan if x is not None and math.isnan(x) else x if x is None else x + 0.0
            total[(one, *rest)] += weight
    return total


# --- time, early retractions, state ---------------------------------------------------------------


def test_rows_that_the_watermark_has_passed_are_closed(tmp_path: Path) -> None:
    """A column that follows event time in both inputs: its rows leave the state and stay in the view; late rows count for neither input."""
    windows = Windows()
    ends = projected(windows.read(), 3, column(0), windows.call("tumble_end", interval(10)))
    alone = projected(
        filtered(windows.read(), literal("boolean", True)), 3, column(0), windows.call("tumble_end", interval(10)),
    )  # fmt: skip
    plan = windows.plan(set_operation("intersection_multiset_all", ends, alone), "team", "w")
    batches: list[list[tuple[tuple[str | None, int | None, int | None], int]]] = [
        [(("a", 1, 1), 1), (("a", 2, 9), 1), (("b", 3, 1), 1)],
        [(("a", 100, 9), 1)],
        [(("a", 5, 9), 1), (("b", 101, 1), 1)],
    ]
    starting(None)(
        plan, {"goals": Table("goals", batches).write(tmp_path)}, checkpoint=tmp_path / "checkpoint",
        watermark={"goals.t": "max-diff:0s"},
    ).wait()  # fmt: skip
    view = sa.open_view(tmp_path / "checkpoint").to_arrow()
    assert bag(view) == Counter({("a", instant(10)): 2, ("b", instant(10)): 1, ("a", instant(110)): 1, ("b", instant(110)): 1})  # fmt: skip
    state = sa.open_state(tmp_path / "checkpoint")
    (operator,) = state.at().operators
    assert operator[CLOSED]
    assert operator[GROUP]
    assert state.at().counters["late"] == 2, "it is late in each input"
    assert state.verify().ok


def test_early_retractions_wait_per_input(tmp_path: Path) -> None:
    """In quarantine, an inserted row of one input does not cancel an early retraction of the other
    input.
    """
    row = ("p", 1)
    feeds = [
        Feed("t", COLUMNS, "op", [[(row, 1), (row, 1)], [(row, -1)]]),
        Feed("u", COLUMNS, "op", [[(row, -1)], [(row, -1)]]),
    ]
    plan = Builder().plan(set_operation("minus_primary_all", *_tables("t", "u")), "a", "b")
    sources = {feed.table: feed.write(tmp_path) for feed in feeds}
    checkpoint = tmp_path / "checkpoint"
    views = maintain(None, plan, sources, checkpoint, early_retraction="quarantine")
    assert list(views.values()) == [Counter(), Counter({row: 2}), Counter({row: 1})]
    kept = sa.open_view(checkpoint).quarantined().to_pylist()
    assert [tuple(k.values()) for k in kept] == [("p", 1, -2)]
    assert sa.open_state(checkpoint).verify().ok


def test_rollback_and_show_and_another_plan(tmp_path: Path) -> None:
    """A checkpoint is rolled back, inspected, and continued with another measure above the set operation, whose state stays."""
    builder = Builder()
    source = set_operation("minus_primary_all", *_tables("t", "u"))
    feeds = [_feed(13, "t", batches=4), _feed(14, "u", batches=4)]
    sources = {feed.table: feed.write(tmp_path) for feed in feeds}
    checkpoint = tmp_path / "checkpoint"

    def plan(*measures: str) -> str:
        made = {
            "count": builder.measure("count", output="i64!"),
            "sum": builder.measure("sum", (column(1), "i32"), output="i64"),
        }
        whole = aggregate(source, [column(0)], [made[name] for name in measures])
        return builder.plan(whole, "a", *measures)

    maintain(None, plan("count"), sources, checkpoint)
    state = sa.open_state(checkpoint)
    names = state.show(operator=0)["group"].column_names
    assert "copies of the row in input 0" in names
    assert "copies of the row in input 1" in names
    state.rollback(2)
    views = maintain(None, plan("count", "sum"), sources, checkpoint, evolve=True)

    def wanted(version: int) -> Bag:
        rows = expected("minus_primary_all", [feed.after(version) for feed in feeds])
        groups: dict[Any, list[int]] = {}
        for (a, b), weight in rows.items():
            groups.setdefault(a, []).extend([b] * weight)
        return Counter({(a, len(bs), sum(bs)): 1 for a, bs in groups.items()})

    assert views[max(views)] == wanted(4)
    assert sa.open_state(checkpoint).verify().ok
