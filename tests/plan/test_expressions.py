"""Expressions of every kind."""

from __future__ import annotations

import pytest

from substrait_agg.plan import model as m
from substrait_agg.plan.messages.schema import schema
from substrait_agg.plan.types import Type
from substrait_agg.problem_kinds import Mode
from tests.plan.helpers import (
    BOOL,
    I32,
    Json,
    codes,
    column,
    decoded_expression,
    function,
    plan_of,
    project,
    read,
    table,
    value,
)

BASE = "relations[0].root.input.project.expressions[0]"
ONE = {"literal": {"i32": 1}}


def test_scalar_function() -> None:
    call = {
        "function_reference": 3,
        "arguments": [value(column(0)), {"enum": "YEAR"}],
        "options": [{"name": "overflow", "preference": ["ERROR"]}],
        "output_type": I32,
    }
    found, problems = decoded_expression(
        {"scalar_function": call}, extensions=[function(3, "extract:req_date")]
    )
    inner = f"{BASE}.scalar_function"
    assert problems == []
    assert found == m.ScalarCall(
        m.FunctionName("extract", "req_date", None, "extract:req_date"),
        (
            m.FieldRef((0,), f"{inner}.arguments[0].value"),
            m.EnumArgument("YEAR", f"{inner}.arguments[1]"),
        ),
        (m.OptionPreferences("overflow", ("ERROR",), f"{inner}.options[0]"),),
        Type("i32", nullable=False),
        BASE,
    )


def test_old_arguments_of_scalar_functions() -> None:
    found, _ = decoded_expression({"scalar_function": {"args": [column(0), ONE]}})
    assert isinstance(found, m.ScalarCall)
    assert [type(a) for a in found.arguments] == [m.FieldRef, m.Literal]


@pytest.mark.parametrize(("number", "failure"), [(0, "unspecified"), (1, "null"), (2, "throw")])
def test_cast(number: int, failure: str) -> None:
    cast = {"type": I32, "input": column(0), "failure_behavior": number}
    found, problems = decoded_expression({"cast": cast})
    wanted = m.Cast(
        m.FieldRef((0,), f"{BASE}.cast.input"), Type("i32", nullable=False), failure, BASE
    )
    assert (found, problems) == (wanted, [])


def test_if_then_with_and_without_else() -> None:
    clause = {"if": column(0), "then": ONE}
    found, problems = decoded_expression({"if_then": {"ifs": [clause, clause], "else": ONE}})
    assert isinstance(found, m.IfThen)
    assert (len(found.clauses), type(found.otherwise), problems) == (2, m.Literal, [])
    found, _ = decoded_expression({"if_then": {"ifs": [clause]}})
    assert isinstance(found, m.IfThen)
    assert found.otherwise is None


def test_case_of_a_value_by_datafusion() -> None:
    """DataFusion writes the value of a CASE as a first condition without result, which is read as
    the value.
    """
    version = {"minor_number": 85, "producer": "datafusion"}
    ifs = [{"if": column(0)}, {"if": ONE, "then": column(1)}]
    found, problems = decoded_expression({"if_then": {"ifs": ifs, "else": ONE}}, version=version)
    assert isinstance(found, m.Switch)
    assert (type(found.match), type(found.otherwise)) == (m.FieldRef, m.Literal)
    assert [(case.value, type(result)) for case, result in found.cases] == [(1, m.FieldRef)]
    assert [(p.code, p.level) for p in problems] == [("CASE_IN_FIRST_CLAUSE", "warning")]
    assert "DataFusion" in problems[0].message
    ifs = [{"if": column(0)}, {"if": column(1), "then": ONE}]
    compared, problems = decoded_expression({"if_then": {"ifs": ifs}}, version=version)
    assert isinstance(compared, m.IfThen)
    ((condition, _),) = compared.clauses
    assert isinstance(condition, m.ScalarCall)
    assert condition.function.name == "equal"
    assert [a.steps for a in condition.arguments if isinstance(a, m.FieldRef)] == [(0,), (1,)]
    assert [p.code for p in problems] == ["CASE_IN_FIRST_CLAUSE"]


def test_switch() -> None:
    case = {"if": {"i32": 7}, "then": ONE}
    found, problems = decoded_expression(
        {"switch_expression": {"match": column(0), "ifs": [case], "else": column(1)}}
    )
    assert isinstance(found, m.Switch)
    assert (found.cases[0][0].value, type(found.match), problems) == (7, m.FieldRef, [])


@pytest.mark.parametrize(("mode", "level"), [("lenient", "info"), ("strict", "error")])
def test_references_without_a_root_are_reported_once(mode: Mode, level: str) -> None:
    """Without a root they can only mean the input row."""
    bare = {"selection": {"direct_reference": {"struct_field": {"field": 1}}}}
    plan, found = read(plan_of(project(column(0), bare, bare)), mode)
    assert [(p.code, p.level) for p in found] == [("REFERENCE_ROOT_MISSING", level)]
    place = "relations[0].root.input.project.expressions"
    assert found[0].path in (f"{place}[1].selection", f"{place}[2].selection")
    assert isinstance(plan.root, m.ProjectRel)
    assert [e.steps for e in plan.root.expressions if isinstance(e, m.FieldRef)] == [
        (0,),
        (1,),
        (1,),
    ]


def test_a_switch_has_cases() -> None:
    """A switch without cases is refused, like an if-then without clauses."""
    _, problems = decoded_expression({"switch_expression": {"match": column(0), "else": column(1)}})
    place = "relations[0].root.input.project.expressions[0].switch_expression"
    assert [(p.code, p.level, p.path) for p in problems] == [("FIELD_MISSING", "error", place)]


def test_in_list() -> None:
    found, problems = decoded_expression(
        {"singular_or_list": {"value": column(0), "options": [ONE, column(1)]}}
    )
    assert isinstance(found, m.SingularOrList)
    assert ([type(o) for o in found.options], problems) == ([m.Literal, m.FieldRef], [])


def selection(segment: Json, **root: Json) -> Json:
    return {"selection": {"direct_reference": segment, **root}}


def test_nested_references() -> None:
    key = {"map_key": {"string": "k"}, "child": {"list_element": {"offset": 2}}}
    segment = {"struct_field": {"field": 1, "child": {"map_key": key}}}
    found, problems = decoded_expression(selection(segment, root_reference={}))
    assert isinstance(found, m.FieldRef)
    first, (word, literal), last = found.steps
    assert (first, word, literal.value, last, problems) == (1, "key", "k", ("element", 2), [])


def test_column_0_is_not_on_the_wire() -> None:
    found, problems = decoded_expression(selection({"struct_field": {}}, root_reference={}))
    assert (found, problems) == (m.FieldRef((0,), BASE), [])


@pytest.mark.parametrize(
    ("segment", "steps"),
    [
        ({"struct_field": {}}, (0,)),
        ({"map_key": {"map_key": {"string": "k"}, "child": {"list_element": {"offset": 2}}}}, None),
    ],
)
def test_parts_of_expressions(segment: Json, steps: tuple[int, ...] | None) -> None:
    found, problems = decoded_expression(selection(segment, expression=column(3)))
    assert isinstance(found, m.ExpressionPart)
    assert isinstance(found.input, m.FieldRef)
    assert found.input.steps == (3,)
    if steps is None:
        (word, key), offset = found.steps
        assert (word, key.value, offset) == ("key", "k", ("element", 2))
    else:
        assert found.steps == steps
    assert problems == []


@pytest.mark.parametrize(
    "written",
    [
        {"selection": {"masked_reference": {"select": {}}, "root_reference": {}}},
        selection({"struct_field": {}}, outer_reference={}),
        selection({"map_key": {"map_key": {"string": "k"}}}),
        selection({"list_element": {"offset": 2}}),
        selection({"list_element": {}}, outer_reference={"steps_out": 1}),
        selection({"map_key": {"map_key": {"i64": 0}}}, outer_reference={"rel_reference": 1}),
        selection({"list_element": {}}, lambda_parameter_reference={"steps_out": 0}),
        selection({}),
        {"selection": {}},
    ],
)
def test_other_references_are_refused(written: Json) -> None:
    found, problems = decoded_expression(written)
    assert isinstance(found, m.Unsupported)
    assert [p.code for p in problems] == ["EXPRESSION_NOT_SUPPORTED"]
    assert problems[0].path.startswith(f"{BASE}.selection")


READ = {
    "literal", "selection", "scalar_function", "if_then", "switch_expression", "singular_or_list",
    "cast", "nested", "lambda", "subquery", "window_function", "detached_expression_ordinal",
}  # fmt: skip


@pytest.mark.parametrize(
    "kind",
    [f.name for f in schema().messages["Expression"].by_number.values() if f.name not in READ],
)
def test_every_other_expression_is_refused_by_name(kind: str) -> None:
    found, problems = decoded_expression({kind: {}})
    assert isinstance(found, m.Unsupported)
    assert codes(problems) == [("EXPRESSION_NOT_SUPPORTED", f"{BASE}.{kind}")]
    assert kind in problems[0].message


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ({}, BASE),
        ({"literal": {}}, f"{BASE}.literal"),
        ({"cast": {"type": BOOL}}, f"{BASE}.cast"),
        ({"cast": {"input": column(0)}}, f"{BASE}.cast"),
        ({"if_then": {"else": ONE}}, f"{BASE}.if_then"),
        ({"if_then": {"ifs": [{"if": column(0)}]}}, f"{BASE}.if_then.ifs[0]"),
        ({"singular_or_list": {}}, f"{BASE}.singular_or_list"),
        ({"scalar_function": {"arguments": [{}]}}, f"{BASE}.scalar_function.arguments[0]"),
    ],
)
def test_missing_parts_are_reported(written: Json, path: str) -> None:
    assert codes(decoded_expression(written)[1]) == [("FIELD_MISSING", path)]


# --- subqueries --------------------------------------------------------------------------------


def outer_column(ordinal: int, steps_out: int = 1) -> Json:
    return selection({"struct_field": {"field": ordinal}}, outer_reference={"steps_out": steps_out})


def test_a_reference_to_an_outer_query() -> None:
    found, problems = decoded_expression(outer_column(2, 3))
    assert isinstance(found, m.OuterRef)
    assert not problems
    assert (found.steps_out, found.steps) == (3, (2,))


@pytest.mark.parametrize(
    ("written", "kind", "values"),
    [
        ({"scalar": {"input": table(I32)}}, "scalar", 0),
        ({"in_predicate": {"needles": [column(0), column(1)], "haystack": table(I32)}}, "in", 2),
        ({"set_predicate": {"predicate_op": 1, "tuples": table(I32)}}, "exists", 0),
        ({"set_comparison": {"reduction_op": 1, "comparison_op": 1, "left": column(0), "right": table(I32)}}, "in", 1),
        ({"set_comparison": {"reduction_op": 2, "comparison_op": 2, "left": column(0), "right": table(I32)}}, "not_in", 1),
    ],
)  # fmt: skip
def test_subqueries(written: Json, kind: str, values: int) -> None:
    found, problems = decoded_expression({"subquery": written})
    assert isinstance(found, m.Subquery)
    assert not problems
    assert (found.kind, len(found.values)) == (kind, values)
    assert isinstance(found.relation, m.ReadRel)


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ({}, "EXPRESSION_NOT_SUPPORTED"),
        ({"scalar": {}}, "FIELD_MISSING"),
        ({"in_predicate": {"needles": [column(0)]}}, "FIELD_MISSING"),
        ({"in_predicate": {"haystack": table(I32)}}, "FIELD_MISSING"),
        ({"set_predicate": {"tuples": table(I32)}}, "EXPRESSION_NOT_SUPPORTED"),
        ({"set_predicate": {"predicate_op": 2, "tuples": table(I32)}}, "EXPRESSION_NOT_SUPPORTED"),
        ({"set_predicate": {"predicate_op": 9, "tuples": table(I32)}}, "VALUE_INVALID"),
        ({"set_predicate": {"predicate_op": 1}}, "FIELD_MISSING"),
        ({"set_comparison": {"reduction_op": 2, "comparison_op": 1, "left": column(0), "right": table(I32)}},
         "EXPRESSION_NOT_SUPPORTED"),
        ({"set_comparison": {"reduction_op": 1, "comparison_op": 1, "right": table(I32)}}, "FIELD_MISSING"),
    ],
)  # fmt: skip
def test_subqueries_that_are_refused(written: Json, code: str) -> None:
    _, problems = decoded_expression({"subquery": written})
    assert code in [p.code for p in problems]
    assert all(p.path.startswith(f"{BASE}.subquery") for p in problems)
