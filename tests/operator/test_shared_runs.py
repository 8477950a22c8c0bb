"""Trees that differ only by their FILTER share runs: random changes, evolutions and evictions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

from substrait_agg.bind.bound import BoundMeasure
from substrait_agg.commit.evolution import task
from substrait_agg.flow.graph.aggregate import Aggregate
from substrait_agg.functions.aggregates.accumulators import WeightKind
from substrait_agg.functions.aggregates.kinds import MeasureKind
from substrait_agg.operator.common.names import entries_tree
from substrait_agg.operator.common.spec import OperatorSpec
from tests.evolution.test_model import run as run_evolution
from tests.operator.measures_build import gone, measure, row
from tests.operator.measures_draw import KEYS, column, node_of
from tests.operator.measures_world import World
from tests.operator.specs import operator_spec
from tests.operator.test_early_retractions import guarded
from tests.operator.test_measures_model import WEIGHTS, random_world, run, small_limits
from tests.sampling import seeds

FILTERS = (None, column("flag"), column("sure_flag"))
OTHERS = (measure("max", "long"), measure("list", "text"), measure("median", "double"))


def drawn(random: Random, count: int) -> tuple[BoundMeasure, ...]:
    """Distinct counts and totals over one or two columns with any FILTER, and some other measures."""
    columns = random.sample(("long", "double", "text", "cents"), random.choice((1, 1, 2)))
    measures = []
    for _ in range(count):
        name = random.choice(columns)
        kinds: tuple[MeasureKind, ...] = ("count",) if name == "text" else ("count", "sum", "avg")
        kind = random.choice(kinds)
        options = () if kind == "count" else (("OVERFLOW", "SILENT"),)
        made = measure(kind, name, distinct=True, filter_=random.choice(FILTERS), options=options)
        measures.append(made if random.random() < 0.9 else random.choice(OTHERS))
    return tuple(replace(m, path=f"m{i}") for i, m in enumerate(measures))


def random_node(random: Random, weight: WeightKind) -> Aggregate:
    keys = KEYS[: random.choice((0, 1, 2))]
    sets = ((), tuple(range(len(keys)))) if keys and random.random() < 0.3 else ()
    return node_of(keys, drawn(random, random.choice((3, 5, 8))), weight, sets)


def shares(node: Aggregate) -> bool:
    return any(tree.within is not None for tree in node.groups.trees)


def node_that_shares(random: Random, weight: WeightKind) -> Aggregate:
    while not shares(node := random_node(random, weight)):
        pass
    return node


def spec_of(*measures: BoundMeasure, weight: WeightKind = "changelog") -> OperatorSpec:
    spec = operator_spec(node_of(KEYS[:1], measures, weight))
    assert isinstance(spec, OperatorSpec)
    return spec


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("seed", seeds(4, 25))
def test_every_version_equals_recomputation(seed: int, weight: WeightKind, tmp_path: Path) -> None:
    random = Random(f"shared runs {weight} {seed}")
    node = node_that_shares(random, weight)
    with (
        small_limits(random),
        patch("tests.operator.test_measures_model.random_node", lambda *_: node),
    ):
        run(random_world(random, tmp_path, weight), random)


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("seed", seeds(6, 40))
def test_another_plan_shares_other_runs(seed: int, weight: WeightKind, tmp_path: Path) -> None:
    """A tree comes, goes, or begins to be read as a whole, before and after it shares runs."""
    random = Random(f"shared runs of two plans {weight} {seed}")
    first = node_that_shares(random, weight)
    pool = [*first.measures, *drawn(random, 3)]
    second = random.sample(pool, random.choice((1, 3, 5)))
    both = [m for m in second if m in first.measures] or [first.measures[0]]
    nodes = [first, *(node_of_like(first, tuple(some)) for some in (second, both))]
    if weight != "append_only" and random.random() < 0.4:
        nodes = [guarded(node, "refuse") for node in nodes]
    with small_limits(random), patch.object(task, "READ_ENTRIES", random.choice((1, 3, 1 << 20))):
        world = World(nodes[0], tmp_path, random.choice((1, 2, 2**32)), page_rows=2)
        run_evolution(world, nodes[1], nodes[2], random)


def node_of_like(node: Aggregate, measures: tuple[BoundMeasure, ...]) -> Aggregate:
    keys = tuple(KEYS[: len(node.keys)])
    return node_of(keys, measures, node.weight, node.sets)


def count(filter_: int | None = None, name: str = "long") -> BoundMeasure:
    return measure(
        "count", name, distinct=True, filter_=None if filter_ is None else FILTERS[filter_]
    )


def test_only_trees_that_are_counted_share_runs() -> None:
    """A tree of which values are read keeps runs of its own; so do FILTERs without the other."""
    within = {
        (count(), count(1), count(2)): [None, 0, 0],
        (count(1), count(), count(2)): [1, None, 1],
        (count(1), count(2)): [None, None],
        (count(), count(1), measure("list", "long", filter_=FILTERS[1])): [None, None],
        (count(), count(1), measure("list", "long")): [None, None],
        (count(), count(1, "text")): [None, None],
        (count(), count(1), measure("avg", "long", distinct=True, filter_=FILTERS[1])): [None, 0],
    }
    for measures, places in within.items():
        assert [t.within for t in spec_of(*measures).trees] == places


def test_an_entry_has_a_weight_for_each_filter(tmp_path: Path) -> None:
    """Entries are stored once; one that only weights of several rows cancel in stays for a FILTER."""
    world = World(node_of(("k0",), (count(), count(1), count(2)), "changelog"), tmp_path)
    rows = [
        row(k0=1, long=7, flag=True, sure_flag=False),
        row(k0=1, long=7, flag=False, sure_flag=True),
        row(k0=1, long=8, flag=None, sure_flag=False),
    ]
    world.batch(rows)
    world.check()
    assert set(world.now.state.trees) == {"group", entries_tree(0)}
    assert world.value(1) == (2, 1, 1)
    # The retraction has another flag than the row: the weight without FILTER is 0, the others not.
    world.batch([*gone(row(k0=1, long=8, flag=True, sure_flag=False))])
    world.check()
    assert world.value(1) == (1, 1, 1)
    assert world.entries_kept() == world.entries_expected() == 4
    world.batch(gone(*rows))
    world.batch([row(k0=1, long=8, flag=True, sure_flag=False)])
    assert world.entries_kept() == 0
