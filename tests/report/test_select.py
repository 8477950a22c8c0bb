"""The selection of problems by codes, patterns and levels."""

from __future__ import annotations

import pytest

from substrait_agg.errors import UsageError
from substrait_agg.problem_kinds import KINDS, Level
from substrait_agg.problems import Problem
from substrait_agg.report.report import Report
from substrait_agg.report.select import Selection, fails

CODES = ("PHASE_UNSPECIFIED", "OUTPUT_TYPE_MISSING", "RELATION_NOT_SUPPORTED")
REPORT = Report(
    "x.bin",
    tuple(Problem(code, KINDS[code].lenient, "relations[0]", "m", "h") for code in CODES),
)


def shown(selected: tuple[str, ...] = (), ignored: tuple[str, ...] = ()) -> list[str]:
    report = Selection.of(selected, ignored).of_report(REPORT)
    assert {*report.problems, *report.hidden} == set(REPORT.problems)
    return [problem.code for problem in report.problems]


def test_without_options_everything_is_shown() -> None:
    assert shown() == list(CODES)


@pytest.mark.parametrize(
    ("selected", "ignored", "left"),
    [
        (("PHASE_UNSPECIFIED",), (), [0]),
        (("phase_unspecified, output_type_missing",), (), [0, 1]),
        (("PHASE_*", "RELATION_*"), (), [0, 2]),
        ((), ("OUTPUT_TYPE_MISSING",), [0, 2]),
        ((), ("*_MISSING", "PHASE_*"), [2]),
        (("*",), ("RELATION_NOT_SUPPORTED",), [0, 1]),
        ((), ("*",), []),
    ],
)
def test_codes_are_selected_then_ignored(
    selected: tuple[str, ...], ignored: tuple[str, ...], left: list[int]
) -> None:
    assert shown(selected, ignored) == [CODES[at] for at in left]


@pytest.mark.parametrize(
    ("word", "advice"),
    [("PHASE_UNSPECIFED", "PHASE_UNSPECIFIED"), ("XYZZY_*", "problems"), ("Q", "problems")],
)
def test_an_unknown_code_is_a_wrong_call_with_a_suggestion(word: str, advice: str) -> None:
    with pytest.raises(UsageError) as raised:
        Selection.of((), (word,))
    assert (raised.value.code, raised.value.path) == ("CODE_UNKNOWN", "--ignore")
    assert word in raised.value.message
    assert advice in raised.value.help


def test_a_plan_with_ignored_errors_is_still_refused() -> None:
    """The result of `run` does not depend on the selected problems."""
    report = Selection.of((), ("RELATION_NOT_SUPPORTED",)).of_report(REPORT)
    assert not report.ok
    assert not fails(report)
    assert report.as_dict()["valid"] is False


@pytest.mark.parametrize(
    ("worst", "level", "expected"),
    [
        ("info", "info", True), ("info", "warning", False), ("info", "error", False),
        ("warning", "info", True), ("warning", "warning", True), ("warning", "error", False),
        ("error", "info", True), ("error", "warning", True), ("error", "error", True),
    ],
)  # fmt: skip
def test_the_mildest_level_that_counts(worst: Level, level: Level, expected: bool) -> None:
    problems = (Problem("A", "info", "", "m", "h"), Problem("A", worst, "", "m", "h"))
    assert fails(Report("", problems), level) is expected
    assert not fails(Report("", ()), level)
