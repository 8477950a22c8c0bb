"""Split conditions into the parts that all have to be true, and put such parts together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from substrait_agg.bind.bound import Call, Constant, Expr
from substrait_agg.bind.rewrite import columns_in
from substrait_agg.plan.types import BOOL

TRUE = Constant(BOOL.as_nullable(False), True)


def conjuncts(condition: Expr | None) -> tuple[Expr, ...]:
    """Return the parts of a condition that are joined with AND; none for no condition."""
    parts = () if condition is None else _operands("and", condition)
    return tuple(part for part in parts if not is_true(part))


def conjunction(parts: Iterable[Expr]) -> Expr | None:
    """Join conditions with AND; None for no conditions."""
    return _join("and", tuple(parts))


def disjunction(parts: Iterable[Expr]) -> Expr | None:
    """Join conditions with OR; None for no conditions."""
    return _join("or", tuple(parts))


def _join(function: str, parts: tuple[Expr, ...]) -> Expr | None:
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


def factor_out(condition: Expr | None) -> tuple[Expr, ...]:
    """Return the parts of a condition that are joined with AND, also those common to all of an OR.

    ``(a AND b) OR (a AND c)`` has the parts ``a`` and ``b OR c``. ``x = y OR (x IS NULL AND y IS
    NULL)`` is ``x IS NOT DISTINCT FROM y``.
    """
    return tuple(dict.fromkeys(p for part in conjuncts(condition) for p in _factor_part(part)))


EQUALITIES = {"equal": False, "is_not_distinct_from": True}
"""Comparison of a key -> whether two nulls are equal."""


def _factor_part(part: Expr) -> tuple[Expr, ...]:
    branches = disjuncts(part)
    if len(branches) < 2:
        return (part,)
    parts = [factor_out(branch) for branch in branches]
    common = tuple(p for p in parts[0] if all(p in others for others in parts[1:]))
    rest = [[p for p in branch if p not in common] for branch in parts]
    if not common:
        return (_null_safe(branches) or part,)
    if not all(rest):
        return common  # a branch has no other part, so the OR is as wide as the common parts
    other = disjunction(conjunction(branch) or TRUE for branch in rest)
    return common if other is None else (*common, _null_safe(disjuncts(other)) or other)


def disjuncts(condition: Expr) -> tuple[Expr, ...]:
    """Return the alternatives of a condition that are joined with OR."""
    return tuple(_operands("or", condition))


def _operands(function: str, condition: Expr) -> Iterator[Expr]:
    """Yield the operands of nested calls of a function, in order."""
    waiting = [condition]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Call) and part.function == function:
            waiting.extend(reversed(part.arguments))
        else:
            yield part


def _null_safe(branches: tuple[Expr, ...]) -> Expr | None:
    """Return the null-safe comparison that two alternatives amount to, or None."""
    if len(branches) != 2:
        return None
    equal = next((b for b in branches if isinstance(b, Call) and b.function == "equal"), None)
    nulls = next((conjuncts(b) for b in branches if b is not equal), ())
    tested = {p.arguments[0] for p in nulls if isinstance(p, Call) and p.function == "is_null"}
    if equal is None or len(nulls) != 2 or tested != set(equal.arguments):
        return None
    return Call(BOOL.as_nullable(False), "is_not_distinct_from", equal.arguments)


def equality_of(condition: Expr) -> Call | None:
    """Return the comparison that is a key of a join if a condition is one; None for others.

    ``x = y OR (is_nan(x) AND is_nan(y))`` is ``x = y`` there: in keys, NaN equals NaN.
    """
    branches = disjuncts(condition)
    equal = next((b for b in branches if isinstance(b, Call) and b.function in EQUALITIES), None)
    if equal is None or len(branches) == 1:
        return equal
    tests = tuple(p for b in branches if b is not equal for p in conjuncts(b))
    tested = [p.arguments[0] for p in tests if isinstance(p, Call) and p.function == "is_nan"]
    same = len(branches) == 2 and len(tests) == 2 and set(tested) == set(equal.arguments)
    return equal if same and equal.function == "equal" else None
