"""Bind recursive relations: an anchor, and a step that reads the rows of the last level.

Spark's ``WITH RECURSIVE`` and other engines compute level by level: level 0 is the anchor, and the rows of a
level are those that the step makes of the rows of the level before. The level becomes a column of the anchor
and of everything in the step that reads the recursion. Rows of different levels never meet then, so the step
may read its rows once, and the rows are the only solution of "anchor and step of all rows".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from substrait_agg.bind.bound import (
    BoundAggregate,
    BoundFetch,
    BoundFilter,
    BoundJoin,
    BoundProject,
    BoundRecursion,
    BoundRecursiveRows,
    BoundRelation,
    BoundSetOperation,
    BoundUnion,
    BoundUnnest,
    BoundWindowValues,
    Call,
    Column,
    Constant,
    Expr,
    JoinKey,
    JoinKind,
)
from substrait_agg.bind.context import columns
from substrait_agg.bind.rewrite import inputs_of, relations_in, renumber
from substrait_agg.plan.types import I32, Type

LEVEL = I32.as_nullable(False)
"""Type of the level of a row."""


class RecursionNotSupportedError(Exception):
    """A step uses the rows of the last level in a way that cannot be computed; says how."""


def make_recursion(union: BoundRelation, call: Call, identity: str) -> BoundRecursion:
    """Return the recursion whose anchor and step are the inputs of a union.

    Args:
        union: a union of the anchor and the step.
        call: a call of the function that makes a recursion (`functions.spark_sql.RECURSION`).
        identity: identifies what both compute.

    Returns:
        The rows of all levels; the last column is the level.

    Raises:
        RecursionNotSupportedError: the step cannot be computed.
    """
    name, limit, rows = (c.value for c in call.arguments if isinstance(c, Constant))
    if not isinstance(union, BoundUnion) or len(union.inputs) != 2:
        raise RecursionNotSupportedError("a recursion is a union of an anchor and a step")
    anchor, step = (_with_types(source, union.types) for source in union.inputs)
    last_levels = (r for r in relations_in(anchor) if isinstance(r, BoundRecursiveRows))
    if any(relation.recursion == name for relation in last_levels):
        raise RecursionNotSupportedError("the anchor reads the rows of the recursion")
    leveled = _Leveling(name, identity).add_level(step)
    if leveled is None:
        raise RecursionNotSupportedError("the step does not read the rows of the recursion")
    path, types = union.path, (*union.types, LEVEL)
    *values, level = columns(types)
    first = BoundProject(anchor, (*columns(anchor.types), Constant(LEVEL, 0)), types, path)
    add = Call(LEVEL, "add", (level, Constant(LEVEL, 1)), (), (("OVERFLOW", "ERROR"),))
    following = BoundProject(leveled, (*values, add), types, path)
    return BoundRecursion((first, following), types, path, identity, limit, rows)


def misplaced_recursion(root: BoundRelation) -> BoundRecursiveRows | None:
    """Return rows of a last level that are read outside of the step of their recursion; None without any."""
    waiting: list[tuple[BoundRelation, frozenset[str]]] = [(root, frozenset())]
    while waiting:
        relation, names = waiting.pop()
        if isinstance(relation, BoundRecursiveRows) and relation.recursion not in names:
            return relation
        if isinstance(relation, BoundRecursion):
            names |= {relation.name}
        waiting += [(source, names) for source in inputs_of(relation)]
    return None


def _with_types(relation: BoundRelation, types: tuple[Type, ...]) -> BoundRelation:
    """Return a relation whose columns have the types of the union: these may be nullable where its own are not."""
    if relation.types == types:
        return relation
    values = tuple(Column(type_, i) for i, type_ in enumerate(types))
    return BoundProject(relation, values, types, relation.path)


class _Leveling:
    """Adds the level to the relations of a step that read the rows of the last one."""

    def __init__(self, name: str, identity: str) -> None:
        self._name, self._identity = name, identity
        self._made: dict[int, BoundRelation | None] = {}

    def add_level(self, relation: BoundRelation) -> BoundRelation | None:
        """Return a relation with the level as a further, last column; None if it does not read the recursion."""
        if id(relation) not in self._made:
            self._made[id(relation)] = self._add(relation)
        return self._made[id(relation)]

    def _add(self, relation: BoundRelation) -> BoundRelation | None:
        if isinstance(relation, BoundRecursiveRows):
            if relation.recursion != self._name:
                return None
            types = (*relation.types, LEVEL)
            return replace(relation, recursion=self._identity, types=types)
        inputs = tuple(self.add_level(source) for source in inputs_of(relation))
        if not any(inputs):
            return None
        place = _PLACES.get(type(relation))
        if place is None:
            name = _OTHERS.get(type(relation), "another recursion")
            raise RecursionNotSupportedError(f"{name} reads the rows of the recursion")
        return place(relation, inputs)


_Leveled = tuple[Any, ...]
"""The inputs of a relation with their levels; None for one that does not read the recursion."""


def _filter(relation: BoundFilter, inputs: _Leveled) -> BoundRelation:
    return replace(relation, input=inputs[0], types=inputs[0].types)


def _project(relation: BoundProject, inputs: _Leveled) -> BoundRelation:
    (source,) = inputs
    expressions = (*relation.expressions, _level_of(source))
    return replace(relation, input=source, expressions=expressions, types=(*relation.types, LEVEL))


def _unnest(relation: BoundUnnest, inputs: _Leveled) -> BoundRelation:
    (source,) = inputs
    unnested = replace(relation, input=source, types=(*source.types, relation.types[-1]))
    width = len(relation.input.types)
    return _level_last(unnested, (*range(width), width + 1), width)


def _union(relation: BoundUnion | BoundSetOperation, inputs: _Leveled) -> BoundRelation:
    if None not in inputs:
        return replace(relation, inputs=inputs, types=(*relation.types, LEVEL))
    first, *others = inputs
    operation = relation.operation if isinstance(relation, BoundSetOperation) else "union_all"
    if operation == "intersection_multiset" and len(inputs) == 2:
        leveled, other = (first or others[0]), relation.inputs[first is not None]
        return _with_equal(relation, "semi", leveled, other)
    if operation == "minus_primary" and len(inputs) == 2 and first is not None:
        return _with_equal(relation, "anti", first, relation.inputs[1])
    words = operation.replace("_", " ")
    raise RecursionNotSupportedError(
        f"one input of {words} reads the recursion, and another does not"
    )


def _with_equal(
    relation: BoundSetOperation | BoundUnion,
    kind: JoinKind,
    leveled: BoundRelation,
    other: BoundRelation,
) -> BoundRelation:
    """Return the distinct rows of each level that are among other rows, or are not."""
    types = (*relation.types, LEVEL)
    distinct = BoundAggregate(leveled, columns(types), (), types, relation.path)
    pairs = zip(columns(types)[:-1], columns(other.types), strict=True)
    keys = tuple(JoinKey(left, right, null_safe=True) for left, right in pairs)
    return BoundJoin(distinct, other, kind, keys, None, types, relation.path)


def _aggregate(relation: BoundAggregate, inputs: _Leveled) -> BoundRelation:
    """Return distinct rows of each level."""
    (source,) = inputs
    if relation.measures or relation.sets not in ((), (tuple(range(len(relation.keys))),)):
        raise RecursionNotSupportedError("an aggregate reads the rows of the recursion")
    keys = (*relation.keys, _level_of(source))
    sets = relation.sets and (tuple(range(len(keys))),)
    return replace(relation, input=source, keys=keys, sets=sets, types=(*relation.types, LEVEL))


_BOTH = frozenset({"inner", "left", "semi", "anti", "mark"})


def _join(relation: BoundJoin, inputs: _Leveled) -> BoundRelation:
    left, right = inputs
    if left is None and relation.kind != "inner":
        raise RecursionNotSupportedError(
            f"the right input of a {relation.kind} join reads the recursion"
        )
    if left is not None and right is not None and relation.kind not in _BOTH:
        raise RecursionNotSupportedError(
            f"both inputs of a {relation.kind} join read the recursion"
        )
    if left is not None and relation.kind == "full":
        raise RecursionNotSupportedError("an input of a full join reads the recursion")
    width, moved = len(relation.left.types), int(left is not None)
    places = {o: o if o < width else o + moved for o in range(width + len(relation.right.types))}
    keys = relation.keys
    if left is not None and right is not None:
        keys = (*keys, JoinKey(_level_of(left), _level_of(right), False))
    whole = replace(
        relation,
        left=relation.left if left is None else left,
        right=relation.right if right is None else right,
        keys=keys,
        residual=None if relation.residual is None else renumber(relation.residual, places),
        types=_join_types(relation, left, right),
    )
    # What follows the columns of the left input: those of the right one, or a mark.
    values = [o if o < width else o + moved for o in range(len(relation.types))]
    return _level_last(whole, values, width if moved else len(whole.types) - 1)


def _join_types(
    relation: BoundJoin, left: BoundRelation | None, right: BoundRelation | None
) -> tuple[Type, ...]:
    width = len(relation.left.types)
    of_left, rest = relation.types[:width], relation.types[width:]
    own_level = () if left is None else (LEVEL,)
    if relation.kind in ("semi", "anti", "mark") or right is None:
        return (*of_left, *own_level, *rest)
    return (*of_left, *own_level, *rest, LEVEL.as_nullable(relation.kind == "left"))


def _level_last(relation: BoundRelation, values: Any, level: int) -> BoundRelation:
    """Return columns of a relation, and last the column with the level."""
    every = columns(relation.types)
    expressions: tuple[Expr, ...] = (*(every[o] for o in values), every[level])
    types = tuple(e.type for e in expressions)
    return BoundProject(relation, expressions, types, relation.path)


def _level_of(relation: BoundRelation) -> Column:
    return Column(LEVEL, len(relation.types) - 1)


_PLACES: Mapping[type, Callable[[Any, _Leveled], BoundRelation]] = {
    BoundFilter: _filter,
    BoundProject: _project,
    BoundUnnest: _unnest,
    BoundUnion: _union,
    BoundSetOperation: _union,
    BoundAggregate: _aggregate,
    BoundJoin: _join,
}
"""Kind of a relation -> function that adds the level to it, given its inputs with their levels."""

_OTHERS: Mapping[type, str] = {
    BoundFetch: "a limit",
    BoundWindowValues: "a window function",
}
"""Kinds of relations that cannot read the recursion, in words."""
