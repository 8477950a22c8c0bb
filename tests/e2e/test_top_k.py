"""Fetches over sorts, checked against DuckDB's ORDER BY, LIMIT and OFFSET at every version."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import substrait_agg as sa
from substrait_agg.errors import UsageError
from tests.e2e import feeds
from tests.e2e.feeds import Change, Feed, check, churn
from tests.e2e.plans import (
    COMPARISON,
    Builder,
    Json,
    aggregate,
    column,
    fetched,
    filtered,
    literal,
    ordered,
    projected,
    read,
    union_all,
)
from tests.e2e.rows import Bag
from tests.e2e.running import maintain, starting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


COLUMNS = {"customer": "string", "city": "string", "amount": "i64"}
SALES = read("sales", COLUMNS)
BY_AMOUNT = ordered(SALES, (column(2), True))
TIES = "amount desc nulls last, customer nulls last, city nulls last"
"""The order of rows under `BY_AMOUNT`: ties go by the other columns."""


def _row(rng: random.Random) -> tuple[Any, ...]:
    amount = None if rng.random() < 0.1 else rng.randint(-5, 5)
    return rng.choice(["ann", "bob", "Cy", "dé", None]), rng.choice(["p", "q"]), amount


def _changes(seed: int, batches: int = 6) -> list[list[Change]]:
    """Batches of insertions and of deletions of existing rows."""
    rng = random.Random(seed)
    there: list[tuple[Any, ...]] = []
    made: list[list[Change]] = []
    for number in range(batches):
        new = [_row(rng) for _ in range(12 if number != batches - 2 else 0)]
        rng.shuffle(there)
        gone = [
            there.pop() for _ in range(len(there) // 2 if number != batches - 2 else len(there))
        ]
        there += new
        made.append([*((row, -1) for row in gone), *((row, 1) for row in new)])
    return made


def duck(query: str) -> Callable[[Bag], Bag]:
    """Return the result of DuckDB over the rows of the table, without rows of negative weight."""
    wanted = feeds.duck(query, [Feed("sales", COLUMNS, "op", [])])
    return lambda rows: wanted(+rows)


def by_customer(builder: Builder) -> Json:
    """SELECT customer, sum(amount), count(*) FROM sales GROUP BY customer."""
    measures = [
        builder.measure("sum", (column(2), "i64"), output="i64"),
        builder.measure("count", output="i64!"),
    ]
    return aggregate(SALES, [column(0)], measures)


GROUPED = "select customer, sum(amount)::bigint as total, count(*) as n from sales group by all"


@pytest.mark.parametrize(
    ("count", "offset", "tail"),
    [(4, 2, "limit 4 offset 2"), (None, 3, "offset 3"), (0, 0, "limit 0"), (5, 100, "limit 5 offset 100")],
)  # fmt: skip
def test_rows(tmp_path: Path, count: int | None, offset: int, tail: str) -> None:
    plan = Builder().plan(fetched(BY_AMOUNT, count, offset), *COLUMNS)
    rng = random.Random(4)
    feed = Feed("sales", COLUMNS, "op", churn(rng, lambda: _row(rng), 6, 8))
    check(None, tmp_path, plan, [feed], duck(f"from sales order by {TIES} {tail}"))


def _check_groups(spark: SparkSession | None, tmp_path: Path, partitions: int) -> None:
    builder = Builder()
    best = ordered(by_customer(builder), (column(1), True), (column(0), False))
    plan = builder.plan(fetched(best, 2), "customer", "total", "n")
    feed = Feed("sales", COLUMNS, "op", _changes(1))
    query = f"from ({GROUPED}) order by total desc nulls last, customer nulls last, n limit 2"
    folder = check(spark, tmp_path, plan, [feed], duck(query), partitions=partitions)
    shown = sa.open_view(folder).to_arrow().to_pylist()
    assert shown == sorted(shown, key=lambda row: -row["total"])


@pytest.mark.parametrize("partitions", [1, 4])
def test_groups(tmp_path: Path, partitions: int) -> None:
    _check_groups(None, tmp_path, partitions)


def test_groups_on_spark(spark: SparkSession, tmp_path: Path, on_spark: None) -> None:
    _check_groups(spark, tmp_path, 2)


def test_rows_without_an_order(tmp_path: Path) -> None:
    plan = Builder().plan(fetched(SALES, 3), *COLUMNS)
    feed = Feed("sales", COLUMNS, "one", [[(r, 1) for r, w in b if w > 0] for b in _changes(2)])
    query = "from sales order by customer nulls last, city nulls last, amount nulls last limit 3"
    check(None, tmp_path, plan, [feed], duck(query))


def test_an_aggregate_over_a_fetch(tmp_path: Path) -> None:
    builder = Builder()
    measures = [
        builder.measure("count", output="i64!"),
        builder.measure("sum", (column(2), "i64"), output="i64"),
    ]
    plan = builder.plan(aggregate(fetched(BY_AMOUNT, 5, 1), [], measures), "n", "total")
    query = (
        f"select count(*), sum(amount)::bigint from (from sales order by {TIES} limit 5 offset 1)"
    )
    check(None, tmp_path, plan, [Feed("sales", COLUMNS, "op", _changes(3))], duck(query))


def test_fetches_in_fetches_and_rows_above(tmp_path: Path) -> None:
    """The last five of the first nine in another order, twice in a union with the first nine, filtered."""
    builder = Builder()
    nine = fetched(BY_AMOUNT, 9)
    inner = fetched(ordered(nine, (column(0), False)), None, 4)
    both = fetched(ordered(union_all(nine, inner), (column(1), False)), 10)
    positive = builder.call("gt:any_any", COMPARISON, column(2), literal("i64", -3), output="bool")
    root = projected(filtered(both, positive), 3, column(0), column(2))
    plan = builder.plan(root, "customer", "amount")
    query = f"""
        with nine as (from sales order by {TIES} limit 9),
        rest as (from nine order by customer nulls last, city nulls last, amount nulls last offset 4),
        both_ as (from (from nine union all from rest)
            order by city nulls last, customer nulls last, amount nulls last limit 10)
        select customer, amount from both_ where amount > -3
    """
    check(None, tmp_path, plan, [Feed("sales", COLUMNS, "op", _changes(5))], duck(query))


def test_no_rows_at_all(tmp_path: Path) -> None:
    plan = Builder().plan(fetched(BY_AMOUNT, 3), *COLUMNS)
    check(None, tmp_path, plan, [Feed("sales", COLUMNS, "op", [[]])], duck("from sales"))


@pytest.mark.parametrize("sizes", [(1,), (2, 1), (6,)])
def test_any_cut_into_batches(tmp_path: Path, sizes: Sequence[int]) -> None:
    changes = [change for batch in _changes(6) for change in batch]
    cut: list[list[Change]] = []
    at = 0
    while at < len(changes):
        size = 8 * sizes[len(cut) % len(sizes)]
        cut.append(changes[at : at + size])
        at += size
    plan = Builder().plan(fetched(BY_AMOUNT, 3, 2), *COLUMNS)
    query = f"from sales order by {TIES} limit 3 offset 2"
    check(None, tmp_path, plan, [Feed("sales", COLUMNS, "op", cut)], duck(query))


def test_early_retractions_in_quarantine(tmp_path: Path) -> None:
    ann, bob, cy = (("ann", "p", 9), ("bob", "p", 8), ("Cy", "p", 7))
    batches: list[list[Change]] = [[(ann, -1), (bob, 1), (cy, 1)], [(ann, 2)]]
    plan = Builder().plan(fetched(BY_AMOUNT, 2), *COLUMNS)
    folder = check(
        None, tmp_path, plan, [Feed("sales", COLUMNS, "weight", batches)],
        duck(f"from sales order by {TIES} limit 2"), early_retraction="quarantine",
    )  # fmt: skip
    view = sa.open_view(folder)
    waiting = view.quarantined(1).to_pylist()
    assert waiting == [{"amount": 9, "customer": "ann", "city": "p", "__weight": -1}]
    assert view.quarantined(2).num_rows == 0


def test_rows_cannot_wait_but_groups_can(tmp_path: Path) -> None:
    feed = Feed("sales", COLUMNS, "op", [[(("ann", "p", 1), 1)], [(("bob", "p", 2), 1)]])
    sources = {"sales": feed.write(tmp_path)}
    plan = Builder().plan(fetched(BY_AMOUNT, 3), *COLUMNS)
    with pytest.raises(UsageError) as error:
        starting(None)(plan, sources, checkpoint=tmp_path / "no", emit="count:2")
    assert error.value.code == "EMIT_TOGETHER"
    builder = Builder()
    plan = builder.plan(fetched(ordered(by_customer(builder), (column(1), True)), 1), "c", "t", "n")
    run = starting(None)(plan, sources, checkpoint=tmp_path / "yes", emit="count:2")
    run.wait()
    view = sa.open_view(tmp_path / "yes")
    assert view.to_arrow(2).num_rows == 0
    assert view.to_arrow().to_pylist() == [{"c": "bob", "t": 2, "n": 1}]


@pytest.mark.parametrize("emit", ["watermark", "batch"])
def test_complete_groups_are_ranked(tmp_path: Path, emit: str) -> None:
    """Days are closed by the watermark, two days behind; their rows stay in the fetch."""

    def day(number: int) -> dt.date:
        return dt.date(2024, 1, number)

    columns = {"d": "date", "x": "i64"}
    days = [[1, 1, 1, 2, 3], [4, 5], [5, 5, 5, 5, 8], [12]]
    feed = Feed("goals", columns, "one", [[((day(d), 1), 1) for d in batch] for batch in days])
    builder = Builder()
    groups = aggregate(
        read("goals", columns), [column(0)], [builder.measure("count", output="i64!")]
    )
    best = ordered(groups, (column(1), True), (column(0), False))
    plan = builder.plan(fetched(best, 2), "d", "n")
    views = maintain(
        None, plan, {"goals": feed.write(tmp_path)}, tmp_path / "checkpoint",
        emit=emit, watermark={"goals.d": "max-diff:48h"},
    )  # fmt: skip
    there: Counter[int] = Counter()
    for version, batch in enumerate([[], *days]):
        there.update(batch)
        before = 99 if emit == "batch" else max(batch, default=0) - 2
        ranked = sorted((-n, d) for d, n in there.items() if d < before)[:2]
        assert views[version] == Counter({(day(d), -n): 1 for n, d in ranked}), version
    state = sa.open_state(tmp_path / "checkpoint")
    assert not state.verify().findings
    rows = {(t.operator, t.tree): t.rows for t in state.ls().trees}
    assert rows[1, "tree0"] >= 6


def test_evicted_groups_leave_the_ranks(tmp_path: Path) -> None:
    """A group without rows for long is retracted by its aggregate, and another one comes in."""
    columns = {"k": "string", "d": "date"}
    batches = [
        [(("a", dt.date(2024, 1, 1)), 1)] * 3 + [(("b", dt.date(2024, 1, 9)), 1)],
        [(("c", dt.date(2024, 1, 30)), 1)],
        [(("b", dt.date(2024, 1, 30)), 1)],
    ]
    feed = Feed("goals", columns, "one", batches)
    builder = Builder()
    groups = aggregate(
        read("goals", columns), [column(0)], [builder.measure("count", output="i64!")]
    )
    plan = builder.plan(
        fetched(ordered(groups, (column(1), True), (column(0), False)), 1), "k", "n"
    )
    views = maintain(
        None, plan, {"goals": feed.write(tmp_path)}, tmp_path / "checkpoint",
        ttl="8d", watermark={"goals.d": "max-diff:1d"},
    )  # fmt: skip
    assert views[1] == Counter({("a", 3): 1})
    assert views[2] == Counter({("c", 1): 1})
    assert not sa.open_state(tmp_path / "checkpoint").verify().findings


def test_upserts_are_ranked(tmp_path: Path) -> None:
    """A new row of a key replaces the row that the fetch had of it."""
    rng = random.Random(9)
    batches = [
        [((f"c{rng.randrange(9)}", None, rng.randrange(50)), 1) for _ in range(6)] for _ in range(5)
    ]
    source = Feed("sales", COLUMNS, "one", batches).write(tmp_path)
    plan = Builder().plan(fetched(BY_AMOUNT, 3, 1), *COLUMNS)
    folder = tmp_path / "checkpoint"
    views = maintain(None, plan, {"sales": f"{source}&key=customer"}, folder)
    newest: dict[str, int] = {}
    for version, batch in enumerate([[], *batches]):
        newest |= {row[0]: row[2] for row, _ in batch}
        ranked = sorted((-amount, customer) for customer, amount in newest.items())[1:4]
        assert views[version] == Counter({(c, None, -a): 1 for a, c in ranked}), version
    assert not sa.open_state(folder).verify().findings
