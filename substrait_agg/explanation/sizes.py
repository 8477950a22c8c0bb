"""Compute the size of state rows from types alone, as the runs of an operator store them.

Sizes are those of columns in Arrow format, in which runs are stored without compression. A value of
variable size counts with its offset. Null bitmaps are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from substrait_agg.flow.graph.graph import ARRIVAL_BATCH, ARRIVAL_POSITION, TreeComponent, ValueTree
from substrait_agg.flow.graph.nodes import Node
from substrait_agg.functions.aggregates.accumulators import COUNT_DIGITS, DIGIT_BITS
from substrait_agg.plan.types import BOOL, I64, Type

OFFSET_BITS = 32
WORD_BYTES = 8
HASH_BITS, DEAD_BITS, SHOWN_BITS, CHAIN_BITS, POWER_BITS = 64, 1, 64, 16, 16
WEIGHT_BITS, RUNNING_SUM_BITS = 64, 64

BITS: dict[str, int] = {
    "bool": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "u8": 16, "u16": 32, "u32": 64, "u64": 128,
    "fp32": 32, "fp64": 64, "date": 32, "interval_year": 32, "decimal": 128, "precision_time": 64,
    "precision_timestamp": 64, "precision_timestamp_tz": 64, "interval_day": 64,
}  # fmt: skip
"""Bits per value of each kind with a fixed size."""


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes of a row, and the names of its parts that take more, depending on their values."""

    bytes: int
    varies: tuple[str, ...]


def group_size(node: Node, names: Sequence[str]) -> Size:
    """Return the size of a group's row in a run of the group tree.

    Args:
        node: the operator.
        names: names of its output columns.
    """
    fixed = sum(a.digits for a in node.accumulators if not a.floating) + COUNT_DIGITS
    bits = HASH_BITS + DEAD_BITS + SHOWN_BITS + fixed * DIGIT_BITS
    bits += sum(POWER_BITS + OFFSET_BITS for a in node.accumulators if a.floating)
    stored = node.stored_types
    bits += sum(map(type_bits, stored)) + (CHAIN_BITS if node.trees else 0)
    varies = [n for n, t in zip(names, stored, strict=False) if not is_fixed(t)]
    varies += [f"digits of a{i}" for i, a in enumerate(node.accumulators) if a.floating]
    for ordinal, side in _stored_extremes(node):
        types = component_types(node, node.trees[ordinal])
        bits += sum(map(type_bits, types))
        if not all(map(is_fixed, types)):
            varies.append(f"{side} entry of tree {ordinal}")
    return Size(-(-bits // 8), tuple(dict.fromkeys(varies)))


def entry_size(node: Node, ordinal: int, names: Sequence[str]) -> Size:
    """Return the size of a tree entry in a run; 0 if the tree has no entries.

    An entry consists of its group, its key in order-preserving form, its values and its weight.

    Args:
        node: the operator.
        ordinal: ordinal of the tree.
        names: names of the components of the tree.
    """
    tree = node.trees[ordinal]
    if tree.extremes_only:
        return Size(0, ())
    types = component_types(node, tree)
    bits = HASH_BITS + CHAIN_BITS + WEIGHT_BITS + RUNNING_SUM_BITS + sum(map(type_bits, types))
    varies = tuple(n for n, t in zip(names, types, strict=True) if not is_fixed(t))
    bits += 8 * WORD_BYTES + OFFSET_BITS if varies else 8 * WORD_BYTES * _words(node, ordinal)
    return Size(-(-bits // 8), tuple(dict.fromkeys(varies)))


def _words(node: Node, ordinal: int) -> int:
    """Return the 8-byte words of a key of fixed size.

    A key has the bytes of its values, and a flag for each value that may be null.
    """
    tree = node.trees[ordinal]
    size = 0
    for i, (type_, component) in enumerate(
        zip(component_types(node, tree), tree.components, strict=True)
    ):
        size += _key_bytes(type_) + _flagged(node, ordinal, i, component)
    return max(1, -(-size // WORD_BYTES))


def _flagged(node: Node, ordinal: int, place: int, component: TreeComponent) -> bool:
    tree = node.trees[ordinal]
    if component.argument in (ARRIVAL_BATCH, ARRIVAL_POSITION):
        return False
    condition = node.arguments[component.argument][1]
    type_ = _component_type(node, tree, component)
    nullable = node.stores_whole_rows(ordinal) or type_.nullable or condition is not None
    return nullable and (tree.elements or place not in tree.skipped)


def _stored_extremes(node: Node) -> tuple[tuple[int, str], ...]:
    """Return the extremes that are stored with a group as (tree, side), each once."""
    return tuple(dict.fromkeys((r.tree, r.side) for r in node.reads if r.side))


def component_types(node: Node, tree: ValueTree) -> tuple[Type, ...]:
    """Return the types of the components of a tree."""
    return tuple(_component_type(node, tree, c) for c in tree.components)


def _component_type(node: Node, tree: ValueTree, component: TreeComponent) -> Type:
    if component.argument in (ARRIVAL_BATCH, ARRIVAL_POSITION):
        return I64
    value, _ = node.arguments[component.argument]
    type_ = BOOL if value is None else value.type
    return type_.children[0] if tree.elements else type_


def type_bits(type_: Type) -> int:
    """Return the bits of a value of this type, or of the offset of a value of variable size."""
    if type_.kind == "struct":
        return sum(map(type_bits, type_.children))
    return BITS.get(type_.kind, OFFSET_BITS)


def is_fixed(type_: Type) -> bool:
    """Return whether all values of the type have the same size."""
    if type_.kind == "struct":
        return all(map(is_fixed, type_.children))
    return type_.kind in BITS


def _key_bytes(type_: Type) -> int:
    """Return the bytes of a value of fixed size in a key; each field of a struct has a flag."""
    if type_.kind == "struct":
        return sum(1 + _key_bytes(child) for child in type_.children)
    return max(1, BITS[type_.kind] // 8)
