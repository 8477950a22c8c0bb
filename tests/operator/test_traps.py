"""What must hold where incremental aggregates are known to go wrong: each test is a fault that some engine once had."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest

from substrait_agg.bind.bound import BoundMeasure, Call
from substrait_agg.commit.task import TaskPlan, run_task
from substrait_agg.flow.measures import share
from substrait_agg.functions.accumulators import MeasureKind
from substrait_agg.operator.spec import operator_spec
from substrait_agg.plan.types import BOOL, FP64, I32, I64, Type, decimal
from substrait_agg.state.run import HASH_MAX
from tests.operator.measures_build import gone, measure, row, world
from tests.operator.measures_draw import DRAWS, Draft, Stream, column, node_of
from tests.operator.measures_world import World, merging_soon

FLAG = column("flag")
OTHER = Call(BOOL, "not", (FLAG,))


class Saved:
    """What a snapshot holds of a world: going back to it is what a restart after a crash does."""

    def __init__(self, world: World) -> None:
        self.now, self.rows, self.log = world.now, list(world.rows), Counter(world.log)

    def restore(self, world: World) -> None:
        """Forget everything later."""
        world.now, world.rows, world.log = self.now, list(self.rows), Counter(self.log)


def changes_of(world: World) -> list[tuple[int, Any]]:
    """The changes of the last batch: (weight, first measure) in the order written."""
    files = [c for r in world.results for c in r.changes]
    tables = [pq.read_table(world.folder / "changes" / f.name) for f in files]
    return [(r["__weight"], r.get("v0")) for t in tables for r in t.to_pylist()]


# --- restarts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", DRAWS)
def test_every_measure_goes_on_from_the_committed_state(kind: MeasureKind, tmp_path: Path) -> None:
    """A batch that was not committed leaves no trace in the state, whatever it wrote."""
    random = Random(kind)
    measures = tuple(DRAWS[kind](Draft(random, f"m{i}")) for i in range(3))
    stream = Stream(random, "sign", early=True)
    with merging_soon(1, 1 << 20):
        made = World(node_of(("k0", "k1"), measures, "sign"), tmp_path, page_rows=3)
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
    """What was touched without emission is emitted after a restart, even if nothing touches it again."""
    made = world(tmp_path, measure("max", "long"), measure("sum", "long"))
    made.batch([row(k0=1, long=1), row(k0=2, long=2)])
    made.batch([row(k0=1, long=9), *gone(row(k0=2, long=2))], emit=False)
    saved = Saved(made)
    made.batch([row(k0=1, long=10)])
    saved.restore(made)
    made.batch([])
    made.check()
    assert made.now.pending == ()


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
    """A repeated batch gives the same changes in the same order, whatever the first attempt left behind."""
    random = Random(7)
    made = world(
        tmp_path, measure("list", "text", order=("-long",)), measure("surrogate_key"), page_rows=2
    )
    stream = Stream(random, "sign", early=False)
    made.batch(stream.batch())
    saved, rows = Saved(made), stream.batch()
    made.batch(rows)
    first = changes_of(made), made.view()
    saved.restore(made)
    made.batch(rows)
    assert (changes_of(made), made.view()) == first


def test_computed_keys_are_found_again_after_a_restart(tmp_path: Path) -> None:
    """A key that is an expression is kept as its value, not as a place in the input."""
    node = node_of(("flag",), (measure("sum", "long"),), "sign")
    node = replace(node, keys=(OTHER,))
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
    assert not made.now.group
    assert made.now.trees == ((),)


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
    """Keys are never given twice."""
    made = world(tmp_path, measure("surrogate_key"))
    made.batch([row(k0=1), row(k0=2)])
    (first,), (other,) = made.value(1), made.value(2)
    made.batch(gone(row(k0=1)))
    made.batch([row(k0=1)])
    assert made.value(1) != (first,)
    assert made.value(2) == (other,)


def test_removal_and_insertion_are_emitted_together(tmp_path: Path) -> None:
    """Without emission nothing at all is published, no retraction either: no half of an update is ever to be seen."""
    made = world(tmp_path, measure("sum", "long"))
    made.batch([row(k0=1, long=5)])
    made.batch([*gone(row(k0=1, long=5)), row(k0=2, long=5)], emit=False)
    assert changes_of(made) == []
    assert set(made.view()) == {(1,)}
    made.batch([])
    assert [weight for weight, _ in changes_of(made)] == [-1, 1]
    made.check()


def test_retractions_stand_before_insertions(tmp_path: Path) -> None:
    """Whoever applies changes in order by key loses no row."""
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
    """No group begins with what its neighbour in the batch or in the page has gathered."""
    made = world(
        tmp_path, measure("count"), measure("sum", "long"), measure("max", "long"), page_rows=3
    )
    made.batch([row(k0=i, long=100 + i) for i in range(0, 40, 2) for _ in range(i + 1)])
    made.batch([row(k0=i, long=100 + i) for i in range(40)])
    made.check()


# --- pages, keys, alignment ------------------------------------------------------------------------

EVERYTHING: tuple[BoundMeasure, ...] = (
    measure("count"),
    measure("sum", "long"),
    measure("min", "long"),
    measure("max", "text"),
    measure("list", "long"),
    measure("count", "text", distinct=True),
    measure("median", "long"),
    measure("min_by", "text", "long"),
    measure("first_value", "text", order=("-long",)),
)


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
    """One code path whatever the parallelism, and state that any number of partitions can read."""
    made = world(tmp_path, *EVERYTHING, page_rows=2)
    stream = Stream(Random(11), "sign", early=True)
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
    """Neither before the first row nor after."""
    made = world(tmp_path, *EVERYTHING)
    made.batch([], 2)
    assert not made.now.group
    assert changes_of(made) == []
    made.batch([row(k0=1, long=1)], 2)
    names = {f.name for f in made.now.group}
    made.batch([], 2)
    assert changes_of(made) == []
    assert {f.name for f in made.now.group} == names
    made.check()


def test_no_empty_run_is_written(tmp_path: Path) -> None:
    """A batch that cancels out makes no file at all."""
    made = world(tmp_path, *EVERYTHING)
    made.batch([row(k0=1, long=1, text="a"), *gone(row(k0=1, long=1, text="a"))])
    assert list((tmp_path / "state").iterdir()) == []


def test_changes_have_the_columns_asked_for_in_their_order(tmp_path: Path) -> None:
    """What the plan emits is what is written, not what the operator happens to have."""
    made = world(tmp_path, measure("sum", "sure_long", type_=I64), measure("count"))
    plan = TaskPlan(
        str(tmp_path), 0, made.spec, 0, HASH_MAX, (), (), 1, True,
        (("v1", "c0"), ("k0", "c1"), ("v1", "c2")), True, raw=True,
    )  # fmt: skip
    (file,) = run_task(plan, [made.raw_rows([row(k0=7, sure_long=5)])]).changes
    table = pq.read_table(tmp_path / "changes" / file.name)
    assert [n for n in table.column_names if n.startswith("c")] == ["c0", "c1", "c2"]
    assert [table.column(n).to_pylist() for n in ("c0", "c1", "c2")] == [[1], [7], [1]]


# --- nulls, filters, sharing -----------------------------------------------------------------------


def test_extremes_ignore_nulls(tmp_path: Path) -> None:
    """Null is neither the least nor the greatest value; of nulls alone the extreme is null."""
    made = world(tmp_path, measure("min", "long"), measure("max", "long"))
    made.batch([row(k0=1), row(k0=1, long=4), row(k0=2)])
    assert made.value(1) == (4, 4)
    assert made.value(2) == (None, None)
    made.batch(gone(row(k0=1, long=4)))
    assert made.value(1) == (None, None)


def test_sums_turn_null_again_when_only_nulls_are_left(tmp_path: Path) -> None:
    """Whatever the group held before: the same rows show the same values."""
    names = ("long", "double", "cents")
    made = world(tmp_path, *(measure(k, n) for k in ("sum", "avg", "sum0") for n in names))
    full = row(k0=1, long=5, double=0.5, cents=Decimal("1.25"))
    made.batch([row(k0=1), full])
    made.batch(gone(full))
    made.check()
    assert made.value(1)[:6] == (None,) * 6


def test_the_zero_of_sum0_has_the_type_of_the_measure(tmp_path: Path) -> None:
    """An integer for integers, a float for floats, a decimal with its scale for decimals."""
    sure = [I64.as_nullable(False), FP64.as_nullable(False), decimal(38, 2, False)]
    made = world(
        tmp_path, measure("sum0", "long", type_=sure[0]), measure("sum0", "double", type_=sure[1]),
        measure("sum0", "cents", type_=sure[2]), keys=(),
    )  # fmt: skip
    made.batch([])
    assert [repr(v) for v in made.value()] == ["0", "0.0", "Decimal('0.00')"]


def test_filters_hold_for_every_measure_and_not_for_the_group(tmp_path: Path) -> None:
    """A group none of whose rows passes is shown with nothing in it."""
    kinds: tuple[tuple[MeasureKind, str], ...] = (
        ("count", "long"), ("sum", "long"), ("avg", "double"), ("variance", "double"), ("bool_or", "flag"),
        ("min", "long"), ("median", "long"), ("list", "long"),
    )  # fmt: skip
    made = world(tmp_path, *(measure(k, n, filter_=OTHER) for k, n in kinds))
    made.batch([row(k0=1, long=5, double=0.5, flag=True), row(k0=1, long=6)])
    assert made.value(1) == (0, None, None, None, None, None, None, ())
    made.batch([row(k0=1, long=7, double=2.5, flag=False)])
    made.check()


def test_state_is_shared_by_what_it_holds(tmp_path: Path) -> None:
    """One tree for all measures over a value and filter; another filter or another treatment of nulls has its own."""
    same = [
        measure("min", "long"), measure("max", "long"), measure("count", "long", distinct=True),
        measure("list", "long"), measure("median", "long"),
    ]  # fmt: skip
    assert len(share(tuple(same), "sign").trees) == 1
    others = [
        measure("min", "long", filter_=FLAG), measure("min", "long", filter_=OTHER),
        measure("list", "long", keep_nulls=True),
    ]  # fmt: skip
    assert len(share((*same, *others), "sign").trees) == 4
    made = world(tmp_path, *same, *others)
    made.batch([row(k0=1, long=i, flag=i % 2 == 0) for i in range(6)])
    made.batch([*gone(row(k0=1, long=0, flag=True)), row(k0=1)])
    made.check()


def test_distinct_and_order_are_obeyed(tmp_path: Path) -> None:
    """They are part of the measure, not decoration."""
    made = world(
        tmp_path, measure("sum", "long", distinct=True), measure("sum", "long"),
        measure("string_agg", "text", order=("-long",), constants=("",)),
        measure("string_agg", "text", constants=("",), distinct=True),
    )  # fmt: skip
    made.batch([row(k0=1, long=n, text=t) for n, t in ((3, "a"), (3, "b"), (5, "a"), (1, "c"))])
    assert made.value(1) == (Decimal(9), Decimal(12), "aabc", "abc")
    made.batch(gone(row(k0=1, long=3, text="a")))
    assert made.value(1) == (Decimal(9), Decimal(9), "abc", "abc")
    made.batch(gone(row(k0=1, long=3, text="b")))
    assert made.value(1) == (Decimal(6), Decimal(6), "ac", "ac")


def test_min_by_compares_its_second_argument_by_that_one_s_type(tmp_path: Path) -> None:
    """Numbers as numbers, although what is returned is a text; a null that wins is returned, a null y never wins."""
    made = world(tmp_path, measure("min_by", "text", "long"), measure("max_by", "text", "long"))
    made.batch(
        [row(k0=1, text="nine", long=9), row(k0=1, text="ten", long=10), row(k0=1, text="x")]
    )
    assert made.value(1) == ("nine", "ten")
    made.batch([row(k0=1, long=11), row(k0=1, long=-10, text="low")])
    assert made.value(1) == ("low", None)


def test_ties_of_min_by_are_decided_by_the_value(tmp_path: Path) -> None:
    """The least for min_by, the greatest for max_by: never the one that came first."""
    made = world(tmp_path, measure("min_by", "text", "long"), measure("max_by", "text", "long"))
    made.batch([row(k0=1, text=t, long=5) for t in ("m", "z", "a")])
    assert made.value(1) == ("a", "z")


def test_elements_of_lists_are_united_group_by_group(tmp_path: Path) -> None:
    """Nulls inside are kept once, null lists add nothing, and elements of one group never reach another."""
    union = measure("list_union_distinct", "list", type_=Type("list", False, (), (I32,)))
    made = world(tmp_path, union, page_rows=2)
    made.batch([row(k0=i % 3, list=[i, i + 1, None, None]) for i in range(9)])
    made.batch([row(k0=1), row(k0=5, list=[]), *gone(row(k0=0, list=[0, 1, None, None]))])
    made.check()
    assert made.value(5) == ((),)


def test_an_empty_text_is_a_text(tmp_path: Path) -> None:
    """One empty text and an empty separator make an empty text; null is for no text at all."""
    made = world(tmp_path, measure("string_agg", "text", constants=("",)))
    made.batch([row(k0=1, text=""), row(k0=2)])
    assert made.view() == {(1,): ("",), (2,): (None,)}


# --- the group of everything -------------------------------------------------------------------------


def test_the_global_group_is_there_before_and_after_all_rows(tmp_path: Path) -> None:
    """Shown over no rows, and again when all are gone, with the values of nothing and a key of its own."""
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


# --- retractions before insertions -------------------------------------------------------------------


def test_an_early_retraction_loses_no_earlier_contribution(tmp_path: Path) -> None:
    """A sum whose count touches zero on the way is whole again when the insertion comes."""
    made = world(
        tmp_path, measure("sum", "long"), measure("avg", "double"), measure("count", "long")
    )
    made.batch([row(k0=1, long=5, double=0.5), row(k0=1)])
    late = row(k0=1, long=7, double=1.5)
    made.batch(gone(late))
    assert made.value(1) == (None, None, 0)
    made.batch(gone(late))
    made.batch([late, late])
    assert made.value(1) == (Decimal(5), 0.5, 1)


def test_a_group_of_weight_zero_keeps_the_rows_it_has(tmp_path: Path) -> None:
    """One row there and one owed: the group is not shown, and comes back with everything."""
    made = world(tmp_path, *EVERYTHING)
    made.batch([row(k0=1, long=5, text="a"), *gone(row(k0=1, long=7, text="b"))])
    assert made.view() == {}
    made.batch([row(k0=1, long=7, text="b")])
    made.check()
    assert made.value(1)[:3] == (1, Decimal(5), 5)


def test_what_is_owed_is_not_there(tmp_path: Path) -> None:
    """A value with a negative weight is no extreme, no element and no distinct value, and is none until it is paid."""
    union = measure("list_union_distinct", "list", type_=Type("list", False, (), (I32,)))
    made = world(
        tmp_path, measure("min", "long"), measure("max", "long"), measure("min_by", "text", "long"),
        measure("count", "long", distinct=True), union,
    )  # fmt: skip
    made.batch([row(k0=1, long=5, text="a", list=[1]) for _ in range(4)])
    owed = row(k0=1, long=-9, text="b", list=[2])
    shown = (5, 5, "a", 1, (1,))
    made.batch(gone(owed, owed))
    assert made.value(1) == shown
    made.batch([owed])
    assert made.value(1) == shown
    made.batch([owed])
    assert made.value(1) == shown
    made.batch([owed])
    assert made.value(1) == (-9, 5, "b", 2, (1, 2))


@pytest.mark.parametrize("distinct", [False, True])
def test_counts_are_never_negative(distinct: bool, tmp_path: Path) -> None:
    """Whatever is owed; and averages over nothing are null, not a division by zero."""
    made = world(
        tmp_path,
        measure("count", "long", distinct=distinct),
        measure("avg", "long", distinct=distinct),
    )
    made.batch([row(k0=1), row(k0=1), row(k0=1), *gone(row(k0=1, long=1), row(k0=1, long=2))])
    assert made.value(1) == (0, None)
    made.batch([row(k0=1, long=1), row(k0=1, long=2), row(k0=1, long=2)])
    assert made.value(1) == (1, Decimal(2))


def test_deleting_what_was_never_there_breaks_nothing(tmp_path: Path) -> None:
    """Inconsistent deletions are carried; other groups and later batches are as they should be."""
    made = world(tmp_path, *EVERYTHING)
    made.batch([row(k0=2, long=1), *gone(row(k0=1, long=9, text="x"))])
    made.check()
    made.batch([row(k0=1, long=3, text="y"), row(k0=1, long=4)])
    made.check()
    assert made.value(1)[0] == 1


# --- numbers -----------------------------------------------------------------------------------------


def test_floats_leave_no_residue(tmp_path: Path) -> None:
    """Large numbers, infinities and NaN are gone when their rows are."""
    made = world(
        tmp_path, measure("sum", "double"), measure("avg", "double"), measure("variance", "double")
    )
    stay = [row(k0=1, double=x) for x in (0.1, 0.2, 0.3)]
    made.batch(stay)
    before = made.value(1)
    passing = [row(k0=1, double=x) for x in (1e300, math.inf, -math.inf, math.nan, -1e20)]
    made.batch(passing)
    assert made.value(1) == ("NaN", "NaN", "NaN")
    made.batch(gone(*passing))
    assert made.value(1) == before


@pytest.mark.parametrize("size", [1.1e31, 1.01e31, 1e308, 1e-39, 5e-324])
def test_floats_of_every_size_add_up(size: float, tmp_path: Path) -> None:
    """Opposite numbers cancel to zero, and a small one alone is itself."""
    made = world(tmp_path, measure("sum", "double"), measure("sum", "double", distinct=True))
    made.batch([row(k0=1, double=size), row(k0=1, double=-size), row(k0=2, double=size)])
    assert made.view() == {(1,): (0.0, 0.0), (2,): (size, size)}


def test_totals_beyond_their_type_come_back(tmp_path: Path) -> None:
    """Integers and decimals pass the ends of their types on the way and are right again afterwards."""
    made = world(
        tmp_path, measure("sum", "long", type_=I64, options=(("OVERFLOW", "SATURATE"),)),
        measure("sum", "wide", options=(("OVERFLOW", "SATURATE"),)),
    )  # fmt: skip
    big = row(k0=1, long=2**63 - 1, wide=Decimal("9" * 34 + ".9999"))
    made.batch([big] * 3)
    assert made.value(1)[0] == 2**63 - 1
    made.batch(gone(big, big))
    assert made.value(1) == (2**63 - 1, big.values[9])


# --- multiplicity, stale extremes --------------------------------------------------------------------


def test_equal_rows_count_as_often_as_they_occur(tmp_path: Path) -> None:
    """Lists, texts and ranks hold every occurrence, and a deletion takes exactly one away."""
    made = world(
        tmp_path, measure("list", "long"), measure("string_agg", "text", constants=("",)),
        measure("median", "long"), measure("mode", "long"),
    )  # fmt: skip
    one, two = row(k0=1, long=1, text="a"), row(k0=1, long=9, text="b")
    made.batch([one, one, one, two, two])
    assert made.value(1) == ((1, 1, 1, 9, 9), "aaabb", 1, 1)
    made.batch(gone(one, one))
    assert made.value(1) == ((1, 9, 9), "abb", 9, 9)


def test_lists_have_no_limit_after_which_deletions_are_lost(tmp_path: Path) -> None:
    """Thousands of values, and any of them can go."""
    made = world(tmp_path, measure("list", "long"))
    rows = [row(k0=1, long=i) for i in range(3000)]
    made.batch(rows)
    made.batch(gone(*rows[1:-1]))
    assert made.value(1) == ((0, 2999),)


def test_a_retracted_extreme_is_not_shown_again(tmp_path: Path) -> None:
    """Each deletion of the maximum brings the next one up, also of one that arrived in between."""
    made = world(tmp_path, measure("max", "long"), measure("min", "long"), page_rows=2)
    rows = [row(k0=1, long=i) for i in range(12)]
    made.batch(rows)
    for i in range(11, 5, -1):
        made.batch([*gone(row(k0=1, long=i)), row(k0=1, long=-i)])
        assert made.value(1) == (i - 1, min(-i, -11))
    made.check()


def test_measures_may_stand_in_any_order(tmp_path: Path) -> None:
    """State is named by what it holds in one plan: the order of measures changes no value."""
    stream = Stream(Random(5), "sign", early=True)
    batches = [stream.batch() for _ in range(4)]
    for folder, measures in (("a", EVERYTHING), ("b", EVERYTHING[::-1])):
        (tmp_path / folder).mkdir()
        made = world(tmp_path / folder, *measures)
        for batch in batches:
            made.batch(batch)
            made.check()


def test_rows_of_an_operator_are_not_summed_where_trees_need_them() -> None:
    """An operator with ordered trees or products says that it takes its rows one by one."""
    assert operator_spec(node_of(("k0",), (measure("min", "long"),), "sign")).row_wise
    assert operator_spec(node_of(("k0",), (measure("variance", "double"),), "sign")).row_wise
    assert not operator_spec(node_of(("k0",), (measure("sum", "long"),), "sign")).row_wise


@pytest.mark.parametrize("name", ["cents", "wide"])
def test_ranks_of_decimals_are_null_where_a_group_has_no_values(name: str, tmp_path: Path) -> None:
    """Also of decimals with fewer digits than an int64, between values and on them."""
    type_ = Type("list", True, (), (column(name).type,))
    made = world(
        tmp_path, measure("median", name), measure("percentile_cont", name, constants=(0.3,)),
        measure("quantile", name, type_=type_, constants=(2,), keep_nulls=True),
    )  # fmt: skip
    half = Decimal("0.5000") if name == "wide" else Decimal("0.50")
    for value in (half, half + 1):
        made.batch([row(k0=1, cents=value, wide=value), row(k0=2)])
    made.check()
    assert made.value(2) == (None, None, None)


def test_merges_after_a_change_of_partitions_lose_nothing(tmp_path: Path) -> None:
    """Fewer partitions find the runs of earlier ones in neighbouring pieces; a merge that spans several reads all."""
    rows = [row(k0=i, long=j) for i in range(40) for j in range(4)]
    made = world(tmp_path, measure("min", "long"), measure("sum", "long"), page_rows=2)
    for start in (0, 40, 80):
        made.batch(rows[start : start + 40], 1)
    made.batch([], 4)
    made.batch(rows[120:], 1)
    assert len(made.now.group) == 1
    made.check()
    assert made.entries_kept() == len(rows)
    assert made.groups_kept() == 40
