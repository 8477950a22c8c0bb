"""Limit plans that expand: relations that repeat columns, and unions that multiply branches.

A few hundred bytes can repeat "all columns of the input, twice" or "this relation, united with
itself". The size of everything that binding, lowering and explaining build is proportional to the
counts here.
"""

from __future__ import annotations

from typing import Any

from substrait_agg.bind.bound import (
    BoundAggregate,
    BoundFilter,
    BoundProject,
    BoundRelation,
    BoundUnion,
    BoundUnnest,
    Constant,
    Expr,
)
from substrait_agg.bind.rewrite import expressions_of, inputs_of, subexpressions

MAX_COLUMNS = 10_000
"""Maximum number of columns of one relation, including the fields of structs in them."""

MAX_SETS = 10_000
"""Maximum number of grouping sets of one aggregate."""

MAX_PLACED = 1_000_000
"""Maximum number of columns and expression parts of a plan.

The sum goes over all relations, with every union branch expanded.
"""


CHARACTERS = 64
"""Characters or bytes of a constant that count as one part of an expression."""


class PlanLimitExceeded(Exception):
    """The error of a plan that exceeds a limit, with the code and parameters of the problem."""

    def __init__(self, code: str, path: str, **params: object) -> None:
        super().__init__(code)
        self.code = code
        self.path = path
        self.params = params


def too_large(path: str, limit: str) -> PlanLimitExceeded:
    """Return the exception for a plan with more than `limit`."""
    return PlanLimitExceeded("PLAN_TOO_LARGE", path, limit=limit)


def check_width(columns: int, path: str) -> None:
    """Refuse a relation with more than `MAX_COLUMNS` columns.

    Raises:
        PlanLimitExceeded: it has more.
    """
    if columns > MAX_COLUMNS:
        raise too_large(path, f"{MAX_COLUMNS} columns of one relation")


class PlanSizeLimiter:
    """A counter of the columns and expression parts of a plan, with every union branch expanded.

    A relation is counted when it is bound, after its inputs. A shared relation counts once per
    reader.
    """

    def __init__(self) -> None:
        self._counts: dict[int, tuple[int, int]] = {}
        self._kept: list[Any] = []

    def add(self, relation: BoundRelation) -> None:
        """Count a relation whose inputs have been counted.

        Raises:
            PlanLimitExceeded: the plan has more than `MAX_PLACED` columns and parts.
        """
        if id(relation) in self._counts:
            return
        branches, placed = self._count(relation)
        if placed > MAX_PLACED:
            limit = f"{MAX_PLACED} columns and expression parts after all branches are expanded"
            raise too_large(relation.path, limit)
        self._counts[id(relation)] = branches, placed
        self._kept.append(relation)  # keeps the id() of the relation unique

    def _count(self, relation: BoundRelation) -> tuple[int, int]:
        """Return the number of branches into a relation, and the size of the plan up to it."""
        check_width(len(relation.types), relation.path)
        width = 1 + len(relation.types)
        below = [self._of(r) for r in inputs_of(relation)]
        branches, placed = sum(b for b, _ in below), sum(p for _, p in below)
        if isinstance(relation, BoundUnion):
            return branches, placed + width * len(below)
        if not below:
            return 1, width * (1 + len(getattr(relation, "rows", ())))
        linear = isinstance(relation, BoundFilter | BoundProject | BoundUnnest)
        return branches if linear else 1, placed + branches * (width + _size(relation))

    def _of(self, relation: BoundRelation) -> tuple[int, int]:
        self.add(relation)
        return self._counts[id(relation)]


def _size(relation: BoundRelation) -> int:
    """Return the number of parts of the expressions that a relation computes."""
    sets = relation.sets if isinstance(relation, BoundAggregate) else ()
    count = sum(map(len, sets))
    for expression in subexpressions(*expressions_of(relation)):
        count += 1 + _length(expression) // CHARACTERS
        if count > MAX_PLACED:
            break
    return count


def _length(expression: Expr) -> int:
    """Return the number of characters, bytes or elements of a constant."""
    value = expression.value if isinstance(expression, Constant) else None
    return len(value) if isinstance(value, str | bytes | tuple) else 0
