"""The limits of batches, against a simulated query: load steps, noise, huge files, idle periods, several sources."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise, repeat
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as hs

from substrait_agg.spark.admission.read_limits import (
    AIM,
    STEP,
    BatchLimits,
    BatchLoad,
    divide,
    first_limits,
    limits_after,
)

TARGET = 2.0
FIRST = 4e6
Cost = Callable[[float], float]
"""Seconds of a batch by its bytes."""


@dataclass
class Source:
    """Files that wait to be read; Spark takes them up to a limit, but at least one."""

    files: Iterator[float]
    waiting: list[float] = field(default_factory=list)

    def take(self, limit: float) -> float:
        taken = 0.0
        while True:
            size = self.waiting.pop() if self.waiting else next(self.files, None)
            if size is None:
                return taken
            if taken and taken + size > limit:
                self.waiting.append(size)
                return taken
            taken += size


@dataclass
class Endless:
    """A backlog of files of one size that does not end."""

    size: float

    def take(self, limit: float) -> float:
        return max(limit // self.size, 1.0) * self.size


Sources = list[Source | Endless]
endless = Endless


@dataclass
class Batch:
    """A simulated batch, with the limits that it had."""

    limits: BatchLimits
    taken: tuple[float, ...]
    seconds: float


def simulate(limits: BatchLimits, sources: Sources, cost: Cost, batches: int) -> list[Batch]:
    """Run batches; one without rows takes no time and is not measured."""
    done = []
    for _ in range(batches):
        taken = tuple(s.take(most) for s, most in zip(sources, limits.sources, strict=True))
        seconds = cost(sum(taken)) if any(taken) else 0.0
        done.append(Batch(limits, taken, seconds))
        if any(taken):
            limits = limits_after(limits, BatchLoad(seconds, taken))
    return done


def linear(fixed: float, per_byte: float) -> Cost:
    return lambda size: fixed + per_byte * size


def start(sources: int = 1) -> BatchLimits:
    return first_limits(TARGET, FIRST, (math.inf,) * sources)


def continued(batches: list[Batch]) -> BatchLimits:
    last = batches[-1]
    return limits_after(last.limits, BatchLoad(last.seconds, last.taken))


costs = hs.tuples(hs.floats(0.0, 0.8 * AIM * TARGET), hs.floats(1e-10, 1e-5))
"""Fixed seconds of a batch, and seconds per byte from 10 GB/s to 100 kB/s."""


@given(costs)
@example((0.8 * AIM * TARGET, 1e-10))
def test_batches_come_close_to_the_aim_and_stay_there(cost: tuple[float, float]) -> None:
    """From one side, without oscillation: 62 batches suffice for all costs; the example is the slowest."""
    batches = simulate(start(), [endless(100.0)], linear(*cost), 62)
    assert batches[-1].seconds == pytest.approx(AIM * TARGET, rel=0.1)
    errors = [math.log(b.seconds / (AIM * TARGET)) for b in batches]
    for before, after in pairwise(errors):
        assert abs(after) <= abs(before) + 1e-3
        assert abs(after) < 1e-3 or before * after >= 0


@given(costs, hs.floats(1.5, 100.0))
def test_a_load_step_is_followed_without_oscillation(
    cost: tuple[float, float], step: float
) -> None:
    """Each byte suddenly costs more: batches are back under the target soon, and do not fall far below it."""
    fixed, per_byte = cost
    before = simulate(start(), [endless(100.0)], linear(fixed, per_byte), 60)
    after = simulate(continued(before), [endless(100.0)], linear(fixed, per_byte * step), 40)
    over = [number for number, batch in enumerate(after) if batch.seconds > TARGET]
    assert len(over) <= 16
    assert over == list(range(len(over))), "over the target again after it was under it"
    assert all(b.seconds >= 0.95 * AIM * TARGET for b in after)
    relieved = simulate(continued(after), [endless(100.0)], linear(fixed, per_byte), 40)
    assert max(b.seconds for b in relieved) <= TARGET


@given(hs.integers(0, 1 << 32))
def test_noise_is_smoothed(seed: int) -> None:
    """With durations that vary by 20 %, fewer than a third of the batches exceed the target, none
    by far, and batch sizes vary little.
    """
    random = Random(seed)
    noisy: Cost = lambda size: (0.3 + 1e-7 * size) * random.lognormvariate(0.0, 0.2)  # noqa: E731
    batches = simulate(start(), [endless(100.0)], noisy, 300)[20:]
    assert sum(b.seconds > TARGET for b in batches) < 0.3 * len(batches)
    assert not any(b.seconds > 2.5 * TARGET for b in batches)
    sizes = [b.limits.total for b in batches]
    assert max(sizes) < 6 * min(sizes)
    assert sum(b.seconds for b in batches) > 0.6 * TARGET * len(batches)


@given(hs.floats(1e8, 1e13))
def test_a_huge_file_does_not_change_the_limit(size: float) -> None:
    """It is read alone, takes as long as it takes, and the batches after it are as before."""
    cost = linear(0.0, 1e-7)
    before = simulate(start(), [endless(1e5)], cost, 40)
    stream = Source(iter([size, *repeat(1e5, 1000)]))
    huge, *after = simulate(continued(before), [stream], cost, 10)
    assert huge.taken == (size,)
    assert after[0].limits.total == pytest.approx(before[-1].limits.total, rel=0.05)
    assert all(b.seconds <= TARGET for b in after)


@given(hs.floats(1.1, 1000.0))
def test_files_that_are_all_too_large_come_one_by_one(times: float) -> None:
    """The limit neither falls to nothing nor grows."""
    size = times * AIM * TARGET / 1e-7
    batches = simulate(start(), [endless(size)], linear(0.0, 1e-7), 50)
    assert {b.taken for b in batches} == {(size,)}
    assert batches[-1].limits.total == pytest.approx(AIM * TARGET / 1e-7, rel=0.05)
    after = simulate(continued(batches), [endless(1e4)], linear(0.0, 1e-7), 20)
    assert all(b.seconds <= TARGET for b in after)


@given(hs.lists(hs.floats(0.0, 1e5), min_size=1, max_size=30))
def test_an_idle_stream_keeps_its_limit(trickle: list[float]) -> None:
    """Batches that are small because few rows arrived do not change the limit for a later backlog."""
    cost = linear(0.2, 1e-7)
    busy = simulate(start(), [endless(1e4)], cost, 40)
    quiet = busy
    for size in trickle:
        came = iter([size] if size >= 1.0 else [])
        quiet = simulate(
            continued(quiet) if any(quiet[-1].taken) else quiet[-1].limits, [Source(came)], cost, 1
        )
    last = continued(quiet) if any(quiet[-1].taken) else quiet[-1].limits
    assert last.total == pytest.approx(continued(busy).total)
    again = simulate(last, [endless(1e4)], cost, 10)
    assert all(b.seconds <= TARGET for b in again)


@given(costs, hs.lists(hs.integers(0, 3), min_size=2, max_size=5))
def test_sources_share_the_total(cost: tuple[float, float], loads: list[int]) -> None:
    """The limits of the sources add up to the total, and a source with a backlog gets what the
    other sources do not use.
    """
    kinds = (
        lambda: Source(iter(())),
        lambda: endless(10.0),
        lambda: endless(100.0),
        lambda: endless(1e3),
    )
    sources = [kinds[load]() for load in loads]
    batches = simulate(start(len(loads)), sources, linear(*cost), 80)
    for batch in batches:
        assert sum(batch.limits.sources) == pytest.approx(batch.limits.total)
        assert min(batch.limits.sources) >= 0
    busy = [number for number, load in enumerate(loads) if load]
    last = batches[-1]
    for number in busy:
        assert last.limits.sources[number] >= 0.99 * last.limits.total / len(busy)


def test_a_slow_source_leaves_its_part_to_the_others_and_gets_it_back() -> None:
    cost = linear(0.1, 1e-7)
    large = endless(1e4)
    before = simulate(start(2), [large, Source(iter(repeat(1e3, 60)))], cost, 60)
    alone = continued(before)
    assert alone.sources[0] > 0.99 * alone.total
    woken = simulate(alone, [large, endless(1e4)], cost, 3)
    assert woken[-1].limits.sources[0] == pytest.approx(woken[-1].limits.sources[1])
    assert all(b.seconds <= TARGET for b in woken)


@given(hs.floats(1.0, 1e9), hs.floats(1.0, 1e9))
def test_the_limit_of_the_user_holds(bound: float, other: float) -> None:
    limits = first_limits(TARGET, FIRST, (bound, other))
    for batch in simulate(
        limits, [endless(1.0 + bound / 50), endless(1.0 + other / 50)], linear(0.0, 1e-8), 30
    ):
        assert batch.limits.sources[0] <= bound
        assert batch.limits.sources[1] <= other


@given(
    hs.floats(1e-3, 1e4),
    hs.lists(hs.tuples(hs.floats(0.0, 1e6), hs.floats(0.0, 1e15)), max_size=60),
)
def test_limits_are_always_usable(target: float, loads: Iterable[tuple[float, float]]) -> None:
    """A limit is a positive number for every measurement, and one batch changes it by a bounded
    factor.
    """
    limits = first_limits(target, FIRST, (math.inf,))
    for seconds, taken in loads:
        following = limits_after(limits, BatchLoad(seconds, (taken,)))
        assert 1.0 <= following.total < math.inf
        assert 1 / STEP <= following.total / limits.total <= STEP or following.total == 1.0
        limits = following


@given(
    hs.floats(0.0, 1e12),
    hs.lists(hs.one_of(hs.floats(0.0, 1e12), hs.just(math.inf)), min_size=1, max_size=8),
)
def test_shares_are_fair(total: float, wants: list[float]) -> None:
    """The shares add up to the total, and a source that wants more than an equal part gets at least
    that part.
    """
    shares = divide(total, wants)
    assert sum(shares) == pytest.approx(total, abs=1e-3)
    for share, want in zip(shares, wants, strict=True):
        assert share >= min(want, total / len(wants)) * (1 - 1e-9) - 1e-9
