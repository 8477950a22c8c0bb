"""Lowering: branches contain only the columns that are read, measures share accumulators, and the
rows of a view have an operator.
"""

from __future__ import annotations

from substrait_agg.bind.show import show
from substrait_agg.flow.graph.aggregate import Aggregate, Distinct
from substrait_agg.flow.graph.graph import (
    Branch,
    FilterStep,
    OperatorOrigin,
    ProjectStep,
    RowsOrigin,
    TableOrigin,
    UnnestStep,
)
from substrait_agg.flow.graph.nodes import Flow, Node
from substrait_agg.flow.passes.lower import lower
from substrait_agg.functions.aggregates.accumulators import Accumulator, WeightKind
from substrait_agg.plan.model import FilterRel, MeasureCall, ProjectRel, Relation, SetRel
from substrait_agg.plan.types import FP64, I64
from substrait_agg.required import require
from tests.bind.build import (
    COLUMNS,
    ROOT,
    aggregate,
    at,
    bound,
    call,
    col,
    lit,
    measure,
    read,
    sort,
)

COUNT = measure("count", output=I64.as_nullable(False))
WIDTH = len(COLUMNS)


def flow_of(
    root: Relation, *names: str, weights: dict[tuple[str, ...], WeightKind] | None = None
) -> Flow:
    return lower(bound(root, *names), weights)


def texts(branch: Branch) -> list[str]:
    """The steps of a branch with the names of the columns they see."""
    origin = branch.origin
    names = origin.names if isinstance(origin, TableOrigin) else ()
    lines = []
    for step in branch.steps:
        if isinstance(step, FilterStep):
            lines.append("filter " + show(step.condition, names))
        elif isinstance(step, UnnestStep):
            lines.append("unnest " + show(step.values, names))
            names = (*names, "element")
        else:
            made = tuple(show(e, names) for e in step.expressions)
            lines.append("project " + ", ".join(made))
            names = made
    return lines


def origin_names(branch: Branch) -> tuple[str, ...]:
    assert isinstance(branch.origin, TableOrigin)
    return branch.origin.names


def sums(*measures: MeasureCall, keys: tuple[str, ...] = ("name",)) -> Flow:
    root = aggregate(read(), tuple(col(k) for k in keys), measures)
    return flow_of(root, *(f"c{i}" for i in range(len(keys) + len(measures))))


# --- branches ----------------------------------------------------------------------------------


def test_only_columns_that_are_read_leave_the_source() -> None:
    kept = FilterRel(read(), call("gt", col("x"), lit(1.0, FP64)), None, ROOT)
    node = flow_of(
        aggregate(kept, (col("name"),), (measure("sum", col("big")),)), "k", "s"
    ).operators[0]
    (branch,) = node.branches
    assert origin_names(branch) == ("name", "big", "x")
    assert texts(branch) == ["filter x > 1.0", "project name, big"]
    assert [show(k) for k in node.keys] == ["#0"]
    assert [show(v) for v, _ in node.arguments if v] == ["#1"]


def test_counting_rows_reads_no_column() -> None:
    node = flow_of(aggregate(read(), (), (COUNT,)), "n").operators[0]
    assert node.branches == (Branch(TableOrigin(("t",), (), ()), ()),)


def test_projects_become_one_unless_that_computes_something_twice() -> None:
    twice = call("add", col("big"), col("big"), output=I64)
    low = ProjectRel(read(), (twice, col("name")), (WIDTH, WIDTH + 1), ROOT)
    once = ProjectRel(low, (call("negate", at(0), output=I64), at(1)), (2, 3), ROOT)
    (branch,) = flow_of(once, "a", "b").operators[0].branches
    assert texts(branch) == ["project negate(big + big), name"]
    both = ProjectRel(low, (call("add", at(0), at(0), output=I64),), (2,), ROOT)
    (branch,) = flow_of(both, "a").operators[0].branches
    assert texts(branch) == ["project big + big", "project big + big + big + big"]


def test_steps_over_a_union_go_into_every_branch_with_one_layout() -> None:
    low = ProjectRel(read(), (col("big"), col("name")), (WIDTH, WIDTH + 1), ROOT)
    high = ProjectRel(read(), (col("must"), col("name")), (WIDTH, WIDTH + 1), ROOT)
    united = FilterRel(SetRel((low, high), None, ROOT), call("gt", at(0), lit(1, I64)), None, ROOT)
    node = flow_of(aggregate(united, (at(1),), (COUNT,)), "k", "n").operators[0]
    assert [origin_names(b) for b in node.branches] == [("name", "big"), ("name", "must")]
    assert [texts(b)[-1] for b in node.branches] == ["project name", "project name"]
    assert [texts(b)[-2] for b in node.branches] == ["filter big > 1", "filter must > 1"]


def test_rows_of_the_plan_are_pruned_too() -> None:
    rows = ((lit(1, I64), lit(2.0, FP64)),)
    source = read({"a": I64, "b": FP64}, rows=rows, table=())
    (branch,) = flow_of(aggregate(source, (at(1),)), "b").operators[0].branches
    assert isinstance(branch.origin, RowsOrigin)
    assert [[show(v) for v in row] for row in branch.origin.rows] == [["2.0"]]


# --- accumulators ------------------------------------------------------------------------------


def _reads(node: Node) -> tuple[tuple[int | None, ...], ...]:
    return tuple(read.accumulators for read in require(node.groups).reads)


def test_measures_over_one_argument_share_their_accumulators() -> None:
    node = sums(
        measure("sum", col("big")), measure("avg", col("big")), measure("count", col("big"))
    ).operators[0]
    assert require(node.groups).accumulators == (
        Accumulator("integer", 0, 64, 4),
        Accumulator("count", 0, 0, 2),
    )
    assert _reads(node) == ((0, 1), (0, 1), (1,))


def test_values_that_are_never_null_are_counted_by_the_total_weight() -> None:
    node = sums(measure("sum", col("must")), COUNT, measure("count", col("must"))).operators[0]
    assert require(node.groups).accumulators == (Accumulator("integer", 0, 64, 4),)
    assert _reads(node) == ((0, None), (None,), (None,))


def test_a_filter_has_accumulators_of_its_own() -> None:
    node = sums(
        measure("sum", col("must")),
        measure("sum", col("must"), filter=col("flag")),
        measure("count", filter=col("flag")),
    ).operators[0]
    assert [(v is None, f is None) for v, f in node.arguments] == [
        (False, True), (False, False), (True, False),
    ]  # fmt: skip
    assert _reads(node) == ((0, None), (1, 2), (2,))


def test_sizes_of_accumulators() -> None:
    """Accumulators have 64 or 128 bits, plus 40 bits for the number of rows, plus the bits of the
    weights.
    """
    measures = (
        measure("sum", col("small")),
        measure("sum", col("money")),
        measure("sum", col("x")),
    )
    for weight, expected in (("changelog", (3, 6, 0)), ("weighted", (5, 8, 0))):
        root = aggregate(read(), (), measures)
        node = flow_of(root, *"abc", weights={("t",): weight}).operators[0]  # type: ignore[dict-item]
        totals = [require(node.groups).accumulators[require(total)] for total, *_ in _reads(node)]
        assert tuple(a.digits for a in totals) == expected
        assert [(a.kind, a.bits) for a in totals] == [
            ("integer", 32),
            ("decimal", 128),
            ("float", 0),
        ]


def test_zeros_of_both_signs_are_two_arguments() -> None:
    """1 / 0.0 and 1 / -0.0 differ although 0.0 equals -0.0."""
    zeros = (lit(0.0, FP64), lit(-0.0, FP64))
    given = (measure("sum", call("divide", col("x"), z, output=FP64)) for z in zeros)
    node = sums(*given).operators[0]
    assert len({total for total, *_ in _reads(node)}) == 2


# --- operators ---------------------------------------------------------------------------------


BY_NAME = aggregate(read(), (col("name"),), (COUNT, measure("sum", col("big"))))


def test_selecting_columns_of_the_last_aggregate_needs_no_operator() -> None:
    root = ProjectRel(
        sort(BY_NAME, (at(1), "asc_nulls_last")), (at(2), at(1), at(2)), (3, 4, 5), ROOT
    )
    flow = flow_of(root, "s", "n", "again")
    assert len(flow.operators) == 1
    (view,) = flow.views
    assert view.output == (2, 1, 2)
    assert [str(t) for t in view.types] == ["i64?", "i64", "i64?"]
    assert view.sorts[0].ordinal == 1


def test_rows_computed_above_the_last_aggregate_are_kept() -> None:
    having = FilterRel(BY_NAME, call("gt", at(1), lit(1, I64)), None, ROOT)
    flow = flow_of(ProjectRel(having, (at(0),), (3,), ROOT), "k")
    first, last = flow.operators
    assert (type(first), type(last)) == (Aggregate, Distinct)
    assert last.branches[0].origin == OperatorOrigin(0, first.types)
    assert (last.measures, require(last.groups).accumulators) == ((), ())
    assert [str(t) for t in last.types] == ["string?"]
    assert (first.weight, last.weight) == ("append_only", "changelog")
    assert flow.views[0].output == (0,)


def test_a_plan_without_aggregate_keeps_its_rows() -> None:
    (node,) = flow_of(read(projection=(0,)), "name").operators
    assert isinstance(node, Distinct)
    assert origin_names(node.branches[0]) == ("name",)


def test_an_aggregate_may_read_an_aggregate() -> None:
    outer = aggregate(BY_NAME, (at(1),), (measure("sum", at(2)),))
    first, last = flow_of(outer, "n", "s").operators
    assert (first.id, last.id, type(last)) == (0, 1, Aggregate)
    assert isinstance(last.branches[0].origin, OperatorOrigin)
    assert isinstance(last.branches[0].steps[0], ProjectStep)


def test_weights_are_those_of_the_widest_branch() -> None:
    other = read({"a": I64}, table=("u",))
    left = ProjectRel(read(), (col("big"),), (WIDTH,), ROOT)
    root = aggregate(SetRel((left, other), None, ROOT), (at(0),), (COUNT,))
    assert flow_of(root, "k", "n").operators[0].weight == "append_only"
    assert flow_of(root, "k", "n", weights={("u",): "changelog"}).operators[0].weight == "changelog"
    assert (
        flow_of(root, "k", "n", weights={("u",): "changelog", ("t",): "weighted"})
        .operators[0]
        .weight
        == "weighted"
    )


def test_a_shared_aggregate_is_one_operator() -> None:
    flow = flow_of(SetRel((BY_NAME, BY_NAME), None, ROOT), *"abc")
    assert len(flow.operators) == 2
    assert [b.origin for b in flow.operators[1].branches] == [
        OperatorOrigin(0, flow.operators[0].types)
    ] * 2
