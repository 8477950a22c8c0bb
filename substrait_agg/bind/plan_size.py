"""Limits of a plan that its bytes do not show: columns that relations repeat, and branches that unions multiply.

A few hundred bytes can say "all columns of the input, twice" or "this relation, united with itself" again and again.
Everything that binding, lowering and explaining build is proportional to what is counted here.
"""

from __future__ import annotations

from typing import Any

from substrait_agg.bind.bound import (
    BoundAggregate,
    BoundFilter,
    BoundProject,
    BoundRelation,
    BoundUnion,
    Constant,
    Expr,
)
from substrait_agg.bind.rewrite import parts

MAX_COLUMNS = 10_000
"""Columns of one relation, and the fields of structs in them."""

MAX_SETS = 10_000
"""Grouping sets of one aggregate."""

MAX_PLACED = 1_000_000
"""Columns and parts of expressions of a plan, relation by relation, with every branch of a union followed by itself."""


CHARACTERS = 64
"""Characters or bytes of a constant that count as one part of an expression."""


class PlanLimitExceeded(Exception):
    """Binding stops here: `code` and `params` are those of the problem to report."""

    def __init__(self, code: str, path: str, **params: object) -> None:
        super().__init__(code)
        self.code = code
        self.path = path
        self.params = params


def too_large(path: str, limit: str) -> PlanLimitExceeded:
    """The end of binding for a plan with more than `limit`."""
    return PlanLimitExceeded("PLAN_TOO_LARGE", path, limit=limit)


def check_width(columns: int, path: str) -> None:
    """Refuse a relation with more than `MAX_COLUMNS`.

    Raises:
        Exceeded: it has.
    """
    if columns > MAX_COLUMNS:
        raise too_large(path, f"{MAX_COLUMNS} columns of one relation")


class PlanSizeLimiter:
    """Counts what a plan takes once every branch of its unions stands for itself.

    A relation is counted when it is bound, after its inputs; shared ones are counted wherever they are read.
    """

    def __init__(self) -> None:
        self._counts: dict[int, tuple[int, int]] = {}
        self._kept: list[Any] = []

    def add(self, relation: BoundRelation) -> None:
        """Count a relation whose inputs have been counted.

        Raises:
            Exceeded: more than `MAX_PLACED`.
        """
        if id(relation) in self._counts:
            return
        branches, placed = self._count(relation)
        if placed > MAX_PLACED:
            limit = f"{MAX_PLACED} columns and parts of expressions with every branch written out"
            raise too_large(relation.path, limit)
        self._counts[id(relation)] = branches, placed
        self._kept.append(relation)  # so that its identity is not given to another one

    def _count(self, relation: BoundRelation) -> tuple[int, int]:
        """Branches into a relation, and all that is placed in it and below."""
        check_width(len(relation.types), relation.path)
        width = 1 + len(relation.types)
        if isinstance(relation, BoundUnion):
            below = [self._of(r) for r in relation.inputs]
            return sum(b for b, _ in below), sum(p for _, p in below) + width * len(below)
        source = getattr(relation, "input", None)
        if source is None:
            return 1, width * (1 + len(getattr(relation, "rows", ())))
        branches, placed = self._of(source)
        placed += branches * (width + _size(relation))
        return (1, placed) if isinstance(relation, BoundAggregate) else (branches, placed)

    def _of(self, relation: BoundRelation) -> tuple[int, int]:
        self.add(relation)
        return self._counts[id(relation)]


def _size(relation: BoundRelation) -> int:
    """Parts of the expressions that a relation computes."""
    match relation:
        case BoundFilter(condition=condition):
            return _parts((condition,))
        case BoundProject(expressions=expressions):
            return _parts(expressions)
        case BoundAggregate(keys=keys, measures=measures, sets=sets):
            read = [e for m in measures for e in m.expressions]
            return _parts((*keys, *read)) + sum(map(len, sets))
        case _:
            return 0


def _parts(expressions: tuple[Expr, ...]) -> int:
    waiting, count = list(expressions), 0
    while waiting:
        expression = waiting.pop()
        count += 1 + _length(expression) // CHARACTERS
        if count > MAX_PLACED:
            break
        waiting.extend(parts(expression))
    return count


def _length(expression: Expr) -> int:
    """Characters, bytes or elements of a constant."""
    value = expression.value if isinstance(expression, Constant) else None
    return len(value) if isinstance(value, str | bytes | tuple) else 0
