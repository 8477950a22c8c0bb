"""Trees of which nothing but their ends is kept: where rows only come, the least and greatest value tell all that `min` and `max` ask.

An entry leaves such a tree never, so no search for the one behind it is ever needed. A group's row remembers the ends, as it does
of every tree, and a number that is above zero once a value has come.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from substrait_agg.flow.graph.graph import Read, ValueTree
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
"""Kinds of values of fixed size: for others Spark would sort the rows of a batch."""


def extremes_only(shared: StateLayout) -> StateLayout:
    """What an aggregate keeps whose input has no deletions: trees whose ends are all that is read are their ends."""
    alone = {i for i, tree in enumerate(shared.trees) if _is_read_at_ends(i, tree, shared)}
    if not alone:
        return shared
    kept = list(_kept(shared.accumulators, alone))
    places = {old: new for new, (old, _) in enumerate(kept)}
    return replace(
        shared,
        trees=tuple(
            replace(tree, ends_alone=True, partial=_is_partial(tree, shared))
            if i in alone
            else tree
            for i, tree in enumerate(shared.trees)
        ),
        accumulators=tuple(accumulator for _, accumulator in kept),
        reads=tuple(_moved(read, places) for read in shared.reads),
    )


def _is_read_at_ends(ordinal: int, tree: ValueTree, shared: StateLayout) -> bool:
    readers = [read for read in shared.reads if read.tree == ordinal]
    if tree.follows or not readers or not all(read.side for read in readers):
        return False
    followed = (t.follows.tree for t in shared.trees if t.follows)
    summed = (a.tree for a in shared.accumulators if a.kind not in TREE_COUNTERS)
    return ordinal not in (*followed, *summed)


def _is_partial(tree: ValueTree, shared: StateLayout) -> bool:
    """Whether Spark orders the values as the tree does, and keeps the least and greatest of a group where it adds up."""
    if len(tree.components) > 1 or not tree.skipped or tree.components[0].descending:
        return False
    value, _ = shared.arguments[tree.components[0].argument]
    return value is not None and value.type.kind in _ORDERED_BY_SPARK


def _kept(
    accumulators: tuple[Accumulator, ...], alone: set[int]
) -> Iterator[tuple[int, Accumulator]]:
    """The accumulators with their ordinals so far; one number is left of the two of a tree."""
    for ordinal, accumulator in enumerate(accumulators):
        if accumulator.tree not in alone:
            yield ordinal, accumulator
        elif accumulator == tree_counters(accumulator.tree)[0]:
            yield ordinal, replace(accumulator, kind=MET)


def _moved(read: Read, places: dict[int, int]) -> Read:
    return replace(read, accumulators=tuple(places.get(a, a) for a in read.accumulators))
