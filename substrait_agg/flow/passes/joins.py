"""Lower a join: which columns of its inputs it stores, and which it passes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from substrait_agg.bind.bound import (
    BoundAggregate,
    BoundFetch,
    BoundFilter,
    BoundJoin,
    BoundPlan,
    BoundProject,
    BoundRead,
    BoundRelation,
    BoundUnion,
    BoundUnnest,
    Call,
    Column,
    Constant,
    Expr,
    JoinKey,
)
from substrait_agg.bind.context import columns
from substrait_agg.bind.plan.views import columns_read, view_name
from substrait_agg.bind.rewrite import columns_in, inputs_of
from substrait_agg.flow.graph.graph import ProjectStep
from substrait_agg.flow.graph.join import KEPT_SIDES
from substrait_agg.plan.types import BOOL

Used = Mapping[int, frozenset[int]]


@dataclass(frozen=True, slots=True)
class StoredSide:
    """What a join stores of an input.

    Attributes:
        relation: the input, without the rows that can never match if these are not in the output.
        keys: the keys, over its columns.
        shown: ordinals of its columns that the join reads besides the keys.
        arguments: the columns that are stored besides the keys.
        places: the position of each shown column among keys and arguments.
    """

    relation: BoundRelation
    keys: tuple[Expr, ...]
    shown: tuple[int, ...]
    arguments: tuple[Expr, ...]
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ViewRoot:
    """A view that other views read by its name.

    Attributes:
        root: the relation of its rows, in normal form.
        plan: its plan, which names the columns.
        stored: whether its rows are stored, so that all its columns are needed.
    """

    root: BoundRelation
    plan: BoundPlan
    stored: bool


ViewRoots = Mapping[str, ViewRoot]
"""The views of a run by name."""


def columns_used(views: Iterable[ViewRoot], by_name: ViewRoots) -> Used:
    """Return the output columns that are read of every join and fetch, by the id of the relation."""
    used: dict[int, frozenset[int]] = {}
    todo = [(v.root, frozenset(range(len(v.root.types)))) for v in views if v.stored]
    while todo:
        relation, columns = todo.pop()
        if isinstance(relation, BoundJoin | BoundFetch):
            before = used.get(id(relation))
            if before is not None and columns <= before:
                continue
            columns = columns | (before or frozenset())
            used[id(relation)] = columns
        if isinstance(relation, BoundRead) and view_name(relation) in by_name:
            view = by_name[view_name(relation)]
            ordinals = columns_read(relation, view.plan)
            todo.append((view.root, frozenset(ordinals[o] for o in columns)))
        todo += _inputs(relation, columns)
    return used


def _inputs(
    relation: BoundRelation, columns: frozenset[int]
) -> Iterable[tuple[BoundRelation, frozenset[int]]]:
    """Yield each input of a relation with the columns that are read of it."""
    match relation:
        case BoundFilter(input=source, condition=condition):
            yield source, columns | _read((condition,))
        case BoundProject(input=source, expressions=expressions):
            yield source, _read(expressions[o] for o in columns)
        case BoundUnnest(input=source, values=values):
            own = frozenset(o for o in columns if o < len(source.types))
            yield source, own | _read((values,))
        case BoundUnion(inputs=inputs):
            yield from ((source, columns) for source in inputs)
        case BoundAggregate(input=source, keys=keys, measures=measures):
            yield source, _read([*keys, *(e for m in measures for e in m.expressions)])
        case BoundJoin():
            for port, source in enumerate((relation.left, relation.right)):
                keys = tuple(side_of(key, port) for key in relation.keys)
                yield source, frozenset(find_shown(relation, port, columns)) | _read(keys)
        case _:
            # Which rows are equal, and which come first, depends on all columns.
            yield from ((i, frozenset(range(len(i.types)))) for i in inputs_of(relation))


def _read(expressions: Iterable[Expr]) -> frozenset[int]:
    return frozenset(c.ordinal for e in expressions for c in columns_in(e))


def side_of(key: JoinKey, port: int) -> Expr:
    """Return the expression of a key over the left (0) or the right (1) input."""
    return key.right if port else key.left


def find_shown(relation: BoundJoin, port: int, used: frozenset[int]) -> tuple[int, ...]:
    """Return the columns of an input that the output or the residual condition reads."""
    left = len(relation.left.types)
    residual = frozenset() if relation.residual is None else _read((relation.residual,))
    width = len(relation.right.types)
    if relation.kind in ("semi", "anti", "mark"):
        used = frozenset(o for o in used if o < left)
    read = used | residual
    if not port:
        return tuple(sorted(o for o in read if o < left))
    return tuple(sorted(o - left for o in read if left <= o < left + width))


def stored_side(relation: BoundJoin, port: int, used: frozenset[int]) -> StoredSide:
    """Return what a join stores of an input, given its output columns that are read."""
    source = relation.right if port else relation.left
    keys = tuple(side_of(key, port) for key in relation.keys)
    whole = {
        key.ordinal: place
        for place, key in reversed(tuple(enumerate(keys)))
        if isinstance(key, Column)
    }
    stored = find_shown(relation, port, used)
    arguments = tuple(o for o in stored if o not in whole)
    places = {o: len(keys) + i for i, o in enumerate(arguments)} | whole
    every = columns(source.types)
    return StoredSide(
        _matchable(relation, port, source, keys),
        keys,
        stored,
        tuple(every[o] for o in arguments),
        tuple(places[o] for o in stored),
    )


def _matchable(
    relation: BoundJoin, port: int, source: BoundRelation, keys: tuple[Expr, ...]
) -> BoundRelation:
    """Return the input without the rows whose null keys exclude them from the output."""
    if KEPT_SIDES[relation.kind][port]:
        return source
    for key, expression in zip(relation.keys, keys, strict=True):
        if not key.null_safe and expression.type.nullable:
            condition = Call(BOOL, "is_not_null", (expression,))
            source = BoundFilter(source, condition, source.types, relation.path)
    return source


def passed_columns(relation: BoundJoin, used: frozenset[int]) -> ProjectStep:
    """Return the step from the output of the operator to the columns of the relation.

    Columns that nothing reads are null.
    """
    places = {ordinal: place for place, ordinal in enumerate(sorted(used))}
    return ProjectStep(
        tuple(
            Column(type_, places[o]) if o in places else Constant(type_.as_nullable(), None)
            for o, type_ in enumerate(relation.types)
        )
    )
