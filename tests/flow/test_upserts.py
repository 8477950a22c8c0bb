"""Upsert sources in the flow: one operator per table ahead of the plan's own, with exactly the columns that are read."""

from __future__ import annotations

import pytest

from substrait_agg.bind.show import show
from substrait_agg.errors import InputRefused
from substrait_agg.explanation.explain import row_names
from substrait_agg.flow.graph.graph import OperatorOrigin, ProjectStep, TableOrigin
from substrait_agg.flow.graph.identity import identities
from substrait_agg.flow.graph.nodes import Flow, shown_operators
from substrait_agg.flow.graph.upsert import Upsert
from substrait_agg.flow.passes.lower import lower
from substrait_agg.flow.passes.upserts import UpsertDeclaration, upserts_of
from substrait_agg.functions.aggregates.accumulators import EarlyRetraction
from substrait_agg.operator.upsert.spec import upsert_spec
from substrait_agg.plan.model import Relation, SetRel
from substrait_agg.plan.types import FP64, I64, STRING
from substrait_agg.required import require
from tests.bind.build import ROOT, aggregate, bound, col, measure, read

TABLE = ("t",)
COUNT = measure("count", output=I64.as_nullable(False))


def flow_of(
    root: Relation, *names: str, upsert: UpsertDeclaration, early: EarlyRetraction = "carry"
) -> Flow:
    return lower(bound(root, *names), {TABLE: "changelog"}, early, {TABLE: upsert})


def origin_of(flow: Flow, operator: int = 0) -> TableOrigin:
    (branch,) = flow.operators[operator].branches
    assert isinstance(branch.origin, TableOrigin)
    return branch.origin


def test_the_key_and_the_order_are_read_though_the_plan_does_not_use_them() -> None:
    """They come first, once each; what reads the table gets its own columns of the operator's rows."""
    root = aggregate(read(), (col("name"),), (measure("sum", col("big")),))
    flow = flow_of(root, "k", "s", upsert=UpsertDeclaration(("must",), ("x",)))
    origin = origin_of(flow)
    assert origin.names == ("must", "x", "name", "big")
    assert origin.upsert is not None
    assert (origin.upsert.keys, origin.upsert.order) == ((0,), (1,))
    keeper, node = flow.operators
    assert (keeper.id, node.id) == (0, 1)
    assert keeper.columns == ("k0", "v0", "v1", "v2")
    (branch,) = node.branches
    assert branch.origin == OperatorOrigin(0, keeper.types)
    (step,) = branch.steps
    assert isinstance(step, ProjectStep)
    assert [show(e) for e in step.expressions] == ["#2", "#3"]


def test_a_table_that_is_read_twice_has_one_operator_with_the_columns_of_both() -> None:
    one = aggregate(read(), (), (measure("sum", col("big")),))
    other = aggregate(read(), (), (measure("sum", col("must")),))
    flow = flow_of(SetRel((one, other), None, ROOT), "s", upsert=UpsertDeclaration(("NAME",)))
    assert origin_of(flow).names == ("name", "big", "must")
    origins = [branch.origin for node in flow.operators[1:-1] for branch in node.branches]
    assert origins == [OperatorOrigin(0, flow.operators[0].types)] * 2
    assert [b.origin for b in flow.operators[-1].branches] == [
        OperatorOrigin(1, (I64,)),
        OperatorOrigin(2, (I64,)),
    ]


def test_fields_of_the_envelope_are_read_behind_the_columns() -> None:
    """They order the rows of a key and are no part of a row."""
    root = aggregate(read(), (col("name"),), (COUNT,))
    paths = ("source.file", "source.pos")
    flow = flow_of(root, "k", "n", upsert=UpsertDeclaration(("name",), paths, envelope=True))
    origin, keeper = origin_of(flow), flow.operators[0]
    assert origin.names == ("name",)
    assert origin.upsert is not None
    assert (origin.upsert.order, origin.upsert.paths) == ((1, 2), paths)
    assert isinstance(keeper, Upsert)
    assert [keeper.values, len(keeper.types), len(keeper.arguments)] == [0, 1, 2]
    assert [v.type.kind for v, _ in keeper.arguments if v] == ["string", "i64"]


def test_texts_of_events_may_be_left_out() -> None:
    """Texts outside the key can be omitted: each has a column after all others that marks omission."""
    root = aggregate(read(), (col("name"),), (measure("sum", col("big")),))
    flow = flow_of(root, "k", "s", upsert=UpsertDeclaration(("must",), partial=True))
    origin, keeper = origin_of(flow), flow.operators[0]
    assert origin.names == ("must", "name", "big")
    assert origin.upsert is not None
    assert origin.upsert.partial == (1,)
    assert isinstance(keeper, Upsert)
    assert (keeper.values, keeper.partial, keeper.labels) == (2, (0,), ("column name of t",))
    assert [show(v) for v, _ in keeper.arguments if v] == ["#1", "#2", "#3"]
    spec = upsert_spec(keeper)
    assert (spec.order, spec.partial_columns) == ((), ("x2",))
    flow = flow_of(root, "k", "s", upsert=UpsertDeclaration(("name",), partial=True))
    keyed = flow.operators[0]
    assert isinstance(keyed, Upsert)
    assert (keyed.values, keyed.partial, keyed.labels) == (1, (), ())


def test_a_plan_that_counts_rows_reads_the_key() -> None:
    flow = flow_of(aggregate(read(), (), (COUNT,)), "n", upsert=UpsertDeclaration(("must",)))
    assert origin_of(flow).names == ("must",)


@pytest.mark.parametrize("early", ["carry", "refuse", "quarantine"])
def test_upserts_never_retract_early(early: EarlyRetraction) -> None:
    """The output of the operator is exact, so no rows are stored to check it."""
    root = aggregate(read(), (col("name"),), (COUNT,))
    flow = flow_of(root, "k", "n", upsert=UpsertDeclaration(("must",)), early=early)
    assert [(n.early, require(n.groups).guard, n.weight) for n in flow.operators] == [
        ("carry", None, "changelog")
    ] * 2


def test_other_tables_of_the_plan_are_guarded_as_before() -> None:
    """An operator over an upsert table and a table with retractions still detects early
    retractions.
    """
    both = SetRel((read(), read(table=("u",))), None, ROOT)
    plan = bound(aggregate(both, (col("name"),), (COUNT,)), "k", "n")
    flow = lower(plan, {("u",): "changelog"}, "quarantine", {TABLE: UpsertDeclaration(("must",))})
    assert [n.early for n in flow.operators] == ["carry", "quarantine"]
    assert row_names(flow, flow.operators[1])[0] == "name"


def test_the_groups_that_a_view_shows_are_never_the_rows_of_a_table() -> None:
    """A plan that only reads an upsert table has its own operator for the view, which follows the
    emission policy.
    """
    assert shown_operators(flow_of(read(), *read().names, upsert=UpsertDeclaration(("must",)))) == {
        1
    }


def test_what_was_declared_is_told_for_the_checkpoint() -> None:
    root = aggregate(read(), (col("name"),), (COUNT,))
    flow = flow_of(root, "k", "n", upsert=UpsertDeclaration(("Must", "name"), ("x",)))
    assert upserts_of(flow) == ("t: key=must,name&order=x",)
    assert upserts_of(lower(bound(root, "k", "n"))) == ()


@pytest.mark.parametrize(
    ("upsert", "code", "told"),
    [
        (UpsertDeclaration(("id",)), "KEY_COLUMN_UNKNOWN", "key=id"),
        (UpsertDeclaration(("must",), ("lsn",)), "KEY_COLUMN_UNKNOWN", "order=lsn"),
    ],
)
def test_columns_that_the_plan_does_not_declare_are_refused(
    upsert: UpsertDeclaration, code: str, told: str
) -> None:
    with pytest.raises(InputRefused) as refused:
        flow_of(aggregate(read(), (), (COUNT,)), "n", upsert=upsert)
    assert refused.value.code == code
    assert told in refused.value.message
    assert refused.value.help


def test_names_that_differ_by_case_alone_have_to_be_written_exactly() -> None:
    source = read({"id": I64, "ID": I64})
    root = aggregate(source, (), (COUNT,))
    assert origin_of(flow_of(root, "n", upsert=UpsertDeclaration(("ID",)))).names == ("ID",)
    with pytest.raises(InputRefused) as refused:
        flow_of(root, "n", upsert=UpsertDeclaration(("Id",)))
    assert refused.value.code == "COLUMN_AMBIGUOUS"


def test_a_table_that_is_declared_in_two_ways_is_refused() -> None:
    """Two reads of an upsert table with different column types are refused, because one row is
    stored for both.
    """
    one = aggregate(read({"id": I64, "x": I64}), (), (COUNT,))
    other = aggregate(read({"id": I64, "x": FP64, "y": STRING}), (), (COUNT,))
    with pytest.raises(InputRefused) as refused:
        flow_of(SetRel((one, other), None, ROOT), "n", upsert=UpsertDeclaration(("id",)))
    assert refused.value.code == "TABLE_READS_DIFFER"


def test_without_keys_nothing_changes() -> None:
    plan = bound(aggregate(read(), (col("name"),), (COUNT,)), "k", "n")
    assert lower(plan, {}, "carry", {}) == lower(plan)
    assert lower(plan, {}, "carry", {("u",): UpsertDeclaration(("x",))}) == lower(plan)


def test_what_events_tell_besides_the_columns_has_an_identity() -> None:
    """Fields of the envelope and values that were left out are columns that the table does not have."""
    root = aggregate(read(), (col("name"),), (measure("sum", col("big")),))
    for upsert in (
        UpsertDeclaration(("must",), (), partial=True),
        UpsertDeclaration(("must",), ("ts_ms",), envelope=True),
    ):
        keeper, _ = identities(flow_of(root, "k", "s", upsert=upsert))
        assert len(set(keeper.columns)) == len(keeper.columns)
