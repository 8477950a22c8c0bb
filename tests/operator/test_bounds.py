"""Python calls and memory of a batch do not depend on the number of groups and the size of texts."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from substrait_agg.commit.tasks import spill
from substrait_agg.commit.tasks.task import run_task
from substrait_agg.errors import RunFailed
from substrait_agg.operator.aggregate import values
from substrait_agg.state import run
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.segments import Segments
from tests.calls import calls_of
from tests.operator import tasks
from tests.operator.measures_build import EVERYTHING, gone, measure, row, world
from tests.operator.measures_draw import DRAWS, DrawnMeasures, node_of
from tests.operator.measures_reference import Row
from tests.operator.measures_world import World, merging_soon
from tests.operator.tasks import Version


class Counted(World):
    """Counts the Python calls of its tasks, which get their rows in one piece."""

    calls = 0

    def run(self, *arguments: Any, **more: Any) -> Any:
        def counted(plan: Any, batches: list[pa.RecordBatch]) -> Any:
            whole = pa.Table.from_batches(batches).combine_chunks().to_batches()
            results: list[Any] = []
            self.calls = calls_of(lambda: results.append(run_task(plan, whole)))
            return results[0]

        with patch.object(tasks, "run_task", counted):
            return super().run(*arguments, **more)


def mixed(groups: int) -> list[Row]:
    """A row per group, with something in the columns that most measures read."""
    return [
        row(
            k0=i, long=i % 7, int=i % 5, double=i * 0.5, y=i * 0.25, single=0.5, text=str(i % 9),
            flag=bool(i % 2), list=[i % 3, None], tiny=i % 3, huge=i % 7, bytes=b"x",
            pair={"f0": 1, "f1": 2.0}, map=[("a", i % 3)], doubles=[1.0, 2.0], sure_long=i % 4,
        )
        for i in range(groups)
    ]  # fmt: skip


def calls_for(kind: str, groups: int, folder: Path) -> int:
    """The calls of a batch that deletes, inserts and changes groups."""
    random = Random(kind)
    measures = tuple(DRAWS[kind](DrawnMeasures(random, f"m{i}")) for i in range(3))  # type: ignore[index]
    folder.mkdir()
    made = Counted(node_of(("k0",), measures, "changelog"), folder)
    made.batch(mixed(groups))
    made.batch([*gone(*mixed(groups)[::2]), *mixed(groups + groups // 2)[groups // 2 :]])
    return made.calls


@pytest.mark.parametrize("kind", DRAWS)
def test_no_kind_of_measure_loops_over_groups(kind: str, tmp_path: Path) -> None:
    """Ten times as many groups need the same number of calls, except for a few rounds of a
    bisection.
    """
    few, many = (calls_for(kind, n, tmp_path / str(n)) for n in (50, 500))
    assert many <= few + 200


def calls_with_shared_hashes(groups: int, folder: Path) -> int:
    """The calls of a batch of new groups, each with the hash of a group that is there."""
    folder.mkdir()
    made = Counted(node_of(("k0", "k1"), (measure("min", "long"),), "changelog"), folder)

    def hashes(key: Any) -> tuple[int, int]:
        # As Spark's hashes do it, which skip nulls.
        return hash(tuple(str(k) for k in key if k is not None)) % 2**31, 7

    with patch.object(made, "_hashes", hashes):
        made.batch([row(k0=i, long=i) for i in range(groups)])
        made.batch([row(k1=str(i), long=-i) for i in range(groups)])
        calls = made.calls
        made.check()
        made.batch([*gone(*(row(k0=i, long=i) for i in range(groups))), row(k1="0", long=5)])
        made.check()
    return calls


def test_groups_that_share_hashes_are_told_apart_all_at_once(tmp_path: Path) -> None:
    """Groups that share a hash are separated in one step; (x, null) and (null, x) share one in
    Spark, so they are not rare.
    """
    few, many = (calls_with_shared_hashes(n, tmp_path / str(n)) for n in (30, 300))
    assert many <= few + 200


def test_new_groups_of_a_hash_get_the_numbers_that_are_free(tmp_path: Path) -> None:
    """New groups of a hash get free collision ids, while many groups are deleted and return, across
    merges that drop dead groups.
    """
    made = world(tmp_path, *EVERYTHING, spread=1, page_rows=2)
    random = Random(5)
    with merging_soon(1, 1 << 20):
        there: set[int] = set()
        for _ in range(12):
            moved = set(random.sample(range(12), 5))
            made.batch(
                [
                    *gone(*(row(k0=k, long=k) for k in moved & there)),
                    *(row(k0=k, long=k) for k in moved - there),
                ]
            )
            there ^= moved
            made.check()


def test_groups_that_are_read_whole_are_read_some_at_a_time(tmp_path: Path) -> None:
    """Groups that are read as a whole are read in parts: memory holds at most the allowed number of
    values, or one larger group.
    """
    held: list[int] = []
    live = OrderedTree.live

    def watched(tree: OrderedTree, *place: Any) -> Segments:
        found = live(tree, *place)
        held.append(int(found.offsets[-1]))
        return found

    kinds = (
        measure("list", "long"),
        measure("mode", "long"),
        measure("string_agg", "text", constants=(",",)),
    )
    made = world(tmp_path, *kinds)
    with patch.object(values, "READ_ENTRIES", 10), patch.object(OrderedTree, "live", watched):
        made.batch([row(k0=k, long=i, text=str(i)) for k in range(20) for i in range(4)])
        assert max(held) <= 20
        made.batch([row(k0=3, long=i, text=str(i)) for i in range(50)])
        held.clear()
        made.batch([row(k0=k, long=9, text="9") for k in range(20)])
        assert 50 <= max(held) <= 70
    made.check()


def test_rows_that_are_long_are_set_aside_like_rows_that_are_many(tmp_path: Path) -> None:
    """A slice is bounded in bytes as well as in rows, because one column of text holds at most 2
    GiB.
    """
    made = world(tmp_path, *EVERYTHING, slice_bytes=10_000)
    rows = [row(k0=i, long=i, text=str(i) * 1000) for i in range(60)]
    with patch.object(spill.Buckets, "add", autospec=True, side_effect=spill.Buckets.add) as add:
        made.batch(rows)
        assert add.call_count > 5
        made.check()
        add.reset_mock()
        made.batch([row(k0=i, long=i, text="") for i in range(60)])
        assert not add.call_count
    made.check()


def test_few_rows_are_held_at_once_where_what_is_kept_of_their_groups_is_long(
    tmp_path: Path,
) -> None:
    """A slice loads the stored rows of its groups, so slices of short rows are short if the stored
    rows are long.
    """
    made = world(tmp_path, *EVERYTHING)
    with patch.object(
        spill.Buckets, "add", side_effect=AssertionError
    ):  # nothing is kept yet, or little
        made.batch([row(k0=99)])
        made.batch([row(k0=i, long=i, text=str(i) * 500) for i in range(60)])
    short = [row(k0=i, long=-i, text="") for i in range(60)]
    add = patch.object(spill.Buckets, "add", autospec=True, side_effect=spill.Buckets.add)
    with add as added, patch.object(run, "PIECE_BYTES", 20_000):
        made.batch(short)
        assert 3 < added.call_count < 20
    made.check()


def test_surrogate_keys_last_for_a_hundred_million_versions(tmp_path: Path) -> None:
    """Four years of a batch per second; then the batch fails with a reason."""
    made = world(tmp_path, measure("surrogate_key"))
    made.now = Version(10**8)
    made.batch([row(k0=1)])
    assert 0 < made.value(1)[0] < 2**63
    made.now = Version(2**27 - 1, made.now.state)
    with pytest.raises(RunFailed) as caught:
        made.batch([row(k0=2)])
    assert caught.value.code == "SURROGATE_KEYS_EXHAUSTED"
    assert np.iinfo(np.int64).max > made.value(1)[0]
