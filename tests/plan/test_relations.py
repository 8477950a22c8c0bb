"""Relations, and the parts of aggregates, in the encodings of all releases."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from substrait_agg.plan import model as m
from substrait_agg.plan.messages.schema import schema
from substrait_agg.plan.types import Type
from tests.plan.helpers import (
    BOOL,
    I32,
    Json,
    aggregate,
    codes,
    column,
    decoded_aggregate,
    function,
    plan_of,
    project,
    read,
    table,
    value,
)

ROOT = "relations[0].root.input"
SUM = {"extensions": [function(1, "sum:i32")]}


def steps(found: tuple[m.Expression, ...]) -> list[tuple[Any, ...]]:
    return [e.steps for e in found if isinstance(e, m.FieldRef)]


# --- groupings -----------------------------------------------------------------------------------


def test_references() -> None:
    sets = [{"expression_references": [0, 1]}, {"expression_references": [1]}, {}]
    found, problems = decoded_aggregate(
        plan_of(aggregate(grouping_expressions=[column(1), column(0)], groupings=sets))
    )
    assert steps(found.grouping_expressions) == [(1,), (0,)]
    assert found.groupings == ((0, 1), (1,), ())
    assert problems == []


def test_inline_keys_are_gathered_in_order_of_first_appearance() -> None:
    """In plans from before Substrait 0.57.0 equal inline key messages are one key."""
    sets = [
        {"grouping_expressions": [column(1), column(0)]},
        {"grouping_expressions": [column(0)]},
        {},
        {"grouping_expressions": [{"literal": {"i32": 1}}, column(1)]},
    ]
    found, problems = decoded_aggregate(plan_of(aggregate(groupings=sets)))
    assert steps(found.grouping_expressions) == [(1,), (0,)]
    assert isinstance(found.grouping_expressions[2], m.Literal)
    assert found.groupings == ((0, 1), (1,), (), (2, 0))
    assert problems == []


@pytest.mark.parametrize(("inside", "said"), [(1, []), (0, ["FIELD_CONFLICT"])])
def test_references_count_where_both_forms_are_written(inside: int, said: list[str]) -> None:
    """If references and inline keys are both written, references are used and different keys are
    reported.
    """
    both = {"grouping_expressions": [column(inside)], "expression_references": [0]}
    found, problems = decoded_aggregate(
        plan_of(aggregate(grouping_expressions=[column(1)], groupings=[both]))
    )
    assert (steps(found.grouping_expressions), found.groupings) == ([(1,)], ((0,),))
    assert [p.code for p in problems] == said


def test_a_key_that_only_one_form_has_is_a_conflict() -> None:
    """Taking either form would lose a key or add one."""
    both = {"grouping_expressions": [column(0), column(1)], "expression_references": [0]}
    _, problems = decoded_aggregate(
        plan_of(aggregate(grouping_expressions=[column(1)], groupings=[both]))
    )
    path = f"{ROOT}.aggregate.groupings[0].grouping_expressions"
    assert codes(problems) == [("FIELD_CONFLICT", path)]


def test_no_groupings() -> None:
    assert decoded_aggregate(plan_of(aggregate()))[0].groupings == ()


# --- measures ------------------------------------------------------------------------------------


def measure(**fields: Any) -> tuple[m.MeasureCall, list[Any]]:
    """The one measure with fields `fields` of the function."""
    written = {"measure": {"function_reference": 1, **fields}}
    found, problems = decoded_aggregate(plan_of(aggregate(measures=[written]), **SUM))
    return found.measures[0], problems


def test_a_measure_with_everything() -> None:
    found, problems = measure(
        arguments=[value(column(0)), {"enum": "SAMPLE"}, {"type": I32}],
        options=[{"name": "overflow", "preference": ["ERROR", "SILENT"]}],
        output_type=BOOL,
        phase="AGGREGATION_PHASE_INTERMEDIATE_TO_RESULT",
        invocation="AGGREGATION_INVOCATION_DISTINCT",
        sorts=[
            {"expr": column(0), "direction": "SORT_DIRECTION_DESC_NULLS_FIRST"},
            {"expr": column(1), "comparison_function_reference": 1},
        ],
    )
    base = f"{ROOT}.aggregate.measures[0].measure"
    name = m.FunctionName("sum", "i32", None, "sum:i32")
    assert found == m.MeasureCall(
        function=name,
        arguments=(
            m.FieldRef((0,), f"{base}.arguments[0].value"),
            m.EnumArgument("SAMPLE", f"{base}.arguments[1]"),
            m.TypeArgument(Type("i32", nullable=False), f"{base}.arguments[2]"),
        ),
        options=(m.OptionPreferences("overflow", ("ERROR", "SILENT"), f"{base}.options[0]"),),
        output_type=Type("bool", nullable=False),
        phase="intermediate_to_result",
        invocation="distinct",
        sorts=(
            m.SortField(
                m.FieldRef((0,), f"{base}.sorts[0].expr"),
                "desc_nulls_first",
                None,
                f"{base}.sorts[0]",
            ),
            m.SortField(
                m.FieldRef((1,), f"{base}.sorts[1].expr"), "comparison", name, f"{base}.sorts[1]"
            ),
        ),
        filter=None,
        path=base,
    )
    assert problems == []


def test_old_arguments_are_read_where_there_are_no_new_ones() -> None:
    found, problems = measure(args=[{"enum": {"specified": "SAMPLE"}}, column(1)])
    first, second = found.arguments
    assert isinstance(first, m.EnumArgument)
    assert isinstance(second, m.FieldRef)
    assert (first.value, second.steps, problems) == ("SAMPLE", (1,), [])


def test_arguments_written_twice_must_say_the_same() -> None:
    assert measure(args=[column(1)], arguments=[value(column(1))])[1] == []
    enum = {"enum": {"specified": "SAMPLE"}}
    assert measure(args=[enum], arguments=[{"enum": "SAMPLE"}])[1] == []
    for args in ([column(0)], [column(1), column(1)], [enum]):
        _, problems = measure(args=args, arguments=[value(column(1))])
        path = f"{ROOT}.aggregate.measures[0].measure.args"
        assert codes(problems) == [("FIELD_CONFLICT", path)]


def test_enum_values_that_no_release_has_are_reported() -> None:
    _, problems = measure(phase=9, invocation=7, sorts=[{"expr": column(0), "direction": 6}])
    assert [p.code for p in problems] == ["VALUE_INVALID"] * 3


def test_a_measure_without_a_function_is_reported() -> None:
    found, problems = decoded_aggregate(plan_of(aggregate(measures=[{"filter": column(0)}])))
    assert not found.measures[0].function.known
    assert codes(problems) == [("FIELD_MISSING", f"{ROOT}.aggregate.measures[0]")]


# --- other relations -----------------------------------------------------------------------------


EMIT = {"common": {"emit": {"output_mapping": [1, 0]}}}
DIRECT = {"common": {"direct": {}, "hint": {"alias": "x"}}}
SORTS = {"sorts": [{"expr": column(0), "direction": 1}]}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("read", table(I32)["read"]),
        ("filter", {"input": table(BOOL), "condition": column(0)}),
        ("project", {"input": table(I32), "expressions": [column(0)]}),
        ("sort", {"input": table(I32), **SORTS}),
        ("set", {"inputs": [table(I32), table(I32)], "op": 6}),
        ("aggregate", {"input": table(I32), "measures": []}),
    ],
)
@pytest.mark.parametrize(("common", "emit"), [({}, None), (DIRECT, None), (EMIT, (1, 0))])
def test_every_relation_has_its_output_mapping(
    kind: str, body: Json, common: Json, emit: tuple[int, ...] | None
) -> None:
    plan, problems = read(plan_of({kind: {**body, **common}}))
    assert not isinstance(plan.root, m.Unsupported)
    assert (plan.root.emit, plan.root.path) == (emit, f"{ROOT}.{kind}")
    assert problems == []


READ = {
    "read",
    "filter",
    "project",
    "sort",
    "set",
    "aggregate",
    "reference",
    "detached_rel_ordinal",
    "join",
    "cross",
    "hash_join",
    "merge_join",
    "nested_loop_join",
    "fetch",
    "top_n",
    "window",
}


@pytest.mark.parametrize(
    "kind",
    [f.name for f in schema().messages["Rel"].by_number.values() if f.name not in READ],
)
def test_every_other_relation_is_refused_by_name(kind: str) -> None:
    plan, problems = read(plan_of({kind: {}}))
    assert plan.root == m.Unsupported(kind, f"{ROOT}.{kind}")
    assert codes(problems) == [("RELATION_NOT_SUPPORTED", f"{ROOT}.{kind}")]
    assert kind in problems[0].message


@pytest.mark.parametrize("kind", get_args(m.SetOperationKind))
def test_every_set_operation_of_the_specification_is_read(kind: str) -> None:
    op = f"SET_OP_{kind.upper()}"
    plan, problems = read(plan_of({"set": {"inputs": [table(I32), table(I32)], "op": op}}))
    assert isinstance(plan.root, m.SetRel)
    assert (plan.root.operation, len(plan.root.inputs), problems) == (kind, 2, [])


@pytest.mark.parametrize(("number", "code"), [(0, "FIELD_MISSING"), (9, "VALUE_INVALID")])
def test_a_set_relation_names_its_operation(number: int, code: str) -> None:
    plan, problems = read(plan_of({"set": {"inputs": [table(I32)], "op": number}}))
    assert isinstance(plan.root, m.Unsupported)
    assert [c for c, _ in codes(problems)] == [code]


# --- reads ---------------------------------------------------------------------------------------


def read_of(**fields: Any) -> tuple[m.ReadRel, list[Any]]:
    relation = table(I32, BOOL)
    relation["read"].update(fields)
    plan, problems = read(plan_of(relation))
    assert isinstance(plan.root, m.ReadRel)
    return plan.root, problems


def without_table(**fields: Any) -> tuple[m.ReadRel, list[Any]]:
    relation = table(I32)
    del relation["read"]["named_table"]
    relation["read"].update(fields)
    plan, problems = read(plan_of(relation))
    assert isinstance(plan.root, m.ReadRel)
    return plan.root, problems


def test_filter_and_projection() -> None:
    mask = {"select": {"struct_items": [{"field": 1}, {}]}, "maintain_singular_struct": True}
    found, problems = read_of(filter=column(1), projection=mask)
    assert (found.table, found.names, found.projection) == (("t",), ("c0", "c1"), (1, 0))
    assert found.filter == m.FieldRef((1,), f"{ROOT}.read.filter")
    assert codes(problems) == [("MASK_REORDERS", f"{ROOT}.read.projection")]
    assert read_of()[0].projection is None


def test_a_mask_inside_a_column_is_refused() -> None:
    mask = {"select": {"struct_items": [{"field": 1, "child": {"struct": {}}}]}}
    path = f"{ROOT}.read.projection.select.struct_items[0].child"
    assert codes(read_of(projection=mask)[1]) == [("EXPRESSION_NOT_SUPPORTED", path)]


def test_a_best_effort_filter_is_left_and_said_so() -> None:
    found, problems = read_of(best_effort_filter=column(1))
    assert found.filter is None
    assert [(p.code, p.level) for p in problems] == [("BEST_EFFORT_FILTER", "info")]


def test_rows_of_both_encodings() -> None:
    struct = {"fields": [{"i32": 1}]}
    nested = {"fields": [{"literal": {"i32": 1}}]}
    old, in_old = without_table(virtual_table={"values": [struct, struct]})
    new, in_new = without_table(virtual_table={"expressions": [nested, nested]})
    both, in_both = without_table(
        virtual_table={"values": [struct, struct], "expressions": [nested, nested]}
    )
    for found in (old, new, both):
        assert found.rows is not None
        assert [
            [cell.value for cell in row if isinstance(cell, m.Literal)] for row in found.rows
        ] == [[1], [1]]
    assert (in_old, in_new, in_both) == ([], [], [])
    _, found_problems = without_table(
        virtual_table={"values": [struct], "expressions": [nested, nested]}
    )
    assert [p.code for p in found_problems] == ["FIELD_CONFLICT"]
    assert without_table(virtual_table={})[0].rows == ()


def test_local_files_are_named() -> None:
    items = [{"uri_file": "file:///a", "parquet": {}}, {"uri_folder": "file:///b", "parquet": {}}]
    found, problems = without_table(local_files={"items": items})
    assert [file.path for file in found.files] == ["/a", "/b"]
    assert [file.format for file in found.files] == ["parquet", "parquet"]
    assert (found.table, problems) == (("/",), [])
    part = [{"uri_file": "file:///a", "start": 5, "length": 9}]
    _, problems = without_table(local_files={"items": part})
    assert [p.code for p in problems] == ["FIELD_NOT_SUPPORTED"] * 2


@pytest.mark.parametrize("kind", ["extension_table", "iceberg_table"])
def test_other_tables_are_refused(kind: str) -> None:
    plan, problems = read(plan_of({"read": {kind: {}}}))
    assert isinstance(plan.root, m.Unsupported)
    assert codes(problems) == [("RELATION_NOT_SUPPORTED", f"{ROOT}.read.{kind}")]


def test_names_are_depth_first() -> None:
    inner = {"struct": {"types": [I32, I32], "nullability": 1}}
    listed = {"list": {"type": inner, "nullability": 1}}
    found, problems = read(plan_of(table(inner, I32, listed, names=list("abcdefgh")[:7])))
    assert isinstance(found.root, m.ReadRel)
    assert (found.root.names, problems) == (("a", "d", "e"), [])
    for names, code in ((["x", "y", "z"], "NAMES_TOP_LEVEL"), (["x"], "NAMES_COUNT")):
        _, problems = read(plan_of(table(inner, I32, listed, names=names)))
        assert [p.code for p in problems] == [code]


# --- roots and shared relations ------------------------------------------------------------------


def reference(ordinal: int) -> Json:
    return {"reference": {"subtree_ordinal": ordinal}}


def union(*inputs: Json) -> Json:
    return {"set": {"op": 6, "inputs": list(inputs)}}


def entries(*relations: Json, root: Json | None = None) -> Json:
    """A plan of bare relations, with a root behind them."""
    written: list[Json] = [{"rel": relation} for relation in relations]
    if root is not None:
        written.append({"root": {"input": root, "names": ["a"]}})
    return {"version": {"minor_number": 80}, "relations": written}


def test_a_bare_relation_has_no_names() -> None:
    plan, problems = read(entries(table(I32)))
    assert (plan.names, plan.root.path, problems) == (None, "relations[0].rel.read", [])


def test_shared_relations_are_put_in_place() -> None:
    plan, problems = read(entries(table(I32), project(), root=union(reference(0), reference(0))))
    assert isinstance(plan.root, m.SetRel)
    assert [i.path for i in plan.root.inputs] == ["relations[0].rel.read"] * 2
    assert [p.code for p in problems] == ["RELATION_UNUSED"]


def test_a_reference_may_come_before_what_it_refers_to() -> None:
    plan, _ = read(entries(union(reference(1)), table(I32), root=reference(0)))
    assert isinstance(plan.root, m.SetRel)
    assert plan.root.inputs[0].path == "relations[1].rel.read"


def test_references_to_nothing_and_to_themselves_are_reported() -> None:
    plan, problems = read(entries(union(reference(1)), union(reference(0)), root=reference(0)))
    assert [p.code for p in problems] == ["REFERENCE_CYCLE"]
    plan, problems = read(entries(root=union(reference(7), reference(-1))))
    assert [p.code for p in problems] == ["REFERENCE_INVALID"] * 2
    assert isinstance(plan.root, m.SetRel)
    assert all(isinstance(i, m.Unsupported) for i in plan.root.inputs)


def test_one_root_is_read_at_a_time() -> None:
    plan = entries(table(I32), root=union(reference(0)))
    plan["relations"].append({"root": {"input": reference(0), "names": ["b"]}})
    both, problems = read(plan)
    assert both.roots == ("relations[1]", "relations[2]")
    assert [p.code for p in problems] == ["ROOT_COUNT"]
    second, problems = read(plan, root="relations[2]")
    assert (second.names, second.place, second.others) == (("b",), "relations[2]", ())
    assert not problems


def test_relations_without_a_root() -> None:
    assert [p.code for p in read(entries(table(I32), table(I32)))[1]] == ["ROOT_COUNT"]
    assert read(entries(table(I32), union(reference(0))))[1] == []


def test_relations_that_the_root_does_not_read_are_reported() -> None:
    plan, problems = read(entries(table(I32), table(I32), root=union(reference(0))))
    assert (plan.place, plan.names, len(plan.others)) == ("relations[2]", ("a",), 1)
    assert [(p.code, p.level, p.path) for p in problems] == [
        ("RELATION_UNUSED", "info", "relations[1]")
    ]


def test_the_only_root_is_the_view_also_if_a_relation_refers_to_it() -> None:
    plan = entries(root=table(I32))
    plan["relations"].append({"rel": union(reference(0))})
    decoded, problems = read(plan)
    assert (decoded.place, decoded.names) == ("relations[0]", ("a",))
    assert [(p.code, p.path) for p in problems] == [("RELATION_UNUSED", "relations[1]")]


def test_detached_subtrees_are_put_in_place() -> None:
    """Releases 0.105 to 0.108 allow subtrees of an entry to be written apart."""
    entry: Json = {
        "root": {"input": {"detached_rel_ordinal": 0}, "names": ["a"]},
        "detached_rels": [project({"detached_expression_ordinal": 1})],
        "detached_expressions": [
            column(1),
            {"cast": {"type": I32, "input": {"detached_expression_ordinal": 0}}},
        ],
    }
    plan, problems = read({"version": {"minor_number": 106}, "relations": [entry]})
    assert problems == []
    assert isinstance(plan.root, m.ProjectRel)
    assert isinstance(plan.root.expressions[0], m.Cast)
    assert isinstance(plan.root.expressions[0].input, m.FieldRef)
    assert plan.root.expressions[0].input.path == "relations[0].detached_expressions[0]"


def test_a_root_may_be_referred_to() -> None:
    """A relation root may be referenced; its names are then ignored, as the specification says."""
    plan = entries(root=table(I32))
    plan["relations"].append({"root": {"input": union(reference(0)), "names": ["b"]}})
    decoded, problems = read(plan)
    assert isinstance(decoded.root, m.SetRel)
    assert (decoded.names, decoded.root.inputs[0].path) == (("b",), "relations[0].root.input.read")
    assert problems == []
