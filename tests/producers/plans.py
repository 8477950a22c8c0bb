"""Small plans in the style of a producer, as protobuf-JSON objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

Json = dict[str, Any]
ROOT = Path(__file__).parents[2]

NULLABLE, REQUIRED = "NULLABILITY_NULLABLE", "NULLABILITY_REQUIRED"


def of(kind: str, nullability: str = NULLABLE, **parameters: int) -> Json:
    """A type."""
    return {kind: {"nullability": nullability, **parameters}}


I32, I64, TEXT, BOOL, FP64, DATE = map(of, ("i32", "i64", "string", "bool", "fp64", "date"))
MONEY = of("decimal", precision=15, scale=2)
TABLE = {"k": TEXT, "a": I64, "b": I64, "m": MONEY, "d": DATE}
"""Columns of the table that the plans read; column 5 is the first expression of a project over it."""


def at(ordinal: int) -> Json:
    """A column by its position."""
    return {
        "selection": {
            "directReference": {"structField": {"field": ordinal}},
            "rootReference": {},
        }
    }


def lit(kind: str, value: Any, **more: Any) -> Json:
    """A literal."""
    return {"literal": {kind: value, **more}}


def emit(*mapping: int) -> Json:
    """The common fields of a relation with an output mapping."""
    return {"common": {"emit": {"outputMapping": list(mapping)}}}


def read(columns: Json | None = None, **more: Any) -> Json:
    """A read of the table."""
    columns = columns or TABLE
    struct = {"types": list(columns.values()), "nullability": REQUIRED}
    schema = {"names": list(columns), "struct": struct}
    return {"read": {"baseSchema": schema, "namedTable": {"names": ["t"]}, **more}}


def project(source: Json, *expressions: Json, **more: Any) -> Json:
    """A project."""
    return {"project": {**more, "input": source, "expressions": list(expressions)}}


def filtered(source: Json, condition: Json) -> Json:
    """A filter."""
    return {"filter": {"input": source, "condition": condition}}


def call(anchor: int, *arguments: Json, output: Json | None = None, **more: Any) -> Json:
    """A scalar call."""
    body: Json = {
        "functionReference": anchor,
        "arguments": [{"value": a} for a in arguments],
        **more,
    }
    return {"scalarFunction": body if output is None else {**body, "outputType": output}}


def measure(
    anchor: int, *arguments: Json, output: Json | None = I64, phase: int | None = 3, **more: Any
) -> Json:
    """A measure over all rows; `phase` and `output` None are left out."""
    body: Json = {
        "functionReference": anchor,
        "arguments": [{"value": a} for a in arguments],
        "invocation": 1,
        **more,
    }
    body |= {} if output is None else {"outputType": output}
    return {"measure": body if phase is None else {**body, "phase": phase}}


def grouped(
    source: Json, keys: tuple[int, ...], sets: tuple[tuple[int, ...], ...], *measures: Json,
    **more: Any,
) -> Json:  # fmt: skip
    """An aggregate by columns, with its sets as references to the keys."""
    return {
        "aggregate": {
            **more,
            "input": source,
            "groupingExpressions": [at(key) for key in keys],
            "groupings": [{"expressionReferences": list(refs)} for refs in sets],
            "measures": list(measures),
        }
    }


def inline(source: Json, sets: tuple[tuple[int, ...], ...], *measures: Json, **more: Any) -> Json:
    """An aggregate with the columns it groups by inside the sets, as before 0.57."""
    groupings = [{"groupingExpressions": [at(key) for key in refs]} for refs in sets]
    return {
        "aggregate": {
            **more, "input": source, "groupings": groupings, "measures": list(measures),
        }
    }  # fmt: skip


ARITHMETIC, DECIMALS = "functions_arithmetic", "functions_arithmetic_decimal"
GENERIC, STRINGS, COMPARISON, BOOLEAN = (
    "functions_aggregate_generic",
    "functions_string",
    "functions_comparison",
    "functions_boolean",
)
DIRECTORY = "https://github.com/substrait-io/substrait/blob/main/extensions/"


STYLES = {
    "urn": "extension:io.substrait:{}",
    "url": DIRECTORY + "{}.yaml",
    "path": "/{}.yaml",
    "folder": DIRECTORY,
}
"""How a plan names an extension."""


def plan(
    root: Json,
    names: str,
    *functions: tuple[str, str],
    producer: str = "",
    minor: int | None = 85,
    style: str = "urn",
    more: Json | None = None,
) -> Json:
    """A plan with its functions under the anchors 1, 2, ...

    Args:
        root: the root relation.
        names: of the root, separated by spaces.
        functions: (extension, name with signature); an empty extension declares the name alone.
        producer: as the plan names it.
        minor: the version of Substrait; None writes no version.
        style: how extensions are named, of `STYLES`.
        more: further fields of the plan.
    """
    files = sorted({extension for extension, _ in functions if extension})
    kind = "Urn" if style == "urn" else "Uri"
    declared = []
    for anchor, (extension, name) in enumerate(functions, 1):
        reference = {f"extension{kind}Reference": 1 + files.index(extension)} if extension else {}
        declared.append(
            {"extensionFunction": {"functionAnchor": anchor, "name": name, **reference}}
        )
    version = {} if minor is None else {"version": {"minorNumber": minor, "producer": producer}}
    return {
        **version,
        f"extension{kind}s": [
            {f"extension{kind}Anchor": i, kind.lower(): STYLES[style].format(name)}
            for i, name in enumerate(files, 1)
        ],
        "extensions": declared,
        "relations": [{"root": {"input": root, "names": names.split()}}],
        **(more or {}),
    }


def sample(path: str) -> bytes:
    """A plan that the producer wrote itself."""
    return (ROOT / path).read_bytes()
