"""Compute joins for which a null comparison counts as a match, such as the anti join of NOT IN.

Plans write NOT IN as an anti join on ``a = b OR (a = b) IS NULL``. Such a condition has no key. The
mark of a mark join on ``a = b`` is not false for the same rows, and that join finds its nulls.
"""

from __future__ import annotations

from substrait_agg.bind.bound import (
    BoundFilter,
    BoundProject,
    BoundRelation,
    Call,
    Column,
    Expr,
    JoinKind,
)
from substrait_agg.bind.context import columns
from substrait_agg.bind.joins.conjunctions import conjunction, conjuncts, disjuncts, is_true
from substrait_agg.bind.joins.keys import split_condition
from substrait_agg.bind.joins.marks import can_be_null, mark_join
from substrait_agg.bind.joins.single_rows import has_one_row, reads_no_table
from substrait_agg.plan.types import BOOL

ALWAYS = BOOL.as_nullable(False)


def null_aware_join(
    kind: JoinKind,
    left: BoundRelation,
    right: BoundRelation,
    residual: Expr | None,
    path: str,
) -> BoundRelation | None:
    """Return a semi, anti or mark join without keys, if its condition has null-aware equalities.

    Returns:
        The relation, or None if the join needs none of this, as it has no such equality or compares
        every row with all of a small input.
    """
    parts = conjuncts(residual)
    if kind not in ("semi", "anti", "mark") or not is_null_aware(residual):
        return None
    others = [part for part in parts if not is_null_aware(part)]
    if kind == "mark" and any(map(can_be_null, others)):
        return None  # the mark is null where these are
    if any(has_one_row(side) or reads_no_table(side) for side in (left, right)):
        return None
    width = len(left.types)
    keys, rest = split_condition(conjunction(map(_without_nulls, parts)), width)
    if not keys:
        return None
    marked = mark_join(left, right, keys, rest, path)
    matches = Call(ALWAYS, "is_not_false", (Column(BOOL, width),))
    shown = columns(left.types)
    if kind == "mark":
        return BoundProject(marked, (*shown, matches), (*left.types, BOOL), path)
    condition = matches if kind == "semi" else Call(BOOL, "not", (Column(BOOL, width),))
    unmatched = BoundFilter(marked, condition, marked.types, path)
    return BoundProject(unmatched, shown, left.types, path)


def is_null_aware(condition: Expr | None) -> bool:
    """Return whether a condition has an equality that counts as true where it is null."""
    return any(_equality_of(part) is not None for part in conjuncts(condition))


def _without_nulls(part: Expr) -> Expr:
    """Return a part of a condition so that it is null where its equality is, and only there."""
    equality = _equality_of(part)
    if equality is not None:
        return equality
    return Call(ALWAYS, "is_true", (part,)) if can_be_null(part) else part


def _equality_of(part: Expr) -> Call | None:
    """Return the equality that a part of a condition counts as true where it is null, or None."""
    if isinstance(part, Call) and part.function == "is_not_false":
        return _as_equality(part.arguments[0])
    if isinstance(part, Call) and part.function == "coalesce" and len(part.arguments) == 2:
        return _as_equality(part.arguments[0]) if is_true(part.arguments[1]) else None
    branches = disjuncts(part)
    equality = next((e for e in map(_as_equality, branches) if e is not None), None)
    if equality is None:
        return None
    tests = [branch for branch in branches if branch != equality]
    tested = {t.arguments[0] for t in tests if isinstance(t, Call) and t.function == "is_null"}
    sides = {side for side in equality.arguments if can_be_null(side)}
    if not tests or len(tested) < len(tests) or tested - {equality, *equality.arguments}:
        return None
    return equality if equality in tested or sides <= tested else None


def _as_equality(condition: Expr) -> Call | None:
    if isinstance(condition, Call) and condition.function == "equal":
        return condition
    return None
