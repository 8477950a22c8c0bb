"""Reports of damaged plans exist in every format, for any content."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import substrait_agg
from substrait_agg.plan.messages.message import read_message
from substrait_agg.report.places.located_problems import LocatedProblems, excerpt
from substrait_agg.report.tree.expressions import function_names

PLANS = Path(__file__).parents[2] / "plans"
WHOLE = [(PLANS / "tpch" / name).read_bytes() for name in ("q01.bin", "q06.json")]
STEPS = st.sampled_from(
    "relations[0] root input aggregate measures[0] measure phase x names[7] sort [ ][ a[-1] a[x] 12".split()
)


@st.composite
def spoiled(draw: st.DrawFn) -> bytes:
    """A real plan with a few other bytes, perhaps cut off."""
    content = bytearray(draw(st.sampled_from(WHOLE)))
    for _ in range(draw(st.integers(0, 6))):
        content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
    return bytes(content[: draw(st.integers(len(content) // 2, len(content)))])


@given(spoiled())
@settings(max_examples=60, deadline=None)
def test_every_problem_has_lines_and_a_region_in_the_content(content: bytes) -> None:
    report = substrait_agg.validate(content)
    located = LocatedProblems(report)
    for problem in report.problems:
        for line in located.lines(problem, 70):
            assert len(line.text) <= 70
            assert 0 <= line.start <= line.end <= max(len(line.text), line.end)
        region = located.region(problem)
        assert region is None or 0 <= region.start <= region.end <= len(content)
    json.loads(report.to_sarif())
    json.loads(report.to_json())


@given(st.lists(STEPS, max_size=9), st.integers(1, 90))
@settings(max_examples=150, deadline=None)
def test_any_path_and_any_width_can_be_asked_for(steps: list[str], width: int) -> None:
    root = read_message(WHOLE[0])
    assert root is not None
    path = ".".join(steps)
    for line in excerpt(root, function_names(root), path, width):
        assert "\n" not in line.text
