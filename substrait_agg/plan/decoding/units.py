"""Order the shared subtrees of a plan, and check limits on their expanded size.

Shared subtrees are relations of the plan (``ReferenceRel``), detached expressions, and detached
relations of one relation entry.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from substrait_agg.plan.decoding.context import DecodeContext
from substrait_agg.plan.messages.node import MAX_DEPTH, MessageNode, Unreadable, preorder
from substrait_agg.plan.model import Unsupported

MAX_IN_PLACE = 200_000
"""Largest number of messages of a subtree after all references in it are expanded."""

Key = tuple[str, int, int]
"""A reference target: kind, entry of the plan's relations, ordinal in the entry (-1: the entry)."""

_DETACHED = {
    "detached_rel_ordinal": ("detached_rels", "Rel"),
    "detached_expression_ordinal": ("detached_expressions", "Expression"),
}


@dataclass(slots=True)
class Unit:
    """One subtree.

    Attributes:
        key: the key that references use.
        order: its messages, each before its children.
        references: the messages in it that refer to another unit, and the keys of these units.
        depth: levels below its root after all references are expanded.
        size: messages in it after all references are expanded.
    """

    key: Key
    order: list[MessageNode]
    references: list[tuple[MessageNode, Key]] = field(default_factory=list)
    depth: int = 0
    size: int = 0

    @property
    def root(self) -> MessageNode:
        """Return the topmost message."""
        return self.order[0]


def ordered_units(
    entries: list[MessageNode], context: DecodeContext
) -> tuple[list[Unit], dict[Key, Unit]]:
    """Return all units of the plan's relation entries, each after those it refers to, and by key.

    Invalid references and cycles are reported; the message is then decoded as `Unsupported`.

    Raises:
        Unreadable: after all references are expanded, the plan exceeds a limit.
    """
    units: dict[Key, Unit] = {}
    for index, entry in enumerate(entries):
        if not entry.has("root") and not entry.has("rel"):
            context.report_missing(entry, "root")
        _add_entry(units, index, entry)
    for unit in units.values():
        _find_references(unit, units, context)
    done: list[Unit] = []
    for unit in units.values():
        _visit(unit, units, done, context)
    return done, units


def _add_entry(units: dict[Key, Unit], index: int, entry: MessageNode) -> None:
    main = entry.message("root") if entry.has("root") else entry.message("rel")
    if main is not None:
        key = ("relation", index, -1)
        units[key] = Unit(key, preorder(main))
    for name, _ in _DETACHED.values():
        for ordinal, node in enumerate(entry.messages(name)):
            key = (name, index, ordinal)
            units[key] = Unit(key, preorder(node))


def _find_references(unit: Unit, units: dict[Key, Unit], context: DecodeContext) -> None:
    for node in unit.order:
        key = _reference(node, unit.key[1])
        if key is None:
            continue
        if key in units:
            unit.references.append((node, key))
        else:
            what, shown = _words(key)
            here = [k for k in units if k[0] == key[0] and (key[2] < 0 or k[1] == key[1])]
            context.report("REFERENCE_INVALID", node.path, what=what, index=shown, count=len(here))
            node.result = Unsupported("reference", node.path)


def _reference(node: MessageNode, entry: int) -> Key | None:
    if node.shape.name == "Rel" and node.has("reference"):
        return ("relation", node.values["reference"].values.get("subtree_ordinal", 0), -1)
    for name, (where, shape) in _DETACHED.items():
        if node.shape.name == shape and node.has(name):
            return (where, entry, node.values[name])
    return None


def _words(key: Key) -> tuple[str, int]:
    return ("relation", key[1]) if key[2] < 0 else (key[0].removesuffix("s"), key[2])


def _visit(start: Unit, units: dict[Key, Unit], done: list[Unit], context: DecodeContext) -> None:
    """Append `start` and the units it refers to, depth first without recursion."""
    path: list[tuple[Unit, int]] = [(start, 0)] if not start.size else []
    open_keys = {start.key}
    while path:
        unit, at = path.pop()
        if at == len(unit.references):
            _measure(unit, units)
            open_keys.discard(unit.key)
            done.append(unit)
            continue
        node, key = unit.references[at]
        if key in open_keys:
            what, shown = _words(key)
            context.report("REFERENCE_CYCLE", node.path, what=what, index=shown)
            node.result = Unsupported("reference", node.path)
            del unit.references[at]
            path.append((unit, at))
            continue
        path.append((unit, at + 1))
        if not units[key].size:
            open_keys.add(key)
            path.append((units[key], 0))


def _measure(unit: Unit, units: dict[Key, Unit]) -> None:
    top = unit.root.depth
    unit.size = len(unit.order) + sum(units[key].size for _, key in unit.references)
    depths = [node.depth - top for node in unit.order]
    depths += [node.depth - top + units[key].depth for node, key in unit.references]
    unit.depth = max(depths)
    if unit.depth > MAX_DEPTH:
        raise Unreadable("PLAN_TOO_DEEP", unit.root.path, limit=MAX_DEPTH)
    if unit.references and unit.size > MAX_IN_PLACE:
        limit = f"{MAX_IN_PLACE} messages after shared relations are expanded"
        raise Unreadable("PLAN_TOO_LARGE", unit.root.path, limit=limit)
