"""What an operator keeps, and what each measure is read from, as text."""

from __future__ import annotations

from collections.abc import Iterator

from substrait_agg.bind.show import show
from substrait_agg.flow.graph import (
    ARRIVAL_BATCH,
    ARRIVAL_POSITION,
    COMPUTED,
    AggregateNode,
    TreeComponent,
    ValueTree,
)
from substrait_agg.functions.accumulators import Accumulator

Names = tuple[str, ...]

ARRIVAL = {ARRIVAL_BATCH: "batch", ARRIVAL_POSITION: "place in the batch"}

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
"""What the accumulators of a measure are to it; for others a count, then totals."""


def read_text(node: AggregateNode, ordinal: int) -> str:
    """What a measure is computed from."""
    read, measure = node.reads[ordinal], node.measures[ordinal]
    count = len(read.accumulators)
    roles = ROLES.get(measure.kind, ("count", *["total"] * max(0, count - 1)))[:count]
    parts = [
        f"{'total weight' if a < 0 else f'a{a}'} ({role})"
        for a, role in zip(read.accumulators, roles, strict=True)
    ]
    if read.side:
        parts.append(f"the {read.side} live entry of tree {read.tree}")
    elif read.values:
        parts.append(f"the live entries of tree {read.tree}, in order")
    return ", ".join(parts)


def state_lines(node: AggregateNode, names: Names) -> Iterator[str]:
    """Accumulators and trees; how many entries a tree has is said with the tree unless a measure reads it."""
    read = {a for r in node.reads for a in r.accumulators}
    told = [
        (i, a)
        for i, a in enumerate(node.accumulators)
        if a.kind not in ("live", "entries") or i in read
    ]
    yield f"  state per group: total weight{'; accumulators:' if told else ''}"
    for ordinal, accumulator in told:
        yield f"    a{ordinal} {_accumulator(accumulator, ordinal, node, names)}"
    for ordinal, tree in enumerate(node.trees):
        yield f"  tree {ordinal}: {_tree(tree, ordinal, node, names)}"
    if node.trees:
        yield "  state per group and tree: how many entries, how many of them live, the ends that measures read"


def _accumulator(accumulator: Accumulator, ordinal: int, node: AggregateNode, names: Names) -> str:
    readers = [str(m) for m, read in enumerate(node.reads) if ordinal in read.accumulators]
    shared = "shared by measures" if len(readers) > 1 else "of measure"
    size = f"{accumulator.digits} digits" if accumulator.digits else "digits as values need"
    if accumulator.kind == "live":
        what = f"live entries of tree {accumulator.tree}"
    else:
        of = f", over the live entries of tree {accumulator.tree}" if accumulator.tree >= 0 else ""
        what = f"{accumulator.kind} of {_summed(accumulator, node, names)}{of}"
    return f"{what}, {size}, {shared} {', '.join(readers)}"


def _summed(accumulator: Accumulator, node: AggregateNode, names: Names) -> str:
    text = argument_text(accumulator.argument, node, names)
    if accumulator.other < 0:
        return text
    return f"{text} * {argument_text(accumulator.other, node, names)}"


def argument_text(ordinal: int, node: AggregateNode, names: Names) -> str:
    """A prepared argument."""
    if ordinal in ARRIVAL:
        return ARRIVAL[ordinal]
    if ordinal >= COMPUTED:
        made = node.computed[ordinal - COMPUTED]
        given = ", ".join(argument_text(a, node, names) for a in made.arguments)
        return f"{made.implementation}.{made.column}({given})"
    value, condition = node.arguments[ordinal]
    text = "rows" if value is None else show(value, names)
    return text if condition is None else f"{text} where {show(condition, names)}"


def _tree(tree: ValueTree, ordinal: int, node: AggregateNode, names: Names) -> str:
    keys = ", ".join(
        _component(component, node, names, nulls=i not in tree.skipped)
        for i, component in enumerate(tree.components)
    )
    if ordinal == node.guard:
        return f"whole rows, to tell early retractions: {keys}"
    what = "elements of " if tree.elements else ""
    only = "" if tree.present < 0 else f", only {argument_text(tree.present, node, names)}"
    return f"ordered by {what}{keys}{only}, {_readers(ordinal, node)}"


def _component(component: TreeComponent, node: AggregateNode, names: Names, *, nulls: bool) -> str:
    text = argument_text(component.argument, node, names)
    way = " DESC" if component.descending else ""
    if not nulls or component.argument in ARRIVAL:
        return f"{text}{way}"
    return f"{text}{way} NULLS {'FIRST' if component.nulls_first else 'LAST'}"


def _readers(ordinal: int, node: AggregateNode) -> str:
    readers = [str(m) for m, read in enumerate(node.reads) if read.tree == ordinal]
    if readers:
        return f"{'shared by measures' if len(readers) > 1 else 'of measure'} {', '.join(readers)}"
    if node.trees[ordinal].follows is not None:
        return "to find the arrival of a value"
    return "followed by the arrivals of its values"
