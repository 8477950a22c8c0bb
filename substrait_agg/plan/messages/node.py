"""A message of a plan after parsing, from either encoding: fields by name, with a mark for fields read.

The decoder marks every field it reads. Afterwards all unmarked fields are reported, so no field is
ignored by mistake.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from substrait_agg.plan.messages.schema import MESSAGE, Field, Shape, schema

MAX_DEPTH = 2_000
"""Largest depth of nested messages; a nested call takes three levels, a nested relation two."""

MAX_NESTING = 100
"""Largest depth of nested types and of nested constants; no real table has as many."""

MAX_VALUES = 1_000_000
"""Largest number of fields with a value in one plan."""

MAX_PATH_TEXT = 128 * 1024 * 1024
"""Largest total length of all paths of one plan, in characters.

A few deep places are cheap; millions of them would not fit in memory.
"""

_DEFAULTS: dict[str, Any] = {
    "bool": False, "string": "", "bytes": b"", "float": 0.0, "double": 0.0,
    "int32": 0, "int64": 0, "uint32": 0, "uint64": 0, "enum": 0,
}  # fmt: skip


class Unreadable(Exception):
    """The plan cannot be decoded at all; `code` and `params` are those of the problem to report.

    `offset` is the position at which reading failed, in characters of JSON or bytes of any other
    content, if it is known.
    """

    def __init__(
        self, code: str, path: str = "", *, offset: int | None = None, **params: object
    ) -> None:
        super().__init__(code)
        self.code = code
        self.path = path
        self.offset = offset
        self.params = params


class MessageNode:
    """One message: `values` by field name are scalars, `MessageNode` objects, or lists of either."""

    __slots__ = (
        "depth",
        "known_path",
        "opened",
        "parent",
        "place",
        "result",
        "shape",
        "step",
        "taken",
        "values",
    )

    def __init__(self, shape: Shape, parent: MessageNode | None = None, step: str = "") -> None:
        self.shape = shape
        self.parent = parent
        self.step = step
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.values: dict[str, Any] = {}
        self.taken: set[str] = set()
        self.opened = parent is None
        self.place = 0
        self.result: Any = None
        self.known_path: str | None = None

    @property
    def path(self) -> str:
        """Return the place in the plan message, such as ``relations[0].root.input.filter``."""
        missing = []
        node: MessageNode | None = self
        while node is not None and node.known_path is None:
            missing.append(node)
            node = node.parent
        for node in reversed(missing):
            prefix = node.parent.known_path if node.parent is not None else ""
            node.known_path = f"{prefix}.{node.step}" if prefix else node.step
        return self.known_path or ""

    def at(self, name: str) -> str:
        """Return the path of field `name`."""
        return f"{self.path}.{name}" if self.path else name

    # --- reading -----------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Return whether the field has a value, without marking it as read."""
        return name in self.values

    def which(self, oneof: str) -> str | None:
        """Return the member of `oneof` that has a value, without marking it as read."""
        for name in self.values:
            if self.shape.by_json_name[name].oneof == oneof:
                return name
        return None

    def take(self, name: str) -> Any:
        """Return the value of a scalar field, or its default, and mark the field as read."""
        self.taken.add(name)
        if name in self.values:
            return self.values[name]
        return _DEFAULTS[self.shape.by_json_name[name].kind]

    def number(self, name: str) -> int:
        """Return the value of an integer or enum field, or 0."""
        return int(self.take(name))

    def text(self, name: str) -> str:
        """Return the value of a string field, or the empty string."""
        return str(self.take(name))

    def scalars(self, name: str) -> list[Any]:
        """Return the values of a repeated scalar field."""
        self.taken.add(name)
        return list(self.values.get(name, ()))

    def message(self, name: str) -> MessageNode | None:
        """Return the message in a field, or None; unread fields of the message will be reported."""
        self.taken.add(name)
        value: MessageNode | None = self.values.get(name)
        if value is not None:
            value.opened = True
        return value

    def messages(self, name: str) -> list[MessageNode]:
        """Return the messages in a repeated field."""
        self.taken.add(name)
        values: list[MessageNode] = self.values.get(name, [])
        for item in values:
            item.opened = True
        return list(values)

    def count_nesting(self) -> int:
        """Return the number of enclosing messages of the same kind.

        Counts above `MAX_NESTING` are not exact.

        Between two types, or two constants, there are at most two other messages.
        """
        around = self.parent
        levels = 0
        for _ in range(3 * (MAX_NESTING + 1)):
            if around is None:
                break
            levels += around.shape is self.shape
            around = around.parent
        return levels

    def refuse(self) -> None:
        """Mark the whole message as read: its problem has been reported, so its fields need not be."""
        self.taken.update(self.values)
        self.opened = True

    def list_unread(self) -> Iterator[str]:
        """Return the names of unread fields with a value, in the order they were written."""
        return (name for name in self.values if name not in self.taken)

    # --- building ----------------------------------------------------------------------------

    def child(self, item: Field) -> MessageNode:
        """Return the message for the next value of `item`: a new one, or the one to merge into."""
        if not item.repeated and item.name in self.values:
            merged: MessageNode = self.values[item.name]
            return merged
        if self.depth + 1 > MAX_DEPTH:
            raise Unreadable("PLAN_TOO_DEEP", self.path[:200], limit=MAX_DEPTH)
        step = item.name
        if item.repeated:
            step = f"{item.name}[{len(self.values.get(item.name, ()))}]"
        node = MessageNode(schema().messages[item.type], self, step)
        self.put(item, node)
        return node

    def put(self, item: Field, value: Any) -> None:
        """Set a field, or append to a repeated one; a default without presence is no value."""
        if item.repeated:
            self.values.setdefault(item.name, []).append(value)
        elif item.presence or item.kind == MESSAGE or value != _DEFAULTS[item.kind]:
            self.values[item.name] = value
        else:
            self.values.pop(item.name, None)

    def other_member(self, item: Field) -> str | None:
        """Return the other member of the oneof of `item` that has a value already."""
        if not item.oneof or item.name in self.values:
            return None
        return self.which(item.oneof)


def children(node: MessageNode) -> Iterator[MessageNode]:
    """Yield the messages directly inside a message, in the order of the message's fields."""
    for item in node.shape.by_number.values():
        if item.kind == MESSAGE and item.name in node.values:
            value = node.values[item.name]
            yield from value if item.repeated else (value,)


def preorder(root: MessageNode) -> list[MessageNode]:
    """Return a message and all messages inside it, each before its children."""
    order, pending = [], [root]
    while pending:
        node = pending.pop()
        order.append(node)
        pending.extend(reversed(list(children(node))))
    return order


def nearest(root: MessageNode, path: str) -> MessageNode:
    """Return the innermost existing message along `path` from `root`."""
    node = root
    for step in path.split("."):
        name, _, index = step.partition("[")
        value = node.values.get(name)
        if isinstance(value, list) and index.rstrip("]").isdecimal():
            at = int(index.rstrip("]"))
            value = value[at] if at < len(value) else None
        if not isinstance(value, MessageNode):
            break
        node = value
    return node


def check_path_text(order: list[MessageNode]) -> None:
    """Raise an error for plans whose paths would not fit in memory.

    Raises:
        Unreadable: the paths have more than `MAX_PATH_TEXT` characters.
    """
    lengths: dict[int, int] = {}
    total = 0
    for node in order:
        above = lengths.get(id(node.parent), 0)
        lengths[id(node)] = above + len(node.step) + 1
        total += above
        if total > MAX_PATH_TEXT:
            raise Unreadable("PLAN_TOO_DEEP", "", limit=MAX_DEPTH)


def structure(root: MessageNode, identities: dict[Any, int]) -> int:
    """Return a number that is equal for equal messages, independent of their place.

    Args:
        root: the message.
        identities: numbers assigned so far; shared by all messages to compare.
    """
    numbers: dict[int, int] = {}
    for node in reversed(preorder(root)):
        parts: list[tuple[str, tuple[Any, ...]]] = []
        for name in sorted(node.values):
            item = node.shape.by_json_name[name]
            values = node.values[name] if item.repeated else [node.values[name]]
            if item.kind == MESSAGE:
                parts.append((name, tuple(numbers[id(child)] for child in values)))
            else:
                parts.append((name, tuple(repr(value) for value in values)))
        numbers[id(node)] = identities.setdefault((node.shape.name, tuple(parts)), len(identities))
    return numbers[id(root)]
