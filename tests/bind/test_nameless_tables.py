"""Relations over tables without a name: the name is what is reported."""

from __future__ import annotations

import json

import pytest

import substrait_agg as sa
from substrait_agg.problem_kinds import MODES, Mode
from tests.e2e.plans import COMPARISON, Builder, Json, column, joined, literal, read

T = {"a": "i64"}
NAMELESS: Json = {"read": {**read("t", T)["read"], "namedTable": {"names": []}}}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["cross", "inner", "left_mark", "nestedLoopJoin"])
@pytest.mark.parametrize("nameless_left", [False, True])
def test_a_join_without_a_key_of_a_table_without_a_name(
    kind: str, nameless_left: bool, mode: Mode
) -> None:
    b = Builder()
    sides = (NAMELESS, read("u", T)) if nameless_left else (read("u", T), NAMELESS)
    condition = b.call("gt:any_any", COMPARISON, column(0), column(1), output="bool")
    body: Json = {"left": sides[0], "right": sides[1]}
    if kind == "cross":
        relation: Json = {"cross": body}
    elif kind == "nestedLoopJoin":
        join = {**body, "type": "JOIN_TYPE_INNER", "expression": literal("boolean", True)}
        relation = {"nestedLoopJoin": join}
    else:
        relation = joined(kind, *sides, condition)
    names = ("a", "b")
    plan = json.dumps(json.loads(b.plan(relation, *names))).encode()
    assert "TABLE_NAME_MISSING" in [p.code for p in sa.validate(plan, mode).problems]
