"""Measures that cannot be computed are refused by name with the reason; the plan without them can continue."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from substrait_agg.bind.bound import BoundMeasure
from substrait_agg.commit.documents.snapshot import OperatorState, Snapshot
from substrait_agg.commit.documents.state_schema import InputSchema
from substrait_agg.commit.evolution.compatibility import check_evolved
from substrait_agg.commit.evolution.planner import evolution
from substrait_agg.errors import StateRefused
from substrait_agg.operator.common.emission import NONE
from substrait_agg.plan.types import I64
from tests.evolution.evolving import document, evolve, planned
from tests.operator.measures_build import FLAG, OTHER, measure, row, world
from tests.operator.measures_draw import node_of
from tests.operator.measures_world import World
from tests.operator.test_early_retractions import guarded

COUNT = measure("count")
LEAST = measure("min", "long")
KEYS = ("k0",)

ADDED: dict[str, tuple[tuple[BoundMeasure, ...], BoundMeasure, str]] = {
    "a total without a tree": ((COUNT,), measure("sum", "long"), "not in the stored state"),
    "another column": ((LEAST,), measure("max", "int"), "not in the stored state"),
    "another filter": ((LEAST,), measure("max", "long", filter_=FLAG), "not in the stored state"),
    "no filter": ((measure("min", "long", filter_=FLAG),), measure("sum", "long"), "not in the stored state"),
    "nulls were left out": ((LEAST,), measure("list", "long", keep_nulls=True), "not in the stored state"),
    "rows without the value were left out": (
        (measure("min_by", "text", "long"),), measure("max", "text"), "not in the stored state",
    ),
    "arrival": ((LEAST,), measure("first", "long"), "order in which rows arrived"),
}  # fmt: skip
"""What was there, what is added, and why that cannot be."""


@pytest.mark.parametrize("what", ADDED)
def test_a_measure_that_cannot_be_computed_is_named(what: str, tmp_path: Path) -> None:
    """The message has the measure and the reason; the plan without the measure can continue."""
    before, added, why = ADDED[what]
    made = world(tmp_path, *before)
    made.batch([row(k0=1, long=3, int=4, text="a", flag=True), row(k0=1, long=4), row(k0=1)])
    added = replace(added, path="added")
    (reason,) = evolve(made, node_of(KEYS, (*before, added, COUNT), "changelog"))
    assert reason.startswith(f"measure {added.kind} added: ")
    assert why in reason
    assert evolve(made, node_of(KEYS, (*before, COUNT), "changelog")) == ()
    made.check()


KNOWN: dict[str, tuple[tuple[BoundMeasure, ...], BoundMeasure]] = {
    "an average of a total and a count": ((measure("sum", "long"), measure("count", "long")), measure("avg", "long")),
    "the other end": ((LEAST,), measure("max", "long")),
    "all of the values": ((LEAST,), measure("list", "long")),
    "a total over a tree": ((LEAST,), measure("sum", "long")),
    "a float's total": ((measure("max", "double"),), measure("avg", "double")),
    "moments": ((measure("max", "double"),), measure("variance", "double")),
    "distinct values": ((LEAST,), measure("sum", "long", distinct=True)),
    "another order": ((LEAST,), measure("list", "long", order=("-long",))),
    "ranks": ((measure("count", "long", distinct=True),), measure("median", "long")),
    "a column beside a value that is never null": (
        (measure("min_by", "text", "sure_long"),), measure("list", "text"),
    ),
    "the same filter": ((measure("min", "long", filter_=OTHER),), measure("sum", "long", filter_=OTHER)),
    "rows that are counted by their filter": (
        (measure("min", "sure_long", filter_=FLAG),), measure("count", filter_=FLAG),
    ),
    "surrogate keys": ((COUNT,), measure("surrogate_key", type_=I64.as_nullable(False))),
}  # fmt: skip


@pytest.mark.parametrize("what", KNOWN)
def test_a_measure_over_what_is_kept_is_computed(what: str, tmp_path: Path) -> None:
    """Deletions, rows below zero and nulls count as they would have from the beginning, and later ones too."""
    before, added = KNOWN[what]
    made = world(tmp_path, *before, COUNT, weight="weighted")
    rows = [
        row(k0=k % 2, long=k, double=k / 3, text="ab"[k % 2], flag=k % 3 == 0, sure_long=k)
        for k in range(6)
    ]
    made.batch([*rows, row(-1, k0=1, long=9, double=1e20, text="z", flag=True), row(3, k0=0)], 2)
    made.check()
    assert evolve(made, node_of(KEYS, (added, *before), "weighted"), 2) == ()
    made.check()
    made.batch(
        [replace(r, weight=-1) for r in rows[:4]]
        + [row(2, k0=1, long=9, double=1e20, text="z", flag=True)],
        2,
    )
    made.check()


def test_of_ends_alone_nothing_else_can_be_made(tmp_path: Path) -> None:
    """For append-only input, min and max have no tree, so no other measure can be computed from
    them; the checkpoint stays unchanged.
    """
    made = world(tmp_path, LEAST, weight="append_only")
    made.batch([row(k0=1, long=3), row(k0=1, long=4), row(k0=2)])
    for added in (measure("max", "long"), measure("sum", "long"), measure("list", "long")):
        wanted = replace(added, path="added")
        (reason,) = evolve(made, node_of(KEYS, (LEAST, wanted), "append_only"))
        assert reason.startswith(f"measure {added.kind} added: ")
        assert reason.endswith("only the extremes of min and max are stored")
    assert evolve(made, node_of(KEYS, (COUNT, LEAST), "append_only")) == ()
    made.batch([row(k0=1, long=2), row(k0=2, long=9)])
    made.check()


def test_ends_are_taken_over_and_made_of_a_tree(tmp_path: Path) -> None:
    """One of two measures, and both if a tree has the values; a tree without readers is deleted."""
    greatest = measure("max", "long")
    made = world(tmp_path, LEAST, greatest, weight="append_only")
    made.batch([row(k0=1, long=3), row(k0=1, long=4), row(k0=2)])
    assert evolve(made, node_of(KEYS, (greatest,), "append_only")) == ()
    made.batch([row(k0=1, long=2), row(k0=2, long=9)])
    made.check()
    made = world(tmp_path, measure("list", "long"), LEAST, weight="append_only")
    made.batch([row(k0=1, long=3), row(k0=1, long=4), row(k0=2)])
    made.batch([row(k0=2, long=-1), row(k0=3, long=7)])
    assert made.entries_kept() == 4
    assert evolve(made, node_of(KEYS, (greatest, LEAST), "append_only"), 2) == ()
    made.check()
    assert made.entries_kept() == 0
    made.batch([row(k0=1, long=1), row(k0=2, long=0), row(k0=4, long=5)])
    made.check()


def test_groups_that_wait_keep_their_values_and_take_no_new_measure(tmp_path: Path) -> None:
    """A new value would be of another instant than those beside it; dropping and reordering are no matter."""
    made = world(tmp_path, LEAST, COUNT)
    made.batch([row(k0=1, long=3)])
    made.batch([row(k0=1, long=2)], emission=NONE)
    shown = made.view()
    (reason,) = evolve(made, node_of(KEYS, (LEAST, measure("max", "long")), "changelog"))
    assert "groups wait to be emitted" in reason
    assert "--emit batch" in reason
    assert evolve(made, node_of(KEYS, (COUNT, LEAST), "changelog")) == ()
    assert made.view() == {key: values[::-1] for key, values in shown.items()}
    made.batch([])
    made.check()


def test_finished_groups_take_no_new_measure(tmp_path: Path) -> None:
    """Closed groups have only their row in the view, so a new measure is refused."""
    made = world(tmp_path, LEAST, COUNT)
    made.batch([row(k0=1, long=3)])
    made.now = replace(
        made.now,
        state=OperatorState.of({**made.now.state.trees, "closed": made.now.state["group"]}),
    )
    (reason,) = planned(made, node_of(KEYS, (LEAST, measure("max", "long")), "changelog"))[1]
    assert "groups are closed or evicted" in reason
    assert planned(made, node_of(KEYS, (COUNT,), "changelog"))[0] is not None


def test_rows_in_quarantine_are_told_by_the_columns_that_were_read(tmp_path: Path) -> None:
    """With fewer columns other rows would cancel; without such rows they may be fewer."""
    node = guarded(node_of(KEYS, (LEAST, measure("max", "int")), "changelog"), "quarantine")
    made = World(node, tmp_path)
    made.batch([row(k0=1, long=3, int=1)])
    fewer = guarded(node_of(KEYS, (LEAST,), "changelog"), "quarantine")
    (reason,) = planned(made, fewer, waiting=1)[1]
    assert "quarantine" in reason
    assert evolve(made, fewer) == ()
    more = guarded(node_of(KEYS, (LEAST, measure("max", "text")), "changelog"), "quarantine")
    (reason,) = evolve(made, more)
    assert "not in the stored state" in reason


def test_whole_rows_give_any_measure_over_what_was_read(tmp_path: Path) -> None:
    """The rows that --early-retraction stores have every column that is read for any purpose."""
    node = guarded(
        node_of(KEYS, (measure("sum", "long"), measure("avg", "double")), "changelog"), "refuse"
    )
    made = World(node, tmp_path)
    made.batch([row(k0=k % 2, long=k, double=k / 2) for k in range(5)])
    measures = (
        measure("max", "long"),
        measure("median", "double"),
        measure("covar", "double", "double"),
    )
    assert evolve(made, guarded(node_of(KEYS, measures[:2], "changelog"), "refuse")) == ()
    made.check()


def test_other_rows_other_groups_and_other_options_are_named(tmp_path: Path) -> None:
    """Other grouping keys and other weights are refused with a message of their own."""
    made = world(tmp_path, LEAST)
    made.batch([row(k0=1, long=3)])
    assert evolve(made, node_of(("k1",), (LEAST,), "changelog")) == (
        "the plan reads other rows, or groups them by other keys",
    )
    (reason,) = evolve(made, node_of(KEYS, (LEAST,), "weighted"))
    assert "weight= or op=" in reason


def test_tables_read_in_another_order_are_refused(tmp_path: Path) -> None:
    """Tables in another order are refused, because Spark identifies its sources by position."""
    here = document(world(tmp_path, LEAST).node)
    other = replace(here, inputs=(InputSchema("a", ()), InputSchema("t", ())))
    last = Snapshot(1, "", (OperatorState(),), ())
    assert "a, t" in evolution(here, other, last)[1][0]
    again = replace(here, inputs=(*here.inputs, InputSchema("t", ("x",))))
    assert evolution(here, again, last)[0] is not None, "one source, whatever is read of it"
    assert evolution(here, here, None)[1] == ("the checkpoint has no version yet",)


def test_the_error_names_all_reasons_and_what_to_do() -> None:
    """A different option has its own code, also with other differences."""
    here = document(node_of(KEYS, (LEAST,), "changelog"))
    other = replace(here, plan="1" * 64)
    with pytest.raises(StateRefused) as refused:
        check_evolved(here, other, "folder", None, reasons=("this", "that"), evolve=True)
    assert refused.value.code == "EVOLVE_REFUSED"
    assert "this; that" in refused.value.message
    assert refused.value.help
    with pytest.raises(StateRefused) as refused:
        check_evolved(
            here, replace(other, forget="keep"), "folder", None, reasons=("this",), evolve=True
        )
    assert refused.value.code == "TTL_DIFFERS"
    with pytest.raises(StateRefused) as refused:
        check_evolved(here, other, "folder", None, reasons=("this",), evolve=False)
    assert refused.value.code == "PLAN_DIFFERS"
    assert "--evolve" not in (refused.value.help or "")


def test_a_document_that_contradicts_itself_is_none(tmp_path: Path) -> None:
    """Extremes that are repeated, unknown or missing; trees with unknown content, or with counts of missing content."""
    made = world(tmp_path, LEAST, measure("list", "text"), weight="append_only")
    (kept,) = document(made.node).state_schemas
    kept.check()
    (end,), (ends, rows) = kept.extremes, kept.trees
    assert (ends.holds, ends.entries, rows.holds) == ("ends", None, "rows")
    wrong = (
        {"extremes": ()}, {"extremes": (end, end)}, {"extremes": (replace(end, side="middle"),)},
        {"trees": (replace(ends, holds="rows"), rows)}, {"trees": (ends, replace(rows, entries=None))},
        {"trees": (replace(ends, entries=0), rows)}, {"trees": (ends, replace(rows, holds="much"))},
        {"trees": (ends, replace(rows, skipped=(3,)))},
    )  # fmt: skip
    for changed in wrong:
        with pytest.raises(ValueError, match=r"an? (tree|end)"):
            replace(kept, **changed).check()


def test_what_cannot_be_made_is_refused_whoever_reads_it(tmp_path: Path) -> None:
    """A new measure is refused although a manually changed document claims that it is stored."""
    made = world(tmp_path, LEAST, weight="append_only")
    made.batch([row(k0=1, long=3)])
    there, state = document(made.node), made.now.state
    (kept,) = there.state_schemas
    lost = replace(
        there, state_schemas=(replace(kept, trees=(replace(kept.trees[0], print="0"),)),)
    )
    last = Snapshot(1, "0" * 64, (state,), (), {})
    found, reasons = evolution(lost, document(node_of(KEYS, (COUNT, LEAST), "append_only")), last)
    assert found is None
    assert reasons
    assert "not in the stored state" in reasons[0]
