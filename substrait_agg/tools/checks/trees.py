"""The trees of a version by name, and the names of their columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from substrait_agg.commit.documents.snapshot import OperatorState, Snapshot
from substrait_agg.commit.log.checkpoint import PlanDocument
from substrait_agg.errors import UsageError
from substrait_agg.explanation.tree import NumberColumns, OperatorColumns, TreeColumns
from substrait_agg.operator.common.names import CLOSED, GROUP, PENDING, entries_tree
from substrait_agg.state.run import RunFile

_ORDERED = re.compile(r"tree(\d+)")


@dataclass(frozen=True, slots=True)
class TreeRuns:
    """A tree of a version.

    Attributes:
        operator: ordinal of its operator.
        name: ``group``, ``pending``, ``tree0``, ..., ``closed``.
        runs: its runs.
    """

    operator: int
    name: str
    runs: tuple[RunFile, ...]

    @property
    def ordered(self) -> bool:
        """Whether it has entries instead of groups."""
        return _ORDERED.fullmatch(self.name) is not None


def trees_of(ordinal: int, state: OperatorState) -> Iterator[TreeRuns]:
    """Return the trees of an operator that have runs."""
    names = sorted(state.trees, key=_place)
    return (TreeRuns(ordinal, name, state[name]) for name in names)


def _place(name: str) -> tuple[int, int]:
    """Return the sort key of a tree: groups, pending groups, entries, closed groups."""
    found = _ORDERED.fullmatch(name)
    return (2, int(found[1])) if found else ({GROUP: 0, PENDING: 1}.get(name, 3), 0)


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
        help=f"use a number from 0 to {count - 1}; state ls lists the operators",
        path="--operator",
    )


def chosen_tree(state: OperatorState, shape: OperatorColumns | None, name: str) -> str:
    """Check the name of a tree of an operator. The tree may be without runs.

    Raises:
        UsageError: TREE_UNKNOWN.
    """
    entries = map(entries_tree, range(0 if shape is None else len(shape.trees)))
    known = sorted({GROUP, PENDING, *entries, CLOSED, *state.trees}, key=_place)
    if name in known:
        return name
    raise UsageError(
        "TREE_UNKNOWN",
        f"this operator has no tree {name!r}",
        help=f"one of {', '.join(known)}",
        path="--tree",
    )


def shape_of(document: PlanDocument, operator: int) -> OperatorColumns | None:
    """Return the description of an operator's columns, None if it is unknown."""
    return document.state_columns[operator] if operator < len(document.state_columns) else None


def value_columns(schema: pa.Schema) -> list[str]:
    """Return the columns of a run of groups that have values."""
    return _numbered(schema, "v")


def component_columns(schema: pa.Schema) -> list[str]:
    """Return the columns of a run of entries that have values."""
    return _numbered(schema, "p")


def _numbered(schema: pa.Schema, letter: str) -> list[str]:
    return [name for name in schema.names if re.fullmatch(f"{letter}\\d+", name)]


def named(columns: Sequence[str], names: Sequence[str] | None) -> list[str]:
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
    found = _ORDERED.fullmatch(name)
    if found is None:
        return words[name]
    tree = _tree_shape(shape, int(found[1]))
    return "entries" if tree is None else tree.what


def _tree_shape(shape: OperatorColumns | None, ordinal: int) -> TreeColumns | None:
    return shape.trees[ordinal] if shape is not None and ordinal < len(shape.trees) else None


def component_names(shape: OperatorColumns | None, name: str) -> tuple[str, ...] | None:
    """Return the names of the components of an ordered tree, None if they are unknown."""
    found = _ORDERED.fullmatch(name)
    tree = None if found is None else _tree_shape(shape, int(found[1]))
    return None if tree is None else tree.values


def numbers_of(shape: OperatorColumns | None) -> tuple[NumberColumns, ...]:
    """Return the accumulators of an operator, none if they are unknown."""
    return () if shape is None else shape.numbers
