"""Set operations: output types by the table of the specification, and refused forms."""

from __future__ import annotations

from typing import get_args

import pytest

from substrait_agg.bind.bound import BoundSetOperation, BoundUnion
from substrait_agg.explanation import explain_flow
from substrait_agg.explanation.text import plan_text
from substrait_agg.flow.passes.lower import lower
from substrait_agg.plan.model import ReadRel, SetOperationKind, SetRel
from substrait_agg.plan.types import FP64, I64, STRING, Type
from substrait_agg.problem_kinds import MODES, Mode
from tests.bind.build import ROOT, bound, codes_of, errors_of, problems_of, read

R, N = I64.as_nullable(False), I64
INPUTS = ((R, R, R, R, N, N, N, N), (R, R, N, N, R, R, N, N), (R, N, R, N, R, N, R, N))
OUTPUTS: dict[SetOperationKind, tuple[Type, ...]] = {
    "minus_primary": (R, R, R, R, N, N, N, N),
    "minus_primary_all": (R, R, R, R, N, N, N, N),
    "minus_multiset": (R, R, R, R, N, N, N, N),
    "intersection_primary": (R, R, R, R, R, N, N, N),
    "intersection_multiset": (R, R, R, R, R, R, R, N),
    "intersection_multiset_all": (R, R, R, R, R, R, R, N),
    "union_distinct": (R, N, N, N, N, N, N, N),
    "union_all": (R, N, N, N, N, N, N, N),
}
"""Output Type Derivation Examples."""


def table(types: tuple[Type, ...], name: str = "t") -> ReadRel:
    return read({f"c{i}": type_ for i, type_ in enumerate(types)}, table=(name,))


def operation(kind: SetOperationKind, *inputs: ReadRel) -> SetRel:
    return SetRel(inputs, None, f"{ROOT}.set", kind)


@pytest.mark.parametrize("kind", get_args(SetOperationKind))
def test_nullability_is_that_of_the_specification(kind: SetOperationKind) -> None:
    made = bound(operation(kind, *map(table, INPUTS)), *"abcdefgh").root
    assert isinstance(made, BoundUnion if kind == "union_all" else BoundSetOperation)
    assert made.types == OUTPUTS[kind]


def test_nulls_inside_a_column_are_those_of_the_rows_that_are_returned() -> None:
    """A union has the rows of all inputs, a minus and an intersection those of the primary one."""
    sure, unsure = (Type("list", children=(inner,)) for inner in (R, N))
    for kind, inner in (("union_distinct", N), ("minus_primary", R), ("intersection_multiset", R)):
        made = bound(operation(kind, table((sure,)), table((unsure,))), "a").root  # type: ignore[arg-type]
        assert made.types[0].children == (inner,)


def test_the_operation_and_the_order_of_inputs_are_part_of_the_identity() -> None:
    one, other = table((N,), "t"), table((N,), "u")
    prints = {
        bound(operation(kind, *inputs), "a").fingerprint
        for kind in get_args(SetOperationKind)
        for inputs in ((one, other), (other, one), (one, other, other))
    }
    assert len(prints) == 3 * len(get_args(SetOperationKind))


@pytest.mark.parametrize("kind", get_args(SetOperationKind))
def test_inputs_have_the_same_types(kind: SetOperationKind) -> None:
    given = operation(kind, table((N, STRING)), table((N, STRING)), table((N, FP64)))
    assert errors_of(given, "a", "b") == [("UNION_TYPES_DIFFER", f"{ROOT}.set.inputs[2]")]
    given = operation(kind, table((N, STRING)), table((N,)))
    assert errors_of(given, "a", "b") == [("UNION_TYPES_DIFFER", f"{ROOT}.set.inputs[1]")]


@pytest.mark.parametrize("kind", get_args(SetOperationKind))
@pytest.mark.parametrize("mode", MODES)
def test_one_input_is_a_union_of_one_or_nothing(kind: SetOperationKind, mode: Mode) -> None:
    found = problems_of(operation(kind, table((N,))), "a", mode=mode)
    united = kind.startswith("union")
    level = "error" if mode == "strict" or not united else "info"
    code = "SET_ONE_INPUT" if united else "SET_SECONDARY_MISSING"
    told = [(p.code, p.level) for p in found if p.code != "SET_COPIES_UNCLEAR"]
    assert told == [(code, level)]
    assert kind.replace("_", " ") in next(p.message for p in found if p.code == code)


def test_rows_of_values_without_an_order_cannot_be_compared() -> None:
    compound = Type("interval_compound", params=(6,))
    given = operation("union_distinct", table((compound,)), table((compound,)))
    assert "KEY_TYPE_NOT_SUPPORTED" in codes_of(given, "a")
    assert "KEY_TYPE_NOT_SUPPORTED" not in codes_of(operation("union_all", *given.inputs), "a")  # type: ignore[arg-type]


def test_a_relation_that_reads_itself_twice_again_and_again_is_too_large() -> None:
    """Every reader of a shared relation counts."""
    shared = operation("union_distinct", table((N,)), table((N,)))
    for _ in range(25):
        shared = operation("minus_primary", shared, shared)  # type: ignore[arg-type]
    found = codes_of(shared, "a")
    del shared  # its text, which pytest writes of a failure, has no end
    assert found == {"PLAN_TOO_LARGE": "error"}


def test_set_operations_may_be_nested_deeply() -> None:
    deep = operation("union_distinct", table((N,)), table((N,)))
    for _ in range(300):
        deep = operation("minus_primary_all", deep, table((N,)))  # type: ignore[arg-type]
    flow = lower(bound(deep, "a"))
    assert len(flow.operators) == 301
    assert "operator 300: set operation" in plan_text(explain_flow(flow))
