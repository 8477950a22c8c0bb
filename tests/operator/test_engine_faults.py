"""Known error cases of incremental aggregates: each test is a bug of some engine."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from substrait_agg.commit.documents.snapshot import OperatorState
from substrait_agg.commit.tasks.task import run_task
from substrait_agg.commit.tasks.task_plan import TaskPlan
from substrait_agg.functions.aggregates.kinds import MeasureKind
from substrait_agg.operator.aggregate.operator import GroupOperator
from substrait_agg.operator.common.names import GROUP, PENDING
from substrait_agg.plan.types import I64
from substrait_agg.state.run import HASH_MAX
from tests.operator.measures_build import (
    EVERYTHING,
    FLAG,
    OTHER,
    Saved,
    changes_of,
    gone,
    measure,
    row,
    world,
)
from tests.operator.measures_draw import DRAWS, DrawnMeasures, Stream, node_of
from tests.operator.measures_world import World, merging_soon

# --- restarts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", DRAWS)
def test_every_measure_goes_on_from_the_committed_state(kind: MeasureKind, tmp_path: Path) -> None:
    """A batch that was not committed leaves no trace in the state, although it wrote files."""
    random = Random(kind)
    measures = tuple(DRAWS[kind](DrawnMeasures(random, f"m{i}")) for i in range(3))
    stream = Stream(random, "changelog", early=True)
    with merging_soon(1, 1 << 20):
        made = World(node_of(("k0", "k1"), measures, "changelog"), tmp_path, page_rows=3)
        for _ in range(3):
            made.batch(stream.batch(), 2)
        saved = Saved(made)
        made.batch(stream.batch(), 4)
        saved.restore(made)
        for _ in range(2):
            made.batch(stream.batch(), 2)
            made.check()


def test_merges_leave_older_versions_readable(tmp_path: Path) -> None:
    """Merging writes new runs; the runs that an older version names stay as they are."""
    with merging_soon(1, 1 << 20):
        made = world(tmp_path, measure("min", "long"), measure("list", "text"), page_rows=2)
        made.batch([row(k0=i % 3, long=i, text=str(i)) for i in range(9)])
        saved, shown = Saved(made), made.view()
        for i in range(9):
            made.batch([row(k0=i % 3, long=-i, text="z")])
        saved.restore(made)
        assert made.view() == shown
        made.batch([row(k0=0, long=-1)])
        made.check()


def test_keys_waiting_to_be_emitted_survive_a_restart(tmp_path: Path) -> None:
    """A group that was touched without emission is emitted after a restart, even without further rows."""
    made = world(tmp_path, measure("max", "long"), measure("sum", "long"))
    made.batch([row(k0=1, long=1), row(k0=2, long=2)])
    made.batch([row(k0=1, long=9), *gone(row(k0=2, long=2))], emit=False)
    saved = Saved(made)
    made.batch([row(k0=1, long=10)])
    saved.restore(made)
    made.batch([])
    made.check()
    assert not made.now.state[PENDING]


def test_a_restart_before_the_first_emission_emits_everything_once(tmp_path: Path) -> None:
    """Rows taken up before anything was emitted appear with the first emission, and only then."""
    made = world(tmp_path, measure("count"), measure("list", "text"))
    made.batch([row(k0=1, text="a")], emit=False)
    saved = Saved(made)
    made.batch([])
    saved.restore(made)
    made.batch([])
    assert changes_of(made) == [(1, 1)]
    made.batch([])
    assert changes_of(made) == []
    made.check()


def test_the_same_batch_on_the_same_version_does_the_same(tmp_path: Path) -> None:
    """A repeated batch has the same changes in the same order, regardless of files of the first attempt."""
    random = Random(7)
    made = world(
        tmp_path, measure("list", "text", order=("-long",)), measure("surrogate_key"), page_rows=2
    )
    stream = Stream(random, "changelog", early=False)
    made.batch(stream.batch())
    saved, rows = Saved(made), stream.batch()
    made.batch(rows)
    first = changes_of(made), made.view()
    saved.restore(made)
    made.batch(rows)
    assert (changes_of(made), made.view()) == first


def test_computed_keys_are_found_again_after_a_restart(tmp_path: Path) -> None:
    """A key expression is stored as its value, so its group is found after a restart."""
    node = node_of(("flag",), (measure("sum", "long"),), "changelog")
    node = replace(node, inputs=(replace(node.inputs[0], keys=(OTHER,)),))
    made = World(node, tmp_path)
    made.batch([row(flag=True, long=1), row(flag=False, long=10)])
    Saved(made).restore(made)
    made.batch([row(flag=True, long=2), row(long=5)])
    made.check()
    assert made.value(False) == (Decimal(3),)


# --- groups come and go ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["list", "sum", "min", "string_agg", "surrogate_key"])
def test_an_emptied_group_vanishes(kind: MeasureKind, tmp_path: Path) -> None:
    """When its last row goes, a group is retracted; it does not stay with nulls or an empty list."""
    names = {"string_agg": ("text",), "surrogate_key": ()}.get(kind, ("long",))
    constants = (",",) if kind == "string_agg" else ()
    made = world(tmp_path, measure(kind, *names, constants=constants))
    only = row(k0=1, long=3, text="a")
    made.batch([only, row(k0=2, long=4, text="b")])
    made.batch(gone(only))
    assert set(made.view()) == {(2,)}
    assert [weight for weight, _ in changes_of(made)] == [-1]
    made.check()


def test_a_grouping_without_measures_keeps_its_keys(tmp_path: Path) -> None:
    """Keys alone come with their first row and go with their last."""
    made = world(tmp_path, keys=("k0", "k1"))
    made.batch([row(k0=1), row(k0=1), row(k1="a")])
    assert set(made.view()) == {(1, None), (None, "a")}
    made.batch(gone(row(k0=1)))
    assert changes_of(made) == []
    made.batch(gone(row(k0=1)))
    assert set(made.view()) == {(None, "a")}
    made.check()


def test_a_group_whose_rows_cancel_in_one_batch_is_never_shown(tmp_path: Path) -> None:
    """Inserted and deleted in the batch that would have made it, a group leaves neither changes nor state."""
    made = world(tmp_path, measure("list", "long"), measure("avg", "double"))
    made.batch([row(k0=1, long=3, double=0.1), *gone(row(k0=1, long=3, double=0.1))])
    assert changes_of(made) == []
    assert not made.now.state.trees


def test_a_new_group_deleted_before_it_was_shown_leaves_nothing(tmp_path: Path) -> None:
    """A group that came and went between two emissions is not emitted, and the key that waits for it does no harm."""
    made = world(tmp_path, measure("max", "long"))
    made.batch([row(k0=1, long=3)], emit=False)
    made.batch(gone(row(k0=1, long=3)), emit=False)
    made.batch([row(k0=2, long=3)])
    assert changes_of(made) == [(1, 3)]
    assert made.groups_kept() == 1
    made.check()


def test_a_group_emptied_and_refilled_in_one_batch_shows_the_new_rows(tmp_path: Path) -> None:
    """All rows replaced at once: one retraction and one insertion, and the same surrogate key."""
    made = world(
        tmp_path, measure("min", "long"), measure("list", "long"), measure("surrogate_key")
    )
    old = [row(k0=1, long=i) for i in range(5)]
    made.batch(old)
    key = made.value(1)[2]
    made.batch([*gone(*old), row(k0=1, long=7)])
    assert made.value(1) == (7, (7,), key)
    assert [weight for weight, _ in changes_of(made)] == [-1, 1]
    made.check()


def test_a_group_that_comes_back_gets_a_new_surrogate_key(tmp_path: Path) -> None:
    """Surrogate keys are never reused."""
    made = world(tmp_path, measure("surrogate_key"))
    made.batch([row(k0=1), row(k0=2)])
    (first,), (other,) = made.value(1), made.value(2)
    made.batch(gone(row(k0=1)))
    made.batch([row(k0=1)])
    assert made.value(1) != (first,)
    assert made.value(2) == (other,)


def test_removal_and_insertion_are_emitted_together(tmp_path: Path) -> None:
    """Without emission nothing is published, so no reader sees half of an update."""
    made = world(tmp_path, measure("sum", "long"))
    made.batch([row(k0=1, long=5)])
    made.batch([*gone(row(k0=1, long=5)), row(k0=2, long=5)], emit=False)
    assert changes_of(made) == []
    assert set(made.view()) == {(1,)}
    made.batch([])
    assert [weight for weight, _ in changes_of(made)] == [-1, 1]
    made.check()


def test_retractions_stand_before_insertions(tmp_path: Path) -> None:
    """A reader that applies changes in order by key loses no row."""
    made = world(tmp_path, measure("sum", "long"), page_rows=2)
    made.batch([row(k0=i, long=i) for i in range(20)])
    made.batch([row(k0=i, long=1) for i in range(20)])
    weights = [weight for weight, _ in changes_of(made)]
    assert weights == [-1] * 20 + [1] * 20


def test_a_deletion_is_emitted_when_nothing_else_changes(tmp_path: Path) -> None:
    """A batch of deletions alone publishes its retractions."""
    made = world(tmp_path, measure("count"))
    made.batch([row(k0=i) for i in range(5)])
    made.batch(gone(row(k0=3)))
    assert changes_of(made) == [(-1, 1)]


def test_a_touched_but_unchanged_group_emits_nothing(tmp_path: Path) -> None:
    """Rows that cancel, or change nothing that is shown, make no pair of equal changes."""
    made = world(tmp_path, measure("max", "long"), measure("count", "long", distinct=True))
    made.batch([row(k0=1, long=5)])
    made.batch([row(k0=1, long=5), row(k0=1, long=3), *gone(row(k0=1, long=3))])
    assert changes_of(made) == []
    made.check()


def test_new_groups_start_from_nothing(tmp_path: Path) -> None:
    """A new group does not inherit values of the groups before it in the batch or page."""
    made = world(
        tmp_path, measure("count"), measure("sum", "long"), measure("max", "long"), page_rows=3
    )
    made.batch([row(k0=i, long=100 + i) for i in range(0, 40, 2) for _ in range(i + 1)])
    made.batch([row(k0=i, long=100 + i) for i in range(40)])
    made.check()


# --- pages, keys, alignment ------------------------------------------------------------------------


@pytest.mark.parametrize("page_rows", [1, 2, 3, 5, 8])
def test_values_stay_with_their_groups_across_pages(page_rows: int, tmp_path: Path) -> None:
    """Updates, deletions and insertions side by side, over groups that begin and end anywhere in a page."""
    made = world(tmp_path, *EVERYTHING, page_rows=page_rows)
    rows = [row(k0=i, long=i * j, text=f"{i}-{j}") for i in range(12) for j in range(i % 4 + 1)]
    made.batch(rows)
    made.check()
    updated = [row(k0=r.values[0], long=-1, text="new") for r in rows if r.values[0] % 3 == 0]
    removed = [r for r in rows if r.values[0] % 3 < 2]
    made.batch([*gone(*removed), *updated, *(row(k0=i, long=5) for i in range(12, 18))])
    made.check()


def test_keys_between_and_beyond_all_pages_find_their_place(tmp_path: Path) -> None:
    """New groups before, between and behind the stored ones, one per batch."""
    made = world(tmp_path, measure("sum", "long"), measure("min", "long"), page_rows=1)
    order = list(range(30))
    Random(3).shuffle(order)
    for i in order:
        made.batch([row(k0=i, long=i)])
    made.check()


@pytest.mark.parametrize("spread", [1, 2**32])
def test_groups_that_differ_in_the_second_key_only_stay_apart(spread: int, tmp_path: Path) -> None:
    """Also nulls against empty texts, and where all keys have one hash."""
    made = world(tmp_path, *EVERYTHING, keys=("k0", "k1"), spread=spread, page_rows=2)
    keys = [(a, b) for a in (None, 0, 1) for b in (None, "", "a")]
    made.batch([row(k0=a, k1=b, long=i) for i, (a, b) in enumerate(keys)])
    made.check()
    made.batch([row(k0=None, k1=None, long=50), *gone(row(k0=0, k1=None, long=3))])
    made.check()


@pytest.mark.parametrize("partitions", [1, 2, 4])
def test_every_number_of_partitions_gives_the_same_view(partitions: int, tmp_path: Path) -> None:
    """The view is the same for every number of partitions, and any number can read the state."""
    made = world(tmp_path, *EVERYTHING, page_rows=2)
    stream = Stream(Random(11), "changelog", early=True)
    for batch in range(6):
        made.batch(stream.batch(), partitions if batch % 2 else 1)
        made.check()


def test_filtered_and_null_rows_shift_nothing(tmp_path: Path) -> None:
    """Rows that a measure skips do not move values of other rows to other groups."""
    made = world(
        tmp_path, measure("list", "long", filter_=FLAG), measure("sum", "long", filter_=FLAG),
        measure("max_by", "text", "long", filter_=OTHER), measure("list", "text", keep_nulls=True),
    )  # fmt: skip
    flags = (True, False, None)
    made.batch(
        [row(k0=i % 4, long=None if i % 5 == 0 else i, flag=flags[i % 3], text=str(i)) for i in range(40)]
    )  # fmt: skip
    made.check()


def test_an_empty_batch_changes_nothing(tmp_path: Path) -> None:
    """An empty batch changes nothing, before the first row and later."""
    made = world(tmp_path, *EVERYTHING)
    made.batch([], 2)
    assert not made.now.state.trees
    assert changes_of(made) == []
    made.batch([row(k0=1, long=1)], 2)
    names = {f.name for f in made.now.state[GROUP]}
    made.batch([], 2)
    assert changes_of(made) == []
    assert {f.name for f in made.now.state[GROUP]} == names
    made.check()


def test_no_empty_run_is_written(tmp_path: Path) -> None:
    """A batch that cancels out makes no file at all."""
    made = world(tmp_path, *EVERYTHING)
    made.batch([row(k0=1, long=1, text="a"), *gone(row(k0=1, long=1, text="a"))])
    assert list((tmp_path / "state").iterdir()) == []


def test_changes_have_the_columns_asked_for_in_their_order(tmp_path: Path) -> None:
    """The output mapping of the plan defines the written columns, not the layout of the operator."""
    made = world(tmp_path, measure("sum", "sure_long", type_=I64), measure("count"))
    plan = TaskPlan(
        str(tmp_path), 0, GroupOperator(made.spec), 0, HASH_MAX, OperatorState(), 1,
        (("v1", "c0"), ("k0", "c1"), ("v1", "c2")), True, unaggregated=True,
    )  # fmt: skip
    (file,) = run_task(plan, [made.raw_rows([row(k0=7, sure_long=5)])]).changes
    table = pq.read_table(tmp_path / "changes" / file.name)
    assert [n for n in table.column_names if n.startswith("c")] == ["c0", "c1", "c2"]
    assert [table.column(n).to_pylist() for n in ("c0", "c1", "c2")] == [[1], [7], [1]]


# --- the group of everything -------------------------------------------------------------------------


def test_the_global_group_is_there_before_and_after_all_rows(tmp_path: Path) -> None:
    """The global group is in the view without rows, and after all are deleted, with empty values."""
    made = world(
        tmp_path, measure("count"), measure("sum", "long"), measure("list", "long"), measure("max", "long"),
        measure("surrogate_key"), keys=(),
    )  # fmt: skip
    made.batch([])
    *empty, key = made.value()
    assert empty == [0, None, (), None]
    made.batch([row(long=5)])
    made.batch(gone(row(long=5)))
    assert made.value() == (*empty, key)
    assert [weight for weight, _ in changes_of(made)] == [-1, 1]


def test_empty_grouping_sets_are_there_before_and_after_all_rows(tmp_path: Path) -> None:
    """One row for each empty set, none for the others; the same set twice makes two rows."""
    made = world(
        tmp_path, measure("count"), measure("min", "long"), keys=("k0",), sets=((0,), (), ())
    )
    made.batch([], 2)
    assert set(made.view()) == {(None, 1), (None, 2)}
    made.batch([row(long=3), row(k0=1, long=4)], 4)
    made.check()
    assert (None, 0) in made.view()
    made.batch(gone(row(long=3), row(k0=1, long=4)), 2)
    assert set(made.view()) == {(None, 1), (None, 2)}
    made.check()
