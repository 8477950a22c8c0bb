"""Text reports: problems in a line, an excerpt of the plan, shortened repetitions, and colours only
on terminals.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from substrait_agg_cli import findings
from substrait_agg_cli.main import main

PLANS = Path(__file__).parents[2] / "plans"
Q01 = PLANS / "tpch" / "q01.bin"
LINE = re.compile(r"^(error|warning|info)\[[A-Z_]+\](?: at \S+)?: .+$")


def stderr(*arguments: object, **environment: str) -> str:
    result = CliRunner(env=environment).invoke(main, ["validate", *(str(a) for a in arguments)])
    assert result.exit_code < 2, result.stderr
    return result.stderr


def test_a_problem_is_its_line_the_plan_around_it_and_what_to_do(bad_plan: Path) -> None:
    lines = stderr(bad_plan).splitlines()
    assert LINE.match(lines[0])
    assert lines[1].startswith(f"  --> {bad_plan}:1:")
    assert any(line.startswith("  > ") for line in lines)
    assert any(set(line.strip()) == {"^"} for line in lines)
    assert "frobnicate" in "\n".join(lines[2:-2])
    assert lines[-2].startswith("help: ")
    assert lines[-1] == ""


def test_without_excerpts_a_problem_is_two_lines(bad_plan: Path) -> None:
    first, second = stderr(bad_plan, "--no-excerpt").splitlines()
    assert LINE.match(first)
    assert second.startswith("help: ")


def test_repeats_are_one_line_each_and_counted() -> None:
    text = stderr(Q01, "--verbose")
    assert text.count("warning[PHASE_UNSPECIFIED]") == 8
    assert text.count("help: set the phase") == findings.FULL
    assert text.count("phase: (not written)") == findings.FULL
    assert "note: PHASE_UNSPECIFIED 8 times: set the phase" in text


def test_repeats_are_told_across_plans() -> None:
    text = stderr(Q01, PLANS / "tpch" / "q01.json", "-v")
    assert text.count("warning[PHASE_UNSPECIFIED]") == 16
    assert text.count("help: set the phase") == findings.FULL
    assert "note: PHASE_UNSPECIFIED 16 times" in text


# --- what is summed up -----------------------------------------------------------------------


def test_habits_of_a_producer_are_one_line_per_plan() -> None:
    summed, note = stderr(Q01).splitlines()
    assert summed == (
        "warning[PLAN_DEVIATES]: 23 deviations from the specification are read as DataFusion intends: "
        "7 FUNCTION_NAME_BARE, 8 OUTPUT_TYPE_MISSING, 8 PHASE_UNSPECIFIED"
    )
    assert note == "note: --verbose lists each problem with its place and help"


def test_each_of_several_plans_has_a_line_and_the_note_comes_once() -> None:
    plans = sorted((PLANS / "samples").glob("*/*.bin"))
    lines = stderr(*plans, PLANS / "tpch" / "isthmus" / "q01.bin").splitlines()
    summed = [line.split(": ")[0] for line in lines if "[PLAN_DEVIATES]" in line]
    assert len(summed) == len(set(summed))
    assert f"info[PLAN_DEVIATES] at {PLANS / 'tpch' / 'isthmus' / 'q01.bin'}" in summed
    assert sum(line.startswith("note: --verbose") for line in lines) == 1
    assert not any(line.startswith("warning[PHASE_UNSPECIFIED]") for line in lines)


def _with_measures(path: Path, name: str, count: int, **version: object) -> Path:
    """A copy of the plan with `count` measures that state no phase."""
    plan = json.loads(path.read_text())
    plan.pop("version", None)
    plan.update(version)
    root = plan["relations"][0]["root"]
    (measure,) = root["input"]["aggregate"]["measures"]
    del measure["measure"]["phase"]
    root["input"]["aggregate"]["measures"] = [measure] * count
    root["names"] = ["k", *(f"n{at}" for at in range(count))]
    copy = path.with_name(name)
    copy.write_text(json.dumps(plan))
    return copy


def test_warnings_that_no_profile_explains_are_listed(good_plan: Path) -> None:
    nobody = _with_measures(good_plan, "nobody.json", 3)
    text = stderr(nobody, "--no-excerpt")
    assert text.count("warning[PHASE_UNSPECIFIED] at relations[0]") == 3
    assert "info[PLAN_DEVIATES]: 3 remarks: 1 VERSION_MISSING, 2 MEASURE_DUPLICATE\n" in text
    assert "warning[PLAN_DEVIATES]" not in text
    known = _with_measures(
        good_plan, "known.json", 1, version={"minorNumber": 53, "producer": "acero 1"}
    )
    (summed, _) = stderr(known).splitlines()
    assert summed == (
        "warning[PLAN_DEVIATES]: 1 deviation from the specification is read as Acero intends: 1 PHASE_UNSPECIFIED"
    )


def test_errors_are_in_full_and_warnings_beside_them_summed_up(
    good_plan: Path, tmp_path: Path
) -> None:
    plan = json.loads(
        _with_measures(
            good_plan, "many.json", 5, version={"minorNumber": 53, "producer": "acero"}
        ).read_text()
    )
    plan["extensions"][0]["extensionFunction"]["name"] = "frobnicate"
    path = tmp_path / "many_errors.json"
    path.write_text(json.dumps(plan))
    text = stderr(path)
    errors = text.count("error[AGGREGATE_FUNCTION_UNKNOWN]")
    assert errors > findings.FULL
    assert text.count("  --> ") == text.count("help: ") == errors
    assert text.count("PLAN_DEVIATES") == 1


@pytest.mark.parametrize(
    "arguments", [("--error-on", "warning"), ("--select", "PHASE_*"), ("--verbose",)]
)
def test_what_is_asked_for_or_fails_is_listed(arguments: tuple[str, ...]) -> None:
    text = stderr(Q01, *arguments)
    assert text.count("warning[PHASE_UNSPECIFIED]") == 8
    assert "PLAN_DEVIATES" not in text


def test_documents_are_the_same_with_and_without_verbose() -> None:
    for form in ("json", "sarif", "html"):
        results = [
            CliRunner().invoke(main, ["validate", str(Q01), "--format", form, *more])
            for more in ((), ("--verbose",))
        ]
        assert results[0].stdout == results[1].stdout
        assert "PLAN_DEVIATES" not in results[0].stdout
        assert [r.exit_code for r in results] == [0, 0]


@pytest.mark.parametrize("columns", [40, 80])
def test_excerpts_fit_the_terminal(columns: int) -> None:
    lines = stderr(Q01, "--verbose", COLUMNS=str(columns)).splitlines()
    around = [line for line in lines if line.startswith(("    ", "  >"))]
    assert around
    assert max(map(len, around)) <= columns


def test_colours_are_for_terminals_or_for_those_who_ask(
    bad_plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    plain = stderr(bad_plan)
    assert "\x1b" not in plain
    assert "\x1b" not in stderr(bad_plan, "--color", "never")
    bright = stderr(bad_plan, "--color", "always", NO_COLOR="1")
    assert "\x1b[31m\x1b[1merror[AGGREGATE_FUNCTION_UNKNOWN]\x1b[0m at " in bright
    assert re.sub(r"\x1b\[\d+m", "", bright) == plain


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"NO_COLOR": ""}, True)],
)
def test_no_color_and_dumb_terminals_are_respected(
    environment: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert findings.uses_color("auto") is expected
    assert findings.uses_color("always") is True
    assert findings.uses_color("never") is False


def test_broken_json_is_shown_with_the_line_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{\n  "relations": [\n    {"root": ]\n}')
    text = stderr(path)
    assert f"  --> {path}:3:14" in text
    assert '  > 3 |     {"root": ]' in text


def test_names_in_a_plan_cannot_steer_the_terminal(good_plan: Path) -> None:
    """Escapes and line ends in names stay in their line, as text."""
    plan = json.loads(good_plan.read_text())
    plan["extensions"][0]["extensionFunction"]["name"] = "\x1b[2Jx\nerror[FAKE]: y"
    good_plan.write_text(json.dumps(plan))
    text = stderr(good_plan)
    assert "\x1b" not in text
    assert not any(line.startswith("error[FAKE]") for line in text.splitlines())
    assert "\\x1b[2jx\\nerror[fake]: y" in text.lower()


def test_many_plans_end_with_a_summary(good_plan: Path, bad_plan: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_bytes(good_plan.read_bytes())
    assert (
        stderr(good_plan, bad_plan, other).splitlines()[-1]
        == "3 plans, 2 valid, 1 refused; 1 error"
    )
    assert "plans," not in stderr(good_plan, bad_plan)
