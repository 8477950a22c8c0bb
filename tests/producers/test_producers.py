"""Every row of the producers' table describes what the program does, and the page contains these
rows.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import substrait_agg as sa
from substrait_agg.bind.profiles import PROFILES
from substrait_agg.problem_kinds import KINDS, Mode
from tests.producers.case import Case
from tests.producers.cases import CASES
from tests.producers.page import PAGE, written
from tests.producers.plans import ROOT


def content(case: Case) -> bytes:
    return case.plan if isinstance(case.plan, bytes) else json.dumps(case.plan).encode()


def reported(case: Case, mode: Mode = "lenient") -> dict[str, str]:
    return {p.code: p.level for p in sa.validate(content(case), mode).problems}


IDS = [f"{case.producer}: {case.written}"[:70] for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_row_is_what_the_program_does(case: Case) -> None:
    """The columns of the result, and the codes with their levels in both modes."""
    checked = sa.load(content(case)).check()
    types = () if checked.bound is None else tuple(map(str, checked.bound.root.types))
    assert ", ".join(types) == case.types, checked.problems
    found, strict = reported(case), reported(case, "strict")
    for code in case.codes:
        assert found[code] == KINDS[code].lenient
        assert strict[code] == KINDS[code].strict
    if case.shown:
        text = "\n".join((sa.explain(content(case)), *(p.message for p in checked.problems)))
        assert [word for word in case.shown if word not in text] == []


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_plan_of_ours_shows_its_case_alone(case: Case) -> None:
    """Its other problems are those of every plan of its kind: bare names, no phase."""
    if isinstance(case.plan, bytes):
        return  # a producer's own plan has many
    besides = {"ORDER_MISSING", "FUNCTION_NAME_BARE", "SIGNATURE_UNKNOWN", "OUTPUT_TYPE_DIFFERS"}
    assert set(reported(case)) - set(case.codes) <= besides


def test_every_producer_that_has_a_profile_has_rows() -> None:
    named = {profile.name for profile in PROFILES if profile.name != "this program"}
    assert {name for name in named if not any(name in c.producer for c in CASES)} == set()
    assert len(CASES) >= 40


def test_every_habit_of_a_profile_has_a_row() -> None:
    """A habit that is added to a profile needs a case here."""
    for profile in PROFILES:
        told = {code for case in CASES if profile.name in case.producer for code in case.codes}
        assert {habit.code for habit in profile.habits} - told == set(), profile.name


def test_the_page_has_these_rows() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == written(page), "write it again: python -m tests.producers.page"


def test_the_page_is_linked() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert str(Path("docs") / "producers.md") in readme
