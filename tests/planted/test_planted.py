"""A mistake that is planted in a plan of a real producer is reported with its code and place, without other problems."""

from __future__ import annotations

from functools import cache

import pytest

from substrait_agg.problem_kinds import KINDS, MODES, Mode
from substrait_agg.problems import Problem
from tests.planted.checking import differences, explained, parsed, problems_of
from tests.planted.mistake import PRODUCERS, Mistake
from tests.planted.plans import base_plans
from tests.planted.table import MISTAKES

KINDS_PER_PRODUCER = 60


def _faults(mistake: Mistake, producer: str, name: str, *, json: bool) -> list[str] | None:
    """What validation gets wrong about the mistake in one plan; None where the plan has no place for it."""
    content = base_plans()[producer][name]
    faults = []
    plan = parsed(content)
    planted = mistake.plant(plan)
    if planted is None:
        return None
    for mode in MODES:
        before = _untouched(content, mode)
        after = problems_of(plan, mode)
        gained, gone = differences(before, after)
        if sorted(gained) != sorted(planted.problems):
            faults.append(f"{producer} {name} {mode}: {gained} instead of {planted.problems}")
        unexplained = [g for g in gone if not explained(g, planted, plan)]
        if unexplained:
            faults.append(f"{producer} {name} {mode}: no longer reported: {unexplained}")
        if mode == "lenient" and json and after != problems_of(plan, mode, json=True):
            faults.append(f"{producer} {name} {mode}: something else as JSON")
    return faults


@cache
def _untouched(content: bytes, mode: Mode) -> tuple[Problem, ...]:
    return problems_of(parsed(content), mode)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.name)
def test_a_mistake_is_reported_at_its_place_and_nothing_else(mistake: Mistake) -> None:
    """In every plan that has a place for it, of each producer that it names, in both modes and encodings."""
    for producer in mistake.producers:
        tried: list[list[str]] = []
        for name in base_plans()[producer]:
            # As JSON it is the same message: one plan shows that its places are named alike.
            faults = _faults(mistake, producer, name, json=mistake.json and not tried)
            tried.extend([] if faults is None else [faults])
        assert tried, f"no plan of {producer} has a place for it"
        assert not [fault for faults in tried for fault in faults]


@pytest.mark.parametrize("producer", PRODUCERS)
def test_enough_kinds_of_mistakes_are_planted(producer: str) -> None:
    """The table keeps its size, and every kind has its own name."""
    kinds = {m.name for m in MISTAKES if producer in m.producers}
    assert len(kinds) >= KINDS_PER_PRODUCER


def test_names_of_mistakes_are_their_own_and_second_problems_have_a_reason() -> None:
    """A failing case is known by its name; two problems for one mistake have to be argued for."""
    names = [m.name for m in MISTAKES]
    assert sorted(set(names)) == sorted(names)
    assert all(bool(m.also) == bool(m.because) for m in MISTAKES)


def test_every_code_that_is_planted_is_one_of_the_table() -> None:
    """Guards against a code that is renamed while its mistakes are not planted any more."""
    planted = {code for m in MISTAKES for code in (m.code, *(code for code, _ in m.also))}
    assert planted <= KINDS.keys()
    assert len(planted) > len(KINDS) // 2
