"""The normal form of joins: the same rows, keys for every join, conditions as deep as they may be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from datafusion import SessionContext
from datafusion.substrait import Producer

from substrait_agg.bind.bound import (
    BoundAggregate,
    BoundFilter,
    BoundJoin,
    BoundProject,
    BoundRelation,
    BoundRows,
    BoundUnion,
    Call,
    Column,
    Constant,
    Conversion,
    JoinKey,
    JoinKind,
)
from substrait_agg.bind.deep_stack import deep_call
from substrait_agg.bind.joins.conjunctions import conjuncts, disjuncts, factor_out
from substrait_agg.bind.joins.failing import can_fail
from substrait_agg.bind.joins.normal_form import normal_form
from substrait_agg.bind.joins.single_rows import has_one_row, joins_without_key
from substrait_agg.bind.rewrite import inputs_of, table_reads
from substrait_agg.plan.types import DATE, FP64, I32, I64, STRING, decimal
from tests.bind.bound_relations import (
    RISKY,
    RandomRelations,
    below,
    call,
    col,
    count,
    cross,
    eq,
    fetch,
    is_,
    join,
    joins_in,
    key,
    lit,
    quotient,
    read,
    select,
    where,
)
from tests.bind.joined import bound, bound_with
from tests.bind.naive import RunFailed, rows
from tests.sampling import seeds

BLOCK = 1_000
"""Random relations of a block."""

TPCH = Path(__file__).parents[1] / "data" / "tpch"
PLANS = sorted((TPCH / "plans").rglob("*.bin"))

A, B, C, D = (read(name) for name in "abcd")

# --- keys --------------------------------------------------------------------------------------


def test_a_chain_of_crosses_below_a_filter_becomes_keyed_joins() -> None:
    """As Isthmus writes every query: the order follows the equalities, not the chain."""
    chain = cross(cross(cross(A, B), C), D)
    root = normal_form(where(chain, eq(6, 0), eq(7, 2), eq(5, 3), is_(4, 7)))
    assert isinstance(root, BoundProject)
    made = list(joins_in(root))
    assert [len(j.keys) for j in made] == [1, 1, 1]
    assert all(j.residual is None for j in made)
    assert [r.table[0] for r in table_reads(root)] == ["a", "d", "b", "c"]
    assert below(root, "c") == BoundFilter(C, is_(0, 7), C.types, "c")


def test_common_parts_of_an_or_are_keys() -> None:
    """TPC-H query 19 is a cross product otherwise."""
    branches = [call("and", eq(0, 2), is_(1, n), is_(3, n + 1)) for n in range(3)]
    root = normal_form(where(cross(A, B), call("or", *branches)))
    assert isinstance(root, BoundFilter)
    (made,) = joins_in(root)
    assert made.keys == (key(0, 0),)
    assert [len(conjuncts(b)) for b in root.condition.arguments] == [2, 2, 2]  # type: ignore[union-attr]


def test_a_comparison_that_treats_nulls_as_equal_is_a_null_safe_key() -> None:
    nulls = call("and", call("is_null", col(0)), call("is_null", col(2)))
    root = normal_form(where(cross(A, B), call("or", eq(0, 2), nulls)))
    (made,) = joins_in(root)
    assert (made.keys, root) == ((key(0, 0, null_safe=True),), made)


def test_factoring_keeps_what_alternatives_do_not_share() -> None:
    a, b, c = is_(0, 1), is_(1, 2), is_(2, 3)
    assert factor_out(call("or", call("and", a, b), call("and", c, a))) == (a, call("or", b, c))
    assert factor_out(call("or", a, call("and", a, b))) == (a,)
    assert factor_out(call("or", a, b)) == (call("or", a, b),)
    assert factor_out(call("and", a, call("and", b, a))) == (a, b)
    assert factor_out(None) == ()


def test_an_or_over_several_inputs_filters_each_of_them() -> None:
    """TPC-H query 7 keeps two nations, in either direction."""
    one, other = call("and", is_(1, 5), is_(3, 6)), call("and", is_(1, 6), is_(3, 5))
    root = normal_form(where(join("inner", A, B, key(0, 0)), call("or", one, other)))
    assert isinstance(root, BoundFilter)
    assert root.condition == call("or", one, other)
    (made,) = joins_in(root)
    for side, source in ((made.left, A), (made.right, B)):
        assert isinstance(side, BoundFilter)
        assert side.input == source
        assert set(disjuncts(side.condition)) == {is_(1, 5), is_(1, 6)}
    again = normal_form(BoundFilter(root.input, root.condition, root.types, "again"))
    assert again == replace(root, path="again")
    half = normal_form(where(join("inner", A, B, key(0, 0)), call("or", one, is_(3, 5))))
    (made,) = joins_in(half)
    assert made.left == A
    assert isinstance(made.right, BoundFilter)


def test_keys_are_found_through_projections() -> None:
    moved = select(cross(A, B), col(3), call("coalesce", col(0), lit(0), type_=I64))
    root = normal_form(where(moved, call("equal", col(0), col(1))))
    (made,) = joins_in(root)
    assert made.keys == (JoinKey(call("coalesce", col(0), lit(0), type_=I64), col(1), False),)
    assert root.types == moved.types


def test_a_repeated_equality_is_one_key() -> None:
    root = normal_form(where(join("inner", A, B, key(0, 0)), eq(0, 2), eq(0, 2)))
    assert [j.keys for j in joins_in(root)] == [(key(0, 0),)]


def test_an_equality_of_several_inputs_is_a_key_where_nothing_else_connects_them() -> None:
    total = call("coalesce", col(1), col(2), type_=I64)
    parts = eq(0, 2), call("equal", total, col(4))
    root = normal_form(where(cross(cross(A, B), C), *parts))
    assert sorted(len(j.keys) for j in joins_in(root)) == [1, 1]
    connected = normal_form(where(cross(cross(A, B), C), *parts, eq(1, 5)))
    assert isinstance(connected, BoundFilter)
    assert sorted(len(j.keys) for j in joins_in(connected)) == [1, 1]


def test_a_join_without_key_is_found_at_its_place() -> None:
    chain = cross(join("inner", A, B, key(0, 0)), C)
    assert [j.path for j in joins_without_key(normal_form(chain))] == [chain.path]
    assert [*joins_without_key(normal_form(where(chain, eq(1, 4))))] == []
    inner = cross(cross(A, B), C)
    alone = normal_form(where(inner, eq(1, 4)))
    assert [j.path for j in joins_without_key(alone)] == [inner.left.path]


ONE_ROW = (
    count(A),
    where(count(A), is_(0, 1)),
    select(count(A), lit(1)),
    fetch(A, 3, 1),
    BoundRows((I64,), ((lit(1),),), "rows"),
    cross(count(A), count(B)),
    join("semi", count(A), B, key(0, 0)),
    join("single", count(A), B, key(0, 0)),
)
MANY = (
    A,
    count(A, 0),
    replace(count(A), sets=((), ())),
    fetch(A, 0, 2),
    fetch(A, 1, None),
    BoundRows((I64,), ((lit(1),), (lit(2),)), "rows"),
    join("left", count(A), B),
    join("full", count(A), count(B)),
    BoundUnion((count(A), count(B)), (I64,), "union"),
)


@pytest.mark.parametrize("relation", ONE_ROW, ids=range(len(ONE_ROW)))
def test_a_relation_of_one_row_needs_no_key(relation: BoundRelation) -> None:
    assert has_one_row(relation)
    for made in (cross(relation, D), cross(D, relation), join("left", D, relation)):
        assert [*joins_without_key(normal_form(made))] == []


@pytest.mark.parametrize("relation", MANY, ids=range(len(MANY)))
def test_other_relations_do(relation: BoundRelation) -> None:
    assert not has_one_row(relation)
    found = [j.path for j in joins_without_key(cross(relation, D))]
    # The rows of a plan are few and never change.
    assert found[:1] == ([] if isinstance(relation, BoundRows) else [cross(relation, D).path])


# --- conditions --------------------------------------------------------------------------------

OF_LEFT, OF_RIGHT = is_(1, 5), is_(3, 6)
PUSHED: dict[JoinKind, str] = {
    "inner": "left right", "semi": "left right", "left": "right", "single": "right", "anti": "right",
    "mark": "right", "full": "",
}  # fmt: skip


@pytest.mark.parametrize("kind", PUSHED)
def test_parts_of_a_join_condition_filter_an_input_where_that_means_the_same(
    kind: JoinKind,
) -> None:
    made = join(kind, A, B, key(0, 0), residual=call("and", OF_LEFT, OF_RIGHT))
    root = normal_form(made)
    (result,) = joins_in(root)
    filtered = [isinstance(side, BoundFilter) for side in (result.left, result.right)]
    assert filtered == [word in PUSHED[kind] for word in ("left", "right")]
    left_over = [p for p, done in zip((OF_LEFT, OF_RIGHT), filtered, strict=True) if not done]
    assert list(conjuncts(result.residual)) == left_over


@pytest.mark.parametrize("kind", [k for k in PUSHED if k != "full"])
def test_filters_above_go_to_the_left_input(kind: JoinKind) -> None:
    result = normal_form(where(join(kind, A, B, key(0, 0)), OF_LEFT))
    assert isinstance(result, BoundJoin)
    assert (result.left, result.right) == (BoundFilter(A, OF_LEFT, A.types, "a"), B)


@pytest.mark.parametrize("kind", ["left", "single"])
def test_filters_on_padded_columns_stay_above(kind: JoinKind) -> None:
    result = normal_form(where(join(kind, A, B, key(0, 0)), OF_RIGHT))
    assert isinstance(result, BoundFilter)
    assert result.condition == OF_RIGHT
    full = normal_form(where(join("full", A, B, key(0, 0)), OF_LEFT))
    assert isinstance(full, BoundFilter)


def test_conditions_that_can_fail_stay_above_the_others() -> None:
    """They would otherwise fail for rows that another condition removes."""
    source = where(where(join("inner", A, B, key(0, 0)), RISKY), is_(3, 1))
    root = normal_form(source)
    assert isinstance(root, BoundFilter)
    assert root.condition == RISKY
    assert isinstance(root.input, BoundJoin)
    assert isinstance(root.input.right, BoundFilter)
    both = normal_form(
        where(where(cross(A, B), RISKY, eq(0, 2)), call("gt", quotient(2, 3), lit(1)))
    )
    assert isinstance(both, BoundFilter)
    assert isinstance(both.input, BoundFilter)
    assert both.input.condition == RISKY


def test_a_key_that_can_fail_is_computed_for_the_rows_of_the_plan() -> None:
    """The join below removes rows, so it is not taken apart."""
    inner = join("inner", A, B, key(0, 0))
    outer = join("inner", inner, C, JoinKey(quotient(1, 3), col(0), False))
    root = normal_form(outer)
    assert isinstance(root, BoundJoin)
    assert root.left == inner
    assert [len(j.keys) for j in joins_in(root)] == [1, 1]


def test_expressions_that_can_fail_move_up_through_joins() -> None:
    computed = select(join("inner", A, B, key(0, 0)), col(0), quotient(1, 3))
    root = normal_form(join("inner", computed, C, key(0, 0)))
    assert isinstance(root, BoundProject)
    assert quotient(1, 3) in root.expressions
    assert isinstance(root.input, BoundJoin)
    assert [len(j.keys) for j in joins_in(root)] == [1, 1]


NUMBERS = (Column(decimal(10, 2), 0), Column(decimal(12, 4), 1))
SAFE = (
    call("gt", col(0), lit(1)),
    call("like", Column(STRING, 0), Constant(STRING, "a%")),
    call("like", Column(STRING, 0), Constant(STRING, r"a\%"), Constant(STRING, "\\")),
    call("add", *NUMBERS, type_=decimal(13, 4)),
    call("multiply", *NUMBERS, type_=decimal(22, 6)),
    call("multiply", Column(FP64, 0), Column(FP64, 1), type_=FP64),
    Conversion(I64, Column(I32, 0)),
    Conversion(decimal(12, 2), Column(I32, 0)),
    Conversion(decimal(14, 4), NUMBERS[0]),
    Conversion(STRING, Column(DATE, 0)),
    Conversion(I32, Column(STRING, 0), null_on_failure=True),
)
UNSAFE = (
    call("divide", col(0), col(1), type_=I64),
    call("add", col(0), col(1), type_=I64),
    call("add", *NUMBERS, type_=decimal(12, 4)),
    call("multiply", *NUMBERS, type_=decimal(22, 5)),
    call("like", Column(STRING, 0), Constant(STRING, "a\\"), Constant(STRING, "\\")),
    call("like", Column(STRING, 0), Column(STRING, 1)),
    Conversion(I32, col(0)),
    Conversion(I32, Column(STRING, 0)),
    Conversion(decimal(10, 4), NUMBERS[0]),
    Conversion(decimal(12, 3), NUMBERS[1]),
    call("gt", call("divide", col(0), col(1), type_=I64), lit(1)),
    Call(STRING, "substring", (Column(STRING, 0), lit(1)), options=(("NEGATIVE_START", "ERROR"),)),
)


def test_what_can_fail() -> None:
    assert [e for e in SAFE if can_fail(e)] == []
    assert [e for e in UNSAFE if not can_fail(e)] == []


# --- around ------------------------------------------------------------------------------------


def test_relations_without_joins_are_returned_as_they_are() -> None:
    source = where(select(where(A, is_(0, 1)), col(1), col(0)), is_(1, 2))
    for relation in (source, count(source, 0), fetch(count(A, 1), 0, 3)):
        assert normal_form(relation) is relation


def test_a_shared_relation_stays_one() -> None:
    """It is maintained once, also where two joins read it."""
    shared = count(join("inner", A, B, key(0, 0)), 1)
    root = normal_form(join("inner", select(shared, col(1), col(0)), shared, key(1, 0)))
    found = set()

    def aggregates(relation: BoundRelation) -> None:
        if isinstance(relation, BoundAggregate):
            found.add(id(relation))
        for source in inputs_of(relation):
            aggregates(source)

    aggregates(root)
    assert len(found) == 1


def test_nested_fetches_in_one_order_are_one() -> None:
    assert normal_form(fetch(fetch(A, 5, 20, 0), 3, 10, 0)) == fetch(A, 8, 10, 0)
    assert normal_form(fetch(fetch(A, 5, 20, 0), 15, 10, 0)) == fetch(A, 20, 5, 0)
    assert normal_form(fetch(fetch(A, 5, 20, 0), 25, None, 0)) == fetch(A, 30, 0, 0)
    assert normal_form(fetch(fetch(A, 5, None, 0), 1, None, 0)) == fetch(A, 6, None, 0)
    other = fetch(fetch(A, 5, 20, 0), 3, 10, 1)
    assert normal_form(other) is other


def test_large_plans_take_little_time() -> None:
    """Projections that double their input, shared joins of joins, and a long chain of joins."""
    doubled: BoundRelation = cross(A, B)
    for _ in range(60):
        total = call("coalesce", col(0), col(0), type_=I64)
        doubled = select(doubled, total, col(1))
    shared: BoundRelation = join("inner", A, B, key(0, 0))
    for _ in range(12):
        shared = select(join("inner", shared, shared, key(0, 0)), col(0), col(1))
    chain: BoundRelation = A
    for _ in range(300):
        chain = join("inner", chain, B, key(0, 0))
    for source in (doubled, shared, chain):
        made: BoundRelation = deep_call(normal_form, where(source, is_(0, 1)))
        assert made.types == source.types


# --- the same rows -----------------------------------------------------------------------------


@pytest.mark.parametrize("risky", [False, True])
@pytest.mark.parametrize("block", seeds(2, 10))
def test_the_normal_form_has_the_same_rows(block: int, risky: bool) -> None:
    """The normal form gives the same rows and fails for no further rows."""
    tried = 0
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        chance = RandomRelations(seed, risky=risky)
        relation, tables = chance.relation(3), chance.tables()
        try:
            expected = rows(relation, tables)
        except RunFailed:
            continue
        tried += bool(expected)
        made = normal_form(relation)
        assert made.types == relation.types, seed
        assert +rows(made, tables) == +expected, seed
    assert tried > BLOCK // 4


# --- plans of producers ------------------------------------------------------------------------

SCALARS = {"q11", "q22"}
"""Queries that compare with the single row of a subquery without an equality."""


@pytest.mark.parametrize("path", PLANS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_every_join_of_tpch_has_keys(path: Path) -> None:
    """All plans of all releases are bound without an error, and only single rows are joined without keys."""
    plan, problems = bound_with(path.read_bytes())
    assert plan is not None, [p for p in problems if p.level == "error"]
    root = normal_form(plan.root)
    assert root.types == plan.root.types
    without = [made for made in joins_in(root) if not made.keys]
    assert len(without) == (path.stem in SCALARS)
    assert all(has_one_row(made.left) or has_one_row(made.right) for made in without)
    assert [*joins_without_key(root)] == []


def schema_types() -> dict[str, pa.Schema]:
    """The tables of TPC-H as Arrow schemas."""
    kinds = {"BIGINT": pa.int64(), "INT": pa.int32(), "VARCHAR": pa.string(), "DATE": pa.date32(),
             "DECIMAL(15,2)": pa.decimal128(15, 2)}  # fmt: skip
    tables = {}
    for statement in (TPCH / "schema.sql").read_text().split(";"):
        head, _, body = statement.strip().partition(" (")
        if not body:
            continue
        fields = [part.split() for part in body.rstrip(")").replace(", ", "|").split("|")]
        tables[head.split()[-1]] = pa.schema(
            [pa.field(name, kinds[kind], not rest) for name, kind, *rest in fields]
        )
    return tables


@pytest.fixture(scope="module")
def session() -> SessionContext:
    made = SessionContext()
    for name, schema in schema_types().items():
        made.register_record_batches(name, [[pa.RecordBatch.from_pylist([], schema=schema)]])
    return made


@pytest.mark.parametrize("query", ["q03", "q05", "q07", "q08", "q09", "q10", "q12", "q14", "q19"])
def test_plans_that_nobody_optimised_have_keys_too(query: str, session: SessionContext) -> None:
    """Crosses of several tables below one filter, as in unoptimised plans, become joins with keys."""
    sql = (TPCH / "queries" / f"{query}.sql").read_text()
    written = Producer.to_substrait_plan(session.sql(sql).logical_plan(), session)
    plan = bound(bytes(written.encode()))
    assert [j for j in joins_in(plan.root) if not j.keys]
    root = normal_form(plan.root)
    assert [j for j in joins_in(root) if not j.keys] == []
