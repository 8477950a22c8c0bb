"""Signatures that plans declare: their words in every release, and which arguments are theirs."""

from __future__ import annotations

import pytest

from substrait_agg.bind.bound import Argument, Column
from substrait_agg.bind.expressions.signatures import (
    KINDS,
    NUMBER,
    ComparableSignature,
    declared_signature,
    misfit,
    takes,
    words_declared,
    words_of,
)
from substrait_agg.bind.plan.dialect import type_of
from substrait_agg.functions.signatures.declarations import (
    Section,
    Signature,
    scalar_signatures,
    signatures,
)
from substrait_agg.plan.model import EnumArgument, FunctionName
from substrait_agg.plan.types import FP64, I64, STRING, Type


def name_of(urn: str | None, declared: str) -> FunctionName:
    name, _, signature = declared.partition(":")
    return FunctionName(name, signature, urn, declared)


def given(*types: Type | str) -> tuple[Argument, ...]:
    """Columns of these types; a text is the word of an enumeration."""
    return tuple(
        EnumArgument(t, "") if isinstance(t, str) else Column(t, i) for i, t in enumerate(types)
    )


def declared(
    urn: str | None, text: str, section: Section = "scalar_functions"
) -> ComparableSignature:
    found = declared_signature(name_of(urn, text), section)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("", ()), ("i64", ("i64",)), ("decimal_string", ("dec", "str")), ("any1_any1", ("any", "any")),
        ("precision_timestamp_tz_interval_day", ("ptstz", "iday")), ("ts_tstz_time", ("pts", "ptstz", "pt")),
        ("opt_fp64", ("req", "fp64")), ("Bool?", ("bool",)), ("u!u8_foo", ("u!u8", "foo")),
    ],
)  # fmt: skip
def test_words_of_older_releases_and_long_ones_are_those_of_the_newest(
    written: str, words: tuple[str, ...]
) -> None:
    assert words_of(written) == words


def test_every_declaration_of_the_standard_takes_its_own_arguments() -> None:
    """Every declaration of the standard extensions is found by its name and accepts its own
    signature.
    """
    sections: tuple[tuple[Section, tuple[Signature, ...]], ...] = (
        ("aggregate_functions", signatures()),
        ("scalar_functions", scalar_signatures()),
    )
    for section, all_of_it in sections:
        for signature in all_of_it:
            found = declared(signature.urn, signature.signature, section)
            assert found.standard is not None
            assert found.standard.signature == signature.signature
            for word, argument in zip(words_declared(signature), signature.arguments, strict=True):
                type_ = None if argument.words else type_of(argument.type)
                assert word not in KINDS or type_ is None or takes(word, type_.kind)


@pytest.mark.parametrize(
    ("signature", "types", "place"),
    [
        ("functions_string/concat_ws:str_str", (STRING, STRING, STRING), None),
        ("functions_string/concat_ws:str_str", (STRING, STRING), None),
        ("functions_string/concat_ws:str_str", (STRING,), NUMBER),
        ("functions_string/concat_ws:str_str", (STRING, STRING, I64), 2),
        ("functions_string/concat_ws:str_str", (I64, STRING, STRING), 0),
        ("functions_boolean/or:bool", (), None),
        ("functions_comparison/coalesce:any", (I64,), NUMBER),
        ("functions_comparison/coalesce:any", (I64, I64, I64), None),
        ("functions_string/substring:str_i32", (STRING, Type("i32"), Type("i32")), NUMBER),
        ("functions_datetime/extract:req_date", ("YEAR", Type("date")), None),
        ("functions_datetime/extract:req_date", (Type("date"),), NUMBER),
        ("functions_datetime/extract:req_date", (STRING, Type("date")), 0),
        ("functions_arithmetic/add:i64_i64", (I64, FP64), 1),
        # Extensions of others: nobody knows what repeats, or whether words of enumerations are named.
        ("acme:own/f:str_i64", (STRING, I64, I64), None),
        ("acme:own/f:i64", ("WORD", I64), None),
        ("acme:own/f:i64", (STRING,), 0),
        ("acme:own/f:thing", (STRING, I64), None),
        # Where the standard has no such signature that has been said.
        ("functions_arithmetic/add:str_str", (I64, FP64), None),
    ],
)
def test_the_first_argument_that_is_not_the_signatures(
    signature: str, types: tuple[Type | str, ...], place: int | None
) -> None:
    urn, _, text = signature.partition("/")
    assert misfit(declared(urn, text), given(*types)) == place


def test_a_bare_name_has_no_signature() -> None:
    assert declared_signature(FunctionName("sum", None, None, "sum"), "aggregate_functions") is None
