"""Plans over static tables: equal to nested loops at every version, without the rows of streams that nothing reads again."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from substrait_agg.bind.bound import BoundPlan, BoundRelation, BoundRows, JoinKind
from substrait_agg.bind.joins.normal_form import normal_form
from substrait_agg.bind.joins.single_rows import joins_without_key
from substrait_agg.bind.rewrite import table_reads
from substrait_agg.explanation.explain import explain_plan
from substrait_agg.explanation.mermaid import plan_mermaid
from substrait_agg.explanation.text import plan_text
from substrait_agg.flow.graph.join import Join
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.flow.passes.lower import lower
from substrait_agg.operator.common.names import arrangement_tree
from substrait_agg.plan.types import I64
from substrait_agg.report.html.explain import plan_html
from tests.bind.bound_relations import (
    WIDTHS,
    RandomRelations,
    call,
    col,
    count,
    join,
    key,
    lit,
    read,
    select,
)
from tests.bind.naive import Bag
from tests.joins.local_flow import LocalFlow
from tests.joins.test_random_plans import after_batch, delta
from tests.sampling import seeds

VERSIONS = 4
PLANS = 80
"""Plans of a block."""


def unstored(flow: Flow) -> list[tuple[int, int]]:
    """Return the sides of joins that are not stored, as (operator, side)."""
    return [
        (node.id, side)
        for node in flow.operators
        if isinstance(node, Join)
        for side, kept in enumerate(node.stored_ports)
        if not kept
    ]


def check_nothing_stored(run: LocalFlow) -> None:
    for operator, side in unstored(run.flow):
        assert arrangement_tree(side) not in run.states[operator].trees


class RandomJoins(RandomRelations):
    """Joins of random relations."""

    def root(self) -> BoundRelation:
        joined: BoundRelation = self._join(self.relation(2), self.relation(2))
        return joined if self.random.random() < 0.7 else count(joined)


@pytest.mark.parametrize("block", seeds(3, 200))
def test_random_plans_over_static_tables_equal_nested_loops(block: int) -> None:
    """Joins of all kinds and aggregates; some tables are read in the first version alone."""
    ran, streams_not_stored = 0, 0
    for seed in range(block * PLANS, (block + 1) * PLANS):
        chance = RandomJoins(seed, risky=False)
        root = chance.root()
        tables = sorted({r.table for r in table_reads(root)})
        if any(True for _ in joins_without_key(normal_form(root))) or len(tables) < 2:
            continue
        rng = random.Random(seed)
        static = set(rng.sample(tables, rng.randint(1, len(tables) - 1)))
        names = tuple(f"c{i}" for i in range(len(root.types)))
        plan = BoundPlan(root, names, (), "", f"{seed}")
        flow = lower(plan, weights={(name,): "weighted" for name in WIDTHS}, static=static)
        streams_not_stored += sum(
            not flow.operators[operator].static_ports[side] for operator, side in unstored(flow)
        )
        with TemporaryDirectory() as folder:
            run = LocalFlow(flow, Path(folder))
            before = {name: Bag() for name in WIDTHS}
            for version in range(VERSIONS):
                now = chance.tables()
                if version:
                    now |= {name: before[name] for (name,) in static}
                changes = {name: delta(before[name], now[name], name) for name in WIDTHS}
                before = now
                expected = after_batch(run, root, now, changes)
                if expected is None:
                    break
                ran += 1
                assert run.view == expected, f"seed {seed}, version {version}"
                check_nothing_stored(run)
    assert ran > PLANS / 2
    assert streams_not_stored > 5


STREAM, STATIC = (True, False), (False, True)
STORED: dict[tuple[JoinKind, tuple[bool, bool]], tuple[bool, bool]] = {
    ("inner", STREAM): (False, True),
    ("inner", STATIC): (True, False),
    **{(kind, STREAM): (False, True) for kind in ("left", "single", "semi", "anti", "mark")},
    **{(kind, STATIC): (True, True) for kind in ("left", "single", "semi", "anti", "mark")},
    ("full", STREAM): (True, True),
    ("full", STATIC): (True, True),
}
"""Kind of a join, and which sides stream -> which sides are stored."""


@pytest.mark.parametrize(("kind", "streams"), STORED)
def test_a_side_is_stored_only_if_rows_of_the_other_side_ask_for_it_later(
    kind: JoinKind, streams: tuple[bool, bool]
) -> None:
    static = {(name,) for name, stream in zip("ab", streams, strict=True) if not stream}
    residual = call("lt", col(1), col(3))
    for condition in (None, residual):
        root = join(kind, read("a"), read("b"), key(0, 0), residual=condition)
        plan = BoundPlan(root, tuple(f"c{i}" for i in range(len(root.types))), (), "", "plan")
        node = lower(plan, static=static).operators[0]
        assert isinstance(node, Join)
        assert node.stored_ports == STORED[kind, streams]
        both = lower(plan, static={("a",), ("b",)}).operators[0]
        assert both.stored_ports == (False, False)
        assert lower(plan).operators[0].stored_ports == (True, True)


def test_joins_and_aggregates_over_static_tables_are_static() -> None:
    dimension = join("left", count(read("b"), 0), read("c"), key(0, 0))
    root = join("inner", read("a"), dimension, key(0, 0))
    names = tuple(f"c{i}" for i in range(len(root.types)))
    plan = BoundPlan(root, names, (), "", "plan")
    flow = lower(plan, static={("b",), ("c",)})
    assert [node.static_ports for node in flow.operators] == [
        (True,), (True, True), (False, True), (False,),
    ]  # fmt: skip
    assert [node.stored_ports for node in flow.operators[1:3]] == [(False, False), (False, True)]
    expiring = lower(plan, static={("b",), ("c",)}, forget="retract")
    assert [node.static_ports for node in expiring.operators][:3] == [
        (True,), (False, True), (False, False),
    ]  # fmt: skip


def test_rows_written_in_the_plan_are_static() -> None:
    rows = BoundRows((I64, I64), ((lit(1), lit(2)), (lit(3), lit(4))), "rows")
    root = select(join("inner", read("a"), rows, key(0, 0)), col(1), col(3))
    plan = BoundPlan(root, ("x", "y"), (), "", "plan")
    flow = lower(plan, {("a",): "weighted"})
    assert flow.operators[0].stored_ports == (False, True)
    with TemporaryDirectory() as folder:
        run = LocalFlow(flow, Path(folder))
        run.batch({"a": delta(Bag(), Counter({(1, 7): 2, (2, 8): 1}), "a")})
        assert run.view == Counter({(7, 2): 2})
        run.batch({"a": delta(Counter({(1, 7): 2}), Counter({(1, 7): 1, (3, 9): 1}), "a")})
        assert run.view == Counter({(7, 2): 1, (9, 4): 1})
        check_nothing_stored(run)


def lookup_plan() -> BoundPlan:
    root = select(join("left", read("a"), read("b"), key(0, 0)), col(1), col(3))
    return BoundPlan(root, ("x", "y"), (), "", "plan")


def test_an_explanation_names_static_tables_and_the_side_that_is_not_stored() -> None:
    plan = explain_plan(lookup_plan(), static={("b",)})
    join_ = plan.operators[0]
    assert [branch.static for branch in join_.inputs] == [False, True]
    assert [tree.stored for tree in join_.state.trees] == [False, True]
    text = plan_text(plan)
    assert "input 1: rows of the static table b (" in text
    assert "not stored, because input 1 is static" in text
    page = plan_html(plan)
    assert "static table b" in page
    assert "not stored, because input 1 is static" in page
    assert "static table b" in plan_mermaid(plan)
    assert "static" not in plan_text(explain_plan(lookup_plan()))
