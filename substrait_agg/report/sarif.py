"""Reports as SARIF 2.1.0 logs, which code scanning and editors read.

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
from substrait_agg.report.located import Located
from substrait_agg.report.places import Region
from substrait_agg.report.plan_problems import PlanProblems, json_document

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
    """Several reports as one log of one run.

    Args:
        reports: of all plans.
        exit_code: of the command; None: 1 if a plan cannot be run, else 0.
        failures: files that could not be read, and other reasons why plans are missing.
    """
    located = [Located(report) for report in reports]
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
    made: dict[str, Any] = {"executionSuccessful": not failures, "exitCode": code}
    if failures:
        made["toolExecutionNotifications"] = [
            {
                "level": "error",
                "descriptor": {"id": failure.code},
                "message": {"text": failure.message},
                **({"locations": [_file_location(failure.path)]} if failure.path else {}),
            }
            for failure in failures
        ]
    return made


def _file_location(name: str) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": {"uri": artifact_uri(name)}}}


# --- the plans -------------------------------------------------------------------------------


def artifact_uri(name: str) -> str:
    """A file's name as a URI reference: relative to the working folder where it lies in it.

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


def _artifact(item: Located) -> dict[str, Any]:
    content = item.report.content
    made: dict[str, Any] = {"location": {"uri": artifact_uri(item.report.plan)}}
    if content:
        made |= {
            "length": len(content),
            "mimeType": "application/json" if item.is_text else "application/protobuf",
            "hashes": {"sha-256": hashlib.sha256(content).hexdigest()},
        }
    return made


def _results(artifact: int, item: Located) -> list[dict[str, Any]]:
    seen: Counter[tuple[str, str]] = Counter()
    made = []
    for problem in item.report.problems:
        key = (problem.code, problem.path)
        made.append(_result(artifact, item, problem, seen[key]))
        seen[key] += 1
    return made


def _result(artifact: int, item: Located, problem: Problem, repeat: int) -> dict[str, Any]:
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
    made: dict[str, Any] = {
        "ruleId": problem.code,
        "level": _LEVELS[problem.level],
        "message": {"text": _no_links(f"{problem.message}\nhelp: {problem.help}")},
        "locations": [location],
        "partialFingerprints": {"problemAtPath/v1": _fingerprint(problem, repeat)},
    }
    if problem.code in _RULES:
        made["ruleIndex"] = _RULES[problem.code]
    return made


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
    """The text of a message, in which a name of the plan cannot be a link."""
    return _LINK.sub(r"\\[", text)


def _fingerprint(problem: Problem, repeat: int) -> str:
    """The same for the same problem at the same place of a plan, however the file is laid out and the text worded."""
    text = f"{problem.code}\n{problem.path}\n{repeat}"
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]
