"""The cost model: it learns both ways from the batches of a run, and chooses the cheaper one."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

import substrait_agg as sa
from substrait_agg.flow.passes.lower import lower
from substrait_agg.refresh.checks import RunConditions
from substrait_agg.refresh.chooser import RefreshChooser
from substrait_agg.refresh.cost_model import (
    JOB,
    RATIO,
    RATIO_OF_ROWS,
    REMEMBERED,
    BatchCost,
    CostHistory,
    InputSize,
)
from substrait_agg.refresh.policies import parse_refresh
from tests.views.brokerage import TABLES

pytestmark = pytest.mark.usefixtures("spark")

FIXED, PER_BYTE, PER_BYTE_AGAIN = 20_000, 3.0, 1.0
"""Microseconds of a batch of a run that is made up."""


def cost(
    batch: int, whole: int, *, full: bool, noise: float = 0.0, random: Random | None = None
) -> BatchCost:
    """Return the cost of a batch, with noise up to the given amount."""
    time = FIXED + (whole * PER_BYTE_AGAIN if full else batch * PER_BYTE)
    factor = 1 + noise * (random or Random(0)).uniform(-1, 1)
    return BatchCost(full, whole if full else batch, int(time * factor))


def chooser(policy: str = "auto") -> RefreshChooser:
    flow = lower(sa.sql("SELECT count(*) n FROM trades", TABLES).bind())
    return RefreshChooser(flow, parse_refresh(policy), RunConditions())


def test_nothing_is_estimated_without_a_measured_batch() -> None:
    assert CostHistory().estimate(InputSize(1, 2)) is None
    choice = chooser().choose(CostHistory(), InputSize(1, 2))
    assert (choice.operators, choice.measured) == (frozenset(), ((False, 1),))


def test_the_first_batch_tells_the_cost_of_computing_again() -> None:
    choice = chooser().choose(CostHistory(), InputSize(5, 5))
    assert not choice.operators
    assert choice.measured == ((True, 5),)


@pytest.mark.parametrize("ratio", [RATIO, RATIO_OF_ROWS])
def test_one_way_is_guessed_from_the_other(ratio: float) -> None:
    fixed, size = 10_000, 10_000_000
    small = BatchCost(False, 10, fixed)
    known = CostHistory((small, BatchCost(False, size, size)), ratio).estimate(
        InputSize(size, size)
    )
    assert known is not None
    assert known.incremental / known.full == pytest.approx(ratio, rel=0.1)
    for costs in ((small, BatchCost(True, size, size)), (BatchCost(True, size, size),)):
        known = CostHistory(costs, ratio).estimate(InputSize(size, size))
        assert known is not None
        assert known.incremental / known.full == pytest.approx(ratio, rel=0.5)


def test_a_full_policy_is_measured_as_well() -> None:
    choice = chooser("full").choose(CostHistory(), InputSize(2, 7))
    assert choice.operators == {0}
    assert choice.measured == ((True, 7),)


@pytest.mark.parametrize(
    ("query", "ratio"),
    [
        ("SELECT count(*) n FROM trades", RATIO),
        ("SELECT count(DISTINCT symbol) n FROM trades", RATIO_OF_ROWS),
        ("SELECT median(quantity) n FROM trades", RATIO_OF_ROWS),
        (
            "SELECT count(*) n FROM trades t JOIN accounts a ON t.account_id = a.account_id",
            RATIO_OF_ROWS,
        ),
    ],
)
def test_the_first_guess_depends_on_what_operators_store(query: str, ratio: float) -> None:
    """Changes of stored rows and values cost more than changes of totals."""
    flow = lower(sa.sql(query, TABLES).bind())
    history = CostHistory((BatchCost(True, 1_000_000, 1_000_000), BatchCost(False, 10, 1_000)))
    size = InputSize(500_000, 1_500_000)
    choice = RefreshChooser(flow, parse_refresh("auto"), RunConditions()).choose(history, size)
    assert choice.estimate == replace(history, ratio=ratio).estimate(size)


@pytest.mark.parametrize("noise", [0.0, 0.15])
def test_the_crossover_is_learnt_from_batches_of_two_sizes(noise: float) -> None:
    random = Random(1)
    history, whole = CostHistory(), 0
    for batch in (1_000_000, 10_000, 50_000, 20_000, 200_000):
        whole += batch
        choice = chooser().choose(history, InputSize(batch, whole))
        for full, _ in choice.measured:
            history = history.add(cost(batch, whole, full=full, noise=noise, random=random))
    # A first guess lets a run try the other way once.
    history = history.add(cost(0, whole, full=True, noise=noise, random=random))
    right = 0
    batches = [int(whole * share) for share in (0.01, 0.1, 0.3, 0.4, 0.6, 0.8, 1, 2, 4, 10)]
    for batch in batches:
        size = InputSize(batch, whole + batch)
        both = [cost(batch, whole + batch, full=full).microseconds for full in (False, True)]
        taken = both[bool(chooser().choose(history, size).operators)]
        right += taken <= 1.2 * min(both)
    assert right >= 9


def test_a_job_is_expected_of_batches_that_do_not_fit_the_driver() -> None:
    """Computing again reads all input, so it needs a job before an incremental batch does."""
    limit, size = 4_000_000, InputSize(3_000_000, 6_000_000)
    history = CostHistory((BatchCost(True, 2_000_000, 200_000), BatchCost(False, 10, 20_000)))
    without, limited = history.estimate(size), replace(history, driver_bytes=limit).estimate(size)
    assert without is not None
    assert limited is not None
    assert limited.incremental == without.incremental
    assert limited.full == without.full + JOB
    # A batch of that size tells it better.
    known = history.add(BatchCost(True, 5_000_000, 800_000))
    assert replace(known, driver_bytes=limit).estimate(size) == known.estimate(size)


def test_small_batches_do_not_tell_the_time_per_byte() -> None:
    """A batch of few bytes that was disturbed for a moment says nothing of a large one."""
    costs = (
        BatchCost(True, 2_000_000, 600_000),
        BatchCost(False, 30_000, 40_000),
        BatchCost(False, 150_000, 200_000),
    )
    found = CostHistory(costs).estimate(InputSize(3_000_000, 5_000_000))
    assert found is not None
    assert found.incremental < 1.6 * RATIO * 600_000 * 3 / 2
    assert found.incremental < found.full


def test_a_changed_machine_is_noticed() -> None:
    """Newer batches weigh more: the estimate follows a machine that becomes ten times as slow."""
    history = CostHistory((BatchCost(True, 100_000, 50_000),))
    for slow in (1, 10):
        for i in range(REMEMBERED):
            history = history.add(BatchCost(False, 10_000 + i, slow * 10_000))
    found = history.estimate(InputSize(10_000, 10_000))
    assert found is not None
    assert found.incremental == pytest.approx(100_000, rel=0.3)


def test_the_first_batch_of_a_run_counts_less() -> None:
    """A later batch corrects a first one that was ten times as slow."""
    first = BatchCost(True, 1_000_000, 10_000_000, cold=True)
    later = [BatchCost(False, 1_000_000 + i, 1_300_000) for i in range(4)]
    size = InputSize(1_000_000, 1_000_000)
    found = CostHistory((first, *later)).estimate(size)
    alike = CostHistory((replace(first, cold=False), *later)).estimate(size)
    assert found is not None
    assert alike is not None
    assert found.full < alike.full


def test_only_the_newest_batches_of_each_way_are_kept() -> None:
    history = CostHistory((BatchCost(True, 7, 7),))
    for i in range(3 * REMEMBERED):
        history = history.add(BatchCost(False, i, i))
    assert len(history.costs) == REMEMBERED + 1
    assert history.costs[0] == BatchCost(True, 7, 7)
    assert history.costs[-1].bytes == 3 * REMEMBERED - 1


def test_an_estimate_is_never_negative() -> None:
    random = Random(3)
    for _ in range(200):
        costs = [
            BatchCost(random.random() < 0.5, random.randrange(10**6), random.randrange(10**6))
            for _ in range(6)
        ]
        found = CostHistory(tuple(costs)).estimate(InputSize(random.randrange(10**9), 10**9))
        assert found is not None
        assert min(found.incremental, found.full) >= 0
