"""Unusual calls of validate are answered or refused, and all formats agree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from substrait_agg_cli.main import main
from tests.cli.test_process import COMMAND, ENVIRONMENT

NO_PLAN = b"\xa8\x01\x01\xb0\x01\x02\x0c"
"""Two fields that no release knows, and an end in the middle of a third."""


def call(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["validate", *(str(a) for a in arguments)])
    assert "INTERNAL" not in result.stderr, result.stderr
    return result


# --- which plans -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x" * 5000, "", "a\0b"])
def test_a_name_that_no_file_can_have_is_a_file_that_cannot_be_read(
    name: str, good_plan: Path
) -> None:
    for others in ((), (good_plan,)):
        result = call(name, *others)
        assert result.exit_code == 2
        assert result.stdout == "".join(f"{other}: valid\n" for other in others)
        assert result.stderr.startswith("error[FILE_NOT_")


def test_a_plan_is_checked_once_by_whatever_path(
    good_plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(good_plan.parent)
    result = call(good_plan.name, good_plan, f"./{good_plan.name}", "no.bin", "./no.bin")
    assert result.stdout.splitlines() == [f"{good_plan.name}: valid"]
    assert result.stderr.count("FILE_NOT_FOUND") == 1


def test_an_empty_file_in_a_folder_is_a_broken_plan_and_other_json_none(tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_bytes(b"")
    other = {"ruleId": "ROOT_COUNT", "path": "relations", "of": "extensions"}
    (tmp_path / "report.json").write_text(json.dumps(other))
    result = call(tmp_path)
    assert result.stdout.splitlines() == [f"{tmp_path / 'empty.json'}: refused (1 error)"]


# --- which problems --------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--select", "--ignore"])
@pytest.mark.parametrize("codes", ["", " , "])
def test_an_option_without_a_code_is_a_wrong_call(option: str, codes: str, bad_plan: Path) -> None:
    """An empty code is refused, so that an empty variable of a script does not make every plan
    pass.
    """
    result = call(bad_plan, option, codes)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error[CODE_UNKNOWN] at {option}: ")


def test_of_bytes_that_are_no_plan_every_form_says_only_that(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(NO_PLAN)
    (plan,) = json.loads(call(path, "--format", "json").stdout)["plans"]
    assert [problem["code"] for problem in plan["problems"]] == ["PLAN_UNREADABLE"]
    text = call(path, "--no-excerpt")
    assert text.stdout == f"{path}: refused (1 error)\n"
    assert text.stderr.count("error[") == 1


def test_of_json_without_relations_a_misspelt_key_is_told_too(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"relation": []}')
    text = call(path, "--no-excerpt").stderr
    assert "error[UNKNOWN_FIELD] at relation: " in text
    assert "error[PLAN_UNREADABLE]: " in text


# --- which form ------------------------------------------------------------------------------


def test_several_files_have_each_the_form_of_its_suffix(bad_plan: Path, tmp_path: Path) -> None:
    names = [tmp_path / f"report.{form}" for form in ("json", "sarif", "html")]
    options = [word for name in names for word in ("--to", name)]
    result = call(bad_plan, *options, "--to", "-")
    assert (result.exit_code, result.stdout) == (1, f"{bad_plan}: refused (1 error)\n")
    assert result.stderr.startswith("error[AGGREGATE_FUNCTION_UNKNOWN]")
    for name in names:
        single = call(bad_plan, "--format", name.suffix[1:]).stdout
        assert name.read_text() == single
    assert call(bad_plan, *options).stderr == ""


def test_one_form_for_several_files_is_a_wrong_call(good_plan: Path, tmp_path: Path) -> None:
    result = call(
        good_plan, "--format", "json", "--to", tmp_path / "a.json", "--to", tmp_path / "a.html"
    )
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error[OPTION_CONFLICT]")
    assert not (tmp_path / "a.json").exists()


@pytest.mark.parametrize("whole_folder", [True, False])
def test_a_report_never_replaces_a_plan(whole_folder: bool, good_plan: Path) -> None:
    before = good_plan.read_bytes()
    plan = good_plan.parent if whole_folder else good_plan
    result = call(plan, "--to", f"{good_plan.parent}/./{good_plan.name}")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error[OPTION_INVALID] at --to: ")
    assert good_plan.read_bytes() == before


def test_a_plan_that_cannot_be_read_is_in_every_form(good_plan: Path, tmp_path: Path) -> None:
    """A plan that cannot be read is reported in every format, never as valid."""
    missing = tmp_path / "no.bin"
    document = json.loads(call(good_plan, missing, "--format", "json").stdout)
    assert (document["valid"], len(document["plans"])) == (False, 1)
    html = call(good_plan, missing, "--format", "html").stdout
    assert "1 file could not be read" in html
    assert f"{missing}: the file does not exist" in html
    assert "The plan is valid" not in html


# --- streams and options ---------------------------------------------------------------------


def test_an_option_without_its_value_points_to_the_help_of_its_command(good_plan: Path) -> None:
    result = call(good_plan, "--to")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[1] == "help: see main validate --help"  # its name here


@pytest.mark.skipif(os.name == "nt", reason="streams of POSIX")
@pytest.mark.parametrize(("closed", "plan"), [("<&-", "-"), (">&-", ""), ("2>&-", "")])
def test_a_closed_stream_is_no_internal_error(closed: str, plan: str, bad_plan: Path) -> None:
    command = " ".join([sys.executable, *COMMAND[1:], "validate", plan or str(bad_plan), closed])
    result = subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, env=ENVIRONMENT, timeout=60, check=False
    )
    assert b"INTERNAL" not in result.stderr + result.stdout
    assert b"Traceback" not in result.stderr + result.stdout
    assert result.returncode == (2 if plan else 1)


@pytest.mark.skipif(os.name == "nt", reason="streams of POSIX")
def test_a_result_that_goes_to_a_closed_stream_is_an_error() -> None:
    command = " ".join([sys.executable, *COMMAND[1:], "functions", ">&-"])
    result = subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, env=ENVIRONMENT, timeout=60, check=False
    )
    assert result.returncode == 1
    assert result.stderr.startswith(b"error[FILE_NOT_USABLE]: stdout is closed")


@pytest.mark.parametrize("command", ["validate", "explain", "plan", "convert", "view", "changes"])
def test_a_folder_as_a_target_is_a_wrong_call(
    command: str, good_plan: Path, tmp_path: Path
) -> None:
    option = {"plan": ["-o"], "convert": []}.get(command, ["--to"])
    result = CliRunner().invoke(main, [command, str(good_plan), *option, str(tmp_path)])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error[OPTION_INVALID] at {tmp_path}: ")
