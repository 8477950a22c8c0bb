"""Subqueries and the time in aggregates, sorts, windows and joins: equal to DuckDB at every version."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import substrait_agg as sa
from substrait_agg.flow.passes.lower import lower
from substrait_agg.operator.common.names import WEIGHT
from tests.connect.test_clock import START, TODAY, ticks
from tests.e2e.plans import (
    COMPARISON,
    Builder,
    Json,
    aggregate,
    column,
    fetched,
    filtered,
    joined,
    literal,
    ordered,
    projected,
    read,
)
from tests.joins.local_flow import LocalFlow
from tests.joins.test_special_cases import changing, run
from tests.joins.test_subqueries import Queries, T, U, among, exists, feeds, outer, scalar
from tests.sampling import sample

S = {"a": "i64", "b": "i64"}
KINDS = ("inner", "left", "right", "outer", "left_semi", "left_anti", "left_mark", "right_semi", "right_anti", "right_mark")  # fmt: skip

Made = Callable[[Queries], Json]


def windowed(
    b: Builder, name: str, partitions: list[Json], sorts: list[Json], *arguments: Json
) -> Json:
    """A window function; without an order its frame is the whole partition."""
    signature = f"{name}:{'i64' if arguments else ''}"
    call = b.call(signature, "functions_arithmetic", *arguments, output="i64")["scalarFunction"]
    way = "SORT_DIRECTION_ASC_NULLS_LAST"
    return {
        "windowFunction": {
            **call,
            "partitions": partitions,
            "sorts": [{"expr": key, "direction": way} for key in sorts],
            "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
        }
    }


def of_key(q: Queries) -> Json:
    """The least w of the outer k."""
    return scalar(q.total(q.of_key(), "min"))


OF_KEY = "(SELECT min(w) FROM u WHERE m = k)"


def grouped(q: Queries) -> Json:
    b, in_u = q.b, among(q.only(q.u), column(1))
    measures = [
        b.measure("count", output="i64!", where=in_u),
        b.measure("sum", (of_key(q), "i64"), output="i64"),
        b.measure("max", (column(2), "i64"), output="i64", where=q.no(exists(q.of_key()))),
    ]
    return aggregate(read("t", T), [exists(q.of_key()), column(0)], measures)


def of_partitions(q: Queries) -> Json:
    total = windowed(q.b, "sum", [exists(q.of_key())], [], of_key(q))
    number = windowed(q.b, "row_number", [column(0)], [of_key(q), *map(column, (2, 1, 0))])
    return projected(read("t", T), 3, column(0), total, number, of_key(q))


RELATIONS: dict[str, tuple[int, str, Made]] = {
    "an aggregate": (
        5,
        f"""SELECT e, k, count(*) FILTER (i), sum(s), max(v) FILTER (NOT e) FROM (
            SELECT *, EXISTS (FROM u WHERE m = k) e, {OF_KEY} s, x IN (SELECT y FROM u) i FROM t) GROUP BY e, k""",
        grouped),
    "an aggregate of all rows": (
        1,
        "SELECT max(v) FILTER (i) FROM (SELECT *, x IN (SELECT y FROM u) i FROM t)",
        lambda q: aggregate(read("t", T), [], [
            q.b.measure("max", (column(2), "i64"), output="i64", where=among(q.only(q.u), column(1)))])),
    "a sort": (
        3,
        f"SELECT * FROM t ORDER BY {OF_KEY}, v, k, x LIMIT 4",
        lambda q: fetched(ordered(read("t", T), (of_key(q), False), *((column(o), False) for o in (2, 0, 1))), 4)),
    "a sort below a projection": (
        1,
        f"SELECT v FROM t ORDER BY {OF_KEY} DESC NULLS LAST, v LIMIT 3",
        lambda q: fetched(projected(
            ordered(read("t", T), (of_key(q), True), (column(2), False)), 3, column(2)), 3)),
    "windows": (
        4,
        f"""SELECT k, sum(s) OVER (PARTITION BY e), row_number() OVER (PARTITION BY k ORDER BY s, v, x, k), s FROM (
            SELECT *, EXISTS (FROM u WHERE m = k) e, {OF_KEY} s FROM t)""",
        of_partitions),
    "the value of a window": (
        2,
        "SELECT k, n IN (SELECT y FROM u) FROM (SELECT k, row_number() OVER (PARTITION BY k ORDER BY v, x) n FROM t)",
        lambda q: projected(read("t", T), 3, column(0), among(
            q.only(q.u), windowed(q.b, "row_number", [column(0)], [column(2), column(1)])))),
}  # fmt: skip


@pytest.mark.parametrize("name", RELATIONS)
def test_a_relation(tmp_path: Path, name: str) -> None:
    width, sql, made = RELATIONS[name]
    b = Builder()
    plan = b.plan(made(Queries(b)), *(f"c{i}" for i in range(width)))
    run(tmp_path, plan, feeds(11), sql)


# --- joins ---------------------------------------------------------------------------------------


def some(q: Queries, ordinal: int) -> Json:
    """The number of rows of s whose a is a column around it."""
    rows = filtered(read("s", S), q.compare("equal", column(0), outer(ordinal)))
    return scalar(aggregate(rows, [], [q.b.measure("count", output="i64!")]))


def most(q: Queries) -> Json:
    """The greatest b of s."""
    return scalar(
        aggregate(read("s", S), [], [q.b.measure("max", (column(1), "i64"), output="i64")])
    )


def in_s(q: Queries, ordinal: int) -> Json:
    return among(projected(read("s", S), 2, column(0)), column(ordinal))


def plus(q: Queries, left: Json, right: Json) -> Json:
    return q.b.call("add:i64_i64", "functions_arithmetic", left, right, output="i64")


KEY = "l.k = r.m"
CONDITIONS: dict[str, tuple[str, Made]] = {
    "of the left row": (f"{KEY} AND l.i", lambda q: in_s(q, 1)),
    "of the right row": (f"{KEY} AND r.w > r.n", lambda q: q.compare("gt", column(5), some(q, 3))),
    "not of the left row": (f"{KEY} AND NOT l.i", lambda q: q.no(in_s(q, 1))),
    "of no row": (
        f"{KEY} AND l.has", lambda q: exists(filtered(read("s", S), q.compare("gt", column(1), literal("i64", 1))))),
    "compared with the right row": (f"{KEY} AND r.w < r.most", lambda q: q.compare("lt", column(5), most(q))),
    "of either row": (f"{KEY} AND (l.i OR r.n > 1)", lambda q: q.either(
        in_s(q, 1), q.compare("gt", some(q, 3), literal("i64", 1)))),
    "added to a key": (
        f"{KEY} AND l.x + l.n = r.y + r.most", lambda q: q.compare(
            "equal", plus(q, column(1), some(q, 0)), plus(q, column(4), most(q)))),
}  # fmt: skip
"""A condition of a join, over tables with the values of its subqueries as columns."""

TABLES = """WITH l AS (
    SELECT *, x IN (SELECT a FROM s) i, (SELECT count(*) FROM s WHERE a = k) n, EXISTS (FROM s WHERE b > 1) has FROM t
), r AS (SELECT *, (SELECT count(*) FROM s WHERE a = m) n, (SELECT max(b) FROM s) most FROM u) """


def of_join(kind: str, on: str) -> str:
    left, right = "l.k, l.x, l.v", "r.m, r.y, r.w"
    shown, table, other = (left, "l", "r") if kind.startswith("left") else (right, "r", "l")
    if kind.endswith("mark"):
        null = f"EXISTS (FROM {other} WHERE ({on}) IS NULL)"  # then the mark is null
        return (
            f"SELECT {shown}, EXISTS (FROM {other} WHERE {on}) OR nullif({null}, true) FROM {table}"
        )
    if kind.endswith(("semi", "anti")):
        word = "NOT" * kind.endswith("anti")
        return f"SELECT {shown} FROM {table} WHERE {word} EXISTS (FROM {other} WHERE {on})"
    return f"SELECT {left}, {right} FROM l {'FULL' if kind == 'outer' else kind} JOIN r ON {on}"


QUICK = [
    ("inner", "of either row"), ("inner", "of no row"), ("left", "of the right row"), ("left", "of the left row"),
    ("right", "not of the left row"), ("outer", "added to a key"), ("left_semi", "compared with the right row"),
    ("left_anti", "of the right row"), ("left_mark", "of either row"), ("right_mark", "of the left row"),
    ("right_semi", "added to a key"), ("right_anti", "of the left row"),
]  # fmt: skip
"""The kinds and conditions that run always."""


def names(kind: str) -> list[str]:
    width = 4 if kind.endswith("mark") else 3 if kind.endswith(("semi", "anti")) else 6
    return [f"c{i}" for i in range(width)]


@pytest.mark.parametrize(("kind", "name"), sample(product(KINDS, CONDITIONS), *QUICK))
def test_a_join(tmp_path: Path, kind: str, name: str) -> None:
    on, made = CONDITIONS[name]
    b = Builder()
    q = Queries(b)
    condition = q.both(q.compare("equal", column(0), column(3)), made(q))
    relation = joined(kind, read("t", T), read("u", U), condition)
    tables = [*feeds(21), changing(23, "s", S, list(product((1, 2, None), (1, 2))), 5)]
    run(tmp_path, b.plan(relation, *names(kind)), tables, TABLES + of_join(kind, on))


def of_both(q: Queries) -> Json:
    return among(projected(read("s", S), 2, column(0)), plus(q, column(2), column(5)))


def test_a_subquery_of_both_rows(tmp_path: Path) -> None:
    b = Builder()
    q = Queries(b)
    condition = q.both(q.compare("equal", column(0), column(3)), of_both(q))
    relation = joined("inner", read("t", T), read("u", U), condition)
    tables = [*feeds(31), changing(33, "s", S, [(n, n) for n in (2, 6, 10, None)], 5)]
    on = f"{KEY} WHERE l.v + r.w IN (SELECT a FROM s)"
    run(tmp_path, b.plan(relation, *names("inner")), tables, TABLES + of_join("inner", on))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "inner"])
def test_a_subquery_of_both_rows_of_another_join_is_refused(kind: str) -> None:
    b = Builder()
    relation = joined(kind, read("t", T), read("u", U), of_both(Queries(b)))
    problems = sa.validate(b.plan(relation, *names(kind)).encode()).problems
    assert [p.code for p in problems if p.level == "error"] == ["SUBQUERY_NOT_SUPPORTED"]


@pytest.mark.parametrize("count", [scalar(read("u", {"n": "i64"})), TODAY])
def test_a_number_of_rows_is_no_subquery(count: Json) -> None:
    relation = {"fetch": {"input": read("t", T), "countExpr": count}}
    problems = sa.validate(Builder().plan(relation, *T).encode()).problems
    codes = {p.code for p in problems if p.level == "error"}
    assert codes <= {"SUBQUERY_NOT_SUPPORTED", "EXPRESSION_NOT_SUPPORTED"}
    assert len(codes) == 1


# --- the time ------------------------------------------------------------------------------------

DAYS, OTHERS = {"id": "i64", "day": "date"}, {"number": "i64", "until": "date"}


def past(b: Builder, ordinal: int = 1) -> Json:
    return b.call("lt:any_any", COMPARISON, column(ordinal), TODAY, output="bool")


def same(b: Builder) -> Json:
    return b.call("equal:any_any", COMPARISON, column(0), column(2), output="bool")


def on_day(b: Builder, kind: str, ordinal: int) -> Json:
    both = b.call("and:bool", "functions_boolean", same(b), past(b, ordinal), output="bool")
    return joined(kind, read("d", DAYS), read("o", OTHERS), both)


def days_of(kind: str, on: str) -> str:
    if kind == "left_anti":
        return f"FROM d WHERE NOT EXISTS (FROM o WHERE id = number AND {on})"
    return f"FROM d {'FULL' if kind == 'outer' else kind} JOIN o ON id = number AND {on}"


OF_TIME: dict[str, tuple[int, str, Callable[[Builder], Json]]] = {
    "aggregate": (
        3, "SELECT day < NOW, count(*) FILTER (day < NOW), max(NOW) FROM d GROUP BY ALL",
        lambda b: aggregate(read("d", DAYS), [past(b)], [
            b.measure("count", output="i64!", where=past(b)), b.measure("max", (TODAY, "date"), output="date")])),
    "sort": (
        2, "FROM d ORDER BY day < NOW DESC NULLS LAST, day, id LIMIT 3",
        lambda b: fetched(ordered(read("d", DAYS), (past(b), True), (column(1), False), (column(0), False)), 3)),
    "window": (
        2, "SELECT id, sum(id) OVER (PARTITION BY day < NOW) FROM d",
        lambda b: projected(read("d", DAYS), 2, column(0), windowed(b, "sum", [past(b)], [], column(0)))),
    **{f"{kind} join, {side}": (
        2 if kind == "left_anti" else 4, days_of(kind, f"{name} < NOW"),
        partial(on_day, kind=kind, ordinal=place))
       for kind in ("inner", "left", "outer", "left_anti")
       for side, place, name in (("left", 1, "day"), ("right", 3, "until"))},
}  # fmt: skip


def table(names: list[str], changes: list[tuple[tuple[Any, ...], int]]) -> pa.Table:
    cells = {
        name: pa.array([row[i] for row, _ in changes], pa.date32() if i else pa.int64())
        for i, name in enumerate(names)
    }
    return pa.table({**cells, WEIGHT: pa.array([weight for _, weight in changes], pa.int64())})


@pytest.mark.parametrize("name", OF_TIME)
def test_the_time_moves(tmp_path: Path, name: str) -> None:
    width, query, made = OF_TIME[name]
    b = Builder()
    plan = b.plan(made(b), *(f"c{i}" for i in range(width))).encode()
    tables = {"d": [*DAYS], "o": [*OTHERS]}
    sources = (("system", "clock"), ("d",), ("o",))
    lowered = lower(sa.load(plan).bind(), weights=dict.fromkeys(sources, "weighted"))
    flow = LocalFlow(lowered, tmp_path)
    rng, day = random.Random(5), None
    alive: dict[str, list[tuple[Any, ...]]] = {"d": [], "o": []}
    for next_day in (2, 2, 5, 4, 9):
        batch = {} if day == next_day else {"system.clock": ticks(day, next_day)}
        day = next_day
        for at, rows in alive.items():
            gone = [rows.pop(rng.randrange(len(rows))) for _ in range(len(rows) // 2)]
            made_now = [
                (rng.choice((1, 2, None)), rng.choice((*(START + dt.timedelta(n) for n in range(9)), None)))
                for _ in range(6)
            ]  # fmt: skip
            rows.extend(made_now)
            batch[at] = table(tables[at], [*((r, -1) for r in gone), *((r, 1) for r in made_now)])
        flow.batch(batch)
        with duckdb.connect() as database:
            for at, rows in alive.items():
                database.register(at, table(tables[at], [(r, 1) for r in rows]).drop([WEIGHT]))
            instant = f"DATE '{START + dt.timedelta(day)}'"
            shown = database.sql(query.replace("NOW", instant)).fetchall()
        assert flow.view == Counter(shown), day
