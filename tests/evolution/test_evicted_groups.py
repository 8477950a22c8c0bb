"""Closed, evicted and pending groups at an evolution: they keep the rows that they show, without
the dropped measures.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from substrait_agg.flow.graph.graph import Forget
from substrait_agg.functions.aggregates.accumulators import WeightKind
from substrait_agg.operator.common.completeness import KeyBound
from substrait_agg.operator.common.emission import ALL
from tests.evolution.evolving import evolve
from tests.operator.measures_build import measure
from tests.operator.measures_draw import node_of
from tests.operator.measures_world import World
from tests.operator.test_eviction import (
    SECOND,
    WEIGHTS,
    Times,
    check_open,
    late,
    made_world,
    random_policy,
)
from tests.operator.test_measures_model import small_limits
from tests.sampling import seeds


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("seed", seeds(2, 6))
def test_what_is_left_of_finished_groups(seed: int, weight: WeightKind, tmp_path: Path) -> None:
    """With random policies, measures are dropped and reordered, and a new one is refused while
    closed groups exist.
    """
    random = Random(f"evolution leaving {weight} {seed}")
    with small_limits(random):
        keys = random.choice((("stamp",), ("k0", "stamp")))
        made = made_world(random, tmp_path, weight, keys)
        stream, policy, watermark = Times(random, weight), random_policy(random), -100
        place = keys.index("stamp")
        made.batch([])
        for number in range(8):
            stream.now += random.choice((0, 1, 3))
            on_time = [r for r in stream.batch() if not late(r, watermark)]
            made.batch(on_time, random.choice((1, 2, 4)), emission=policy.at(number))
            watermark = max(watermark, stream.now - random.choice((2, 3, 5)))
            rules = replace(
                policy.watermark_pass(number),
                limits=(KeyBound(place, False, watermark * SECOND),),
                complete=policy.watermark,
                close=True,
            )
            made.batch([], random.choice((1, 2, 4)), emission=rules, again=True)
            if number == 4:
                _drop_some(made, keys, weight, random)
            check_open(made, place, watermark)
        made.batch([], 2, emission=ALL)
        made.check()


def _drop_some(made: World, keys: tuple[str, ...], weight: WeightKind, random: Random) -> None:
    order = random.sample(range(3), random.choice((1, 2, 3)))
    measures = tuple(made.node.measures[i] for i in order)
    shown = made.view()
    if made.now.state["pending"] or made.now.state["closed"]:
        more = node_of(keys, (*measures, measure("count", "long")), weight)
        reasons = evolve(made, more)
        assert reasons
    assert evolve(made, node_of(keys, measures, weight), random.choice((1, 2, 4))) == ()
    assert made.view() == {key: tuple(row[i] for i in order) for key, row in shown.items()}


@pytest.mark.parametrize("forget", ["retract", "keep"])
def test_idle_groups_are_forgotten_as_before(forget: Forget, tmp_path: Path) -> None:
    """The newest event time of a group survives an evolution, and a returning group continues from
    the row in the view.
    """
    random = Random(forget)
    made = made_world(random, tmp_path, "changelog", ("k0",), forget)
    stream = Times(random, "changelog")
    for number in range(6):
        stream.now += 2
        made.batch(stream.batch(), 2, emission=replace(ALL, instant=number))
    shown = made.view()
    node = replace(node_of(("k0",), made.node.measures[:1], "changelog"), forget=forget, timed=True)
    other = replace(node, forget="")
    assert "--ttl" in evolve(made, other)[0]
    assert evolve(made, node, 2) == ()
    assert made.view() == {key: row[:1] for key, row in shown.items()}
    made.batch(stream.batch(), 2, emission=replace(ALL, instant=9))
    made.check()
