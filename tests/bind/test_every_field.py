"""Every field of every message of a plan changes what is bound or reported; decoding a field is not
enough.

A field that is read into the decoded tree and never looked at again is lost as well: an output type, a phase, an option.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

import substrait_agg
from substrait_agg.errors import PlanRefused
from substrait_agg.plan.decoding.decoder import IGNORED
from substrait_agg.plan.messages.schema import ANY, Field, schema
from tests.plan.helpers import Json, column, function, value
from tests.plan.test_fields import Place, at, changed, instances

REQUIRED, NULLABLE = {"nullability": 2}, {"nullability": 1}
I64, STRING, BOOL = {"i64": NULLABLE}, {"string": NULLABLE}, {"bool": NULLABLE}


def _emit(*mapping: int) -> Json:
    return {"common": {"emit": {"output_mapping": list(mapping)}}}


def _call(anchor: int, type_: Json, *arguments: Json, **fields: Any) -> Json:
    held = {"function_reference": anchor, "arguments": [value(a) for a in arguments]}
    return {"scalar_function": {**held, "output_type": type_, **fields}}


def _measure(anchor: int, type_: Json, *arguments: Json, **fields: Any) -> Json:
    held = {"function_reference": anchor, "arguments": list(arguments), "output_type": type_}
    return {"measure": {**held, "phase": 3, "invocation": 1, **fields}}


def valid_plan() -> Json:
    """A plan without problems in which functions have every kind of part."""
    schema_ = {
        "names": ["x", "k", "s", "b", "left_out"],
        "struct": {"types": [I64, I64, STRING, BOOL, I64], **REQUIRED},
    }
    read = {
        "base_schema": schema_, "named_table": {"names": ["db", "t"]}, "filter": column(3),
        "projection": {"select": {"struct_items": [{"field": f} for f in range(4)]}}, **_emit(1, 0, 2, 3),
    }  # fmt: skip
    seven = {"literal": {"i64": "7"}}
    more = _call(4, I64, column(1), seven, options=[{"name": "overflow", "preference": ["SILENT"]}])
    chosen = {"if_then": {"ifs": [{"if": column(2), "then": more}], "else": column(0)}}
    narrow = {"cast": {"type": {"i32": NULLABLE}, "input": column(1), "failure_behavior": 2}}
    listed = {"singular_or_list": {"value": column(0), "options": [seven, {"literal": {"i64": 1}}]}}
    condition = {"filter": {"input": {"read": read}, "condition": listed, **_emit(0, 1, 3, 2)}}
    project = {"project": {"input": condition, "expressions": [chosen, narrow],
                           **_emit(0, 1, 2, 3, 5, 4)}}  # fmt: skip
    text = {"sorts": [{"expr": column(1), "direction": 2}]}
    overflow = {"options": [{"name": "overflow", "preference": ["ERROR"]}]}
    measures = [
        {**_measure(1, I64, value(column(5)), **overflow), "filter": column(2)},
        _measure(2, STRING, value(column(3)), value({"literal": {"string": ","}}), **text),
        _measure(3, {"i64": REQUIRED}, value(column(4))),
        _measure(5, {"fp64": NULLABLE}, {"enum": "SAMPLE"}, value({"cast": {
            "type": {"fp64": NULLABLE}, "input": column(5), "failure_behavior": 2}})),
    ]  # fmt: skip
    aggregate = {
        "input": project, "grouping_expressions": [column(0), column(3)], "measures": measures,
        "groupings": [{"expression_references": [0, 1]}, {"expression_references": [0]}],
        **_emit(*range(6, -1, -1)),
    }  # fmt: skip
    sort = {"sort": {"input": {"aggregate": aggregate}, "sorts": [{"expr": column(0), "direction": 3}],
                     **_emit(1, 0, *range(2, 7))}}  # fmt: skip
    urns = ["functions_arithmetic", "functions_string", "functions_aggregate_generic"]
    named = [
        ("sum:i64", 1),
        ("string_agg:str_str", 2),
        ("count:any", 3),
        ("add:i64_i64", 1),
        ("std_dev:req_fp64", 1),
    ]
    return {
        "version": {"minor_number": 106, "producer": "by hand"},
        "extension_urns": [
            {"extension_urn_anchor": i + 1, "urn": f"extension:io.substrait:{urn}"}
            for i, urn in enumerate(urns)
        ],
        "extensions": [
            function(i + 1, name, extension_urn_reference=urn)
            for i, (name, urn) in enumerate(named)
        ],
        "relations": [{"root": {"input": sort, "names": [f"c{i}" for i in range(7)]}}],
    }  # fmt: skip


def plan_with_joins() -> Json:
    """A plan without errors that has a join and a fetch of every form."""
    schema_ = {
        "names": ["k", "x", "s", "b"],
        "struct": {"types": [I64, I64, STRING, BOOL], **REQUIRED},
    }

    def read(name: str) -> Json:
        return {"read": {"base_schema": schema_, "named_table": {"names": [name]}}}

    def reference(ordinal: int) -> Json:
        return {"direct_reference": {"struct_field": {"field": ordinal}}, "root_reference": {}}

    def key(left: int, right: int, simple: int) -> Json:
        comparison = {"simple": simple}
        return {"left": reference(left), "right": reference(right), "comparison": comparison}

    def equal(left: int, right: int) -> Json:
        return _call(1, BOOL, column(left), column(right))

    more = {"residual_expression": column(3), "post_join_filter": column(7)}
    first = _emit(0, 1, 2, 3)
    keys = [key(0, 1, 1), key(1, 0, 2)]
    hashed = {"hash_join": {"left": read("a"), "right": read("b"), "keys": keys, "type": 3,
                            **more, **first}}  # fmt: skip
    merged = {"merge_join": {"left": hashed, "right": read("c"), "keys": keys, "type": 3,
                             **more, **first}}  # fmt: skip
    joined = {"join": {"left": merged, "right": read("d"), "expression": equal(0, 4), "type": 3,
                       "post_join_filter": column(7), **first}}  # fmt: skip
    nested = {"nested_loop_join": {"left": joined, "right": read("e"), "expression": equal(1, 5),
                                   "type": 3, **first}}  # fmt: skip
    two, ten = ({"literal": {"i64": n}} for n in (2, 10))
    order = [{"expr": column(1), "direction": 2}]
    one = {"top_n": {"input": read("f"), "sorts": order, "offset": two, "count": {"literal": {"i64": 1}},
                     "mode": 1, **_emit(1, 0, 2, 3)}}  # fmt: skip
    crossed = {"cross": {"left": nested, "right": one, **_emit(0, 5, 2, 3)}}
    sort = {"sort": {"input": crossed, "sorts": [{"expr": column(0), "direction": 3}]}}
    fetch = {"fetch": {"input": sort, "offset_expr": two, "count_expr": ten, **_emit(1, 0, 2, 3)}}
    return {
        "version": {"minor_number": 106, "producer": "by hand"},
        "extension_urns": [
            {"extension_urn_anchor": 1, "urn": "extension:io.substrait:functions_comparison"}
        ],
        "extensions": [function(1, "equal:any_any", extension_urn_reference=1)],
        "relations": [{"root": {"input": fetch, "names": ["k", "x", "s", "b"]}}],
    }


UNSEEN: dict[tuple[str, str], str] = {
    ("Version", "minor_number"): "the release matters only to fields that were removed",
    ("Version", "major_number"): "the same",
    ("Version", "patch_number"): "the same",
    ("Version", "producer"): "only producers with habits are read in their own way",
    ("Type.Struct", "nullability"): "the struct of a schema is the row itself, which is never null",
    (
        "Expression.Literal",
        "nullable",
    ): "what is computed from the literals of this plan is nullable anyway",
    ("Plan", "extension_uris"): "only declarations that refer to one by its anchor use it",
    (
        "extensions.SimpleExtensionDeclaration.ExtensionFunction",
        "extension_uri_reference",
    ): "a URN counts before it",
}
"""Fields without an effect on this plan, and why."""

BASES = (valid_plan(), plan_with_joins())


def outcome(plan: Json) -> Any:
    """The problems in strict mode, and the bound plan."""
    loaded = substrait_agg.Plan("", json.dumps(plan))
    problems = substrait_agg.validate(loaded, "strict").problems
    try:
        bound = loaded.bind("strict")
    except PlanRefused:
        return problems, None
    return problems, (bound.fingerprint, repr(bound.root), bound.names, bound.sorts)


PLAIN = [*map(outcome, BASES)]
PLACES: dict[str, list[tuple[int, Place]]] = {}
for _number, _base in enumerate(BASES):
    for _name, _place in instances(_base):
        PLACES.setdefault(_name, []).append((_number, _place))
FIELDS = [
    (name, item.name)
    for name in sorted(PLACES)
    for item in schema().messages[name].by_number.values()
    if name != ANY
]


def _differs(number: int, place: Place, message: str, item: Field) -> bool:
    plan = copy.deepcopy(BASES[number])
    changed(at(plan, place), message, item)
    return bool(outcome(plan) != PLAIN[number])


def test_the_plans_have_nothing_wrong_and_every_part_of_a_measure_and_a_join() -> None:
    assert [p for problems, _ in PLAIN for p in problems if p.level != "info"] == []
    assert all(made is not None for _, made in PLAIN)
    assert {
        "AggregateRel", "AggregateRel.Grouping", "AggregateRel.Measure", "AggregateFunction", "SortField",
        "FunctionArgument", "FunctionOption", "Expression.ScalarFunction", "Expression.Cast", "Expression.IfThen",
        "Expression.Literal", "ReadRel", "FilterRel", "ProjectRel", "SortRel", "RelRoot", "NamedStruct", "JoinRel",
        "CrossRel", "HashJoinRel", "MergeJoinRel", "NestedLoopJoinRel", "ComparisonJoinKey", "FetchRel", "TopNRel",
    } <= set(PLACES)  # fmt: skip


@pytest.mark.parametrize(("message", "name"), FIELDS, ids=[f"{m}.{n}" for m, n in FIELDS])
def test_a_field_changes_what_is_bound_or_is_reported(message: str, name: str) -> None:
    item = schema().messages[message].by_json_name[name]
    seen = any(_differs(*place, message, item) for place in PLACES[message])
    known = (message, name) in IGNORED or (message, name) in UNSEEN
    assert seen or known, f"{message}.{name} is decoded, and nothing looks at it"
