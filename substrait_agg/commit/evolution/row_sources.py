"""Find the kept tree whose entries provide the rows for a new part.

The entries of a tree are rows with weights. They are the rows where the condition of the tree is
true and no skipped value is null, in the columns that are components of the tree. A tree of whole
rows has every row, in all columns that are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from substrait_agg.commit.documents.state_schema import (
    AccumulatorSchema,
    ArgumentSchema,
    OperatorSchema,
    TreeSchema,
)
from substrait_agg.required import require


class _ConstantColumn(Enum):
    TRUE = "true"


ALWAYS_TRUE: Final = _ConstantColumn.TRUE
"""Marks a column that is true in all rows, instead of a component."""

Component = int | Literal[_ConstantColumn.TRUE]
"""An ordinal of a component of a tree, or `ALWAYS_TRUE`."""


@dataclass(frozen=True, slots=True)
class RowSource:
    """Rows that are read from a tree.

    Attributes:
        tree: its ordinal among the kept trees.
        columns: (ordinal of an argument, component of the tree or `ALWAYS_TRUE`).
        capped: whether entries below zero wait for their insertion and count as no rows.
    """

    tree: int
    columns: tuple[tuple[int, Component], ...]
    capped: bool = False


@dataclass(frozen=True, slots=True)
class _Need:
    """The rows that a new part needs.

    Attributes:
        condition: fingerprint of the filter that is true in the rows.
        present: fingerprints of the values that are not null in the rows.
        arguments: ordinals of the arguments that are read.
    """

    condition: str
    present: frozenset[str]
    arguments: tuple[int, ...]


def rows_for_number(
    old_schema: OperatorSchema, now: OperatorSchema, number: AccumulatorSchema
) -> RowSource | None:
    """Return the source of the rows that an accumulator sums: the smallest suitable tree.

    Return None if no tree has them.
    """
    arguments = [now.arguments[a] for a in number.arguments]
    conditions = {argument.condition for argument in arguments}
    present = frozenset(a.value for a in arguments if a.nullable)
    need = _Need(conditions.pop(), present, number.arguments) if len(conditions) == 1 else None
    return _smallest_source(old_schema, now, number.arguments, need)


def rows_for_tree(
    old_schema: OperatorSchema, now: OperatorSchema, tree: TreeSchema
) -> RowSource | None:
    """Return the source of the rows that a tree has entries for, or None if no tree has them."""
    if tree.holds == "arrivals":
        return None
    arguments = tuple(a for a in (*tree.arguments, tree.present) if a is not None)
    if tree.holds == "whole rows":
        return _smallest_source(old_schema, now, arguments, None)
    return _smallest_source(old_schema, now, arguments, _Need(*_domain(now, tree), arguments))


def _smallest_source(
    old_schema: OperatorSchema, now: OperatorSchema, arguments: Sequence[int], need: _Need | None
) -> RowSource | None:
    plain = (
        []
        if need is None
        else [_plain(old_schema, now, i, need) for i in _trees(old_schema, "rows")]
    )
    whole = [_whole(old_schema, now, i, arguments) for i in _trees(old_schema, "whole rows")]
    sources = [rows for rows in (*plain, *whole) if rows is not None]
    return min(sources, key=lambda rows: len(old_schema.trees[rows.tree].arguments), default=None)


def _trees(schema: OperatorSchema, holds: str) -> Iterable[int]:
    return (i for i, tree in enumerate(schema.trees) if tree.holds == holds)


def _domain(operator: OperatorSchema, tree: TreeSchema) -> tuple[str, frozenset[str]]:
    """Return the condition of the rows of a tree, and the values that are never null in them.

    The values are fingerprints of nullable values only.
    """
    arguments = operator.arguments
    skipped = [arguments[require(tree.arguments[i])] for i in tree.skipped]
    by = [arguments[tree.present]] if tree.present is not None else skipped
    condition = by[0].condition if by else ""
    return condition, frozenset(a.value for a in skipped if a.nullable)


def _plain(
    old_schema: OperatorSchema, now: OperatorSchema, ordinal: int, need: _Need
) -> RowSource | None:
    tree = old_schema.trees[ordinal]
    condition, present = _domain(old_schema, tree)
    if condition != need.condition or not present <= need.present:
        return None
    places = {old_schema.arguments[require(a)].value: i for i, a in enumerate(tree.arguments)}
    return _rows(
        ordinal, need.arguments, lambda a: places.get(a.value) if a.value else ALWAYS_TRUE, now
    )


def _whole(
    old_schema: OperatorSchema, now: OperatorSchema, ordinal: int, arguments: Sequence[int]
) -> RowSource | None:
    tree = old_schema.trees[ordinal]
    places: dict[tuple[str, str], Component] = {
        _pair(old_schema.arguments[require(a)]): i for i, a in enumerate(tree.arguments)
    }
    places[("", "")] = ALWAYS_TRUE
    rows = _rows(ordinal, arguments, lambda a: places.get(_pair(a)), now)
    return rows and RowSource(rows.tree, rows.columns, capped=old_schema.early == "quarantine")


def _pair(argument: ArgumentSchema) -> tuple[str, str]:
    return argument.value, argument.condition


def _rows(
    ordinal: int,
    arguments: Sequence[int],
    place: Callable[[ArgumentSchema], Component | None],
    now: OperatorSchema,
) -> RowSource | None:
    columns = {argument: place(now.arguments[argument]) for argument in arguments}
    places = {argument: at for argument, at in columns.items() if at is not None}
    return (
        RowSource(ordinal, tuple(sorted(places.items(), key=lambda pair: pair[0])))
        if len(places) == len(columns)
        else None
    )
