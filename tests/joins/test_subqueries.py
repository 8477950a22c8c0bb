"""Subqueries as Isthmus writes them, on the local executor: equal to DuckDB at every version."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

import substrait_agg as sa
from substrait_agg.bind.bound import (
    BoundFilter,
    BoundJoin,
    BoundProject,
    BoundRead,
    BoundRelation,
    Call,
    Column,
    JoinKey,
    OuterColumn,
)
from substrait_agg.bind.subqueries.decorrelate import NotDecorrelatedError, decorrelate
from substrait_agg.errors import RunFailed
from substrait_agg.plan.types import BOOL, I64
from tests.e2e.feeds import Feed
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
    set_operation,
)
from tests.joins.test_special_cases import BOOLEAN, changing, compare, run

T = {"k": "i64", "x": "i64", "v": "i64"}
U = {"m": "i64", "y": "i64", "w": "i64"}
ROWS = list(product((1, 2, None), (1, 2, None), (1, 5)))


def outer(ordinal: int, steps_out: int = 1) -> Json:
    """A column of a query around the subquery."""
    segment = {"structField": {"field": ordinal}}
    return {"selection": {"directReference": segment, "outerReference": {"stepsOut": steps_out}}}


def anchored(relation: Json, anchor: int) -> Json:
    """A relation that outer references can name."""
    ((kind, body),) = relation.items()
    return {kind: {**body, "common": {**body.get("common", {}), "relAnchor": anchor}}}


def of_anchor(ordinal: int, anchor: int) -> Json:
    """A column of the rows that a relation around the subquery reads."""
    segment = {"structField": {"field": ordinal}}
    return {"selection": {"directReference": segment, "outerReference": {"relReference": anchor}}}


def scalar(relation: Json) -> Json:
    return {"subquery": {"scalar": {"input": relation}}}


def among(relation: Json, *values: Json) -> Json:
    return {"subquery": {"inPredicate": {"needles": list(values), "haystack": relation}}}


def exists(relation: Json) -> Json:
    predicate = {"predicateOp": "PREDICATE_OP_EXISTS", "tuples": relation}
    return {"subquery": {"setPredicate": predicate}}


class Queries:
    """Conditions over the table t, with subqueries over the table u.

    Args:
        builder: of the plan.
    """

    def __init__(self, builder: Builder) -> None:
        self.b = builder
        self.u = read("u", U)

    def compare(self, name: str, left: Json, right: Json) -> Json:
        return self.b.call(f"{name}:any_any", COMPARISON, left, right, output="bool")

    def both(self, *conditions: Json) -> Json:
        return self.b.call("and:bool", BOOLEAN, *conditions, output="bool")

    def either(self, *conditions: Json) -> Json:
        return self.b.call("or:bool", BOOLEAN, *conditions, output="bool")

    def no(self, condition: Json) -> Json:
        return self.b.call("not:bool", BOOLEAN, condition, output="bool")

    def of_key(self) -> Json:
        """The rows of u whose m is the outer k."""
        return filtered(self.u, self.compare("equal", column(0), outer(0)))

    def only(self, relation: Json, ordinal: int = 1) -> Json:
        return projected(relation, 3, column(ordinal))

    def total(self, relation: Json, *measures: str) -> Json:
        """An aggregate without grouping over w."""
        made = [
            self.b.measure("count", output="i64!")
            if name == "count"
            else self.b.measure(name, (column(2), "i64"), output="i64")
            for name in measures
        ]
        return aggregate(relation, [], made)


Condition = Callable[[Queries], Json]

CONDITIONS: dict[str, tuple[str, Condition]] = {
    "exists": ("EXISTS (FROM u WHERE m = k)", lambda q: exists(q.of_key())),
    "not exists": ("NOT EXISTS (FROM u WHERE m = k)", lambda q: q.no(exists(q.of_key()))),
    "exists with another comparison": (
        "EXISTS (FROM u WHERE m = k AND w > v AND y = 1)",
        lambda q: exists(filtered(filtered(q.of_key(), q.compare("gt", column(2), outer(2))),
                                  q.compare("equal", column(1), literal("i64", 1))))),
    "exists with a limit": (
        "EXISTS (FROM u WHERE m = k LIMIT 1)", lambda q: exists(fetched(ordered(q.of_key(), (column(0), False)), 1))),
    "exists without correlation": (
        "EXISTS (FROM u WHERE w > 3)",
        lambda q: exists(filtered(q.u, q.compare("gt", column(2), literal("i64", 3))))),
    "not exists without correlation": (
        "NOT EXISTS (FROM u WHERE w > 3)",
        lambda q: q.no(exists(filtered(q.u, q.compare("gt", column(2), literal("i64", 3)))))),
    "exists below or": ("EXISTS (FROM u WHERE m = k) OR v = 5",
                        lambda q: q.either(exists(q.of_key()), q.compare("equal", column(2), literal("i64", 5)))),
    "in": ("x IN (SELECT y FROM u)", lambda q: among(q.only(q.u), column(1))),
    "not in": ("x NOT IN (SELECT y FROM u)", lambda q: q.no(among(q.only(q.u), column(1)))),
    "in below or": ("x IN (SELECT y FROM u) OR v = 5",
                    lambda q: q.either(among(q.only(q.u), column(1)), q.compare("equal", column(2), literal("i64", 5)))),
    "correlated in": ("x IN (SELECT y FROM u WHERE m = k)", lambda q: among(q.only(q.of_key()), column(1))),
    "correlated not in": ("x NOT IN (SELECT y FROM u WHERE m = k)", lambda q: q.no(among(q.only(q.of_key()), column(1)))),
    "not in with another correlated comparison": (
        "x NOT IN (SELECT y FROM u WHERE w > v)",
        lambda q: q.no(among(q.only(filtered(q.u, q.compare("gt", column(2), outer(2)))), column(1)))),
    "in with two values": ("(k, x) IN (SELECT m, y FROM u)", lambda q: among(projected(q.u, 3, column(0), column(1)), column(0), column(1))),
    "in groups": (
        "x IN (SELECT y FROM u GROUP BY y HAVING count(*) > 1)",
        lambda q: among(projected(filtered(aggregate(q.u, [column(1)], [q.b.measure("count", output="i64!")]),
                                           q.compare("gt", column(1), literal("i64", 1))), 2, column(0)), column(1))),
    "a scalar": ("v > (SELECT min(w) FROM u)", lambda q: q.compare("gt", column(2), scalar(q.total(q.u, "min")))),
    "a correlated scalar": (
        "v > (SELECT min(w) FROM u WHERE m = k)", lambda q: q.compare("gt", column(2), scalar(q.total(q.of_key(), "min")))),
    "a correlated count": (
        "(SELECT count(*) FROM u WHERE m = k) < 2",
        lambda q: q.compare("lt", scalar(q.total(q.of_key(), "count")), literal("i64", 2))),
    "a computed correlated scalar": (
        "(SELECT count(*) + coalesce(sum(w), 3) FROM u WHERE m = k) < 9",
        lambda q: q.compare("lt", scalar(projected(
            q.total(q.of_key(), "count", "sum"), 2,
            q.b.call("add:i64_i64", "functions_arithmetic", column(0),
                     q.b.call("coalesce:any", COMPARISON, column(1), literal("i64", 3), output="i64"), output="i64"))),
            literal("i64", 9))),
    "two subqueries": (
        "x NOT IN (SELECT y FROM u) AND NOT EXISTS (FROM u WHERE m = k) OR v < (SELECT max(w) FROM u)",
        lambda q: q.either(q.both(q.no(among(q.only(q.u), column(1))), q.no(exists(q.of_key()))),
                           q.compare("lt", column(2), scalar(q.total(q.u, "max"))))),
    "a subquery in a subquery": (
        "x IN (SELECT y FROM u WHERE w >= (SELECT min(w) FROM u i WHERE i.m = u.m) AND u.m = t.k)",
        lambda q: among(q.only(filtered(q.of_key(), q.compare("gte", column(2), scalar(q.total(q.of_key(), "min"))))), column(1))),
    "a correlated condition below a join": (
        "EXISTS (SELECT 1 FROM u a JOIN u b ON a.y = b.y WHERE a.m = t.k AND b.w > t.v)",
        lambda q: exists(joined("inner", q.of_key(), filtered(q.u, q.compare("gt", column(2), outer(2))), compare(q.b, "equal", 1, 4)))),
    "in a correlated count": (
        "x IN (SELECT count(*) FROM u WHERE m = k)", lambda q: among(q.total(q.of_key(), "count"), column(1))),
    "not in a correlated aggregate": (
        "x NOT IN (SELECT min(w) FROM u WHERE m = k)", lambda q: q.no(among(q.total(q.of_key(), "min"), column(1)))),
    "in two correlated aggregates": (
        "x = (SELECT count(*) FROM u WHERE m = k) AND v = (SELECT min(w) FROM u WHERE m = k)",
        lambda q: among(q.total(q.of_key(), "count", "min"), column(1), column(2))),
    "not equal to all of a correlated aggregate": (
        "x <> ALL (SELECT count(*) FROM u WHERE m = k)",
        lambda q: {"subquery": {"setComparison": {"reductionOp": "REDUCTION_OP_ALL", "comparisonOp": "COMPARISON_OP_NE",
                                                  "left": column(1), "right": q.total(q.of_key(), "count")}}}),
    "equal to any": (
        "x = ANY (SELECT y FROM u)",
        lambda q: {"subquery": {"setComparison": {"reductionOp": "REDUCTION_OP_ANY", "comparisonOp": "COMPARISON_OP_EQ",
                                                  "left": column(1), "right": q.only(q.u)}}}),
    "not equal to all": (
        "x <> ALL (SELECT y FROM u)",
        lambda q: {"subquery": {"setComparison": {"reductionOp": "REDUCTION_OP_ALL", "comparisonOp": "COMPARISON_OP_NE",
                                                  "left": column(1), "right": q.only(q.u)}}}),
}  # fmt: skip
"""A condition in SQL, and as an expression."""


def feeds(seed: int) -> list[Feed]:
    """The tables; u has few rows, so that it is empty for some keys."""
    return [changing(seed, "t", T, ROWS, 5), changing(seed + 1, "u", U, ROWS[::3], 5)]


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_filter(tmp_path: Path, name: str) -> None:
    sql, made = CONDITIONS[name]
    b = Builder()
    relation = filtered(read("t", T), made(Queries(b)))
    run(tmp_path, b.plan(relation, *T), feeds(1), f"SELECT * FROM t WHERE {sql}")


@pytest.mark.parametrize(
    "name",
    [
        "exists",
        "correlated not in",
        "not in",
        "a correlated count",
        "two subqueries",
        "in a correlated count",
        "not in a correlated aggregate",
    ],
)
def test_a_projection(tmp_path: Path, name: str) -> None:
    """A condition in a projection is true, false or null."""
    sql, made = CONDITIONS[name]
    b = Builder()
    relation = projected(read("t", T), 3, column(0), column(1), column(2), made(Queries(b)))
    run(tmp_path, b.plan(relation, *T, "c"), feeds(7), f"SELECT *, {sql} FROM t")


def test_a_scalar_of_several_rows_fails_the_batch(tmp_path: Path) -> None:
    b = Builder()
    q = Queries(b)
    relation = filtered(read("t", T), q.compare("gt", column(2), scalar(q.only(q.u, 2))))
    one = Feed("u", U, "op", [[((1, 1, 1), 1)], [((1, 1, 1), -1), ((2, 2, 0), 1)]])
    two = Feed("u", U, "op", [[((1, 1, 1), 1)], [((2, 2, 0), 1)]])
    rows = Feed("t", T, "op", [[((1, 1, v), 1) for v in (1, 2)], []])
    plan = b.plan(relation, *T)
    query = "SELECT * FROM t WHERE v > (SELECT w FROM u)"
    run(tmp_path / "one", plan, [rows, one], query)
    with pytest.raises(RunFailed, match="at most one match"):
        run(tmp_path / "two", plan, [rows, two], query)


def test_a_correlated_scalar_without_an_aggregate(tmp_path: Path) -> None:
    b = Builder()
    q = Queries(b)
    relation = projected(read("t", T), 3, column(0), scalar(q.only(q.of_key(), 2)))
    unique = Feed("u", U, "op", [[((k, k, 10 * k), 1) for k in (1, 2)], [((1, 1, 10), -1)]])
    rows = Feed("t", T, "op", [[((k, 1, 1), 1) for k in (1, 2, 3, None)], []])
    query = "SELECT k, (SELECT w FROM u WHERE m = k) FROM t"
    run(tmp_path, b.plan(relation, "k", "w"), [rows, unique], query)


REFUSED: dict[str, tuple[str, Condition]] = {
    "two levels": (
        "SUBQUERY_NOT_SUPPORTED",
        lambda q: exists(filtered(q.u, exists(filtered(q.u, q.compare("equal", column(0), outer(0, 2))))))),
    "beyond the outermost query": (
        "SUBQUERY_REFERENCE_INVALID", lambda q: exists(filtered(q.u, q.compare("equal", column(0), outer(0, 2))))),
    "no such outer column": (
        "FIELD_OUT_OF_RANGE", lambda q: exists(filtered(q.u, q.compare("equal", column(0), outer(3))))),
    "below a fetch": ("SUBQUERY_NOT_SUPPORTED", lambda q: among(q.only(fetched(ordered(q.of_key(), (column(0), False)), 1)), column(1))),
    "below a set operation": (
        "SUBQUERY_NOT_SUPPORTED", lambda q: exists(set_operation("union_distinct", q.of_key(), q.u))),
    "an aggregate compared with less than": (
        "SUBQUERY_NOT_SUPPORTED",
        lambda q: q.compare("gt", column(2), scalar(q.total(filtered(q.u, q.compare("lt", column(0), outer(0))), "min")))),
    "an aggregate of outer columns": (
        "SUBQUERY_NOT_SUPPORTED",
        lambda q: q.compare("gt", column(2), scalar(aggregate(
            projected(q.of_key(), 3, outer(2)), [], [q.b.measure("min", (column(0), "i64"), output="i64")])))),
    "exists of an aggregate": ("SUBQUERY_NOT_SUPPORTED", lambda q: exists(q.total(q.of_key(), "count"))),
    "a filter of an aggregate": (
        "SUBQUERY_NOT_SUPPORTED",
        lambda q: q.compare("gt", column(2), scalar(filtered(
            q.total(q.of_key(), "min"), q.compare("gt", column(0), literal("i64", 1)))))),
    "an outer column in the padded side": (
        "SUBQUERY_NOT_SUPPORTED",
        lambda q: exists(joined("left", q.u, q.of_key(), compare(q.b, "equal", 1, 4)))),
    "two columns": ("SUBQUERY_COLUMNS", lambda q: among(q.u, column(1))),
    "values without a common type": ("JOIN_KEY_TYPES", lambda q: among(q.only(q.u), literal("string", "a"))),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_join_computes_is_refused(name: str) -> None:
    code, made = REFUSED[name]
    b = Builder()
    plan = b.plan(filtered(read("t", T), made(Queries(b))), *T)
    errors = [p for p in sa.validate(plan.encode()).problems if p.level == "error"]
    assert [p.code for p in errors] == [code]
    assert errors[0].path.startswith("relations[0].root.input.filter")


def test_a_fetch_by_a_key_of_the_outer_query(tmp_path: Path) -> None:
    """The order goes through the joins of a projection, as long as its key is a column."""
    b = Builder()
    q = Queries(b)
    by_v = ordered(read("t", T), (column(2), False))
    marked = projected(by_v, 3, column(2), exists(q.of_key()))
    plan = b.plan(fetched(marked, 3), "v", "e")
    query = "SELECT v, EXISTS (FROM u WHERE m = k) e FROM t ORDER BY v, e LIMIT 3"
    run(tmp_path, plan, feeds(30), query)


def test_a_fetch_by_a_key_that_is_lost_below_a_subquery_is_refused() -> None:
    b = Builder()
    q = Queries(b)
    keys = projected(ordered(read("t", T), (column(2), False)), 3, column(0))
    totals = projected(keys, 1, column(0), scalar(q.total(q.of_key(), "min")))
    plan = b.plan(fetched(totals, 3), "k", "w")
    errors = [p for p in sa.validate(plan.encode()).problems if p.level == "error"]
    assert [p.code for p in errors] == ["SORT_KEY_NOT_IN_OUTPUT"]


def test_conditions_that_double_with_each_join_are_refused() -> None:
    """A relation that is joined with itself twenty times is small as a plan, and has a million conditions."""
    column_of_u = Column(I64, 0)
    read_u = BoundRead(("u",), ("m",), (I64,), "")
    same = Call(BOOL, "equal", (column_of_u, OuterColumn(I64, 0)))
    relation: BoundRelation = BoundFilter(read_u, same, (I64,), "")
    for _ in range(20):
        pairs = BoundJoin(
            relation,
            relation,
            "inner",
            (JoinKey(column_of_u, column_of_u, null_safe=False),),
            None,
            (I64, I64),
            "",
        )
        relation = BoundProject(pairs, (column_of_u,), (I64,), "")
    with pytest.raises(NotDecorrelatedError, match="more than 1000 conditions"):
        decorrelate(relation)


# --- outer references by anchor ------------------------------------------------------------------


@pytest.mark.parametrize("of_input", [False, True])
def test_an_anchor_names_the_relation_around_the_subquery_or_its_input(
    tmp_path: Path, of_input: bool
) -> None:
    b = Builder()
    q = Queries(b)
    t = anchored(read("t", T), 7)
    found = exists(filtered(q.u, q.compare("equal", column(0), of_anchor(0, 7 if of_input else 9))))
    plan = b.plan(anchored(filtered(t, found), 9), *T)
    query = "SELECT * FROM t WHERE EXISTS (FROM u WHERE m = k)"
    run(tmp_path, plan, feeds(31), query)


def test_an_anchor_of_a_projection_names_the_rows_that_it_reads(tmp_path: Path) -> None:
    b = Builder()
    q = Queries(b)
    of_key = filtered(q.u, q.compare("equal", column(0), of_anchor(0, 3)))
    relation = anchored(projected(read("t", T), 3, column(2), scalar(q.total(of_key, "min"))), 3)
    query = "SELECT v, (SELECT min(w) FROM u WHERE m = k) FROM t"
    run(tmp_path, b.plan(relation, "v", "w"), feeds(32), query)


@pytest.mark.parametrize(
    ("anchor", "code"),
    [
        (5, "SUBQUERY_REFERENCE_INVALID"),
        (8, "SUBQUERY_REFERENCE_INVALID"),
        (2, "SUBQUERY_NOT_SUPPORTED"),
    ],
)
def test_other_anchors_are_refused(anchor: int, code: str) -> None:
    """None of the plan, one beside the subquery, and one two subqueries further out."""
    b = Builder()
    q = Queries(b)
    inner = filtered(q.u, q.compare("equal", column(0), of_anchor(0, anchor)))
    middle = filtered(anchored(read("t", T), 4), exists(inner))
    relation = anchored(filtered(read("t", T), exists(middle)), 2)
    plan = b.plan(anchored(projected(relation, 3, *map(column, range(3))), 8), *T)
    errors = [p for p in sa.validate(plan.encode()).problems if p.level == "error"]
    assert [p.code for p in errors] == [code]
