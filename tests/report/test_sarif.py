"""SARIF logs: valid by the schema of the standard, with places in the file and in the message."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import substrait_agg
from substrait_agg.errors import UsageError
from substrait_agg.problem_kinds import KINDS
from substrait_agg.problems import Problem
from substrait_agg.report.report import Report
from substrait_agg.report.sarif import artifact_uri, reports_sarif

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "tests" / "data" / "sarif" / "sarif-schema-2.1.0.json").read_text())
VALIDATOR = jsonschema.Draft4Validator(SCHEMA, format_checker=jsonschema.FormatChecker())


@pytest.fixture(autouse=True)
def at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Change to the root of a repository, where checks use relative names."""
    monkeypatch.chdir(ROOT)


def run_of(text: str) -> dict[str, Any]:
    """The one run of a log, which the schema accepts."""
    document = json.loads(text)
    VALIDATOR.validate(document)
    assert (document["version"], len(document["runs"])) == ("2.1.0", 1)
    run: dict[str, Any] = document["runs"][0]
    return run


def test_the_schema_refuses_what_is_wrong() -> None:
    """The schema check can fail."""
    document = json.loads(substrait_agg.validate("plans/tpch/q01.bin").to_sarif())
    document["runs"][0]["results"][0]["level"] = "terrible"
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(document)


def test_every_sample_plan_has_a_valid_log_with_a_result_per_problem() -> None:
    paths = sorted((ROOT / "plans" / "samples").rglob("*.json"))
    reports = [substrait_agg.validate(str(path.relative_to(ROOT))) for path in paths]
    run = run_of(reports_sarif(reports))
    assert len(run["artifacts"]) == len(paths)
    found = [
        (r["ruleId"], r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])
        for r in run["results"]
    ]
    assert found == [(p.code, report.plan) for report in reports for p in report.problems]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]


def test_places_in_json_are_lines_and_in_protobuf_bytes() -> None:
    for name, key in (("q01.json", "startLine"), ("q01.bin", "byteOffset")):
        path = f"plans/tpch/{name}"
        content = Path(path).read_bytes()
        report = substrait_agg.validate(path)
        run = run_of(report.to_sarif())
        for result, problem in zip(run["results"], report.problems, strict=True):
            (location,) = result["locations"]
            assert location["logicalLocations"][0]["fullyQualifiedName"] == problem.path
            assert key in location["physicalLocation"]["region"]
        (artifact,) = run["artifacts"]
        assert artifact["length"] == len(content)
        assert artifact["hashes"]["sha-256"] == hashlib.sha256(content).hexdigest()


def test_rules_are_the_table_of_problems() -> None:
    run = run_of(substrait_agg.validate("plans/tpch/q06.bin").to_sarif())
    rules = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    assert set(rules) == set(KINDS)
    phase = rules["PHASE_UNSPECIFIED"]
    assert phase["name"] == "PhaseUnspecified"
    assert phase["defaultConfiguration"]["level"] == "warning"
    assert "docs/problems.md#phase_unspecified" in phase["help"]["text"]
    for rule in rules.values():
        assert rule["fullDescription"]["text"]
        assert "{" not in rule["shortDescription"]["text"]


def test_levels_and_exit_codes() -> None:
    problems = tuple(
        Problem("PHASE_UNSPECIFIED", level, "relations[0]", "m", "h")
        for level in ("error", "warning", "info")
    )
    run = run_of(Report("x.bin", problems).to_sarif())
    assert [result["level"] for result in run["results"]] == ["error", "warning", "note"]
    assert run["invocations"] == [{"executionSuccessful": True, "exitCode": 1}]
    assert run_of(Report("x.bin", ()).to_sarif())["invocations"][0]["exitCode"] == 0


def test_files_that_could_not_be_read_are_notifications() -> None:
    missing = UsageError("FILE_NOT_FOUND", "the file does not exist", path="a b/no.bin")
    run = run_of(reports_sarif([Report("x.bin", ())], 2, [missing]))
    (invocation,) = run["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, 2)
    (notification,) = invocation["toolExecutionNotifications"]
    assert notification["descriptor"]["id"] == "FILE_NOT_FOUND"
    place = notification["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place["uri"] == "a%20b/no.bin"


def test_fingerprints_stay_when_the_file_is_laid_out_anew(counting: dict[str, Any]) -> None:
    measure = counting["relations"][0]["root"]["input"]["aggregate"]["measures"][0]["measure"]
    del measure["phase"]

    def fingerprints(**layout: Any) -> list[str]:
        report = substrait_agg.validate(json.dumps(counting, **layout))
        results = run_of(report.to_sarif())["results"]
        return [result["partialFingerprints"]["problemAtPath/v1"] for result in results]

    first = fingerprints()
    assert first == fingerprints(indent=4)
    twice = Report("x", (Problem("VALUE_INVALID", "error", "version", "m", "h"),) * 2)
    both = run_of(twice.to_sarif())["results"]
    assert both[0]["partialFingerprints"] != both[1]["partialFingerprints"]


@pytest.mark.parametrize(
    ("name", "uri"),
    [
        ("plans/a b.bin", "plans/a%20b.bin"),
        ("./plans//x.json", "plans/x.json"),
        ("../x.json", "../x.json"),
        ("-", "stdin"),
        ("", "plan"),
        ("ä#?.bin", "%C3%A4%23%3F.bin"),
    ],
)
def test_file_names_are_uris(name: str, uri: str) -> None:
    assert artifact_uri(name) == uri


@pytest.mark.skipif(os.name == "nt", reason="paths of POSIX")
def test_absolute_names_are_relative_where_they_can_be() -> None:
    assert artifact_uri(str(ROOT / "plans" / "x.bin")) == "plans/x.bin"
    assert artifact_uri("/elsewhere/x.bin") == "file:///elsewhere/x.bin"


def test_names_of_a_plan_are_no_links_and_half_characters_no_error() -> None:
    message = "field [click](http://example.org) and measures[1] and \ud800"
    report = Report("x.json", (Problem("VALUE_INVALID", "error", "a.\ud800", message, "h"),))
    (result,) = run_of(report.to_sarif())["results"]
    assert result["message"]["text"].startswith(
        "field \\[click](http://example.org) and measures[1]"
    )
    report.to_sarif().encode()
    report.to_json().encode()
