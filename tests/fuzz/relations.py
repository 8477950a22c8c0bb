"""A small plan by hand for every kind of relation, and what a single field of it can be changed to."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from substrait_agg.plan.messages.jsonplan import read_json
from substrait_agg.plan.messages.schema import MESSAGE, Field
from tests.e2e.plans import (
    COMPARISON,
    Builder,
    Json,
    aggregate,
    column,
    filtered,
    joined,
    literal,
    ordered,
    projected,
    read,
    union_all,
    virtual,
)
from tests.fuzz.messages import Message, from_node, shape_of
from tests.fuzz.mutate import value_for

T = {"a": "i64!", "s": "string", "v": "decimal<15,2>"}
U = {"b": "i64", "t": "string"}
SORTS = [{"expr": column(0), "direction": "SORT_DIRECTION_ASC_NULLS_LAST"}]


def _equal(b: Builder, left: Json, right: Json) -> Json:
    return b.call("equal:any_any", COMPARISON, left, right, output="bool")


def _keyed(kind: str) -> Json:
    left, right = (column(0)["selection"] for _ in range(2))
    key = {"left": left, "right": right, "comparison": {"simple": "SIMPLE_COMPARISON_TYPE_EQ"}}
    return {
        kind: {"left": read("t", T), "right": read("u", U), "keys": [key], "type": "JOIN_TYPE_LEFT"}
    }


def _call(b: Builder) -> Json:
    """The fields of a window function that are the same in both places of calls."""
    measure: Json = b.measure("sum", (column(0), "i64"), output="i64")["measure"]
    bounds = {"lowerBound": {"preceding": {"offset": "2"}}, "upperBound": {"currentRow": {}}}
    return {**measure, "boundsType": "BOUNDS_TYPE_ROWS", **bounds}


def _subquery(b: Builder) -> Json:
    outer = {**column(0)["selection"], "outerReference": {"stepsOut": 1}}
    del outer["rootReference"]
    inner = filtered(read("u", U), _equal(b, column(0), {"selection": outer}))
    return {"subquery": {"setPredicate": {"predicateOp": "PREDICATE_OP_EXISTS", "tuples": inner}}}


def _relations(b: Builder) -> dict[str, Json]:
    t, u = read("t", T), read("u", U)
    switched = {"switchingField": {"duplicates": [column(0), literal("i64", "1")]}}
    schema = t["read"]["baseSchema"]
    ends = {"namedTable": {"names": ["t"]}, "tableSchema": schema}
    total = b.measure(
        "sum", (column(0), "i64"), output="i64", where=_equal(b, column(0), literal("i64", "1"))
    )
    set_of_keys = {"groupings": [{"expressionReferences": [0]}, {"expressionReferences": []}]}
    both = aggregate(t, [column(1)], [total])["aggregate"]
    return {
        "read": {"read": {**t["read"], "filter": _equal(b, column(0), literal("i64", "1")),
                          "projection": {"select": {"structItems": [{"field": 0}, {"field": 1}]}}}},
        "rows": virtual(T, [[literal("i64", "1"), literal("string", "x"), {"literal": {"null": {"decimal": {"precision": 15, "scale": 2, "nullability": 1}}}}]]),
        "files": {"read": {"baseSchema": schema, "localFiles": {"items": [{"uriFile": "file:/x", "parquet": {}}]}}},
        "filter": filtered(t, _subquery(b)),
        "project": projected(t, 3, column(0), _equal(b, column(0), column(0))),
        "fetch": {"fetch": {"input": ordered(t, (column(0), False)), "offsetExpr": literal("i64", "1"), "countExpr": literal("i64", "2")}},
        "old fetch": {"fetch": {"input": ordered(t, (column(0), True)), "offset": "1", "count": "2"}},
        "sort": ordered(t, (column(0), False), (column(1), True)),
        "topN": {"topN": {"input": t, "sorts": SORTS, "count": literal("i64", "2"), "mode": "FETCH_MODE_ROWS_ONLY"}},
        "aggregate": aggregate(t, [column(1)], [total, b.measure("count", output="i64!")]),
        "grouping sets": {"aggregate": {**both, **set_of_keys}},
        "join": joined("left", t, u, _equal(b, column(0), column(3))),
        "mark join": joined("left_mark", t, u, _equal(b, column(0), column(3))),
        "cross": filtered({"cross": {"left": t, "right": u}}, _equal(b, column(0), column(3))),
        "hashJoin": _keyed("hashJoin"),
        "mergeJoin": _keyed("mergeJoin"),
        "nestedLoopJoin": {"nestedLoopJoin": joined("inner", t, u, _equal(b, column(0), column(3)))["join"]},
        "lateralJoin": {"lateralJoin": {"common": {"relAnchor": 1}, **joined("inner", t, u, _equal(b, column(0), column(3)))["join"]}},
        "set": union_all(t, t),
        "window": {"window": {"input": t, "partitionExpressions": [column(1)], "sorts": SORTS, "windowFunctions": [_call(b)]}},
        "window expression": {"project": {"input": t, "expressions": [{"windowFunction": {**_call(b), "partitions": [column(1)], "sorts": SORTS}}]}},
        "expand": {"expand": {"input": t, "fields": [switched, {"consistentField": column(1)}]}},
        "exchange": {"exchange": {"input": t, "partitionCount": 2, "scatterByFields": {"fields": [column(0)["selection"]]}}},
        "write": {"write": {"input": t, **ends, "op": "WRITE_OP_INSERT"}},
        "update": {"update": {**ends, "condition": _equal(b, column(0), column(0)), "transformations": [{"transformation": column(0), "columnTarget": 1}]}},
        "ddl": {"ddl": {"namedObject": {"names": ["t"]}, "tableSchema": schema, "object": "DDL_OBJECT_VIEW", "op": "DDL_OP_CREATE", "viewDefinition": t}},
        "extensionSingle": {"extensionSingle": {"input": t}},
        "extensionMulti": {"extensionMulti": {"inputs": [t, u]}},
        "extensionLeaf": {"extensionLeaf": {"common": {"direct": {}}}},
    }  # fmt: skip


_WIDTHS = {
    "read": 2, "project": 2, "mark join": 4, "window": 4, "window expression": 4,
    **dict.fromkeys(("join", "cross", "hashJoin", "mergeJoin", "nestedLoopJoin", "lateralJoin", "extensionMulti"), 5),
}  # fmt: skip
"""Plan -> number of its columns, if it is not three."""


@cache
def relation_plans() -> dict[str, Message]:
    """A plan for each kind of relation, and one of two entries of which one refers to the other."""
    made: dict[str, Message] = {}
    for name in _relations(Builder()):
        b = Builder()
        relation = _relations(b)[name]
        made[name] = _message(b.plan(relation, *"abcde"[: _WIDTHS.get(name, 3)]))
    shared = json.loads(Builder().plan({"reference": {"subtreeOrdinal": 0}}, *T))
    shared["relations"].insert(0, {"rel": read("t", T)})
    return {**made, "reference": _message(json.dumps(shared))}


def _message(text: str) -> Message:
    return from_node(read_json(text, lambda *_, **__: None))


@dataclass(frozen=True)
class Change:
    """One field of a plan that is dropped, replaced or added.

    Attributes:
        spot: ordinal of the message that has the field.
        at: ordinal of the field in the message.
        item: the field.
        way: ``dropped``, ``emptied``, ``replaced`` or ``added``.
    """

    plan: Message
    spot: int
    at: int
    item: Field
    way: str

    def __str__(self) -> str:
        return f"{self.item.name} {self.way} in message {self.spot}"

    def made(self, seed: int = 0) -> Message:
        """The plan with the change; `seed` chooses the value."""
        plan = copy.deepcopy(self.plan)
        value = (
            value_for(self.item, Random(f"{seed} {self}"))
            if self.way != "emptied"
            else _empty(self.item)
        )
        fields = [] if self.way == "dropped" else [(self.item, value)]
        plan.everything()[self.spot].fields[self.at : self.at + 1] = fields
        return plan


def single_changes(plan: Message) -> Iterator[Change]:
    """Every change of a single field."""
    for spot, message in enumerate(plan.everything()):
        for at, (item, _) in enumerate(message.fields):
            for way in ("dropped", "emptied", "replaced"):
                yield Change(plan, spot, at, item, way)
        written = {item.name for item, _ in message.fields}
        for item in message.shape.by_number.values():
            if item.name not in written:
                yield Change(plan, spot, len(message.fields), item, "added")


def _empty(item: Field) -> Any:
    if item.kind == MESSAGE:
        return Message(shape_of(item.type))
    return {"string": "", "bytes": b"", "bool": False, "float": 0.0, "double": 0.0}.get(
        item.kind, 0
    )
