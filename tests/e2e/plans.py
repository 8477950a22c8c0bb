"""Plans as protobuf-JSON, built piece by piece as a producer of the newest release would write them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

ARITHMETIC = "functions_arithmetic"
DECIMAL = "functions_arithmetic_decimal"
GENERIC = "functions_aggregate_generic"
COMPARISON = "functions_comparison"
_NULLABLE, _REQUIRED = "NULLABILITY_NULLABLE", "NULLABILITY_REQUIRED"
_SHORT = {
    "bool": "bool", "string": "str", "date": "date", "decimal": "dec",
    "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "fp32": "fp32", "fp64": "fp64",
}  # fmt: skip


def type_(text: str) -> Json:
    """A type from ``i64``, ``decimal<38,2>``, ...; with ``!`` at the end, a required one."""
    nullability = _REQUIRED if text.endswith("!") else _NULLABLE
    kind, _, parameters = text.rstrip("!").rstrip(">").partition("<")
    body: Json = {"nullability": nullability}
    if parameters:
        precision, scale = parameters.split(",")
        body |= {"precision": int(precision), "scale": int(scale)}
    return {kind: body}


def kind_of(text: str) -> str:
    """The kind of a type: ``decimal`` of ``decimal<38,2>!``."""
    return text.rstrip("!").partition("<")[0]


def column(ordinal: int) -> Json:
    """A column of the input row."""
    return {
        "selection": {
            "directReference": {"structField": {"field": ordinal}},
            "rootReference": {},
        }
    }


def literal(kind: str, value: Any) -> Json:
    """A constant, such as ``literal("i64", 3)``."""
    return {"literal": {kind: value}}


def cast(expression: Json, to: str) -> Json:
    """A cast that throws."""
    failure = "FAILURE_BEHAVIOR_THROW_EXCEPTION"
    return {"cast": {"type": type_(to), "input": expression, "failureBehavior": failure}}


@dataclass
class Builder:
    """Collects the functions that a plan declares."""

    urns: list[str] = field(default_factory=list)
    functions: list[tuple[str, str]] = field(default_factory=list)

    def _anchor(self, urn: str, name: str) -> int:
        if urn not in self.urns:
            self.urns.append(urn)
        if (urn, name) not in self.functions:
            self.functions.append((urn, name))
        return self.functions.index((urn, name)) + 1

    def call(
        self, name: str, urn: str, *arguments: Json, output: str, options: Sequence[Json] = ()
    ) -> Json:
        """A scalar call; `name` has its signature."""
        body: Json = {
            "functionReference": self._anchor(urn, name),
            "arguments": [{"value": a} for a in arguments],
            "outputType": type_(output),
        }
        if options:
            body["options"] = list(options)
        return {"scalarFunction": body}

    def measure(
        self,
        name: str,
        argument: tuple[Json, str] | None = None,
        *,
        output: str,
        where: Json | None = None,
        overflow: str | None = None,
    ) -> Json:
        """A measure over an argument (expression, type), or over rows."""
        kind = "" if argument is None else _SHORT[kind_of(argument[1])]
        urn = ARITHMETIC if kind != "dec" else DECIMAL
        if name == "count":
            urn, kind = GENERIC, "any" if argument is not None else ""
        body: Json = {
            "functionReference": self._anchor(urn, f"{name}:{kind}"),
            "arguments": [] if argument is None else [{"value": argument[0]}],
            "outputType": type_(output),
            "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
            "invocation": "AGGREGATION_INVOCATION_ALL",
        }
        if overflow is not None:
            body["options"] = [{"name": "overflow", "preference": [overflow]}]
        return {"measure": body} if where is None else {"measure": body, "filter": where}

    def plan(self, relation: Json, *names: str) -> str:
        """The whole plan as JSON text."""
        urns = [
            {"extensionUrnAnchor": i, "urn": f"extension:io.substrait:{urn}"}
            for i, urn in enumerate(self.urns, 1)
        ]
        functions = [
            {
                "extensionFunction": {
                    "extensionUrnReference": self.urns.index(urn) + 1,
                    "functionAnchor": anchor,
                    "name": name,
                }
            }
            for anchor, (urn, name) in enumerate(self.functions, 1)
        ]
        return json.dumps(
            {
                "version": {"minorNumber": 106, "producer": "tests"},
                "extensionUrns": urns,
                "extensions": functions,
                "relations": [{"root": {"input": relation, "names": list(names)}}],
            }
        )


def read(table: str, columns: dict[str, str]) -> Json:
    """A named table with its columns: name -> type."""
    return {
        "read": {
            "baseSchema": _schema(columns),
            "namedTable": {"names": [table]},
        }
    }


def virtual(columns: dict[str, str], rows: Sequence[Sequence[Json]]) -> Json:
    """Rows written in the plan."""
    written = [{"fields": list(row)} for row in rows]
    return {"read": {"baseSchema": _schema(columns), "virtualTable": {"expressions": written}}}


def _schema(columns: dict[str, str]) -> Json:
    types = [type_(t) for t in columns.values()]
    return {"names": list(columns), "struct": {"types": types, "nullability": _REQUIRED}}


def aggregate(source: Json, keys: Sequence[Json], measures: Sequence[Json]) -> Json:
    """An aggregate with one grouping set."""
    body: Json = {"input": source, "measures": list(measures)}
    if keys:
        body["groupingExpressions"] = list(keys)
        body["groupings"] = [{"expressionReferences": list(range(len(keys)))}]
    return {"aggregate": body}


def filtered(source: Json, condition: Json) -> Json:
    """Rows for which the condition is true."""
    return {"filter": {"input": source, "condition": condition}}


def projected(source: Json, width: int, *expressions: Json) -> Json:
    """Exactly the expressions over a source of `width` columns."""
    mapping = list(range(width, width + len(expressions)))
    common = {"emit": {"outputMapping": mapping}}
    return {"project": {"common": common, "input": source, "expressions": list(expressions)}}


def union_all(*sources: Json) -> Json:
    """All rows of all sources."""
    return {"set": {"op": "SET_OP_UNION_ALL", "inputs": list(sources)}}


def set_operation(operation: str, *sources: Json) -> Json:
    """A set operation such as ``minus_primary_all``, the primary source first."""
    return {"set": {"op": f"SET_OP_{operation.upper()}", "inputs": list(sources)}}


def joined(type_: str, left: Json, right: Json, condition: Json) -> Json:
    """A join such as ``left_anti``, with a condition over the columns of both inputs."""
    body = {"left": left, "right": right, "expression": condition}
    return {"join": {**body, "type": f"JOIN_TYPE_{type_.upper()}"}}


def ordered(source: Json, *keys: tuple[Json, bool]) -> Json:
    """Rows in order of some expressions, each with whether it falls."""
    ways = ("SORT_DIRECTION_ASC_NULLS_LAST", "SORT_DIRECTION_DESC_NULLS_LAST")
    sorts = [{"expr": key, "direction": ways[falls]} for key, falls in keys]
    return {"sort": {"input": source, "sorts": sorts}}


def fetched(source: Json, count: int | None = None, offset: int = 0) -> Json:
    """The rows from a position on, in the order of the source."""
    body: Json = {"input": source, "offset": str(offset)}
    body["count"] = "-1" if count is None else str(count)
    return {"fetch": body}
