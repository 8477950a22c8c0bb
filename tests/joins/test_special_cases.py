"""Joins where implementations go wrong, on the local executor: equal to DuckDB at every version.

Nulls under both equalities, composite keys with a null in one part, NaN and -0.0, decimals of different scale, integers
of different width, a table joined with itself and at two depths, equal column names, existence that comes and goes in one
batch, an inner side that empties, a row whose match moves, empty tables, merges in the batch that probes.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Sequence
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import substrait_agg as sa
from substrait_agg.metrics import Progress
from tests.e2e.feeds import Change, Feed, check, duck
from tests.e2e.plans import (
    COMPARISON,
    Builder,
    Json,
    aggregate,
    column,
    filtered,
    joined,
    literal,
    projected,
    read,
)
from tests.e2e.rows import Bag
from tests.e2e.running import maintain
from tests.local.run import run as start
from tests.sampling import sample

KINDS = ("inner", "left", "right", "outer", "left_semi", "left_anti")
EQUAL, SAME = "equal", "is_not_distinct_from"
OPERATORS = {EQUAL: "=", SAME: "IS NOT DISTINCT FROM", "gt": ">"}
BOOLEAN = "functions_boolean"
Row = tuple[Any, ...]


def compare(b: Builder, name: str, left: int, right: int) -> Json:
    """A comparison of two columns."""
    output = "bool!" if name == SAME else "bool"
    return b.call(f"{name}:any_any", COMPARISON, column(left), column(right), output=output)


def all_of(b: Builder, *conditions: Json) -> Json:
    """The conjunction of conditions."""
    if len(conditions) == 1:
        return conditions[0]
    return b.call("and:bool", BOOLEAN, *conditions, output="bool")


def in_sql(kind: str, on: str, left: str = "l", right: str = "r") -> str:
    """A join of two tables in SQL."""
    exists = f"EXISTS (SELECT 1 FROM {right} WHERE {on})"
    if kind == "left_mark":
        return f"SELECT {left}.*, {exists} FROM {left}"
    if kind in ("left_semi", "left_anti"):
        return f"SELECT {left}.* FROM {left} WHERE {'NOT ' * (kind == 'left_anti')}{exists}"
    word = {"outer": "FULL"}.get(kind, kind.upper())
    return f"SELECT {left}.*, {right}.* FROM {left} {word} JOIN {right} ON {on}"


def changing(
    seed: int, table: str, columns: dict[str, str], values: Sequence[Row], batches: int = 4
) -> Feed:
    """A table whose rows come and go; it is emptied once, and some rows change twice in a batch."""
    rng = random.Random(seed)
    alive: list[Row] = []
    made: list[list[Change]] = []
    for number in range(batches):
        emptied = number == batches // 2
        gone = [
            alive.pop(rng.randrange(len(alive))) for _ in range(len(alive) // (1 + (not emptied)))
        ]
        new = [] if emptied else [rng.choice(values) for _ in range(6)]
        passing = [rng.choice(values) for _ in range(2)]
        alive += new
        changes = [
            *((row, -1) for row in [*gone, *passing]),
            *((row, 1) for row in [*passing, *new]),
        ]
        rng.shuffle(changes)
        made.append(changes)
    return Feed(table, columns, "op", made)


def run(folder: Path, plan: str, feeds: Sequence[Feed], query: str, **options: Any) -> Path:
    """Check every version of a plan against a query, and the state at the end."""
    checkpoint = check(None, folder, plan, feeds, duck(query, feeds), **options)
    assert sa.open_state(checkpoint).verify().ok
    return checkpoint


def names(kind: str, feeds: Sequence[Feed]) -> list[str]:
    """The names of the output columns."""
    count = sum(len(feed.columns) for feed in feeds)
    first = len(feeds[0].columns)
    return [
        f"c{i}"
        for i in range(
            {"left_semi": first, "left_anti": first, "left_mark": first + 1}.get(kind, count)
        )
    ]


def join_of(
    b: Builder, kind: str, feeds: Sequence[Feed], comparisons: Sequence[str]
) -> tuple[str, str]:
    """The plan and the query of a join of two tables by their first columns."""
    left, right = feeds
    width = len(left.columns)
    condition = all_of(b, *(compare(b, name, i, width + i) for i, name in enumerate(comparisons)))
    relation = joined(kind, read("l", left.columns), read("r", right.columns), condition)
    pairs = zip(left.columns, right.columns, comparisons, strict=False)
    on = " AND ".join(f"l.{a} {OPERATORS[name]} r.{c}" for a, c, name in pairs)
    return b.plan(relation, *names(kind, feeds)), in_sql(kind, on)


PAIR = {"k": "i64", "m": "string", "v": "i64"}
PAIRS = [(k, m, v) for k in (1, 2, None) for m in ("a", None) for v in (1, 2)]


COMPARISONS = [(EQUAL, EQUAL), (SAME, SAME), (SAME, EQUAL)]
KEYS = [*product(KINDS, COMPARISONS), ("left_mark", (SAME, SAME))]
QUICK = [
    (kind, comparisons)
    for kind, comparisons in KEYS
    if kind not in KINDS[1:] or comparisons == COMPARISONS[KINDS.index(kind) % 3]
]
"""All comparisons for an inner join and a mark join, one for each of the other kinds."""


@pytest.mark.parametrize(("kind", "comparisons"), sample(KEYS, *QUICK))
def test_composite_keys_with_a_null_in_one_part(
    tmp_path: Path, kind: str, comparisons: tuple[str, str]
) -> None:
    """(1, null) and (null, 1) match under `is_not_distinct_from` alone; both tables have the same column names."""
    feeds = [changing(1, "l", PAIR, PAIRS), changing(2, "r", PAIR, PAIRS)]
    run(tmp_path, *_swap(join_of(Builder(), kind, feeds, comparisons), feeds))


def _swap(made: tuple[str, str], feeds: Sequence[Feed]) -> tuple[str, Sequence[Feed], str]:
    return made[0], feeds, made[1]


@pytest.mark.parametrize("kind", sample(KINDS, "inner", "right", "outer", "left_anti"))
def test_nan_and_negative_zero_are_keys_like_others(tmp_path: Path, kind: str) -> None:
    """NaN matches NaN and -0.0 matches 0.0; a row that comes with -0.0 can go with 0.0."""
    columns = {"x": "fp64", "v": "i32"}
    keys = (0.0, -0.0, math.nan, None, 1.5)
    left: list[list[Change]] = [
        [((k, 1), 1) for k in keys],
        [((-0.0, 1), -1)],
        [((0.0, 1), -1), ((math.nan, 1), -1)],
    ]
    right: list[list[Change]] = [
        [((k, 2), 1) for k in (0.0, math.nan)],
        [((-0.0, 2), -1), ((-0.0, 3), 1)],
        [((math.nan, 2), -1)],
    ]
    feeds = [Feed("l", columns, "op", left), Feed("r", columns, "op", right)]
    b = Builder()
    relation = joined(kind, read("l", columns), read("r", columns), compare(b, EQUAL, 0, 2))
    # Zero and NaN have several forms: the view is compared by the values that decide about rows.
    plan = b.plan(relation, *names(kind, feeds))
    query = in_sql(kind, "l.x = r.x")
    sources = {feed.table: feed.write(tmp_path) for feed in feeds}
    views = maintain(None, plan, sources, tmp_path / "checkpoint")
    for version, view in views.items():
        rows = [_net(feed.batches[:version]) for feed in feeds]
        assert view == duck(query, feeds)(*rows), f"version {version}"


def _net(batches: Sequence[Sequence[Change]]) -> Bag:
    """Consolidate rows, with all NaN as one object, because Python's NaN equals only itself."""
    total = Bag()
    for batch in batches:
        for (x, v), weight in batch:
            total[(x if x is None or math.isnan(x) else x + 0.0, v)] += weight
    return +total


@pytest.mark.parametrize("kind", sample(KINDS, "left", "outer", "left_semi"))
def test_decimals_of_different_scale(tmp_path: Path, kind: str) -> None:
    left = {"d": "decimal<10,2>", "v": "i64"}
    right = {"d": "decimal<12,4>", "w": "i64"}
    a = [(Decimal(x), 1) for x in ("1.10", "1.11", "0.00", "-2.50")]
    c = [(Decimal(x), 2) for x in ("1.1000", "1.1001", "0.0000", "-2.5000")]
    feeds = [changing(3, "l", left, a), changing(4, "r", right, c)]
    run(tmp_path, *_swap(join_of(Builder(), kind, feeds, [EQUAL]), feeds))


@pytest.mark.parametrize("kind", ["inner", "outer", "left_anti"])
def test_integers_of_different_width(tmp_path: Path, kind: str) -> None:
    """A value that does not fit the narrower type matches nothing, and does not fail."""
    a = [(k, 1) for k in (1, -1, 2**31 - 1)]
    c = [(k, 2) for k in (1, -1, 2**31 - 1, 2**32 + 1, 2**31)]
    feeds = [
        changing(5, "l", {"k": "i32", "v": "i64"}, a),
        changing(6, "r", {"k": "i64", "w": "i64"}, c),
    ]
    run(tmp_path, *_swap(join_of(Builder(), kind, feeds, [EQUAL]), feeds))


@pytest.mark.parametrize("kind", KINDS)
def test_a_condition_besides_the_key(tmp_path: Path, kind: str) -> None:
    """An outer row whose match moves to another row, and keys whose rows all fail the condition."""
    feeds = [changing(7, "l", PAIR, PAIRS, 5), changing(8, "r", PAIR, PAIRS, 5)]
    b = Builder()
    condition = all_of(b, compare(b, EQUAL, 0, 3), compare(b, "gt", 2, 5))
    relation = joined(kind, read("l", PAIR), read("r", PAIR), condition)
    run(
        tmp_path,
        b.plan(relation, *names(kind, feeds)),
        feeds,
        in_sql(kind, "l.k = r.k AND l.v > r.v"),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_match_moves_and_existence_flips_twice_in_a_batch(tmp_path: Path, kind: str) -> None:
    columns = {"k": "i64", "v": "string"}
    left = [
        [((1, "a"), 1), ((2, "b"), 1)],
        [((2, "b"), -1), ((1, "b"), 1)],
        [],
        [((1, "a"), -1), ((2, "a"), 1)],
    ]
    right = [
        [((1, "x"), 1), ((2, "y"), 1), ((2, "y"), -1)],
        [((1, "x"), -1), ((1, "x"), 1), ((1, "x"), -1), ((2, "x"), 1)],
        [((2, "x"), -1), ((1, "x"), 1), ((1, "x"), -1), ((2, "x"), 1)],
        [((2, "x"), -1)],
    ]
    feeds = [Feed("l", columns, "op", left), Feed("r", columns, "op", right)]
    run(tmp_path, *_swap(join_of(Builder(), kind, feeds, [EQUAL]), feeds))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("empty", ["l", "r"])
def test_a_table_without_rows(tmp_path: Path, kind: str, empty: str) -> None:
    columns = {"k": "i64", "v": "i64"}
    rows: list[list[Change]] = [[((1, 1), 1), ((None, 2), 1)], [((1, 1), -1)]]
    feeds = [Feed(t, columns, "op", [[], []] if t == empty else rows) for t in ("l", "r")]
    run(tmp_path, *_swap(join_of(Builder(), kind, feeds, [EQUAL]), feeds))


EDGES = {"a": "i64", "b": "i64"}
NODES = [(a, b) for a in (1, 2, 3) for b in (1, 2, None)]


@pytest.mark.parametrize("kind", sample(KINDS, "inner", "right", "outer", "left_anti"))
def test_a_table_joined_with_itself(tmp_path: Path, kind: str) -> None:
    """Both sides of the join change in the same batch."""
    feed = changing(9, "t", EDGES, NODES)
    b = Builder()
    relation = joined(kind, read("t", EDGES), read("t", EDGES), compare(b, EQUAL, 1, 2))
    query = f"WITH l AS (FROM t), r AS (FROM t) {in_sql(kind, 'l.b = r.a')}"
    run(tmp_path, b.plan(relation, *names(kind, [feed, feed])), [feed], query)


@pytest.mark.parametrize("kind", ["inner", "left", "outer", "left_anti"])
def test_a_table_at_two_depths(tmp_path: Path, kind: str) -> None:
    """The rows of a table beside the total of their group, and paths of two steps beside their last edge."""
    feed = changing(10, "t", EDGES, NODES)
    b = Builder()
    t = read("t", EDGES)
    totals = aggregate(t, [column(0)], [b.measure("count", output="i64!")])
    beside = joined(kind, t, totals, compare(b, EQUAL, 1, 2))
    totals_sql = "SELECT a AS g, count(*) AS n FROM t GROUP BY a"
    query = f"WITH l AS (FROM t), r AS ({totals_sql}) {in_sql(kind, 'l.b = r.g')}"
    run(tmp_path / "groups", b.plan(beside, *names(kind, [feed, feed])), [feed], query)
    b = Builder()
    paths = joined("inner", t, t, compare(b, EQUAL, 1, 2))
    longer = joined(kind, projected(paths, 4, column(0), column(3)), t, compare(b, EQUAL, 1, 2))
    two = "SELECT x.a, y.b FROM t x JOIN t y ON x.b = y.a"
    query = f"WITH l AS ({two}), r AS (FROM t) {in_sql(kind, 'l.b = r.a')}"
    run(tmp_path / "paths", b.plan(longer, *names(kind, [feed, feed])), [feed], query)


def test_an_aggregate_over_a_join_of_filters_of_one_table(tmp_path: Path) -> None:
    """A join of which only the number of pairs is read, and a column that only the key reads."""
    feed = changing(11, "t", EDGES, NODES)
    b = Builder()
    t = read("t", EDGES)
    large = filtered(
        t, b.call("gt:any_any", COMPARISON, column(0), literal("i64", 1), output="bool")
    )
    relation = aggregate(
        joined("inner", t, large, compare(b, EQUAL, 1, 3)), [], [b.measure("count", output="i64!")]
    )
    query = "SELECT count(*) FROM t x JOIN t y ON x.b = y.b WHERE y.a > 1"
    run(tmp_path, b.plan(relation, "n"), [feed], query)


@pytest.mark.parametrize("kind", ["inner", "outer", "left_semi"])
def test_runs_merge_in_the_batch_that_probes_them(tmp_path: Path, kind: str) -> None:
    """Enough batches that the runs of both sides are merged several times."""
    values = [(k, v) for k in range(5) for v in range(3)]
    feeds = [
        changing(seed, t, {"k": "i64", "v": "i64"}, values, 20)
        for seed, t in ((12, "l"), (13, "r"))
    ]
    checkpoint = run(tmp_path, *_swap(join_of(Builder(), kind, feeds, [EQUAL]), feeds))
    join = sa.open_state(checkpoint).at().operators[0]
    assert all(len(join[tree]) < 20 for tree in ("rows0", "rows1"))


@pytest.mark.parametrize("key", ["bool", "date", "i8", "string"])
def test_keys_of_other_types(tmp_path: Path, key: str) -> None:
    types: dict[str, list[Any]] = {
        "bool": [True, False, None], "date": [dt.date(1969, 12, 31), dt.date(2024, 2, 29), None],
        "i8": [-128, 0, None], "string": ["", "é", None],
    }  # fmt: skip
    values = types[key]
    columns = {"k": key, "v": "i64"}
    rows = [(k, v) for k in values for v in (1, 2)]
    feeds = [changing(seed, t, columns, rows, 4) for seed, t in ((14, "l"), (15, "r"))]
    for comparison in (EQUAL, SAME):
        folder = tmp_path / comparison
        run(folder, *_swap(join_of(Builder(), "outer", feeds, [comparison]), feeds))


def test_progress_has_the_probes_and_the_matches_of_a_join(tmp_path: Path) -> None:
    """Every changed row is looked up in the stored rows of the other side; rows of one batch find each other without."""
    columns = {"k": "i64", "v": "i64"}
    left: list[list[Change]] = [[((k, 0), 1) for k in (1, 2, 3)], []]
    right: list[list[Change]] = [[((2, 5), 1)], [((k, v), 1) for k, v in ((1, 1), (1, 2), (9, 3))]]
    feeds = [Feed("l", columns, "op", left), Feed("r", columns, "op", right)]
    plan, _ = join_of(Builder(), "inner", feeds, [EQUAL])
    sources = {feed.table: feed.write(tmp_path) for feed in feeds}
    seen: list[Progress] = []
    start(plan, sources, checkpoint=tmp_path / "checkpoint", progress=seen.append).wait()
    joins = {progress.version: progress.operators[0] for progress in seen if progress.operators}
    assert [(joins[v].probes, joins[v].matches) for v in (1, 2)] == [(4, 0), (7, 2)]
