"""For append-only input only the extremes of the values are stored, and they are the extremes of
all rows so far.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from substrait_agg.operator.aggregate.extremes import extreme_rows
from substrait_agg.operator.common.names import GROUP
from substrait_agg.state.keys.keys import EncodedKeys
from tests.operator.measures_build import FLAG, measure, row, world
from tests.operator.measures_changes import Stream
from tests.operator.test_measures_model import small_limits
from tests.sampling import seeds

WORD = st.integers(0, 2) | st.integers(2**64 - 2, 2**64 - 1)
REST = st.sampled_from([b"", b"\0", b"a", b"ab", b"b", b"\xff", b"\xff\0"])


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), WORD, WORD, REST)), st.booleans(), st.booleans())
def test_the_first_row_with_the_extreme_of_each_group(
    rows: list[tuple[int, int, int, bytes]], text: bool, last: bool
) -> None:
    """Against Python, over keys of two words, with and without bytes behind them."""
    rows.sort(key=lambda r: r[0])
    words = tuple(np.array([r[i] for r in rows], np.uint64) for i in (1, 2))
    keys = EncodedKeys(words, pa.array([r[3] for r in rows], pa.binary()) if text else None)
    groups = np.array([r[0] for r in rows], np.int64)
    wanted = []
    for group in sorted({r[0] for r in rows}):
        members = [i for i, r in enumerate(rows) if r[0] == group]
        best = (max if last else min)(rows[i][1 : 4 if text else 3] for i in members)
        wanted.append(next(i for i in members if rows[i][1 : 4 if text else 3] == best))
    assert extreme_rows(keys, groups, last=last).tolist() == wanted


ENDS = (
    measure("min", "long"),
    measure("max", "long"),
    measure("max", "text"),
    measure("min", "double", filter_=FLAG),
    measure("any_value", "cents"),
    measure("min_by", "text", "long"),
    measure("max_by", "long", "double"),
    measure("first_value", "text", order=("-long",)),
    measure("last_value", "long", order=("text", "-double")),
    measure("first", "text"),
    measure("last", "long", filter_=FLAG),
    measure("last", "double", keep_nulls=True),
)


@pytest.mark.parametrize("seed", seeds(2, 6))
@pytest.mark.parametrize("sets", [(), ((), (0,))], ids=["one set", "sets"])
def test_nothing_but_ends_is_kept(
    seed: int, sets: tuple[tuple[int, ...], ...], tmp_path: Path
) -> None:
    """Only extremes are stored, for every measure that reads one, with groups that get no rows,
    wait or are new.
    """
    random = Random(f"ends {seed} {sets}")
    with small_limits(random):
        made = world(
            tmp_path,
            *ENDS,
            weight="append_only",
            sets=sets,
            spread=random.choice((1, 3, 2**32)),
            slice_rows=7,
        )
        stream = Stream(random, "append_only", early=False)
        for _ in range(6):
            made.batch(stream.batch(), random.choice((1, 2, 4)), emit=random.random() < 0.7)
        made.batch([], 2)
        made.check()
    assert all(tree.extremes_only for tree in made.spec.trees)
    assert set(made.now.state.trees) <= {GROUP}


def test_a_tree_that_is_read_whole_keeps_its_entries(tmp_path: Path) -> None:
    """A tree shared by a distinct count and a maximum keeps its entries; a maximum with a FILTER
    has a separate tree.
    """
    shared = measure("count", "long", distinct=True), measure("max", "long")
    made = world(tmp_path, *shared, measure("max", "long", filter_=FLAG), weight="append_only")
    made.batch([row(k0=1, long=n, flag=True) for n in (5, 7, 7)])
    made.check()
    assert [tree.extremes_only for tree in made.spec.trees] == [False, True]
    assert made.entries_kept() == 2


@pytest.mark.parametrize("weight", ["changelog", "weighted"])
def test_where_rows_can_be_taken_back_entries_are_kept(weight: str, tmp_path: Path) -> None:
    made = world(tmp_path, *ENDS, weight=weight)  # type: ignore[arg-type]
    assert not any(tree.extremes_only or tree.partial for tree in made.spec.trees)
    assert made.spec.row_wise


def test_which_ends_spark_finds(tmp_path: Path) -> None:
    """Spark computes extremes of single values of fixed size; then no measure needs single rows."""
    told = {"long": True, "double": True, "cents": True, "day": True, "text": False}
    for name, partial in told.items():
        spec = world(
            tmp_path, measure("min", name), measure("max", name), weight="append_only"
        ).spec
        assert [tree.partial for tree in spec.trees] == [partial]
        assert spec.row_wise is not partial
    ordered = measure("first_value", "long", order=("-long",)), measure("min_by", "long", "double")
    assert not any(t.partial for t in world(tmp_path, *ordered, weight="append_only").spec.trees)
