"""What a checkpoint says of the operators of its plan, for people: `PLAN_DIFFERS` names what is different."""

from __future__ import annotations

from substrait_agg.commit.document import Described
from substrait_agg.flow.explain import explain_flow
from substrait_agg.flow.explain_text import key_text, measure_text, step_text
from substrait_agg.flow.explain_tree import Input, Measure, Operator
from substrait_agg.flow.identity import identities
from substrait_agg.flow.nodes import Flow


def described(flow: Flow) -> tuple[Described, ...]:
    """Every operator in the words of `explain`."""
    plan = explain_flow(flow)
    pairs = zip(plan.operators, identities(flow), strict=True)
    return tuple(
        Described(
            tuple(map(_input, operator.inputs)),
            (*map(key_text, operator.keys), *_sets(operator)),
            tuple(map(_measure, operator.measures)),
            identity.measures,
        )
        for operator, identity in pairs
    )


def _sets(operator: Operator) -> list[str]:
    return [f"grouping set ({', '.join(s.keys)})" for s in operator.sets]


def _measure(measure: Measure) -> str:
    condition = "" if measure.filter is None else f" FILTER {measure.filter}"
    return measure_text(measure) + condition


def _input(branch: Input) -> str:
    """The origin and the filters; columns that are only passed on come and go with measures."""
    place = {
        "table": f"table {branch.table}",
        "rows": f"{branch.rows} rows written in the plan",
        "operator": f"operator {branch.operator}",
    }[branch.kind]
    filters = [step_text(step) for step in branch.steps if step.kind == "filter"]
    return ", ".join([place, *filters])
