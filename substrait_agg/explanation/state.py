"""Describe the state of an operator, and the state that each measure reads, in words."""

from __future__ import annotations

from collections.abc import Iterator

from substrait_agg.explanation.names import Names, shown, written
from substrait_agg.explanation.sizes import entry_size, group_size
from substrait_agg.explanation.tree import (
    ExplainedAccumulator,
    ExplainedState,
    ExplainedTree,
    MeasureInput,
)
from substrait_agg.flow.graph.graph import ARRIVAL_BATCH, ARRIVAL_POSITION, COMPUTED, TreeComponent
from substrait_agg.flow.graph.nodes import Node
from substrait_agg.functions.aggregates import accumulators

ARRIVAL = {ARRIVAL_BATCH: "batch", ARRIVAL_POSITION: "place in the batch"}

DIGIT_BYTES = accumulators.DIGIT_BITS // 8

ROLES: dict[str, tuple[str, ...]] = {
    "count": ("count",),
    "sum": ("total", "count"),
    "sum0": ("total", "count"),
    "avg": ("total", "count"),
    "bool_and": ("true", "false"),
    "bool_or": ("true", "false"),
    "variance": ("count", "sum", "sum of squares"),
    "std_dev": ("count", "sum", "sum of squares"),
    "covar": ("count", "sum x", "sum y", "sum of products"),
    "corr": ("count", "sum x", "sum y", "sum of products", "sum xx", "sum yy"),
}
"""Roles of the accumulators of each kind of measure. Other kinds read a count, then totals."""


def readings(node: Node, ordinal: int) -> Iterator[MeasureInput]:
    """Yield the state that a measure is computed from."""
    read, measure = node.reads[ordinal], node.measures[ordinal]
    count = len(read.accumulators)
    roles = ROLES.get(measure.kind, ("count", *["total"] * max(0, count - 1)))[:count]
    for accumulator, role in zip(read.accumulators, roles, strict=True):
        yield MeasureInput("total weight" if accumulator < 0 else f"a{accumulator}", role)
    if read.side:
        yield MeasureInput(f"tree {read.tree}", f"{read.side} live entry")
    elif read.values:
        yield MeasureInput(f"tree {read.tree}", "live entries, in order")


def state_of(node: Node, inputs: Names, output: Names) -> ExplainedState:
    """Describe the state of an operator.

    Args:
        node: the operator.
        inputs: names of its input columns.
        output: names of its output columns.
    """
    size = group_size(node, [shown(n) for n in output])
    return ExplainedState(
        group_bytes=size.bytes,
        varies=size.varies,
        accumulators=tuple(
            _accumulator(a, i, node, inputs) for i, a in enumerate(node.accumulators)
        ),
        trees=tuple(_tree(i, node, inputs) for i in range(len(node.trees))),
    )


def _accumulator(
    accumulator: accumulators.Accumulator, ordinal: int, node: Node, names: Names
) -> ExplainedAccumulator:
    readers = tuple(m for m, read in enumerate(node.reads) if ordinal in read.accumulators)
    digits = None if accumulator.floating else accumulator.digits
    return ExplainedAccumulator(
        name=f"a{ordinal}",
        kind=accumulator.kind,
        what=_number(accumulator, node, names),
        digits=digits,
        bytes=None if digits is None else digits * DIGIT_BYTES,
        measures=readers,
    )


def _number(accumulator: accumulators.Accumulator, node: Node, names: Names) -> str:
    if accumulator.kind == "live":
        return f"live entries of tree {accumulator.tree}"
    if accumulator.kind == "entries":
        return f"entries of tree {accumulator.tree}"
    if accumulator.kind == "met":
        return f"whether tree {accumulator.tree} has met a value"
    of = f", over the live entries of tree {accumulator.tree}" if accumulator.tree >= 0 else ""
    text = argument_text(accumulator.argument, node, names)
    word = "count" if accumulator.kind == "count" else "sum"
    if accumulator.other >= 0:
        text += f" * {argument_text(accumulator.other, node, names)}"
    return f"{word} of {text}{of}"


def argument_text(ordinal: int, node: Node, names: Names) -> str:
    """Return a prepared argument as text."""
    if ordinal in ARRIVAL:
        return ARRIVAL[ordinal]
    if ordinal >= COMPUTED:
        made = node.computed[ordinal - COMPUTED]
        given = ", ".join(argument_text(a, node, names) for a in made.arguments)
        return f"{made.implementation}.{made.column}({given})"
    value, condition = node.arguments[ordinal]
    text = "rows" if value is None else written(value, names)
    return shown(text if condition is None else f"{text} where {written(condition, names)}")


def _tree(ordinal: int, node: Node, names: Names) -> ExplainedTree:
    tree = node.trees[ordinal]
    parts = [argument_text(c.argument, node, names) for c in tree.components]
    size = entry_size(node, ordinal, parts)
    readers = tuple(m for m, read in enumerate(node.reads) if read.tree == ordinal)
    return ExplainedTree(
        ordinal=ordinal,
        what=_tree_content(ordinal, node, names),
        use=_use(ordinal, node, readers),
        measures=readers,
        entry_bytes=size.bytes,
        varies=size.varies,
        ends_alone=tree.extremes_only,
    )


def _tree_content(ordinal: int, node: Node, names: Names) -> str:
    tree = node.trees[ordinal]
    keys = ", ".join(
        _component(component, node, names, nulls=i not in tree.skipped)
        for i, component in enumerate(tree.components)
    )
    if ordinal == node.guard:
        return f"whole rows: {keys}"
    what = "elements of " if tree.elements else ""
    only = "" if tree.present < 0 else f", only {argument_text(tree.present, node, names)}"
    return f"ordered by {what}{keys}{only}"


def _component(component: TreeComponent, node: Node, names: Names, *, nulls: bool) -> str:
    text = argument_text(component.argument, node, names)
    way = " DESC" if component.descending else ""
    if not nulls or component.argument in ARRIVAL:
        return f"{text}{way}"
    return f"{text}{way} NULLS {'FIRST' if component.nulls_first else 'LAST'}"


def _use(ordinal: int, node: Node, readers: tuple[int, ...]) -> str:
    if readers:
        return measures_text(readers)
    if uses := node.describe().tree_uses:
        told = ordinal == node.guard and len(uses) == 1
        return uses[ordinal] + (" and early retractions" if told else "")
    if ordinal == node.guard:
        return "to tell early retractions"
    if node.trees[ordinal].follows is not None:
        return "to find the arrival of a value"
    return "followed by the arrivals of its values"


def measures_text(readers: tuple[int, ...]) -> str:
    """Name the measures that read something."""
    listed = ", ".join(map(str, readers))
    return f"{'shared by measures' if len(readers) > 1 else 'of measure'} {listed}"
