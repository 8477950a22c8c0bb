"""Reduce trees to their extremes for append-only input.

Without deletions, the least and greatest value answer all that `min` and `max` read. An entry never
leaves such a tree, so no search for its successor is needed. The group's row stores the extremes,
as it does for every tree, and a number that is above zero once the group has a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from substrait_agg.flow.graph.graph import MeasureState, ValueTree
from substrait_agg.flow.graph.state_layout import StateLayout
from substrait_agg.functions.aggregates.accumulators import (
    MET,
    TREE_COUNTERS,
    Accumulator,
    tree_counters,
)
from substrait_agg.plan.types import INTEGER_BITS

_ORDERED_BY_SPARK = frozenset({
    *INTEGER_BITS, "bool", "date", "decimal", "fp32", "fp64", "precision_timestamp", "precision_timestamp_tz",
})  # fmt: skip
"""Kinds of values of fixed size. For other kinds Spark would sort the rows of a batch."""


def extremes_only(shared: StateLayout) -> StateLayout:
    """Return the state layout of an aggregate without deletions in its input.

    A tree of which only extremes are read keeps only these.
    """
    alone = {i for i, tree in enumerate(shared.trees) if _reads_only_extremes(i, tree, shared)}
    if not alone:
        return shared
    stored = list(_stored_accumulators(shared.accumulators, alone))
    places = {old: new for new, (old, _) in enumerate(stored)}
    return replace(
        shared,
        trees=tuple(
            replace(tree, extremes_only=True, partial=_is_partial(tree, shared))
            if i in alone
            else tree
            for i, tree in enumerate(shared.trees)
        ),
        accumulators=tuple(accumulator for _, accumulator in stored),
        reads=tuple(_moved(read, places) for read in shared.reads),
    )


def _reads_only_extremes(ordinal: int, tree: ValueTree, shared: StateLayout) -> bool:
    readers = [read for read in shared.reads if read.tree == ordinal]
    if tree.follows or not readers or not all(read.side for read in readers):
        return False
    followed = (t.follows.tree for t in shared.trees if t.follows)
    summed = (a.tree for a in shared.accumulators if a.kind not in TREE_COUNTERS)
    return ordinal not in (*followed, *summed)


def _is_partial(tree: ValueTree, shared: StateLayout) -> bool:
    """Return whether Spark can find the extremes of a group while it sums.

    It can if it orders the values as the tree does.
    """
    if len(tree.components) > 1 or not tree.skipped or tree.components[0].descending:
        return False
    value, _ = shared.arguments[tree.components[0].argument]
    return value is not None and value.type.kind in _ORDERED_BY_SPARK


def _stored_accumulators(
    accumulators: tuple[Accumulator, ...], alone: set[int]
) -> Iterator[tuple[int, Accumulator]]:
    """Yield the accumulators with their old ordinals.

    A tree with only extremes keeps one of its two counters.
    """
    for ordinal, accumulator in enumerate(accumulators):
        if accumulator.tree not in alone:
            yield ordinal, accumulator
        elif accumulator == tree_counters(accumulator.tree)[0]:
            yield ordinal, replace(accumulator, kind=MET)


def _moved(read: MeasureState, places: dict[int, int]) -> MeasureState:
    return replace(
        read, accumulators=tuple(None if a is None else places.get(a, a) for a in read.accumulators)
    )
