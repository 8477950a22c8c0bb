"""The catalogue of aggregate functions against itself and against the standard's declarations."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from substrait_agg.functions.aggregates.catalogue import (
    AGGREGATE_NAMES,
    AGGREGATES,
    MAINTAINED,
    STANDARD_URNS,
    WINDOW_FUNCTIONS,
    find,
)
from substrait_agg.functions.aggregates.row import AggregateFunction, FieldHandling
from substrait_agg.functions.aggregates.types import (
    INTERMEDIATE_TEXTS,
    INTERMEDIATES,
    RESULT_TEXTS,
    RESULTS,
)
from substrait_agg.functions.numbers.exact import ROUNDINGS
from substrait_agg.functions.scalars.catalogue import SCALAR_NAMES
from substrait_agg.functions.signatures.declarations import Signature, signatures
from substrait_agg.plan.model import EnumArgument, FunctionName
from substrait_agg.plan.types import I64, STRING, Type, decimal
from tests.bind.build import aggregate, at, bound, lit, measure, problems_of, read

WORDS = {"boolean": "bool", "LIST": "list", "STRUCT": "struct", "DECIMAL": "decimal"}
ANY = Type("i64", nullable=False)


def id_of(signature: Signature) -> str:
    return f"{signature.urn}/{signature.signature}"


def typed(expression: str) -> Type:
    """A type expression of the extension files for P = 12 (6 digits of a second) and S = 2."""
    found = re.fullmatch(r"(?:u!)?(\w+)(\??)(?:<(.*)>)?", expression.replace(" ", ""))
    assert found, expression
    word, nullable, inside = found[1], bool(found[2]), found[3]
    if word.startswith("any"):
        return ANY.as_nullable(nullable)
    kind = WORDS.get(word, word.lower())
    if kind == "list":
        return Type("list", nullable, children=(typed(inside),))
    digits = "12" if kind == "decimal" else "6"
    if kind == "struct":
        return Type(
            kind, nullable, children=tuple(map(typed, re.findall(r"\w+(?:<[^>]*>)?", inside)))
        )
    parts = (inside or "").replace("P", digits).replace("S", "2")
    return Type(kind, nullable, tuple(int(p) for p in parts.split(",") if p))


def rows() -> list[AggregateFunction]:
    return list(AGGREGATES.values())


def parts_of(row: AggregateFunction) -> list[FieldHandling]:
    words = [part for p in row.parameters for part in p.words.values()]
    values = [part for option in row.options.values() for part in option.values.values()]
    return [row.distinct, row.distinct_rows, row.order_by, row.filter, *words, *values]


def test_the_standard_declares_what_is_read() -> None:
    """The reader loses no file, no function and no implementation."""
    assert len(signatures()) == 98
    assert len({(s.urn, s.name) for s in signatures()}) == 30
    assert len({id_of(s) for s in signatures()}) == 98


@pytest.mark.parametrize("signature", signatures(), ids=id_of)
def test_every_standard_implementation_binds_in_strict_mode_without_a_word(
    signature: Signature,
) -> None:
    """Every standard implementation binds in strict mode with its declared type and without
    problems.

    Exceptions are notes that follow from the declaration: deprecation, and a missing order.
    """
    columns = {f"c{i}": typed(a.type) for i, a in enumerate(signature.arguments) if not a.words}
    arguments: list[Any] = []
    for position, argument in enumerate(signature.arguments):
        if argument.words:
            arguments.append(EnumArgument(argument.words[-1].lower(), "enum"))
        elif argument.constant:
            value = 4 if argument.type == "i64" else ";"
            arguments.append(lit(value, typed(argument.type)))
        else:
            arguments.append(at(list(columns).index(f"c{position}")))
    name = FunctionName(
        signature.name, signature.signature.partition(":")[2], signature.urn, signature.signature
    )
    output = typed(signature.returns)
    given = measure(signature.name, *arguments, function=name, output=output)
    root = aggregate(read(columns or {"c": I64}), (), (given,))
    said = {"FUNCTION_DEPRECATED"} if signature.deprecated else set()
    said |= {"ORDER_MISSING"} if signature.ordered else set()
    assert {p.code for p in problems_of(root, "m", mode="strict")} == said
    (made,) = bound(root, "m").root.measures  # type: ignore[union-attr]
    assert made.type.as_nullable(output.nullable) == output
    assert made.kind == AGGREGATES[signature.name].kind


@pytest.mark.parametrize("signature", signatures(), ids=id_of)
def test_states_have_the_declared_intermediate_type(signature: Signature) -> None:
    """Apart from sketches, of which the standard declares the bytes without their form."""
    row = AGGREGATES[signature.name]
    stated = signature.decomposable != "NONE" and signature.intermediate != "binary"
    assert bool(row.intermediate) == stated
    if stated:
        types = tuple(typed(a.type) for a in signature.arguments)
        derived = INTERMEDIATES[row.intermediate](types, signature.urn, "standard")
        expected = typed(signature.intermediate)
        assert derived == expected
        assert row.intermediate in INTERMEDIATE_TEXTS


@pytest.mark.parametrize("signature", signatures(), ids=id_of)
def test_every_option_and_word_of_the_standard_is_decided(signature: Signature) -> None:
    row = AGGREGATES[signature.name]
    assert row.kind is not None
    assert signature.urn in row.urns
    kind = next((typed(a.type).kind for a in signature.arguments if not a.words), "")
    known = row.option_values(kind)
    for name, values in signature.options.items():
        assert set(known[name.upper()].values) == set(values)
    for argument in signature.arguments:
        if argument.words:
            parameter = next(p for p in row.parameters if p.name == argument.name)
            assert set(parameter.words) == set(argument.words)


@pytest.mark.parametrize("signature", signatures(), ids=id_of)
def test_declared_properties_agree_with_the_catalogue(signature: Signature) -> None:
    """Functions that the standard declares as ordered accept an order, and its constant arguments
    are constants here.
    """
    row = AGGREGATES[signature.name]
    assert not signature.ordered or row.order_by.handling == "honoured"
    for argument in signature.arguments:
        named = [p for p in row.parameters if p.name == argument.name]
        constant = bool(named) and named[0].role == "constant"
        assert constant == argument.constant


def test_names_are_told_apart() -> None:
    names = [name for row in rows() for name in row.names]
    assert len(names) == len(set(names)) == len(AGGREGATE_NAMES)
    assert all(name == name.lower() for name in names)
    assert not set(names) & WINDOW_FUNCTIONS


def test_no_aggregate_hides_behind_a_scalar_name() -> None:
    """A name that is both would make the message about scalar functions unreachable or wrong."""
    assert set(AGGREGATE_NAMES) & set(SCALAR_NAMES) == set()


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_rows_give_a_reason_for_all_that_is_not_honoured(row: AggregateFunction) -> None:
    assert all(part.reason for part in parts_of(row) if part.handling != "honoured")
    assert (row.kind is None) == bool(row.reason)
    assert row.result in RESULTS
    assert row.result in RESULT_TEXTS
    assert set(row.urns) <= STANDARD_URNS
    assert row.urns or row.producers, "somebody has to write it"
    for other in (row.ordered_form, row.unordered_form):
        assert not other or AGGREGATES[other].parameters == row.parameters
    for option in row.options.values():
        assert option.accepted, "an option without a value that is honoured could never be set"
    assert all(not p.repeats for p in row.parameters[:-1])


def test_every_rounding_of_the_catalogue_is_computed() -> None:
    for row in rows():
        if "ROUNDING" in row.options:
            assert set(row.options["ROUNDING"].accepted) == set(ROUNDINGS)


def test_presets_of_names_are_options_of_their_function() -> None:
    for row in rows():
        for alias in row.aliases:
            for name, value in alias.presets:
                assert value in row.options[name].accepted


@pytest.mark.parametrize(
    ("name", "row"),
    [("mean", "avg"), ("stddev_pop", "std_dev"), ("list", "array_agg"), ("any", "bool_or"),
     ("key", "any_value"), ("arg_max", "max_by"), ("group_concat", "string_agg"),
     ("quantile_disc", "percentile_disc"), ("covar_samp", "covar")],
)  # fmt: skip
def test_functions_are_found_by_other_names(name: str, row: str) -> None:
    found = find(name)
    assert found is not None
    assert found[0].name == row
    assert found[1].name == name


def test_unknown_names_are_not_found() -> None:
    assert find("frobnicate") is None


def test_states_follow_from_what_is_maintained() -> None:
    assert AGGREGATES["sum"].state == "additive"
    assert AGGREGATES["max"].state == "shared tree"
    assert AGGREGATES["count"].state == "additive"
    assert AGGREGATES["count_distinct"].state == "shared tree"
    assert AGGREGATES["first"].state == "own tree"


def test_signatures_are_shown_as_they_are_called() -> None:
    assert AGGREGATES["string_agg"].signature == "(input: text, [separator: constant text = ','])"
    assert AGGREGATES["count"].signature == "([x: any type, ...])"
    assert AGGREGATES["corr"].signature == "(x: number, y: number)"


def test_all_that_is_maintained_has_a_kind() -> None:
    assert set(MAINTAINED) == {row.name for row in rows() if row.kind}
    assert {"median", "string_agg", "first_value", "surrogate_key_int64"} <= set(MAINTAINED)
    assert "regr_slope" not in MAINTAINED


def test_type_expressions_of_the_files_are_read() -> None:
    """Guards the tests above: a misread type would make them compare nothing."""
    assert typed("DECIMAL?<38,S>") == decimal(38, 2)
    assert typed("string") == STRING.as_nullable(False)
    assert typed("u!u64?") == Type("u64")
    assert typed("LIST?<any1>") == Type("list", children=(ANY,))
    assert typed("precision_time?<P>") == replace(Type("precision_time"), params=(6,))
