"""Mark joins whose marks can be null, and NOT IN over nullable columns: equal to DuckDB at every version.

The mark of a row is true if the condition is true for a row of the other table, else null if it is null for one, else false.
"""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from itertools import product
from pathlib import Path

import pytest

import substrait_agg as sa
from tests.e2e.feeds import Change, Feed
from tests.e2e.plans import COMPARISON, Builder, Json, column, filtered, joined, literal, read
from tests.joins.test_special_cases import BOOLEAN, EQUAL, SAME, all_of, changing, compare, run
from tests.sampling import sample

LEFT = {"k": "i64", "x": "i64", "v": "i64"}
RIGHT = {"m": "i64", "y": "i64", "w": "i64"}
ROWS = list(product((1, 2, None), repeat=3))

CONDITIONS = {
    "the condition of IN": ("x = y", [(EQUAL, 1, 4)]),
    "two equalities, one of which is never null":
        ("k IS NOT DISTINCT FROM m AND x = y", [(SAME, 0, 3), (EQUAL, 1, 4)]),
    "a comparison besides the key": ("k IS NOT DISTINCT FROM m AND v > w", [(SAME, 0, 3), ("gt", 2, 5)]),
    "three parts": ("k IS NOT DISTINCT FROM m AND x = y AND v > w", [(SAME, 0, 3), (EQUAL, 1, 4), ("gt", 2, 5)]),
    "a condition on the other table": ("x = y AND w > m", [(EQUAL, 1, 4), ("gt", 5, 3)]),
    "a condition on the own table": ("x = y AND v > k", [(EQUAL, 1, 4), ("gt", 2, 0)]),
    "conditions on both tables": ("x = y AND v > k AND w > m", [(EQUAL, 1, 4), ("gt", 2, 0), ("gt", 5, 3)]),
    "two nullable equalities": ("k = m AND x = y", [(EQUAL, 0, 3), (EQUAL, 1, 4)]),
    "three nullable equalities": ("k = m AND x = y AND v = w", [(EQUAL, 0, 3), (EQUAL, 1, 4), (EQUAL, 2, 5)]),
    "two nullable equalities and conditions on either table":
        ("k = m AND x = y AND v > k AND w > m", [(EQUAL, 0, 3), (EQUAL, 1, 4), ("gt", 2, 0), ("gt", 5, 3)]),
    "an equality and a comparison": ("x = y AND v > w", [(EQUAL, 1, 4), ("gt", 2, 5)]),
    "an equality and the opposite comparison": ("x = y AND w >= v", [(EQUAL, 1, 4), ("gte", 5, 2)]),
    "an equality and an inequality": ("x = y AND v <> w", [(EQUAL, 1, 4), ("not_equal", 2, 5)]),
    "two nullable equalities and a comparison":
        ("k = m AND x = y AND v < w", [(EQUAL, 0, 3), (EQUAL, 1, 4), ("lt", 2, 5)]),
    "an equality, a comparison and conditions on either table":
        ("x = y AND v <= w AND v > k AND w > m", [(EQUAL, 1, 4), ("lte", 2, 5), ("gt", 2, 0), ("gt", 5, 3)]),
    "an equality and two comparisons":
        ("k = m AND x < y AND v > w", [(EQUAL, 0, 3), ("lt", 1, 4), ("gt", 2, 5)]),
    "two equalities and two comparisons": (
        "k = m AND x = y AND v > w AND x < w",
        [(EQUAL, 0, 3), (EQUAL, 1, 4), ("gt", 2, 5), ("lt", 1, 5)],
    ),
}  # fmt: skip
"""A condition over the columns of both tables: in SQL, and as comparisons of ordinals."""


def sides(seed: int) -> list[Feed]:
    """Two tables; rows with nulls come and go, and the right one is empty now and then."""
    rng = random.Random(seed)
    left, right = changing(seed, "l", LEFT, ROWS, 6), changing(seed + 1, "r", RIGHT, ROWS, 6)
    # Most batches without a null on the right, so that each null decides.
    whole = [row for row in ROWS if None not in row]
    few = changing(seed + 2, "r", RIGHT, [*whole, rng.choice(ROWS)], 6)
    return [left, right if rng.random() < 0.5 else few]


def marks(condition: str) -> str:
    """The left rows with the marks of SQL, computed by counting true, false and null conditions."""
    counts = [f"count(*) FILTER (WHERE {c})" for c in (condition, f"({condition}) IS NULL")]
    mark = f"CASE WHEN {counts[0]} > 0 THEN true WHEN {counts[1]} > 0 THEN NULL ELSE false END"
    return f"SELECT l.*, (SELECT {mark} FROM r) AS mark FROM l"


def condition_of(b: Builder, comparisons: list[tuple[str, int, int]]) -> Json:
    return all_of(b, *(compare(b, name, left, right) for name, left, right in comparisons))


FIRST = next(iter(CONDITIONS))
QUICK = [(FIRST, 1), *((name, 5) for name in CONDITIONS if name != FIRST)]
"""The other seed of a condition comes to no further line or branch."""


@pytest.mark.parametrize(("name", "seed"), sample(product(CONDITIONS, (1, 5)), *QUICK))
def test_marks_are_true_false_or_null(tmp_path: Path, name: str, seed: int) -> None:
    sql, comparisons = CONDITIONS[name]
    b = Builder()
    relation = joined("left_mark", read("l", LEFT), read("r", RIGHT), condition_of(b, comparisons))
    run(tmp_path, b.plan(relation, *LEFT, "mark"), sides(seed), marks(sql))


@pytest.mark.parametrize(
    ("left", "right", "values"),
    [
        ("string", "string", ("a", "b", None)),
        ("date", "date", (dt.date(2024, 1, 1), dt.date(1960, 1, 1), None)),
        ("decimal<38,2>", "decimal<38,2>", (Decimal("1.50"), Decimal("-2.25"), None)),
        ("i64!", "i32", (1, 2, None)),
        ("fp64", "fp64", (1.5, -2.0, None)),
    ],
)
def test_a_comparison_beside_the_key_has_any_ordered_type(
    tmp_path: Path, left: str, right: str, values: tuple[object, ...]
) -> None:
    types = {"x": "i64", "v": left}, {"y": "i64", "w": right}
    rows = list(product((1, 2, None), values))
    filled = [row for row in rows if row[1] is not None] if left.endswith("!") else rows
    feeds = [changing(50, "l", types[0], filled, 6), changing(51, "r", types[1], rows, 6)]
    b = Builder()
    condition = condition_of(b, [(EQUAL, 0, 2), ("gt", 1, 3)])
    relation = joined("left_mark", read("l", types[0]), read("r", types[1]), condition)
    run(tmp_path, b.plan(relation, "x", "v", "mark"), feeds, marks("x = y AND v > w"))


def test_a_right_mark_join_marks_the_rows_of_the_right_table(tmp_path: Path) -> None:
    b = Builder()
    condition = compare(b, EQUAL, 1, 4)
    relation = joined("right_mark", read("r", RIGHT), read("l", LEFT), condition)
    run(tmp_path, b.plan(relation, *LEFT, "mark"), sides(3), marks("x = y"))


def not_in(b: Builder, condition: Json) -> Json:
    marked = joined("left_mark", read("l", LEFT), read("r", RIGHT), condition)
    return filtered(marked, b.call("not:bool", BOOLEAN, column(3), output="bool"))


@pytest.mark.parametrize("seed", sample(range(4), 3))
def test_not_in_is_a_filter_by_the_mark(tmp_path: Path, seed: int) -> None:
    """NOT IN: a null in the list excludes every row, an empty list excludes none, and a null value
    passes only an empty list.
    """
    b = Builder()
    plan = b.plan(not_in(b, compare(b, EQUAL, 1, 4)), *LEFT, "mark")
    query = "SELECT *, false FROM l WHERE x NOT IN (SELECT y FROM r)"
    run(tmp_path, plan, sides(10 + seed), query)


def test_not_in_per_key(tmp_path: Path) -> None:
    b = Builder()
    condition = all_of(b, compare(b, SAME, 0, 3), compare(b, EQUAL, 1, 4))
    plan = b.plan(not_in(b, condition), *LEFT, "mark")
    inner = "SELECT y FROM r WHERE r.m IS NOT DISTINCT FROM l.k"
    run(tmp_path, plan, sides(20), f"SELECT *, false FROM l WHERE x NOT IN ({inner})")


def test_a_null_in_the_list_comes_and_goes(tmp_path: Path) -> None:
    """Rows change only in the versions in which the list gets its first null or loses its last one."""
    columns, other = {"x": "i64"}, {"y": "i64"}
    left: list[list[Change]] = [[((i,), 1) for i in range(50)], [], [], [], [], []]
    right: list[list[Change]] = [
        [((100,), 1)],
        [((None,), 1)],
        [((None,), 1), ((101,), 1)],
        [((None,), -1)],
        [((None,), -1)],
        [((7,), 1)],
    ]
    feeds = [Feed("l", columns, "op", left), Feed("r", other, "op", right)]
    b = Builder()
    marked = joined("left_mark", read("l", columns), read("r", other), compare(b, EQUAL, 0, 1))
    relation = filtered(marked, b.call("not:bool", BOOLEAN, column(1), output="bool"))
    query = "SELECT *, false FROM l WHERE x NOT IN (SELECT y FROM r)"
    checkpoint = run(tmp_path, b.plan(relation, "x", "mark"), feeds, query)
    view = sa.open_view(checkpoint)
    changed = [view.changes(version - 1, version).num_rows for version in range(1, 7)]
    assert changed == [50, 50, 0, 0, 50, 1]


def test_a_mark_by_a_table_of_one_row_needs_no_key(tmp_path: Path) -> None:
    b = Builder()
    both = [compare(b, EQUAL, 0, 3), compare(b, EQUAL, 1, 4)]
    one = {"fetch": {"input": read("r", RIGHT), "count": "1"}}
    b_plan = b.plan(joined("left_mark", read("l", LEFT), one, all_of(b, *both)), *LEFT, "mark")
    query = marks("k = m AND x = y").replace(
        "FROM r)", "FROM (FROM r ORDER BY ALL NULLS LAST LIMIT 1) r)"
    )
    run(tmp_path, b_plan, sides(30), query)


def test_a_condition_that_is_always_true_marks_by_existence(tmp_path: Path) -> None:
    b = Builder()
    required = {"k": "i64!"}
    counted = {"m": "i64!"}
    one = {"fetch": {"input": read("r", counted), "count": "1"}}
    gt = b.call("gt:any_any", COMPARISON, literal("i64", 2), literal("i64", 1), output="bool")
    plan = b.plan(joined("left_mark", read("l", required), one, gt), "k", "mark")
    rows = [(1,), (2,)]
    feeds = [changing(40, "l", required, rows), changing(41, "r", counted, rows)]
    run(tmp_path, plan, feeds, "SELECT l.*, EXISTS (FROM r) FROM l")
