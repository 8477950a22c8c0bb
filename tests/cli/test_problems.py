"""`substrait-agg problems`: tables, pages, JSON, and codes that do not exist."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from substrait_agg.error_codes import ERROR_CODES
from substrait_agg.problem_kinds import KINDS
from substrait_agg.report.problem_pages import GENERATED, PREPARED
from substrait_agg_cli.main import main


def problems(*arguments: str, columns: int = 100) -> Result:
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(main, ["problems", *arguments])


def documented(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(problems("--format", "json", *arguments).stdout)
    return found


def test_the_table_has_every_code() -> None:
    printed = problems()
    assert printed.exit_code == 0
    words = {line.split()[0] for line in printed.stdout.splitlines() if line.split()}
    assert set(KINDS) | set(ERROR_CODES) <= words


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_the_table_fits_the_terminal(columns: int) -> None:
    assert max(map(len, problems(columns=columns).stdout.splitlines())) <= columns


def test_a_page_has_everything_about_a_problem() -> None:
    kind = KINDS["PHASE_UNSPECIFIED"]
    printed = problems(kind.code).stdout
    flat = " ".join(printed.split())
    for said in (kind.message, kind.help, kind.why, "warning, in strict mode error"):
        assert said in flat
    assert '"functionReference": 1' in printed
    assert "warning[PHASE_UNSPECIFIED] at relations[0].root.input.aggregate" in printed
    assert "sum does not state its phase" in printed


def test_what_a_page_says_is_what_validate_says(tmp_path: Any) -> None:
    """The report on a page is the report of the plan on the page."""
    entry = documented("OPTION_UNKNOWN")["problems"][0]
    plan = tmp_path / "plan.json"
    plan.write_text(entry["example"])
    validated = CliRunner().invoke(main, ["validate", str(plan), "--format", "json"])
    assert json.loads(validated.stdout)["plans"][0]["problems"] == [entry["reported"]]


@pytest.mark.parametrize("code", [*GENERATED, *PREPARED])
def test_plans_that_are_not_written_down_are_described(code: str) -> None:
    printed = " ".join(problems(code).stdout.split())
    assert {**GENERATED, **PREPARED}[code].replace("`", "") in printed
    assert "The output of validate" not in printed


def test_an_error_has_a_page_as_well() -> None:
    flat = " ".join(problems("SOURCE_MISSING").stdout.split())
    assert ERROR_CODES["SOURCE_MISSING"].meaning in flat
    assert ERROR_CODES["SOURCE_MISSING"].help in flat


def test_several_codes_in_any_case() -> None:
    found = documented("phase_unspecified", "Option-Unknown", "usage")
    assert {p["code"] for p in found["problems"]} == {"PHASE_UNSPECIFIED", "OPTION_UNKNOWN"}
    assert [e["code"] for e in found["errors"]] == ["USAGE"]


def test_level_and_area_choose() -> None:
    found = documented("--level", "info", "--area", "aggregates")
    codes = {p["code"] for p in found["problems"]}
    assert codes == {
        k.code for k in KINDS.values() if k.area == "aggregates" and "info" in (k.lenient, k.strict)
    }
    assert "DISTINCT_NO_EFFECT" in codes
    assert found["errors"] == []
    errors = documented("--area", "errors")
    assert errors["problems"] == []
    assert len(errors["errors"]) == len(ERROR_CODES)


def test_an_unknown_code_is_refused_with_a_suggestion() -> None:
    refused = problems("PHASE_UNSPECIFED")
    assert refused.exit_code == 2
    assert refused.stdout == ""
    assert "error[CODE_UNKNOWN]" in refused.stderr
    assert "did you mean PHASE_UNSPECIFIED" in refused.stderr
    assert "lists all codes" in problems("XYZ").stderr


def test_a_code_and_a_choice_do_not_go_together() -> None:
    refused = problems("USAGE", "--area", "plans")
    assert refused.exit_code == 2
    assert "OPTION_CONFLICT" in refused.stderr


def test_a_choice_without_any_code_says_so() -> None:
    nothing = problems("--area", "errors", "--level", "info")
    assert nothing.exit_code == 0
    assert nothing.stdout == ""
    assert "no code" in nothing.stderr
