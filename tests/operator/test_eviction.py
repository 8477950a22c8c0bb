"""Eviction: groups are closed once the watermark has passed them, or evicted when idle; view and
changes stay correct.

The model keeps the rows that were not late and recomputes. What is closed must show what it showed, and nothing but its
row may be left of it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from substrait_agg.flow.graph.graph import Forget
from substrait_agg.functions.aggregates.accumulators import WeightKind
from substrait_agg.operator.common.completeness import KeyBound
from substrait_agg.operator.common.emission import ALL
from substrait_agg.operator.common.policy import EmitPolicy
from tests.operator.measures_build import changes_of, gone, measure, row
from tests.operator.measures_changes import Stream
from tests.operator.measures_columns import NAMES
from tests.operator.measures_draw import DRAWS, DrawnMeasures, node_of
from tests.operator.measures_reference import Row, Values, canonical
from tests.operator.measures_world import Shown, World, agree
from tests.operator.test_measures_model import small_limits
from tests.sampling import seeds

WEIGHTS: tuple[WeightKind, ...] = ("append_only", "changelog", "weighted")
STAMP = NAMES.index("stamp")
SECOND = 1_000_000


def at(second: int) -> datetime:
    return datetime(1970, 1, 1) + timedelta(seconds=second)


def second_of(one: Row) -> int | None:
    """The event time of a row."""
    stamp = one.values[STAMP]
    return None if stamp is None else int((stamp - at(0)).total_seconds())


class Times(Stream):
    """Random changes of rows whose event times increase with the batches, in disorder."""

    def __init__(self, random: Random, weight: WeightKind) -> None:
        super().__init__(random, weight, early=False)
        self.now = 0

    def _insert(self, values: Values) -> list[Row]:
        second = self.now + self.random.randint(-4, 3)
        time = at(second) if self.random.random() < 0.95 else None
        return super()._insert((*values[:STAMP], time, *values[STAMP + 1 :]))


def made_world(
    random: Random, folder: Path, weight: WeightKind, keys: tuple[str, ...], forget: Forget = ""
) -> World:
    measures = [
        DRAWS[random.choice(tuple(DRAWS))](DrawnMeasures(random, f"m{i}")) for i in range(3)
    ]
    node = node_of(keys, tuple(measures), weight)
    return World(
        replace(node, forget=forget, timed=bool(forget)),
        folder,
        random.choice((1, 2, 2**32)),
        page_rows=random.choice((1, 2, 5)),
        slice_rows=random.choice((2, 5, 1000)),
    )


def random_policy(random: Random) -> EmitPolicy:
    return EmitPolicy(
        batch=random.random() < 0.3,
        rows=random.choice((0, 0, 1, 2, 5)),
        delay=random.choice((None, None, 1, 3)),
        watermark=random.random() < 0.5,
    )


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("seed", seeds(2, 10))
def test_whatever_the_policy_the_last_view_is_that_of_the_rows_that_were_not_late(
    seed: int, weight: WeightKind, tmp_path: Path
) -> None:
    """Random measures, disorder, deletions, triggers, partitions; complete groups that do not wait leave no state."""
    random = Random(f"leaving {weight} {seed}")
    with small_limits(random):
        keys = random.choice((("stamp",), ("k0", "stamp"), ("stamp", "k1")))
        made = made_world(random, tmp_path, weight, keys)
        stream, policy, watermark = Times(random, weight), random_policy(random), -100
        place = keys.index("stamp")
        made.batch([])
        for number in range(10):
            stream.now += random.choice((0, 1, 3))
            on_time = [r for r in stream.batch() if not late(r, watermark)]
            made.batch(on_time, random.choice((1, 2, 4)), emission=policy.at(number))
            watermark = max(watermark, stream.now - random.choice((2, 3, 5)))
            limits = (KeyBound(place, False, watermark * SECOND),)
            rules = replace(
                policy.watermark_pass(number), limits=limits, complete=policy.watermark, close=True
            )
            before = made.view()
            made.batch([], random.choice((1, 2, 4)), emission=rules, again=True)
            check_open(made, place, watermark)
            if not policy.watermark and policy.delay is None:
                assert made.view() == before  # closing alone shows nothing new
        made.batch([], 2, emission=ALL)
        made.check()


def late(one: Row, watermark: int) -> bool:
    second = second_of(one)
    return second is not None and second < watermark


def check_open(made: World, place: int, watermark: int) -> None:
    """Check that complete groups exist only while they wait, and that trees contain rows of open
    groups only.
    """
    waiting = made.waiting_groups()
    opened = made.open_groups()
    for key in opened:
        assert key[place] is None or key[place] >= at(watermark) or key in waiting, key
    for one in made.rows:
        assert len(made.keys_of(one)) == 1
    kept = [r for r in made.rows if made.keys_of(r)[0] in opened]
    rows, made.rows = made.rows, kept
    assert made.entries_kept() == made.entries_expected()
    made.rows = rows


class Memory:
    """The model of eviction: the rows of each group since its last eviction, and its rows left in the view."""

    def __init__(self, made: World) -> None:
        self.made = made
        self.kept: Shown = {}

    def times(self) -> dict[Values, int]:
        """The newest event time of each group; a row without one keeps its group forever."""
        newest: dict[Values, int] = {}
        for one in self.made.rows:
            key, second = self.made.keys_of(one)[0], second_of(one)
            newest[key] = max(newest.get(key, -(10**9)), 10**9 if second is None else second)
        return newest

    def taken_up(self, rows: list[Row]) -> None:
        """Any row restores a group; a group whose rows are all deleted has no state."""
        touched = {self.made.keys_of(one)[0] for one in rows}
        self.kept = {key: cells for key, cells in self.kept.items() if key not in touched}
        left: Counter[tuple[Values, Values]] = Counter()
        for one in self.made.rows:
            left[(self.made.keys_of(one)[0], canonical(one.values))] += one.weight
        there = {key for (key, _), weight in left.items() if weight}
        self.made.rows = [r for r in self.made.rows if self.made.keys_of(r)[0] in there]

    def forget(self, before: int, *, keep: bool) -> None:
        """Evict the groups whose rows are all from `before` or earlier."""
        idle = {key for key, newest in self.times().items() if newest <= before}
        shown = self.made.expected()
        self.kept |= {key: shown[key] for key in idle if keep and key in shown}
        self.made.rows = [r for r in self.made.rows if self.made.keys_of(r)[0] not in idle]

    def check(self) -> None:
        """The view has the rows of active groups, and the remaining rows of evicted ones."""
        wanted = self.kept | self.made.expected()
        view = self.made.view()
        assert view.keys() == wanted.keys()
        for key, cells in view.items():
            for one, got, want in zip(self.made.node.measures, cells, wanted[key], strict=True):
                assert one.kind == "surrogate_key" or agree(one.kind, got, want), (key, one)
        assert +self.made.log == {(*key, *cells): 1 for key, cells in view.items()}


@pytest.mark.parametrize("forget", ["retract", "keep"])
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("seed", seeds(2, 8))
def test_idle_groups_are_forgotten_and_begin_anew(
    seed: int, weight: WeightKind, forget: Forget, tmp_path: Path
) -> None:
    """Evicted groups that return start from zero, and their row that stayed in the view is
    retracted.
    """
    random = Random(f"forgetting {weight} {forget} {seed}")
    with small_limits(random):
        made = made_world(random, tmp_path, weight, random.choice((("k0",), ("k1", "k0"))), forget)
        memory, stream, idle = Memory(made), Times(random, weight), -100
        made.batch([])
        for _ in range(10):
            stream.now += random.choice((0, 1, 3, 6))
            on_time = [r for r in stream.batch() if not late(r, idle + 1)]
            made.batch(on_time, random.choice((1, 2, 4)))
            memory.taken_up(on_time)
            memory.check()
            idle = max(idle, stream.now - random.choice((4, 6)))
            rules = replace(
                EmitPolicy(batch=True).watermark_pass(0), idle=idle * SECOND, close=True
            )
            made.batch([], random.choice((1, 2, 4)), emission=rules, again=True)
            memory.forget(idle, keep=forget == "keep")
            memory.check()
            assert made.open_groups() == set(memory.times())
            assert made.entries_kept() == made.entries_expected()


def events(folder: Path, *measures: Any, weight: WeightKind = "changelog") -> World:
    return World(node_of(("k0", "stamp"), measures, weight), folder)


def passed(second: int, **more: Any) -> Any:
    """The rules of a second pass, the watermark being at a second."""
    rules = replace(
        EmitPolicy(batch=True).watermark_pass(0), limits=(KeyBound(1, False, second * SECOND),)
    )
    return replace(rules, close=True, **more)


def test_a_closed_group_leaves_nothing_but_its_row(tmp_path: Path) -> None:
    made = events(tmp_path, measure("count"), measure("max", "long"), measure("list", "text"))
    made.batch([row(k0=1, stamp=at(1), long=5, text="a"), row(k0=1, stamp=at(9), long=6)])
    before = made.view()
    made.batch([], emission=passed(5), again=True)
    assert made.view() == before
    assert made.open_groups() == {canonical((1, at(9)))}
    assert made.entries_kept() == 1
    assert [part.num_rows for part in made.closed()] == [1]


def test_a_group_that_waits_is_not_closed_before_it_is_emitted(tmp_path: Path) -> None:
    """A pending group keeps its state until it is emitted at the end."""
    made = events(tmp_path, measure("count"))
    policy = EmitPolicy(rows=5)
    made.batch([row(k0=1, stamp=at(1))], emission=policy.at(0))
    rules = replace(policy.watermark_pass(0), limits=(KeyBound(1, False, 5 * SECOND),), close=True)
    made.batch([], emission=rules, again=True)
    assert made.open_groups() == {canonical((1, at(1)))}
    made.batch([], emission=ALL)
    assert list(made.view().values()) == [(1,)]


def test_what_came_and_went_before_the_watermark_passed_is_never_seen(tmp_path: Path) -> None:
    made = events(tmp_path, measure("count"))
    wait = EmitPolicy(watermark=True)
    one = row(k0=1, stamp=at(1))
    made.batch([one], emission=wait.at(0))
    made.batch(gone(one), emission=wait.at(0))
    rules = replace(
        wait.watermark_pass(0), limits=(KeyBound(1, False, 5 * SECOND),), complete=True, close=True
    )
    made.batch([], emission=rules, again=True)
    assert (made.view(), changes_of(made), made.groups_kept()) == ({}, [], 0)
    assert not any(part.num_rows for part in made.closed())


def test_the_second_pass_gives_no_surrogate_key_twice(tmp_path: Path) -> None:
    """Surrogate keys are unique within a version, although both passes number them."""
    made = events(tmp_path, measure("surrogate_key"))
    policy = EmitPolicy(rows=2, watermark=True)
    rows = [row(k0=k, stamp=at(1)) for k in (1, 1, 2, 2, 3, 4)]
    made.batch(rows, emission=policy.at(0))
    rules = replace(
        policy.watermark_pass(0),
        limits=(KeyBound(1, False, 5 * SECOND),),
        complete=True,
        close=True,
    )
    made.batch([], emission=rules, again=True)
    assert len(set(made.view().values())) == 4
