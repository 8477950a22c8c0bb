"""Expressions: types, conversions, functions, references."""

from __future__ import annotations

from typing import Any

import pytest

from substrait_agg.bind.bound import (
    BoundProject,
    Call,
    Column,
    Conditional,
    Constant,
    Conversion,
    Expr,
    InList,
)
from substrait_agg.bind.show import show
from substrait_agg.functions.scalars.catalogue import SCALAR_NAMES, SCALARS
from substrait_agg.functions.scalars.forms import FAMILIES, WORDS
from substrait_agg.functions.signatures.derive import RESULT_RULES
from substrait_agg.plan.model import (
    Cast,
    EnumArgument,
    Expression,
    FieldRef,
    IfThen,
    LambdaExpression,
    Literal,
    NestedExpression,
    ParameterRef,
    ProjectRel,
    SingularOrList,
    Switch,
)
from substrait_agg.plan.types import (
    BOOL,
    DATE,
    FP64,
    I8,
    I32,
    I64,
    PARAMETER_KINDS,
    STRING,
    Type,
    decimal,
)
from substrait_agg.problem_kinds import Mode
from tests.bind.build import (
    COLUMNS,
    ROOT,
    at,
    bound,
    call,
    codes_of,
    col,
    lit,
    option,
    problems_of,
    read,
)

MONTHS = Type("interval_year", nullable=False)
DAYS = Type("interval_day", nullable=False, params=(6,))
STAMP = Type("precision_timestamp", params=(6,))


def project(*expressions: Expression, source: Any = None) -> ProjectRel:
    width = len(COLUMNS) if source is None else len(source.types)
    emit = tuple(range(width, width + len(expressions)))
    return ProjectRel(source or read(), expressions, emit, f"{ROOT}.project")


def bind_one(expression: Expression, producer: str = "") -> Expr:
    root = bound(project(expression), "e", producer=producer).root
    assert isinstance(root, BoundProject)
    return root.expressions[0]


def codes(expression: Expression, mode: Mode = "lenient") -> dict[str, str]:
    found = codes_of(project(expression), "e", mode=mode)
    return {c: level for c, level in found.items() if c != "FUNCTION_NAME_BARE"}


_CONSTANTS = ("escape", "format", "digits")


def test_the_table_uses_only_words_it_defines() -> None:
    for row in SCALARS.values():
        for overload in row.overloads:
            rule, _, kind = overload.result.partition(":")
            assert rule in RESULT_RULES or (rule == "digits" and kind in PARAMETER_KINDS)
            for param in overload.params:
                word, _, table = param.partition(":")
                known = word in FAMILIES or word in _CONSTANTS or table in WORDS
                known = known or (word == "span" and table in FAMILIES)
                assert known, (row.name, param)
            assert all(values for values in overload.options.values())


def test_every_spelling_means_one_function() -> None:
    assert len(SCALAR_NAMES) == sum(1 + len(row.aliases) for row in SCALARS.values())


DECIMALS = [
    ("add", decimal(12, 2), decimal(10, 4), "decimal<15,4>", "decimal<15,4>"),
    ("subtract", decimal(38, 10), decimal(38, 2), "decimal<38,6>", "decimal<38,10>"),
    ("multiply", decimal(15, 2), decimal(16, 2), "decimal<32,4>", "decimal<32,4>"),
    ("multiply", decimal(38, 10), decimal(38, 10), "decimal<38,6>", "decimal<38,20>"),
    ("divide", decimal(15, 2), decimal(15, 2), "decimal<38,10>", "decimal<21,6>"),
    ("modulus", decimal(12, 2), decimal(10, 4), "decimal<10,4>", "decimal<10,4>"),
]


@pytest.mark.parametrize(("name", "left", "right", "standard", "arrow"), DECIMALS)
def test_decimal_results(name: str, left: Type, right: Type, standard: str, arrow: str) -> None:
    """The standard's rules (functions_arithmetic_decimal.yaml), and Arrow's for DataFusion."""
    types = {"a": left.as_nullable(False), "b": right.as_nullable(False)}
    source = read(types)
    zero, one = (FieldRef((i,), ROOT) for i in range(2))
    given = project(call(name, zero, one, output=None), source=source)
    for producer, expected in (("", standard), ("datafusion", arrow)):
        assert str(bound(given, "e", producer=producer).root.types[0]) == expected


@pytest.mark.parametrize(
    ("expression", "text", "type_"),
    [
        (call("gt", col("big"), lit(3, I8)), "big > 3", "bool?"),
        (call("equal", col("small"), col("big")), "CAST(small AS i64) = big", "bool?"),
        (call("lt", col("money"), lit(5, I32)), "money < 5.00", "bool?"),
        (call("multiply", col("x"), col("money"), output=FP64), "x * CAST(money AS fp64)", "fp64?"),
        (call("is_null", col("big")), "big IS NULL", "bool?"),
        (call("coalesce", col("big"), lit(0, I64), output=I64), "coalesce(big, 0)", "i64?"),
        (call("subtract", col("day"), lit(3, MONTHS), output=DATE), "day - INTERVAL '3 MONTHS'", "date?"),
        (call("add", col("day"), lit((2, 0), DAYS), output=STAMP), "day + INTERVAL '2 DAYS'", "precision_timestamp?<6>"),
        (call("like", col("name"), lit("a%", STRING), lit(None, STRING)), "name LIKE 'a%'", "bool?"),
        (call("like", col("name"), lit("a%", STRING), lit("!", STRING)), "name LIKE 'a%' ESCAPE '!'", "bool?"),
        (call("date_part", lit("YEAR", STRING), col("day"), output=I32), "date_part('year', day)", "i32?"),
        (call("extract", EnumArgument("year", ROOT), col("day"), output=I64), "extract(YEAR, day)", "i64?"),
        (
            call("extract", EnumArgument("MONTH", ROOT), EnumArgument("one", ROOT), col("day"), output=I64),
            "extract(MONTH, ONE, day)", "i64?",
        ),
        (call("and", col("flag"), call("not", col("flag")), col("flag")), "flag AND (NOT flag) AND flag", "bool?"),
    ],
)  # fmt: skip
def test_calls(expression: Expression, text: str, type_: str) -> None:
    made = bind_one(expression)
    assert show(made, tuple(COLUMNS)) == text
    assert str(made.type) == type_


def test_underived_nullability_follows_the_function() -> None:
    def type_of(name: str, *arguments: Expression) -> str:
        return str(bind_one(call(name, *arguments, output=None)).type)

    assert type_of("is_null", col("big")) == "bool"
    assert type_of("is_distinct_from", col("big"), col("must")) == "bool"
    assert type_of("coalesce", col("big"), col("must")) == "i64"
    assert type_of("nullif", col("must"), col("must")) == "i64?"
    assert type_of("add", col("must"), col("must")) == "i64"
    assert type_of("add", col("must"), col("big")) == "i64?"


def fixed(value: Any, type_: Type) -> Literal:
    """A literal whose type is not nullable."""
    return lit(value, type_.as_nullable(False))


MINUTE = Type("interval_day", params=(6,)), (0, 60_000_000)
"""Type and value of a constant."""

REQUIRED_COLUMNS = {
    "name": STRING.as_nullable(False),
    "x": FP64.as_nullable(False),
    "must": I64.as_nullable(False),
    "day": DATE.as_nullable(False),
    "at": STAMP.as_nullable(False),
}

MIRRORING: list[tuple[str, tuple[Any, ...], Type]] = [
    ("like", ("name", (STRING, "a%")), BOOL),
    ("like", ("name", (STRING, "a!%"), (STRING, "!")), BOOL),
    ("starts_with", ("name", (STRING, "a")), BOOL),
    ("lpad", ("name", (I32, 4), (STRING, " ")), STRING),
    ("substring", ("name", (I32, 1), (I32, 2)), STRING),
    ("concat", ("name", (STRING, "a")), STRING),
    ("regexp_count_substring", ("name", (STRING, "a"), (I64, 1)), I64),
    ("round", ("x", (I32, 2)), FP64),
    ("add", ("must", (I64, 1)), I64),
    ("gt", ("must", (I64, 1)), BOOL),
    ("between", ("must", (I64, 1), (I64, 9)), BOOL),
    ("least", ("must", (I64, 1)), I64),
    ("date_part", ((STRING, "year"), "day"), I32),
    ("date_trunc", ((STRING, "year"), "at"), STAMP),
    ("tumble_start", ("at", MINUTE), STAMP),
    ("tumble_start", ("at", MINUTE, MINUTE), STAMP),
    ("add", ("at", MINUTE), STAMP),
]
"""Functions that are nullable where an argument is: name, columns and constants, type of the result."""


@pytest.mark.parametrize(("name", "given", "result"), MIRRORING)
def test_constants_count_where_nullability_is_mirrored(
    name: str, given: tuple[Any, ...], result: Type
) -> None:
    """Each nullable constant alone makes the result nullable, also one that is no argument of the bound call."""
    source = read(REQUIRED_COLUMNS)
    names = list(REQUIRED_COLUMNS)

    def typed(nullable: int | None, output: Type) -> tuple[str, dict[str, str]]:
        arguments = [
            at(names.index(a)) if isinstance(a, str) else lit(a[1], a[0].as_nullable(i == nullable))
            for i, a in enumerate(given)
        ]
        root = project(call(name, *arguments, output=output), source=source)
        found = codes_of(root, "e", mode="strict")
        found.pop("FUNCTION_NAME_BARE")
        made = bound(root, "e").root
        assert isinstance(made, BoundProject)
        return str(made.expressions[0].type), found

    required = result.as_nullable(False)
    assert typed(None, required) == (str(required), {})
    constants = [i for i, a in enumerate(given) if not isinstance(a, str)]
    for position in constants:
        assert typed(position, required)[1] == {"RESULT_NULLABILITY": "error"}
        assert typed(position, result) == (str(result.as_nullable()), {})


def test_a_constant_that_is_there_settles_a_choice() -> None:
    """Regardless of its declared type, coalesce is null only if every argument is null."""
    chosen = call("coalesce", col("big"), lit(1, I64), output=None)
    assert str(bind_one(chosen).type) == "i64"
    chosen = call("coalesce", col("big"), lit(None, I64), output=None)
    assert str(bind_one(chosen).type) == "i64?"


def test_an_escape_character_that_is_null_is_none() -> None:
    """DataFusion writes it, and it does not affect the result."""
    given = call("like", at(0), fixed("a%", STRING), lit(None, STRING), output=None)
    made = bound(project(given, source=read(REQUIRED_COLUMNS)), "e").root
    assert str(made.types[0]) == "bool"


def test_literals_have_the_nullability_that_the_plan_gives_them() -> None:
    assert str(bind_one(lit(1, I64)).type) == "i64?"
    assert str(bind_one(fixed(1, I64)).type) == "i64"
    # There is no null of a required type.
    assert str(bind_one(fixed(None, I64)).type) == "i64?"


def test_a_result_that_claims_never_to_be_null_is_nullable_all_the_same() -> None:
    given = call("gt", col("big"), lit(1, I64), output=BOOL.as_nullable(False))
    assert bind_one(given).type == BOOL
    assert codes(given) == {"RESULT_NULLABILITY": "warning"}


def test_a_declared_decimal_is_the_type_of_the_call_itself() -> None:
    """Isthmus declares narrower decimals than the standard derives: one rounding, not two."""
    made = bind_one(call("multiply", col("money"), col("money"), output=decimal(19, 4)))
    assert isinstance(made, Call)
    assert made.type == decimal(19, 4)


def test_another_declared_type_is_a_conversion() -> None:
    given = call("add", col("big"), col("big"), output=FP64)
    assert isinstance(bind_one(given), Conversion)
    assert codes(given) == {"RESULT_TYPE_DIFFERS": "info"}


def test_every_option_of_a_call_is_decided() -> None:
    made = bind_one(call("add", col("big"), col("big"), output=I64))
    assert isinstance(made, Call)
    assert made.options == (("OVERFLOW", "ERROR"),)
    chosen = option("overflow", "silent")
    made = bind_one(call("add", col("big"), col("big"), output=I64, options=(chosen,)))
    assert isinstance(made, Call)
    assert made.options == (("OVERFLOW", "SILENT"),)


@pytest.mark.parametrize(
    ("producer", "name", "handling"),
    [
        ("", "concat", "ACCEPT_NULLS"),
        ("datafusion", "concat", "IGNORE_NULLS"),
        ("datafusion", "str_concat", "ACCEPT_NULLS"),
    ],
)
def test_concat_of_nulls_is_the_producers(producer: str, name: str, handling: str) -> None:
    """In DataFusion concat(a, NULL) is a, while a || NULL is null."""
    made = bind_one(call(name, col("name"), lit("x", STRING), output=STRING), producer)
    assert isinstance(made, Call)
    assert (made.function, dict(made.options)) == ("concat", {"NULL_HANDLING": handling})


@pytest.mark.parametrize(
    ("producer", "function"),
    [("", "greatest"), ("datafusion", "greatest_skip_null"), ("duckdb", "greatest_skip_null")],
)
def test_extremes_of_nulls_are_the_producers(producer: str, function: str) -> None:
    """In the specification a null among the arguments gives null."""
    made = bind_one(call("greatest", col("must"), lit(None, I64), output=I64), producer)
    assert isinstance(made, Call)
    assert made.function == function


@pytest.mark.parametrize(
    ("producer", "given", "escapes"),
    [
        ("", (), []), ("", (lit(None, STRING),), []), ("duckdb", (), []), ("", (lit("#", STRING),), ["#"]),
        ("datafusion", (), ["\\"]), ("datafusion", (lit(None, STRING),), ["\\"]),
        ("datafusion", (lit("#", STRING),), ["#"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["like", "ilike"])
def test_the_escape_of_a_pattern_is_the_producers(
    producer: str, given: tuple[Expression, ...], escapes: list[str], name: str
) -> None:
    """DataFusion does not write the backslash that escapes in its patterns."""
    made = bind_one(call(name, col("name"), lit("a", STRING), *given, output=BOOL), producer)
    assert isinstance(made, Call)
    assert [a.value for a in made.arguments[2:] if isinstance(a, Constant)] == escapes


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        (call("frobnicate", col("big")), "SCALAR_FUNCTION_UNKNOWN"),
        (call("add", col("name"), col("big"), output=I64), "FUNCTION_ARGUMENTS"),
        (call("equal", col("name"), col("big")), "FUNCTION_ARGUMENTS"),
        (call("not", col("flag"), col("flag")), "ARGUMENT_COUNT"),
        (call("date_part", lit("fortnight", STRING), col("day"), output=I32), "FUNCTION_ARGUMENTS"),
        (call("date_part", col("name"), col("day"), output=I32), "FUNCTION_ARGUMENTS"),
        (call("round", col("x"), col("name"), output=FP64), "FUNCTION_ARGUMENTS"),
        (call("strftime", col("day"), col("name"), output=STRING), "FUNCTION_ARGUMENTS"),
        (call("strftime", col("day"), lit("%Q", STRING), output=STRING), "CONSTANT_ARGUMENT_INVALID"),
        (call("strptime_date", col("name"), lit("%Y-%m", STRING), output=DATE), "CONSTANT_ARGUMENT_INVALID"),
        (call("regexp_strpos", col("name"), lit("[[:alpha:]]", STRING), lit(1, I64), lit(1, I64), output=I64),
         "CONSTANT_ARGUMENT_INVALID"),
        (call("regexp_replace", col("name"), lit("a", STRING), lit("$1", STRING), output=STRING),
         "CONSTANT_ARGUMENT_INVALID"),
        (call("title", col("name"), output=STRING), "SCALAR_FUNCTION_NOT_SUPPORTED"),
        (call("extract_boolean", EnumArgument("IS_DST", ROOT), col("day"), output=BOOL), "SCALAR_FUNCTION_NOT_SUPPORTED"),
        (call("index_in", col("big"), lit(("a",), Type("list", children=(STRING,))), output=I64), "FUNCTION_ARGUMENTS"),
        (NestedExpression("list", (col("big"), col("name")), True, ROOT), "BRANCH_TYPES_DIFFER"),
        (call("gt", col("big"), lit(1, I64), output=Type("list", children=(I64,))), "RESULT_TYPE_NOT_SUPPORTED"),
        (call("add", col("big"), col("big"), output=I64, options=(option("speed", "HIGH"),)), "OPTION_UNKNOWN"),
        (Cast(col("flag"), DATE, "throw", ROOT), "CAST_NOT_SUPPORTED"),
        (Cast(col("big"), Type("user_defined", name="x:point"), "throw", ROOT), "TYPE_NOT_SUPPORTED"),
        (IfThen(((col("big"), col("big")),), None, ROOT), "FILTER_NOT_BOOLEAN"),
        (IfThen(((col("flag"), col("big")),), col("name"), ROOT), "BRANCH_TYPES_DIFFER"),
        (SingularOrList(col("big"), (col("name"),), ROOT), "BRANCH_TYPES_DIFFER"),
        (FieldRef((len(COLUMNS),), ROOT), "FIELD_OUT_OF_RANGE"),
        (FieldRef((0, 1), ROOT), "NESTED_STEP_INVALID"),
        (FieldRef((0, ("element", 1)), ROOT), "NESTED_STEP_INVALID"),
    ],
)  # fmt: skip
def test_expressions_that_are_refused(expression: Expression, code: str) -> None:
    assert codes(expression).get(code) == "error"


def test_conditionals_have_one_type() -> None:
    made = bind_one(IfThen(((col("flag"), col("small")),), col("must"), ROOT))
    assert isinstance(made, Conditional)
    assert str(made.type) == "i64?"
    assert show(made, tuple(COLUMNS)) == "CASE WHEN flag THEN CAST(small AS i64) ELSE must END"
    made = bind_one(Switch(col("big"), ((lit(1, I8), lit("one", STRING)),), None, ROOT))
    assert show(made, tuple(COLUMNS)) == "CASE WHEN big = 1 THEN 'one' ELSE NULL END"
    assert str(made.type) == "string?"


def test_in_lists_are_null_when_anything_in_them_can_be() -> None:
    made = bind_one(SingularOrList(col("must"), (fixed(1, I64), fixed(2, I8)), ROOT))
    assert isinstance(made, InList)
    assert str(made.type) == "bool"
    made = bind_one(SingularOrList(col("must"), (fixed(1, I64), lit(2, I64)), ROOT))
    assert str(made.type) == "bool?"
    made = bind_one(SingularOrList(col("must"), (lit(None, I64),), ROOT))
    assert str(made.type) == "bool?"


@pytest.mark.parametrize(("mode", "level"), [("lenient", "warning"), ("strict", "error")])
def test_an_in_list_without_options(mode: Mode, level: str) -> None:
    """It is false for every row; SQL has no such list, so its options were lost."""
    given = SingularOrList(col("must"), (), ROOT)
    assert codes(given, mode).get("IN_LIST_EMPTY") == level
    assert str(bind_one(given).type) == "bool"


def test_casts() -> None:
    to_null = bind_one(Cast(col("must"), STRING.as_nullable(False), "null", ROOT))
    assert isinstance(to_null, Conversion)
    assert to_null.null_on_failure
    assert to_null.type == STRING
    same = bind_one(Cast(col("must"), I64, "throw", ROOT))
    assert show(same, tuple(COLUMNS)) == "must"


def test_unused_columns_may_have_any_type() -> None:
    """A table with a column of an unknown type can be read as long as nothing refers to that column."""
    compound = Type("interval_compound", params=(9,))
    source = read({"a": I64, "u": Type("user_defined", name="x:point"), "n": compound})
    zero, one, two = (FieldRef((i,), ROOT) for i in range(3))
    assert codes_of(project(zero, source=source), "e") == {}
    found = problems_of(project(one, two, source=source), "e", "f")
    assert [p.code for p in found] == ["TYPE_NOT_SUPPORTED"] * 2
    assert "interval_day" in found[1].help


def test_parts_of_nested_values() -> None:
    inner = Type("struct", children=(I64.as_nullable(False), STRING))
    source = read({"s": inner, "l": Type("list", children=(inner,))})
    given = project(FieldRef((0, 0), ROOT), FieldRef((1, ("element", 3), 1), ROOT), source=source)
    assert [str(t) for t in bound(given, "a", "b").root.types] == ["i64?", "string?"]


def test_switches_nested_in_what_they_match_are_limited() -> None:
    """Each level multiplies the work by its cases; forty levels of two would never end."""
    two = Type("i64", nullable=False)
    nested: Any = col("big")
    for _ in range(40):
        cases = ((lit(1, two), lit(1, two)), (lit(2, two), lit(2, two)))
        nested = Switch(nested, cases, lit(3, two), ROOT)
    assert codes(nested) == {"EXPRESSION_TOO_LARGE": "error"}


@pytest.mark.parametrize(
    ("expression", "message", "help"),
    [
        (
            call("date_part", lit("fortnight", STRING), col("day"), output=I32),
            "(string? 'fortnight', date?)", "part is one of day, dow, doy, hour,",
        ),
        (call("equal", col("name"), col("big")), "(string?, i64?)", "(any, any) of one type"),
        (call("like", col("name"), col("big")), "(string?, i64?)", "(text, text, escape)"),
        (call("factorial", col("name"), output=I64), "(string?)", "(decimal of scale 0)"),
    ],
)  # fmt: skip
def test_refused_arguments_say_what_is_taken(
    expression: Expression, message: str, help: str
) -> None:
    """The words that are taken too, and that the types have to be one."""
    found = problems_of(project(expression), "e")
    (problem,) = [p for p in found if p.level == "error"]
    assert message in problem.message
    assert help in problem.help


def test_lists_structs_and_maps_of_expressions() -> None:
    """A list has one element type, a map one of keys and one of values; a struct one per field."""
    found = bind_one(NestedExpression("list", (col("must"), lit(1, I8), col("big")), False, ROOT))
    assert (str(found.type), show(found, list(COLUMNS))) == ("list<i64?>", "LIST(must, 1, big)")
    found = bind_one(NestedExpression("struct", (col("must"), col("name")), True, ROOT))
    assert str(found.type) == "struct?<i64,string?>"
    text = STRING.as_nullable(False)
    pairs = (lit("a", text), col("must"), lit("b", text), col("big"))
    found = bind_one(NestedExpression("map", pairs, False, ROOT))
    assert str(found.type) == "map<string,i64?>"
    assert show(found, list(COLUMNS)) == "MAP('a', must, 'b', big)"


A_MAP = NestedExpression("map", (lit("a", STRING.as_nullable(False)), col("must")), False, ROOT)
WITH_MAPS = [A_MAP, *(NestedExpression(kind, (A_MAP,), False, ROOT) for kind in ("list", "struct"))]
BY_ORDER = {
    "lt": 2, "lte": 2, "gt": 2, "gte": 2, "between": 3, "nullif": 2, "least": 2, "greatest": 2,
    "least_skip_null": 2, "greatest_skip_null": 2,
}  # fmt: skip
"""Function -> number of arguments."""


@pytest.mark.parametrize("value", WITH_MAPS, ids=["map", "list", "struct"])
def test_maps_can_be_equal_but_have_no_order(value: Expression) -> None:
    """They are refused before the run, which would compare them by the order of their entries."""
    for name, count in BY_ORDER.items():
        found = codes(call(name, *[value] * count, output=None))
        assert found["FUNCTION_ARGUMENTS"] == "error", name
    for name in ("equal", "not_equal", "is_distinct_from", "coalesce"):
        assert "FUNCTION_ARGUMENTS" not in codes(call(name, value, value, output=None)), name


@pytest.mark.parametrize("name", ["list_min", "list_max"])
def test_a_list_of_maps_has_no_extremes(name: str) -> None:
    assert codes(call(name, WITH_MAPS[1], output=None))["FUNCTION_ARGUMENTS"] == "error"
    assert "FUNCTION_ARGUMENTS" not in codes(call(name, NUMBERS, output=None))


ELEMENT = ParameterRef(0, (0,), ROOT)
NUMBERS = lit((1, 2), Type("list", nullable=False, children=(I64,)))


def test_functions_as_arguments() -> None:
    """A lambda sees its own parameters, those of lambdas around it, and the columns of the row."""
    inner = LambdaExpression(
        (I64,), call("add", ELEMENT, ParameterRef(1, (0,), ROOT), output=I64), ROOT
    )
    sums = call("transform", NUMBERS, inner, output=Type("list", children=(I64,)))
    found = bind_one(call("transform", NUMBERS, LambdaExpression((I64,), sums, ROOT), output=None))
    assert str(found.type) == "list<list?<i64?>>"
    shown = show(found, list(COLUMNS))
    assert shown == "transform((1, 2), (x -> transform((1, 2), (x -> x + x^))))"
    above = LambdaExpression((I64,), call("gt", ELEMENT, col("big")), ROOT)
    found = bind_one(call("filter", NUMBERS, above, output=Type("list", children=(I64,))))
    assert show(found, list(COLUMNS)) == "filter((1, 2), (x -> x > big))"


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        (LambdaExpression((I64,), ELEMENT, ROOT), "EXPRESSION_NOT_SUPPORTED"),
        (ELEMENT, "FIELD_OUT_OF_RANGE"),
        (call("is_null", LambdaExpression((I64,), ELEMENT, ROOT)), "FUNCTION_ARGUMENTS"),
        (call("filter", NUMBERS, LambdaExpression((I64,), ELEMENT, ROOT)), "FUNCTION_ARGUMENTS"),
        (call("filter", NUMBERS, LambdaExpression((STRING,), lit(True, BOOL), ROOT)), "FUNCTION_ARGUMENTS"),
        (call("filter", NUMBERS, LambdaExpression((I64, I64), lit(True, BOOL), ROOT)), "FUNCTION_ARGUMENTS"),
        (call("filter", NUMBERS, LambdaExpression((I64,), ParameterRef(1, (0,), ROOT), ROOT)), "FIELD_OUT_OF_RANGE"),
        (call("filter", NUMBERS, col("flag")), "FUNCTION_ARGUMENTS"),
    ],
)  # fmt: skip
def test_functions_that_are_refused(expression: Expression, code: str) -> None:
    assert codes(expression).get(code) == "error"


def test_calls_in_calls_are_shown_once_each() -> None:
    """As many calls in each other would take 2 to the power of their number, if each was shown twice."""
    made: Expr = Column(STRING, 0)
    for _ in range(100):
        made = Call(STRING, "lower", (made,))
    assert show(made, ["a"]) == "lower(" * 100 + "a" + ")" * 100
