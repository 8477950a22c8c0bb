"""Arrange a plan's message as a tree for people.

A message that only wraps another is merged with it, and relations come last. Branches are created
on demand, so a plan with a million fields costs nothing until they are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from substrait_agg.plan.messages.node import MessageNode
from substrait_agg.plan.messages.schema import ENUM, MESSAGE, Field
from substrait_agg.report.tree.constants import clipped, hexadecimal, quoted
from substrait_agg.report.tree.expressions import Speech, enum_text
from substrait_agg.report.tree.titles import title

MAX_WRAPPERS = 5
"""Levels of wrapper messages that are merged with the message they wrap."""

MAX_VALUE = 400
"""Characters shown of one value."""

MAX_MEMBERS = 200
"""Values shown of one repeated field."""

_HEADS = {"Rel", "Expression", "Type", "Expression.Literal"}


@dataclass(frozen=True, slots=True)
class Slot:
    """A field of a message in the tree, with `count` places from `start` on.

    A row is a single place without a subtree.
    """

    field: Field
    start: int
    count: int
    row: bool


@dataclass(slots=True, eq=False)
class TreeBranch:
    """A message of the tree, merged with the messages that only wrap it.

    Attributes:
        first: the outermost message.
        last: the innermost message, whose fields are the places below.
        parent: the enclosing branch.
        place: the place in the parent.
        depth: number of enclosing branches.
        slots: the fields of `last`, in the order to show.
    """

    first: MessageNode
    last: MessageNode
    parent: TreeBranch | None
    place: int
    depth: int
    slots: tuple[Slot, ...]
    _below: dict[int, TreeBranch] = field(default_factory=dict, repr=False)

    @property
    def step(self) -> str:
        """Return the path from the enclosing branch, such as ``arguments[0].value``."""
        steps, at = [], self.last
        while at is not self.first and at.parent is not None:
            steps.append(at.step)
            at = at.parent
        return ".".join([self.first.step, *reversed(steps)])

    @property
    def relation(self) -> bool:
        """Return whether the branch is a relation."""
        return any(node.shape.name in ("Rel", "RelRoot") for node in self.chain())

    @property
    def count(self) -> int:
        """Return the number of places below the branch."""
        return self.slots[-1].start + self.slots[-1].count if self.slots else 0

    def chain(self) -> list[MessageNode]:
        """Return the merged messages, from the outermost to the innermost."""
        nodes = [self.last]
        while nodes[-1] is not self.first and nodes[-1].parent is not None:
            nodes.append(nodes[-1].parent)
        return nodes[::-1]

    def title(self, speech: Speech) -> str:
        """Return a line that describes the message; may be empty."""
        return next(filter(None, (title(node, speech) for node in self.chain())), "")

    def slot_at(self, place: int) -> Slot:
        """Return the field that a place belongs to."""
        return next(s for s in self.slots if s.start <= place < s.start + s.count)

    def below(self, place: int) -> TreeBranch:
        """Return the branch at a place that is not a row."""
        if place not in self._below:
            slot = self.slot_at(place)
            value = self.last.values[slot.field.name]
            message = value[place - slot.start] if slot.field.repeated else value
            self._below[place] = branch(message, self, place)
        return self._below[place]

    def place_of(self, message: MessageNode) -> int | None:
        """Return the place of a message directly inside; None if it is shown as a row."""
        name, _, index = message.step.partition("[")
        slot = next(s for s in self.slots if s.field.name == name)
        return None if slot.row else slot.start + (int(index.rstrip("]")) if index else 0)


def branch(message: MessageNode, parent: TreeBranch | None = None, place: int = 0) -> TreeBranch:
    """Return the branch that starts with a message."""
    last = _innermost(message)
    depth = 0 if parent is None else parent.depth + 1
    return TreeBranch(message, last, parent, place, depth, tuple(_slots(last)))


def branches_to(root: TreeBranch, message: MessageNode) -> list[TreeBranch]:
    """Return the branches from the root to the one that shows a message.

    If the message is shown in a row, the last branch is the one with the row.
    """
    way: list[MessageNode] = []
    at: MessageNode | None = message
    while at is not None:
        way.append(at)
        at = at.parent
    branches = [root]
    for node in reversed(way):
        here = branches[-1]
        if node.parent is here.last:
            place = here.place_of(node)
            if place is None:
                break
            branches.append(here.below(place))
    return branches


def row_text(node: MessageNode, item: Field, speech: Speech) -> str:
    """Return the value of a field as one line."""
    value = node.values[item.name]
    if item.kind == MESSAGE:
        return "present, with nothing in it"
    if not item.repeated:
        return _scalar(item, value) + _meaning(item, value, speech)
    shown = ", ".join(_scalar(item, each) for each in value[:MAX_MEMBERS])
    more = len(value) - MAX_MEMBERS
    return clipped(f"[{shown}{f', … {more:,} more' if more > 0 else ''}]", 10 * MAX_VALUE)


def _meaning(item: Field, value: Any, speech: Speech) -> str:
    if item.name.endswith("function_reference") and value in speech.functions:
        return f" ({clipped(speech.functions[value], MAX_VALUE)})"
    return ""


def _scalar(item: Field, value: Any) -> str:
    if item.kind == ENUM:
        return enum_text(item.type, value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return hexadecimal(value, MAX_VALUE // 2)
    return quoted(value, MAX_VALUE) if isinstance(value, str) else str(value)


def _innermost(message: MessageNode) -> MessageNode:
    """Return the message that this one only wraps, up to `MAX_WRAPPERS` levels down.

    A message with more than one value is returned itself.
    """
    at, headed = message, message.shape.name in _HEADS
    for _ in range(MAX_WRAPPERS):
        value = next(iter(at.values.values())) if len(at.values) == 1 else None
        if not isinstance(value, MessageNode) or not value.values:
            break
        if value.shape.name in _HEADS:
            if headed and value.shape.name != "Expression.Literal":
                break
            headed = True
        at = value
    return at


def _slots(node: MessageNode) -> Iterator[Slot]:
    """Yield the fields of a message: rows first, relations last, else in the order of declaration."""
    ranked: list[tuple[int, Field, int]] = []
    for item in node.shape.by_number.values():
        held = node.values.get(item.name)
        if held is None:
            continue
        empty = isinstance(held, MessageNode) and not held.values
        if item.kind != MESSAGE or empty:
            ranked.append((0, item, 1))
        elif item.repeated or held is not None:
            count = len(held) if item.repeated else 1
            ranked.append((_rank(node, item), item, count))
    start = 0
    for rank, item, count in sorted(ranked, key=lambda entry: entry[0]):
        yield Slot(item, start, count, rank == 0)
        start += count


def _rank(node: MessageNode, item: Field) -> int:
    if item.type in ("Rel", "PlanRel"):
        return 2 if node.shape.name != "Plan" else 1
    return 3 if node.shape.name == "Plan" else 1
