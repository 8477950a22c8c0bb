"""Several different mistakes in one plan are all reported, each as if it were alone, in plan order."""

from __future__ import annotations

import random
from typing import Any

import pytest

from substrait_agg.problems import Problem
from tests.planted.checking import Found, differences, explained, parsed, problems_of, relation_of
from tests.planted.mistake import PRODUCERS, Mistake, Planted
from tests.planted.plans import base_plans
from tests.planted.table import MISTAKES

DRAWS = 40
SEED = 20261120
AT_ONCE = (2, 2, 3)
"""Numbers of mistakes to draw from."""


@pytest.mark.parametrize("producer", PRODUCERS)
def test_mistakes_do_not_hide_each_other(producer: str) -> None:
    """All new problems belong to the drawn mistakes; one is missing only if another mistake removed its place."""
    chance = random.Random(SEED)
    complete = 0
    for _ in range(DRAWS):
        name = chance.choice(sorted(base_plans()[producer]))
        content = base_plans()[producer][name]
        plan = parsed(content)
        planted = _plant(plan, producer, chance)
        after = problems_of(plan, "lenient")
        gained, _ = differences(problems_of(parsed(content), "lenient"), after)
        wanted = {problem for _, one in planted for problem in one.problems}
        said = f"{producer} {name}: {[mistake.name for mistake, _ in planted]}"
        assert set(gained) <= wanted, said
        hidden = [problem for problem in wanted if problem not in gained]
        assert all(_taken_away(problem, planted, plan) for problem in hidden), (said, hidden)
        assert list(after) == sorted(after, key=lambda p: _place(plan, p)), said
        complete += not hidden
    assert complete > DRAWS * 3 // 4


@pytest.mark.parametrize(
    "below", ["a partial result of distinct values", "a mask beyond the table's columns"]
)
def test_what_reads_unknown_columns_is_checked_all_the_same(below: str) -> None:
    """A wrong measure or mask makes column types unknown; relations above are still checked."""
    plan = parsed(base_plans()["DataFusion"]["project"])
    kinds = {mistake.name: mistake for mistake in MISTAKES}
    planted = [kinds[name].plant(plan) for name in (below, "a negative output mapping")]
    after = problems_of(plan, "lenient")
    wanted = {problem for one in planted if one is not None for problem in one.problems}
    assert len(wanted) == 2
    assert wanted <= {(p.code, p.path) for p in after}


def _plant(plan: Any, producer: str, chance: random.Random) -> list[tuple[Mistake, Planted]]:
    """Plants mistakes at places that do not lie in each other; the plan is changed."""
    untouched = plan.SerializeToString()
    number = chance.choice(AT_ONCE)
    known = [m for m in MISTAKES if producer in m.producers]
    planted: list[tuple[Mistake, Planted]] = []
    for mistake in chance.sample(known, len(known)):
        alone = mistake.plant(parsed(untouched))
        if alone is None or any(_touch(alone, other) for _, other in planted):
            continue
        one = mistake.plant(plan)
        assert one is not None
        planted.append((mistake, one))
        if len(planted) == number:
            break
    return planted


def _touch(one: Planted, other: Planted) -> bool:
    """Whether one mistake was made at or inside the place of the other, so that it may have undone it."""
    return any(
        left.startswith(right) or right.startswith(left)
        for left in (one.place, *(path for _, path in one.problems))
        for right in (other.place, *(path for _, path in other.problems))
    )


def _taken_away(hidden: Found, planted: list[tuple[Mistake, Planted]], plan: Any) -> bool:
    """Whether another mistake lies below, so that the columns are not known that the hidden one is about."""
    others = [one for _, one in planted if hidden not in one.problems]
    below = relation_of(hidden[1])
    return any(explained(hidden, one, plan) or one.place.startswith(f"{below}.") for one in others)


def _place(plan: Any, problem: Problem) -> tuple[int, ...]:
    """Where a path leads: position of the field in its message and index in it, for every step."""
    place: list[int] = []
    shape = plan.DESCRIPTOR
    for step in problem.path.split("."):
        name, _, index = step.removesuffix("]").partition("[")
        names = [field.name for field in shape.fields] if shape is not None else []
        if name not in names:
            break
        place += (names.index(name), int(index) if index else -1)
        shape = shape.fields_by_name[name].message_type
    return tuple(place)
