"""Plans that call the window functions of this program's own extension, as protobuf-JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]

URN = "extension:substrait_agg:functions_windows"
SHORT = {
    "precisionTimestamp": "pts",
    "precisionTimestampTz": "ptstz",
    "timestamp": "ts",
    "timestampTz": "tstz",
}
NULLABLE = "NULLABILITY_NULLABLE"


def interval(seconds: int = 0, micros: int = 0, days: int = 0) -> Json:
    """A constant interval of days and seconds."""
    body = {"days": days, "seconds": seconds, "subseconds": micros, "precision": 6}
    return {"literal": {"intervalDayToSecond": body}}


def compound(seconds: int = 0, months: int = 0, nanos: int = 0) -> Json:
    """A constant interval as DataFusion writes it."""
    body = {
        "intervalYearToMonth": {"months": months},
        "intervalDayToSecond": {"seconds": seconds, "subseconds": nanos, "precision": 9},
    }
    return {"literal": {"intervalCompound": body}}


def column(ordinal: int) -> Json:
    """A column of the input row."""
    return {
        "selection": {"directReference": {"structField": {"field": ordinal}}, "rootReference": {}}
    }


def time_type(kind: str = "precisionTimestamp", digits: int = 6) -> Json:
    """The type of a nullable point in time."""
    return {kind: {"precision": digits, "nullability": NULLABLE}}


class Windows:
    """Collects the functions of a plan; `time` is the type of its column ``t``."""

    def __init__(self, time: Json | None = None, urn: str = URN) -> None:
        self.time = time or time_type()
        self.urn = urn
        self.names: list[str] = []

    def call(self, name: str, *durations: Json, time: Json | None = None) -> Json:
        """A window over the column 1, or over another time."""
        kind = next(iter(self.time))
        words = "_".join(
            "iday" if "intervalDayToSecond" in d.get("literal", {}) else "icompound"
            for d in durations
        )
        declared = f"{name}:{SHORT[kind]}_{words}" if self.urn else name
        if declared not in self.names:
            self.names.append(declared)
        edge = {kind: {**self.time[kind], "nullability": "NULLABILITY_REQUIRED"}}
        struct = {"struct": {"types": [edge, edge], "nullability": NULLABLE}}
        plain = name in ("tumble_start", "tumble_end")
        return {
            "scalarFunction": {
                "functionReference": self.names.index(declared) + 10,
                "arguments": [{"value": a} for a in (time or column(1), *durations)],
                "outputType": self.time if plain else struct,
            }
        }

    def read(self, table: str = "goals") -> Json:
        """The columns ``team`` (string), ``t`` and ``n`` (i64) of a table."""
        types = [
            {"string": {"nullability": NULLABLE}},
            self.time,
            {"i64": {"nullability": NULLABLE}},
        ]
        return {
            "read": {
                "baseSchema": {
                    "names": ["team", "t", "n"],
                    "struct": {"types": types, "nullability": "NULLABILITY_REQUIRED"},
                },
                "namedTable": {"names": [table]},
            }
        }

    def plan(self, relation: Json, *names: str) -> str:
        """The whole plan as JSON text."""
        own = [{"extensionUrnAnchor": 2, "urn": self.urn}] if self.urn else []
        reference = {"extensionUrnReference": 2} if self.urn else {}
        return json.dumps(
            {
                "version": {"minorNumber": 106, "producer": "tests"},
                "extensionUrns": [
                    {"extensionUrnAnchor": 1, "urn": f"extension:io.substrait:{name}"}
                    for name in ("functions_aggregate_generic",)
                ]
                + [{"extensionUrnAnchor": 3, "urn": "extension:io.substrait:functions_arithmetic"}]
                + own,
                "extensions": [
                    _function(1, "count:", 1),
                    _function(2, "sum:i64", 3),
                    _function(3, "max:i64", 3),
                    *(
                        {"extensionFunction": {"functionAnchor": i, "name": name, **reference}}
                        for i, name in enumerate(self.names, 10)
                    ),
                ],
                "relations": [{"root": {"input": relation, "names": list(names)}}],
            }
        )


def _function(anchor: int, name: str, urn: int) -> Json:
    return {
        "extensionFunction": {
            "functionAnchor": anchor,
            "name": name,
            "extensionUrnReference": urn,
        }
    }


def measure(anchor: int, *arguments: Json, nullable: bool = True) -> Json:
    """``count()`` (1), ``sum(i64)`` (2) or ``max(i64)`` (3)."""
    nullability = NULLABLE if nullable else "NULLABILITY_REQUIRED"
    return {
        "measure": {
            "functionReference": anchor,
            "arguments": [{"value": a} for a in arguments],
            "outputType": {"i64": {"nullability": nullability}},
            "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
            "invocation": "AGGREGATION_INVOCATION_ALL",
        }
    }


COUNT, SUM, MAX = measure(1, nullable=False), measure(2, column(2)), measure(3, column(2))


def aggregate(
    source: Json,
    keys: Sequence[Json],
    measures: Sequence[Json] = (COUNT, SUM),
    sets: Sequence[Sequence[int]] | None = None,
) -> Json:
    """An aggregate over grouping expressions; with one grouping set of all of them unless `sets` are given."""
    chosen = [list(range(len(keys)))] if sets is None else sets
    return {
        "aggregate": {
            "input": source,
            "groupingExpressions": list(keys),
            "groupings": [{"expressionReferences": list(refs)} for refs in chosen],
            "measures": list(measures),
        }
    }


def projected(source: Json, *expressions: Json, width: int = 3) -> Json:
    """Exactly the expressions over a source of `width` columns."""
    mapping = list(range(width, width + len(expressions)))
    return {
        "project": {
            "common": {"emit": {"outputMapping": mapping}},
            "input": source,
            "expressions": list(expressions),
        }
    }


def grouped(name: str, *durations: Json, time: Json | None = None, urn: str = URN) -> str:
    """Count and sum per team and window."""
    windows = Windows(time, urn)
    key = windows.call(name, *durations)
    struct = () if name in ("tumble_start", "tumble_end") else ("start", "end")
    relation = aggregate(windows.read(), [column(0), key])
    return windows.plan(relation, "team", "w", *struct, "c", "s")
