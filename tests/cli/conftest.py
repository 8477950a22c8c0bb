"""Plans and checkpoints for the command line, made without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

I64 = {"i64": {"nullability": "NULLABILITY_NULLABLE"}}
KEY = {"selection": {"directReference": {"structField": {"field": 0}}, "rootReference": {}}}


def counting(function: str = "count") -> dict[str, Any]:
    """SELECT k, function(*) AS n FROM t GROUP BY k, in protobuf-JSON."""
    urn = "extension:io.substrait:functions_aggregate_generic"
    read = {
        "baseSchema": {"names": ["k"], "struct": {"types": [I64]}},
        "namedTable": {"names": ["t"]},
    }
    measure = {
        "functionReference": 1,
        "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
        "invocation": "AGGREGATION_INVOCATION_ALL",
        "outputType": {"i64": {"nullability": "NULLABILITY_REQUIRED"}},
    }
    aggregate = {
        "input": {"read": read},
        "groupingExpressions": [KEY],
        "groupings": [{"expressionReferences": [0]}],
        "measures": [{"measure": measure}],
    }
    declared = {"extensionUrnReference": 1, "functionAnchor": 1, "name": f"{function}:"}
    return {
        "version": {"minorNumber": 106, "producer": "by hand"},
        "extensionUrns": [{"extensionUrnAnchor": 1, "urn": urn}],
        "extensions": [{"extensionFunction": declared}],
        "relations": [{"root": {"input": {"aggregate": aggregate}, "names": ["k", "n"]}}],
    }


@pytest.fixture
def good_plan(tmp_path: Path) -> Path:
    """A plan that can be run."""
    path = tmp_path / "good.json"
    path.write_text(json.dumps(counting()))
    return path


@pytest.fixture
def bad_plan(tmp_path: Path) -> Path:
    """A plan with a function nobody knows."""
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(counting("frobnicate")))
    return path
