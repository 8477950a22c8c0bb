"""Bound the number of groups of an operator as far as the plan alone allows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from substrait_agg.bind.bound import Constant, Expr
from substrait_agg.explanation.names import Names, say
from substrait_agg.explanation.tree import GroupCount
from substrait_agg.flow.graph.graph import Branch, OperatorOrigin, RowsOrigin
from substrait_agg.flow.graph.nodes import Node
from substrait_agg.plan.types import INTEGER_BITS

SMALL_BITS = 16
"""Integer size in bits up to which the number of values gives a useful bound."""

NAMED, NAMED_LENGTH = 4, 40
"""Number of keys that a reason names, and characters of each."""


def groups_of(node: Node, inputs: Names, below: Sequence[GroupCount]) -> GroupCount:
    """Return how many groups can exist at one time.

    Args:
        node: the operator.
        inputs: names of its input columns.
        below: the results for the operators before it.
    """
    if not node.key_types:
        return GroupCount(1, 1, "one group for all rows")
    least = sum(not ordinals for ordinals in node.sets)
    rows = _rows(node, below)
    sets = node.sets or (tuple(range(len(node.keys))),)
    values = [_values(node, ordinals) for ordinals in sets]
    each_row = None if rows is None else rows * node.windows_per_row
    bounds = [_least(v, each_row) for v in values]
    total = None if None in bounds else sum(b or 0 for b in bounds)
    if total is not None and bounds != values:
        each = ", in each grouping set" if node.sets else ""
        what = "input row" if node.windows_per_row == 1 else "input row and window of it"
        return GroupCount(least, total, f"one per {what} at most{each}")
    return GroupCount(least, total, _reason(node, inputs, many=total is None))


def _least(values: int | None, rows: int | None) -> int | None:
    known = [n for n in (values, rows) if n is not None]
    # The group of an empty set exists without any row.
    return 1 if values == 1 else min(known, default=None)


def _rows(node: Node, below: Sequence[GroupCount]) -> int | None:
    found = [_rows_from(branch, below) for branch in node.branches]
    return None if None in found else sum(n or 0 for n in found)


def _rows_from(branch: Branch, below: Sequence[GroupCount]) -> int | None:
    match branch.origin:
        case RowsOrigin(rows=rows):
            return len(rows)
        case OperatorOrigin(operator=operator):
            return below[operator].bound
        case _:
            return None


def _values(node: Node, ordinals: Sequence[int]) -> int | None:
    found = [values_of(node.keys[o]) for o in ordinals]
    return None if None in found else prod(n or 1 for n in found)


def values_of(expression: Expr) -> int | None:
    """Return the number of values of an expression, null included; None if unknown or large."""
    if isinstance(expression, Constant):
        return 1
    type_ = expression.type
    bits = 1 if type_.kind == "bool" else INTEGER_BITS.get(type_.kind, SMALL_BITS + 1)
    return (1 << bits) + type_.nullable if bits <= SMALL_BITS else None


def _reason(node: Node, inputs: Names, *, many: bool) -> str:
    told = [k for k in node.keys if (values_of(k) is None) == many]
    named = [say(k, inputs) for k in told[:NAMED]]
    named = [n if len(n) <= NAMED_LENGTH else f"{n[:NAMED_LENGTH]}..." for n in named]
    listed = ", ".join(named) + (", ..." if len(told) > NAMED else "")
    if many:
        return f"as many as there are values of {listed}"
    return f"all values that {listed} can have" if named else "one per grouping set"
