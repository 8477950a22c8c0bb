"""Small valid plans as protobuf-JSON for tests that change one part, and their problems by the
public API.
"""

from __future__ import annotations

import json
from typing import Any

import substrait_agg as sa
from substrait_agg.problem_kinds import Mode
from substrait_agg.problems import Problem

Json = dict[str, Any]

AGGREGATE = "relations[0].root.input.aggregate"
MEASURE = f"{AGGREGATE}.measures[0].measure"

URNS = (
    "functions_arithmetic", "functions_aggregate_generic", "functions_string",
    "functions_arithmetic_decimal", "functions_boolean", "functions_comparison",
)  # fmt: skip
COLUMNS = {
    "s": "string", "b": "bool", "i": "i32", "l": "i64", "x": "fp64", "f": "fp32", "m": "decimal",
    "v": "list",
}  # fmt: skip
"""Column -> its kind; all are nullable."""


def type_(kind: str, *, nullable: bool = True) -> Json:
    body: Json = {"nullability": f"NULLABILITY_{'NULLABLE' if nullable else 'REQUIRED'}"}
    if kind == "decimal":
        body |= {"precision": 12, "scale": 2}
    if kind == "list":
        body["type"] = type_("i64")
    return {kind: body}


def at(ordinal: int) -> Json:
    reference = {"structField": {"field": ordinal}}
    return {"selection": {"directReference": reference, "rootReference": {}}}


def col(name: str) -> Json:
    return at(list(COLUMNS).index(name))


def lit(kind: str, value: Any) -> Json:
    return {"literal": {kind: value}}


def value(expression: Json) -> Json:
    return {"value": expression}


def by(expression: Json, **changes: Any) -> Json:
    return {"expr": expression, "direction": "SORT_DIRECTION_ASC_NULLS_FIRST", **changes}


def measure(
    function: str, *arguments: Json, output: Json | None = None, **changes: Any
) -> tuple[str, Json]:
    """A measure of ``urn/signature``, or of a bare name; arguments are wrapped already."""
    body = {
        "arguments": list(arguments),
        "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
        "invocation": "AGGREGATION_INVOCATION_ALL",
        **({} if output is None else {"outputType": output}),
    }
    outer = {key: changes.pop(key) for key in ("filter",) if key in changes}
    return function, {"measure": {**body, **changes}, **outer}


def total(column: str = "l", **changes: Any) -> tuple[str, Json]:
    """A valid sum of integers."""
    return measure(
        "functions_arithmetic/sum:i64", value(col(column)), output=type_("i64"), **changes
    )


def plan(*measures: tuple[str, Json], **aggregate: Any) -> Json:
    """A plan with these measures over one table."""
    functions = list(dict.fromkeys(name for name, _ in measures))
    bodies = [
        {**body, "measure": {**body["measure"], "functionReference": functions.index(name) + 1}}
        for name, body in measures
    ]
    schema = {"types": [type_(k) for k in COLUMNS.values()], "nullability": "NULLABILITY_REQUIRED"}
    read = {
        "baseSchema": {"names": list(COLUMNS), "struct": schema},
        "namedTable": {"names": ["t"]},
    }
    made = {"input": {"read": read}, "measures": bodies, **aggregate}
    sets = len(made.get("groupings", ()))
    width = len(made.get("groupingExpressions", ())) + len(bodies) + (sets > 1)
    return {
        "version": {"minorNumber": 106, "producer": "hand"},
        "extensionUrns": [
            {"extensionUrnAnchor": i, "urn": f"extension:io.substrait:{urn}"}
            for i, urn in enumerate(URNS, 1)
        ],
        "extensions": [_declaration(name, i) for i, name in enumerate(functions, 1)],
        "relations": [
            {"root": {"input": {"aggregate": made}, "names": [f"c{i}" for i in range(width)]}}
        ],
    }


def _declaration(name: str, anchor: int) -> Json:
    urn, slash, declared = name.rpartition("/")
    body: Json = {"functionAnchor": anchor, "name": declared}
    if slash:
        body["extensionUrnReference"] = URNS.index(urn) + 1
    return {"extensionFunction": body}


def problems(given: Json, mode: Mode = "lenient") -> tuple[Problem, ...]:
    return sa.validate(json.dumps(given), mode=mode).problems


def found(given: Json, mode: Mode = "lenient") -> list[tuple[str, str]]:
    """(code, path) of all problems."""
    return [(p.code, p.path) for p in problems(given, mode)]
