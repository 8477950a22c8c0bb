"""Values of measures in known error cases of incremental aggregates, one per test."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from substrait_agg.flow.graph.measures import state_layout
from substrait_agg.functions.aggregates.kinds import MeasureKind
from substrait_agg.operator.common.names import GROUP
from substrait_agg.plan.types import FP64, I32, I64, Type, decimal
from substrait_agg.state import merging
from tests.operator.measures_build import (
    EVERYTHING,
    FLAG,
    OTHER,
    gone,
    measure,
    row,
    world,
    written_by,
)
from tests.operator.measures_draw import Stream, column, node_of
from tests.operator.specs import operator_spec

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
    """The same rows give the same values, regardless of earlier rows of the group."""
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
    """A group without rows that pass a filter is shown with empty values of the filtered measures."""
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
    assert len(state_layout(tuple(same), "changelog")[1].trees) == 1
    others = [
        measure("min", "long", filter_=FLAG), measure("min", "long", filter_=OTHER),
        measure("list", "long", keep_nulls=True),
    ]  # fmt: skip
    assert len(state_layout((*same, *others), "changelog")[1].trees) == 4
    made = world(tmp_path, *same, *others)
    made.batch([row(k0=1, long=i, flag=i % 2 == 0) for i in range(6)])
    made.batch([*gone(row(k0=1, long=0, flag=True)), row(k0=1)])
    made.check()


def test_distinct_and_order_are_obeyed(tmp_path: Path) -> None:
    """DISTINCT and ORDER BY change the values of a measure."""
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
    """min_by compares y by the type of y, although it returns x; a null x can be returned, a null y
    never wins.
    """
    made = world(tmp_path, measure("min_by", "text", "long"), measure("max_by", "text", "long"))
    made.batch(
        [row(k0=1, text="nine", long=9), row(k0=1, text="ten", long=10), row(k0=1, text="x")]
    )
    assert made.value(1) == ("nine", "ten")
    made.batch([row(k0=1, long=11), row(k0=1, long=-10, text="low")])
    assert made.value(1) == ("low", None)


def test_ties_of_min_by_are_decided_by_the_value(tmp_path: Path) -> None:
    """Among ties, min_by returns the least and max_by the greatest value, independent of arrival."""
    made = world(tmp_path, measure("min_by", "text", "long"), measure("max_by", "text", "long"))
    made.batch([row(k0=1, text=t, long=5) for t in ("m", "z", "a")])
    assert made.value(1) == ("a", "z")


def test_elements_of_lists_are_united_group_by_group(tmp_path: Path) -> None:
    """Nested nulls are kept once, null lists add no elements, and groups do not share elements."""
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


# --- retractions before insertions -------------------------------------------------------------------


def test_an_early_retraction_loses_no_earlier_contribution(tmp_path: Path) -> None:
    """A sum is correct again after its count was zero in between."""
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
    """A group with one row and one early retraction is not shown, and returns with all its values."""
    made = world(tmp_path, *EVERYTHING)
    made.batch([row(k0=1, long=5, text="a"), *gone(row(k0=1, long=7, text="b"))])
    assert made.view() == {}
    made.batch([row(k0=1, long=7, text="b")])
    made.check()
    assert made.value(1)[:3] == (1, Decimal(5), 5)


def test_what_is_owed_is_not_there(tmp_path: Path) -> None:
    """A value with a negative weight is no extreme, no list element and no distinct value."""
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
    """Also with early retractions; averages over no values are null, not a division by zero."""
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
    """Deleted rows with large numbers, infinities and NaN leave no trace in a sum."""
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
    """Lists, texts and ranks have every occurrence, and a deletion removes exactly one."""
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
    """The names of state depend on its content: the order of measures changes no value."""
    stream = Stream(Random(5), "changelog", early=True)
    batches = [stream.batch() for _ in range(4)]
    for folder, measures in (("a", EVERYTHING), ("b", EVERYTHING[::-1])):
        (tmp_path / folder).mkdir()
        made = world(tmp_path / folder, *measures)
        for batch in batches:
            made.batch(batch)
            made.check()


def test_rows_of_an_operator_are_not_summed_where_trees_need_them() -> None:
    """An operator with ordered trees or products reads its rows one by one."""
    assert operator_spec(node_of(("k0",), (measure("min", "long"),), "changelog")).row_wise
    assert operator_spec(node_of(("k0",), (measure("variance", "double"),), "changelog")).row_wise
    assert not operator_spec(node_of(("k0",), (measure("sum", "long"),), "changelog")).row_wise


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
    with patch.object(merging, "SMALL_WIDTH", 4):
        made.batch(rows[120:], 1)
    assert len(made.now.state[GROUP]) == 1
    made.check()
    assert made.entries_kept() == len(rows)
    assert made.groups_kept() == 40


@pytest.mark.parametrize(
    ("name", "great"), [("tiny", 255), ("huge", Decimal(2**64 - 1))], ids=["u8", "u64"]
)
def test_unsigned_values_use_their_whole_range(name: str, great: Any, tmp_path: Path) -> None:
    """Sums, averages and ranks beyond the largest signed number of the size; below zero is an overflow."""
    own, wide = column(name).type, Type("u64")
    ends = (("OVERFLOW", "SATURATE"),)
    made = world(
        tmp_path, measure("sum", name, type_=wide), measure("avg", name, type_=own), measure("max", name),
        measure("median", name), measure("sum", name, type_=own, options=ends),
    )  # fmt: skip
    made.batch([row(k0=1, **{name: great})])
    assert made.value(1) == (great,) * 5
    made.batch([row(k0=1), row(k0=2, **{name: great}), row(k0=2, **{name: 0 * great})])
    made.check()
    assert made.value(2)[1] == (2**64 - 1) // 2 if name == "huge" else 127


def test_values_take_the_declared_type(tmp_path: Path) -> None:
    """Picked values are converted as sums are: to the nearest float, decimals half away from zero, integers cut."""
    long, cents = 2**63 - 1, Decimal("-1.25")
    made = world(
        tmp_path, measure("max", "long", type_=FP64), measure("mode", "long", type_=FP64),
        measure("min", "cents", type_=decimal(5, 1)), measure("min", "cents", type_=I64),
        measure("any_value", "cents", type_=decimal(38, 4)), measure("max", "long", type_=decimal(38, 0)),
    )  # fmt: skip
    made.batch([row(k0=1, long=long, cents=cents), row(k0=2)])
    picked = (2.0**63, 2.0**63, Decimal("-1.3"), -1, Decimal("-1.2500"), Decimal(long))
    assert made.view() == {(1,): picked, (2,): (None,) * 6}


def test_equal_values_are_shown_in_one_way(tmp_path: Path) -> None:
    """Maps are shown in the order of their keys, and zeros as 0.0, independently of how a row
    writes them.
    """
    made = world(tmp_path, *(measure("list", n, distinct=True) for n in ("map", "doubles", "pair")))
    one = row(k0=1, map=[("a", 1), ("b", 2)], doubles=[0.0, None], pair={"f0": 1, "f1": 0.0})
    other = row(k0=1, map=[("b", 2), ("a", 1)], doubles=[-0.0, None], pair={"f0": 1, "f1": -0.0})
    made.batch([other])
    (written,) = written_by(made)
    assert repr([written[v] for v in ("v0", "v1", "v2")]) == (
        "[[[('a', 1), ('b', 2)]], [[0.0, None]], [{'f0': 1, 'f1': 0.0}]]"
    )
    made.batch([one])
    made.batch(gone(other))
    assert written_by(made) == []
    made.batch(gone(one))
    assert [repr({**r, "__weight": 1, "__version": 1}) for r in written_by(made)] == [repr(written)]
