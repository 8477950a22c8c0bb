"""Grouping sets: schemas by the specification, and the layouts that real producers address."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
import substrait.dataframe as sub
from datafusion import SessionContext
from datafusion.substrait import Serde
from substrait.builders import type as types

from substrait_agg.bind import BoundPlan, bind
from substrait_agg.bind.aggregates.grouping_sets import grouping_ids
from substrait_agg.bind.bound import BoundAggregate, BoundProject, Column, Conditional, Constant
from substrait_agg.plan import decode
from substrait_agg.plan.types import I64
from substrait_agg.problem_kinds import Mode
from substrait_agg.problems import Problems
from tests.bind.build import ROOT, aggregate, bound, codes_of, col, errors_of, measure, read, sort

COUNT = measure("count", output=I64.as_nullable(False))
NAME, MUST = col("name"), col("must")


def shape(root: Any) -> tuple[list[str], Any]:
    """Column types of the aggregate at the root, and its sets."""
    assert isinstance(root, BoundAggregate)
    return [str(t) for t in root.types], root.sets


@pytest.mark.parametrize(
    ("keys", "sets", "columns", "kept"),
    [
        ((NAME, MUST), ((0, 1), (1,)), ["string?", "i64", "i64", "i32"], ((0, 1), (1,))),
        ((NAME, MUST), ((0, 1), (0,), ()), ["string?", "i64?", "i64", "i32"], ((0, 1), (0,), ())),
        ((MUST, MUST), ((0,), (1,)), ["i64?", "i64?", "i64", "i32"], ((0,), (1,))),
        ((MUST,), ((0,), (0,)), ["i64", "i64", "i32"], ((0,), (0,))),
        ((MUST,), ((0, 0), ()), ["i64?", "i64", "i32"], ((0,), ())),
        ((), ((), ()), ["i64", "i32"], ((), ())),
        ((NAME, MUST), ((1, 0),), ["string?", "i64", "i64"], ()),
        ((MUST,), ((0, 0),), ["i64", "i64"], ()),
        ((), (), ["i64"], ()),
    ],
    ids=[
        "key in all sets", "rollup", "equal expressions", "equal sets", "reference repeated",
        "empty sets", "one set in another order", "one set with a repetition", "global",
    ],
)  # fmt: skip
def test_columns_are_keys_measures_and_the_index_of_the_set(
    keys: Any, sets: Any, columns: list[str], kept: Any
) -> None:
    made = bound(aggregate(read(), keys, (COUNT,), sets), *"abcdefg"[: len(columns)])
    assert shape(made.root) == (columns, kept)


def test_sets_without_keys_and_measures_leave_the_index() -> None:
    assert shape(bound(aggregate(read(), (), (), ((), ())), "i").root) == (["i32"], ((), ()))


def test_every_set_is_checked() -> None:
    """A reference out of range is reported in every set. It may be meant for an unused expression,
    so a single unused expression is not reported, but two are.
    """
    place = f"{ROOT}.aggregate.groupings[1].expression_references[1]"
    outside = ("GROUPING_REFERENCE_OUT_OF_RANGE", place)
    given = aggregate(read(), (NAME, MUST), (COUNT,), ((0,), (0, 7), ()))
    assert errors_of(given, *"abcd") == [outside]
    given = aggregate(read(), (NAME, MUST, col("x")), (COUNT,), ((0,), (0, 7), ()))
    assert errors_of(given, *"abcde") == [
        outside,
        ("GROUPING_EXPRESSION_UNUSED", f"{ROOT}.aggregate.grouping_expressions[1]"),
        ("GROUPING_EXPRESSION_UNUSED", f"{ROOT}.aggregate.grouping_expressions[2]"),
    ]


def test_an_index_without_a_name_is_left_out() -> None:
    """Only where exactly one name is missing, and only the index can be the one without."""
    given = aggregate(read(), (NAME,), (COUNT,), ((0,), ()))
    made = bound(given, "k", "n")
    assert [str(t) for t in made.root.types] == ["string?", "i64"]
    assert codes_of(given, "k", "n")["GROUPING_INDEX_NOT_NAMED"] == "warning"
    assert codes_of(given, "k", "n", mode="strict")["GROUPING_INDEX_NOT_NAMED"] == "error"
    assert "GROUPING_INDEX_NOT_NAMED" not in codes_of(given, "k", "n", "i")
    assert [c for c, _ in errors_of(given, "k")] == ["NAMES_COUNT"]
    assert [c for c, _ in errors_of(aggregate(read(), (NAME,), (COUNT,)), "k")] == ["NAMES_COUNT"]


def test_an_order_by_an_index_that_is_left_out_is_kept_by_a_hidden_column() -> None:
    from tests.bind.build import at

    given = aggregate(read(), (NAME,), (COUNT,), ((0,), ()))
    by_count = sort(given, (at(1), "asc_nulls_last"))
    assert [s.ordinal for s in bound(by_count, "k", "n").sorts] == [1]
    by_index = sort(given, (at(2), "asc_nulls_last"))
    made = bound(by_index, "k", "n")
    assert ([s.ordinal for s in made.sorts], len(made.types)) == ([2], 2)


# --- DataFusion --------------------------------------------------------------------------------

ROWS = {"a": ["x", "y", None], "b": [1, 2, None], "c": [1, 2, 3]}
SCHEMA = pa.schema([("a", pa.string()), ("b", pa.int32()), ("c", pa.int64())])

QUERIES = [
    ("select a, b, sum(c) from t group by rollup(a, b)", ["string?", "i32?", "i64?"]),
    ("select a, b, sum(c) s from t group by cube(a, b)", ["string?", "i32?", "i64?"]),
    ("select b, count(*), a from t group by grouping sets ((b), (a, b), ())", ["i32?", "i64", "string?"]),
    ("select a, sum(c) from t group by grouping sets ((a), (b), (a))", ["string?", "i64?"]),
    ("select a, b+1, sum(c) from t group by a, rollup(b+1, c)", ["string?", "i64?", "i64?"]),
    ("select sum(c) from t group by grouping sets ((), ())", ["i64?"]),
    ("select a, b, sum(c) from t group by grouping sets ((a, b))", ["string?", "i32?", "i64?"]),
    ("select sum(c) from t group by grouping sets (())", ["i64?"]),
    ("select a, sum(c) from t group by grouping sets ((a)) having sum(c) > 1", ["string?", "i64?"]),
    ("select sum(s) from (select a, sum(c) s from t group by grouping sets ((a)))", ["i64?"]),
    ("select a, grouping(a), grouping(b), grouping(b, a), sum(c) from t group by rollup(a, b)",
     ["string?", "i32", "i32", "i32", "i64?"]),
    ("select a, grouping(a) from t group by a", ["string?", "i32"]),
]  # fmt: skip


@pytest.fixture(scope="module")
def session() -> SessionContext:
    made = SessionContext()
    made.register_record_batches("t", [pa.table(ROWS, SCHEMA).to_batches()])
    return made


def bound_sql(session: SessionContext, sql: str) -> BoundPlan:
    problems = Problems()
    made = bind(decode(Serde.serialize_bytes(sql, session), problems), problems)
    assert made is not None, problems.errors
    return made


@pytest.mark.parametrize(("sql", "columns"), QUERIES, ids=[sql for sql, _ in QUERIES])
def test_datafusion_addresses_keys_bitmask_and_measures(
    session: SessionContext, sql: str, columns: list[str]
) -> None:
    """Its plans repeat grouping expressions, and mean other columns than the specification gives them."""
    assert [str(t) for t in bound_sql(session, sql).root.types] == columns


def aggregate_of(root: Any) -> tuple[BoundProject, BoundAggregate]:
    """The projection to DataFusion's layout and the aggregate below it."""
    while not isinstance(root.input, BoundAggregate):
        root = root.input
    return root, root.input


@pytest.mark.parametrize(
    "sets", ["cube(a, b, c)", "rollup(b, a)", "grouping sets ((a), (b), (c), (a, c))"]
)
def test_the_bitmask_is_datafusions(session: SessionContext, sets: str) -> None:
    """What DataFusion answers when asked which keys are missing, per set."""
    names = ["a", "b", "c"] if "c" in sets.replace("cube", "") else ["b", "a"]
    plan = bound_sql(session, f"select {', '.join(names)}, count(*) from t group by {sets}")
    layout, below = aggregate_of(plan.root)
    order = [("a", "b", "c")[e.ordinal] for e in below.keys if isinstance(e, Column)]
    bits = f"grouping({', '.join(order)})"
    answer = session.sql(f"select {bits} g from t group by {sets}").to_pydict()
    assert set(answer["g"]) == set(grouping_ids(len(order), below.sets))
    mask = layout.expressions[len(order)]
    assert isinstance(mask, Conditional)
    values = [v for _, v in mask.clauses] + [mask.otherwise]
    assert tuple(v.value for v in values if isinstance(v, Constant)) == grouping_ids(
        len(order), below.sets
    )


def test_equal_sets_have_bitmasks_of_their_own() -> None:
    assert grouping_ids(2, ((0,), (1,), (0,), ())) == (0b01, 0b10, 0b101, 0b11)


# --- substrait-python --------------------------------------------------------------------------


@cache
def table() -> Any:
    """Build the table in tests only: its package reads the declarations of all functions."""
    struct = types.struct(
        [types.string(nullable=True), types.i32(nullable=False), types.i64(nullable=True)],
        nullable=False,
    )
    return sub.read_named_table("t", types.named_struct(names=["a", "b", "c"], struct=struct))


SUM = sub.f.sum(sub.col("c"), alias="s")
FRAMES: dict[str, tuple[Callable[[], Any], list[str], tuple[str, ...]]] = {
    "rollup": (
        lambda: table().rollup("a", "b").agg(SUM),
        ["string?", "i32?", "i64?"], ("a", "b", "s"),
    ),
    "cube": (
        lambda: table().cube("a", "b").agg(SUM),
        ["string?", "i32?", "i64?"], ("a", "b", "s"),
    ),
    "grouping_sets": (
        lambda: table().group_by("a", "b", grouping_sets=[["a", "b"], ["b"], ["b"]]).agg(SUM),
        ["string?", "i32", "i64?"], ("a", "b", "s"),
    ),
    "one set": (
        lambda: table().group_by("a", "b", grouping_sets=[["a", "b"]]).agg(SUM),
        ["string?", "i32", "i64?"], ("a", "b", "s"),
    ),
    "above": (
        lambda: (
            table().rollup("a").agg(SUM).filter(sub.col("s") > sub.lit(1)).with_columns(x=sub.col("s"))
        ),
        ["string?", "i64?", "i64?"], ("a", "s", "x"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FRAMES)
def test_substrait_python_names_no_index(name: str) -> None:
    frame, columns, names = FRAMES[name]
    problems = Problems()
    made = bind(decode(frame().to_plan().SerializeToString(), problems), problems)
    assert made is not None, problems.errors
    assert ([str(t) for t in made.root.types], made.names) == (columns, names)
    said = [p.code for p in problems.items if p.code == "GROUPING_INDEX_NOT_NAMED"]
    assert len(said) == (name != "one set")


@pytest.mark.parametrize("mode", ["lenient", "strict"])
def test_grouping_sets_are_no_deviation(mode: Mode) -> None:
    given = aggregate(read(), (NAME,), (COUNT,), ((0,), ()))
    assert not [c for c in codes_of(given, "k", "n", "i", mode=mode) if c.startswith("GROUPING")]
