"""Relations and expressions around the aggregate: each mistake has one code, at the innermost place it is made."""

from __future__ import annotations

import json
from typing import Any

import pytest

from substrait_agg.bind import bind
from substrait_agg.plan import decode
from substrait_agg.problem_kinds import KINDS
from substrait_agg.problems import Problems
from tests.bind.written import (
    BOOL,
    COLUMNS,
    FP64,
    I32,
    I64,
    MUST,
    REQUIRED,
    TEXT,
    Json,
    anchor,
    at,
    call,
    col,
    filtered,
    lit,
    null,
    of,
    plan,
    problems,
    project,
    read,
    rows,
    schema,
    summed,
)

TOP = "relations[0].root.input"
IN = f"{TOP}.aggregate.input"
EXPRESSION = f"{IN}.project.expressions[0]"
ROWS = f"{IN}.read.virtual_table.expressions"
ROW = [lit("i64", 1), lit("string", "x")]


def cast(target: Json, value: Json, failure: str = "FAILURE_BEHAVIOR_THROW_EXCEPTION") -> Json:
    return {"cast": {"type": target, "input": value, "failure_behavior": failure}}


def if_then(*clauses: tuple[Json, Json], otherwise: Json | None = None) -> Json:
    ifs = [{"if": condition, "then": value} for condition, value in clauses]
    return {"if_then": {"ifs": ifs, **({"else": otherwise} if otherwise else {})}}


def switch(match: Json, *cases: tuple[Json, Json], otherwise: Json) -> Json:
    ifs = [{"if": case["literal"], "then": value} for case, value in cases]
    return {"switch_expression": {"match": match, "ifs": ifs, "else": otherwise}}


def is_in(value: Json, *options: Json) -> Json:
    return {"singular_or_list": {"value": value, "options": list(options)}}


def union(*inputs: Json) -> Json:
    return {"set": {"op": "SET_OP_UNION_ALL", "inputs": list(inputs)}}


def mask(*ordinals: int) -> Json:
    return {"select": {"struct_items": [{"field": ordinal} for ordinal in ordinals]}}


def emit(*ordinals: int) -> Json:
    return {"emit": {"output_mapping": list(ordinals)}}


def sort(*keys: Json) -> Json:
    return {"sort": {"input": summed(), "sorts": list(keys)}}


ABOVE: list[tuple[str, Json, str, str]] = [
    ("no direction", sort({"expr": at(0)}), "SORT_DIRECTION_MISSING", ".sort.sorts[0].direction"),
    ("direction 99", sort({"expr": at(0), "direction": 99}), "VALUE_INVALID", ".sort.sorts[0].direction"),
    ("no keys", sort(), "SORT_KEYS_MISSING", ".sort"),
    ("key out of range", sort({"expr": at(9), "direction": 1}), "FIELD_OUT_OF_RANGE", ".sort.sorts[0].expr"),
    (
        "comparison", sort({"expr": at(0), "comparison_function_reference": anchor("gt")}),
        "COMPARISON_FUNCTION_NOT_SUPPORTED", ".sort.sorts[0].comparison_function_reference",
    ),
    (
        "comparison undeclared", sort({"expr": at(0), "comparison_function_reference": 99}),
        "FUNCTION_UNDECLARED", ".sort.sorts[0].comparison_function_reference",
    ),
    (
        "no columns", filtered(call("gt", at(1), lit("i64", 1), output=BOOL), summed(), common=emit()),
        "OUTPUT_EMPTY", ".filter",
    ),
    (
        "output mapping", filtered(call("gt", at(1), lit("i64", 1), output=BOOL), summed(), common=emit(0, 7)),
        "EMIT_OUT_OF_RANGE", ".filter.common.emit.output_mapping[1]",
    ),
]  # fmt: skip
"""Mistake, root relation, code, place below the root."""

BELOW: list[tuple[str, Json, str, str]] = [
    ("always true", filtered(lit("boolean", True)), "FILTER_CONSTANT", ".filter.condition.literal"),
    ("always null", filtered(null(BOOL)), "FILTER_CONSTANT", ".filter.condition.literal"),
    ("filter of the read", read(filter=lit("boolean", False)), "FILTER_CONSTANT", ".read.filter.literal"),
    ("filter no boolean", filtered(col("a")), "FILTER_NOT_BOOLEAN", ".filter.condition"),
    ("read filter no boolean", read(filter=col("b")), "FILTER_NOT_BOOLEAN", ".read.filter"),
    ("emit", filtered(col("d"), common=emit(0, 1, 9)), "EMIT_OUT_OF_RANGE",
     ".filter.common.emit.output_mapping[2]"),
    ("emit below zero", filtered(col("d"), common=emit(0, -1)), "EMIT_OUT_OF_RANGE",
     ".filter.common.emit.output_mapping[1]"),
    ("mask", read(projection=mask(0, 1, 77)), "EMIT_OUT_OF_RANGE", ".read.projection.select.struct_items[2]"),
    ("table without a name", read(named_table={}), "TABLE_NAME_MISSING", ".read.named_table.names"),
    ("table with an empty name", read(named_table={"names": [""]}), "TABLE_NAME_MISSING",
     ".read.named_table.names"),
    ("no schema", read(base_schema=None), "FIELD_MISSING", ".read"),
    ("too few names", read(base_schema=schema(COLUMNS, ["a"])), "NAMES_COUNT", ".read.base_schema"),
    ("equal names", read(base_schema=schema({"a": I64, "b": TEXT}, ["a", "a"])), "NAME_REPEATED",
     ".read.base_schema.names[1]"),
    ("empty name", read(base_schema=schema({"a": I64, "b": TEXT}, ["a", ""])), "NAME_EMPTY",
     ".read.base_schema.names[1]"),
    ("union of one", union(read()), "SET_ONE_INPUT", ".set"),
    ("union of other types", union(read(projection=mask(0)), read(projection=mask(1))),
     "UNION_TYPES_DIFFER", ".set.inputs[1]"),
    ("mask with a column twice", read(projection=mask(0, 1, 1)), "MASK_REORDERS", ".read.projection"),
]  # fmt: skip
"""Mistake, input of the aggregate, code, place below the aggregate's input."""

HELD: list[tuple[str, Json, str, str]] = [
    ("short row", rows(ROW, ROW[:1]), "ROW_WIDTH", f"{ROWS}[1]"),
    ("empty row", rows(ROW, []), "ROW_WIDTH", f"{IN}.read.virtual_table"),
    ("other type", rows([lit("i32", 1), ROW[1]], [lit("i32", 2), ROW[1]]), "ROW_TYPE_DIFFERS",
     f"{ROWS}[0].fields[0].literal"),
    ("no such type", rows(ROW, [lit("binary", "aaaa"), ROW[1]]), "ROW_TYPE_NOT_SUPPORTED",
     f"{ROWS}[1].fields[0].literal"),
    ("null", rows([null(I64), ROW[1]], columns={"a": MUST, "b": TEXT}), "ROW_NULL",
     f"{ROWS}[0].fields[0].literal"),
    ("column", rows([at(0), ROW[1]]), "ROW_NOT_CONSTANT", f"{ROWS}[0].fields[0]"),
    ("call", rows([call("add", ROW[0], ROW[0], output=MUST), ROW[1]]), "ROW_NOT_CONSTANT",
     f"{ROWS}[0].fields[0]"),
]  # fmt: skip
"""Mistake, rows in the plan, code, place."""

EXPRESSIONS: list[tuple[str, Json, str, str]] = [
    ("cast to required", cast(of("fp64", REQUIRED), col("a")), "CAST_NULLABILITY", ".cast.type"),
    ("cast that fails with null", cast(of("fp64", REQUIRED), col("must"), "FAILURE_BEHAVIOR_RETURN_NULL"),
     "CAST_NULLABILITY", ".cast.type"),
    ("cast without failure", cast(FP64, col("a"), "FAILURE_BEHAVIOR_UNSPECIFIED"), "CAST_FAILURE_MISSING", ".cast"),
    ("cast from bool to date", cast(of("date"), col("d")), "CAST_NOT_SUPPORTED", ""),
    ("condition", if_then((col("a"), col("a")), otherwise=col("must")), "FILTER_NOT_BOOLEAN", ".if_then.ifs[0].if"),
    ("branch converted", if_then((col("d"), col("a")), (col("d"), col("f"))), "BRANCHES_CONVERTED",
     ".if_then.ifs[1].then"),
    ("branch", if_then((col("d"), col("a")), (col("d"), col("b")), otherwise=col("a")), "BRANCH_TYPES_DIFFER",
     ".if_then.ifs[1].then"),
    ("else", if_then((col("d"), col("a")), otherwise=col("b")), "BRANCH_TYPES_DIFFER", ".if_then.else"),
    ("case", switch(col("a"), (lit("string", "x"), col("a")), otherwise=col("a")), "BRANCH_TYPES_DIFFER",
     ".switch_expression.ifs[0].if"),
    ("value of a case", switch(col("a"), (lit("i64", 1), col("b")), otherwise=col("a")), "BRANCH_TYPES_DIFFER",
     ".switch_expression.else"),
    ("case twice", switch(col("a"), *[(lit("i64", 1), col("a"))] * 2, otherwise=col("a")), "CASE_REPEATED",
     ".switch_expression.ifs[1].if"),
    ("option", is_in(col("a"), lit("i64", 1), lit("string", "x")), "BRANCH_TYPES_DIFFER",
     ".singular_or_list.options[1].literal"),
    ("option converted", is_in(col("a"), lit("i32", 1)), "BRANCHES_CONVERTED", ".singular_or_list.options[0].literal"),
    ("result type", call("add", col("a"), col("a"), output=FP64), "RESULT_TYPE_DIFFERS", ".scalar_function.output_type"),
    ("result date", call("add", col("a"), col("a"), output=of("date")), "RESULT_TYPE_NOT_SUPPORTED",
     ".scalar_function.output_type"),
    ("result required", call("add", col("a"), col("a"), output=MUST), "RESULT_NULLABILITY",
     ".scalar_function.output_type"),
    ("no result type", call("add", col("a"), col("a")), "RESULT_TYPE_MISSING", ""),
    ("argument", call("add", col("a"), col("b"), output=I64), "FUNCTION_ARGUMENTS",
     ".scalar_function.arguments[1].value"),
    ("arguments together", call("gt", col("a"), col("b"), output=BOOL), "FUNCTION_ARGUMENTS", ""),
    ("number of arguments", call("add", col("a"), output=I64), "ARGUMENT_COUNT", ".scalar_function.arguments"),
    ("aggregate in an expression", call("sum", col("a"), output=I64), "FUNCTION_NOT_SCALAR", ""),
    ("column out of range", at(70), "FIELD_OUT_OF_RANGE", ""),
    ("part of a number", {"selection": {"direct_reference": {"struct_field": {
        "field": 0, "child": {"struct_field": {"field": 1}}}}, "root_reference": {}}}, "NESTED_STEP_INVALID", ""),
    ("literal out of range", lit("i8", 300), "VALUE_INVALID", ".literal.i8"),
    ("literal too long", lit("var_char", {"value": "abcd", "length": 3}), "VALUE_INVALID", ".literal.var_char"),
]  # fmt: skip
"""Mistake, expression in a project, code, place below the expression."""

PAIR = schema(
    {
        "p": {
            "struct": {
                "types": [I64, {"struct": {"types": [I64, I64], "nullability": REQUIRED}}],
                "nullability": REQUIRED,
            }
        }
    },
    ["p", "a", "b", "c", "d"],
)
"""A struct of a number and of a struct of two numbers."""
FIELDS = [
    ("equal names of fields", ("p", "a", "a", "c", "d"), "NAME_REPEATED", 2),
    ("equal names of inner fields", ("p", "a", "b", "c", "c"), "NAME_REPEATED", 4),
    ("a field without a name", ("p", "a", "b", "", "d"), "NAME_EMPTY", 3),
]
"""Mistake, depth-first names of the columns of `PAIR`, code, position of the name."""

MISTAKES: list[Any] = [
    *(pytest.param(plan(r), code, TOP + at, id=name) for name, r, code, at in ABOVE),
    *(pytest.param(plan(summed(r)), code, IN + at, id=name) for name, r, code, at in BELOW),
    *(pytest.param(plan(summed(r)), code, at, id=f"row: {name}") for name, r, code, at in HELD),
    *(
        pytest.param(plan(summed(project(e))), code, EXPRESSION + at, id=name)
        for name, e, code, at in EXPRESSIONS
    ),
    pytest.param(
        plan(summed(), "k", "k"), "NAME_REPEATED", "relations[0].root.names[1]", id="name"
    ),
    pytest.param(plan(summed(), "k", ""), "NAME_EMPTY", "relations[0].root.names[1]", id="no name"),
    *(
        pytest.param(
            plan(summed(), "k", name), "NAME_RESERVED", "relations[0].root.names[1]", id=name
        )
        for name in ("__weight", "__version", "__WEIGHT")
    ),
    pytest.param(plan(summed(), "k"), "NAMES_COUNT", "relations[0].root.names", id="names"),
    *(
        pytest.param(
            plan(read(base_schema=PAIR), *names), code, f"relations[0].root.names[{at}]", id=name
        )
        for name, names, code, at in FIELDS
    ),
]


@pytest.mark.parametrize(("written", "code", "place"), MISTAKES)
def test_a_mistake_has_one_code_at_its_place(written: Json, code: str, place: str) -> None:
    """Guards against a second report of one cause, a false alarm elsewhere, and a place that is too far out."""
    kind = KINDS[code]
    found = [(p.code, p.level, p.path) for p in problems(written)]
    assert found == [(code, kind.lenient, place)]


@pytest.mark.parametrize(("written", "code", "place"), MISTAKES)
def test_strict_mode_finds_it_at_the_same_place(written: Json, code: str, place: str) -> None:
    kind = KINDS[code]
    assert (code, kind.strict, place) in [
        (p.code, p.level, p.path) for p in problems(written, "strict")
    ]


CLEAN = {
    "cast": cast(FP64, col("a")),
    "cast of required": cast(of("fp64", REQUIRED), col("must")),
    "if-then": if_then((col("d"), col("a")), otherwise=col("must")),
    "if-then with null": if_then((col("d"), col("a")), otherwise=null(I32)),
    "switch": switch(col("a"), (lit("i64", 1), col("a")), (lit("i64", 2), col("a")), otherwise=col("a")),
    "in": is_in(col("a"), lit("i64", 1), lit("i64", 2)),
    "call": call("add", col("a"), col("must"), output=I64),
    "call of required": call("add", col("must"), col("must"), output=MUST),
    "literal": lit("var_char", {"value": "abc", "length": 3}),
}  # fmt: skip


@pytest.mark.parametrize("name", CLEAN)
@pytest.mark.parametrize("mode", ["lenient", "strict"])
def test_sound_expressions_are_not_reported(name: str, mode: Any) -> None:
    assert problems(plan(summed(project(CLEAN[name]))), mode) == []


@pytest.mark.parametrize("mode", ["lenient", "strict"])
def test_sound_relations_are_not_reported(mode: Any) -> None:
    condition = call("gt", col("a"), lit("i64", 1), output=BOOL)
    below = union(filtered(condition), read(filter=col("d")))
    ordered = {"expr": at(1), "direction": "SORT_DIRECTION_DESC_NULLS_LAST"}
    root = {"sort": {"input": summed(below), "sorts": [ordered]}}
    assert problems(plan(root), mode) == []
    assert problems(plan(summed(rows(ROW, ROW))), mode) == []


def test_a_sort_that_changes_nothing_needs_a_direction_too() -> None:
    """It would be reported only once somebody moves it to the root."""
    below = {"sort": {"input": read(), "sorts": [{"expr": at(0)}]}}
    found = [p.code for p in problems(plan(summed(below)))]
    assert sorted(found) == ["SORT_DIRECTION_MISSING", "SORT_NO_EFFECT"]


def test_the_name_of_a_column_is_looked_for_among_columns_only() -> None:
    """Fields of a struct may be named like a column."""
    inner = {"struct": {"types": [I64], "nullability": REQUIRED}}
    columns = schema({"a": I64, "b": TEXT, "p": inner}, ["a", "b", "p", "a"])
    assert problems(plan(summed(read(base_schema=columns)))) == []


def test_fields_with_equal_or_empty_names_are_shown_by_position() -> None:
    """All fields of that struct; the other struct has its names. In a JSON object one would hide the other."""
    for *_, names, _, _ in FIELDS:
        outer, inner = list(names[1:3]), list(names[3:])
        shown = [n if len({*n, ""}) > len(n) else ["f0", "f1"] for n in (outer, inner)]
        collected = Problems("lenient")
        bound = bind(decode(json.dumps(plan(read(base_schema=PAIR), *names)), collected), collected)
        assert bound is not None
        assert bound.fields == ((*shown[0], *shown[1]),)


def test_names_of_a_root_behind_other_relations_are_placed() -> None:
    """Guards against a path that is made from the relation the root refers to."""
    root = {"reference": {"subtree_ordinal": 0}}
    relations = [{"rel": summed()}, {"root": {"input": root, "names": ["k"]}}]
    found = problems({**plan(summed()), "relations": relations})
    assert [(p.code, p.path) for p in found] == [("NAMES_COUNT", "relations[1].root.names")]


def test_a_bare_relation_without_names_is_placed() -> None:
    found = problems({**plan(summed()), "relations": [{"rel": summed()}]})
    assert [(p.code, p.path) for p in found] == [("ROOT_NAMES_MISSING", "relations[0]")]


JOINED = {
    "join": {
        "left": filtered(col("a")),
        "right": rows(ROW, ROW[:1]),
        "type": "JOIN_TYPE_INNER",
        "expression": lit("boolean", True),
    }
}


def test_what_stands_inside_a_relation_that_is_not_run_is_checked_too() -> None:
    """The inputs of an unsupported relation are checked as well, so that it does not hide their
    problems.
    """
    found = {(p.code, p.path) for p in problems(plan(summed(JOINED)))}
    assert found == {
        ("FILTER_NOT_BOOLEAN", f"{IN}.join.left.filter.condition"),
        ("ROW_WIDTH", f"{IN}.join.right.read.virtual_table.expressions[1]"),
    }


MISTAKEN = call("add", col("b"), col("a"), output=I64)
INNER = ".scalar_function.arguments[0].value"


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        ({"nested": {"list": {"values": [MISTAKEN]}}}, ".nested.list.values[0]"),
        ({"window_function": {"arguments": [{"value": MISTAKEN}]}}, ".window_function.arguments[0].value"),
        ({"subquery": {"scalar": {"input": project(MISTAKEN)}}}, ".subquery.scalar.input.project.expressions[0]"),
    ],
)  # fmt: skip
def test_what_stands_inside_an_expression_that_is_not_run_is_checked_too(
    kind: Json, where: str
) -> None:
    found = {(p.code, p.path) for p in problems(plan(summed(project(kind))))}
    assert ("FUNCTION_ARGUMENTS", f"{EXPRESSION}{where}{INNER}") in found


def test_the_functions_in_the_condition_of_a_join_are_checked() -> None:
    """Its columns are not known, its functions are."""
    condition = {"scalar_function": {"function_reference": 77}}
    joined = {"join": {**JOINED["join"], "left": read(), "right": read(), "expression": condition}}
    found = [(p.code, p.path) for p in problems(plan(summed(joined)))]
    assert ("FUNCTION_UNDECLARED", f"{IN}.join.expression") in found


@pytest.mark.parametrize("kind", ["rel", "root"])
def test_relations_that_the_root_does_not_reach_are_checked(kind: str) -> None:
    """A plan that is right but for a relation that nothing reads is not right."""
    below = filtered(col("a"))
    other: Json = {"rel": below} if kind == "rel" else {"root": {"input": below, "names": []}}
    written = plan(summed())
    written["relations"].append(other)
    place = "relations[1]." + ("rel" if kind == "rel" else "root.input")
    found = [(p.code, p.path) for p in problems(written)]
    assert ("FILTER_NOT_BOOLEAN", f"{place}.filter.condition") in found


def test_nulls_inside_a_value_of_one_branch_are_those_of_all() -> None:
    """Otherwise a list without nulls is promised, and one with nulls is delivered."""
    lists = [{"list": {"type": t, "nullability": "NULLABILITY_NULLABLE"}} for t in (MUST, I64)]
    one, other = (
        {"read": {"base_schema": schema({"a": t}), "named_table": {"names": ["t"]}}} for t in lists
    )
    both = {"read": {"base_schema": schema({"a": lists[0], "b": lists[1], "c": BOOL}),
                     "named_table": {"names": ["t"]}}}  # fmt: skip
    choice = {
        "common": emit(3),
        "input": both,
        "expressions": [if_then((at(2), at(0)), otherwise=at(1))],
    }
    for root in (union(one, other), union(other, one), {"project": choice}):
        made = bind(decode(json.dumps(plan(root, "a")), Problems()), Problems())
        assert made is not None
        assert [str(t) for t in made.root.types] == ["list?<i64?>"]


def test_an_unknown_type_in_a_union_is_one_mistake() -> None:
    """The inputs differ only because a column of one of them could not be read."""
    broken = project(at(70))
    sound = project(col("a"))
    found = [(p.code, p.path) for p in problems(plan(summed(union(broken, sound))))]
    assert found == [("FIELD_OUT_OF_RANGE", f"{IN}.set.inputs[0].project.expressions[0]")]


def test_a_declaration_is_checked_where_the_arguments_are_not_known() -> None:
    written = plan(summed(project(call("add", at(70), at(71), output=I64))))
    written["extensions"][anchor("add") - 1]["extension_function"]["name"] = "add:nothing"
    found = {(p.code, p.path) for p in problems(written)}
    assert ("SIGNATURE_UNKNOWN", f"extensions[{anchor('add') - 1}].extension_function") in found
