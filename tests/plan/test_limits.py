"""Deep and large plans: real ones are read, hostile ones end in a problem and not in a traceback."""

from __future__ import annotations

import pytest

from substrait_agg.plan import MAX_DEPTH
from substrait_agg.plan import model as m
from substrait_agg.plan.messages import jsonplan, wire
from tests.calls import calls_of
from tests.plan.helpers import counted, length_delimited, read, unreadable

CALLS = 600
# Relations on the way to the project's expression, and the messages of one call.
PER_CALL = 3


def deep_call(levels: int) -> bytes:
    """A call inside a call: an ``Expression`` message."""
    inner = length_delimited(2, length_delimited(1, length_delimited(2, b"")))
    for _ in range(levels):
        inner = length_delimited(3, length_delimited(4, length_delimited(3, inner)))
    return inner


def deep_call_json(levels: int) -> str:
    opening, closing = '{"scalarFunction": {"arguments": [{"value": ', "}]}}"
    column = '{"selection": {"directReference": {"structField": {}}}}'
    return opening * levels + column + closing * levels


def in_project(expression: bytes) -> bytes:
    return length_delimited(
        3, length_delimited(1, length_delimited(7, length_delimited(3, expression)))
    )


def in_project_json(expression: str) -> str:
    return '{"relations": [{"rel": {"project": {"expressions": [' + expression + "]}}}]}"


def depth_of(plan: m.DecodedPlan) -> int:
    assert isinstance(plan.root, m.ProjectRel)
    depth, found = 0, plan.root.expressions[0]
    while isinstance(found, m.ScalarCall):
        depth, found = depth + 1, found.arguments[0]  # type: ignore[assignment]
    assert isinstance(found, m.FieldRef)
    return depth


def test_deep_expressions_are_read() -> None:
    """protobuf's own parsers stop at 100 levels of messages, about 30 calls."""
    assert depth_of(read(in_project(deep_call(CALLS)))[0]) == CALLS
    assert depth_of(read(in_project_json(deep_call_json(CALLS)))[0]) == CALLS


def test_long_chains_of_relations_are_read() -> None:
    relation = length_delimited(1, b"")
    for _ in range(900):
        relation = length_delimited(2, length_delimited(2, relation))
    plan, _ = read(length_delimited(3, length_delimited(1, relation)))
    depth, found = 0, plan.root
    while isinstance(found, m.FilterRel):
        depth, found = depth + 1, found.input
    assert depth == 900


@pytest.mark.parametrize("as_json", [False, True])
def test_the_limit_of_depth(as_json: bool) -> None:
    levels = MAX_DEPTH // PER_CALL
    for too_deep in (levels, 20 * levels):
        content = (
            in_project_json(deep_call_json(too_deep))
            if as_json
            else in_project(deep_call(too_deep))
        )
        problem = unreadable(content)
        assert problem.code == "PLAN_TOO_DEEP"
        assert str(MAX_DEPTH) in problem.message
        assert len(problem.path) < 300


@pytest.mark.parametrize(("levels", "fits"), [(90, True), (110, False), (900, False)])
def test_types_and_constants_have_a_limit_of_their_own(levels: int, fits: bool) -> None:
    """They are compared and shown by recursion, so they stay far below what expressions may have."""
    type_ = length_delimited(7, b"")
    literal = counted(5, 1)
    for _ in range(levels):
        type_ = length_delimited(27, length_delimited(1, type_))
        literal = length_delimited(30, length_delimited(1, literal))
    table = length_delimited(
        1,
        length_delimited(
            2, length_delimited(1, b"c") + length_delimited(2, length_delimited(1, type_))
        )
        + length_delimited(7, length_delimited(1, b"t")),
    )
    plan, found = read(length_delimited(3, length_delimited(1, table)))
    assert isinstance(plan.root, m.ReadRel)
    assert str(plan.root.types[0]).count("list") == min(levels, 100)
    assert ("VALUE_INVALID" in {p.code for p in found}) is not fits
    plan, found = read(in_project(length_delimited(1, literal)))
    assert isinstance(plan.root, m.ProjectRel)
    assert isinstance(plan.root.expressions[0], m.Literal) is fits
    assert [p.code for p in found].count("VALUE_INVALID") == (not fits)


def test_deep_json_that_is_no_plan() -> None:
    assert unreadable('{"a": ' * 100_000).code == "PLAN_TOO_DEEP"
    assert unreadable("{" + '"a": [' + "[" * 100_000).code == "PLAN_TOO_DEEP"


def test_deep_groups_are_skipped() -> None:
    """A group, an encoding that Substrait never used, is one unknown field at any depth."""
    levels = 50_000
    table = length_delimited(
        3, length_delimited(1, length_delimited(1, length_delimited(7, length_delimited(1, b"t"))))
    )
    _, found = read(b"\x23" * levels + b"\x24" * levels + table)
    assert ("UNKNOWN_FIELD", "advanced_extensions") in [(p.code, p.path) for p in found]


def test_shared_relations_that_multiply_are_refused() -> None:
    """Thirty relations that each refer twice to the one before are refused: written out they are a
    thousand million.
    """
    plan = length_delimited(3, length_delimited(1, length_delimited(1, b"")))
    for ordinal in range(30):
        union = length_delimited(2, length_delimited(21, counted(1, ordinal))) * 2 + counted(3, 6)
        plan += length_delimited(3, length_delimited(1, length_delimited(8, union)))
    assert unreadable(plan).code == "PLAN_TOO_LARGE"


def test_chains_of_shared_relations_count_as_deep() -> None:
    plan = length_delimited(3, length_delimited(1, length_delimited(1, b"")))
    for ordinal in range(1500):
        plan += length_delimited(
            3,
            length_delimited(
                1,
                length_delimited(2, length_delimited(2, length_delimited(21, counted(1, ordinal)))),
            ),
        )
    assert unreadable(plan).code == "PLAN_TOO_DEEP"


def test_many_deep_places_are_refused_before_their_paths_fill_the_memory() -> None:
    wide = length_delimited(3, length_delimited(2, b"")) * 100_000
    inner = length_delimited(7, wide)
    for _ in range(900):
        inner = length_delimited(2, length_delimited(2, inner))
    assert unreadable(length_delimited(3, length_delimited(1, inner))).code == "PLAN_TOO_DEEP"


@pytest.mark.parametrize("as_json", [False, True])
def test_too_many_values_are_refused_before_all_are_read(
    as_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work to refuse too many values does not depend on their number."""
    for module in (jsonplan, wire):
        monkeypatch.setattr(module, "MAX_VALUES", 1_000)

    def refused(count: int) -> None:
        numbers = "0," * count
        mapping = length_delimited(2, length_delimited(1, b"\x01" * count))
        binary = length_delimited(
            3, length_delimited(1, length_delimited(7, length_delimited(1, mapping)))
        )
        content = f'{{"relations": [{numbers}0]}}' if as_json else binary
        assert unreadable(content).code == "PLAN_TOO_LARGE"

    refused(2_000)  # what is imported or cached at the first use
    assert calls_of(lambda: refused(2_000)) == calls_of(lambda: refused(200_000))
