"""Every problem has a minimal plan that raises it, at a stated place and without other problems."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import substrait_agg
from substrait_agg.functions.aggregates.registry import UserMeasure, register, unregister
from substrait_agg.plan.types import Type
from substrait_agg.problem_kinds import KINDS, MODES, Mode
from substrait_agg.report.problem_pages import FOLDER, GENERATED, PREPARED, example

PLACES: dict[str, str] = json.loads((Path(__file__).parent / "problem_places.json").read_text())
"""Code -> the path at which its example raises it."""

ALSO: dict[str, frozenset[str]] = {
    # Only relations without a root can be too many, and they have no names.
    "ROOT_COUNT": frozenset({"ROOT_NAMES_MISSING"}),
    # A function that goes by arrival is none of the standard's, and has no order.
    "SESSION_ARRIVAL": frozenset({"SIGNATURE_UNKNOWN", "ORDER_MISSING"}),
    # A function without an order goes by arrival.
    "WINDOW_FUNCTION_NOT_SUPPORTED": frozenset({"ORDER_MISSING"}),
    # No extension of the standard has the function, so no signature of it is known.
    "GROUPING_ARGUMENT": frozenset({"SIGNATURE_UNKNOWN"}),
    # The declared signature has the argument that is left out.
    "ARGUMENT_ASSUMED": frozenset({"SIGNATURE_DIFFERS"}),
    # A type of too many digits is what makes the digits of its constant too fine.
    "TIME_TOO_FINE": frozenset({"TIME_DIGITS_NOT_KEPT"}),
    # The problems that are too many.
    "TOO_MANY_PROBLEMS": frozenset({"NULLABILITY_MISSING"}),
}
"""Codes that the example of a code raises besides."""

LARGEST = 2_500
"""Bytes of an example: more is not minimal."""


# --- examples that are made ------------------------------------------------------------------------

NULLABLE = {"nullability": "NULLABILITY_NULLABLE"}
COLUMN = {"selection": {"directReference": {"structField": {"field": 0}}, "rootReference": {}}}


def rooted(relation: dict[str, Any], *shared: dict[str, Any], names: int = 1) -> str:
    root = {"root": {"input": relation, "names": [f"c{i}" for i in range(names)]}}
    relations = [*({"rel": one} for one in shared), root]
    return json.dumps({"version": {"minorNumber": 106}, "relations": relations})


def read(type_: dict[str, Any], columns: int = 1) -> dict[str, Any]:
    names = [f"c{i}" for i in range(columns)]
    struct = {"types": [type_] * columns, "nullability": "NULLABILITY_REQUIRED"}
    schema = {"names": names, "struct": struct}
    return {"read": {"baseSchema": schema, "namedTable": {"names": ["t"]}}}


def many_filters() -> str:
    """As text: the writer of JSON does not go that deep."""
    source = json.dumps(read({"bool": NULLABLE}))
    opened = f'{{"filter": {{"condition": {json.dumps(COLUMN)}, "input": '
    return rooted({}).replace("{}", opened * 1_000 + source + "}}" * 1_000)


def many_references() -> str:
    """Each relation is the union of the one before it with itself."""
    shared = [read({"i64": NULLABLE})]
    for at in range(18):
        inputs = [{"reference": {"subtreeOrdinal": at}}] * 2
        shared.append({"set": {"op": "SET_OP_UNION_ALL", "inputs": inputs}})
    return rooted({"reference": {"subtreeOrdinal": 18}}, *shared)


def many_unsaid_types() -> str:
    return rooted(read({"i64": {}}, 1_001), names=1_001)


def many_cases() -> str:
    matched: dict[str, Any] = COLUMN
    for _ in range(2):
        cases = [{"if": {"i64": str(i)}, "then": {"literal": {"i64": str(i)}}} for i in range(200)]
        matched = {"switchExpression": {"match": matched, "ifs": cases}}
    source = read({"i64": NULLABLE})
    return rooted({"project": {"input": source, "expressions": [matched]}}, names=2)


MADE: dict[str, Callable[[], str]] = {
    "PLAN_TOO_LARGE": many_references,
    "PLAN_TOO_DEEP": many_filters,
    "TOO_MANY_PROBLEMS": many_unsaid_types,
    "EXPRESSION_TOO_LARGE": many_cases,
}


@contextmanager
def broken_measure() -> Iterator[None]:
    def result(_types: tuple[Type, ...]) -> Type:
        raise KeyError("half-life")

    measure = UserMeasure(
        urn="extension:com.example:statistics", names=("half_life",), arguments=(("i64",),),
        result=result, state="ordered", implementation=object(),
    )  # fmt: skip
    register(measure)
    try:
        yield
    finally:
        unregister(measure)


PREPARATIONS = {"USER_MEASURE_FAILED": broken_measure}


def plan_of(code: str) -> bytes:
    text = example(code)
    return (MADE[code]() if text is None else text).encode()


def found_in(code: str, mode: Mode) -> tuple[substrait_agg.Problem, ...]:
    """What validation finds in the example of a code."""
    if code not in PREPARATIONS:
        return substrait_agg.validate(plan_of(code), mode).problems
    with PREPARATIONS[code]():
        return substrait_agg.validate(plan_of(code), mode).problems


def example_codes() -> frozenset[str]:
    """The codes that have a file."""
    folder = files("substrait_agg.report") / FOLDER
    return frozenset(file.name.removesuffix(".json") for file in folder.iterdir())


# --- tests -------------------------------------------------------------------------------------


def test_every_code_has_one_example() -> None:
    """No problem without a plan, no plan without a problem, none both written down and made."""
    assert example_codes() | set(GENERATED) == set(KINDS)
    assert not example_codes() & set(GENERATED)
    assert set(MADE) == set(GENERATED)
    assert set(PREPARATIONS) == set(PREPARED)
    assert set(PLACES) == set(KINDS)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("code", KINDS)
def test_the_example_raises_its_code(code: str, mode: Mode) -> None:
    """With the level of the mode, at its place, and without other problems."""
    found = found_in(code, mode)
    mine = [p for p in found if p.code == code]
    assert [(p.level, p.path) for p in mine] == [(KINDS[code].level(mode), PLACES[code])]
    assert {p.code for p in found} - {code} == ALSO.get(code, frozenset())


@pytest.mark.parametrize("code", KINDS)
def test_the_message_says_what_is_wrong(code: str) -> None:
    """Every field of message and help is filled with something."""
    problem = next(p for p in found_in(code, "lenient") if p.code == code)
    for said, template in (
        (problem.message, KINDS[code].message),
        (problem.help, KINDS[code].help),
    ):
        parts = re.split(r"\{\w+\}", template)
        filled = r"(.*\S.*)".join(map(re.escape, parts))
        # Behind it may stand which producer means it so.
        assert re.fullmatch(f"{filled}(, .+)?", said, re.DOTALL), said
        assert "None" not in said


@pytest.mark.parametrize("code", sorted(example_codes()))
def test_the_example_is_minimal(code: str) -> None:
    assert len(example(code) or "") <= LARGEST


def test_examples_are_told_apart_by_what_they_raise() -> None:
    """An unchanged copy of another example would not document its own code."""
    texts = {code: example(code) for code in example_codes() - set(PREPARED)}
    assert len(set(texts.values())) == len(texts)


def test_the_table_says_why() -> None:
    """Every problem kind has its own reason in whole sentences, with the source of the rule."""
    for kind in KINDS.values():
        assert kind.why.endswith("."), kind.code
        assert "{" not in kind.why, kind.code
    assert len({kind.why for kind in KINDS.values()}) == len(KINDS)
    assert replace(KINDS["OPTION_UNKNOWN"], why="").why == ""
