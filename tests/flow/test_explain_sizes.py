"""The sizes that explain names are those of the rows that operators really write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from substrait_agg.bind import bind
from substrait_agg.explanation import explain_flow
from substrait_agg.flow.graph.join import Join
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.flow.passes.lower import lower
from substrait_agg.operator.join.spec import join_spec
from substrait_agg.plan import decode
from substrait_agg.plan.model import MeasureCall, SortField
from substrait_agg.plan.types import BOOL, DATE, FP32, I8, I64, STRING, Type, decimal
from substrait_agg.problems import Problems
from tests.bind.build import aggregate, at, bound, col, measure, read
from tests.operator.specs import operator_spec

PLANS = Path(__file__).parents[2] / "plans"
SHAPES: dict[str, Type] = {
    "i8": I8,
    "bool": BOOL,
    "fp32": FP32,
    "date": DATE,
    "decimal": decimal(20, 3),
    "u16": Type("u16"),
    "u64": Type("u64"),
    "time": Type("precision_time", params=(6,)),
    "stamp": Type("precision_timestamp", params=(6,)),
    "days": Type("interval_day", params=(6,)),
    "months": Type("interval_year"),
    "string": STRING,
    "list": Type("list", children=(I64,)),
    "map": Type("map", children=(STRING.as_nullable(False), I64)),
    "pair": Type("struct", children=(I8, BOOL, STRING)),
    "fixed pair": Type("struct", children=(I64, I8.as_nullable(False))),
}


def bits(type_: pa.DataType) -> int:
    """Of a value, or of the offset that finds it."""
    if pa.types.is_struct(type_):
        return sum(bits(field.type) for field in type_)
    return 32 if _varies(type_) else int(type_.bit_width)


def _varies(type_: pa.DataType) -> bool:
    if pa.types.is_struct(type_):
        return any(_varies(field.type) for field in type_)
    return any(
        test(type_)
        for test in (pa.types.is_string, pa.types.is_binary, pa.types.is_list, pa.types.is_map)
    ) and not pa.types.is_fixed_size_binary(type_)


def wide(schema: pa.Schema) -> tuple[int, int]:
    """Bytes of a row, and how many of its columns vary."""
    size = sum(
        field.type.bit_width if _fixed_binary(field) else bits(field.type) for field in schema
    )
    return -(-size // 8), sum(not _fixed_binary(f) and _varies(f.type) for f in schema)


def _fixed_binary(field: pa.Field) -> bool:
    return bool(pa.types.is_fixed_size_binary(field.type))


def check(flow: Flow) -> int:
    """Compare every operator; how many trees were compared."""
    trees = 0
    for node, told in zip(flow.operators, explain_flow(flow).operators, strict=True):
        if isinstance(node, Join):
            for side, said in zip(join_spec(node).sides, told.state.trees, strict=True):
                trees += 1
                assert said.entry_bytes == wide(side.layout.schema)[0]
            continue
        spec = operator_spec(node)
        size, varying = wide(spec.layout.schema)
        assert told.state.group_bytes == size
        assert bool(told.state.varies) == bool(varying)
        for tree, said in zip(spec.trees, told.state.trees, strict=True):
            trees += 1
            assert said.ends_alone == tree.extremes_only
            size = 0 if tree.extremes_only else wide(tree.layout.schema)[0]
            assert said.entry_bytes == size
            assert bool(said.varies) == (tree.layout.form.rest and not tree.extremes_only)
    return trees


def plans() -> Iterator[Path]:
    yield from sorted(PLANS.glob("tpch/**/*.bin"))
    yield from sorted(PLANS.glob("samples/**/*.bin"))


def test_sizes_of_the_sample_plans() -> None:
    compared = trees = 0
    for path in plans():
        problems = Problems()
        made = bind(decode(path.read_bytes(), problems), problems)
        if made is not None and not problems.errors:
            compared += 1
            trees += check(lower(made))
    assert compared > 20
    assert trees > 3


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("early", ["carry", "refuse"])
def test_sizes_for_keys_and_values_of_every_type(name: str, early: str) -> None:
    """As a key, as the value of a tree with a remembered end, as a component of a tree of whole rows."""
    table = read({"k": SHAPES[name], "v": SHAPES[name], "n": I64})
    order = SortField(at(2), "desc_nulls_last", None, "sort")
    made = (
        measure("first_value", at(1), sorts=(order,)),
        measure("array_agg", at(1)),
        measure("count", at(1), invocation="distinct"),
    )
    plan = bound(aggregate(table, (at(0),), made), "k", "a", "b", "c")
    flow = lower(plan, {("t",): "changelog"}, early="carry" if early == "carry" else "refuse")
    assert check(flow) == (3 if early == "carry" else 4)


def test_sizes_of_accumulators_of_every_kind() -> None:
    given: list[MeasureCall] = [
        measure(name, col(value))
        for name in ("sum", "avg", "variance", "min", "bool_and", "product", "first", "last")
        for value in ("flag" if name == "bool_and" else "x", "money")
        if not (value == "money" and name in ("variance", "product", "bool_and"))
    ]
    given.append(measure("corr", col("x"), col("x"), filter=col("flag")))
    given.append(measure("sum", col("x"), invocation="distinct"))
    names = [f"c{i}" for i in range(len(given) + 1)]
    for weight in ("append_only", "changelog", "weighted"):
        made = bound(aggregate(read(), (col("name"),), tuple(given)), *names)
        assert check(lower(made, {("t",): weight})) >= 4
    empty = lower(bound(aggregate(read(), (), (measure("count"),)), "n"))
    assert check(empty) == 0
