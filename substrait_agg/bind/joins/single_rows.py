"""Find the joins that pair every row of one input with every row of the other."""

from __future__ import annotations

from collections.abc import Iterator

from substrait_agg.bind.bound import (
    BoundAggregate,
    BoundFetch,
    BoundFilter,
    BoundJoin,
    BoundProject,
    BoundRelation,
    BoundRows,
    Expr,
)
from substrait_agg.bind.context import is_unknown
from substrait_agg.bind.joins.conjunctions import conjuncts
from substrait_agg.bind.rewrite import inputs_of


def has_one_row(relation: BoundRelation) -> bool:
    """Return whether a relation never has more than one row."""
    match relation:
        case BoundAggregate(keys=keys, sets=sets):
            return not any(sets) and len(sets) < 2 if sets else not keys
        case BoundRows(rows=rows):
            return len(rows) < 2
        case BoundFetch(input=source, count=count):
            return (count is not None and count < 2) or has_one_row(source)
        case BoundFilter(input=source) | BoundProject(input=source):
            return has_one_row(source)
        case BoundJoin(left=left, right=right, kind=kind):
            if kind == "full":
                return False
            both = kind in ("inner", "left")
            return has_one_row(left) and (not both or has_one_row(right))
        case _:
            return False


def joins_without_key(root: BoundRelation) -> Iterator[BoundRelation]:
    """Yield the joins that have no key and more than one row on both sides."""
    waiting, seen = [root], set[int]()
    while waiting:
        relation = waiting.pop()
        if id(relation) in seen:
            continue
        seen.add(id(relation))
        keyless = isinstance(relation, BoundJoin) and not relation.keys
        if keyless and not any(map(has_one_row, inputs_of(relation))):
            yield relation
        waiting.extend(reversed(inputs_of(relation)))


def is_known(root: BoundRelation) -> bool:
    """Return whether no expression that can decide about keys has a reported problem."""
    waiting, seen = [root], set[int]()
    while waiting:
        relation = waiting.pop()
        if id(relation) in seen:
            continue
        seen.add(id(relation))
        if is_unknown(*_deciding(relation)):
            return False
        waiting.extend(inputs_of(relation))
    return True


def _deciding(relation: BoundRelation) -> tuple[Expr, ...]:
    match relation:
        case BoundFilter(condition=condition):
            return conjuncts(condition)
        case BoundProject(expressions=expressions):
            return expressions
        case BoundJoin():
            return tuple(p for e in relation.expressions for p in conjuncts(e))
        case _:
            return ()
