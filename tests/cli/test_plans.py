"""validate and explain: exit status, streams, and the JSON document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import substrait_agg
from substrait_agg_cli.main import main


def call(*arguments: object, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments], input=stdin)


def test_a_valid_plan_is_one_line_on_stdout(good_plan: Path) -> None:
    result = call("validate", good_plan)
    assert (result.exit_code, result.stdout) == (0, f"{good_plan}: valid\n"), result.stderr
    assert result.stderr == ""


def test_errors_have_code_path_and_help_on_stderr(bad_plan: Path) -> None:
    result = call("validate", bad_plan, "--no-excerpt")
    assert result.exit_code == 1
    assert result.stdout == f"{bad_plan}: refused (1 error)\n"
    error, advice = result.stderr.splitlines()
    assert error.startswith(
        "error[AGGREGATE_FUNCTION_UNKNOWN] at relations[0].root.input.aggregate.measures[0]"
    )
    assert "frobnicate" in error
    assert advice.startswith("help: ")


def test_json_has_exactly_the_published_fields(good_plan: Path, bad_plan: Path) -> None:
    result = call("validate", "--format", "json", good_plan, bad_plan)
    assert (result.exit_code, result.stderr) == (1, "")
    document: dict[str, Any] = json.loads(result.stdout)
    assert set(document) == {"valid", "plans"}
    good, bad = document["plans"]
    assert good == {"plan": str(good_plan), "valid": True, "problems": []}
    assert (document["valid"], bad["plan"], bad["valid"]) == (False, str(bad_plan), False)
    (problem,) = bad["problems"]
    assert set(problem) == {"code", "level", "path", "message", "help"}
    assert (problem["code"], problem["level"]) == ("AGGREGATE_FUNCTION_UNKNOWN", "error")


def test_with_several_plans_problems_name_theirs(good_plan: Path, bad_plan: Path) -> None:
    result = call("validate", good_plan, bad_plan)
    assert result.exit_code == 1
    assert f"] at {bad_plan}:relations[0]" in result.stderr
    assert len(result.stdout.splitlines()) == 2


def test_a_plan_comes_from_stdin(good_plan: Path) -> None:
    result = call("validate", "-", "--format", "json", stdin=good_plan.read_bytes())
    assert result.exit_code == 0
    assert json.loads(result.stdout)["plans"][0]["plan"] == "-"


@pytest.mark.parametrize("content", [b"not a plan", b"\xff\xff\xff\xff", b"{", b"[1]", b""])
def test_what_is_no_plan_is_a_problem_and_not_a_crash(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(content)
    result = call("validate", path, "--format", "json")
    assert result.exit_code == 1, result.stderr
    assert json.loads(result.stdout)["valid"] is False
    assert call("explain", path).exit_code == 1


def test_strict_makes_a_deviation_an_error(good_plan: Path) -> None:
    """An unset phase, as most producers leave it, is a warning, and in strict mode an error."""
    plan = json.loads(good_plan.read_text())
    aggregate = plan["relations"][0]["root"]["input"]["aggregate"]
    del aggregate["measures"][0]["measure"]["phase"]
    good_plan.write_text(json.dumps(plan))
    lenient, strict = call("validate", good_plan), call("validate", "--mode", "strict", good_plan)
    assert (lenient.exit_code, strict.exit_code) == (0, 1)
    assert lenient.stderr.startswith("warning[PHASE_")
    assert strict.stderr.startswith("error[PHASE_")


def test_explain_describes_the_plan_on_stdout(good_plan: Path) -> None:
    result = call("explain", good_plan)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "count" in result.stdout
    assert result.stdout == substrait_agg.explain(str(good_plan)).rstrip("\n") + "\n"


def test_explain_and_run_count_warnings_where_there_are_several(good_plan: Path) -> None:
    """Three equal warnings are one line, which says where all of them are listed."""
    plan = json.loads(good_plan.read_text())
    root = plan["relations"][0]["root"]
    (measure,) = root["input"]["aggregate"]["measures"]
    del measure["measure"]["phase"]
    root["input"]["aggregate"]["measures"] = [measure] * 3
    root["names"] = ["k", "n", "m", "o"]
    good_plan.write_text(json.dumps(plan))
    warning, advice = call("explain", good_plan).stderr.splitlines()
    assert warning.startswith("warning[PLAN_DEVIATES]: 3 deviations ")
    assert warning.endswith(": 3 PHASE_UNSPECIFIED")
    assert advice == f"help: substrait-agg validate --verbose {good_plan} lists them"
    assert call("validate", good_plan).stderr.count("warning[PHASE_UNSPECIFIED]") == 3


def test_of_random_bytes_only_that_they_are_no_plan_is_said(tmp_path: Path) -> None:
    """The readable part of a damaged plan is not shown."""
    path = tmp_path / "broken.bin"
    path.write_bytes(b"\xa8\x01\x01\xb0\x01\x02\x0c")
    more: dict[str, list[Any]] = {
        "validate": ["--no-excerpt"],
        "explain": [],
        "run": ["--checkpoint", tmp_path / "ck"],
    }
    for command, rest in more.items():
        result = call(command, path, *rest)
        assert result.exit_code == 1
        assert [line.split(":")[0] for line in result.stderr.splitlines()] == [
            "error[PLAN_UNREADABLE]",
            "help",
        ]
    assert not (tmp_path / "ck").exists()


def test_explain_of_a_refused_plan_prints_nothing_on_stdout(bad_plan: Path) -> None:
    result = call("explain", bad_plan)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error[AGGREGATE_FUNCTION_UNKNOWN]")


@pytest.mark.parametrize(
    ("command", "code"), [("validate", "NO_PLAN_IN_FOLDER"), ("explain", "SQL_FOLDER_EMPTY")]
)
def test_a_missing_file_and_a_folder_are_a_wrong_call(
    command: str, code: str, tmp_path: Path
) -> None:
    missing, folder = call(command, tmp_path / "no.bin"), call(command, tmp_path)
    assert (missing.exit_code, folder.exit_code) == (2, 2)
    assert missing.stderr.startswith(f"error[FILE_NOT_FOUND] at {tmp_path / 'no.bin'}: ")
    assert folder.stderr.startswith(f"error[{code}]")


def test_every_command_has_help_with_an_example() -> None:
    for name in main.commands:
        result = call(name, "--help")
        assert result.exit_code == 0
        assert "substrait-agg " + name in result.stdout.split("Options:")[1], name
