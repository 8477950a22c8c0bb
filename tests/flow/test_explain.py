"""The explanation of a dataflow."""

from __future__ import annotations

from pathlib import Path

import pytest

from substrait_agg.bind import bind
from substrait_agg.flow import explain_text, lower
from substrait_agg.plan import decode
from substrait_agg.problems import Problems

PLANS = Path(__file__).parents[2] / "plans"
GOLDEN = Path(__file__).parent / "golden"


def explained(name: str) -> str:
    problems = Problems()
    made = bind(decode((PLANS / f"{name}.bin").read_bytes(), problems), problems)
    assert made is not None, problems.errors
    return explain_text(lower(made))


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.txt")), ids=lambda p: p.stem)
def test_explanations_are_as_recorded(path: Path) -> None:
    """A change of these files is a change of how plans are run: look at it before recording it."""
    assert explained(path.stem.replace("__", "/")) == path.read_text()


def test_there_are_recorded_explanations() -> None:
    assert len(list(GOLDEN.glob("*.txt"))) == 5
