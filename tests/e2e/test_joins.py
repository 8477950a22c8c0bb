"""Joins with Spark jobs and the driver, upserts, early retractions, rollback, evolution, event time
and tools.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import substrait_agg as sa
from substrait_agg.errors import RunFailed, StateRefused, UsageError
from substrait_agg.flow.graph.graph import TableOrigin
from substrait_agg.flow.passes.lower import lower
from substrait_agg.spark.execution.driver import Driver
from substrait_agg.tools.state import State
from tests.e2e.event_model import Table, instant
from tests.e2e.feeds import Change, Feed, check, duck
from tests.e2e.files import write_in_order
from tests.e2e.plans import COMPARISON, Builder, Json, aggregate, column, filtered, joined, read
from tests.e2e.rows import Bag, bag, running_sums
from tests.e2e.running import check_versions, maintain
from tests.executors import ON_SPARK, drivers
from tests.joins import tpch
from tests.joins.test_subqueries import CONDITIONS, Queries, T
from tests.joins.test_subqueries import feeds as subquery_feeds
from tests.sampling import sample
from tests.windowed import COUNT, Windows, interval
from tests.windowed import aggregate as windowed_aggregate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REFRESHES = 3


# --- TPC-H on Spark -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def history(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[list[dict[str, pa.Table]], dict[int, list[list[tuple[Any, ...]]]]]:
    """Give the changes of every batch over small tables, and DuckDB's rows per query and version."""
    generated = tpch.generate(tmp_path_factory.mktemp("tpch"), 0.01)
    few = pc.less(generated["orders"]["o_custkey"], 150)
    kept = generated["orders"].filter(few)
    lines = pc.is_in(generated["lineitem"]["l_orderkey"], kept["o_orderkey"].combine_chunks())
    small = {**generated, "orders": kept, "lineitem": generated["lineitem"].filter(lines)}
    tables = tpch.Tables.of(small)
    batches = [tables.first()]
    expected = {query: [tables.expected(query)] for query in QUERIES}
    for _ in range(REFRESHES):
        batches.append(tables.refresh(5))
        for query, rows in expected.items():
            rows.append(tables.expected(query))
    return batches, expected


QUERIES = (3, 13, 21, 22)
"""A fetch over inner joins; a left join; semi and anti joins with conditions; a join without a key over an anti join."""

History = tuple[list[dict[str, pa.Table]], Mapping[int, list[list[tuple[Any, ...]]]]]


@pytest.mark.parametrize(
    ("query", "forced"),
    sample([(3, True), (13, False), (21, True), (22, True)], (21, True)),
)
def test_queries_on_spark(
    spark: SparkSession, tmp_path: Path, history: History, query: int, forced: bool
) -> None:
    """Every version equals DuckDB's; computed by tasks in four partitions and then in one, or on the driver."""
    batches, expected = history
    plan = sa.load(tpch.plan_bytes(query))
    branches = [b for node in lower(plan.bind()).operators for b in node.branches]
    tables = {b.origin.table[0] for b in branches if isinstance(b.origin, TableOrigin)}
    sources = {name: f"parquet:{tmp_path / name}?batch-files=1&weight=__change" for name in tables}
    checkpoint, views = tmp_path / "checkpoint", {}

    def keep(progress: Any) -> None:
        rows = sa.open_view(checkpoint).to_arrow(progress.version)
        views[progress.version] = list(zip(*(c.to_pylist() for c in rows.columns), strict=True))

    def go_on(some: range, partitions: int) -> None:
        for name in tables:
            none = batches[0][name].slice(0, 0)
            content = [_renamed(batches[i].get(name, none)) for i in some]
            write_in_order(tmp_path / name, content, some.start)
        sa.run(
            plan, sources, checkpoint=checkpoint, spark=spark, partitions=partitions, progress=keep
        ).wait()

    if forced:
        with drivers(ON_SPARK):
            go_on(range(2), 4)
            go_on(range(2, len(batches)), 1)
    else:
        go_on(range(2), 4)
        go_on(range(2, len(batches)), 1)
    for version, rows in enumerate(expected[query], 1):
        assert tpch.same_rows(views[version], rows), f"version {version}"
    sums = running_sums(sa.open_view(checkpoint).changes(), sorted(views))
    assert sums[max(sums)].total() == len(expected[query][-1])
    assert sa.open_state(checkpoint).verify().ok


def _renamed(changes: pa.Table) -> pa.Table:
    return changes.rename_columns(
        [n if n != "__weight" else "__change" for n in changes.column_names]
    )


@pytest.mark.parametrize("forced", sample([True, False], False))
def test_float_keys_are_counted_on_spark(spark: SparkSession, tmp_path: Path, forced: bool) -> None:
    """NaN matches NaN and -0.0 matches 0.0 in every hash of keys, also if no column of the join is
    read.
    """
    columns = {"x": "fp64"}
    keys = [math.nan, 0.0, -0.0, None]
    feeds = [
        Feed("l", columns, "op", [[((k,), 1) for k in keys], [((-0.0,), -1)], [((0.0,), -1)]]),
        Feed("r", columns, "op", [[((0.0,), 1)], [((math.nan,), 1)], [((-0.0,), -1)]]),
    ]
    b = Builder()
    on = b.call("equal:any_any", COMPARISON, column(0), column(1), output="bool")
    pairs = joined("inner", read("l", columns), read("r", columns), on)
    plan = b.plan(aggregate(pairs, [], [b.measure("count", output="i64!")]), "n")
    sources = {feed.table: feed.write(tmp_path) for feed in feeds}
    with drivers(ON_SPARK if forced else Driver()):
        views = maintain(spark, plan, sources, tmp_path / "checkpoint", partitions=4)
    wanted: list[Bag] = [Counter({(n,): 1}) for n in (0, 2, 2, 1)]
    check_versions(tmp_path / "checkpoint", views, wanted)


@pytest.mark.parametrize("forced", sample([True, False], False))
def test_subqueries_on_spark(spark: SparkSession, tmp_path: Path, forced: bool) -> None:
    """NOT IN with nulls in the list, NOT EXISTS and a scalar, below an OR: marks that are true, false and null."""
    sql, condition = CONDITIONS["two subqueries"]
    b = Builder()
    plan = b.plan(filtered(read("t", T), condition(Queries(b))), *T)
    query = f"SELECT * FROM t WHERE {sql}"
    given = subquery_feeds(1)
    with drivers(ON_SPARK if forced else Driver()):
        check(spark, tmp_path, plan, given, duck(query, given), partitions=4)


# --- a join of customers and their orders ---------------------------------------------------------

CUSTOMERS = {"id": "i64", "city": "string"}
ORDERS = {"customer": "i64", "amount": "i64"}


def _join(b: Builder, kind: str = "left") -> Json:
    on = b.call("equal:any_any", COMPARISON, column(0), column(2), output="bool")
    return joined(kind, read("customers", CUSTOMERS), read("orders", ORDERS), on)


def _plan(kind: str = "left") -> str:
    b = Builder()
    return b.plan(_join(b, kind), "id", "city", "customer", "amount")


def _cities(*measures: str, kind: str = "left") -> str:
    """Measures of the amounts by city."""
    b = Builder()
    made = {
        "count": lambda: b.measure("count", output="i64!"),
        "sum": lambda: b.measure("sum", (column(3), "i64"), output="i64"),
    }
    return b.plan(
        aggregate(_join(b, kind), [column(1)], [made[m]() for m in measures]), "city", *measures
    )


def _last_city() -> str:
    """One group over the same columns of the join as `_cities`."""
    b = Builder()
    city, amount = (column(1), "string"), (column(3), "i64")
    measures = [b.measure("max", city, output="string"), b.measure("sum", amount, output="i64")]
    return b.plan(aggregate(_join(b), [], measures), "city", "sum")


def _left(customers: Bag, orders: Bag) -> Bag:
    result: Bag = Counter()
    for (id_, city), m in customers.items():
        mine = [(o, n) for o, n in orders.items() if id_ is not None and o[0] == id_]
        for order, n in mine:
            result[(id_, city, *order)] += m * n
        if not mine:
            result[(id_, city, None, None)] += m
    return +result


CITY_CHANGES: list[list[Change]] = [
    [((1, "p"), 1), ((2, "q"), 1), ((None, "r"), 1)],
    [((3, "p"), 1)],
    [((2, "q"), -1), ((2, "p"), 1)],
    [((3, "p"), -1), ((None, "r"), -1)],
]
ORDER_CHANGES: list[list[Change]] = [
    [((1, 10), 1), ((1, 10), 1), ((3, 5), 1), ((None, 1), 1)],
    [((1, 10), -1), ((2, 7), 1)],
    [((1, 10), -1), ((3, 6), 1)],
    [((2, 7), -1), ((3, 5), -1)],
]


def _feeds() -> list[Feed]:
    return [
        Feed("customers", CUSTOMERS, "op", CITY_CHANGES),
        Feed("orders", ORDERS, "op", ORDER_CHANGES),
    ]


def _wanted(version: int) -> Bag:
    return _left(*(feed.after(version) for feed in _feeds()))


def _amounts(version: int) -> Bag:
    """Rows and sum of the amounts by city."""
    groups: dict[Any, list[int | None]] = {}
    for (_, city, _, amount), n in _wanted(version).items():
        groups.setdefault(city, []).extend([amount] * n)
    return Counter({
        (city, len(all_), sum(x for x in all_ if x is not None) if any(x is not None for x in all_) else None): 1
        for city, all_ in groups.items()
    })  # fmt: skip


def test_a_table_with_a_key_replaces_rows_of_one_side(tmp_path: Path) -> None:
    """An update moves a customer to another city, a deletion takes it away; its orders stay."""
    rows = [
        ([1, 2, 3], ["p", "q", "r"], ["insert"] * 3),
        ([2, 1], ["p", None], ["insert", "delete"]),
        ([1, 1], ["x", "y"], ["insert", "insert"]),
    ]
    files = [
        pa.table({"id": pa.array(i), "city": pa.array(c, pa.string()), "op": o}) for i, c, o in rows
    ]
    write_in_order(tmp_path / "customers", files)
    orders = Feed("orders", ORDERS, "op", ORDER_CHANGES[:3])
    sources = {
        "customers": f"parquet:{tmp_path / 'customers'}?key=id&op=op&batch-files=1",
        "orders": orders.write(tmp_path),
    }
    views = maintain(None, _plan(), sources, tmp_path / "checkpoint")
    customers = [
        [], [(1, "p"), (2, "q"), (3, "r")], [(2, "p"), (3, "r")], [(1, "y"), (2, "p"), (3, "r")],
    ]  # fmt: skip
    wanted = [_left(Counter(c), orders.after(v)) for v, c in enumerate(customers)]
    check_versions(tmp_path / "checkpoint", views, wanted)
    assert sa.open_state(tmp_path / "checkpoint").verify().ok


EARLY: list[list[Change]] = [
    [((1, 10), 1)],
    [((1, 7), -1), ((2, 5), 1)],
    [((1, 7), 1), ((1, 7), 1)],
]


def test_rows_retracted_too_early_wait_before_the_join(tmp_path: Path) -> None:
    feeds = [
        Feed("customers", CUSTOMERS, "op", CITY_CHANGES[:3]),
        Feed("orders", ORDERS, "op", EARLY),
    ]
    sources = {feed.table: feed.write(tmp_path) for feed in feeds}
    checkpoint = tmp_path / "checkpoint"
    views = maintain(None, _plan(), sources, checkpoint, early_retraction="quarantine")
    wanted = [_left(feeds[0].after(v), +feeds[1].after(v)) for v in range(4)]
    check_versions(checkpoint, views, wanted)
    waiting = sa.open_view(checkpoint).quarantined(2).to_pylist()
    assert [tuple(row.values()) for row in waiting] == [(1, None, None, 1, 7, -1)], (
        "the operator, the columns of the other side and of this one, and the weight"
    )
    assert sa.open_state(checkpoint).verify().ok


def test_rows_retracted_too_early_are_refused(tmp_path: Path) -> None:
    feeds = [
        Feed("customers", CUSTOMERS, "op", CITY_CHANGES[:3]),
        Feed("orders", ORDERS, "op", EARLY),
    ]
    sources = {feed.table: feed.write(tmp_path) for feed in feeds}
    with pytest.raises(RunFailed) as failed:
        maintain(None, _plan(), sources, tmp_path / "checkpoint", early_retraction="refuse")
    assert failed.value.code == "EARLY_RETRACTION"
    assert sa.open_view(tmp_path / "checkpoint").versions() == [0, 1]


# --- state and other plans ------------------------------------------------------------------------


def _rows_of(state: State, tree: str) -> Bag:
    """The rows of an arrangement, without their hash."""
    table = state.show(operator=0, tree=tree, limit=None)[tree]
    return bag(table)


def test_a_rollback_and_another_number_of_partitions(tmp_path: Path) -> None:
    feeds = _feeds()
    sources = {feed.table: feed.write(tmp_path) for feed in feeds}
    checkpoint = tmp_path / "checkpoint"
    maintain(None, _plan(), sources, checkpoint, partitions=4)
    state = sa.open_state(checkpoint)
    last = _rows_of(state, "rows0"), _rows_of(state, "rows1")
    state.rollback(2)
    state.rescale(1)
    assert sa.open_state(checkpoint).verify().ok
    assert bag(sa.open_view(checkpoint).to_arrow()) == _wanted(2)
    views = maintain(None, _plan(), sources, checkpoint, partitions=2)
    assert [views[v] for v in (3, 4)] == [_wanted(3), _wanted(4)]
    state = sa.open_state(checkpoint)
    assert (_rows_of(state, "rows0"), _rows_of(state, "rows1")) == last
    state.vacuum()
    assert sa.open_state(checkpoint).verify().ok


def test_tools_show_the_rows_of_both_sides(tmp_path: Path) -> None:
    feeds = _feeds()
    sources = {feed.table: feed.write(tmp_path) for feed in feeds}
    maintain(None, _plan(), sources, tmp_path / "checkpoint")
    state = sa.open_state(tmp_path / "checkpoint")
    rows = state.show(operator=0, tree="rows1", limit=None)["rows1"].to_pylist()
    # The row whose key is null matches nothing and is not stored.
    assert len(rows) == 1
    assert {6, 3} <= set(rows[0].values())
    customers = state.show(operator=0, tree="rows0", key=[1], limit=None)["rows0"].to_pylist()
    assert [row for row in customers if "p" in row.values()] == customers
    assert len(customers) == 1
    (damaged,) = list(
        (tmp_path / "checkpoint" / "state").glob(f"*{state.at().operators[0]['rows0'][0].name}")
    )
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 255
    damaged.write_bytes(content)
    assert not sa.open_state(tmp_path / "checkpoint").verify().ok


def test_another_measure_above_keeps_the_state_of_the_join(tmp_path: Path) -> None:
    feeds = _feeds()
    some = [Feed(f.table, f.columns, f.how, f.batches[:2]) for f in feeds]
    sources = {feed.table: feed.write(tmp_path) for feed in some}
    checkpoint = tmp_path / "checkpoint"
    # Both plans read the amounts, so the join stores the same columns.
    maintain(None, _cities("count", "sum"), sources, checkpoint)
    before = _rows_of(sa.open_state(checkpoint), "rows1")
    for feed in feeds:
        feed.write(tmp_path)
    views = maintain(None, _cities("sum"), sources, checkpoint, evolve=True)
    last = max(views)
    assert views[last] == Counter({(city, s): 1 for (city, _, s) in _amounts(4)})
    assert before
    assert sa.open_state(checkpoint).verify().ok


@pytest.mark.usefixtures("spark")
def test_a_join_of_which_less_is_read_keeps_the_columns_that_remain(tmp_path: Path) -> None:
    """Rows that are equal then become one. A column that was dropped comes back from the files."""
    feeds = _feeds()
    some = [Feed(f.table, f.columns, f.how, f.batches[:2]) for f in feeds]
    sources = {feed.table: feed.write(tmp_path) for feed in some}
    checkpoint = tmp_path / "checkpoint"
    maintain(None, _cities("count", "sum"), sources, checkpoint)
    wide = sa.open_state(checkpoint).show("rows1", operator=0, limit=None)["rows1"].num_columns
    # Without a batch after it.
    assert not maintain(None, _cities("count"), sources, checkpoint, evolve=True)
    view = sa.open_view(checkpoint).to_arrow().to_pylist()
    assert {tuple(row.values()) for row in view} == {(city, n) for (city, n, _) in _amounts(2)}
    state = sa.open_state(checkpoint)
    assert state.show("rows1", operator=0, limit=None)["rows1"].num_columns == wide - 1
    assert not state.verify(deep=True, sources=sources).findings
    for feed in feeds:
        feed.write(tmp_path)
    views = maintain(None, _cities("count"), sources, checkpoint)
    assert views[max(views)] == Counter({(city, n): 1 for (city, n, _) in _amounts(4)})
    assert not sa.open_state(checkpoint).verify(deep=True, sources=sources).findings
    # The column is read again from the files.
    maintain(None, _cities("count", "sum"), sources, checkpoint, evolve=True)
    assert bag(sa.open_view(checkpoint).to_arrow()) == _amounts(4)
    assert not sa.open_state(checkpoint).verify(deep=True, sources=sources).findings


@pytest.mark.parametrize(
    "other",
    [
        _plan("inner"),
        _cities("count", kind="inner"),
        _cities("count", "sum", kind="outer"),
    ],
)
def test_another_join_is_refused(tmp_path: Path, other: str) -> None:
    """Another kind of join is refused below any operator."""
    feeds = _feeds()
    some = [Feed(f.table, f.columns, f.how, f.batches[:2]) for f in feeds]
    sources = {feed.table: feed.write(tmp_path) for feed in some}
    checkpoint = tmp_path / "checkpoint"
    maintain(None, _cities("count", "sum"), sources, checkpoint)
    for feed in feeds:
        feed.write(tmp_path)
    with pytest.raises(StateRefused) as refused:
        maintain(None, other, sources, checkpoint, evolve=True)
    assert refused.value.code == "EVOLVE_REFUSED"
    views = maintain(None, _cities("count", "sum"), sources, checkpoint)
    assert views[max(views)] == _amounts(4)


@pytest.mark.usefixtures("spark")
def test_other_groups_of_a_join_are_made_from_its_files(tmp_path: Path) -> None:
    feeds = _feeds()
    some = [Feed(f.table, f.columns, f.how, f.batches[:2]) for f in feeds]
    sources = {feed.table: feed.write(tmp_path) for feed in some}
    maintain(None, _cities("count", "sum"), sources, tmp_path / "c")
    maintain(None, _last_city(), sources, tmp_path / "c", evolve=True)
    maintain(None, _last_city(), sources, tmp_path / "whole")
    found, wanted = (bag(sa.open_view(tmp_path / c).to_arrow()) for c in ("c", "whole"))
    assert found == wanted
    assert sa.open_state(tmp_path / "c").verify(deep=True, sources=sources).ok


# --- event time -----------------------------------------------------------------------------------


def _goals(windows: Windows, *, above: bool) -> str:
    """Goals by team and window: an aggregate over a join, or a join over an aggregate."""
    on = {
        "scalarFunction": {
            "functionReference": 1000,
            "arguments": [{"value": column(0)}, {"value": column(3)}],
            "outputType": {"bool": {"nullability": "NULLABILITY_NULLABLE"}},
        }
    }
    end = windows.call("tumble_end", interval(10))
    teams = read("teams", {"team": "string", "city": "string"})
    if above:
        both = joined("inner", windows.read(), teams, on)
        text = windows.plan(windowed_aggregate(both, [column(4), end], [COUNT]), "city", "w", "c")
    else:
        goals = windowed_aggregate(windows.read(), [column(0), end], [COUNT])
        text = windows.plan(joined("inner", goals, teams, on), "team", "w", "c", "home", "city")
    plan = json.loads(text)
    plan["extensionUrns"].append(
        {"extensionUrnAnchor": 9, "urn": "extension:io.substrait:functions_comparison"}
    )
    plan["extensions"].append({
        "extensionFunction": {"functionAnchor": 1000, "name": "equal:any_any", "extensionUrnReference": 9}
    })  # fmt: skip
    return json.dumps(plan)


GOALS: list[list[tuple[tuple[str | None, int | None, int | None], int]]] = [
    [(("a", 1, 1), 1), (("b", 3, 1), 1)],
    [(("a", 100, 1), 1)],
    [(("a", 5, 1), 1), (("b", 101, 1), 1)],
]
TEAMS: list[list[Change]] = [
    [(("a", "p"), 1)],
    [(("b", "q"), 1)],
    [(("a", "p"), -1), (("a", "r"), 1)],
]
WATERMARK = {"goals.t": "max-diff:0s"}


def _goal_sources(folder: Path) -> dict[str, str]:
    teams = Feed("teams", {"team": "string", "city": "string"}, "op", TEAMS)
    return {"goals": Table("goals", GOALS).write(folder), "teams": teams.write(folder)}


@pytest.mark.parametrize("above", [True, False])
def test_emission_by_watermark_is_refused(tmp_path: Path, above: bool) -> None:
    """Groups above a join never close, and the rows of a join have no time at which they are complete."""
    with pytest.raises(UsageError) as refused:
        maintain(
            None, _goals(Windows(), above=above), _goal_sources(tmp_path), tmp_path / "checkpoint",
            watermark=WATERMARK, emit="watermark",
        )  # fmt: skip
    assert refused.value.code == ("EVENT_TIME_MISSING" if above else "EMIT_TOGETHER")


@pytest.mark.parametrize("emit", ["count:2", "delay:1h", "end"])
def test_rows_of_a_join_are_not_delayed(tmp_path: Path, emit: str) -> None:
    """Delayed emission of joined rows is refused, because the changes of a join belong together."""
    feeds = _feeds()
    sources = {feed.table: feed.write(tmp_path) for feed in feeds}
    with pytest.raises(UsageError) as refused:
        maintain(None, _plan(), sources, tmp_path / "checkpoint", emit=emit)
    assert refused.value.code == "EMIT_TOGETHER"


def test_groups_above_a_join_can_be_delayed(tmp_path: Path) -> None:
    sources = {feed.table: feed.write(tmp_path) for feed in _feeds()}
    views = maintain(None, _cities("count", "sum"), sources, tmp_path / "checkpoint", emit="end")
    assert views[max(views)] == _amounts(4)


def test_no_row_is_late_for_a_join(tmp_path: Path) -> None:
    """A goal that the watermark has passed still counts in the groups above a join, because these never close."""
    plan = _goals(Windows(), above=True)
    views = maintain(
        None, plan, _goal_sources(tmp_path), tmp_path / "checkpoint", watermark=WATERMARK
    )
    assert views[max(views)] == Counter({
        ("r", instant(10), 2): 1, ("r", instant(110), 1): 1,
        ("q", instant(10), 1): 1, ("q", instant(110), 1): 1,
    })  # fmt: skip


def test_closed_groups_stay_in_the_join_above_them(tmp_path: Path) -> None:
    """The late goal is dropped by the aggregate; the row of the closed window still moves with its team."""
    plan = _goals(Windows(), above=False)
    checkpoint = tmp_path / "checkpoint"
    views = maintain(None, plan, _goal_sources(tmp_path), checkpoint, watermark=WATERMARK)
    assert views[max(views)] == Counter({
        ("a", instant(10), 1, "a", "r"): 1, ("a", instant(110), 1, "a", "r"): 1,
        ("b", instant(10), 1, "b", "q"): 1, ("b", instant(110), 1, "b", "q"): 1,
    })  # fmt: skip
    assert sa.open_state(checkpoint).at().counters["late"] == 1
    assert sa.open_state(checkpoint).verify().ok


@pytest.mark.parametrize("plan", [_plan(), _cities("count", "sum")])
def test_a_time_to_live_has_no_meaning_for_the_rows_of_a_join(tmp_path: Path, plan: str) -> None:
    sources = {feed.table: feed.write(tmp_path) for feed in _feeds()}
    with pytest.raises(UsageError) as refused:
        maintain(None, plan, sources, tmp_path / "checkpoint", ttl="1h")
    assert refused.value.code == "TTL_MEANINGLESS"
