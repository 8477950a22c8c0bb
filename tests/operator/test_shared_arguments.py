"""Measures that differ only in their FILTER share exchanged columns, and keep their values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from substrait_agg.bind.bound import BoundMeasure, Call
from substrait_agg.functions.aggregates.accumulators import WeightKind
from substrait_agg.functions.aggregates.kinds import MeasureKind
from substrait_agg.plan.types import BOOL
from tests.operator import test_measures_model as model
from tests.operator.measures_build import FLAG, OTHER, measure
from tests.operator.measures_draw import DRAWS, DrawnMeasures, column, node_of
from tests.operator.measures_world import World
from tests.operator.specs import operator_spec
from tests.sampling import seeds

PRESENT = Call(BOOL.as_nullable(False), "is_not_null", (column("text"),))
FILTERS = (None, FLAG, OTHER, PRESENT, Call(BOOL, "and", (FLAG, PRESENT)))
KINDS: tuple[MeasureKind, ...] = (
    "count", "count", "sum", "min", "max", "list", "median", "string_agg", "nth_value", "min_by", "mode",
)  # fmt: skip


def filtered(random: Random) -> tuple[BoundMeasure, ...]:
    """A few measures, each with several filters, and the number of rows that pass some of them."""
    chosen = [
        DRAWS[random.choice(KINDS)](DrawnMeasures(random, f"m{i}"))
        for i in range(random.choice((1, 2)))
    ]
    measures = [
        replace(one, filter=condition)
        for one in chosen
        for condition in random.sample(FILTERS, random.choice((2, 3, 5)))
    ]
    counted = random.sample(FILTERS, random.choice((0, 2, 5)))
    measures += [measure("count", filter_=condition) for condition in counted]
    random.shuffle(measures)
    return tuple(measures)


@pytest.mark.parametrize("weight", model.WEIGHTS)
@pytest.mark.parametrize("seed", seeds(4, 30))
def test_measures_with_filters_equal_recomputation(
    seed: int, weight: WeightKind, tmp_path: Path
) -> None:
    """Random measures with random filters, tiny pages and slices, and hashes that collide."""
    random = Random(f"{weight} {seed}")
    node = node_of(("k0",), filtered(random), weight)
    world = World(
        node, tmp_path, random.choice((1, 2, 2**32)), page_rows=random.choice((1, 2, 5)),
        slice_rows=random.choice((2, 5, 1000)),
    )  # fmt: skip
    with model.small_limits(random):
        model.run(world, random)


def test_a_filtered_argument_is_not_exchanged_if_its_parts_are() -> None:
    """The task masks the value, which another measure needs, by the filter, which another needs."""
    measures = (
        measure("count", filter_=FLAG),
        measure("count", "text", distinct=True),
        measure("count", "text", distinct=True, filter_=FLAG),
        measure("count", "text", distinct=True, filter_=OTHER),
    )
    node = node_of(("k0",), measures, "append_only")
    (masked,) = operator_spec(node).masked
    value, condition = node.arguments[masked.argument]
    assert node.arguments[masked.value] == (value, None) == (column("text"), None)
    assert node.arguments[masked.condition] == (None, condition) == (None, FLAG)
