"""A small plan as somebody would write it by hand, which many tests take as it is or spoil."""

from __future__ import annotations

import json
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


def of_files(*reads: list[str], kind: str = "uriFile", **format: Any) -> str:
    """SELECT a FROM all files, which the plan names itself; per read a list of paths."""
    struct = {"types": [I64], "nullability": "NULLABILITY_REQUIRED"}
    relations = [
        {
            "read": {
                "baseSchema": {"names": ["a"], "struct": struct},
                "localFiles": {
                    "items": [{kind: path, **(format or {"parquet": {}})} for path in paths]
                },
            }
        }
        for paths in reads
    ]
    united = {"set": {"op": "SET_OP_UNION_ALL", "inputs": relations}}
    root = {"input": united if len(reads) > 1 else relations[0], "names": ["a"]}
    return json.dumps({"version": {"minorNumber": 106}, "relations": [{"root": root}]})
