"""Every field of every message that is read has an effect or is reported."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from substrait import plan_pb2

import substrait_agg
from substrait_agg.errors import PlanUnreadable
from substrait_agg.plan import decode
from substrait_agg.plan.decoding.decoder import IGNORED
from substrait_agg.plan.messages.schema import (
    ANY,
    ENUM,
    MESSAGE,
    Field,
    Schema,
    _files,
    schema,
    schema_of,
)
from substrait_agg.problems import Problems
from tests.plan.helpers import I32, Json, column, function, meaning, plan_of, project, table, value
from tests.plan.test_types import ENTRIES, LITERALS

NULLABLE = {"nullability": 1}
TYPES: list[Json] = [
    *({f.name: dict(NULLABLE)} for f in schema().messages["Type"].by_number.values()
      if f.kind == MESSAGE and f.name not in ("alias", "func", "unbound", "list", "map", "struct", "user_defined")),
    {"decimal": {"precision": 9, "scale": 1, **NULLABLE}},
    {"list": {"type": I32, **NULLABLE}},
    {"map": {"key": I32, "value": I32, **NULLABLE}},
    {"struct": {"types": [I32], **NULLABLE}},
    {"user_defined": {"type_reference": 1, **NULLABLE}},
    {"user_defined_type_reference": 1},
]  # fmt: skip

OPTION = {"name": "overflow", "preference": ["ERROR"]}
CALL = {
    "scalar_function": {
        "function_reference": 1,
        "arguments": [value(column(0)), {"enum": "A"}, {"type": I32}],
        "options": [OPTION],
        "output_type": I32,
    }
}
SEGMENT = {
    "struct_field": {
        "field": 0,
        "child": {
            "map_key": {
                "map_key": {"string": "k"},
                "child": {"list_element": {"offset": 1, "child": {"struct_field": {"field": 1}}}},
            }
        },
    }
}
PARAMETER = {
    "selection": {
        "direct_reference": {"struct_field": {"field": 0}},
        "lambda_parameter_reference": {"steps_out": 0},
    }
}
EXPRESSIONS: list[Json] = [
    CALL,
    {"scalar_function": {"args": [{"enum": {"specified": "A"}}]}},
    {"selection": {"direct_reference": SEGMENT, "root_reference": {}}},
    {"nested": {"list": {"values": [column(0)]}, "nullable": True}},
    {"nested": {"struct": {"fields": [column(0)]}}},
    {"nested": {"map": {"key_values": [{"key": column(0), "value": column(0)}]}}},
    {"lambda": {"parameters": {"types": [I32], "nullability": 2}, "body": PARAMETER}},
    {"cast": {"type": I32, "input": column(0), "failure_behavior": 1}},
    {"if_then": {"ifs": [{"if": column(0), "then": column(1)}], "else": column(1)}},
    {
        "switch_expression": {
            "match": column(0),
            "ifs": [{"if": {"i32": 1}, "then": column(1)}],
            "else": column(1),
        }
    },
    {"singular_or_list": {"value": column(0), "options": [column(1)]}},
    {"literal": {"map": ENTRIES}},
    *({"literal": written} for written, _, _ in LITERALS),
    {"literal": {"user_defined": {"type_reference": 2, "struct": {"fields": [{"string": "7"}]}}}},
]
MEASURE = {
    "measure": {
        "function_reference": 1,
        "arguments": [value(column(0))],
        "options": [OPTION],
        "output_type": I32,
        "phase": 3,
        "invocation": 1,
        "sorts": [
            {"expr": column(0), "direction": 1},
            {"expr": column(0), "comparison_function_reference": 1},
        ],
    },
    "filter": column(1),
}
BOUNDS = {
    "bounds_type": 1,
    "lower_bound": {"unbounded": {}},
    "upper_bound": {"current_row": {}},
}
DISTANT = {
    "bounds_type": 1,
    "lower_bound": {"preceding": {"offset": "2"}},
    "upper_bound": {"following": {"offset_expr": {"literal": {"i64": "3"}}}},
}
WINDOW = {**{k: v for k, v in MEASURE["measure"].items() if k != "sorts"}, **BOUNDS}
EXPRESSIONS.append(
    {
        "window_function": {
            **WINDOW,
            "partitions": [column(0)],
            "sorts": [{"expr": column(0), "direction": 1}],
        }
    }
)
EMIT = {"common": {"emit": {"output_mapping": [0]}}}


def _read(**fields: Any) -> Json:
    names = ["c"] * (len(TYPES) + 1)
    schema_ = {"names": names, "struct": {"types": TYPES, **NULLABLE}}
    return {"read": {"base_schema": schema_, **EMIT, **fields}}


def _joins(source: Json) -> list[Json]:
    """A join of every form."""
    reference = {"direct_reference": {"struct_field": {"field": 0}}, "root_reference": {}}
    both = {"left": source, "right": source, "type": 1, **EMIT}
    after, residual = {"post_join_filter": column(0)}, {"residual_expression": column(0)}
    keys = [
        {"left": reference, "right": reference, "comparison": comparison}
        for comparison in ({"simple": 1}, {"custom_function_reference": 1})
    ]
    old = {"left_keys": [reference], "right_keys": [reference]}
    return [
        {"join": {**both, "expression": column(0), **after}},
        {"cross": {"left": source, "right": source, **EMIT}},
        {"hash_join": {**both, "keys": keys, **residual, **after}},
        {"hash_join": {**both, **old}},
        {"merge_join": {**both, "keys": keys, **residual, **after}},
        {"merge_join": {**both, **old}},
        {"nested_loop_join": {**both, "expression": column(0)}},
    ]


def _fetches(source: Json) -> list[Json]:
    """A fetch of every form."""
    ten = {"literal": {"i64": 10}}
    sorts = [{"expr": column(0), "direction": 2}]
    return [
        {"fetch": {"input": source, "offset": 1, "count": 2, **EMIT}},
        {"fetch": {"input": source, "offset_expr": ten, "count_expr": ten, **EMIT}},
        {
            "top_n": {
                "input": source,
                "sorts": sorts,
                "offset": ten,
                "count": ten,
                "mode": 1,
                **EMIT,
            }
        },
    ]


def _windows(source: Json) -> Json:
    """A relation of window functions."""
    return {
        "window": {
            "input": source,
            "window_functions": [WINDOW, {**WINDOW, **DISTANT}],
            "partition_expressions": [column(0)],
            "sorts": [{"expr": column(0), "direction": 1}],
            **EMIT,
        }
    }


TEXT: Json = {
    "field_delimiter": "|",
    "quote": "'",
    "header_lines_to_skip": 1,
    "escape": "/",
    "value_treated_as_null": "-",
}


def base_plan() -> Json:
    """A plan with an instance of every message that is read."""
    named = _read(
        named_table={"names": ["t"]},
        filter=column(0),
        projection={"select": {"struct_items": [{"field": 1}]}},
    )
    old_rows = _read(virtual_table={"values": [{"fields": [{"i32": 1}]}]})
    new_rows = _read(virtual_table={"expressions": [{"fields": [{"literal": {"i32": 1}}]}]})
    files = _read(local_files={"items": [{"uri_file": "file:///a", "text": TEXT}]})
    filtered = {"filter": {"input": named, "condition": column(0), **EMIT}}
    projected = {"project": {"input": filtered, "expressions": EXPRESSIONS, **EMIT}}
    shared = {"reference": {"subtree_ordinal": 1}}
    inputs = [
        projected,
        old_rows,
        new_rows,
        files,
        shared,
        *_joins(table(I32)),
        *_fetches(table(I32)),
        _windows(table(I32)),
    ]
    union = {"set": {"inputs": inputs, "op": 6, **EMIT}}
    sets = [{"expression_references": [0]}]
    aggregated = {
        "aggregate": {
            "input": union,
            "grouping_expressions": [column(0)],
            "groupings": sets,
            "measures": [MEASURE],
            **EMIT,
        }
    }
    inline = {
        "aggregate": {"input": aggregated, "groupings": [{"grouping_expressions": [column(0)]}]}
    }
    sorted_ = {"sort": {"input": inline, "sorts": [{"expr": column(0), "direction": 2}], **EMIT}}
    return {
        "version": {"major_number": 0, "minor_number": 80, "patch_number": 1, "producer": "x"},
        "extension_urns": [{"extension_urn_anchor": 1, "urn": "extension:io.substrait:functions_a"},
                           {"extension_urn_anchor": 2, "urn": "extension:io.substrait:unsigned_integers"}],
        "extension_uris": [{"extension_uri_anchor": 3, "uri": "/functions_b.yaml"}],
        "extensions": [
            function(1, "sum:i32", extension_urn_reference=1),
            function(2, "sum:i64", extension_uri_reference=3),
            {"extension_type": {"type_anchor": 1, "name": "point", "extension_uri_reference": 3}},
            {"extension_type": {"type_anchor": 2, "name": "u8", "extension_urn_reference": 2}},
        ],
        "relations": [
            {"root": {"input": sorted_, "names": ["a"]}},
            {"rel": {"filter": {"input": named, "condition": {"scalar_function": {"function_reference": 2}}}}},
        ],
    }  # fmt: skip


# A place in the JSON plan: the keys on the way to an object.
Place = tuple[Any, ...]


def instances(plan: Json) -> Iterator[tuple[str, Place]]:
    """Every message of a plan: its name and its place."""
    pending: list[tuple[str, Place, Json]] = [("Plan", (), plan)]
    while pending:
        name, place, members = pending.pop()
        yield name, place
        for key, held in members.items():
            item = schema().messages[name].by_json_name[key]
            if item.kind == MESSAGE and (name, key) not in IGNORED:
                inner = held if item.repeated else [held]
                for at, message in enumerate(inner):
                    step = (key, at) if item.repeated else (key,)
                    pending.append((item.type, (*place, *step), message))


def at(plan: Json, place: Place) -> Json:
    """The object at a place."""
    found: Any = plan
    for step in place:
        found = found[step]
    assert isinstance(found, dict)
    return found


def changed(members: Json, name: str, item: Field) -> None:
    """Give a field another value than it has; the other members of its choice go."""
    shape = schema().messages[name]
    for key in list(members):
        if item.oneof and key != item.name and shape.by_json_name[key].oneof == item.oneof:
            del members[key]
    old = members.get(item.name)
    if item.repeated and not old:
        members[item.name] = [_other(item, None)]
    elif old is not None and (item.repeated or item.kind == MESSAGE):
        del members[item.name]
    else:
        members[item.name] = _other(item, old)


def _other(item: Field, old: Any) -> Any:
    if item.kind == MESSAGE:
        return {"enhancement": {}} if item.type == "extensions.AdvancedExtension" else {}
    if item.kind == "bool":
        return not old
    if item.kind == "string":
        return f"{old or ''}x"
    if item.kind == "bytes":
        return "eHg="
    values = sorted(schema().enums[item.type].values()) if item.kind == ENUM else []
    return next(v for v in values if v not in (0, old)) if values else int(old or 0) + 1


def outcome(plan: Json) -> Any:
    """Return the decoded plan and its problems."""
    problems = Problems()
    try:
        decoded: Any = meaning(decode(json.dumps(plan), problems))
    except PlanUnreadable:
        decoded = None
    return decoded, problems.items


BASE = base_plan()
PLAIN = outcome(BASE)
PLACES: dict[str, list[Place]] = {}
for _name, _place in instances(BASE):
    PLACES.setdefault(_name, []).append(_place)
FIELDS = [
    (name, item.name)
    for name in sorted(PLACES)
    for item in schema().messages[name].by_number.values()
    if name != ANY
]


def test_the_plan_has_every_message_that_is_read() -> None:
    assert {
        "Plan", "PlanRel", "RelRoot", "Rel", "RelCommon", "RelCommon.Emit", "ReadRel", "NamedStruct",
        "ReadRel.NamedTable", "ReadRel.VirtualTable", "ReadRel.LocalFiles.FileOrFiles", "FilterRel",
        "ReadRel.LocalFiles.FileOrFiles.DelimiterSeparatedTextReadOptions",
        "ProjectRel", "SetRel", "SortRel", "AggregateRel", "AggregateRel.Grouping", "ReferenceRel",
        "AggregateRel.Measure", "AggregateFunction", "SortField", "FunctionArgument", "FunctionOption",
        "Expression", "Expression.ScalarFunction", "Expression.Literal", "Expression.FieldReference",
        "Expression.Cast", "Expression.IfThen", "Expression.SwitchExpression", "Type", "Type.I32",
        "Type.Decimal", "extensions.SimpleExtensionURI", "extensions.SimpleExtensionURN", "JoinRel",
        "CrossRel", "HashJoinRel", "MergeJoinRel", "NestedLoopJoinRel", "ComparisonJoinKey",
        "ComparisonJoinKey.ComparisonType", "FetchRel", "TopNRel",
        "Expression.WindowFunction", "ConsistentPartitionWindowRel",
        "ConsistentPartitionWindowRel.WindowRelFunction", "Expression.WindowFunction.Bound",
        "Expression.WindowFunction.Bound.Preceding", "Expression.WindowFunction.Bound.Following",
    } <= set(PLACES)  # fmt: skip
    assert len(FIELDS) > 250


@pytest.mark.parametrize(("message", "name"), FIELDS, ids=[f"{m}.{n}" for m, n in FIELDS])
def test_a_field_has_an_effect_or_is_reported(message: str, name: str) -> None:
    """Every field changes the decoded plan or is reported, also fields that a new release adds."""
    item = schema().messages[message].by_json_name[name]
    effects = []
    for place in PLACES[message]:
        plan = copy.deepcopy(BASE)
        changed(at(plan, place), message, item)
        effects.append(outcome(plan) != PLAIN)
        if effects[-1] and (message, name) not in IGNORED:
            return
    oneof_only = item.oneof and any(effects)
    assert (message, name) in IGNORED, f"{message}.{name} is lost"
    assert oneof_only or not any(effects)


READ = frozenset(PLACES)
REFUSED_WHOLE = [
    (name, field.name)
    for name in sorted(PLACES)
    for field in schema().messages[name].by_number.values()
    if field.kind == MESSAGE and field.type not in READ and (name, field.name) not in IGNORED
]
"""Fields of messages that are read, holding messages that are not."""


CARRIED = {
    ("Type", "func"): "a kind of type that `test_types_that_no_column_has` sees refused",
    ("Type", "unbound"): "the same",
    ("Type", "alias"): "the same",
    ("Expression.Enum", "unspecified"): "an argument without a word, which has nothing in it",
}
"""Messages that stand in the decoded plan, where they are refused later or have nothing to say, and which of it."""


def path_of(place: Place) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return "".join(steps).removeprefix(".")


@pytest.mark.parametrize(
    ("message", "name"), REFUSED_WHOLE, ids=[f"{m}.{n}" for m, n in REFUSED_WHOLE]
)
def test_a_message_that_is_not_read_is_refused_as_a_whole(message: str, name: str) -> None:
    """No message that can be reached from a plan is missing from the guard above without an error at its place."""
    item, place = schema().messages[message].by_json_name[name], PLACES[message][0]
    plan = copy.deepcopy(BASE)
    changed(at(plan, place), message, item)
    path = path_of((*place, name))
    new = (p for p in outcome(plan)[1] if p not in PLAIN[1] and p.level == "error")
    named = [p for p in new if p.path.startswith(path) or path.startswith(p.path)]
    assert named or (message, name) in CARRIED


@pytest.mark.parametrize("kind", [name for message, name in CARRIED if message == "Type"])
def test_types_that_no_column_has(kind: str) -> None:
    """A column that nothing reads may have them; here it is read."""
    problems = substrait_agg.validate(json.dumps(plan_of(table(I32, {kind: {}})))).problems
    assert "OUTPUT_TYPE_NOT_KEPT" in {p.code for p in problems}
    plan = plan_of(project(_cast(column(1))))
    plan["relations"][0]["root"]["input"]["project"]["input"] = table(I32, {kind: {}})
    problems = substrait_agg.validate(json.dumps(plan)).problems
    assert any(p.level == "error" and "expressions[0]" in p.path for p in problems)


def _cast(expression: Json) -> Json:
    return {"cast": {"type": I32, "input": expression, "failure_behavior": 2}}


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> Schema:
    """The schema of a release in which every message has two more fields: a text, and a message that is new too."""
    made = schema_of(_newer_file())
    monkeypatch.setattr("substrait_agg.plan.messages.wire.schema", lambda: made)
    monkeypatch.setattr("substrait_agg.plan.messages.jsonplan.schema", lambda: made)
    monkeypatch.setattr("substrait_agg.plan.messages.node.schema", lambda: made)
    return made


def _newer_file() -> FileDescriptor:
    pool = DescriptorPool()
    files = {file.name: file for file in _files(plan_pb2.DESCRIPTOR)}
    for file in files.values():
        if file.package.startswith("substrait"):
            pending = list(file.message_type)
            file.message_type.add(name=_addition(file.name))
            while pending:
                message = pending.pop()
                pending.extend(message.nested_type)
                message.field.add(name="new_word", number=NEW, type=9, label=1)
                type_name = f".{file.package}.{_addition(file.name)}"
                message.field.add(
                    name="new_part", number=NEW + 1, type=11, label=1, type_name=type_name
                )
    added: set[str] = set()

    def add(name: str) -> None:
        if name not in added:
            added.add(name)
            for needed in files[name].dependency:
                add(needed)
            pool.Add(files[name])

    add(plan_pb2.DESCRIPTOR.name)
    return pool.FindFileByName(plan_pb2.DESCRIPTOR.name)


def _addition(file: str) -> str:
    return "Addition" + "".join(part.capitalize() for part in re.split(r"\W", file))


NEW = 5000
NEWEST = frozenset({"Plan", "AggregateRel", "AggregateFunction", "SortField", "FunctionOption"})


def _lost(newer: Schema, messages: Iterable[str] = PLACES) -> list[str]:
    """The new fields of read messages that make no difference."""
    lost = []
    for message in messages:
        places = PLACES[message]
        for name, written in (("new_word", "x"), ("new_part", {})):
            if name not in newer.messages[message].by_json_name:
                continue  # a message that only older releases have
            plan = copy.deepcopy(BASE)
            at(plan, places[0])[name] = written
            if outcome(plan) == PLAIN:
                lost.append(f"{message}.{name}")
    return lost


def test_what_a_new_release_adds_is_reported(newer: Schema) -> None:
    """Fields and messages that a test adds to the descriptors are reported as unknown."""
    assert all("new_part" in newer.messages[name].by_json_name for name in NEWEST)
    assert _lost(newer) == []


def test_the_guard_itself_notices(newer: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the report of unread fields, the same check would find every new field lost."""
    monkeypatch.setattr("substrait_agg.plan.decoding.decoder.report_leftovers", lambda *_: None)
    assert {f"{name}.new_word" for name in NEWEST} <= set(_lost(newer, NEWEST))
