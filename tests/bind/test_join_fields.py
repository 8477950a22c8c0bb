"""Every field of joins, fetches and sorts: a mistake in it is reported, with its code at its path, in both modes."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

import substrait_agg as sa
from substrait_agg.plan.messages.schema import schema
from substrait_agg.problem_kinds import Level, Mode
from substrait_agg.problems import Problem
from tests.bind.joined import BOOL, I64, ROOT, TEXT, Json, at, by, key, lit, plan, read, reference

LEFT, RIGHT = read("a", I64, I64, TEXT, BOOL), read("b", I64, I64, TEXT, BOOL)
ONE = {"fetch": {"input": {"sort": {"input": RIGHT, "sorts": [by(at(0))]}}, "countExpr": lit("1")}}
ORDER = [by(at(0))]
EQUAL = {"scalarFunction": {"functionReference": 1, "outputType": BOOL,
                            "arguments": [{"value": at(0)}, {"value": at(4)}]}}  # fmt: skip
OUTSIDE = at(99)
NUMBER, WORD = lit("1"), lit("x", "string")
ENHANCED = {"enhancement": {"@type": "type.googleapis.com/google.protobuf.Empty"}}
GONE: Any = None
"""A field that is left out."""


class Message(NamedTuple):
    """A message without a mistake.

    Attributes:
        form: its field in ``Rel``.
        body: its fields.
        width: number of its columns.
        minor: release of the plan; a removed field belongs to an older one.
    """

    form: str
    body: Json
    width: int
    minor: int = 106


SIDES = {"left": LEFT, "right": RIGHT}
MESSAGES = {
    "JoinRel": Message("join", {**SIDES, "type": "JOIN_TYPE_INNER", "expression": EQUAL}, 8),
    "CrossRel": Message("cross", {"left": LEFT, "right": ONE}, 8),
    "HashJoinRel": Message("hash_join", {**SIDES, "type": "JOIN_TYPE_INNER", "keys": [key(0, 0)]}, 8),
    "MergeJoinRel": Message("merge_join", {**SIDES, "type": "JOIN_TYPE_INNER", "keys": [key(0, 0)]}, 8),
    "NestedLoopJoinRel": Message("nested_loop_join", {**SIDES, "type": "JOIN_TYPE_INNER", "expression": EQUAL}, 8),
    "FetchRel": Message("fetch", {"input": {"sort": {"input": LEFT, "sorts": ORDER}}, "countExpr": NUMBER}, 4),
    "SortRel": Message("sort", {"input": LEFT, "sorts": ORDER}, 4),
    "TopNRel": Message("top_n", {"input": LEFT, "sorts": ORDER, "count": NUMBER, "mode": 1}, 4),
}  # fmt: skip
PATHS = {name: f"{ROOT}.{message.form}" for name, message in MESSAGES.items()}


class Mistake(NamedTuple):
    """A change of some fields of a join, and the problem that it causes.

    Attributes:
        field: the changed field.
        what: the change in words.
        change: fields of the message with their new values; `GONE` leaves one out.
        code: code of the problem.
        place: path of the problem below the message.
        lenient: its level in lenient mode.
        strict: its level in strict mode.
    """

    field: str
    what: str
    change: Json
    code: str
    place: str
    lenient: Level = "error"
    strict: Level = "error"


def _mapped(ordinal: int) -> Json:
    return {"common": {"emit": {"outputMapping": [ordinal]}}}


COMMON = [
    Mistake("common", "a column that is not there", _mapped(99), "EMIT_OUT_OF_RANGE", ".common.emit.output_mapping[0]"),
    Mistake("advanced_extension", "an enhancement", {"advancedExtension": ENHANCED}, "ENHANCEMENT_NOT_SUPPORTED", ".advanced_extension.enhancement"),
]  # fmt: skip
INPUTS = [Mistake(side, "unset", {side: GONE}, "FIELD_MISSING", "") for side in ("left", "right")]
TYPE = [
    Mistake("type", "unset", {"type": GONE}, "JOIN_TYPE_MISSING", ".type"),
    Mistake("type", "an unknown number", {"type": 99}, "VALUE_INVALID", ".type"),
]
CONDITION_MISSING = Mistake(
    "expression", "unset", {"expression": GONE}, "JOIN_CONDITION_MISSING", "", "info"
)
CONDITION = [
    Mistake("expression", "unset", {"expression": GONE}, "JOIN_WITHOUT_KEY", "", "warning", "warning"),
    Mistake("expression", "no condition", {"expression": NUMBER}, "FILTER_NOT_BOOLEAN", ".expression.literal"),
    Mistake("expression", "a column that is not there", {"expression": OUTSIDE}, "FIELD_OUT_OF_RANGE", ".expression"),
]  # fmt: skip
POST_FILTER = [
    Mistake("post_join_filter", "no condition", {"postJoinFilter": NUMBER}, "FILTER_NOT_BOOLEAN", ".post_join_filter.literal"),
    Mistake("post_join_filter", "a column that is not there", {"postJoinFilter": OUTSIDE}, "FIELD_OUT_OF_RANGE", ".post_join_filter"),
]  # fmt: skip
TWO_LEFT = {"leftKeys": [reference(0), reference(1)], "rightKeys": [reference(0)]}
KEYED = [
    Mistake("keys", "unset", {"keys": GONE}, "FIELD_MISSING", ""),
    Mistake("keys", "a column that is not there", {"keys": [key(0, 0), key(99, 0)]}, "FIELD_OUT_OF_RANGE", ".keys[1].left"),
    Mistake("keys", "different types", {"keys": [key(0, 0), key(0, 2)]}, "JOIN_KEY_TYPES", ".keys[1]"),
    Mistake("keys", "no left side", {"keys": [{**key(0, 0), "left": GONE}]}, "FIELD_MISSING", ".keys[0]"),
    Mistake("keys", "no comparison", {"keys": [{**key(0, 0), "comparison": GONE}]}, "FIELD_MISSING", ".keys[0]"),
    Mistake("keys", "an unspecified comparison", {"keys": [key(0, 0, "UNSPECIFIED")]}, "JOIN_COMPARISON_MISSING", ".keys[0].comparison.simple"),
    Mistake("keys", "a comparison that is not supported", {"keys": [key(0, 0, "MIGHT_EQUAL")]}, "JOIN_COMPARISON_NOT_SUPPORTED", ".keys[0].comparison.simple"),
    Mistake("keys", "an unknown comparison", {"keys": [{**key(0, 0), "comparison": {"simple": 77}}]}, "VALUE_INVALID", ".keys[0].comparison.simple"),
    Mistake("residual_expression", "no condition", {"residualExpression": NUMBER}, "FILTER_NOT_BOOLEAN", ".residual_expression.literal"),
    Mistake("residual_expression", "a column that is not there", {"residualExpression": OUTSIDE}, "FIELD_OUT_OF_RANGE", ".residual_expression"),
    Mistake("left_keys", "another than in keys", {"leftKeys": [reference(1)], "rightKeys": [reference(1)]}, "FIELD_CONFLICT", ".left_keys"),
    Mistake("left_keys", "one without its right key", {**TWO_LEFT, "keys": GONE}, "JOIN_KEYS_COUNT", ""),
    Mistake("left_keys", "a removed field", {"leftKeys": [reference(0)], "rightKeys": [reference(0)]}, "FIELD_REMOVED", ".left_keys", "warning"),
    Mistake("right_keys", "a column that is not there", {"leftKeys": [reference(0)], "rightKeys": [reference(99)], "keys": GONE}, "FIELD_OUT_OF_RANGE", ".right_keys[0]"),
]  # fmt: skip
SORTED = [
    Mistake("sorts", "unset", {"sorts": GONE}, "SORT_KEYS_MISSING", "", "info"),
    Mistake("sorts", "a column that is not there", {"sorts": [by(OUTSIDE)]}, "FIELD_OUT_OF_RANGE", ".sorts[0].expr"),
    Mistake("sorts", "no expression", {"sorts": [{"direction": 1}]}, "FIELD_MISSING", ".sorts[0]"),
    Mistake("sorts", "no direction", {"sorts": [{"expr": at(0)}]}, "SORT_DIRECTION_MISSING", ".sorts[0].direction"),
    Mistake("sorts", "an unknown direction", {"sorts": [{"expr": at(0), "direction": 9}]}, "VALUE_INVALID", ".sorts[0].direction"),
    Mistake("sorts", "a comparison function", {"sorts": [{"expr": at(0), "comparisonFunctionReference": 1}]}, "COMPARISON_FUNCTION_NOT_SUPPORTED", ".sorts[0].comparison_function_reference"),
    Mistake("sorts", "an undeclared comparison function", {"sorts": [{"expr": at(0), "comparisonFunctionReference": 77}]}, "FUNCTION_UNDECLARED", ".sorts[0].comparison_function_reference"),
]  # fmt: skip
INPUT = [Mistake("input", "unset", {"input": GONE}, "FIELD_MISSING", "")]


def _window(field: str, name: str) -> list[Mistake]:
    return [
        Mistake(name, "negative", {field: lit("-1")}, "FETCH_OUT_OF_RANGE", f".{name}"),
        Mistake(name, "a text", {field: WORD}, "FETCH_NOT_INTEGER", f".{name}"),
        Mistake(name, "a column", {field: at(0)}, "FETCH_NOT_CONSTANT", f".{name}"),
        Mistake(name, "a column that is not there", {field: OUTSIDE}, "FIELD_OUT_OF_RANGE", f".{name}"),
    ]  # fmt: skip


MISTAKES: dict[str, list[Mistake]] = {
    "JoinRel": [*COMMON, *INPUTS, *TYPE, CONDITION_MISSING, *CONDITION, *POST_FILTER],
    "CrossRel": [*COMMON, *INPUTS, Mistake("right", "several rows", {"right": RIGHT}, "JOIN_WITHOUT_KEY", "", "warning", "warning")],
    "HashJoinRel": [
        *COMMON, *INPUTS, *TYPE, *KEYED, *POST_FILTER,
        Mistake("build_input", "an unknown number", {"buildInput": 9}, "VALUE_INVALID", ".build_input"),
    ],
    "MergeJoinRel": [*COMMON, *INPUTS, *TYPE, *KEYED, *POST_FILTER],
    "NestedLoopJoinRel": [*COMMON, *INPUTS, *TYPE, *CONDITION],
    "FetchRel": [
        *COMMON, *INPUT, *_window("offsetExpr", "offset_expr"), *_window("countExpr", "count_expr"),
        Mistake("offset", "negative", {"offset": "-1"}, "FETCH_OUT_OF_RANGE", ".offset"),
        Mistake("count", "negative", {"count": "-2", "countExpr": GONE}, "FETCH_OUT_OF_RANGE", ".count"),
        Mistake("count", "a removed field", {"count": "2", "countExpr": GONE}, "FIELD_REMOVED", ".count", "warning"),
    ],
    "SortRel": [*COMMON, *INPUT, *SORTED],
    "TopNRel": [
        *COMMON, *INPUT, *SORTED, *_window("offset", "offset"), *_window("count", "count"),
        Mistake("mode", "unset", {"mode": GONE}, "FETCH_MODE_MISSING", ".mode", "info"),
        Mistake("mode", "an unknown number", {"mode": 9}, "VALUE_INVALID", ".mode"),
    ],
}  # fmt: skip


def problems_of(name: str, change: Json, mode: Mode) -> tuple[Problem, ...]:
    message = MESSAGES[name]
    body = {
        field: value for field, value in {**message.body, **change}.items() if value is not GONE
    }
    first, *rest = message.form.split("_")
    form = first + "".join(word.capitalize() for word in rest)
    given = plan({form: body}, message.width, minor=message.minor)
    return sa.validate(json.dumps(given), mode=mode).problems


@pytest.mark.parametrize("name", MESSAGES)
def test_every_field_has_a_mistake(name: str) -> None:
    fields = {field.name for field in schema().messages[name].by_number.values()}
    assert {mistake.field for mistake in MISTAKES[name]} == fields


@pytest.mark.parametrize("mode", ["lenient", "strict"])
@pytest.mark.parametrize("name", MESSAGES)
def test_the_message_without_a_mistake_is_accepted(name: str, mode: Mode) -> None:
    assert not [p for p in problems_of(name, {}, mode) if p.level == "error"]


@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        pytest.param(n, m, id=f"{n}-{m.field}-{m.what}")
        for n, all_ in MISTAKES.items()
        for m in all_
    ],
)
def test_a_mistake_is_reported_at_its_place(name: str, mistake: Mistake) -> None:
    for mode, level in (("lenient", mistake.lenient), ("strict", mistake.strict)):
        problems = problems_of(name, mistake.change, mode)  # type: ignore[arg-type]
        found = {(p.level, p.code, p.path.removeprefix(PATHS[name])) for p in problems}
        assert (level, mistake.code, mistake.place) in found, mode
