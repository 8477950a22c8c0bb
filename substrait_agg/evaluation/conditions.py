"""Check that the operators of a plan can evaluate the conditions that they test themselves."""

from __future__ import annotations

from collections.abc import Iterator

from substrait_agg.bind.bound import BoundJoin, BoundRelation
from substrait_agg.bind.deep_stack import deep_call
from substrait_agg.bind.joins.normal_form import normal_form
from substrait_agg.bind.rewrite import inputs_of
from substrait_agg.bind.show import show
from substrait_agg.evaluation.expressions import supports
from substrait_agg.problems import Problems


def check_conditions(root: BoundRelation, problems: Problems) -> None:
    """Report the joins whose residual condition is not supported (`expressions.supports`).

    A join operator tests the residual of every join except an inner one, which is a filter above
    the join in the normal form.
    """
    for join in deep_call(_unsupported, root):
        condition = "" if join.residual is None else show(join.residual)
        problems.add("JOIN_CONDITION_NOT_SUPPORTED", join.path, condition=condition)


def _unsupported(root: BoundRelation) -> tuple[BoundJoin, ...]:
    return tuple(
        relation
        for relation in _relations(normal_form(root))
        if isinstance(relation, BoundJoin)
        and relation.residual is not None
        and not supports(relation.residual)
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
