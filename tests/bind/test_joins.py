"""Joins: output columns, keys, conditions and refused forms."""

from __future__ import annotations

from typing import Any

import pytest

from substrait_agg.bind.bound import (
    BoundFilter,
    BoundJoin,
    BoundProject,
    BoundRead,
    Call,
    Column,
    Conversion,
    Expr,
)
from substrait_agg.problem_kinds import MODES, Mode
from tests.bind.joined import (
    I32,
    I64,
    MUST,
    ROOT,
    TEXT,
    Json,
    at,
    bound,
    by,
    call,
    emit,
    equal,
    filtered,
    found,
    join,
    key,
    keyed,
    lit,
    of,
    plan,
    read,
    reference,
    row,
    sort,
)

LEFT, RIGHT = read("a", MUST, TEXT), read("b", MUST, I32, TEXT)
ON = equal(0, 2, of("bool", nullable=False))


def types(relation: Any) -> list[str]:
    return [str(t) for t in relation.types]


def the_join(root: Any) -> BoundJoin:
    while not isinstance(root, BoundJoin):
        root = root.input
    return root


COLUMNS = {
    "INNER": "i64 string? i64 i32? string?",
    "LEFT": "i64 string? i64? i32? string?",
    "RIGHT": "i64? string? i64 i32? string?",
    "OUTER": "i64? string? i64? i32? string?",
    "LEFT_SINGLE": "i64 string? i64? i32? string?",
    "RIGHT_SINGLE": "i64? string? i64 i32? string?",
    "LEFT_SEMI": "i64 string?",
    "LEFT_ANTI": "i64 string?",
    "RIGHT_SEMI": "i64 i32? string?",
    "RIGHT_ANTI": "i64 i32? string?",
    "LEFT_MARK": "i64 string? bool?",
    "RIGHT_MARK": "i64 i32? string? bool?",
}
"""Type of a join -> its columns (specification, Join Types)."""

FORMS = ("join", "hashJoin", "mergeJoin", "nestedLoopJoin")


def of_form(form: str, type_: str) -> Json:
    if form in ("hashJoin", "mergeJoin"):
        return keyed(form, type_, LEFT, RIGHT, key(0, 0))
    body = {"left": LEFT, "right": RIGHT, "type": f"JOIN_TYPE_{type_}", "expression": ON}
    return {form: body}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("type_", COLUMNS)
def test_a_join_has_the_columns_of_its_type(form: str, type_: str) -> None:
    """In every message: the physical joins number their types in another order."""
    expected = COLUMNS[type_].split()
    root = bound(plan(of_form(form, type_), len(expected))).root
    assert types(root) == expected
    swapped = type_.startswith("RIGHT")
    made = the_join(root)
    kind = type_.lower().split("_")[-1]
    assert made.kind == {"outer": "full", "right": "left"}.get(kind, kind)
    tables = [side.table for side in (made.left, made.right) if isinstance(side, BoundRead)]
    assert tables == ([("b",), ("a",)] if swapped else [("a",), ("b",)])
    assert [(k.left, k.right, k.null_safe) for k in made.keys] == [
        (Column(made.left.types[0], 0), Column(made.right.types[0], 0), False)
    ]
    assert made.residual is None


def test_the_columns_of_a_right_join_are_in_the_order_of_the_plan() -> None:
    root = bound(plan(join("RIGHT", LEFT, RIGHT, ON), 5)).root
    assert isinstance(root, BoundProject)
    assert [e.ordinal for e in root.expressions if isinstance(e, Column)] == [3, 4, 0, 1, 2]
    assert types(root) == COLUMNS["RIGHT"].split()


def test_a_residual_of_a_swapped_join_reads_the_same_columns() -> None:
    more = call("and", ON, call("gt", at(2), at(0)))
    left, right = (
        the_join(bound(plan(join("LEFT", LEFT, RIGHT, more), 5)).root),
        the_join(bound(plan(join("RIGHT", LEFT, RIGHT, more), 5)).root),
    )

    def read_by(condition: Expr | None) -> list[int]:
        assert isinstance(condition, Call)
        return [a.ordinal for a in condition.arguments if isinstance(a, Column)]

    assert read_by(left.residual) == [2, 0]
    assert read_by(right.residual) == [0, 3]


def test_a_condition_is_split_into_keys_and_the_residual() -> None:
    """Equalities between both inputs become keys, in either order and at any depth of nested ANDs."""
    condition = call(
        "and",
        call("and", equal(3, 0), call("is_not_distinct_from", at(1), at(4))),
        call("gt", at(0), at(2)),
        equal(0, 2),
        call("equal", at(0), lit("7")),
        call("equal", at(0), call("add", at(0), at(2), output=I64)),
    )
    made = the_join(bound(plan(join("INNER", LEFT, RIGHT, condition), 5)).root)
    assert [k.null_safe for k in made.keys] == [False, True, False]
    assert [k.left.type.kind for k in made.keys] == [k.right.type.kind for k in made.keys]
    first = made.keys[0]
    assert (first.left, first.right) == (
        Column(made.left.types[0], 0),
        Conversion(made.left.types[0].as_nullable(), Column(made.right.types[1], 1)),
    )
    assert isinstance(made.residual, Call)
    assert [p.function for p in made.residual.arguments if isinstance(p, Call)] == [
        "gt",
        "equal",
        "equal",
    ]


def test_a_repeated_key_counts_once() -> None:
    condition = call("and", ON, equal(2, 0), ON)
    made = the_join(bound(plan(join("INNER", LEFT, RIGHT, condition), 5)).root)
    assert len(made.keys) == 1
    assert made.residual is None


DECIMALS = (of("decimal", precision=10, scale=2), of("decimal", precision=12, scale=4))


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        (I32, I64, "i64"),
        (*DECIMALS, "decimal<12,4>"),
        (I64, DECIMALS[0], "decimal<21,2>"),
        (of("varchar", length=5), TEXT, "string"),
        (of("fixedChar", length=5), of("varchar", length=9), "string"),
        (of("date"), of("precisionTimestamp", precision=6), "precision_timestamp<6>"),
        (of("fp32"), of("fp64"), "fp64"),
        (TEXT, TEXT, "string"),
    ],
)
@pytest.mark.parametrize("form", ["join", "hashJoin"])
def test_both_sides_of_a_key_have_one_type(form: str, left: Json, right: Json, common: str) -> None:
    a, b = read("a", left), read("b", right)
    made = (
        keyed(form, "INNER", a, b, key(0, 0))
        if form == "hashJoin"
        else join("INNER", a, b, equal(0, 1))
    )
    (found_key,) = the_join(bound(plan(made, 2)).root).keys
    assert {str(side.type.as_nullable(False)) for side in (found_key.left, found_key.right)} == {
        common
    }


@pytest.mark.parametrize(("left", "right"), [(I64, TEXT), (TEXT, of("date")), (of("bool"), I64)])
def test_keys_that_cannot_be_compared_are_refused(left: Json, right: Json) -> None:
    a, b = read("a", left), read("b", right)
    given = plan(keyed("mergeJoin", "INNER", a, b, key(0, 0)), 2)
    errors = [item for item in found(given) if item[0] == "error"]
    assert errors == [("error", "JOIN_KEY_TYPES", f"{ROOT}.merge_join.keys[0]")]


def test_comparisons_of_physical_keys() -> None:
    keys = (key(0, 0), key(0, 0, "IS_NOT_DISTINCT_FROM"))
    made = the_join(bound(plan(keyed("hashJoin", "INNER", LEFT, RIGHT, *keys), 5)).root)
    assert [k.null_safe for k in made.keys] == [False, True]
    wrong = (key(0, 0, "UNSPECIFIED"), key(0, 0, "MIGHT_EQUAL"), key(0, 0, 3))
    place = f"{ROOT}.hash_join.keys"
    assert found(plan(keyed("hashJoin", "INNER", LEFT, RIGHT, *wrong), 5)) == [
        ("error", "JOIN_COMPARISON_MISSING", f"{place}[0].comparison.simple"),
        ("error", "JOIN_COMPARISON_NOT_SUPPORTED", f"{place}[1].comparison.simple"),
        (
            "error",
            "JOIN_COMPARISON_NOT_SUPPORTED",
            f"{place}[2].comparison.custom_function_reference",
        ),
    ]


def test_the_residual_of_a_hash_join_belongs_to_its_condition() -> None:
    more = call("gt", at(0), at(2))
    made = keyed(
        "hashJoin", "LEFT", LEFT, RIGHT, key(0, 0), residualExpression=more, postJoinFilter=more
    )
    root = bound(plan(made, 5)).root
    assert isinstance(root, BoundFilter)
    inner = the_join(root)
    assert isinstance(inner.residual, Call)
    assert [a.type.nullable for a in inner.residual.arguments] == [False, False]
    assert isinstance(root.condition, Call)
    assert [a.type.nullable for a in root.condition.arguments] == [False, True]


def test_a_filter_after_the_join_sees_result_rows() -> None:
    """Columns of a semi join are those of one side, so others are out of range."""
    beyond = join("LEFT_SEMI", LEFT, RIGHT, ON, postJoinFilter=call("gt", at(2), lit("1")))
    place = f"{ROOT}.join.post_join_filter.scalar_function.arguments[0].value"
    assert [item for item in found(plan(beyond, 2)) if item[0] == "error"] == [
        ("error", "FIELD_OUT_OF_RANGE", place)
    ]


@pytest.mark.parametrize(("type_", "refused"), [("INNER", False), ("LEFT", True), ("OUTER", True)])
def test_a_filter_of_an_old_outer_join_is_unclear(type_: str, refused: bool) -> None:
    made = join(type_, LEFT, RIGHT, ON, postJoinFilter=call("gt", at(0), lit("1")))
    expected = [("error", "JOIN_FILTER_UNCLEAR", f"{ROOT}.join.post_join_filter")]
    for minor in (90, 91):
        given = plan(made, 5, minor=minor)
        errors = [item for item in found(given) if item[0] == "error"]
        assert errors == (expected if refused and minor < 91 else [])


def test_output_mappings_apply_after_the_join() -> None:
    for type_, mapping, expected in (
        ("INNER", (4, 0), ["string?", "i64"]),
        ("RIGHT", (2, 1), ["i64", "string?"]),
        ("LEFT_ANTI", (1,), ["string?"]),
    ):
        root = bound(plan(join(type_, LEFT, RIGHT, ON, **emit(*mapping)), len(mapping))).root
        assert types(root) == expected


def test_a_cross_product_with_one_row_is_an_inner_join_without_keys() -> None:
    made = the_join(bound(plan({"cross": {"left": LEFT, "right": row(7)}}, 3)).root)
    assert (made.kind, made.keys, made.residual, types(made)) == (
        "inner",
        (),
        None,
        ["i64", "string?", "i64"],
    )
    nested = {"left": LEFT, "right": row(7), "type": "JOIN_TYPE_INNER"}
    made = the_join(bound(plan({"nestedLoopJoin": nested}, 3)).root)
    assert (made.kind, made.keys, made.residual) == ("inner", (), None)


@pytest.mark.parametrize(("mode", "level"), [("lenient", "info"), ("strict", "error")])
def test_a_join_without_condition_matches_every_two_rows(mode: Mode, level: str) -> None:
    given = plan(join("INNER", LEFT, row(7), None), 3)
    assert (level, "JOIN_CONDITION_MISSING", f"{ROOT}.join") in found(given, mode)
    written = plan(join("INNER", LEFT, row(7), lit(True, "boolean")), 3)
    assert "JOIN_CONDITION_MISSING" not in {code for _, code, _ in found(written, mode)}


@pytest.mark.parametrize("mode", MODES)
def test_a_join_without_type_is_refused(mode: Mode) -> None:
    for form in FORMS:
        made = of_form(form, "INNER")
        (body,) = made.values()
        del body["type"]
        name = {"join": "join", "hashJoin": "hash_join", "mergeJoin": "merge_join"}.get(
            form, "nested_loop_join"
        )
        assert ("error", "JOIN_TYPE_MISSING", f"{ROOT}.{name}.type") in found(plan(made, 5), mode)
        body["type"] = 99
        assert ("error", "VALUE_INVALID", f"{ROOT}.{name}.type") in found(plan(made, 5), mode)


def test_a_condition_that_is_never_true_is_reported() -> None:
    made = plan(
        join("LEFT", LEFT, RIGHT, call("and", ON, ON, output=of("bool", nullable=False))), 5
    )
    assert found(made) == []
    never = plan(join("LEFT", LEFT, row(1), lit(False, "boolean")), 3)
    assert ("warning", "FILTER_CONSTANT", f"{ROOT}.join.expression.literal") in found(never)


# --- nulls -------------------------------------------------------------------------------------

MAYBE = read("a", I64, TEXT)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("type_", ["LEFT_ANTI", "RIGHT_ANTI"])
def test_an_anti_join_of_datafusion_over_nullable_keys_is_refused(type_: str, mode: Mode) -> None:
    """It is written for NOT IN and for NOT EXISTS, which differ where a key is null."""
    width = 2 if type_ == "LEFT_ANTI" else 3
    for left, right in ((MAYBE, RIGHT), (LEFT, read("b", I64, I32, TEXT))):
        given = plan(join(type_, left, right, equal(0, 2)), width, producer="datafusion")
        errors = [item for item in found(given, mode) if item[0] == "error"]
        assert errors == [("error", "JOIN_NOT_IN_UNCLEAR", f"{ROOT}.join")]
        assert not [
            i
            for i in found(plan(join(type_, left, right, equal(0, 2)), width), mode)
            if i[0] == "error"
        ]


def test_an_anti_join_of_datafusion_over_required_keys_is_clear() -> None:
    given = plan(join("LEFT_ANTI", LEFT, RIGHT, ON), 2, producer="datafusion")
    assert found(given) == [("warning", "JOIN_NOT_IN_SAME", f"{ROOT}.join")]
    safe = call("is_not_distinct_from", at(0), at(3), output=of("bool", nullable=False))
    problems = found(plan(join("LEFT_ANTI", LEFT, RIGHT, safe), 2, producer="datafusion"))
    assert [code for _, code, _ in problems] == ["ARGUMENTS_PROMOTED"]


MAYBE_TWO = read("b", I64, I64)
BOTH_NULLABLE = call("and", equal(0, 2), equal(1, 3))


@pytest.mark.parametrize(
    ("right", "condition", "compares_all"),
    [
        (RIGHT, ON, False),
        (RIGHT, equal(0, 3), False),
        (RIGHT, call("and", ON, call("gt", at(3), lit("1", "i32"))), False),
        (MAYBE_TWO, equal(0, 2), False),
        (MAYBE_TWO, BOTH_NULLABLE, False),
        (MAYBE_TWO, call("and", equal(0, 2), call("gt", at(1), at(3))), False),
        (
            MAYBE_TWO,
            call("and", equal(0, 2), call("gt", at(1), at(3)), call("gt", at(3), at(0))),
            True,
        ),
    ],
)
def test_a_mark_is_computed_where_keys_find_its_nulls(
    right: Json, condition: Json, compares_all: bool
) -> None:
    given = plan(join("LEFT_MARK", read("a", I64, I64), right, condition), 3)
    without_key = [item for item in found(given) if item[1] == "JOIN_WITHOUT_KEY"]
    assert without_key == [("warning", "JOIN_WITHOUT_KEY", f"{ROOT}.join")] * compares_all


@pytest.mark.parametrize("mode", MODES)
def test_a_mark_join_of_datafusion_over_nullable_keys_is_refused(mode: Mode) -> None:
    """It is written for IN and for EXISTS below an OR or a NOT, and never null there."""
    unclear = plan(join("LEFT_MARK", MAYBE, RIGHT, equal(0, 2)), 3, producer="datafusion")
    errors = [item for item in found(unclear, mode) if item[0] == "error"]
    assert errors == [("error", "JOIN_NOT_IN_UNCLEAR", f"{ROOT}.join")]
    assert not found(plan(join("LEFT_MARK", LEFT, RIGHT, ON), 3, producer="datafusion"), mode)


# --- removed fields ----------------------------------------------------------------------------


def removed(left: tuple[int, ...], right: tuple[int, ...], **more: Any) -> Json:
    sides = {"leftKeys": [reference(o) for o in left], "rightKeys": [reference(o) for o in right]}
    body = {"left": LEFT, "right": RIGHT, "type": "JOIN_TYPE_INNER", **sides, **more}
    return plan({"hashJoin": body}, 5, minor=90)


def test_keys_in_removed_fields_are_compared_with_equal() -> None:
    old, new = (
        removed((0, 1), (0, 2)),
        plan(keyed("hashJoin", "INNER", LEFT, RIGHT, key(0, 0), key(1, 2)), 5),
    )
    assert bound(old).root == bound(new).root
    both = removed((0,), (0,), keys=[key(0, 0)])
    assert found(both) == []
    assert ("error", "FIELD_CONFLICT", f"{ROOT}.hash_join.left_keys") in found(
        removed((1,), (2,), keys=[key(0, 0)])
    )
    assert found(removed((0, 1), (0,))) == [("error", "JOIN_KEYS_COUNT", f"{ROOT}.hash_join")]
    late = removed((0,), (0,))
    late["version"]["minorNumber"] = 98
    assert ("warning", "FIELD_REMOVED", f"{ROOT}.hash_join.left_keys") in found(late)


@pytest.mark.parametrize("form", ["hashJoin", "mergeJoin"])
def test_a_physical_join_without_keys_is_refused(form: str) -> None:
    name = {"hashJoin": "hash_join", "mergeJoin": "merge_join"}[form]
    made = plan(keyed(form, "INNER", LEFT, row(1)), 3)
    assert ("error", "FIELD_MISSING", f"{ROOT}.{name}") in found(made)


# --- around ------------------------------------------------------------------------------------


def test_a_sort_below_a_join_has_no_effect_except_below_a_merge_join() -> None:
    ordered = sort(LEFT, by(at(0)))
    below = [
        code for _, code, _ in found(plan(keyed("hashJoin", "INNER", ordered, RIGHT, key(0, 0)), 5))
    ]
    assert below == ["SORT_NO_EFFECT"]
    merged = [
        code
        for _, code, _ in found(plan(keyed("mergeJoin", "INNER", ordered, RIGHT, key(0, 0)), 5))
    ]
    assert merged == ["MERGE_JOIN_ORDER"]


def test_mistakes_below_a_join_are_found_on_both_sides() -> None:
    left, right = (filtered(side, at(0)) for side in (LEFT, RIGHT))
    place = f"{ROOT}.join"
    assert found(plan(join("INNER", left, right, ON), 5)) == [
        ("error", "FILTER_NOT_BOOLEAN", f"{place}.left.filter.condition"),
        ("error", "FILTER_NOT_BOOLEAN", f"{place}.right.filter.condition"),
    ]


def test_joins_are_told_apart_by_their_fingerprints() -> None:
    """A checkpoint of one join is not continued with another one."""
    plans = [
        plan(join("INNER", LEFT, RIGHT, ON), 5),
        plan(join("LEFT", LEFT, RIGHT, ON), 5),
        plan(join("OUTER", LEFT, RIGHT, ON), 5),
        plan(join("INNER", LEFT, RIGHT, equal(1, 4)), 5),
        plan(join("INNER", LEFT, RIGHT, call("is_not_distinct_from", at(0), at(2))), 5),
        plan(join("INNER", LEFT, RIGHT, call("and", ON, call("gt", at(0), at(2)))), 5),
        plan(join("INNER", read("c", MUST, TEXT), RIGHT, ON), 5),
    ]
    assert len({bound(p).fingerprint for p in plans}) == len(plans)
