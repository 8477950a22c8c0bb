"""The explanation of a dataflow, as text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import substrait_agg
from substrait_agg.errors import UsageError
from substrait_agg.explanation.explain import row_names
from substrait_agg.explanation.text import plan_text
from substrait_agg.flow.passes.lower import lower
from substrait_agg.plan.model import Expression, Literal, ProjectRel, ReadRel
from substrait_agg.plan.types import BOOL, I8, I64, STRING, Type
from tests.bind.build import ROOT, aggregate, at, bound, call, lit, measure, read
from tests.flow.explained import HOSTILE, PLANS, chain, explained, hostile, of, squares, union

GOLDEN = Path(__file__).parent / "golden"
COUNT = measure("count")


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.txt")), ids=lambda p: p.stem)
def test_explanations_are_as_recorded(path: Path) -> None:
    """A change of these files is a change of how plans are run: look at it before recording it."""
    assert plan_text(explained(path.stem.replace("__", "/"))) == path.read_text()


def test_there_are_recorded_explanations() -> None:
    assert len(list(GOLDEN.glob("*.txt"))) == 10


def test_every_step_says_which_columns_and_types_it_leaves() -> None:
    (operator,) = explained("tpch/q01").operators
    (branch,) = operator.inputs
    assert [s.kind for s in branch.steps] == ["filter", "project"]
    filtered, projected = branch.steps
    assert filtered.columns == branch.columns
    assert [(c.name, c.type) for c in projected.columns[:2]] == [
        ("l_extendedprice * (1 - l_discount)", "decimal<38,4>"),
        ("l_quantity", "decimal<15,2>"),
    ]


def groups(keys: tuple[Expression, ...], sets: Any = None, **shape: Type) -> tuple[int | None, str]:
    table = read({"v": I64, **shape})
    names = [f"c{i}" for i in range(len(keys) + 1 + (sets is not None))]
    found = of(aggregate(table, keys, (COUNT,), groupings=sets), *names).operators[0].groups
    return found.bound, found.reason


@pytest.mark.parametrize(
    ("key", "bound"),
    [
        (None, 1),
        (BOOL, 3),
        (BOOL.as_nullable(False), 2),
        (I8, 257),
        (Type("u16", False), 65536),
        (I64, None),
        (STRING, None),
    ],
)
def test_the_number_of_groups_is_told_where_types_bound_it(
    key: Type | None, bound: int | None
) -> None:
    if key is None:
        assert groups(())[0] == bound
    else:
        assert groups((at(1),), k=key)[0] == bound


def test_grouping_sets_add_their_groups_up() -> None:
    """(flag, other), (flag), (): nine, three and one."""
    keys = (at(1), at(2))
    found = groups(keys, ((0, 1), (0,), ()), flag=BOOL, other=BOOL)
    assert found == (9 + 3 + 1, "one per possible value of flag, other")
    assert groups(keys, ((0,), (1,)), flag=BOOL, name=STRING)[0] is None


def test_groups_of_rows_written_in_the_plan_are_no_more_than_the_rows() -> None:
    rows: tuple[tuple[Literal, ...], ...] = tuple((lit(i, I64),) for i in range(4))
    table: ReadRel = read({"a": I64}, rows=rows, table=())
    (operator,) = of(aggregate(table, (at(0),), (COUNT,)), "a", "n").operators
    assert (operator.groups.bound, operator.inputs[0].rows) == (4, 4)
    upper = of(aggregate(aggregate(table, (at(0),), (COUNT,)), (at(1),), (COUNT,)), "n", "m")
    assert upper.operators[1].groups.bound == 4


def test_names_do_not_grow_from_step_to_step() -> None:
    """Written out, the last of 60 squares of squares would have 2^60 factors."""
    text = plan_text(squares(60))
    assert len(text) < 20_000
    assert " AS step5.c0 fp64?\n      project step5.c0 * step5.c0 fp64?" in text


def test_a_name_that_is_an_expression_keeps_its_parts_together() -> None:
    """a - b times a - b is not a - b * a - b."""
    made = ProjectRel(
        read({"a": I64, "b": I64}),
        (call("subtract", at(0), at(1), output=I64),),
        (2,),
        f"{ROOT}.project",
    )
    squared = ProjectRel(
        made, (call("multiply", at(0), at(0), output=I64),), (1,), f"{ROOT}.project"
    )
    text = plan_text(of(aggregate(squared, (), (measure("sum", at(0)),)), "s"))
    assert "project a - b i64?\n      project (a - b) * (a - b) i64?" in text
    assert "measure 0: sum((a - b) * (a - b)) -> i64?" in text


def test_a_long_chain_is_explained_to_its_end() -> None:
    plan = chain(500)
    assert len(plan.operators) == 500
    assert plan_text(plan).count("operator ") > 1000


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_no_name_breaks_a_line_or_sends_the_terminal_a_command(name: str) -> None:
    lines = plan_text(hostile(name)).split("\n")
    assert all(line.isprintable() for line in lines)
    usual = plan_text(hostile("usual")).split("\n")
    assert [line.split(":")[0][:11] for line in lines if line.startswith("  measure")] == [
        line.split(":")[0][:11] for line in usual if line.startswith("  measure")
    ]
    assert len(lines) == len(usual)


def test_inputs_that_disagree_about_a_name_give_its_number() -> None:
    upper = union(2).operators[-1]
    assert [i.kind for i in upper.inputs] == ["operator", "table"]
    assert [k.expression for k in upper.keys] == ["#1", "a"]
    assert [k.name for k in upper.keys] == ["op1.k0", "a"]


def test_the_tree_that_guards_retractions_is_explained_when_asked_for() -> None:
    path = str(PLANS / "tpch" / "q01.bin")
    usual = substrait_agg.explain(path)
    assert substrait_agg.explain(path, early_retraction="carry") == usual
    assert "retract" not in usual.partition("emit")[0]
    for policy, deed in (("refuse", "fail the batch"), ("quarantine", "move rows")):
        text = substrait_agg.explain(path, early_retraction=policy)
        assert "to detect early retractions" in text
        assert f"guard    {deed}" in text
    with pytest.raises(UsageError, match="sometimes"):
        substrait_agg.explain(path, early_retraction="sometimes")


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(UsageError, match="text, json, mermaid, html"):
        substrait_agg.explain(str(PLANS / "tpch" / "q01.bin"), "xml")


def test_names_of_rows_that_wait_are_each_there_once_and_short() -> None:
    """A key and an argument may be the same column; the argument of a filter is not the column alone."""
    table = read({"a": I64, "b" * 3000: I64, "flag": BOOL})
    measures = (
        measure("sum", at(0)),
        measure("sum", at(0), filter=at(2)),
        measure("sum", call("add", at(1), at(1), output=I64)),
    )
    flow = lower(
        bound(aggregate(table, (at(0),), measures), *"kstu"), {("t",): "changelog"}, "refuse"
    )
    names = row_names(flow, flow.operators[0])
    assert names == ("a", "a (2)", "a where flag", "argument 2")


def test_names_of_rows_that_wait_are_in_the_words_of_the_plan() -> None:
    """Binding converts the argument of a sum, and counts rows for a constant."""
    table = read({"a": I8, "flag": BOOL})
    measures = (measure("sum", at(0)), measure("count", lit(1, I64), filter=at(1)))
    flow = lower(bound(aggregate(table, (), measures), "s", "n"), {("t",): "changelog"}, "refuse")
    assert row_names(flow, flow.operators[0]) == ("a", "rows where flag")


def test_a_filter_is_said_to_run_on_spark() -> None:
    table = read({"v": I64, "flag": BOOL})
    counted = replace(COUNT, filter=call("not", at(1)))
    assert "FILTER runs on Spark, row by row: NOT flag" in plan_text(
        of(aggregate(table, (), (counted,)), "n")
    )
