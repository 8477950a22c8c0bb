"""Plans for the tests of the decode stage: as JSON values, and as protobuf written by hand."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from substrait_agg.errors import PlanUnreadable
from substrait_agg.plan import DecodedPlan, decode
from substrait_agg.plan import model as m
from substrait_agg.problems import Problem, Problems

PLANS = Path(__file__).parents[2] / "plans"
SAMPLES = sorted(path for folder in ("samples", "tpch") for path in (PLANS / folder).rglob("*.bin"))
"""Plans of real producers; each has its JSON beside it."""

Json = dict[str, Any]


def read(source: Any, mode: Any = "lenient", root: str = "") -> tuple[DecodedPlan, list[Problem]]:
    """Decode and hand back the problems beside the plan; a dict is written as JSON first."""
    problems = Problems(mode)
    text = json.dumps(source) if isinstance(source, dict) else source
    return decode(text, problems, root), problems.items


def meaning(plan: DecodedPlan) -> DecodedPlan:
    """The plan without its original bytes."""
    return replace(plan, raw=b"")


def unreadable(source: Any) -> Problem:
    """The problem for which `source` cannot be decoded at all, which is the last of them."""
    problems = Problems()
    with pytest.raises(PlanUnreadable) as refusal:
        decode(source, problems)
    assert refusal.value.problems == tuple(problems.items)
    return refusal.value.problems[-1]


def codes(found: list[Problem]) -> list[tuple[str, str]]:
    """Code and path of every problem."""
    return [(p.code, p.path) for p in found]


# --- JSON ------------------------------------------------------------------------------------


def column(ordinal: int) -> Json:
    """A reference to a column."""
    return {
        "selection": {
            "direct_reference": {"struct_field": {"field": ordinal}},
            "root_reference": {},
        }
    }


def value(expression: Json) -> Json:
    """A function argument."""
    return {"value": expression}


I32 = {"i32": {"nullability": "NULLABILITY_REQUIRED"}}
BOOL = {"bool": {"nullability": "NULLABILITY_REQUIRED"}}


def table(*types: Json, names: list[str] | None = None) -> Json:
    """A read of table ``t`` with one column per type."""
    columns = names or [f"c{i}" for i in range(len(types))]
    struct = {"types": list(types), "nullability": "NULLABILITY_REQUIRED"}
    schema = {"names": columns, "struct": struct}
    return {"read": {"base_schema": schema, "named_table": {"names": ["t"]}}}


def plan_of(relation: Json, **others: Any) -> Json:
    """A plan with `relation` as its root; `others` are fields of the plan."""
    return {
        "version": {"minor_number": 80},
        "relations": [{"root": {"input": relation, "names": ["a"]}}],
        **others,
    }


def function(anchor: int, name: str, **others: Any) -> Json:
    """A declaration of a function."""
    return {"extension_function": {"function_anchor": anchor, "name": name, **others}}


def aggregate(**fields: Any) -> Json:
    """An aggregate over a table of two integers; `fields` are those of the relation."""
    return {"aggregate": {"input": table(I32, I32), **fields}}


def project(*made: Json) -> Json:
    """A project over a table of two integers."""
    return {"project": {"input": table(I32, I32), "expressions": list(made)}}


def decoded_expression(expression: Json, **others: Any) -> tuple[m.Expression, list[Problem]]:
    """What one expression is decoded to, and the problems."""
    plan, found = read(plan_of(project(copy.deepcopy(expression)), **others))
    assert isinstance(plan.root, m.ProjectRel)
    return plan.root.expressions[0], found


def decoded_aggregate(source: Any) -> tuple[m.AggregateRel, list[Problem]]:
    """The aggregate that is the root of a plan, and the problems."""
    plan, found = read(source)
    assert isinstance(plan.root, m.AggregateRel)
    return plan.root, found


# --- protobuf by hand ------------------------------------------------------------------------


def varint(number: int) -> bytes:
    """A number in the variable-length encoding."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def length_delimited(number: int, content: bytes) -> bytes:
    """Field `number` with a message, a text or bytes."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def counted(number: int, amount: int) -> bytes:
    """Field `number` with an integer."""
    return varint(number << 3) + varint(amount)
