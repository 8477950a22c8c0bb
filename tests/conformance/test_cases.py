"""The reader of the test files, and the page that counts their outcomes."""

from __future__ import annotations

import math
from importlib.resources import files

import pytest

from substrait_agg.plan.types import Type
from tests.conformance.cases import (
    Call,
    ColumnRef,
    Enum,
    Lambda,
    Literal,
    Table,
    all_cases,
    file_names,
    names_of,
    read_file,
)
from tests.conformance.grammar import parse
from tests.conformance.literal_texts import value_of
from tests.conformance.reasons import DISPUTED, REFUSED_AGGREGATES
from tests.conformance.summary import PAGE, page, recorded
from tests.conformance.type_texts import type_of


def test_every_file_is_read_and_no_line_of_it_is_lost() -> None:
    """A case is a line with an equals sign after the function; a definition of a table has its own."""
    for name in (*names_of("scalar"), *names_of("aggregate")):
        text = files("substrait_extensions").joinpath(f"testcases/{name}.test").read_text("utf-8")
        lines = [x for x in text.splitlines() if x.strip() and not x.startswith(("#", "DEFINE"))]
        assert len(read_file(name).cases) == len(lines), name


def test_every_file_is_of_one_kind() -> None:
    kinds = [*names_of("scalar"), *names_of("aggregate"), *names_of("window")]
    assert sorted(kinds) == list(file_names())


def test_no_case_stands_twice_in_a_file_so_that_its_text_names_it() -> None:
    texts = [(c.file, c.text) for kind in ("scalar", "aggregate") for c in all_cases(kind)]
    assert len(set(texts)) == len(texts)


def test_a_syntax_error_is_raised() -> None:
    text = "### SUBSTRAIT_SCALAR_TEST: v1.0\n### SUBSTRAIT_INCLUDE: extension:io.substrait:x\nadd(1::i8 = 2::i8\n"
    with pytest.raises(ValueError, match="line 3"):
        parse("x/add", text)


def _parsed(kind: str, line: str) -> tuple[Call, Table | None]:
    head = f"### SUBSTRAIT_{kind}_TEST: v1.0\n### SUBSTRAIT_INCLUDE: extension:io.substrait:x\n"
    case = parse("x/y", f"{head}{line}\n").cases[0]
    return case.call, case.table


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("Null", "i8?", None),
        ("-128", "i8", -128),
        ("1.5e+10", "dec<38, 0>", 15 * 10**9),
        ("-0.5", "dec?<38, 1>", -5),
        ("-inf", "fp32", -math.inf),
        ("'it\\'s \\d'", "str", "it's \\d"),
        ("TRUE", "bool", True),
        ("1970-01-02", "date", 1),
        ("01:02:03.45", "pt<6>", 3_723_450_000),
        ("1970-01-01T00:00:01.5", "pts<3>", 1500),
        ("1970-01-01T01:00:00+01:00", "ptstz<6>", 0),
        ("P5Y3M", "iyear", 63),
        ("P1DT2H3M4.45S", "iday<3>", (1, 7_384_450)),
        ("P1Y2M3DT4S", "icompound<0>", (14, 3, 4)),
    ],
)
def test_a_literal_has_the_value_that_decoded_plans_hold(
    text: str, type_: str, value: object
) -> None:
    assert value_of(text, type_of(type_)) == value


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("dec?<38, 2>", Type("decimal", True, (38, 2))),
        ("dec", Type("decimal", False, (38, 0))),
        ("iday", Type("interval_day", False, (6,))),
        ("u!u8?", Type("u8", True)),
        ("list<i32?>", Type("list", False, children=(Type("i32"),))),
        (
            "func?<(i32, list<i8>) -> bool?>",
            Type("func", True, children=(
                Type("bool"), Type("i32", False), Type("list", False, children=(Type("i8", False),))
            )),
        ),
    ],
)  # fmt: skip
def test_a_type_is_read_with_its_parameters_and_nullability(text: str, type_: Type) -> None:
    assert type_of(text) == type_


def test_arguments_may_be_words_calls_lists_and_lambdas() -> None:
    call, _ = _parsed(
        "SCALAR",
        "add(A::enum, [1, Null]::list<i8?>, abs(1::i8), (x -> negate(x))::func<i8 -> i8>) = 1::i8",
    )
    word, items, inner, function = call.arguments
    assert word == Enum("A")
    assert isinstance(items, Literal)
    assert items.value == (1, None)
    assert isinstance(inner, Call)
    assert isinstance(function, Lambda)
    assert (function.parameters, function.body.function) == (("x",), "negate")


@pytest.mark.parametrize(
    "line",
    [
        "sum((1, Null)::i8) = 1::i64?",
        "((1), (Null)) sum(col0::i8?) = 1::i64?",
        "DEFINE t1(i8?) = ((1), (Null))\nsum(t1.col0) = 1::i64?",
    ],
)
def test_the_three_forms_of_a_table_mean_the_same(line: str) -> None:
    call, table = _parsed("AGGREGATE", line)
    assert call == Call("sum", (ColumnRef(0),))
    assert table == Table((Type("i8"),), ((1,), (None,)))


def test_a_column_of_unsigned_integers_is_a_table_although_it_looks_like_a_scalar_case() -> None:
    call, table = _parsed("AGGREGATE", "sum(('1', Null)::u!u8) = ('1')::u!u64?")
    assert call == Call("sum", (ColumnRef(0),))
    assert table == Table((Type("u8"),), ((1,), (None,)))


def test_every_listed_case_is_in_its_file() -> None:
    texts = {(c.file, c.text) for kind in ("scalar", "aggregate") for c in all_cases(kind)}
    assert set(DISPUTED) <= texts
    assert set(REFUSED_AGGREGATES) <= set(names_of("aggregate"))


def test_every_file_is_counted_and_the_page_shows_the_counts() -> None:
    counts = recorded()
    assert sorted(counts) == sorted((*names_of("scalar"), *names_of("aggregate")))
    for name, found in counts.items():
        assert found.cases == len(read_file(name).cases), name
    assert PAGE.read_text("utf-8") == page(counts)
