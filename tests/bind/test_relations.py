"""Relations: schemas, output mappings, orders, groupings, names, identity."""

from __future__ import annotations

from dataclasses import replace

import pytest

from substrait_agg.bind.bound import BoundProject, BoundRead, BoundRows, SortKey
from substrait_agg.bind.rewrite import selected_columns
from substrait_agg.plan.model import (
    Expression,
    FieldRef,
    FilterRel,
    FunctionName,
    ProjectRel,
    ScalarCall,
    SetRel,
)
from substrait_agg.plan.types import BOOL, FP64, I8, I64, Type, decimal
from substrait_agg.problem_kinds import MODES, Mode
from tests.bind.build import (
    COLUMNS,
    ORDINALS,
    ROOT,
    aggregate,
    at,
    bound,
    call,
    codes_of,
    col,
    errors_of,
    lit,
    measure,
    plan,
    problems_of,
    read,
    sort,
)

COUNT = measure("count", output=I64.as_nullable(False))
BY_NAME = aggregate(read(), (col("name"),), (COUNT,))


def test_masks_and_output_mappings_are_resolved() -> None:
    source = read(projection=(4, 0, 5), emit=(2, 0))
    made = bound(source, "x", "must")
    assert [str(t) for t in made.root.types] == ["fp64?", "i64"]


def test_a_project_without_mapping_keeps_the_inputs_columns() -> None:
    given = ProjectRel(read(), (col("x"),), None, ROOT)
    assert len(bound(given, *COLUMNS, "again").root.types) == len(COLUMNS) + 1


@pytest.mark.parametrize(("mode", "level"), [("lenient", "info"), ("strict", "error")])
def test_a_project_without_expressions_passes_columns_on(mode: Mode, level: str) -> None:
    given = ProjectRel(read(), (), (3, 0), ROOT)
    found = problems_of(given, "a", "b", mode=mode)
    assert [(p.code, p.level) for p in found] == [("PROJECT_EXPRESSIONS_MISSING", level)]
    assert [str(t) for t in bound(given, "a", "b").root.types] == ["i64?", "string?"]


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        (at(len(COLUMNS)), "FIELD_OUT_OF_RANGE"),
        (call("gt", at(len(COLUMNS)), lit(1, I64)), "FIELD_OUT_OF_RANGE"),
        (FieldRef((ORDINALS["big"], 2), ROOT), "NESTED_STEP_INVALID"),
        (col("big"), "FILTER_NOT_BOOLEAN"),
        (ScalarCall(FunctionName("", None, None, "anchor 9", known=False), (), (), BOOL, ROOT),
         "FUNCTION_UNDECLARED"),
    ],
)  # fmt: skip
def test_references_of_a_best_effort_filter_exist(condition: Expression, code: str) -> None:
    """It is not applied, but columns that are numbered wrong there are numbered wrong elsewhere too."""
    given = read(best_effort_filter=condition, projection=(3,))
    for mode in MODES:
        assert [(p.code, p.level) for p in problems_of(given, "a", mode=mode)] == [(code, "error")]


@pytest.mark.parametrize(
    "condition",
    [
        call("gt", col("x"), lit(1.0, FP64)),
        # What cannot be computed need not be: the filter may be left out.
        call("frobnicate", col("x")),
        call("gt", col("x"), col("name")),
    ],
)
def test_a_best_effort_filter_need_not_be_computed(condition: Expression) -> None:
    given = read(best_effort_filter=condition, projection=(3,))
    for mode in MODES:
        assert problems_of(given, "a", mode=mode) == []


@pytest.mark.parametrize(
    ("root", "code"),
    [
        (read(projection=(99,)), "EMIT_OUT_OF_RANGE"),
        (read(emit=(99,)), "EMIT_OUT_OF_RANGE"),
        (ProjectRel(read(), (), (99,), ROOT), "EMIT_OUT_OF_RANGE"),
        (FilterRel(read(), col("big"), None, ROOT), "FILTER_NOT_BOOLEAN"),
        (read(filter=col("big")), "FILTER_NOT_BOOLEAN"),
        (read(names=("a",)), "NAMES_COUNT"),
        (SetRel((read(), read({"a": I64})), None, ROOT), "UNION_TYPES_DIFFER"),
        (aggregate(read(), (), (), ()), "AGGREGATE_EMPTY"),
        (aggregate(read(), (), (), ((),)), "AGGREGATE_EMPTY"),
        (aggregate(read(), (col("x"), col("big")), (), ((1,),)), "GROUPING_EXPRESSION_UNUSED"),
        (aggregate(read(), (col("x"),), (COUNT,), ()), "GROUPING_EXPRESSION_UNUSED"),
        (aggregate(read(), (col("x"),), (), ((0, 1),)), "GROUPING_REFERENCE_OUT_OF_RANGE"),
    ],
)
def test_relations_that_are_refused(root: object, code: str) -> None:
    assert code in [c for c, _ in errors_of(root, "a")]  # type: ignore[arg-type]


def test_columns_without_a_total_order_are_refused() -> None:
    """A compound interval is part of an expression only: a month is no number of days."""
    compound = Type("interval_compound", params=(6,))
    inside = Type("list", children=(compound,))
    source = read({"k": compound, "l": inside})
    for ordinal in (0, 1):
        assert errors_of(aggregate(source, (at(ordinal),), (COUNT,)), "a", "b") == [
            ("TYPE_NOT_SUPPORTED", at(ordinal).path)
        ]
    assert [c for c, _ in errors_of(source, "a", "b")] == ["OUTPUT_TYPE_NOT_KEPT"] * 2
    literal = lit((1, 2, 3), compound)
    assert "KEY_TYPE_NOT_SUPPORTED" in codes_of(aggregate(read(), (literal,), (COUNT,)), "a", "b")


def test_grouping_columns_come_in_declaration_order() -> None:
    root = aggregate(read(), (col("name"), col("big")), (COUNT,), ((1, 0),))
    assert [str(t) for t in bound(root, *"abc").root.types] == ["string?", "i64?", "i64"]


@pytest.mark.parametrize("groupings", [(), ((),)])
def test_no_grouping_set_and_the_empty_one_are_global(
    groupings: tuple[tuple[int, ...], ...],
) -> None:
    assert len(bound(aggregate(read(), (), (COUNT,), groupings), "n").root.types) == 1


def test_distinct_rows_need_no_measures() -> None:
    assert [str(t) for t in bound(aggregate(read(), (col("x"),)), "x").root.types] == ["fp64?"]


def test_constant_rows_get_the_types_of_their_schema() -> None:
    rows = ((lit(1, I8), lit(250, decimal(3, 2))), (lit(None, I8), lit(None, decimal(3, 2))))
    made = bound(read({"a": I64, "b": decimal(10, 4)}, rows=rows, table=()), "a", "b").root
    assert isinstance(made, BoundRows)
    assert [[getattr(v, "value", v) for v in row] for row in made.rows] == [
        [1, 25000],
        [None, None],
    ]
    assert made.rows[0][0].type.kind == "i64"


def test_rows_that_do_not_fit_are_refused() -> None:
    rows = ((lit(1, I64),), (call("add", lit(1, I64), lit(1, I64), output=I64), lit(1, I64)))
    found = errors_of(read({"a": I64, "b": I64}, rows=rows, table=()), "a", "b")
    assert [c for c, _ in found] == ["ROW_WIDTH", "ROW_NOT_CONSTANT"]


# --- orders ------------------------------------------------------------------------------------


def test_the_order_of_the_root_is_the_order_of_the_view() -> None:
    root = sort(BY_NAME, (at(1), "desc_nulls_first"), (at(0), "asc_nulls_last"))
    assert bound(root, "k", "n").sorts == (SortKey(1, True, True), SortKey(0, False, False))


def test_the_order_is_followed_through_projects() -> None:
    ordered = sort(BY_NAME, (at(1), "asc_nulls_first"))
    root = ProjectRel(ordered, (at(1), at(0)), (2, 3), ROOT)
    assert bound(root, "n", "k").sorts == (SortKey(0, False, True),)


def test_an_order_by_a_dropped_column_is_kept_by_a_hidden_column() -> None:
    root = ProjectRel(sort(BY_NAME, (at(1), "asc_nulls_first")), (at(0),), (2,), ROOT)
    made = bound(root, "k")
    assert (made.names, made.sorts) == (("k",), (SortKey(1, False, True),))
    assert selected_columns(made.root) == (bound(BY_NAME, "k", "n").root, (0, 1))


def test_a_dropped_column_is_hidden_through_several_projects() -> None:
    ordered = sort(BY_NAME, (at(1), "asc_nulls_first"), (at(0), "desc_nulls_last"))
    twice = ProjectRel(ProjectRel(ordered, (at(0),), (2, 0), ROOT), (), (0,), ROOT)
    made = bound(twice, "k")
    assert made.sorts == (SortKey(1, False, True), SortKey(0, True, False))
    assert selected_columns(made.root) == (bound(BY_NAME, "k", "n").root, (0, 1))


def test_an_order_that_is_lost_below_a_filter_is_refused() -> None:
    left_out = ProjectRel(sort(BY_NAME, (at(1), "asc_nulls_first")), (at(0),), (2,), ROOT)
    root = FilterRel(left_out, call("equal", at(0), at(0), output=BOOL), None, ROOT)
    assert errors_of(root, "k") == [("SORT_KEY_NOT_IN_OUTPUT", f"{ROOT}.sort.sorts[0]")]


def test_a_sort_without_a_direction_is_refused() -> None:
    found = errors_of(sort(BY_NAME, (at(0), "unspecified")), "k", "n")
    assert found == [("SORT_DIRECTION_MISSING", f"{ROOT}.sort.sorts[0].direction")]


def test_a_clustered_sort_is_ascending_because_any_order_by_the_key_will_do() -> None:
    assert bound(sort(BY_NAME, (at(0), "clustered")), "k", "n").sorts == (SortKey(0, False, True),)


def test_an_order_by_an_expression_is_kept_by_a_hidden_column() -> None:
    key = call("negate", at(1), output=I64)
    made = bound(sort(BY_NAME, (at(0), "asc_nulls_last"), (key, "desc_nulls_last")), "k", "n")
    assert made.sorts == (SortKey(0, False, False), SortKey(2, True, False))
    assert (made.names, len(made.types), len(made.root.types)) == (("k", "n"), 2, 3)


def test_a_constant_sort_key_changes_nothing() -> None:
    made = bound(
        sort(BY_NAME, (lit(1, I64), "asc_nulls_last"), (at(1), "asc_nulls_last")), "k", "n"
    )
    assert (made.sorts, len(made.root.types)) == ((SortKey(1, False, False),), 2)


def test_a_sort_below_an_aggregate_changes_nothing_and_says_so() -> None:
    source = sort(read(), (col("x"), "clustered"))
    found = problems_of(aggregate(source, (col("name"),)), "k")
    assert [(p.code, p.level, p.path) for p in found] == [
        ("SORT_NO_EFFECT", "info", f"{ROOT}.sort")
    ]


# --- names and identity ------------------------------------------------------------------------


@pytest.mark.parametrize("names", [("k",), ("k", "n", "x"), ()])
def test_the_number_of_names_has_to_match(names: tuple[str, ...]) -> None:
    assert errors_of(BY_NAME, *names) == [("NAMES_COUNT", "relations[0].root.names")]


def test_a_bare_relation_gets_names_and_a_warning() -> None:
    from substrait_agg.bind import bind
    from substrait_agg.problems import Problems

    problems = Problems()
    made = bind(replace(plan(BY_NAME), names=None), problems)
    assert made is not None
    assert made.names == ("c0", "c1")
    assert ("ROOT_NAMES_MISSING", "warning") in [(p.code, p.level) for p in problems.items]


def test_problems_come_in_the_order_of_the_data() -> None:
    low = FilterRel(read(), call("gt", col("name"), lit(1, I64)), None, f"{ROOT}.low")
    root = aggregate(low, (at(99),), (measure("regr_slope", col("x")), measure("sum", col("name"))))
    assert [c for c, _ in errors_of(root, *"abc")] == [
        "FUNCTION_ARGUMENTS", "FIELD_OUT_OF_RANGE", "AGGREGATE_FUNCTION_NOT_SUPPORTED",
        "FUNCTION_ARGUMENTS",
    ]  # fmt: skip


def test_the_fingerprint_tells_plans_apart_by_what_they_compute() -> None:
    def mark(value: int) -> str:
        kept = FilterRel(read(), call("gt", col("big"), lit(value, I64)), None, f"{ROOT}.{value}")
        return bound(aggregate(kept, (col("name"),), (COUNT,)), "k", "n").fingerprint

    assert mark(1) == mark(1)
    assert mark(1) != mark(2)
    moved = replace(BY_NAME, path="elsewhere")
    assert bound(BY_NAME, "k", "n").fingerprint == bound(moved, "k", "n").fingerprint
    assert bound(BY_NAME, "k", "n").fingerprint != bound(BY_NAME, "k", "m").fingerprint


def test_shared_relations_are_bound_once() -> None:
    """A subtree that several relations share by reference is bound once, and each of its aggregates
    is one operator.
    """
    made = bound(SetRel((BY_NAME, BY_NAME), None, ROOT), "k", "n").root
    first, second = made.inputs  # type: ignore[union-attr]
    assert first is second


def test_plans_nested_deeper_than_pythons_recursion_limit_bind() -> None:
    """Producers write IN lists as chains of OR, hundreds deep."""
    condition = call("equal", col("big"), lit(0, I64))
    for value in range(1500):
        condition = call("or", condition, call("equal", col("big"), lit(value, I64)))
    source: FilterRel | ProjectRel = FilterRel(read(), condition, None, ROOT)
    for _ in range(700):
        source = ProjectRel(source, (), tuple(range(len(COLUMNS))), ROOT)
    made = bound(aggregate(source, (col("name"),)), "k")
    assert made.root.types[0].kind == "string"


def test_a_plain_read_keeps_its_names() -> None:
    made = bound(read(), *COLUMNS).root
    assert isinstance(made, BoundRead)
    assert made.names == tuple(ORDINALS)


def test_a_filter_below_a_mask_sees_all_columns() -> None:
    made = bound(read(filter=col("flag"), projection=(0,)), "name").root
    assert isinstance(made, BoundProject)
    assert made.types[0].kind == "string"
