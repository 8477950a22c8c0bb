"""Split conditions into the parts that all have to be true, and put such parts together."""

from __future__ import annotations

from collections.abc import Iterable

from substrait_agg.bind.bound import Call, Constant, Expr
from substrait_agg.bind.rewrite import columns_in
from substrait_agg.plan.types import BOOL

TRUE = Constant(BOOL.as_nullable(False), True)


def conjuncts(condition: Expr | None) -> tuple[Expr, ...]:
    """Return the parts of a condition that are joined with AND; none for no condition."""
    parts: list[Expr] = []
    waiting = [] if condition is None else [condition]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Call) and part.function == "and":
            waiting.extend(reversed(part.arguments))
        elif not is_true(part):
            parts.append(part)
    return tuple(parts)


def conjunction(parts: Iterable[Expr]) -> Expr | None:
    """Join conditions with AND; None for no conditions."""
    return _joined("and", tuple(parts))


def disjunction(parts: Iterable[Expr]) -> Expr | None:
    """Join conditions with OR; None for no conditions."""
    return _joined("or", tuple(parts))


def _joined(function: str, parts: tuple[Expr, ...]) -> Expr | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    return Call(BOOL.as_nullable(any(p.type.nullable for p in parts)), function, parts)


def is_true(expression: Expr) -> bool:
    """Return whether an expression is the constant true."""
    return isinstance(expression, Constant) and expression.value is True


def sides_of(expression: Expr, width: int) -> frozenset[str]:
    """Return which sides of a join an expression reads: ``left``, ``right``, both or none.

    Args:
        expression: an expression over the columns of both inputs.
        width: number of columns of the left input.
    """
    return frozenset("left" if c.ordinal < width else "right" for c in columns_in(expression))
