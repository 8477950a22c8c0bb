"""Write reports as SARIF 2.1.0 logs, which code scanning and editors read.

Format: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

import substrait_agg
from substrait_agg.errors import SubstraitAggError
from substrait_agg.problem_kinds import KINDS, Level, ProblemKind
from substrait_agg.problems import Problem
from substrait_agg.report.places.located_problems import LocatedProblems
from substrait_agg.report.places.places import Region
from substrait_agg.report.places.plan_problems import PlanProblems, json_document

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
STDIN = "-"
_LEVELS: dict[Level, str] = {"error": "error", "warning": "warning", "info": "note"}
_RULES = {code: at for at, code in enumerate(sorted(KINDS))}
_LINK = re.compile(r"\[(?=[^\]]*\]\()")
_PARAMETER = re.compile(r"\{(\w+)\}")


def reports_sarif(
    reports: Sequence[PlanProblems],
    exit_code: int | None = None,
    failures: Iterable[SubstraitAggError] = (),
) -> str:
    """Return several reports as one log with one run.

    Args:
        reports: reports of all plans.
        exit_code: exit code of the command; None for 1 if a plan cannot be run, else 0.
        failures: errors for files that could not be read, and other reasons why plans are missing.
    """
    located = [LocatedProblems(report) for report in reports]
    code = int(not all(r.ok for r in reports)) if exit_code is None else exit_code
    run: dict[str, Any] = {
        "tool": {"driver": _driver()},
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(code, list(failures))],
        "artifacts": [_artifact(item) for item in located],
        "results": [result for at, item in enumerate(located) for result in _results(at, item)],
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json_document(document)


# --- the tool --------------------------------------------------------------------------------


def _driver() -> dict[str, Any]:
    return {
        "name": "substrait-agg",
        "semanticVersion": substrait_agg.__version__,
        "rules": [_rule(KINDS[code]) for code in _RULES],
    }


def _rule(kind: ProblemKind) -> dict[str, Any]:
    message, help = (_PARAMETER.sub(r"<\1>", text) for text in (kind.message, kind.help))
    marked = _PARAMETER.sub(r"`\1`", kind.help)
    page = f"docs/problems.md#{kind.code.lower()}"
    return {
        "id": kind.code,
        "name": "".join(word.capitalize() for word in kind.code.split("_")),
        "shortDescription": {"text": message},
        "fullDescription": {"text": kind.why or message},
        "help": {"text": f"{help}. See {page}", "markdown": f"{marked}. See `{page}`."},
        "defaultConfiguration": {"level": _LEVELS[kind.lenient]},
        "properties": {"area": kind.area, "documentation": page, "strictLevel": kind.strict},
    }


def _invocation(code: int, failures: list[SubstraitAggError]) -> dict[str, Any]:
    invocation: dict[str, Any] = {"executionSuccessful": not failures, "exitCode": code}
    if failures:
        invocation["toolExecutionNotifications"] = [
            {
                "level": "error",
                "descriptor": {"id": failure.code},
                "message": {"text": failure.message},
                **({"locations": [_file_location(failure.path)]} if failure.path else {}),
            }
            for failure in failures
        ]
    return invocation


def _file_location(name: str) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": {"uri": artifact_uri(name)}}}


# --- the plans -------------------------------------------------------------------------------


def artifact_uri(name: str) -> str:
    """Return a file's name as a URI reference, relative to the working folder if it lies there.

    A plan without a file is called ``stdin`` or ``plan``.
    """
    if name in ("", STDIN):
        return "stdin" if name else "plan"
    path = PurePath(name)
    if not path.is_absolute():
        return quote(PurePath(os.path.normpath(path)).as_posix())
    folder = Path.cwd()
    return (
        quote(path.relative_to(folder).as_posix()) if path.is_relative_to(folder) else path.as_uri()
    )


def _artifact(item: LocatedProblems) -> dict[str, Any]:
    content = item.report.content
    artifact: dict[str, Any] = {"location": {"uri": artifact_uri(item.report.plan)}}
    if content:
        artifact |= {
            "length": len(content),
            "mimeType": "application/json" if item.is_text else "application/protobuf",
            "hashes": {"sha-256": hashlib.sha256(content).hexdigest()},
        }
    return artifact


def _results(artifact: int, item: LocatedProblems) -> list[dict[str, Any]]:
    seen: Counter[tuple[str, str]] = Counter()
    results = []
    for problem in item.report.problems:
        key = (problem.code, problem.path)
        results.append(_result(artifact, item, problem, seen[key]))
        seen[key] += 1
    return results


def _result(artifact: int, item: LocatedProblems, problem: Problem, repeat: int) -> dict[str, Any]:
    physical: dict[str, Any] = {
        "artifactLocation": {"uri": artifact_uri(item.report.plan), "index": artifact}
    }
    region = item.region(problem)
    if region is not None:
        physical["region"] = _region(region)
    place = {"fullyQualifiedName": problem.path, "kind": "element"}
    location: dict[str, Any] = {"physicalLocation": physical}
    if problem.path:
        location["logicalLocations"] = [{**place, "name": problem.path.rpartition(".")[2]}]
    result: dict[str, Any] = {
        "ruleId": problem.code,
        "level": _LEVELS[problem.level],
        "message": {"text": _no_links(f"{problem.message}\nhelp: {problem.help}")},
        "locations": [location],
        "partialFingerprints": {"problemAtPath/v1": _fingerprint(problem, repeat)},
    }
    if problem.code in _RULES:
        result["ruleIndex"] = _RULES[problem.code]
    return result


def _region(region: Region) -> dict[str, int]:
    if not region.is_text:
        return {"byteOffset": region.start, "byteLength": region.end - region.start}
    return {
        "startLine": region.line,
        "startColumn": region.column,
        "endLine": region.end_line,
        "endColumn": region.end_column,
    }


def _no_links(text: str) -> str:
    """Return the text of a message with link syntax escaped, since names of the plan may contain it."""
    return _LINK.sub(r"\\[", text)


def _fingerprint(problem: Problem, repeat: int) -> str:
    """Return a hash of the code and the place of a problem.

    It does not depend on the layout of the file or on the text of the message.
    """
    text = f"{problem.code}\n{problem.path}\n{repeat}"
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]
