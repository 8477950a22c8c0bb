"""Types of every kind and release, and constants of them."""

from __future__ import annotations

import base64
import math
from typing import Any

import pytest

from substrait_agg.plan import model as m
from substrait_agg.plan.messages.schema import schema
from substrait_agg.plan.types import SIMPLE_KINDS, Type
from tests.plan.helpers import (
    Json,
    codes,
    counted,
    decoded_expression,
    length_delimited,
    plan_of,
    project,
    read,
    table,
)

NULLABLE = {"nullability": "NULLABILITY_NULLABLE"}
I64 = {"i64": NULLABLE}

UNSIGNED = {
    "extension_urns": [{"urn": "extension:io.substrait:unsigned_integers"}],
    "extensions": [
        {"extension_type": {"type_anchor": n, "name": name}}
        for n, name in enumerate(("u8", "u16", "u32", "u64", "point"))
    ],
}


def decoded_type(written: Json, **others: Any) -> Type:
    """The decoded type of a column."""
    plan, _ = read(
        plan_of(table(written, names=["c", *"abcdefgh"][: 1 + _names(written)]), **others)
    )
    assert isinstance(plan.root, m.ReadRel)
    return plan.root.types[0]


def _names(written: Json) -> int:
    struct = written.get("struct")
    return sum(1 + _names(t) for t in struct["types"]) if struct else 0


def test_every_kind_of_type_is_read() -> None:
    """A kind that a new release adds must be decided on, not fall through."""
    fields = schema().messages["Type"].by_number.values()
    special = {"struct", "list", "map", "user_defined", "user_defined_type_reference"}
    refused = {"alias", "func", "unbound"}
    for field in fields:
        if field.name in special:
            continue
        written = {field.name: {} if field.name in refused else NULLABLE}
        kind = decoded_type(written).kind
        assert (kind == "user_defined") == (field.name in refused), field.name


@pytest.mark.parametrize("kind", [k for k in SIMPLE_KINDS if not k.startswith("u") or k == "uuid"])
@pytest.mark.parametrize(("word", "nullable"), [("NULLABLE", True), ("REQUIRED", False)])
def test_simple_types(kind: str, word: str, nullable: bool) -> None:
    assert decoded_type({kind: {"nullability": f"NULLABILITY_{word}"}}) == Type(kind, nullable)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ({"fixed_char": {"length": 3, **NULLABLE}}, "fixedchar?<3>"),
        ({"varchar": {"length": 44, **NULLABLE}}, "varchar?<44>"),
        ({"fixed_binary": {"length": 2, **NULLABLE}}, "fixedbinary?<2>"),
        ({"decimal": {"precision": 15, "scale": 2, **NULLABLE}}, "decimal?<15,2>"),
        ({"precision_time": {"precision": 9, **NULLABLE}}, "precision_time?<9>"),
        ({"precision_timestamp": {"precision": 3, **NULLABLE}}, "precision_timestamp?<3>"),
        ({"precision_timestamp_tz": {**NULLABLE}}, "precision_timestamp_tz?<0>"),
        ({"interval_compound": {"precision": 3, **NULLABLE}}, "interval_compound?<3>"),
        ({"interval_day": {"precision": 0, **NULLABLE}}, "interval_day?<0>"),
        ({"interval_day": NULLABLE}, "interval_day?<6>"),
        ({"time": NULLABLE}, "precision_time?<6>"),
        ({"timestamp": NULLABLE}, "precision_timestamp?<6>"),
        ({"timestamp_tz": NULLABLE}, "precision_timestamp_tz?<6>"),
        ({"list": {"type": I64, **NULLABLE}}, "list?<i64?>"),
        ({"map": {"key": I64, "value": I64, **NULLABLE}}, "map?<i64?,i64?>"),
        ({"struct": {"types": [I64, I64], **NULLABLE}}, "struct?<i64?,i64?>"),
    ],
)
def test_types_with_parameters(written: Json, text: str) -> None:
    assert str(decoded_type(written)) == text


@pytest.mark.parametrize(
    "written",
    [
        {"decimal": {"precision": 39, "scale": 2, **NULLABLE}},
        {"decimal": {"precision": 3, "scale": 4, **NULLABLE}},
        {"precision_timestamp": {"precision": 13, **NULLABLE}},
        {"varchar": {"length": -1, **NULLABLE}},
    ],
)
def test_impossible_parameters_are_reported(written: Json) -> None:
    (kind,) = written
    path = f"relations[0].root.input.read.base_schema.struct.types[0].{kind}"
    assert codes(read(plan_of(table(written)))[1]) == [("VALUE_INVALID", path)]


def test_a_type_without_nullability_is_nullable_and_reported() -> None:
    plan, found = read(plan_of(table({"i32": {}})), "strict")
    assert isinstance(plan.root, m.ReadRel)
    assert plan.root.types == (Type("i32"),)
    assert [(p.code, p.level) for p in found] == [("NULLABILITY_MISSING", "error")]


def test_extension_types() -> None:
    for anchor, name in enumerate(("u8", "u16", "u32", "u64")):
        written = {"user_defined": {"type_reference": anchor, **NULLABLE}}
        assert decoded_type(written, **UNSIGNED) == Type(name)
    point = "unsigned_integers:point"
    written = {"user_defined": {"type_reference": 4, **NULLABLE}}
    assert decoded_type(written, **UNSIGNED) == Type("user_defined", name=point)
    assert decoded_type({"user_defined_type_reference": 4}, **UNSIGNED).name == point


DATAFUSION = {"version": {"minor_number": 60, "producer": "DataFusion"}}


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ({"i8": {"type_variation_reference": 1, **NULLABLE}}, "u8?"),
        ({"i64": {"type_variation_reference": 1, **NULLABLE}}, "u64?"),
        ({"string": {"type_variation_reference": 2, **NULLABLE}}, "string?"),
        (
            {"map": {"key": I64, "value": {"string": NULLABLE}, "type_variation_reference": 1, **NULLABLE}},
            "string?",
        ),
        ({"timestamp": {"type_variation_reference": 3, **NULLABLE}}, "precision_timestamp?<9>"),
    ],
)  # fmt: skip
def test_variations_of_datafusion(written: Json, text: str) -> None:
    """They are not declared, so their assumed type is reported."""
    plan = {**plan_of(table(written)), **DATAFUSION}
    decoded, found = read(plan)
    assert isinstance(decoded.root, m.ReadRel)
    assert str(decoded.root.types[0]) == text
    assert [(p.code, p.level) for p in found] == [("TYPE_VARIATION_ASSUMED", "info")]
    assert f"read as {text.replace('?', '')}, as DataFusion intends" in found[0].message


def test_a_variation_of_datafusion_is_reported_once() -> None:
    """A type variation is reported once, however many columns have it."""
    written = {"string": {"type_variation_reference": 2, **NULLABLE}}
    _, found = read({**plan_of(table(written, written, written)), **DATAFUSION})
    assert [p.code for p in found] == ["TYPE_VARIATION_ASSUMED"]


@pytest.mark.parametrize(
    ("anchor", "code"), [(1, "TYPE_VARIATION"), (2, "TYPE_VARIATION_UNDECLARED")]
)
def test_variations_of_others_are_reported(anchor: int, code: str) -> None:
    """Only DataFusion means an unsigned integer by variation 1; one that is not declared means nothing at all."""
    written = {"i64": {"type_variation_reference": 1, **NULLABLE}}
    variation = {"extension_type_variation": {"type_variation_anchor": anchor, "name": "packed"}}
    decoded, found = read(plan_of(table(written), extensions=[variation]))
    assert isinstance(decoded.root, m.ReadRel)
    assert (str(decoded.root.types[0]), [p.code for p in found]) == ("i64?", [code])


@pytest.mark.parametrize(("mode", "level"), [("lenient", "info"), ("strict", "error")])
def test_the_struct_of_a_schema_is_required(mode: str, level: str) -> None:
    """Its columns stay as they are."""
    source = table({"i64": {"nullability": "NULLABILITY_REQUIRED"}})
    source["read"]["base_schema"]["struct"]["nullability"] = "NULLABILITY_NULLABLE"
    decoded, found = read(plan_of(source), mode)
    place = "relations[0].root.input.read.base_schema.struct"
    assert [(p.code, p.level, p.path) for p in found] == [("SCHEMA_NULLABLE", level, place)]
    assert isinstance(decoded.root, m.ReadRel)
    assert str(decoded.root.types[0]) == "i64"


# --- constants ---------------------------------------------------------------------------------


def constant(written: Json, **others: Any) -> tuple[str, Any]:
    """Type and value of a literal without problems."""
    found, problems = decoded_expression({"literal": written}, **others)
    assert problems == []
    assert isinstance(found, m.Literal)
    return str(found.type), found.value


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def unscaled(number: int) -> str:
    return b64(number.to_bytes(16, "little", signed=True))


TWO_DAYS = {"days": 2, "seconds": 3}
ONE_ITEM = {"values": [{"i32": 1}, {"i32": 2, "nullable": True}]}
ENTRIES = {"key_values": [{"key": {"string": "a"}, "value": {"i64": "1"}}]}

LITERALS: list[tuple[Json, str, Any]] = [
    ({"boolean": False}, "bool", False),
    ({"boolean": True, "nullable": True}, "bool?", True),
    ({"i8": -128}, "i8", -128),
    ({"i16": 7}, "i16", 7),
    ({"i32": 0}, "i32", 0),
    ({"i64": "-9223372036854775808"}, "i64", -(2**63)),
    ({"fp32": 0.1}, "fp32", 0.10000000149011612),
    ({"fp64": "-Infinity"}, "fp64", -math.inf),
    ({"string": "ä"}, "string", "ä"),
    ({"binary": b64(b"\x00\xff")}, "binary", b"\x00\xff"),
    ({"date": -1}, "date", -1),
    ({"timestamp": "5"}, "precision_timestamp<6>", 5),
    ({"timestamp_tz": 5}, "precision_timestamp_tz<6>", 5),
    ({"time": 5}, "precision_time<6>", 5),
    ({"precision_time": {"precision": 9, "value": 1}}, "precision_time<9>", 1),
    ({"precision_timestamp": {"precision": 3, "value": "-1"}}, "precision_timestamp<3>", -1),
    ({"precision_timestamp_tz": {"value": 8}}, "precision_timestamp_tz<0>", 8),
    ({"interval_year_to_month": {"years": 2, "months": -1}}, "interval_year", 23),
    ({"interval_day_to_second": {**TWO_DAYS, "microseconds": 4}}, "interval_day<6>", (2, 3_000_004)),
    ({"interval_day_to_second": TWO_DAYS}, "interval_day<6>", (2, 3_000_000)),
    (
        {"interval_day_to_second": {**TWO_DAYS, "precision": 3, "subseconds": 4}},
        "interval_day<3>",
        (2, 3_004),
    ),
    (
        {"interval_compound": {"interval_year_to_month": {"years": 1}, "interval_day_to_second": TWO_DAYS}},
        "interval_compound<6>",
        (12, 2, 3_000_000),
    ),
    ({"fixed_char": "ab"}, "fixedchar<2>", "ab"),
    ({"var_char": {"value": "ab", "length": 5}}, "varchar<5>", "ab"),
    ({"fixed_binary": b64(b"abc")}, "fixedbinary<3>", b"abc"),
    ({"decimal": {"value": unscaled(-105), "precision": 3, "scale": 2}}, "decimal<3,2>", -105),
    ({"uuid": b64(b"0123456789abcdef")}, "uuid", b"0123456789abcdef"),
    ({"null": I64}, "i64?", None),
    ({"struct": {"fields": [{"i32": 1}, {"null": I64}]}}, "struct<i32,i64?>", (1, None)),
    ({"list": ONE_ITEM}, "list<i32?>", (1, 2)),
    ({"map": ENTRIES}, "map<string,i64>", (("a", 1),)),
    ({"empty_list": {"type": I64, **NULLABLE}}, "list<i64?>", ()),
    ({"empty_map": {"key": I64, "value": I64, **NULLABLE}}, "map<i64?,i64?>", ()),
]  # fmt: skip


@pytest.mark.parametrize(("written", "type_", "value"), LITERALS, ids=[str(x[0]) for x in LITERALS])
def test_literals(written: Json, type_: str, value: Any) -> None:
    assert constant(written) == (type_, value)


def test_every_kind_of_literal_is_tested() -> None:
    fields = {f.name for f in schema().messages["Expression.Literal"].by_number.values() if f.oneof}
    assert fields - {name for written, *_ in LITERALS for name in written} == {"user_defined"}


def test_not_a_number_equals_itself_after_decoding() -> None:
    """So that plans with NaN can be compared."""
    first, second = (decoded_expression({"literal": {"fp64": "NaN"}})[0] for _ in range(2))
    assert first == second
    in_binary = length_delimited(
        3,
        length_delimited(
            1,
            length_delimited(
                7, length_delimited(3, length_delimited(1, b"\x59" + b"\x00" * 6 + b"\xf8\x7f"))
            ),
        ),
    )
    root = read(in_binary)[0].root
    assert isinstance(root, m.ProjectRel)
    assert isinstance(root.expressions[0], m.Literal)
    assert math.isnan(root.expressions[0].value)


@pytest.mark.parametrize(
    ("written", "type_", "value"),
    [
        ({"i8": 200}, "u8", 200),
        ({"i32": -1}, "u32", 2**32 - 1),
        ({"i64": -1}, "u64", 2**64 - 1),
        ({"i64": 1, "nullable": True}, "u64?", 1),
    ],
)
def test_unsigned_literals_of_datafusion(written: Json, type_: str, value: int) -> None:
    """Unsigned literals are written in signed fields; without the variation a large one would be
    read as negative.
    """
    plan = {
        **plan_of(project({"literal": {**written, "type_variation_reference": 1}})),
        **DATAFUSION,
    }
    decoded, _ = read(plan)
    assert isinstance(decoded.root, m.ProjectRel)
    literal = decoded.root.expressions[0]
    assert isinstance(literal, m.Literal)
    assert (str(literal.type), literal.value) == (type_, value)


def test_unsigned_literals_of_the_standard() -> None:
    def written(text: str, anchor: int = 3) -> Json:
        fields = {"fields": [{"string": text}]}
        return {"user_defined": {"type_reference": anchor, "struct": fields}}

    assert constant(written("18446744073709551615"), **UNSIGNED) == ("u64", 2**64 - 1)
    for wrong in (written("256", 0), written("-1"), written("x")):
        assert codes(decoded_expression({"literal": wrong}, **UNSIGNED)[1])[0][0] == "VALUE_INVALID"
    _, found = decoded_expression({"literal": written("1", 4)}, **UNSIGNED)
    assert codes(found)[0][0] == "EXPRESSION_NOT_SUPPORTED"


def test_a_type_that_is_not_declared_is_reported_even_if_nothing_uses_the_column() -> None:
    """The content of such a column is unknown, and it cannot be skipped."""
    kind = {"user_defined": {"type_reference": 9, "nullability": "NULLABILITY_NULLABLE"}}
    path = "relations[0].root.input.read.base_schema.struct.types[0].user_defined.type_reference"
    _, found = read(plan_of(table(kind)))
    assert codes(found) == [("VALUE_INVALID", path)]


NULL_I32 = {"i32": {"nullability": "NULLABILITY_NULLABLE"}}


@pytest.mark.parametrize(
    "written",
    [
        {"i8": 128},
        {"i16": -32769},
        {"decimal": {"value": b64(b"12"), "precision": 3, "scale": 2}},
        {"decimal": {"value": unscaled(1000), "precision": 3, "scale": 2}},
        {"decimal": {"value": unscaled(1), "precision": 40, "scale": 2}},
        {"uuid": b64(b"short")},
        {"list": {"values": []}},
        {"list": {"values": [{"i32": 1}, {"string": "x"}]}},
        {"var_char": {"value": "abc", "length": 2}},
        {"precision_time": {"precision": 99}},
        {"precision_timestamp": {"precision": 13, "value": 1}},
        {"precision_time": {"precision": 3, "value": 86_400_000}},
        {"precision_time": {"precision": 6, "value": -1}},
        {"precision_timestamp": {"precision": 0, "value": 2**62}},
        {"precision_timestamp_tz": {"precision": 3, "value": -(2**63)}},
        {"interval_year_to_month": {"years": 2**30}},
        {"interval_day_to_second": {"precision": 1, "subseconds": 2**62}},
        {"map": {"key_values": [{"key": {"i32": 1}, "value": {"i32": v}} for v in (1, 2)]}},
        {"map": {"key_values": [{"key": {"null": NULL_I32}, "value": {"i32": 1}}]}},
    ],
    ids=str,
)
def test_impossible_literals_are_reported(written: Json) -> None:
    found, problems = decoded_expression({"literal": written})
    (kind,) = written
    path = f"relations[0].root.input.project.expressions[0].literal.{kind}"
    assert codes(problems) == [("VALUE_INVALID", path)]
    assert isinstance(found, m.Unsupported)


@pytest.mark.parametrize(
    "written",
    [
        {"precision_time": {"precision": 3, "value": 86_399_999}},
        {"precision_timestamp": {"precision": 6, "value": -(2**63)}},
        {"precision_timestamp": {"precision": 9, "value": 2**63 - 1}},
        {"precision_timestamp": {"precision": 0, "value": 253_402_300_799}},
        {"interval_day_to_second": {"days": 3_650_000, "seconds": -(2**31), "precision": 6}},
    ],
    ids=str,
)
def test_the_largest_values_of_time_are_literals(written: Json) -> None:
    found, problems = decoded_expression({"literal": written})
    assert codes(problems) == []
    assert isinstance(found, m.Literal)


def test_default_values_with_presence_survive_in_binary() -> None:
    """An i32 literal 0 is on the wire; without presence it would be no literal at all."""
    literal = length_delimited(1, counted(5, 0))
    root = read(
        length_delimited(3, length_delimited(1, length_delimited(7, length_delimited(3, literal))))
    )[0].root
    assert isinstance(root, m.ProjectRel)
    path = "relations[0].rel.project.expressions[0].literal"
    assert root.expressions == (m.Literal(Type("i32", nullable=False), 0, path),)
