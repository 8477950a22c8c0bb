"""Plans of any release become plans of the newest, with the same meaning, in both encodings."""

from __future__ import annotations

from pathlib import Path

import pytest

import substrait_agg as sa
from substrait_agg.plan.messages.convert import as_message, bytes_of, json_of

ROOT = Path(__file__).parents[2]
SUFFIXES = {".bin", ".json"}
FOLDERS = (ROOT / "plans", ROOT / "tests" / "data" / "producers")
PLANS = sorted(p for folder in FOLDERS for p in folder.rglob("*") if p.suffix in SUFFIXES)


def meaning(plan: sa.Plan) -> str:
    bound = plan.bind()
    return bound.fingerprint


@pytest.mark.parametrize("path", PLANS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_converted_plan_means_the_same(path: Path) -> None:
    plan = sa.load(path)
    if not sa.validate(plan).ok:
        pytest.skip("the plan is refused")
    message = as_message(plan.content, state_release=False)
    assert meaning(sa.Plan("", bytes_of(message))) == meaning(plan)
    assert meaning(sa.Plan("", json_of(message))) == meaning(plan)
    again = as_message(json_of(message), state_release=False)
    assert bytes_of(again) == bytes_of(message)


def test_a_field_of_no_release_is_not_lost() -> None:
    with pytest.raises(sa.UsageError) as caught:
        as_message('{"relations": [{"rel": {"read": {}}}], "colour": 1}')
    assert caught.value.code == "PLAN_NOT_CONVERTED"
