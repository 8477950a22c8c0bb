"""Compute the condition of an outer, semi, anti, mark or single join above an inner join.

Whether a row has a match depends on the values alone that keys and condition read of it. So the
different ones of these values are joined with the rows of the other input, the condition filters
these pairs, and the rows of the join find their matches in them by these values.
"""

from __future__ import annotations

from collections.abc import Iterable

from substrait_agg.bind.bound import (
    BoundAggregate,
    BoundFilter,
    BoundJoin,
    BoundProject,
    BoundRelation,
    BoundUnion,
    Column,
    Constant,
    Expr,
    JoinKey,
)
from substrait_agg.bind.context import columns
from substrait_agg.bind.joins.conjunctions import TRUE
from substrait_agg.bind.joins.keys import is_comparable, make_join
from substrait_agg.bind.rewrite import columns_in, renumber, shift_columns

Exprs = tuple[Expr, ...]


def join_by_pairs(join: BoundJoin, condition: Expr) -> BoundRelation | None:
    """Return the rows of a join whose residual condition a filter tests.

    Returns:
        The relation, or None if keys or condition read columns that cannot be keys.
    """
    width, full = len(join.left.types), join.kind == "full"
    left = _values(join.left, 0, (*(key.left for key in join.keys), condition))
    shifted = (shift_columns(key.right, width) for key in join.keys)
    right = _values(join.right, width, (*shifted, condition))
    if not all(is_comparable(value.type) for value in (*left, *(right if full else ()))):
        return None
    pairs = _pair_rows(join, left, condition)
    matched = _match(join, left, pairs)
    if not full:
        return matched
    keys = tuple(JoinKey(v, shift_columns(v, len(left)), null_safe=True) for v in right)
    alone = make_join("anti", join.right, pairs, keys, None, join.path)
    nulls = (Constant(type_, None) for type_ in join.types[:width])
    shown = (Column(type_, o) for o, type_ in enumerate(join.types[width:]))
    padded = BoundProject(alone, (*nulls, *shown), join.types, join.path)
    return BoundUnion((matched, padded), join.types, join.path)


def _values(relation: BoundRelation, start: int, readers: Iterable[Expr]) -> Exprs:
    """Return the columns of an input that expressions read; a constant if they read none.

    Args:
        relation: the input.
        start: the first of its columns in the expressions.
        readers: expressions over the columns of both inputs.
    """
    every = columns(relation.types)
    ordinals = {c.ordinal - start for reader in readers for c in columns_in(reader)}
    return tuple(e for o, e in enumerate(every) if o in ordinals) or (TRUE,)


def _pair_rows(join: BoundJoin, left: Exprs, condition: Expr) -> BoundRelation:
    """Return the different values of the left input, each with the rows of the right one that match."""
    width, path = len(join.left.types), join.path
    places = {value.ordinal: i for i, value in enumerate(left) if isinstance(value, Column)}
    places |= {width + o: len(left) + o for o in range(len(join.right.types))}
    different = BoundAggregate(join.left, left, (), tuple(value.type for value in left), path)
    keys = tuple(JoinKey(renumber(k.left, places), k.right, k.null_safe) for k in join.keys)
    pairs = make_join("inner", different, join.right, keys, None, path)
    return BoundFilter(pairs, renumber(condition, places), pairs.types, path)


def _match(join: BoundJoin, left: Exprs, pairs: BoundRelation) -> BoundRelation:
    """Return the rows of the left input with their pairs; a full join has no other rows here."""
    equal = zip(left, columns(pairs.types), strict=False)
    keys = tuple(JoinKey(value, other, null_safe=True) for value, other in equal)
    kind = "left" if join.kind == "full" else join.kind
    matched = make_join(kind, join.left, pairs, keys, None, join.path)
    if len(matched.types) == len(join.types):
        return matched
    width = len(join.left.types)
    places = (*range(width), *range(width + len(left), len(matched.types)))
    shown = (Column(type_, o) for type_, o in zip(join.types, places, strict=True))
    return BoundProject(matched, tuple(shown), join.types, join.path)
