"""Joins by a range instead of a key: points within intervals, of all kinds of joins and types of ends."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

from substrait_agg.bind.bound import BoundPlan, BoundRelation, Call, Conversion, Expr, JoinKind
from substrait_agg.bind.joins.ranges import find_range, is_range
from substrait_agg.errors import RunFailed
from substrait_agg.evaluation.expressions import supports
from substrait_agg.flow.graph.join import Join
from substrait_agg.flow.passes.lower import lower
from substrait_agg.operator.join import lookup, step
from substrait_agg.operator.join.lookup import order_codes
from substrait_agg.operator.join.step import JoinOperator
from substrait_agg.plan.types import I64, Type
from substrait_agg.state.arrangement import Matches
from tests.bind import naive
from tests.bind.bound_relations import call, col, cross, join, lit, read, where
from tests.bind.naive import Bag
from tests.joins.local_flow import LocalFlow
from tests.joins.test_random_plans import delta

BETWEEN = call("and", call("gte", col(0), col(2)), call("lte", col(0), col(3)))
CONDITIONS: dict[str, Expr] = {
    "point within interval": BETWEEN,
    "between": call("between", col(0), col(2), col(3)),
    "interval around point": call("and", call("lt", col(0), col(2)), call("gt", col(1), col(2))),
    "least end": call("gt", col(0), col(2)),
    "greatest end": call("lt", col(0), col(2)),
    "band": call(
        "and",
        call("gte", col(0), call("subtract", col(2), lit(5), type_=I64)),
        call("lte", col(0), call("add", col(2), lit(5), type_=I64)),
    ),
    "range and more": call("and", BETWEEN, call("not_equal", col(1), col(3))),
}
KINDS: tuple[JoinKind, ...] = ("inner", "left", "full", "semi", "anti", "mark")


def bag(chance: random.Random, rows: int) -> Bag:
    cells = [None, *range(60)]
    made = [(chance.choice(cells), chance.choice(cells)) for _ in range(rows)]
    return Counter({row: chance.randint(1, 2) for row in made})


def some_changed(chance: random.Random, rows: Bag) -> Bag:
    """Most of the rows, and a few others."""
    kept = Counter({row: n for row, n in rows.items() if chance.random() > 0.2})
    return kept + bag(chance, 6)


def run_of(root: BoundRelation, folder: Path) -> LocalFlow:
    """A run whose runs have pages of a few rows."""
    names = tuple(f"c{i}" for i in range(len(root.types)))
    flow = lower(
        BoundPlan(root, names, (), "", "p"), weights={(n,): "weighted" for n in ("a", "b")}
    )
    run = LocalFlow(flow, folder)
    run.operators = [
        replace(o, spec=replace(o.spec, page_rows=16)) if isinstance(o, JoinOperator) else o
        for o in run.operators
    ]
    return run


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_range_join_equals_nested_loops_at_every_version(
    kind: JoinKind, condition: str, tmp_path: Path
) -> None:
    chance = random.Random(f"{kind} {condition}")
    root = join(kind, read("a"), read("b"), residual=CONDITIONS[condition])
    run = run_of(root, tmp_path)
    ranges = [node.range for node in run.flow.operators if isinstance(node, Join)]
    assert ranges[0] is not None
    before = {"a": Bag(), "b": Bag()}
    now = {"a": bag(chance, 40), "b": bag(chance, 30)}
    with patch.object(lookup, "BLOCK_ROWS", 4):
        for version in range(4):
            run.batch({name: delta(before[name], now[name], name) for name in now})
            assert run.view == +naive.rows(root, now), f"version {version}"
            before = now
            now = {name: some_changed(chance, rows) for name, rows in now.items()}


def test_a_range_in_a_filter_above_joins_its_inputs(tmp_path: Path) -> None:
    """The optimizer's form of a join on a range; the operator finds rows by it all the same."""
    run = run_of(where(cross(read("a"), read("b")), BETWEEN), tmp_path)
    (node,) = (node for node in run.flow.operators if isinstance(node, Join))
    assert node.range is not None
    assert node.range.is_closed
    run.batch(
        {
            "a": delta(Bag(), Counter({(5, 0): 1}), "a"),
            "b": delta(Bag(), Counter({(1, 9): 1, (6, 9): 1}), "b"),
        }
    )
    assert run.view == Counter({(5, 0, 1, 9): 1})


def test_blocks_of_intervals_that_ended_are_not_read(tmp_path: Path) -> None:
    run = run_of(join("inner", read("a"), read("b"), residual=BETWEEN), tmp_path)
    intervals = Counter({(n, n + 1): 1 for n in range(100)})
    with patch.object(lookup, "BLOCK_ROWS", 4):
        run.batch({"b": delta(Bag(), intervals, "b")})
        iter_changed = lookup.RangeLookup.iter_changed
        read_rows: list[int] = []

        def count_rows(
            self: lookup.RangeLookup, probes: lookup.ProbeSet, rows: pa.RecordBatch
        ) -> Iterator[Matches]:
            read_rows.append(rows.num_rows)
            return iter_changed(self, probes, rows)

        with patch.object(lookup.RangeLookup, "iter_changed", count_rows):
            run.batch({"a": delta(Bag(), Counter({(90, 0): 1}), "a")})
    assert sum(read_rows) <= 8
    assert run.view == Counter({(90, 0, 89, 90): 1, (90, 0, 90, 91): 1})


def test_a_cross_product_has_a_limit(tmp_path: Path) -> None:
    """The smaller side counts, with what is stored of it and without what cancels out."""
    root = cross(read("a"), read("b"))
    with patch.object(step, "NESTED_LOOP_ROWS", 3):
        run = run_of(root, tmp_path)
        many = Counter({(n, n): 1 for n in range(20)})
        few = Counter({(n, n): 1 for n in range(3)})
        other = Counter({(n + 1, n): 1 for n in range(3)})
        run.batch({"a": delta(Bag(), many, "a"), "b": delta(Bag(), few, "b")})
        assert sum(run.view.values()) == 60
        run.batch({"b": delta(few, other, "b")})
        assert run.view == +naive.rows(root, {"a": many, "b": other})
        with pytest.raises(RunFailed) as failed:
            run.batch({"b": delta(other, other + few, "b")})
    assert failed.value.code == "NESTED_LOOP_TOO_LARGE"
    assert "neither a key nor a range" in failed.value.message


def test_only_comparisons_of_both_sides_are_ranges() -> None:
    for condition in (
        call("gt", col(0), lit(3)),
        call("gt", col(0), call("add", col(1), col(2), type_=I64)),
        call("or", BETWEEN, call("gt", col(0), col(2))),
        call("not_equal", col(0), col(2)),
    ):
        assert find_range(condition, 2) is None
    silent = Call(I64, "add", (col(2), lit(1)), options=(("OVERFLOW", "SILENT"),))
    unsigned = Type("u32", True)
    for end in (silent, Conversion(unsigned, col(2), False)):
        point = col(0, unsigned) if isinstance(end, Conversion) else col(0)
        condition = call("gte", point, end)
        assert find_range(condition, 2) is not None
        assert not is_range(condition, 2), "an inner join tests it in a filter above"
        assert not supports(condition)
    closed = find_range(call("and", call("gt", col(0), col(2)), BETWEEN), 2)
    assert closed is not None
    assert closed.is_closed


chance = random.Random(3)
VALUES = {
    "i64": pa.array([chance.randint(-(2**63), 2**63 - 1) for _ in range(200)]),
    "i16": pa.array([chance.randint(-300, 300) for _ in range(200)], pa.int16()),
    "fp64": pa.array([-0.0, 0.0, 1.5, -1.5, float("inf"), float("-inf"), 1e-310, -1e-310]),
    "date": pa.array([dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date.max]),
    "timestamp": pa.array([0, -1, 1, 10**15, -(10**15)], pa.timestamp("us", "UTC")),
    "string": pa.array(["".join(chance.choices("a\0é€😀", k=n % 12)) for n in range(200)]),
    **{
        f"decimal({p}, {s})": pa.array(
            [
                Decimal((chance.choice((0, 1)), (chance.randint(0, 9),) * chance.randint(1, p), -s))
                for _ in range(200)
            ],
            pa.decimal128(p, s),
        )
        for p, s in ((10, 2), (18, 0), (19, 1), (20, 0), (38, 10))
    },
}


@pytest.mark.parametrize("name", VALUES)
def test_order_codes_follow_the_order_of_values(name: str) -> None:
    """Texts are ordered by their bytes. A slice and nulls do not disturb."""
    values = VALUES[name].slice(1)
    codes = order_codes(pa.concat_arrays([pa.nulls(1, values.type), values])).tolist()[1:]
    cells = [v.encode() if isinstance(v, str) else v for v in values.to_pylist()]
    ordered = [code for _, code in sorted(zip(cells, codes, strict=True))]
    assert ordered == sorted(ordered)
    assert len(set(ordered)) > len(set(cells)) // 2
