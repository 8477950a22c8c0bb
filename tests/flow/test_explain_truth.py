"""The explanation matches the specs of the operators, not only a recorded text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

import substrait_agg as sa
from substrait_agg.explanation import ExplainedPlan, explain_flow
from substrait_agg.explanation.mermaid import plan_mermaid
from substrait_agg.explanation.text import plan_text, wrap
from substrait_agg.explanation.tree import ExplainedOperator
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.flow.passes.lower import lower
from substrait_agg.functions.aggregates.accumulators import EARLY_RETRACTIONS, WeightKind
from substrait_agg.plan.model import FilterRel, MeasureCall, Relation, SortField
from substrait_agg.plan.types import BOOL, I64
from substrait_agg.report.html.explain import plan_html
from tests.bind.build import ROOT, aggregate, at, bound, call, col, lit, measure, name_of, read
from tests.flow.explained import explained, of, samples
from tests.operator.specs import operator_spec

BY_BIG = (SortField(col("big"), "desc_nulls_last", None, "sort"),)
URN = "extension:com.example:explained"
COUNT = measure("count")
WEIGHTS: tuple[WeightKind, ...] = ("append_only", "changelog", "weighted")


class Total(sa.AdditiveMeasure):
    """Adds up."""

    urn = URN
    names = ("total",)
    arguments = (("i64",),)
    columns = {"sum": 0}  # noqa: RUF012

    def result(self, types: Any) -> sa.Type:
        return sa.Type("i64")

    def contribute(self, arguments: Any) -> Any:
        return {"sum": arguments[0]}

    def value(self, count: Any, totals: Any) -> Any:
        return totals["sum"]


class Newest(sa.OrderedMeasure):
    """Looks at the values in order."""

    urn = URN
    names = ("newest",)
    arguments = ((),)

    def result(self, types: Any) -> sa.Type:
        return sa.Type("i64")

    def value(self, groups: Any) -> Any:
        return groups.weights


@pytest.fixture
def own_measures() -> Iterator[None]:
    made: list[Any] = [Total(), Newest()]
    for one in made:
        sa.register_measure(one)
    yield
    for one in made:
        sa.unregister_measure(one)


def own(name: str, **changes: Any) -> MeasureCall:
    return replace(measure(name, col("big"), **changes), function=name_of(name, urn=URN))


def operator(
    *measures: MeasureCall, sets: Any = None, keys: Sequence[str] = ("flag",)
) -> ExplainedOperator:
    """The one operator of an aggregate over the usual table."""
    return plan(*measures, sets=sets, keys=keys).operators[0]


def plan(
    *measures: MeasureCall, sets: Any = None, keys: Sequence[str] = ("flag",)
) -> ExplainedPlan:
    root = aggregate(read(), tuple(map(col, keys)), measures, groupings=sets)
    names = [f"c{i}" for i in range(len(keys) + len(measures) + (sets is not None))]
    return of(root, *names)


def step(of_operator: ExplainedOperator, name: str) -> str:
    """The effect of a step; empty if it has none."""
    return next((s.what for s in of_operator.steps if s.name == name), "")


@pytest.mark.usefixtures("own_measures")
@pytest.mark.parametrize(
    ("given", "state"),
    [
        (own("total"), "additive"),
        (own("total", invocation="distinct"), "shared tree"),
        (own("newest"), "shared tree"),
        (own("newest", sorts=BY_BIG), "own tree"),
        (measure("sum", col("x"), sorts=BY_BIG), "additive"),
        (measure("min", col("x"), sorts=BY_BIG), "shared tree"),
        (measure("array_agg", col("x"), sorts=BY_BIG), "own tree"),
        (measure("variance", col("x")), "additive"),
        (measure("variance", col("x"), invocation="distinct"), "shared tree"),
        (measure("max_by", col("x"), col("big")), "own tree"),
    ],
)
def test_the_class_of_state_is_that_of_what_is_read(given: MeasureCall, state: str) -> None:
    """Additive if no tree is read; an ORDER BY without effect changes nothing, also for user-defined measures."""
    (made,) = operator(given).measures
    assert made.state == state


def flows() -> Iterator[tuple[Flow, ExplainedPlan]]:
    """Operators of every kind, for inputs of every weight, under every policy for early retractions."""
    keys = (col("name"), col("flag"))
    variance, median = measure("variance", col("x")), measure("median", col("x"))
    counted = aggregate(read(), keys[1:], (COUNT,))
    many = call("gt", at(1), lit(3, I64), output=BOOL)
    made: list[tuple[Relation, str]] = [
        (aggregate(read(), keys, (variance, median)), "abcd"),
        (aggregate(read(), keys, (variance,)), "abc"),
        (aggregate(read(), keys, (measure("sum", col("x")),)), "abc"),
        (aggregate(read(), (), (COUNT,)), "a"),
        (aggregate(read(), (), (median,)), "a"),
        (FilterRel(counted, many, None, f"{ROOT}.filter"), "ab"),
    ]
    for root, names in made:
        for weight, early in product(WEIGHTS, EARLY_RETRACTIONS):
            flow = lower(bound(root, *names), {("t",): weight}, early)
            yield flow, explain_flow(flow)


def test_the_steps_are_those_that_the_spec_asks_for() -> None:
    """Rows or partial sums, looked up in trees or not, guarded or not."""
    seen = set()
    for flow, told in flows():
        for node, said in zip(flow.operators, told.operators, strict=True):
            spec = operator_spec(node)
            assert bool(step(said, "partial")) == (not spec.row_wise)
            may_be_raw = not spec.row_wise and not spec.is_global
            assert ("or otherwise rows" in step(said, "exchange")) == may_be_raw
            assert ("unless" in step(said, "partial")) == may_be_raw
            assert step(said, "exchange").startswith("rows") == spec.row_wise
            assert ("trees" in step(said, "merge")) == bool(spec.trees)
            assert ("changed values" in step(said, "save")) == bool(spec.trees)
            assert bool(step(said, "guard")) == (spec.early != "carry")
            seen.add((spec.row_wise, bool(spec.trees), spec.early, spec.weight))
    assert len(seen) == 12


def test_only_groups_that_the_view_shows_wait_for_the_policy() -> None:
    """Below, and in the rows of a view, every batch emits all that it touched."""
    rows, below = reversed(explained("samples/datafusion/having").operators)
    assert "policy" not in step(rows, "emit")
    assert "as often as its count has changed" in step(rows, "emit")
    assert "emission policy selects, by default all" in step(below, "emit")
    upper, lower_ = reversed(explained("samples/datafusion/agg_of_agg").operators)
    assert "policy" in step(upper, "emit")
    assert step(lower_, "emit").startswith("retract the row last emitted")


def test_what_is_emitted_is_known_before_it_is_saved() -> None:
    """The row of a group has the row last emitted."""
    for name, made in samples():
        for one in made.operators:
            assert [s.name for s in one.steps][-2:] == ["emit", "save"], name


def test_keys_and_arguments_are_said_to_be_computed_on_spark() -> None:
    given = operator(measure("sum", call("multiply", col("big"), col("big"), output=I64)))
    assert step(given, "prepare") == "compute keys and arguments"
    filtered = operator(measure("sum", col("big"), filter=col("flag")), keys=())
    assert step(filtered, "prepare").startswith("compute arguments; null where the FILTER")
    assert step(operator(COUNT, keys=()), "prepare") == ""


def test_the_index_of_the_grouping_set_is_a_key_of_the_sums() -> None:
    given = operator(COUNT, sets=((0,), ()))
    assert step(given, "partial").startswith("aggregate the batch by flag, grouping set")


def test_groups_of_several_empty_sets_are_not_one() -> None:
    made = plan(COUNT, sets=((), ()), keys=())
    assert made.operators[0].groups.bound == 2
    for text in (plan_text(made), plan_mermaid(made), plan_html(made)):
        assert "one group per grouping set" in text
        assert "one global group" not in text


def test_a_measure_without_arguments_is_written_without_a_gap() -> None:
    """The value of `grouping` is known per set when the plan is bound; its arguments are not stored."""
    given = operator(measure("grouping", col("flag")), sets=((0,), ()))
    assert given.measures[0].call == "grouping(0, 1 by grouping set)"
    constant = operator(measure("nth_value", col("x"), lit(2, I64), sorts=BY_BIG))
    assert constant.measures[0].call == "nth_value(x, 2 ORDER BY big DESC)"


@pytest.mark.parametrize("form", ["text", "json", "mermaid", "html"])
def test_every_form_says_what_it_assumes_of_the_tables(form: str) -> None:
    path = "plans/tpch/q01.bin"
    assert "tables have inserts only" in sa.explain(path, form)
    asked = sa.explain(path, form, early_retraction="refuse")
    assert "tables have inserts and retractions" in asked
    assert "inserts only" not in asked


def test_sources_say_what_a_plan_does_not() -> None:
    """A table with an operation column has retractions, one with a key has upserts, one may be static."""
    path = "plans/tpch/q03.bin"
    some = sa.explain(path, sources={"lineitem": "csv:in?op=op", "unread": "csv:in"})
    assert "assumed: tables without a source have inserts only" in some
    assert "weights 1 and -1" in some
    others = {"orders": "csv:in?key=o_orderkey&order=o_orderdate", "customer": "csv:in?static=true"}
    every = sa.explain(path, sources={"lineitem": "csv:in?weight=w", **others})
    assert "assumed" not in every
    assert "any weight" in every
    assert "upsert" in every
    assert "static" in every
    with pytest.raises(sa.UsageError) as refused:
        sa.explain(path, sources={"lineitem": "in"})
    assert refused.value.code == "SPEC_FORMAT_MISSING"


def test_nothing_is_assumed_where_there_are_no_tables() -> None:
    table = read({"a": I64}, rows=((lit(1, I64),),), table=())
    assert of(aggregate(table, (), (COUNT,)), "n").assumed == ""


def test_the_view_says_which_column_stands_behind_each_of_its_own() -> None:
    made = explained("tpch/q01")
    assert "  sum_qty: decimal?<25,2>, from sum(l_quantity)\n" in plan_text(made)
    assert "  l_returnflag: string\n" in plan_text(made)
    assert "<code>sum(l_quantity)</code></td></tr>" in plan_html(made)


@pytest.mark.parametrize("width", [60, 80])
def test_folded_text_has_the_same_words_in_narrow_lines(width: int) -> None:
    for name, made in samples():
        text = plan_text(made)
        narrow = wrap(text, width)
        assert narrow.split() == text.split(), name
        long = [line for line in narrow.splitlines() if len(line) > width]
        assert all(len(line.split()) == 1 for line in long), name
        assert narrow.count("\n\n") == text.count("\n\n")


def test_a_group_that_needs_a_row_is_not_said_to_be_there() -> None:
    """The group of everything is always shown; that of a constant key comes with its first row."""
    constant = aggregate(read(), (lit(3, I64),), (COUNT,))
    assert "  groups: at most 1, one per possible value" in plan_text(of(constant, "k", "n"))
    assert "  groups: 1, one group for all rows" in plan_text(plan(COUNT, keys=()))
    rollup = operator(COUNT, sets=((0,), ())).groups
    assert (rollup.least, rollup.bound) == (1, 4)
