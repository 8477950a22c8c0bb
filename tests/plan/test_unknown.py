"""No part of a plan is silently ignored."""

from __future__ import annotations

import pytest
from substrait.proto import Plan

from tests.plan.helpers import (
    I32,
    PLANS,
    aggregate,
    codes,
    column,
    counted,
    length_delimited,
    plan_of,
    project,
    read,
    table,
    unreadable,
)


def test_an_unknown_binary_field_is_reported_with_its_place() -> None:
    content = (PLANS / "tpch/substrait-python/q06.bin").read_bytes()
    plan = Plan.FromString(content)
    read_relation = plan.relations[0].root.input.aggregate.input.filter.input.read
    measure = plan.relations[0].root.input.aggregate.measures[0].measure
    measure.MergeFromString(counted(77, 5))
    read_relation.named_table.MergeFromString(length_delimited(78, b"abc"))
    _, found = read(plan)
    base = "relations[0].root.input.aggregate"
    assert codes(found) == [
        ("UNKNOWN_FIELD", f"{base}.input.filter.input.read.named_table.78"),
        ("UNKNOWN_FIELD", f"{base}.measures[0].measure.77"),
    ]
    assert all(p.level == "error" for p in found)


def test_an_unknown_field_inside_a_refused_relation_is_reported_too() -> None:
    cross = length_delimited(
        1, length_delimited(12, length_delimited(2, length_delimited(1, counted(99, 1))))
    )
    _, found = read(length_delimited(3, cross))
    assert ("UNKNOWN_FIELD", "relations[0].rel.cross.left.read.99") in codes(found)


@pytest.mark.parametrize("wire", [b"\x1d\x00\x00\x00\x00", b"\x18\x01", b"\x1b\x08\x01\x1c"])
def test_a_known_field_in_another_encoding_is_unknown(wire: bytes) -> None:
    """Field 3 of a plan contains messages; as a number or a group it is unknown."""
    plan = Plan()
    plan.relations.add().rel.read.named_table.names.append("t")
    _, found = read(wire + plan.SerializeToString())
    assert ("UNKNOWN_FIELD", "relations") in codes(found)


def test_an_unknown_json_key_is_reported_with_its_place() -> None:
    plan = plan_of(aggregate(measures=[{"measure": {"function_reference": 0, "within": 1}}]))
    _, found = read(plan)
    assert codes(found) == [
        ("UNKNOWN_FIELD", "relations[0].root.input.aggregate.measures[0].measure.within")
    ]


def test_bad_json_values_are_reported_with_their_place() -> None:
    struct = {"types": [{"decimal": {"scale": 10**12, "precision": "x"}}], "nullability": "MAYBE"}
    plan = plan_of({"read": {"base_schema": {"names": 3, "struct": struct}, "named_table": 1}})
    _, found = read(plan)
    base = "relations[0].root.input.read"
    wanted = {
        f"{base}.base_schema.names",
        f"{base}.base_schema.struct.nullability",
        f"{base}.base_schema.struct.types[0].decimal.scale",
        f"{base}.base_schema.struct.types[0].decimal.precision",
        f"{base}.named_table",
    }
    assert wanted <= {path for code, path in codes(found) if code == "VALUE_INVALID"}


def test_a_text_that_is_not_utf8_is_reported() -> None:
    named = length_delimited(7, length_delimited(1, b"\xff\xfe"))
    _, found = read(length_delimited(3, length_delimited(1, length_delimited(1, named))))
    assert ("VALUE_INVALID", "relations[0].rel.read.named_table.names") in codes(found)


def test_two_members_of_one_choice_are_a_conflict() -> None:
    both = {**column(0), "literal": {"i32": 1}}
    _, found = read(plan_of(project(both)))
    assert "FIELD_CONFLICT" in {p.code for p in found}
    literal_then_selection = length_delimited(1, counted(5, 1)) + length_delimited(2, b"")
    content = length_delimited(
        3, length_delimited(1, length_delimited(7, length_delimited(3, literal_then_selection)))
    )
    _, found = read(content)
    assert ("FIELD_CONFLICT", "relations[0].rel.project.expressions[0].selection") in codes(found)


def test_a_message_in_two_pieces_is_merged_as_protobuf_does() -> None:
    """A parser that keeps only the last piece would lose the table's name."""
    named = length_delimited(1, length_delimited(7, length_delimited(1, b"t")))
    masked = length_delimited(
        1, length_delimited(4, length_delimited(1, length_delimited(1, counted(1, 1))))
    )
    plan, _ = read(length_delimited(3, length_delimited(1, named) + length_delimited(1, masked)))
    root = plan.root
    assert (getattr(root, "table", None), getattr(root, "projection", None)) == (("t",), (1,))


def test_problems_come_in_plan_order() -> None:
    left, right = project({"subquery": {}}), project({"multi_or_list": {}})
    plan = plan_of({"set": {"op": "SET_OP_UNION_ALL", "inputs": [left, right, table(I32)], "x": 1}})
    _, found = read(plan)
    assert [p.code for p in found] == ["UNKNOWN_FIELD"] + ["EXPRESSION_NOT_SUPPORTED"] * 2
    assert [".inputs[0]" in p.path for p in found] == [False, True, False]


def test_a_flood_of_problems_ends() -> None:
    content = b"".join(counted(number, 1) for number in range(100, 2000))
    assert unreadable(content).code == "TOO_MANY_PROBLEMS"


def test_extensions_of_a_relation() -> None:
    """An unknown optimization may be ignored, an unknown enhancement may not, as the specification
    says.
    """
    any_value = {"@type": "type.googleapis.com/google.protobuf.Empty", "some": {"thing": 1}}
    relation = table(I32)
    relation["read"]["advanced_extension"] = {"optimization": [any_value]}
    assert read(plan_of(relation))[1] == []
    relation["read"]["advanced_extension"] = {"optimization": any_value}
    old = {**plan_of(relation), "version": {"minorNumber": 49}}
    assert read(old)[1] == [], "it was no list before 0.50"
    new = {**plan_of(relation), "version": {"minorNumber": 50}}
    path = "relations[0].root.input.read.advanced_extension.optimization"
    assert codes(read(new)[1]) == [("VALUE_INVALID", path)]
    relation["read"]["advanced_extension"] = {"enhancement": any_value}
    _, found = read(plan_of(relation))
    path = "relations[0].root.input.read.advanced_extension.enhancement"
    assert codes(found) == [("ENHANCEMENT_NOT_SUPPORTED", path)]
