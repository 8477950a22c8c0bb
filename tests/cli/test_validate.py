"""validate: plans, problems, formats and exit statuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import substrait_agg
from substrait_agg_cli.main import main

PLANS = Path(__file__).parents[2] / "plans"


def call(*arguments: object, stdin: bytes | None = None) -> Result:
    result = CliRunner().invoke(main, ["validate", *(str(a) for a in arguments)], input=stdin)
    assert "INTERNAL" not in result.stderr, result.stderr
    return result


@pytest.fixture
def warned_plan(good_plan: Path) -> Path:
    """A plan with one warning: its phase is not written."""
    plan = json.loads(good_plan.read_text())
    del plan["relations"][0]["root"]["input"]["aggregate"]["measures"][0]["measure"]["phase"]
    path = good_plan.with_name("warned.json")
    path.write_text(json.dumps(plan))
    return path


# --- which plans -----------------------------------------------------------------------------


def test_a_folder_is_all_plans_in_it_in_the_order_of_their_paths(
    good_plan: Path, bad_plan: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "plans"
    for name in ("b/z.json", "b/a.JSON", "a.substrait", "c.pb", "b.json", ".git/x.json", ".x.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(good_plan, folder / name)
    (folder / "README.md").write_text("no plan")
    (folder / "settings.json").write_text('{"name": "x", "version": "1"}')
    (folder / "data.csv").write_text("a,b")
    result = call(folder)
    names = [line.split(": ")[0] for line in result.stdout.splitlines()]
    assert names == [
        str(folder / n) for n in ("a.substrait", "b/a.JSON", "b/z.json", "b.json", "c.pb")
    ]
    assert result.exit_code == 0
    shutil.copy(bad_plan, folder / "b" / "m.json")
    result = call(folder, folder / "b" / "m.json", f"{folder}/../plans/b/m.json")
    assert result.exit_code == 1
    assert result.stdout.count("m.json: refused") == 1


def test_a_broken_plan_in_a_folder_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "cut.json").write_text('{"relations": [{"root": ')
    (tmp_path / "cut.bin").write_bytes(b"\x1a\xff")
    result = call(tmp_path)
    assert (result.exit_code, result.stderr.count("PLAN_UNREADABLE]")) == (1, 2)


def test_a_folder_without_plans_is_a_wrong_call(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("{}")
    result = call(tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error[NO_PLAN_IN_FOLDER] at {tmp_path}: ")


def test_a_missing_file_does_not_stop_the_others(
    good_plan: Path, bad_plan: Path, tmp_path: Path
) -> None:
    result = call(good_plan, tmp_path / "no.bin", bad_plan, "--format", "json")
    assert result.exit_code == 2
    assert f"error[FILE_NOT_FOUND] at {tmp_path / 'no.bin'}" in result.stderr
    assert [p["plan"] for p in json.loads(result.stdout)["plans"]] == [
        str(good_plan),
        str(bad_plan),
    ]
    text = call(tmp_path / "no.bin", good_plan, bad_plan)
    assert (text.exit_code, len(text.stdout.splitlines())) == (2, 2)
    assert "3 plans, 1 valid, 1 refused, 1 not read; 1 error" in text.stderr


def test_stdin_stands_among_files(good_plan: Path, bad_plan: Path) -> None:
    result = call(good_plan, "-", stdin=bad_plan.read_bytes())
    assert result.exit_code == 1
    assert result.stdout.splitlines()[1] == "-: refused (1 error)"


# --- which problems --------------------------------------------------------------------------


def test_ignored_problems_are_not_shown_and_do_not_count(bad_plan: Path, warned_plan: Path) -> None:
    result = call(bad_plan, warned_plan, "--ignore", "aggregate_function_unknown,PHASE_*")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        f"{bad_plan}: refused (1 error not shown)",
        f"{warned_plan}: valid (1 warning not shown)",
    ]
    document = json.loads(call(bad_plan, "--ignore", "AGGREGATE_*", "--format", "json").stdout)
    assert document["plans"][0] == {"plan": str(bad_plan), "valid": False, "problems": []}


def test_selected_problems_are_the_only_ones(warned_plan: Path) -> None:
    everything = call(PLANS / "tpch" / "q01.bin", "--no-excerpt", "--verbose").stderr
    only = call(PLANS / "tpch" / "q01.bin", "--no-excerpt", "--select", "PHASE_*").stderr
    assert "OUTPUT_TYPE_MISSING" in everything
    assert "OUTPUT_TYPE_MISSING" not in only
    assert only.count("warning[PHASE_UNSPECIFIED]") == 8


def test_an_unknown_code_is_a_wrong_call(good_plan: Path) -> None:
    result = call(good_plan, "--select", "PHASE_UNSPECIFED")
    assert (result.exit_code, result.stdout) == (2, "")
    error, advice = result.stderr.splitlines()
    assert error.startswith("error[CODE_UNKNOWN] at --select: ")
    assert "PHASE_UNSPECIFIED" in advice


@pytest.mark.parametrize(("level", "status"), [("error", 0), ("warning", 1), ("info", 1)])
def test_the_mildest_level_that_fails(level: str, status: int, warned_plan: Path) -> None:
    assert call(warned_plan, "--error-on", level).exit_code == status
    assert call(warned_plan, "--error-on", level, "--format", "sarif").exit_code == status
    assert call(warned_plan, "--error-on", level, "--ignore", "PHASE_*").exit_code == 0


# --- which form ------------------------------------------------------------------------------


def test_every_form_goes_to_stdout_or_to_a_file(bad_plan: Path, tmp_path: Path) -> None:
    for form in ("json", "sarif", "html"):
        direct = call(bad_plan, "--format", form)
        assert (direct.exit_code, direct.stderr) == (1, ""), form
        target = tmp_path / f"report.{form}"
        for option in ("--to", "--output"):
            result = call(bad_plan, option, target)
            assert (result.exit_code, result.stdout, result.stderr) == (1, "", ""), form
            assert target.read_text() == direct.stdout
    assert json.loads((tmp_path / "report.sarif").read_text())["version"] == "2.1.0"
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")


def test_the_text_form_in_a_file_is_the_verdicts(good_plan: Path, tmp_path: Path) -> None:
    result = call(good_plan, "--to", tmp_path / "verdicts.txt")
    assert (result.exit_code, result.stdout) == (0, "")
    assert (tmp_path / "verdicts.txt").read_text() == f"{good_plan}: valid\n"


def test_a_file_that_cannot_be_written_is_an_error_and_no_traceback(good_plan: Path) -> None:
    result = call(good_plan, "--to", good_plan / "report.json")
    assert result.exit_code == 1
    assert result.stderr.startswith("error[FILE_NOT_USABLE]")


def test_sarif_has_the_exit_status_and_what_could_not_be_read(
    good_plan: Path, tmp_path: Path
) -> None:
    result = call(good_plan, tmp_path / "no.bin", "--format", "sarif")
    (run,) = json.loads(result.stdout)["runs"]
    (invocation,) = run["invocations"]
    assert (result.exit_code, invocation["exitCode"]) == (2, 2)
    assert len(invocation["toolExecutionNotifications"]) == 1


def test_reports_of_the_library_are_those_of_the_command(bad_plan: Path) -> None:
    report = substrait_agg.validate(str(bad_plan))
    for form, text in (
        ("json", report.to_json()),
        ("sarif", report.to_sarif()),
        ("html", report.to_html()),
    ):
        assert call(bad_plan, "--format", form).stdout == f"{text}\n", form


def test_a_plan_of_any_kind_of_object_has_every_report(good_plan: Path) -> None:
    from substrait_agg.plan.messages.source import MAX_PLAN_BYTES

    content = good_plan.read_bytes()
    sources: list[Any] = [content, content.decode(), bytearray(content), good_plan]
    sources += [b"", b"\xff" * 40, "{", b" " * (MAX_PLAN_BYTES + 1)]
    for source in sources:
        report = substrait_agg.validate(source)
        assert report.to_json()
        assert report.to_sarif()
        assert report.to_html()
