"""Place the conditions of joins where the operators of a plan can evaluate them."""

from __future__ import annotations

from collections.abc import Iterator

from substrait_agg.bind.bound import BoundJoin, BoundRelation
from substrait_agg.bind.deep_stack import deep_call
from substrait_agg.bind.joins.normal_form import normal_form
from substrait_agg.bind.joins.pairs import join_by_pairs
from substrait_agg.bind.rewrite import inputs_of, with_inputs
from substrait_agg.bind.show import show
from substrait_agg.problems import Problems


def place_conditions(root: BoundRelation, problems: Problems) -> BoundRelation:
    """Return the same rows, from joins that evaluate their residual conditions.

    A join operator tests the residual. A join whose residual is not supported
    (`supports_all_values`) becomes one of pairs, or is reported. In the normal form, inner joins
    have ranges only; their other conditions are filters above them.
    """
    return deep_call(_place, root, problems)


def _place(root: BoundRelation, problems: Problems) -> BoundRelation:
    normal = normal_form(root)
    refused = _refused(normal)
    if not refused:
        return root
    results: dict[int, BoundRelation] = {}
    for relation in _relations(normal):
        inputs = tuple(results[id(source)] for source in inputs_of(relation))
        same = all(a is b for a, b in zip(inputs, inputs_of(relation), strict=True))
        placed = relation if same else with_inputs(relation, inputs)
        if id(relation) in refused:
            placed = _pair(placed, problems)
        results[id(relation)] = placed
    return results[id(normal)]


def _refused(root: BoundRelation) -> frozenset[int]:
    """Return the ids of the joins whose residual condition is not supported."""
    joins = [r for r in _relations(root) if isinstance(r, BoundJoin) and r.residual is not None]
    if not joins:
        return frozenset()
    # Plans without such conditions are validated without Arrow.
    from substrait_agg.evaluation.expressions import supports_all_values

    residuals = ((id(join), join.residual) for join in joins)
    return frozenset(i for i, r in residuals if r is not None and not supports_all_values(r))


def _pair(join: BoundRelation, problems: Problems) -> BoundRelation:
    if not isinstance(join, BoundJoin) or join.residual is None:
        return join
    pairs = join_by_pairs(join, join.residual)
    if pairs is None:
        problems.add("JOIN_CONDITION_NOT_SUPPORTED", join.path, condition=show(join.residual))
    return pairs or join


def _relations(root: BoundRelation) -> Iterator[BoundRelation]:
    """Yield every relation once, its inputs before it."""
    seen: set[int] = set()
    waiting = [(root, False)]
    while waiting:
        relation, ready = waiting.pop()
        if ready:
            yield relation
        elif id(relation) not in seen:
            seen.add(id(relation))
            waiting.append((relation, True))
            waiting += ((source, False) for source in reversed(inputs_of(relation)))
