"""Find the keys of joins: equalities between an expression of each input."""

from __future__ import annotations

from substrait_agg.bind.bound import BoundJoin, BoundRelation, Call, Expr, JoinKey, JoinKind
from substrait_agg.bind.context import Schema, is_keyable
from substrait_agg.bind.joins.conjunctions import (
    EQUALITIES,
    conjunction,
    conjuncts,
    equality_of,
    sides_of,
)
from substrait_agg.bind.rewrite import shift_columns
from substrait_agg.plan.types import BOOL, Type


def make_join(
    kind: JoinKind,
    left: BoundRelation,
    right: BoundRelation,
    keys: tuple[JoinKey, ...],
    residual: Expr | None,
    path: str,
) -> BoundJoin:
    """Return a join with the columns that its kind gives it. Repeated keys are left out."""
    types = join_types(kind, left.types, right.types)
    return BoundJoin(left, right, kind, tuple(dict.fromkeys(keys)), residual, types, path)


def join_types(kind: JoinKind, left: Schema, right: Schema) -> Schema:
    """Return the column types of a join."""
    match kind:
        case "inner":
            return (*left, *right)
        case "left" | "single":
            return (*left, *map(Type.as_nullable, right))
        case "full":
            return (*map(Type.as_nullable, left), *map(Type.as_nullable, right))
        case "semi" | "anti":
            return left
        case "mark":
            return (*left, BOOL)


def split_condition(condition: Expr | None, width: int) -> tuple[tuple[JoinKey, ...], Expr | None]:
    """Split the condition of a join into keys and the residual.

    Args:
        condition: a condition over the columns of both inputs, or None.
        width: number of columns of the left input.
    """
    keys: list[JoinKey] = []
    rest: list[Expr] = []
    for part in conjuncts(condition):
        key = key_of(part, width)
        if key is None:
            rest.append(part)
        else:
            keys.append(key)
    return tuple(keys), conjunction(rest)


def key_of(condition: Expr, width: int) -> JoinKey | None:
    """Return the key that a comparison of both inputs is, or None if it is none."""
    equality = equality_of(condition)
    if equality is None:
        return None
    sides = equality.arguments
    if {sides_of(side, width) for side in sides} != {frozenset({"left"}), frozenset({"right"})}:
        return None
    one, other = sides if "left" in sides_of(sides[0], width) else reversed(sides)
    if not (one.type.same_kind(other.type) and is_comparable(one.type)):
        return None
    return JoinKey(one, shift_columns(other, -width), EQUALITIES[equality.function])


def as_condition(key: JoinKey, left: Expr, right: Expr) -> Call:
    """Return the comparison that a key makes, of the expressions `left` and `right`."""
    if key.null_safe:
        return Call(BOOL.as_nullable(False), "is_not_distinct_from", (left, right))
    nullable = left.type.nullable or right.type.nullable
    return Call(BOOL.as_nullable(nullable), "equal", (left, right))


def is_comparable(type_: Type) -> bool:
    """Return whether values of a type can be join keys: columns of it exist, and it has no map."""
    inner = all(is_comparable(child) for child in type_.children)
    return is_keyable(type_) and not type_.has_map() and inner
