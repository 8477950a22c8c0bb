"""Plans with joins and fetches as protobuf-JSON, and what binding makes of them."""

from __future__ import annotations

import json
from typing import Any

from substrait_agg.bind import BoundPlan, bind
from substrait_agg.plan import decode
from substrait_agg.problem_kinds import Mode
from substrait_agg.problems import Problem, Problems

Json = dict[str, Any]
ROOT = "relations[0].root.input"
NULLABLE, REQUIRED = "NULLABILITY_NULLABLE", "NULLABILITY_REQUIRED"
FUNCTIONS = (
    "equal:any_any", "is_not_distinct_from:any_any", "gt:any_any", "and:bool", "or:bool",
    "add:i64_i64", "multiply:i64_i64",
)  # fmt: skip
URN = {"and:bool": "functions_boolean", "or:bool": "functions_boolean",
       "add:i64_i64": "functions_arithmetic", "multiply:i64_i64": "functions_arithmetic"}  # fmt: skip


def of(kind: str, *, nullable: bool = True, **parameters: int) -> Json:
    """A type."""
    return {kind: {"nullability": NULLABLE if nullable else REQUIRED, **parameters}}


I64, I32, TEXT, BOOL = map(of, ("i64", "i32", "string", "bool"))
MUST = of("i64", nullable=False)


def read(table: str, *types: Json) -> Json:
    """A read of a table with the columns c0, c1 and so on."""
    struct = {"types": list(types), "nullability": REQUIRED}
    names = [f"{table}{i}" for i in range(len(types))]
    return {
        "read": {
            "baseSchema": {"names": names, "struct": struct}, "namedTable": {"names": [table]},
        }
    }  # fmt: skip


def row(*values: int) -> Json:
    """A virtual table of one row of i64 values."""
    fields = [{"literal": {"i64": str(v)}} for v in values]
    made = read("v", *[MUST] * len(values))["read"]
    del made["namedTable"]
    return {"read": {**made, "virtualTable": {"expressions": [{"fields": fields}]}}}


def reference(ordinal: int) -> Json:
    return {"directReference": {"structField": {"field": ordinal}}, "rootReference": {}}


def at(ordinal: int) -> Json:
    return {"selection": reference(ordinal)}


def lit(value: Any, kind: str = "i64") -> Json:
    return {"literal": {kind: value}}


def call(function: str, *arguments: Json, output: Json = BOOL) -> Json:
    anchor = next(i for i, name in enumerate(FUNCTIONS, 1) if name.startswith(f"{function}:"))
    return {
        "scalarFunction": {
            "functionReference": anchor, "outputType": output,
            "arguments": [{"value": a} for a in arguments],
        }
    }  # fmt: skip


def equal(left: int, right: int, output: Json = BOOL) -> Json:
    return call("equal", at(left), at(right), output=output)


def emit(*mapping: int) -> Json:
    return {"common": {"emit": {"outputMapping": list(mapping)}}}


def join(type_: str, left: Json, right: Json, condition: Json | None, **more: Any) -> Json:
    body = {"left": left, "right": right, "type": f"JOIN_TYPE_{type_}", **more}
    return {"join": body if condition is None else {**body, "expression": condition}}


def key(left: int, right: int, comparison: str | int = "EQ") -> Json:
    simple = f"SIMPLE_COMPARISON_TYPE_{comparison}"
    kind = {"simple": simple} if isinstance(comparison, str) else {"customFunctionReference": 3}
    return {"left": reference(left), "right": reference(right), "comparison": kind}


def keyed(form: str, type_: str, left: Json, right: Json, *keys: Json, **more: Any) -> Json:
    body = {"left": left, "right": right, "type": f"JOIN_TYPE_{type_}", "keys": list(keys)}
    return {form: {**body, **more}}


def by(expression: Json, direction: str = "ASC_NULLS_FIRST") -> Json:
    return {"expr": expression, "direction": f"SORT_DIRECTION_{direction}"}


def sort(source: Json, *keys: Json) -> Json:
    return {"sort": {"input": source, "sorts": list(keys)}}


def fetch(source: Json, **fields: Any) -> Json:
    return {"fetch": {"input": source, **fields}}


def filtered(source: Json, condition: Json) -> Json:
    return {"filter": {"input": source, "condition": condition}}


def project(source: Json, *expressions: Json, **more: Any) -> Json:
    return {"project": {"input": source, "expressions": list(expressions), **more}}


def plan(root: Json, width: int, *, producer: str = "hand", minor: int = 106) -> Json:
    urns = ["functions_comparison", "functions_boolean", "functions_arithmetic"]
    extensions = [
        {"extensionFunction": {
            "functionAnchor": i, "name": name,
            "extensionUrnReference": urns.index(URN.get(name, urns[0])) + 1,
        }} for i, name in enumerate(FUNCTIONS, 1)
    ]  # fmt: skip
    return {
        "version": {"minorNumber": minor, "producer": producer},
        "extensionUrns": [
            {"extensionUrnAnchor": i, "urn": f"extension:io.substrait:{urn}"}
            for i, urn in enumerate(urns, 1)
        ],
        "extensions": extensions,
        "relations": [{"root": {"input": root, "names": [f"x{i}" for i in range(width)]}}],
    }


def bound_with(
    given: Json | bytes, mode: Mode = "lenient"
) -> tuple[BoundPlan | None, list[Problem]]:
    """The bound plan and the problems of it."""
    problems = Problems(mode)
    content = given if isinstance(given, bytes) else json.dumps(given).encode()
    made = bind(decode(content, problems), problems)
    return made, list(problems.items)


def bound(given: Json | bytes) -> BoundPlan:
    """The bound plan of a plan without errors."""
    made, problems = bound_with(given)
    assert made is not None, problems
    return made


def found(given: Json, mode: Mode = "lenient") -> list[tuple[str, str, str]]:
    """Level, code and path of all problems."""
    return [(p.level, p.code, p.path) for p in bound_with(given, mode)[1]]
