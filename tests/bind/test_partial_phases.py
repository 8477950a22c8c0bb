"""Partial phases of measures: the types of states, and what cannot be split into phases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from substrait_agg.bind.bound import BoundAggregate, BoundProject
from substrait_agg.plan.model import FunctionName, MeasureCall
from substrait_agg.plan.types import FP64, I8, I32, I64, STRING, Type, decimal
from tests.bind.build import (
    MEASURE,
    ROOT,
    aggregate,
    at,
    bound,
    codes_of,
    col,
    errors_of,
    measure,
    option,
    read,
)

INITIAL, MERGE, FINAL = (
    "initial_to_intermediate", "intermediate_to_intermediate", "intermediate_to_result",
)  # fmt: skip
COUNT = I64.as_nullable(False)
PAIR = Type("struct", False, children=(COUNT, COUNT))
FLOATS = Type("struct", False, children=(FP64.as_nullable(False), COUNT))
STATES: dict[str, Type] = {
    "pair": PAIR.as_nullable(), "floats": FLOATS, "l": I64, "x": FP64, "s": STRING,
    "wide": decimal(38, 2), "narrow": decimal(12, 2), "i": I32,
}  # fmt: skip


def named(signature: str, *arguments: Any, phase: str, **changes: Any) -> MeasureCall:
    """A measure of a signature of the standard."""
    name, _, words = signature.partition(":")
    urn = {"count": "functions_aggregate_generic", "any_value": "functions_aggregate_generic",
           "approx_count_distinct": "functions_aggregate_approx", "string_agg": "functions_string"
           }.get(name, "functions_arithmetic_decimal" if words == "dec" else "functions_arithmetic")  # fmt: skip
    function = FunctionName(name, words, urn, signature)
    return measure(name, *arguments, phase=phase, function=function, **changes)


def state(name: str) -> Any:
    return at(list(STATES).index(name))


def type_of(given: MeasureCall, columns: dict[str, Type] | None = None) -> Type:
    return bound(
        aggregate(read(columns), (), (given,)), "m", *("f0", "f1")[: _fields(given)]
    ).root.types[0]


def _fields(given: MeasureCall) -> int:
    return 2 if given.function.name == "avg" and given.phase.endswith("intermediate") else 0


@pytest.mark.parametrize(
    ("signature", "column", "expected"),
    [("count:any", "x", COUNT), ("sum:i32", "small", I64), ("sum:dec", "money", decimal(38, 2)),
     ("sum0:i64", "big", COUNT), ("min:fp64", "x", FP64), ("any_value:any", "name", STRING),
     ("avg:i32", "small", PAIR), ("product:i32", "small", COUNT),
     ("avg:dec", "money", Type("struct", False, children=(decimal(38, 2, False), COUNT)))],
)  # fmt: skip
def test_a_state_has_the_declared_intermediate_type(
    signature: str, column: str, expected: Type
) -> None:
    given = named(signature, col(column), phase=INITIAL)
    assert type_of(given) == expected
    declared = replace(given, output_type=expected)
    for mode in ("lenient", "strict"):
        names = ("m", *("f0", "f1")[: _fields(given)])
        assert not codes_of(aggregate(read(), (), (declared,)), *names, mode=mode)


@pytest.mark.parametrize(
    ("signature", "column", "expected"),
    [("count:any", "l", COUNT), ("sum:i8", "l", I64), ("avg:i8", "pair", I8), ("avg:fp64", "floats", FP64),
     ("sum:dec", "wide", decimal(38, 2)), ("min:i32", "i", I32), ("max:dec", "narrow", decimal(12, 2)),
     ("any_value:any", "s", STRING), ("product:i32", "l", I32), ("sum:fp32", "x", FP64)],
)  # fmt: skip
def test_merged_states_have_the_result_of_the_signature(
    signature: str, column: str, expected: Type
) -> None:
    given = named(signature, state(column), phase=FINAL, output=expected)
    root = aggregate(read(STATES), (), (given,))
    assert type_of(given, STATES) == expected
    for mode in ("lenient", "strict"):
        assert not codes_of(root, "m", mode=mode)


def test_merged_states_without_a_signature_have_the_widest_result() -> None:
    assert type_of(measure("avg", state("pair"), phase=FINAL), STATES) == I64
    assert type_of(measure("avg", state("pair"), phase=FINAL, output=I8), STATES) == I8


def test_a_state_of_parts_is_a_projection_of_one_measure_per_part() -> None:
    given = (named("avg:i64", col("big"), phase=INITIAL), named("count:", phase=INITIAL))
    sets = ((0,), ())
    root = bound(aggregate(read(), (col("name"),), given, sets), *"abcdef").root
    assert isinstance(root, BoundProject)
    assert root.types == (STRING, PAIR, COUNT, I32.as_nullable(False))
    assert isinstance(root.input, BoundAggregate)
    assert [m.kind for m in root.input.measures] == ["sum0", "count", "count"]


def test_a_state_of_parts_has_its_place_in_a_layout_with_a_bitmask() -> None:
    """DataFusion reads the bitmask of the grouping set before the measures."""
    given = (named("avg:i64", col("big"), phase=INITIAL), named("count:", phase=INITIAL))
    relation = aggregate(read(), (col("name"),), given, ((0,), ()))
    root = bound(relation, *"abcdef", producer="datafusion").root
    assert root.types == (STRING, Type("u8", False), PAIR, COUNT)


ARGUMENT = f"{MEASURE}.arguments"
WRONG: list[tuple[str, MeasureCall, str, str]] = [
    ("another type", named("avg:i64", state("l"), phase=FINAL), "FUNCTION_ARGUMENTS", f"{ROOT}.selection"),
    ("a state of floats", named("avg:i64", state("floats"), phase=MERGE), "FUNCTION_ARGUMENTS", f"{ROOT}.selection"),
    ("values instead of states", named("sum:i32", state("i"), phase=FINAL), "FUNCTION_ARGUMENTS", f"{ROOT}.selection"),
    ("another precision", named("sum:dec", state("narrow"), phase=FINAL), "FUNCTION_ARGUMENTS", f"{ROOT}.selection"),
    ("no state", named("count:", phase=FINAL), "ARGUMENT_COUNT", ARGUMENT),
    ("two states", named("sum:i64", state("l"), state("l"), phase=MERGE), "ARGUMENT_COUNT", ARGUMENT),
    ("a result that is no state", named("avg:i64", state("pair"), phase=MERGE, output=I64),
     "OUTPUT_TYPE_NOT_SUPPORTED", f"{MEASURE}.output_type"),
    ("not decomposable", named("std_dev:fp64", state("x"), phase=INITIAL), "PHASE_NOT_DECOMPOSABLE", f"{MEASURE}.phase"),
    ("not declared", measure("bit_or", state("l"), phase=FINAL), "PHASE_NOT_SUPPORTED", f"{MEASURE}.phase"),
    ("a sketch", named("approx_count_distinct:any", state("l"), phase=INITIAL), "PHASE_NOT_SUPPORTED", f"{MEASURE}.phase"),
    ("rounded sums", named("sum:fp64", state("x"), phase=INITIAL), "PHASE_NOT_SUPPORTED", f"{MEASURE}.phase"),
    ("merged and rounded", named("avg:fp64", state("floats"), phase=MERGE), "PHASE_NOT_SUPPORTED", f"{MEASURE}.phase"),
    ("distinct", named("sum:i64", state("l"), phase=INITIAL, invocation="distinct"),
     "DISTINCT_NOT_SUPPORTED", f"{MEASURE}.invocation"),
    ("distinct states", named("count:any", state("l"), phase=FINAL, invocation="distinct"),
     "DISTINCT_NOT_SUPPORTED", f"{MEASURE}.invocation"),
    ("a state that is not exact", named("sum:i64", state("l"), phase=INITIAL, options=(option("overflow", "SATURATE"),)),
     "OPTION_VALUE_NOT_SUPPORTED", f"{MEASURE}.options[0].preference"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "code", "path"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG]
)
def test_a_phase_that_does_not_fit_is_refused_at_its_place(
    given: MeasureCall, code: str, path: str
) -> None:
    root = aggregate(read(STATES), (), (given,))
    found = errors_of(root, "m")
    assert [c for c, _ in found] == [code]
    assert found[0][1] == path
    assert codes_of(root, "m", mode="strict")[code] == "error"
