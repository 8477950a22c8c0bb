"""Check that the operators of a plan can evaluate the conditions that they test themselves."""

from __future__ import annotations

from collections.abc import Iterator

from substrait_agg.bind.bound import BoundJoin, BoundRelation, Expr
from substrait_agg.bind.deep_stack import deep_call
from substrait_agg.bind.joins.normal_form import normal_form
from substrait_agg.bind.rewrite import inputs_of
from substrait_agg.bind.show import show
from substrait_agg.problems import Problems


def check_conditions(root: BoundRelation, problems: Problems) -> None:
    """Report the joins whose residual condition is not supported (`supports_all_values`).

    A join operator tests the residual. In the normal form, inner joins have ranges only; their other
    conditions are filters above them.
    """
    conditions = deep_call(_residuals, root)
    if not conditions:
        return
    # Plans without such conditions are validated without Arrow.
    from substrait_agg.evaluation.expressions import supports_all_values

    for path, condition in conditions:
        if not supports_all_values(condition):
            problems.add("JOIN_CONDITION_NOT_SUPPORTED", path, condition=show(condition))


def _residuals(root: BoundRelation) -> tuple[tuple[str, Expr], ...]:
    return tuple(
        (relation.path, relation.residual)
        for relation in _relations(normal_form(root))
        if isinstance(relation, BoundJoin) and relation.residual is not None
    )


def _relations(root: BoundRelation) -> Iterator[BoundRelation]:
    """Yield every relation once, inputs first in the order of the plan."""
    seen: set[int] = set()
    todo = [root]
    while todo:
        relation = todo.pop()
        if id(relation) not in seen:
            seen.add(id(relation))
            yield relation
            todo += reversed(inputs_of(relation))
