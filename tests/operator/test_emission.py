"""Emission: which groups wait, and until when; emission changes only the time of a change.

The model keeps, per group that waits, its rows and the instant of the last, in a dict. After every batch the groups
that fire show what recomputation gives, and all others exactly what they showed before.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from substrait_agg.commit.tasks import spill
from substrait_agg.errors import UsageError
from substrait_agg.functions.aggregates.accumulators import WeightKind
from substrait_agg.operator.aggregate import operator
from substrait_agg.operator.aggregate.pending import oldest
from substrait_agg.operator.aggregate.step import step
from substrait_agg.operator.common.emission import ALL, Emission
from substrait_agg.operator.common.names import PENDING
from substrait_agg.operator.common.policy import EmitPolicy, parse_emit
from substrait_agg.operator.common.protocol import OperatorResult
from tests.operator.measures_build import changes_of, gone, measure, row, world
from tests.operator.measures_changes import Stream
from tests.operator.measures_reference import Row
from tests.operator.measures_values import Values
from tests.operator.measures_world import Shown, World, agree
from tests.operator.test_measures_model import random_world, small_limits
from tests.sampling import seeds

WEIGHTS: tuple[WeightKind, ...] = ("append_only", "changelog", "weighted")
SECOND = 1_000_000


class Model:
    """A world, and which of its groups wait."""

    def __init__(self, made: World) -> None:
        self.made = made
        self.waiting: dict[Values, tuple[int, int]] = {}

    def batch(self, rows: list[Row], partitions: int, emission: Emission) -> None:
        """One batch, checked."""
        touched = {key for one in rows for key in self.made.keys_of(one)}
        for one in rows:
            for key in self.made.keys_of(one):
                self.waiting[key] = (self.waiting.get(key, (0, 0))[0] + 1, emission.now)
        held = self.waiting.items()
        fired = {k for k, (n, since) in held if fires(emission, n * (k in touched), since)}
        before = self.made.view()
        self.made.batch(rows, partitions, emission=emission)
        self.waiting = {k: held for k, held in self.waiting.items() if k not in fired}
        assert self.made.waiting_groups() == self.waiting
        self._check(before, fired)

    def _check(self, before: Shown, fired: set[Values]) -> None:
        view, wanted = self.made.view(), self.made.expected()
        for key in view.keys() | before.keys() | wanted.keys():
            if key not in fired:
                assert view.get(key) == before.get(key), key
                continue
            assert (key in view) == (key in wanted), key
            if key not in view:
                continue
            cells = zip(self.made.node.measures, view[key], wanted[key], strict=True)
            for measure_, got, want in cells:
                if measure_.kind != "surrogate_key":
                    assert agree(measure_.kind, got, want), (key, measure_, got, want)


def fires(emission: Emission, rows: int, since: int) -> bool:
    """The rules for one group at a time; only its own rows can complete the count of a group."""
    late = emission.before is not None and since <= emission.before
    return emission.all or bool(emission.rows and rows >= emission.rows) or late


def random_policy(random: Random) -> EmitPolicy:
    return EmitPolicy(
        batch=random.random() < 0.1,
        rows=random.choice((0, 0, 1, 2, 3, 7)),
        delay=random.choice((None, None, 1, 2, 5)),
    )


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("seed", seeds(4, 12))
def test_any_policy_shows_each_group_as_it_was_when_it_fired(
    seed: int, weight: WeightKind, tmp_path: Path
) -> None:
    """Random measures, keys, grouping sets, partitions, pages, merges; the policy changes as restarts may change it."""
    random = Random(f"emission {weight} {seed}")
    with small_limits(random):
        made = random_world(random, tmp_path, weight)
        stream = Stream(random, weight, early=random.random() < 0.5)
        made.batch([])  # the first version shows what is there without rows
        model, now, policy = Model(made), 0, random_policy(random)
        for _ in range(8):
            now += random.choice((0, 1, 3))
            policy = random_policy(random) if random.random() < 0.2 else policy
            rows = stream.batch() if random.random() < 0.8 else []
            model.batch(rows, random.choice((1, 2, 4)), policy.at(now))
        model.batch([], 2, ALL)
        made.check()
        assert not made.now.state[PENDING]


def test_a_group_is_emitted_with_its_nth_row_and_counts_anew(tmp_path: Path) -> None:
    made = world(tmp_path, measure("count"))
    rules = EmitPolicy(rows=2).at(0)
    made.batch([row(k0=1), row(k0=2)], emission=rules)
    assert changes_of(made) == []
    made.batch([row(k0=1)], emission=rules)
    assert changes_of(made) == [(1, 2)]
    made.batch([row(k0=1), row(k0=2)], emission=rules)
    assert changes_of(made) == [(1, 2)]
    made.batch([*gone(row(k0=1))], emission=rules)
    assert made.view() == {(1,): (2,), (2,): (2,)}
    assert made.waiting_groups() == {}


def test_a_row_puts_off_the_delay_of_its_group(tmp_path: Path) -> None:
    """The time runs from the last row, not from the first."""
    made = world(tmp_path, measure("count"))
    policy = EmitPolicy(delay=5 * SECOND)
    made.batch([row(k0=1), row(k0=2)], emission=policy.at(0))
    made.batch([row(k0=1)], emission=policy.at(3 * SECOND))
    made.batch([], emission=policy.at(5 * SECOND))
    assert made.view() == {(2,): (1,)}
    made.batch([], emission=policy.at(8 * SECOND))
    assert made.view() == {(1,): (2,), (2,): (1,)}


def test_one_rule_that_holds_resets_the_others(tmp_path: Path) -> None:
    """A group that is emitted by its count starts a new count and a new delay."""
    made = world(tmp_path, measure("count"))
    policy = EmitPolicy(rows=2, delay=5 * SECOND)
    made.batch([row(k0=1), row(k0=1)], emission=policy.at(0))
    made.batch([row(k0=1)], emission=policy.at(4 * SECOND))
    made.batch([], emission=policy.at(5 * SECOND))
    assert made.view() == {(1,): (2,)}
    made.batch([], emission=policy.at(9 * SECOND))
    assert made.view() == {(1,): (3,)}


def test_what_came_and_went_while_it_waited_is_never_seen(tmp_path: Path) -> None:
    made = world(tmp_path, measure("count"), measure("max", "long"))
    rules = EmitPolicy(rows=3).at(0)
    made.batch([row(k0=1, long=1)], emission=rules)
    made.batch([*gone(row(k0=1, long=1))], emission=rules)
    made.batch([])
    assert changes_of(made) == []
    assert made.groups_kept() == 0


@pytest.mark.parametrize("rules", [ALL, EmitPolicy(delay=1).at(SECOND)])
def test_many_groups_that_are_due_are_taken_up_some_at_a_time(
    rules: Emission, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Due groups are processed in parts, because all groups may be pending at the end of the input."""
    monkeypatch.setattr(spill, "SPILL_BUCKETS", 64)
    made = world(tmp_path, measure("max", "long"), slice_rows=16)
    rows = [row(k0=i, long=i) for i in range(300)]
    made.batch(rows, emission=EmitPolicy().at(0))
    touched: list[int] = []

    def watched(*given: Any) -> OperatorResult:
        touched.append((result := step(*given)).counters["touched"])
        return result

    monkeypatch.setattr(operator, "step", watched)
    made.batch([], emission=rules)
    assert made.view() == {(i,): (i,) for i in range(300)}
    assert sum(touched) == 300
    assert max(touched) <= 30


def test_what_was_shown_is_retracted_as_it_was_shown(tmp_path: Path) -> None:
    """The retraction contains the row last emitted, however often the group changed in between."""
    made = world(tmp_path, measure("max", "long"))
    made.batch([row(k0=1, long=5)])
    never = EmitPolicy().at(0)
    made.batch([row(k0=1, long=9)], emission=never)
    made.batch([*gone(row(k0=1, long=5))], emission=never)
    made.batch([*gone(row(k0=1, long=9))], emission=never)
    assert made.view() == {(1,): (5,)}
    made.batch([])
    assert made.view() == {}
    assert sum(made.log.values()) == 0


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("batch", EmitPolicy(batch=True)),
        ("end", EmitPolicy()),
        ("count:5", EmitPolicy(rows=5)),
        ("delay:500ms", EmitPolicy(delay=SECOND // 2)),
        ("count:1000, delay:1m", EmitPolicy(rows=1000, delay=60 * SECOND)),
        ("end,delay:2h", EmitPolicy(delay=7200 * SECOND)),
    ],
)
def test_policies_are_read(text: str, policy: EmitPolicy) -> None:
    assert parse_emit(text) == policy


@pytest.mark.parametrize(
    "text",
    ["", "sometimes", "count", "count:", "count:0", "count:-1", "count:1.5", "count:²", "delay", "delay:5",
     "delay:0s", "delay:soon", "batch:1", "end,", "count:1,count:2", "count:9223372036854775808"],
)  # fmt: skip
def test_what_is_no_policy_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_emit(text)
    assert (refused.value.code, refused.value.path) == ("OPTION_INVALID", "emit")


def test_what_a_policy_says_of_every_batch(tmp_path: Path) -> None:
    """In a combined policy with ``batch`` the other conditions have no effect."""
    given: Any = EmitPolicy(batch=True, rows=9, delay=1).at(7)
    assert (given.all, given.now) == (True, 7)


def test_when_a_group_is_due(tmp_path: Path) -> None:
    """The due time follows from the rules; the longest wait without a row is found over all runs,
    and emitted groups do not count.
    """
    due = [EmitPolicy(batch=True, delay=5), EmitPolicy(rows=2, delay=5), EmitPolicy(rows=2)]
    assert [policy.due(7, 7) for policy in due] == [7, 12, None]
    made = world(tmp_path, measure("count"))
    policy = EmitPolicy(delay=5)
    assert oldest(made.pending()) is None
    for k, now in ((1, 3), (2, 4), (1, 6)):
        made.batch([row(k0=k)], emission=policy.at(now))
    assert oldest(made.pending()) == 4
    made.batch([], emission=policy.at(9))
    assert oldest(made.pending()) == 6
