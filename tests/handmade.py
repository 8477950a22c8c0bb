"""A small plan as somebody would write it by hand, which many tests take as it is or spoil."""

from __future__ import annotations

from typing import Any

I64 = {"i64": {"nullability": "NULLABILITY_NULLABLE"}}
REQUIRED = {"nullability": "NULLABILITY_REQUIRED"}
KEY = {"selection": {"directReference": {"structField": {"field": 0}}, "rootReference": {}}}


def counting(function: str = "count") -> dict[str, Any]:
    """SELECT k, function(*) AS n FROM t GROUP BY k, in protobuf-JSON."""
    urn = "extension:io.substrait:functions_aggregate_generic"
    read = {
        "baseSchema": {"names": ["k"], "struct": {"types": [I64], **REQUIRED}},
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
