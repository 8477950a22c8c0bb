"""The excerpt of a plan around a problem."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import substrait_agg
from substrait_agg.escape import printable
from substrait_agg.plan.messages.message import read_message
from substrait_agg.problems import Problem
from substrait_agg.report.places.located_problems import LocatedProblems, excerpt
from substrait_agg.report.report import Report
from substrait_agg.report.tree.expressions import function_names

PLANS = Path(__file__).parents[2] / "plans"
AGGREGATE = "relations[0].root.input.sort.input.project.input.aggregate"


def shown(content: bytes, path: str, width: int = 76) -> str:
    """The lines with their marks, as the command writes them."""
    root = read_message(content)
    assert root is not None
    lines = []
    for line in excerpt(root, function_names(root), path, width):
        lines.append(f"{'>' if line.marked else ' '} {line.text}")
        if line.marked:
            lines.append("  " + " " * line.start + "^" * (line.end - line.start))
    return "\n".join(lines)


def q01() -> bytes:
    return (PLANS / "tpch" / "q01.bin").read_bytes()


def test_a_field_that_is_not_written_is_shown_where_it_would_be() -> None:
    assert shown(q01(), f"{AGGREGATE}.measures[0].measure.phase") == (
        "  … measures[0].measure:\n"
        "    function_reference: 3  # sum\n"
        "    arguments[0]: field 1\n"
        ">   phase: (not written)\n"
        "    ^^^^^\n"
        "    invocation: AGGREGATION_INVOCATION_ALL"
    )


def test_a_message_is_shown_with_its_fields() -> None:
    assert shown(q01(), f"{AGGREGATE}.measures[0].measure") == (
        "> … measures[0].measure:\n"
        "                ^^^^^^^\n"
        "    function_reference: 3  # sum\n"
        "    arguments[0]: field 1\n"
        "    invocation: AGGREGATION_INVOCATION_ALL"
    )


def test_expressions_are_calls_with_columns_and_constants() -> None:
    text = shown(q01(), f"{AGGREGATE}.input.project.input.filter")
    assert "condition: lte(field 6, DATE '1998-08-03')" in text
    assert "input: read {…}" in text


def test_both_encodings_of_a_plan_read_the_same() -> None:
    other = (PLANS / "tpch" / "q01.json").read_bytes()
    for problem in substrait_agg.validate(q01()).problems:
        assert shown(q01(), problem.path) == shown(other, problem.path)


def test_items_of_long_lists_are_shown_with_their_neighbours(counting: dict[str, Any]) -> None:
    counting["relations"][0]["root"]["input"]["aggregate"]["measures"] *= 40
    content = json.dumps(counting).encode()
    path = "relations[0].root.input.aggregate.measures"
    one = shown(content, f"{path}[20]").splitlines()
    assert one[0] == "> … aggregate.measures[20]:"
    beyond = shown(content, f"{path}[41].measure").splitlines()
    assert ">   measures[41]: (not written)" in beyond
    assert "    measures[39]: count:()" in beyond
    assert not any("measures[20]" in line for line in beyond)
    whole = shown(content, path).splitlines()
    assert whole[whole.index(">   measures[0]: count:()") + 1] == "    ^^^^^^^^"
    assert len(whole) < 12


def test_what_the_message_does_not_know_is_named_as_such(counting: dict[str, Any]) -> None:
    counting["version"]["frobnicate"] = 1
    text = shown(json.dumps(counting).encode(), "version.frobnicate")
    assert ">   frobnicate: (no field of this message)" in text
    assert 'producer: "by hand"' in text


def test_a_problem_of_the_plan_as_a_whole_has_no_lines() -> None:
    assert shown(q01(), "") == ""
    assert shown(q01(), "version.nothing.at.all") != ""


@pytest.mark.parametrize("width", [30, 60, 76])
def test_no_line_is_wider_than_asked_for(width: int) -> None:
    names = [f"a_column_with_quite_a_long_name_{at}" for at in range(50)]
    plan = json.loads((PLANS / "tpch" / "q01.json").read_text())
    plan["relations"][0]["root"]["names"] = names
    content = json.dumps(plan).encode()
    root = read_message(content)
    assert root is not None
    paths = [p.path for p in substrait_agg.validate(content).problems]
    for path in [*paths, "relations[0].root.names[3]", "relations[0].root", f"{AGGREGATE}.input"]:
        for line in excerpt(root, function_names(root), path, width):
            assert len(line.text) <= width, line.text


def test_deep_expressions_are_cut_and_not_followed() -> None:
    """A thousand nested NOTs are one line of the excerpt."""
    value: dict[str, Any] = {"literal": {"boolean": True}}
    for _ in range(600):
        call = {"functionReference": 1, "arguments": [{"value": value}]}
        value = {"scalarFunction": call}
    declared = {"extensionFunction": {"functionAnchor": 1, "name": "not:bool"}}
    plan = {"extensions": [declared], "relations": [{"rel": {"filter": {"condition": value}}}]}
    text = _dumped(plan)
    line = shown(text, "relations[0].rel.filter.input").splitlines()[2]
    assert shown(text, "relations[0].rel.filter.condition").count("\n") == 2
    assert "not:bool(not:bool(" in shown(text, "relations[0].rel.filter.input")
    assert line


def _dumped(plan: dict[str, Any]) -> bytes:
    import sys

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        return json.dumps(plan).encode()
    finally:
        sys.setrecursionlimit(limit)


def test_texts_of_the_plan_cannot_steer_the_terminal(counting: dict[str, Any]) -> None:
    counting["version"]["producer"] = "\x1b[31mred\x07\u202egnirts\nnext"
    text = shown(json.dumps(counting).encode(), "version")
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len([line for line in text.splitlines() if "producer" in line]) == 1
    assert printable("a\x1b[0m\n\u202eb") == "a\\x1b[0m\\n\\u202eb"


def test_broken_json_is_shown_as_it_stands_in_the_file() -> None:
    content = b'{\n  "version": {},\n  "relations": [,]\n}\n'
    (problem,) = substrait_agg.validate(content).problems
    located = LocatedProblems(Report("x.json", (problem,), content))
    (line,) = located.lines(problem)
    assert line.text == '3 |   "relations": [,]'
    assert line.text[line.start : line.end] == ","
    region = located.region(problem)
    assert region is not None
    assert (region.line, region.column) == (3, 17)


def test_a_long_line_of_broken_json_is_cut_around_the_place() -> None:
    content = ('{"a": "' + "x" * 5000 + '", ?}').encode()
    problem = Problem("PLAN_UNREADABLE", "error", "", "m", "h")
    (line,) = LocatedProblems(Report("x.json", (problem,), content)).lines(problem)
    assert len(line.text) <= 76
    assert line.text[line.start : line.end] == "?"


def test_broken_bytes_have_an_offset_and_no_lines() -> None:
    problem = Problem("PLAN_UNREADABLE", "error", "", "m", "h")
    located = LocatedProblems(Report("x.bin", (problem,), b"\x1a\x05\x0a"))
    region = located.region(problem)
    assert region is not None
    assert not region.is_text
    assert located.lines(problem) == []
