"""A plan for each scalar case, and what binding makes of it."""

from __future__ import annotations

from dataclasses import dataclass

from substrait_agg.api import Plan
from substrait_agg.bind.bound import BoundProject, Expr
from substrait_agg.plan.types import Type
from tests.conformance.cases import Call, Case, Literal
from tests.conformance.declared_functions import signature_of
from tests.conformance.messages import Declarations, Json

_ROW = {
    "read": {
        "baseSchema": {
            "names": ["nothing"],
            "struct": {
                "types": [{"i32": {"nullability": "NULLABILITY_REQUIRED"}}],
                "nullability": "NULLABILITY_REQUIRED",
            },
        },
        "namedTable": {"names": ["t"]},
    }
}


@dataclass(frozen=True, slots=True)
class Bound:
    """A case after validation: its expression, or the codes of the errors it was refused with."""

    case: Case
    expression: Expr | None
    codes: tuple[str, ...]


def scalar_plan(case: Case, call: Call, output: Type | None) -> str:
    """SELECT the call FROM t."""
    declarations = Declarations()
    options = case.options if call is case.call else ()
    body = declarations.function(call, signature_of(case), output, options)
    project: Json = {
        "project": {
            "common": {"emit": {"outputMapping": [1]}},
            "input": _ROW,
            "expressions": [{"scalarFunction": body}],
        }
    }
    return declarations.plan(project, ["result"])


def bind_case(case: Case) -> Bound:
    """Validate the plan of a case as any plan is."""
    value = case.expected.value
    output = value.type if isinstance(value, Literal) else None
    checked = Plan(case.text, scalar_plan(case, case.call, output)).check()
    if checked.bound is None:
        codes = {p.code for p in checked.problems if p.level == "error"}
        return Bound(case, None, tuple(sorted(codes)))
    root = checked.bound.root
    if not isinstance(root, BoundProject):
        message = f"{case.text} was bound to {root}"
        raise TypeError(message)
    return Bound(case, root.expressions[0], ())
