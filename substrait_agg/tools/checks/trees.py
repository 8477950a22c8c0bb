"""The trees of a version by name, and the names of their columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal as OneOf

import pyarrow as pa

from substrait_agg.commit.documents.plan_document import PlanDocument
from substrait_agg.commit.documents.snapshot import OperatorState, Snapshot
from substrait_agg.errors import UsageError
from substrait_agg.explanation.tree import NumberColumns, OperatorColumns, TreeColumns
from substrait_agg.operator.common.names import (
    CLOSED,
    GROUP,
    PENDING,
    arrangement_tree,
    entries_tree,
)
from substrait_agg.state.run import RunFile

_ORDERED = re.compile(r"tree(\d+)")
_ARRANGED = re.compile(r"rows(\d+)")

TreeForm = OneOf["groups", "entries", "rows"]
"""What a tree contains: rows by key, entries of groups in order, or weighted rows by key."""


def tree_form(name: str) -> TreeForm:
    """Return the form of the content of the tree with this name."""
    if _ORDERED.fullmatch(name):
        return "entries"
    return "rows" if _ARRANGED.fullmatch(name) else "groups"


@dataclass(frozen=True, slots=True)
class TreeRuns:
    """A tree of a version.

    Attributes:
        operator: ordinal of its operator.
        name: ``group``, ``pending``, ``tree0``, ..., ``closed``; ``rows0``, ... of a join.
    """

    operator: int
    name: str
    runs: tuple[RunFile, ...]

    @property
    def form(self) -> TreeForm:
        """Return the form of its content."""
        return tree_form(self.name)


def trees_of(ordinal: int, state: OperatorState) -> Iterator[TreeRuns]:
    """Return the trees of an operator that have runs."""
    names = sorted(state.trees, key=_place)
    return (TreeRuns(ordinal, name, state[name]) for name in names)


def _place(name: str) -> tuple[int, int]:
    """Return the sort key of a tree: groups, pending groups, entries or rows, closed groups."""
    numbered = _numbered_tree(name)
    return (2, int(numbered[1])) if numbered else ({GROUP: 0, PENDING: 1}.get(name, 3), 0)


def _numbered_tree(name: str) -> re.Match[str] | None:
    return _ORDERED.fullmatch(name) or _ARRANGED.fullmatch(name)


def all_trees(snapshot: Snapshot) -> Iterator[TreeRuns]:
    """Yield the trees of all operators of a version."""
    for ordinal, state in enumerate(snapshot.operators):
        yield from trees_of(ordinal, state)


def chosen_operator(snapshot: Snapshot, operator: int | None) -> int:
    """Return the ordinal of the chosen operator. None chooses the last.

    Raises:
        UsageError: OPERATOR_UNKNOWN.
    """
    count = len(snapshot.operators)
    if operator is None:
        return count - 1
    if 0 <= operator < count:
        return operator
    raise UsageError(
        "OPERATOR_UNKNOWN",
        f"there is no operator {operator}",
        help=f"use {f'a number from 0 to {count - 1}' if count > 1 else '0'}; state ls lists the operators",
        path="--operator",
    )


def _known_trees(state: OperatorState, shape: OperatorColumns | None) -> list[str]:
    """Return the names of the trees of an operator, also of those without runs."""
    numbers = range(0 if shape is None else len(shape.trees))
    if shape is not None and shape.kind == "join":
        return list(map(arrangement_tree, numbers))
    entries = map(entries_tree, numbers)
    return sorted({GROUP, PENDING, *entries, CLOSED, *state.trees}, key=_place)


def main_trees(state: OperatorState, shape: OperatorColumns | None) -> list[str]:
    """Return the trees that are shown if none is chosen: the groups, or the rows of a join."""
    names = _known_trees(state, shape)
    return [GROUP] if GROUP in names else names


def trees_with_runs(state: OperatorState, shape: OperatorColumns | None) -> list[str]:
    """Return the trees of an operator that have runs, also those that share them."""
    return [name for name in _known_trees(state, shape) if state[runs_of_tree(shape, name)[0]]]


def chosen_tree(state: OperatorState, shape: OperatorColumns | None, name: str) -> str:
    """Check the name of a tree of an operator. The tree may be without runs.

    Raises:
        UsageError: TREE_UNKNOWN.
    """
    names = _known_trees(state, shape)
    if name in names:
        return name
    raise UsageError(
        "TREE_UNKNOWN",
        f"this operator has no tree {name!r}",
        help=f"give one of {', '.join(names)}",
        path="--tree",
    )


def shape_of(document: PlanDocument, operator: int) -> OperatorColumns | None:
    """Return the description of an operator's columns, None if it is unknown."""
    return document.state_columns[operator] if operator < len(document.state_columns) else None


def value_columns(schema: pa.Schema) -> list[str]:
    """Return the columns of a run of groups that have values."""
    return _number(schema, "v")


def component_columns(schema: pa.Schema) -> list[str]:
    """Return the columns of a run of entries that have values."""
    return _number(schema, "p")


def _number(schema: pa.Schema, letter: str) -> list[str]:
    return [name for name in schema.names if re.fullmatch(f"{letter}\\d+", name)]


def name_columns(columns: Sequence[str], names: Sequence[str] | None) -> list[str]:
    """Return the names of columns in the plan, or the columns themselves if these are unknown."""
    if names is None or len(names) != len(columns):
        return list(columns)
    return list(names)


def describe_tree(shape: OperatorColumns | None, name: str) -> str:
    """Describe the content of a tree."""
    words = {
        GROUP: "groups",
        PENDING: "groups that wait to be emitted",
        CLOSED: "groups that are closed",
    }
    numbered = _numbered_tree(name)
    if numbered is None:
        return words[name]
    ordinal = int(numbered[1])
    tree = _tree_shape(shape, ordinal)
    if tree is None or shape is None:
        return tree_form(name)
    further = [entries_tree(i) for i, other in enumerate(shape.trees) if other.within == ordinal]
    return f"{tree.what}; also {', '.join(further)}" if further else tree.what


def _tree_shape(shape: OperatorColumns | None, ordinal: int) -> TreeColumns | None:
    return shape.trees[ordinal] if shape is not None and ordinal < len(shape.trees) else None


def runs_of_tree(shape: OperatorColumns | None, name: str) -> tuple[str, int]:
    """Return the name of the tree that has the entries of an ordered tree, and their column."""
    numbered = _ORDERED.fullmatch(name)
    if shape is None or numbered is None:
        return name, 0
    first, column = shape.runs_of(int(numbered[1]))
    return entries_tree(first), column


def component_names(shape: OperatorColumns | None, name: str) -> tuple[str, ...] | None:
    """Return the names of the values of an ordered tree or of rows, None if they are unknown."""
    numbered = _numbered_tree(name)
    tree = None if numbered is None else _tree_shape(shape, int(numbered[1]))
    return None if tree is None else tree.values


def numbers_of(shape: OperatorColumns | None) -> tuple[NumberColumns, ...]:
    """Return the accumulators of an operator, none if they are unknown."""
    return () if shape is None else shape.numbers
