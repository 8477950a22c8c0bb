"""An operator that continues with other measures has, at every version, the state as if it had them from the start."""

from __future__ import annotations

from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

from substrait_agg.bind.bound import BoundMeasure, Column, Expr
from substrait_agg.commit.evolution import task
from substrait_agg.flow.graph.aggregate import Aggregate
from substrait_agg.functions.aggregates.accumulators import WeightKind
from tests.evolution.evolving import evolve
from tests.operator.measures_draw import DRAWS, KEYS, DrawnMeasures, Stream, column, node_of
from tests.operator.measures_world import World
from tests.operator.test_early_retractions import guarded
from tests.operator.test_measures_model import WEIGHTS, small_limits
from tests.sampling import seeds


class Narrow(DrawnMeasures):
    """Draws measures over few columns and filters, so that they share state."""

    def __init__(self, random: Random, path: str, chosen: tuple[str, ...]) -> None:
        super().__init__(random, path)
        self.chosen = chosen

    def one(self, names: tuple[str, ...]) -> Column:
        """A column among `names`, one of the few if it can be."""
        few = [n for n in names if n in self.chosen]
        return column(self.random.choice(few or names))

    def condition(self) -> Expr | None:
        """A filter, mostly none."""
        return column("flag") if self.chance(0.2) else None


def pool(random: Random) -> list[BoundMeasure]:
    """Measures that are close to each other."""
    chosen = tuple(random.sample(("long", "double", "text", "cents", "day", "int"), 2))
    kinds = random.choices(tuple(DRAWS), k=9)
    return [DRAWS[k](Narrow(random, f"m{i}", chosen)) for i, k in enumerate(kinds)]


def nodes(random: Random, weight: WeightKind) -> tuple[Aggregate, Aggregate, Aggregate]:
    """Two operators over the same groups with measures of one pool, and a third with what both have of the first."""
    measures = pool(random)
    keys = tuple(random.sample(KEYS[:3], random.choice((0, 1, 2))))
    sets: tuple[tuple[int, ...], ...] = ()
    if keys and random.random() < 0.3:
        sets = ((), tuple(range(len(keys))), (0,))
    before = random.sample(measures, min(len(measures), random.choice((2, 4, 6))))
    after = random.sample(measures, min(len(measures), random.choice((1, 3, 5))))
    common = [m for m in after if m in before] or before[:1]
    early = "carry" if weight == "append_only" else random.choice(("carry", "carry", "refuse"))
    made = (node_of(keys, tuple(some), weight, sets) for some in (before, after, common))
    if early == "carry":
        first, second, third = made
    else:
        first, second, third = (guarded(node, "refuse") for node in made)
    return first, second, third


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("seed", seeds(6, 25, also=(15, 18)))
def test_every_version_is_that_of_the_new_plan(
    seed: int, weight: WeightKind, tmp_path: Path
) -> None:
    """Random measures before and after; measures that cannot be computed are left out of the second
    plan.
    """
    random = Random(f"evolution {weight} {seed}")
    first, second, both = nodes(random, weight)
    with small_limits(random), patch.object(task, "READ_ENTRIES", random.choice((1, 3, 1 << 20))):
        run(
            World(first, tmp_path, random.choice((1, 2, 2**32)), page_rows=random.choice((1, 3))),
            second,
            both,
            random,
        )


def run(world: World, second: Aggregate, both: Aggregate, random: Random) -> str:
    """Batches, an evolution, batches; each checked."""
    early = world.node.early == "carry" and random.random() < 0.5
    stream = Stream(random, world.node.weight, early=early)

    def step() -> None:
        world.batch(stream.batch(), random.choice((1, 2, 4)))
        world.check()

    for _ in range(3):
        step()
    done = "second"
    if evolve(world, second, random.choice((1, 2, 4))):
        done = "both"
        assert evolve(world, both, random.choice((1, 2, 4))) == ()
    world.check()
    for _ in range(3):
        step()
    world.batch(stream.missing_insertions(), 2)
    world.check()
    assert world.entries_kept() == world.entries_expected()
    if world.node.weight != "append_only":
        world.batch(stream.clear(), 2)
        world.check()
        assert world.entries_kept() == 0
    return done


@pytest.mark.soak
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("start", range(0, 2000, 100))
def test_every_version_is_that_of_the_new_plan_for_long(
    start: int, weight: WeightKind, tmp_path: Path
) -> None:
    """The same with many more draws; often enough something was added."""
    added = 0
    for seed in range(start, start + 100):
        random = Random(f"long evolution {weight} {seed}")
        first, second, both = nodes(random, weight)
        folder = tmp_path / str(seed)
        folder.mkdir()
        with (
            small_limits(random),
            patch.object(task, "READ_ENTRIES", random.choice((1, 3, 1 << 20))),
        ):
            done = run(
                World(first, folder, random.choice((1, 2, 2**32)), page_rows=2),
                second,
                both,
                random,
            )
        added += done == "second" and len(second.measures) > len(both.measures)
    assert added > 5
