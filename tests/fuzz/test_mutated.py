"""Valid plans with changed fields, bytes and texts: every property of `properties.check` holds."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.messages import Message, parsed, to_json, to_wire
from tests.fuzz.mutate import mutated, samples
from tests.fuzz.properties import check

PLANS = [parsed(content) for content in samples()]
RANDOM = st.randoms(use_true_random=False)

SUPPRESSED = [HealthCheck.too_slow, HealthCheck.large_base_example, HealthCheck.data_too_large]
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=SUPPRESSED, derandomize=True)
SOAK = settings(max_examples=6000, deadline=None, suppress_health_check=SUPPRESSED)


def changed(plan: Message, random: Random) -> Message:
    """The plan with one to five fields changed."""
    return mutated(plan, random, random.choice((1, 1, 2, 3, 5)))


def damaged(content: bytes, random: Random) -> bytes:
    """The bytes with some flipped, cut off, moved or doubled."""
    made = bytearray(content)
    for _ in range(random.randint(1, 6)):
        at, to = (random.randrange(len(made) + 1) for _ in range(2))
        kind = random.choice(("flip", "cut", "insert", "splice"))
        if kind == "flip" and made:
            made[at % len(made)] ^= 1 << random.randrange(8)
        elif kind == "cut":
            made = made[: max(at, 1)]
        elif kind == "insert":
            made[at:at] = random.randbytes(random.randint(1, 4))
        else:
            low, high = sorted((at, to))
            made[low:low] = made[low:high]
        made = made or bytearray(b"\n")
    return bytes(made)


def fields(random: Random) -> bytes:
    return to_wire(changed(random.choice(PLANS), random))


def json_fields(random: Random) -> bytes:
    return to_json(changed(random.choice(PLANS), random)).encode()


def raw_bytes(random: Random) -> bytes:
    return damaged(to_wire(random.choice(PLANS)), random)


def json_text(random: Random) -> bytes:
    return damaged(to_json(random.choice(PLANS)).encode(), random)


WAYS = (fields, json_fields, raw_bytes, json_text)


def test_the_samples_themselves() -> None:
    """The properties hold for the unchanged samples, which include valid plans."""
    assert sum(check(content) for content in samples()) > 20


@pytest.mark.parametrize("way", WAYS)
def test_changed_plans(way: object) -> None:
    assert callable(way)

    @QUICK
    @given(RANDOM)
    def run(random: Random) -> None:
        check(way(random))

    run()


@pytest.mark.soak
@pytest.mark.parametrize("way", WAYS)
def test_many_changed_plans(way: object) -> None:
    assert callable(way)

    @SOAK
    @given(RANDOM)
    def run(random: Random) -> None:
        check(way(random))

    run()


def test_changes_make_valid_and_broken_plans() -> None:
    """If nearly all changed plans were refused in the same way, the rest of the program would not be reached."""
    outcomes = [check(fields(Random(seed))) for seed in range(60)]
    assert 10 < sum(outcomes) < 50
