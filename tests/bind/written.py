"""Plans written as JSON, for what only shows in a whole message: places, declarations, several inputs."""

from __future__ import annotations

import json
from typing import Any

from substrait_agg.bind import bind
from substrait_agg.plan import decode
from substrait_agg.problem_kinds import Mode
from substrait_agg.problems import Problem, Problems

Json = dict[str, Any]

NULLABLE, REQUIRED = "NULLABILITY_NULLABLE", "NULLABILITY_REQUIRED"


def of(kind: str, nullability: str = NULLABLE, **parameters: int) -> Json:
    """A type."""
    return {kind: {"nullability": nullability, **parameters}}


I64, I32, TEXT, BOOL, FP64 = map(of, ("i64", "i32", "string", "bool", "fp64"))
MUST = of("i64", REQUIRED)
COLUMNS: dict[str, Json] = {
    "a": I64, "b": TEXT, "c": FP64, "d": BOOL, "e": of("decimal", precision=15, scale=2),
    "f": I32, "must": MUST,
}  # fmt: skip
WIDTH = len(COLUMNS)

FUNCTIONS = {
    "sum": ("functions_arithmetic", "sum:i64"),
    "count": ("functions_aggregate_generic", "count:any"),
    "gt": ("functions_comparison", "gt:any_any"),
    "add": ("functions_arithmetic", "add:i64_i64"),
    "extract": ("functions_datetime", "extract:req_date"),
}
"""Declared in every plan, the first under anchor 1."""


def col(name: str) -> Json:
    """A column of the table."""
    return at(list(COLUMNS).index(name))


def at(ordinal: int) -> Json:
    """A column by its position."""
    segment = {"struct_field": {"field": ordinal}}
    return {"selection": {"direct_reference": segment, "root_reference": {}}}


def lit(kind: str, value: Any) -> Json:
    """A literal."""
    return {"literal": {kind: value}}


def null(type_: Json) -> Json:
    """The null of a type."""
    return {"literal": {"null": type_}}


def call(name: str, *arguments: Json, output: Json | None = None) -> Json:
    """A scalar call."""
    body: Json = {
        "function_reference": anchor(name),
        "arguments": [{"value": a} for a in arguments],
    }
    return {"scalar_function": body if output is None else {**body, "output_type": output}}


def anchor(name: str) -> int:
    """Under which a function is declared."""
    return 1 + list(FUNCTIONS).index(name)


def schema(columns: dict[str, Json], names: list[str] | None = None) -> Json:
    """A base schema; `names` in place of the columns' own."""
    struct = {"types": list(columns.values()), "nullability": REQUIRED}
    return {"names": list(columns) if names is None else names, "struct": struct}


def read(**fields: Any) -> Json:
    """A read of the table; `fields` are added or, where None, left out."""
    body = {"base_schema": schema(COLUMNS), "named_table": {"names": ["t"]}, **fields}
    return {"read": {name: value for name, value in body.items() if value is not None}}


def rows(*written: list[Json], columns: dict[str, Json] | None = None) -> Json:
    """Rows in the plan, of columns ``a: i64?`` and ``b: string?``."""
    columns = columns or {"a": I64, "b": TEXT}
    table = {"expressions": [{"fields": row} for row in written]}
    return {"read": {"base_schema": schema(columns), "virtual_table": table}}


def project(*expressions: Json, source: Json | None = None) -> Json:
    """The first two columns and then `expressions`."""
    kept = [0, 1, *range(WIDTH, WIDTH + len(expressions))]
    common = {"emit": {"output_mapping": kept}}
    return {
        "project": {"common": common, "input": source or read(), "expressions": list(expressions)}
    }


def filtered(condition: Json, source: Json | None = None, **fields: Any) -> Json:
    """A filter."""
    return {"filter": {"input": source or read(), "condition": condition, **fields}}


def summed(source: Json | None = None) -> Json:
    """``sum(column 0)`` by column 1."""
    measure = {
        "function_reference": anchor("sum"), "arguments": [{"value": at(0)}], "output_type": I64,
        "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
        "invocation": "AGGREGATION_INVOCATION_ALL",
    }  # fmt: skip
    return {
        "aggregate": {
            "input": source or read(),
            "grouping_expressions": [at(1)],
            "groupings": [{"expression_references": [0]}],
            "measures": [{"measure": measure}],
        }
    }


def plan(root: Json, *names: str, producer: str = "") -> Json:
    """A plan that declares `FUNCTIONS`."""
    urns = sorted({urn for urn, _ in FUNCTIONS.values()})
    version = {"minor_number": 81, "producer": producer}
    declared = [
        {
            "extension_function": {
                "extension_urn_reference": 1 + urns.index(urn),
                "function_anchor": anchor(name),
                "name": signature,
            }
        }
        for name, (urn, signature) in FUNCTIONS.items()
    ]
    return {
        "version": version,
        "extension_urns": [
            {"extension_urn_anchor": 1 + i, "urn": f"extension:io.substrait:{urn}"}
            for i, urn in enumerate(urns)
        ],
        "extensions": declared,
        "relations": [{"root": {"input": root, "names": list(names or ("k", "s"))}}],
    }


def problems(written: Json, mode: Mode = "lenient") -> list[Problem]:
    """What decoding and binding find."""
    found = Problems(mode)
    bind(decode(json.dumps(written), found), found)
    return found.items
